"""The only place that opens or writes an image or a video.

Colour images are RGB uint8 of shape (height, width, 3). Files are read with Pillow, which refuses
truncated data where OpenCV returns a grey rest, and written with OpenCV, which is faster.
"""

from __future__ import annotations

import hashlib
import io
import math
import re
import stat
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageOps, JpegImagePlugin, UnidentifiedImageError

from sim2cam.errors import InputError, RepairWarning

MAX_PIXELS = 64_000_000
MAX_TEXTURE_PX = 16384
"""Both sides of the largest texture that is opened."""
IMAGE_SUFFIXES = (".jpg", ".jpeg", ".jfif", ".png", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm",
            ".tga", ".jp2")  # fmt: skip
FORMAT_NAMES = "JPEG, PNG, BMP, TIFF, WebP, PPM, TGA, JPEG 2000"
"""What ``IMAGE_SUFFIXES`` are of, in words."""
LOSSLESS_SUFFIXES = (".png", ".bmp", ".tif", ".tiff", ".ppm", ".pgm", ".tga")
"""Of files that keep every level; a TIFF that holds a JPEG is taken for one of them."""
ENVIRONMENT_MAP_SUFFIXES = (".hdr", *IMAGE_SUFFIXES)
VIDEO_SUFFIXES = (".mp4", ".mov", ".avi", ".mkv", ".webm", ".m4v")
SRGB_TO_LINEAR = np.array(
    [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in np.arange(256) / 255],
    np.float32,
)
"""Linear values of sRGB bytes (IEC 61966-2-1)."""
LUMA_WEIGHTS = (0.299, 0.587, 0.114)
"""Shares of red, green and blue in the brightness of coded values (ITU-R BT.601)."""

_FORMATS = ("JPEG", "PNG", "BMP", "TIFF", "WEBP", "PPM", "JPEG2000")
_TGA = "TGA"  # known by its suffix alone: such files begin with nothing of their own
_TEXTURE_FORMATS = (*_FORMATS, _TGA, "GIF", "DDS")
_GREY_MODES = ("1", "L", "LA", "I", "I;16", "I;16B")
_MAX_16BIT = 65535
_MAX_12BIT = 4095  # of 16 bits: as high as 12 bits reach
_ORIENTATION_TAG, _BITS_PER_SAMPLE_TAG, _MAX_SAMPLE_VALUE_TAG = 0x0112, 0x0102, 0x0119
_PNG_HEAD_BYTES, _PNG_DEPTH_OFFSET = (
    65536,
    24,
)  # bytes: of a file's first part, and where it says its depth
_TRANSPOSED_ORIENTATIONS = (5, 6, 7, 8)
_FLIPPED_X_ORIENTATIONS = (2, 3, 6, 7)  # once transposed
_FLIPPED_Y_ORIENTATIONS = (3, 4, 7, 8)
_FULL_DEPTH_FORMATS = ("PNG", "TIFF", "WEBP")
_MAX_FILE_BYTES = 4 * MAX_PIXELS + 2**16
_RADIANCE_HEADER = re.compile(
    rb"#\?(?:RADIANCE|RGBE)\n(?:[^\n]*\n){0,64}?\n-Y (\d{1,9}) \+X (\d{1,9})\n"
)
_DECODE_ERRORS = (OSError, SyntaxError, ValueError)  # what Pillow raises on damaged files


def read_size(path: Path) -> tuple[int, int]:
    """Return (width, height) in pixels as shown upright, from the header where that is enough.

    Raises:
        InputError: the file is missing, not an image, or larger than ``MAX_PIXELS``.
    """
    with _open_image(path) as image:
        width, height = image.size
        return (
            (height, width)
            if _read_orientation(path, image) in _TRANSPOSED_ORIENTATIONS
            else (width, height)
        )


@dataclass(frozen=True)
class ImageHeader:
    """What a file says of its image besides the pixels.

    Attributes:
        width, height: pixels, as shown upright.
        mode: of the pixels as stored, in Pillow's words: RGB, L, CMYK, I;16, RGBA and so on.
        exif: what EXIF holds, by its names, as far as it is numbers and words.
        quantization: the tables of a JPEG file (64 numbers each), brightness first; none of others.
        subsampling: how much coarser a JPEG file stores colour; None where that is none of these.
        orientation: as EXIF has it, 1 (upright) to 8: how the stored pixels are turned to be upright.
    """

    width: int
    height: int
    mode: str
    exif: Mapping[str, str | float]
    quantization: tuple[tuple[int, ...], ...] = ()
    subsampling: Literal["444", "422", "420"] | None = None
    orientation: int = 1

    @property
    def is_grey(self) -> bool:
        """Whether the pixels as stored have brightness alone, besides transparency."""
        return self.mode in _GREY_MODES

    @property
    def stored_size(self) -> tuple[int, int]:
        """Width and height as the camera read them, before they are turned upright."""
        turned = self.orientation in _TRANSPOSED_ORIENTATIONS
        return (self.height, self.width) if turned else (self.width, self.height)


def read_header(path: Path) -> ImageHeader:
    """Return what a file says of its image, without decoding the pixels.

    Raises:
        InputError: the file is missing, not an image, or larger than ``MAX_PIXELS``.
    """
    with _open_image(path) as image:
        width, height = image.size
        orientation = _read_orientation(path, image)
        if orientation in _TRANSPOSED_ORIENTATIONS:
            width, height = height, width
        found = ImageHeader(
            width, height, image.mode, _read_exif(path, image), orientation=orientation
        )
        if not isinstance(image, JpegImagePlugin.JpegImageFile):
            return found
        tables = tuple(tuple(table) for _, table in sorted(image.quantization.items()))
        subsampling = _SUBSAMPLINGS.get(JpegImagePlugin.get_sampling(image))
        return replace(found, quantization=tables, subsampling=subsampling)


_SUBSAMPLINGS: dict[int, Literal["444", "422", "420"]] = {0: "444", 1: "422", 2: "420"}
_MAX_EXIF_CHARACTERS = 200  # characters of an entry that are kept


def _read_exif(path: Path, image: Image.Image) -> dict[str, str | float]:
    """Return the entries of EXIF that are numbers or words."""
    try:
        exif = image.getexif()
        entries = {**exif, **exif.get_ifd(ExifTags.IFD.Exif)}
    except _DECODE_ERRORS as error:
        raise _make_damage_error(path, error) from error
    found: dict[str, str | float] = {}
    for tag, value in entries.items():
        name = ExifTags.TAGS.get(tag)
        if name and isinstance(value, str):
            printable = "".join(c if c.isprintable() else " " for c in value)
            found[name] = " ".join(printable.split())[:_MAX_EXIF_CHARACTERS]
        elif name and not isinstance(value, bytes | tuple | dict):
            try:
                found[name] = float(value)
            except (TypeError, ValueError, ZeroDivisionError):
                continue
    return found


def read_mode(path: Path) -> str:
    """Return the mode of the pixels as stored, in Pillow's words.

    Raises:
        InputError: the file is missing, not an image, or larger than ``MAX_PIXELS``.
    """
    with _open_image(path) as image:
        return image.mode


def read_orientation(path: Path) -> int:
    """Return the EXIF orientation of a file, 1 (upright) to 8.

    Raises:
        InputError: the file is missing, not an image, or larger than ``MAX_PIXELS``.
    """
    with _open_image(path) as image:
        return _read_orientation(path, image)


def get_file_size(path: Path) -> int:
    """Return the bytes of a file.

    Raises:
        InputError: there is none, or it is a folder, a pipe or a device, which nothing here reads.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise InputError(path, f"cannot be read ({error.strerror}). Check the path.") from error
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a pipe or a device"
        raise InputError(path, f"is {kind}, not a file. Name a file.")
    return status.st_size


def compute_digest(path: Path) -> str:
    """Return the SHA-256 of a file.

    Raises:
        InputError: there is none, or a larger one than any image.
    """
    return hashlib.sha256(_read_bytes(path)).hexdigest()


def check_digest(path: Path, digest: str) -> None:
    """Refuse a file that does not hold what it held when it was brought in.

    Raises:
        InputError: it does not, or is missing.
    """
    if compute_digest(path) != digest:
        raise InputError(path, "is not what it was when it was brought in. Start anew.")


def read_rgb(path: Path) -> NDArray[np.uint8]:
    """Return the image upright (EXIF applied), RGB uint8 (height, width, 3).

    16 bits are scaled to 8; where the file says that fewer are used, by these. Transparency is laid over white.

    Raises:
        InputError: the file is missing, truncated, not an image, of floating point, or larger than
            ``MAX_PIXELS``.
    """
    with _open_image(path) as image:
        if image.mode == "F":
            raise InputError(path, "floating-point pixels have no known range. Convert it to PNG.")
        try:
            upright = ImageOps.exif_transpose(image)
            if upright.mode.startswith("I"):
                values = np.asarray(upright).clip(0, _MAX_16BIT).astype(np.uint16)
                return _convert_16bit(_scale_to_16bit(path, image, values))
            rgb = _flatten_alpha(upright)
            is_deep = (
                rgb.max(initial=0) <= _MAX_12BIT // 257 and _read_bit_depth(path, image)[0] == 16
            )
        except _DECODE_ERRORS as error:
            raise _make_damage_error(path, error) from error
    layers = read_full_depth(path) if is_deep else None  # whose range may be that of fewer bits
    if layers is None or layers.rgb.dtype != np.uint16:
        return rgb
    return _convert_16bit(layers.rgb) if layers.alpha is None else rgb


def _convert_16bit(values: NDArray[np.uint16]) -> NDArray[np.uint8]:
    """Return RGB uint8 (height, width, 3) of 16-bit greys or colours."""
    scaled = np.round(values.astype(np.float64) / 257).astype(np.uint8)
    return scaled if scaled.ndim == 3 else np.ascontiguousarray(np.dstack([scaled] * 3))


def _scale_to_16bit(
    path: Path, image: Image.Image, values: NDArray[np.uint16]
) -> NDArray[np.uint16]:
    """Return 16-bit values that use all 16 bits, also where the file holds 10 or 12 bits unscaled.

    The file's own word (sBIT of PNG, bits or highest value of TIFF) is evidence; without it, values stay and a
    warning says that they may be of fewer bits.
    """
    top = int(values.max(initial=0))
    bits = _read_bit_depth(path, image)[1]
    if bits is not None and bits < 16 and top < 2**bits:
        is_scaled = not (values % 2 ** (16 - bits)).any()  # a dark image that is stored as PNG says
        white = 2**bits - 1
        return values if is_scaled else (values * (_MAX_16BIT / white)).round().astype(np.uint16)
    if 0 < top <= _MAX_12BIT and bits is None:
        warnings.warn(
            f"{path.parent}: 16-bit images in it have no value above {_MAX_12BIT} of {_MAX_16BIT}, so they are nearly black. "
            "If they hold 12 bits, multiply them by 16 or save them with 8 bits.",
            RepairWarning,
            stacklevel=3,
        )
    return values


def _read_bit_depth(path: Path, image: Image.Image) -> tuple[int, int | None]:
    """Return how many bits of a channel a file stores, and how many of 16 it says are used; None without a word."""
    if image.format == "PNG":
        with path.open("rb") as file:
            head = file.read(_PNG_HEAD_BYTES)
        stored = head[_PNG_DEPTH_OFFSET]
        chunk = head.find(b"sBIT", 0, head.find(b"IDAT"))
        said = max(head[chunk + 4 : chunk + 5 + image.mode.count("RGB") * 2]) if chunk > 0 else 0
    elif image.format == "TIFF":
        tags = image.tag_v2  # type: ignore[attr-defined]
        said = next(iter(np.ravel(tags.get(_BITS_PER_SAMPLE_TAG, 8))), 8)
        stored = 16 if said > 8 else 8
        most = next(iter(np.ravel(tags.get(_MAX_SAMPLE_VALUE_TAG, 0))), 0)
        said = int(most).bit_length() or said
    else:
        return 16 if image.mode.startswith("I") else 8, None
    return stored, int(said) if 0 < said < 16 else None


@dataclass(frozen=True, eq=False)
class FullDepthImage:
    """A picture with what eight bits of opaque colour do not hold.

    Attributes:
        rgb: (height, width, 3), of 8 or 16 bits; not laid over anything.
        alpha: (height, width), as many bits; None where all is opaque.
    """

    rgb: NDArray[Any]
    alpha: NDArray[Any] | None

    def add_levels(self, levels: NDArray[np.int16]) -> FullDepthImage:
        """Return the picture with levels (height, width, 3), of 255, added to its colours."""
        most = int(np.iinfo(self.rgb.dtype).max)
        sums = self.rgb.astype(np.int32) + most // 255 * levels.astype(np.int32)
        return FullDepthImage(sums.clip(0, most).astype(self.rgb.dtype), self.alpha)


def read_full_depth(path: Path) -> FullDepthImage | None:
    """Return the colours of a PNG, TIFF or WebP file at full depth, and its transparency, upright.

    None for other files, for those of eight opaque bits, of which ``read_rgb`` tells all, and for TIFF
    files that are not stored upright, which Pillow and OpenCV do not turn alike.

    Raises:
        InputError: the file is missing, not an image, or larger than ``MAX_PIXELS``.
    """
    with _open_image(path) as image:
        if image.format not in _FULL_DEPTH_FORMATS:
            return None
        orientation = _read_orientation(path, image)
        if image.format == "TIFF" and orientation != 1:
            return None
        try:
            pixels = cv2.imdecode(np.frombuffer(_read_bytes(path), np.uint8), cv2.IMREAD_UNCHANGED)
            if pixels is None or pixels.dtype != np.uint16:
                return _read_rgba(image) if _has_alpha(image) else None
            if pixels.ndim == 2:
                pixels = cv2.cvtColor(pixels, cv2.COLOR_GRAY2BGR)
            colours = _scale_to_16bit(path, image, pixels[..., :3].astype(np.uint16))
        except (cv2.error, *_DECODE_ERRORS) as error:
            raise _make_damage_error(path, error) from error
    pixels = np.dstack([colours, pixels[..., 3:]])
    upright = np.ascontiguousarray(_orient_pixels(pixels, orientation))
    alpha = upright[..., 3].copy() if upright.shape[2] == 4 else None
    return FullDepthImage(np.ascontiguousarray(upright[..., 2::-1]), alpha)


def _read_rgba(image: Image.Image) -> FullDepthImage:
    """Return the layers of a transparent image by Pillow: OpenCV multiplies the colours of TIFF files by what
    they hide, and loses what grey ones hide.
    """
    upright = np.asarray(ImageOps.exif_transpose(image).convert("RGBA"))
    return FullDepthImage(np.ascontiguousarray(upright[..., :3]), upright[..., 3].copy())


def read_video(path: Path) -> Iterator[NDArray[np.uint8]]:
    """Return the frames of a video one after another, RGB uint8 (height, width, 3), upright.

    Raises:
        InputError: the file is missing, not a video, without a frame, or of more than ``MAX_PIXELS``.
    """
    get_file_size(path)  # OpenCV does not say why it opens nothing
    yield from _iterate_frames(_open_video(path), path, "not a video that OpenCV can read")


def _open_video(path: Path) -> cv2.VideoCapture:
    """Open a video by its absolute path: FFmpeg takes the beginning of ``12:30.mp4`` for a protocol."""
    return cv2.VideoCapture(str(path.absolute()))


def read_frame_rate_hz(path: Path) -> float | None:
    """Return how many frames of a video are shown in a second; None where the file does not tell."""
    capture = _open_video(path)
    try:
        rate_hz = capture.get(cv2.CAP_PROP_FPS)
    finally:
        capture.release()
    return rate_hz if 0 < rate_hz < math.inf else None


def watch_camera(source: int | str) -> Iterator[NDArray[np.uint8]]:
    """Return the frames of a camera as they come, RGB uint8 (height, width, 3).

    Args:
        source: number of a camera of this computer, or the address of one in a network or of a video.

    Raises:
        InputError: there is no such camera, or it gives nothing.
    """
    name, problem = f"camera {source}", "no such camera, or another program uses it"
    if isinstance(source, str):
        name, problem = source, "nothing there that OpenCV can watch"
    yield from _iterate_frames(cv2.VideoCapture(source), name, problem)


def read_16bit(path: Path, *, channels: int = 1) -> NDArray[np.uint16]:
    """Return a 16-bit PNG (height, width), or (height, width, 3) in the order red, green, blue.

    Args:
        path: the file.
        channels: 1 or 3.

    Raises:
        InputError: the file is missing, truncated or no 16-bit image of so many planes.
    """
    with _open_image(path) as image:
        found = image.mode
        try:
            image.load()
        except _DECODE_ERRORS as error:
            raise _make_damage_error(path, error) from error
    # Pillow reads only eight of the sixteen bits of a coloured image
    pixels = cv2.imdecode(np.fromfile(path, np.uint8), cv2.IMREAD_UNCHANGED)
    if pixels is None or pixels.dtype != np.uint16 or pixels.ndim != (2 if channels == 1 else 3):
        wanted = "one channel" if channels == 1 else f"{channels} channels"
        raise InputError(path, f"expected a 16-bit image of {wanted}, found mode {found}.")
    return np.asarray(pixels if channels == 1 else pixels[..., ::-1], dtype=np.uint16)


def read_palette_indices(path: Path) -> NDArray[np.uint8]:
    """Return the numbers (height, width) of the pixels of a picture with a palette, or of a grey one.

    Raises:
        InputError: the file is missing, truncated or no such picture.
    """
    with _open_image(path) as image:
        if image.mode not in ("P", "L"):
            raise InputError(path, f"expected a picture with a palette, found mode {image.mode}.")
        try:
            return np.asarray(image, np.uint8)
        except _DECODE_ERRORS as error:
            raise _make_damage_error(path, error) from error


def read_linear_rgb(path: Path) -> NDArray[np.float32]:
    """Return linear RGB float32 (height, width, 3): of a Radiance .hdr file, or of an ordinary one.

    Raises:
        InputError: the file is missing, damaged, no image, or larger than ``MAX_PIXELS``.
    """
    if path.suffix.lower() != ".hdr":
        return np.asarray(SRGB_TO_LINEAR[read_rgb(path)])
    data = _read_bytes(path)
    header = _RADIANCE_HEADER.match(data)
    if header is None:
        raise InputError(path, "no Radiance picture with its rows from the top. Convert it.")
    height, width = map(int, header.groups())
    if not 0 < width * height <= MAX_PIXELS:
        raise InputError(path, f"{width}x{height}: more than {MAX_PIXELS} pixels. Scale it down.")
    usual = cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)  # we say it ourselves
    try:
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    except cv2.error as error:
        raise _make_damage_error(path, error) from error
    finally:
        cv2.utils.logging.setLogLevel(usual)
    if pixels is None or pixels.shape != (height, width, 3) or not np.isfinite(pixels).all():
        raise InputError(path, "not a whole image. Copy the file again.")
    return np.ascontiguousarray(pixels[..., ::-1], dtype=np.float32)


@contextmanager
def allow_large_textures() -> Iterator[None]:
    """Let libraries that open images themselves open those of up to ``MAX_TEXTURE_PX`` both ways."""
    usual = Image.MAX_IMAGE_PIXELS
    Image.MAX_IMAGE_PIXELS = MAX_TEXTURE_PX**2 // 2  # Pillow refuses twice as many
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            yield
    finally:
        Image.MAX_IMAGE_PIXELS = usual


def shrink_image(image: Image.Image, max_side_px: int, path: Path) -> NDArray[np.uint8]:
    """Return an opened image as RGB uint8 (h, w, 3), scaled down to a longest side; alpha is dropped.

    Args:
        image: as Pillow opened it.
        max_side_px: of its longer side.
        path: what it belongs to, for errors.

    Raises:
        InputError: it is truncated or damaged.
    """
    try:
        with allow_large_textures():
            if image.mode.startswith("I"):
                image = Image.fromarray(_convert_grey(image))
            image.thumbnail(
                (max_side_px, max_side_px), reducing_gap=2.0
            )  # a smaller one stays as it is
            return np.ascontiguousarray(np.asarray(image.convert("RGB")))
    except _DECODE_ERRORS as error:
        raise _make_damage_error(path, error) from error


def open_texture(data: bytes, path: Path) -> Image.Image | None:
    """Return the image of a model's image file as Pillow opens it; None of an unknown kind.

    Args:
        data: what the file holds.
        path: the model, for errors.

    Raises:
        InputError: it is damaged, of floating point, or has more than ``MAX_TEXTURE_PX`` squared pixels.
    """
    try:
        with allow_large_textures():
            image = Image.open(io.BytesIO(data), formats=_TEXTURE_FORMATS)
            if image.mode == "F":
                raise InputError(path, "of floating point. Convert it to PNG.")
            return image
    except UnidentifiedImageError:
        return None
    except Image.DecompressionBombError as error:
        problem = f"larger than {MAX_TEXTURE_PX} x {MAX_TEXTURE_PX} pixels. Scale it down."
        raise InputError(path, problem) from error
    except _DECODE_ERRORS as error:
        raise _make_damage_error(path, error) from error


def encode_jpeg(
    rgb: NDArray[np.uint8], quality: int, subsampling: Literal["444", "422", "420"] = "420"
) -> bytes:
    """Return the JPEG file of an RGB image or of a single-channel one.

    Args:
        rgb: (height, width, 3), or (height, width).
        quality: 1 to 100.
        subsampling: of colour: none, across, or both ways.
    """
    bgr = cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR) if rgb.ndim == 3 else rgb
    factor = getattr(cv2, f"IMWRITE_JPEG_SAMPLING_FACTOR_{subsampling}")
    options = [cv2.IMWRITE_JPEG_QUALITY, quality, cv2.IMWRITE_JPEG_SAMPLING_FACTOR, factor]
    return _encode(".jpg", bgr, options)


def detect_suffix(data: bytes) -> Literal[".jpg", ".png"]:
    """Return how the name of a picture's file ends, of a JPEG or PNG that this module encoded."""
    return ".png" if data.startswith(b"\x89PNG") else ".jpg"


def decode_image(data: bytes) -> NDArray[np.uint8]:
    """Return the RGB image (height, width, 3) of a JPEG or PNG file that this module encoded.

    Raises:
        ValueError: the bytes are neither, or not whole.
    """
    if detect_suffix(data) == ".png":
        with Image.open(io.BytesIO(data), formats=("PNG",)) as image:
            return _flatten_alpha(image)
    decoded = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    if decoded is None:
        raise ValueError(f"{len(data)} bytes that are not a JPEG file")
    return np.asarray(cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB), dtype=np.uint8)


def encode_full_depth(image: FullDepthImage) -> bytes:
    """Return the PNG file of a picture with its transparency, at full depth."""
    bgr = image.rgb[..., ::-1]
    pixels = bgr if image.alpha is None else np.dstack([bgr, image.alpha])
    return _encode(".png", pixels, [cv2.IMWRITE_PNG_COMPRESSION, 1])


def encode_png(pixels: NDArray[np.uint8] | NDArray[np.uint16]) -> bytes:
    """Return the PNG file of an RGB image or of a single-channel one, of 8 or 16 bits."""
    stored = cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR) if pixels.ndim == 3 else pixels
    return _encode(".png", stored, [cv2.IMWRITE_PNG_COMPRESSION, 1])


def _flatten_alpha(image: Image.Image) -> NDArray[np.uint8]:
    """Return RGB of eight bits (height, width, 3), laid over white."""
    if image.mode.startswith("I"):
        image = Image.fromarray(_convert_grey(image))
    if _has_alpha(image):
        rgba = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba)
    return np.ascontiguousarray(np.asarray(image.convert("RGB")))


def _convert_grey(image: Image.Image) -> NDArray[np.uint8]:
    """Return 16-bit greys (height, width) as bytes."""
    grey = np.asarray(image).astype(np.float64) / 257.0
    return np.round(grey).clip(0, 255).astype(np.uint8)


def _has_alpha(image: Image.Image) -> bool:
    return "A" in image.getbands() or "transparency" in image.info


def _orient_pixels(pixels: NDArray[Any], orientation: int) -> NDArray[Any]:
    """Return pixels (height, width, ...) upright, by their EXIF orientation."""
    if orientation in _TRANSPOSED_ORIENTATIONS:
        pixels = pixels.swapaxes(0, 1)
    if orientation in _FLIPPED_Y_ORIENTATIONS:
        pixels = pixels[::-1]
    return pixels[:, ::-1] if orientation in _FLIPPED_X_ORIENTATIONS else pixels


def _iterate_frames(
    capture: cv2.VideoCapture, path: Path | str, problem: str
) -> Iterator[NDArray[np.uint8]]:
    try:
        if (
            capture.get(cv2.CAP_PROP_FRAME_WIDTH) * capture.get(cv2.CAP_PROP_FRAME_HEIGHT)
            > MAX_PIXELS
        ):
            raise InputError(path, f"frames of more than {MAX_PIXELS} pixels. Scale it down.")
        going, bgr = capture.read()
        if not going:
            raise InputError(path, f"{problem}. Check it.")
        while going:
            yield np.asarray(cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB), np.uint8)
            going, bgr = capture.read()
    finally:
        capture.release()


def _encode(suffix: str, pixels: NDArray[Any], options: list[int]) -> bytes:
    done, data = cv2.imencode(suffix, pixels, options)
    if not done:
        raise ValueError(f"cannot encode {pixels.dtype} {pixels.shape} as {suffix}")
    return bytes(data.tobytes())


def _read_bytes(path: Path) -> bytes:
    if get_file_size(path) > _MAX_FILE_BYTES:
        raise InputError(path, f"larger than {_MAX_FILE_BYTES >> 20} MiB. Scale it down.")
    return path.read_bytes()


def _open_image(path: Path) -> Image.Image:
    try:
        if path.exists():
            get_file_size(path)  # opening a pipe would wait for whoever writes into it
        with warnings.catch_warnings():  # Pillow's own, of what is refused below
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            formats = (_TGA,) if path.suffix.lower() == ".tga" else _FORMATS
            image = Image.open(path, formats=formats)
    except FileNotFoundError as error:
        raise InputError(path, "no such image. Check the path, or what the list names.") from error
    except Image.DecompressionBombError as error:
        raise InputError(path, f"more than {MAX_PIXELS} pixels. Scale it down.") from error
    except UnidentifiedImageError as error:
        raise InputError(path, f"not an image ({FORMAT_NAMES} can be read).") from error
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno:
            raise InputError(path, f"cannot be read ({error.strerror}).") from error
        raise _make_damage_error(path, error) from error
    width, height = image.size
    if width * height > MAX_PIXELS:
        image.close()
        raise InputError(path, f"{width}x{height}: more than {MAX_PIXELS} pixels. Scale it down.")
    return image


def _read_orientation(path: Path, image: Image.Image) -> int:
    try:
        value = image.getexif().get(_ORIENTATION_TAG, 1)
    except _DECODE_ERRORS as error:
        raise _make_damage_error(path, error) from error
    return int(value) if value in range(1, 9) else 1


def _make_damage_error(path: Path, error: Exception) -> InputError:
    return InputError(path, f"not a whole image ({error}). Copy the file again.")
