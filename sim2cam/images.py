"""Reading and writing of images and videos, the only module that does so.

Colour images are RGB uint8 (H, W, 3). Files are read with Pillow, which rejects truncated data that
OpenCV fills with grey, and written with OpenCV, which is faster.
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
"""Maximum texture width and height."""
IMAGE_SUFFIXES = (".jpg", ".jpeg", ".jfif", ".png", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm",
            ".tga", ".jp2")  # fmt: skip
FORMAT_NAMES = "JPEG, PNG, BMP, TIFF, WebP, PPM, TGA, JPEG 2000"
"""Formats of ``IMAGE_SUFFIXES``, for messages."""
LOSSLESS_SUFFIXES = (".png", ".bmp", ".tif", ".tiff", ".ppm", ".pgm", ".tga")
"""Suffixes of lossless formats; TIFF files count as lossless even with JPEG compression."""
ENVIRONMENT_MAP_SUFFIXES = (".hdr", ".exr", *IMAGE_SUFFIXES)
VIDEO_SUFFIXES = (".mp4", ".mov", ".avi", ".mkv", ".webm", ".m4v")
SRGB_TO_LINEAR = np.array(
    [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in np.arange(256) / 255],
    np.float32,
)
"""Linear values of sRGB bytes (IEC 61966-2-1)."""
LUMA_WEIGHTS = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in luma (ITU-R BT.601)."""

_FORMATS = ("JPEG", "PNG", "BMP", "TIFF", "WEBP", "PPM", "JPEG2000")
_TGA = "TGA"  # detected by suffix, because TGA has no magic number
_TEXTURE_FORMATS = (*_FORMATS, _TGA, "GIF", "DDS")
_GREY_MODES = ("1", "L", "LA", "I", "I;16", "I;16B")
_MAX_16BIT = 65535
_MAX_12BIT = 4095
_ORIENTATION_TAG, _BITS_PER_SAMPLE_TAG, _MAX_SAMPLE_VALUE_TAG = 0x0112, 0x0102, 0x0119
_PNG_HEAD_BYTES, _PNG_DEPTH_OFFSET = 65536, 24
_TRANSPOSED_ORIENTATIONS = (5, 6, 7, 8)
_FLIPPED_X_ORIENTATIONS = (2, 3, 6, 7)  # after transposition
_FLIPPED_Y_ORIENTATIONS = (3, 4, 7, 8)
_FULL_DEPTH_FORMATS = ("PNG", "TIFF", "WEBP")
_MAX_FILE_BYTES = 4 * MAX_PIXELS + 2**16
_RADIANCE_HEADER = re.compile(
    rb"#\?(?:RADIANCE|RGBE)\n(?:[^\n]*\n){0,64}?\n-Y (\d{1,9}) \+X (\d{1,9})\n"
)
_DECODE_ERRORS = (OSError, SyntaxError, ValueError)  # raised by Pillow on damaged files


def read_size(path: Path) -> tuple[int, int]:
    """Return (width, height) in pixels after EXIF rotation.

    Raises:
        InputError: If the file is missing, not an image, or larger than ``MAX_PIXELS``.
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
    """Metadata of an image file.

    Attributes:
        width, height: Size in pixels after EXIF rotation.
        mode: Pillow mode of the stored pixels: RGB, L, CMYK, I;16, RGBA, ...
        exif: EXIF entries with a numeric or text value, by name.
        quantization: Quantization tables of a JPEG file (64 values each), luma first; else empty.
        subsampling: Chroma subsampling of a JPEG file; None if other.
        orientation: EXIF orientation, 1 (upright) to 8.
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
        """Whether the stored pixels are grey, with or without alpha."""
        return self.mode in _GREY_MODES

    @property
    def stored_size(self) -> tuple[int, int]:
        """Width and height of the stored pixels, before EXIF rotation."""
        is_transposed = self.orientation in _TRANSPOSED_ORIENTATIONS
        return (self.height, self.width) if is_transposed else (self.width, self.height)


def read_header(path: Path) -> ImageHeader:
    """Read the metadata of an image file without decoding the pixels.

    Raises:
        InputError: If the file is missing, not an image, or larger than ``MAX_PIXELS``.
    """
    with _open_image(path) as image:
        width, height = image.size
        orientation = _read_orientation(path, image)
        if orientation in _TRANSPOSED_ORIENTATIONS:
            width, height = height, width
        header = ImageHeader(
            width, height, image.mode, _read_exif(path, image), orientation=orientation
        )
        if not isinstance(image, JpegImagePlugin.JpegImageFile):
            return header
        tables = tuple(tuple(table) for _, table in sorted(image.quantization.items()))
        subsampling = _SUBSAMPLINGS.get(JpegImagePlugin.get_sampling(image))
        return replace(header, quantization=tables, subsampling=subsampling)


_SUBSAMPLINGS: dict[int, Literal["444", "422", "420"]] = {0: "444", 1: "422", 2: "420"}
_MAX_EXIF_CHARACTERS = 200  # per entry


def _read_exif(path: Path, image: Image.Image) -> dict[str, str | float]:
    try:
        exif = image.getexif()
        entries = {**exif, **exif.get_ifd(ExifTags.IFD.Exif)}
    except _DECODE_ERRORS as error:
        raise _make_damage_error(path, error) from error
    values: dict[str, str | float] = {}
    for tag, value in entries.items():
        name = ExifTags.TAGS.get(tag)
        if name and isinstance(value, str):
            printable = "".join(c if c.isprintable() else " " for c in value)
            values[name] = " ".join(printable.split())[:_MAX_EXIF_CHARACTERS]
        elif name and not isinstance(value, bytes | tuple | dict):
            try:
                values[name] = float(value)
            except (TypeError, ValueError, ZeroDivisionError):
                continue
    return values


def read_mode(path: Path) -> str:
    """Return the Pillow mode of the stored pixels.

    Raises:
        InputError: If the file is missing, not an image, or larger than ``MAX_PIXELS``.
    """
    with _open_image(path) as image:
        return image.mode


def read_orientation(path: Path) -> int:
    """Return the EXIF orientation of a file, 1 (upright) to 8.

    Raises:
        InputError: If the file is missing, not an image, or larger than ``MAX_PIXELS``.
    """
    with _open_image(path) as image:
        return _read_orientation(path, image)


def get_file_size(path: Path) -> int:
    """Return the size of a regular file in bytes.

    Raises:
        InputError: If the file is missing, a folder, a pipe or a device.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise InputError(path, f"cannot be read ({error.strerror}). Check the path.") from error
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a pipe or a device"
        raise InputError(path, f"is {kind}, not a file. Give a file.")
    return status.st_size


def compute_digest(path: Path) -> str:
    """Return the SHA-256 of a file.

    Raises:
        InputError: If the file is missing or too large for an image.
    """
    return hashlib.sha256(_read_bytes(path)).hexdigest()


def check_digest(path: Path, digest: str) -> None:
    """Raise InputError if a file changed since its digest was recorded."""
    if compute_digest(path) != digest:
        raise InputError(path, "changed since it was imported. Start the run again.")


def read_rgb(path: Path) -> NDArray[np.uint8]:
    """Read an image as RGB uint8 (H, W, 3), with EXIF rotation.

    Scales 16 bits to 8, by the significant bits if the file records them. Composites alpha over white.

    Raises:
        InputError: If the file is missing, truncated, not an image, of floating point, or larger than
            ``MAX_PIXELS``.
    """
    with _open_image(path) as image:
        if image.mode == "F":
            raise InputError(path, "has floating-point pixels of unknown range. Convert it to PNG.")
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
    # Only the full-depth reader scales by the significant bits of dark 16-bit images.
    layers = read_full_depth(path) if is_deep else None
    if layers is None or layers.rgb.dtype != np.uint16:
        return rgb
    return _convert_16bit(layers.rgb) if layers.alpha is None else rgb


def _convert_16bit(values: NDArray[np.uint16]) -> NDArray[np.uint8]:
    scaled = np.round(values.astype(np.float64) / 257).astype(np.uint8)
    return scaled if scaled.ndim == 3 else np.ascontiguousarray(np.dstack([scaled] * 3))


def _scale_to_16bit(
    path: Path, image: Image.Image, values: NDArray[np.uint16]
) -> NDArray[np.uint16]:
    """Scale unscaled 10- or 12-bit values to 16 bits.

    Uses the significant bits of the file (sBIT of PNG, bits per sample or maximum value of TIFF). Warns
    if they are missing and the values fit in 12 bits.
    """
    largest = int(values.max(initial=0))
    bits = _read_bit_depth(path, image)[1]
    if bits is not None and bits < 16 and largest < 2**bits:
        is_scaled = not (values % 2 ** (16 - bits)).any()  # dark image, scaled as PNG requires
        white = 2**bits - 1
        return values if is_scaled else (values * (_MAX_16BIT / white)).round().astype(np.uint16)
    if 0 < largest <= _MAX_12BIT and bits is None:
        warnings.warn(
            f"{path.parent}: contains 16-bit images without values above {_MAX_12BIT} of {_MAX_16BIT}, which are nearly black. "
            "If they store 12 bits, multiply them by 16 or save them with 8 bits.",
            RepairWarning,
            stacklevel=3,
        )
    return values


def _read_bit_depth(path: Path, image: Image.Image) -> tuple[int, int | None]:
    """Return stored bits per channel and significant bits; None if the file does not record them."""
    if image.format == "PNG":
        with path.open("rb") as file:
            head = file.read(_PNG_HEAD_BYTES)
        stored = head[_PNG_DEPTH_OFFSET]
        chunk = head.find(b"sBIT", 0, head.find(b"IDAT"))
        used = max(head[chunk + 4 : chunk + 5 + image.mode.count("RGB") * 2]) if chunk > 0 else 0
    elif image.format == "TIFF":
        tags = image.tag_v2  # type: ignore[attr-defined]
        used = next(iter(np.ravel(tags.get(_BITS_PER_SAMPLE_TAG, 8))), 8)
        stored = 16 if used > 8 else 8
        largest = next(iter(np.ravel(tags.get(_MAX_SAMPLE_VALUE_TAG, 0))), 0)
        used = int(largest).bit_length() or used
    else:
        return 16 if image.mode.startswith("I") else 8, None
    return stored, int(used) if 0 < used < 16 else None


@dataclass(frozen=True, eq=False)
class FullDepthImage:
    """Image with 16 bits or alpha.

    Attributes:
        rgb: Colours (H, W, 3), uint8 or uint16, not premultiplied.
        alpha: Alpha (H, W) of the same type; None if opaque.
    """

    rgb: NDArray[Any]
    alpha: NDArray[Any] | None

    def add_levels(self, levels: NDArray[np.int16]) -> FullDepthImage:
        """Add 8-bit levels (H, W, 3) to the colours."""
        white = int(np.iinfo(self.rgb.dtype).max)
        sums = self.rgb.astype(np.int32) + white // 255 * levels.astype(np.int32)
        return FullDepthImage(sums.clip(0, white).astype(self.rgb.dtype), self.alpha)


def read_full_depth(path: Path) -> FullDepthImage | None:
    """Read colours and alpha of a PNG, TIFF or WebP file at full bit depth.

    Returns:
        The upright image; None for other formats, for opaque 8-bit images, and for rotated TIFF files,
        which Pillow and OpenCV rotate differently.

    Raises:
        InputError: If the file is missing, not an image, or larger than ``MAX_PIXELS``.
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
    upright = np.ascontiguousarray(orient_pixels(pixels, orientation))
    alpha = upright[..., 3].copy() if upright.shape[2] == 4 else None
    return FullDepthImage(np.ascontiguousarray(upright[..., 2::-1]), alpha)


def _read_rgba(image: Image.Image) -> FullDepthImage:
    # Not OpenCV, which premultiplies the colours of TIFF files and drops the alpha of grey images.
    upright = np.asarray(ImageOps.exif_transpose(image).convert("RGBA"))
    return FullDepthImage(np.ascontiguousarray(upright[..., :3]), upright[..., 3].copy())


def read_video(path: Path) -> Iterator[NDArray[np.uint8]]:
    """Yield the frames of a video as upright RGB uint8 (H, W, 3).

    Raises:
        InputError: If the file is missing, not a video, without frames, or larger than ``MAX_PIXELS``.
    """
    get_file_size(path)  # OpenCV gives no reason if it fails
    yield from _iterate_frames(_open_video(path), path, "not a video that OpenCV can read")


def _open_video(path: Path) -> cv2.VideoCapture:
    # Absolute, because FFmpeg parses the prefix of ``12:30.mp4`` as a protocol.
    return cv2.VideoCapture(str(path.absolute()))


def read_frame_rate_hz(path: Path) -> float | None:
    """Return the frame rate of a video in Hz; None if the file does not record it."""
    capture = _open_video(path)
    try:
        rate_hz = capture.get(cv2.CAP_PROP_FPS)
    finally:
        capture.release()
    return rate_hz if 0 < rate_hz < math.inf else None


def watch_camera(source: int | str) -> Iterator[NDArray[np.uint8]]:
    """Yield the frames of a camera as RGB uint8 (H, W, 3).

    Args:
        source: Number of a local camera, or address of a network camera or video.

    Raises:
        InputError: If the camera does not exist or returns no frames.
    """
    name, problem = f"camera {source}", "no such camera, or it is used by another program"
    if isinstance(source, str):
        name, problem = source, "not a stream that OpenCV can read"
    yield from _iterate_frames(cv2.VideoCapture(source), name, problem)


def read_16bit(path: Path, *, channels: int = 1) -> NDArray[np.uint16]:
    """Read a 16-bit PNG as (H, W), or RGB (H, W, 3).

    Raises:
        InputError: If the file is missing, truncated or no 16-bit image with these channels.
    """
    with _open_image(path) as image:
        mode = image.mode
        try:
            image.load()
        except _DECODE_ERRORS as error:
            raise _make_damage_error(path, error) from error
    # Pillow reads only 8 of 16 bits of colour images.
    pixels = cv2.imdecode(np.fromfile(path, np.uint8), cv2.IMREAD_UNCHANGED)
    if pixels is None or pixels.dtype != np.uint16 or pixels.ndim != (2 if channels == 1 else 3):
        expected = "one channel" if channels == 1 else f"{channels} channels"
        raise InputError(path, f"expected a 16-bit image of {expected}, found mode {mode}.")
    return np.asarray(pixels if channels == 1 else pixels[..., ::-1], dtype=np.uint16)


def read_palette_indices(path: Path) -> NDArray[np.uint8]:
    """Read the pixel indices (H, W) of a palette or grey image.

    Raises:
        InputError: If the file is missing, truncated or no such image.
    """
    with _open_image(path) as image:
        if image.mode not in ("P", "L"):
            raise InputError(path, f"expected a palette image, found mode {image.mode}.")
        try:
            return np.asarray(image, np.uint8)
        except _DECODE_ERRORS as error:
            raise _make_damage_error(path, error) from error


def read_linear_rgb(path: Path) -> NDArray[np.float32]:
    """Read an image as linear RGB float32 (H, W, 3), from Radiance .hdr, OpenEXR or sRGB files.

    Raises:
        InputError: If the file is missing, damaged, not an image, or larger than ``MAX_PIXELS``; or an OpenEXR
            file without the package ``OpenEXR``.
    """
    if path.suffix.lower() == ".exr":
        return _read_exr(path)
    if path.suffix.lower() != ".hdr":
        return np.asarray(SRGB_TO_LINEAR[read_rgb(path)])
    data = _read_bytes(path)
    header = _RADIANCE_HEADER.match(data)
    if header is None:
        raise InputError(path, "not a Radiance image in top-down row order. Convert it.")
    height, width = map(int, header.groups())
    if not 0 < width * height <= MAX_PIXELS:
        raise InputError(path, f"{width}x{height}: more than {MAX_PIXELS} pixels. Scale it down.")
    log_level = cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
    try:
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    except cv2.error as error:
        raise _make_damage_error(path, error) from error
    finally:
        cv2.utils.logging.setLogLevel(log_level)
    if pixels is None or pixels.shape != (height, width, 3) or not np.isfinite(pixels).all():
        raise InputError(path, "damaged image. Copy the file again.")
    return np.ascontiguousarray(pixels[..., ::-1], dtype=np.float32)


def _read_exr(path: Path) -> NDArray[np.float32]:
    try:
        import OpenEXR
    except ImportError as error:
        raise InputError(
            path,
            'is an OpenEXR image. Run: pip install "sim2cam[panoramas]", or convert it to .hdr.',
        ) from error
    if get_file_size(path) > _MAX_FILE_BYTES:
        raise InputError(path, f"larger than {_MAX_FILE_BYTES >> 20} MiB. Scale it down.")
    try:
        with OpenEXR.File(str(path), header_only=True) as file:
            low, high = file.header()["dataWindow"]
        width, height = (int(side) for side in np.subtract(high, low) + 1)
        if not 0 < width * height <= MAX_PIXELS:
            problem = f"{width}x{height}: more than {MAX_PIXELS} pixels. Scale it down."
            raise InputError(path, problem)
        with OpenEXR.File(str(path)) as file:
            channels = file.channels()
            if "RGB" not in channels and "RGBA" not in channels:
                names = ", ".join(channels)
                raise InputError(path, f"has the channels {names}, not R, G and B. Convert it.")
            pixels = channels["RGB" if "RGB" in channels else "RGBA"].pixels[..., :3]
    except (RuntimeError, ValueError, KeyError, TypeError) as error:
        raise _make_damage_error(path, error) from error
    if pixels.shape != (height, width, 3) or not np.isfinite(pixels).all():
        raise InputError(path, "damaged image. Copy the file again.")
    return np.ascontiguousarray(pixels, dtype=np.float32).clip(0)


def encode_radiance(linear: NDArray[np.float32]) -> bytes:
    """Encode linear RGB (H, W, 3) as Radiance .hdr, with about 1 % precision."""
    return _encode(".hdr", linear[..., ::-1], [])


@contextmanager
def allow_large_textures() -> Iterator[None]:
    """Raise Pillow's size limit to ``MAX_TEXTURE_PX`` squared, for libraries that open images."""
    limit = Image.MAX_IMAGE_PIXELS
    Image.MAX_IMAGE_PIXELS = MAX_TEXTURE_PX**2 // 2  # Pillow fails at twice the limit
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            yield
    finally:
        Image.MAX_IMAGE_PIXELS = limit


def shrink_image(image: Image.Image, max_side_px: int, path: Path) -> NDArray[np.uint8]:
    """Scale an image down to a maximum side and return RGB uint8 (H, W, 3) without alpha.

    Raises:
        InputError: If the image is truncated or damaged.
    """
    try:
        with allow_large_textures():
            if image.mode.startswith("I"):
                image = Image.fromarray(_convert_grey(image))
            image.thumbnail((max_side_px, max_side_px), reducing_gap=2.0)
            return np.ascontiguousarray(np.asarray(image.convert("RGB")))
    except _DECODE_ERRORS as error:
        raise _make_damage_error(path, error) from error


def open_texture(data: bytes, path: Path) -> Image.Image | None:
    """Open a texture of a 3D model; return None if the format is unknown.

    Raises:
        InputError: If it is damaged, of floating point, or larger than ``MAX_TEXTURE_PX`` squared.
    """
    try:
        with allow_large_textures():
            image = Image.open(io.BytesIO(data), formats=_TEXTURE_FORMATS)
            if image.mode == "F":
                raise InputError(path, "has a floating-point texture. Convert it to PNG.")
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
    """Encode an RGB or grey image as JPEG."""
    bgr = cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR) if rgb.ndim == 3 else rgb
    factor = getattr(cv2, f"IMWRITE_JPEG_SAMPLING_FACTOR_{subsampling}")
    options = [cv2.IMWRITE_JPEG_QUALITY, quality, cv2.IMWRITE_JPEG_SAMPLING_FACTOR, factor]
    return _encode(".jpg", bgr, options)


def detect_suffix(data: bytes) -> Literal[".jpg", ".png"]:
    """Return the file suffix of an encoded JPEG or PNG."""
    return ".png" if data.startswith(b"\x89PNG") else ".jpg"


def decode_image(data: bytes) -> NDArray[np.uint8]:
    """Decode a JPEG or PNG to RGB (H, W, 3).

    Raises:
        ValueError: If the data are neither, or damaged.
    """
    if detect_suffix(data) == ".png":
        with Image.open(io.BytesIO(data), formats=("PNG",)) as image:
            return _flatten_alpha(image)
    decoded = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    if decoded is None:
        raise ValueError(f"{len(data)} bytes that are not a JPEG file")
    return np.asarray(cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB), dtype=np.uint8)


def encode_full_depth(image: FullDepthImage) -> bytes:
    """Encode an image with alpha as PNG at full bit depth."""
    bgr = image.rgb[..., ::-1]
    pixels = bgr if image.alpha is None else np.dstack([bgr, image.alpha])
    return _encode(".png", pixels, [cv2.IMWRITE_PNG_COMPRESSION, 1])


def encode_png(pixels: NDArray[np.uint8] | NDArray[np.uint16]) -> bytes:
    """Encode an RGB or grey image of 8 or 16 bits as PNG."""
    stored = cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR) if pixels.ndim == 3 else pixels
    return _encode(".png", stored, [cv2.IMWRITE_PNG_COMPRESSION, 1])


def _flatten_alpha(image: Image.Image) -> NDArray[np.uint8]:
    """Convert to RGB uint8 (H, W, 3), with alpha composited over white."""
    if image.mode.startswith("I"):
        image = Image.fromarray(_convert_grey(image))
    if _has_alpha(image):
        rgba = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba)
    return np.ascontiguousarray(np.asarray(image.convert("RGB")))


def _convert_grey(image: Image.Image) -> NDArray[np.uint8]:
    grey = np.asarray(image).astype(np.float64) / 257.0
    return np.round(grey).clip(0, 255).astype(np.uint8)


def _has_alpha(image: Image.Image) -> bool:
    return "A" in image.getbands() or "transparency" in image.info


def orient_pixels(pixels: NDArray[Any], orientation: int) -> NDArray[Any]:
    """Rotate and flip pixels (H, W, ...) by their EXIF orientation."""
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
            raise InputError(path, f"frames have more than {MAX_PIXELS} pixels. Scale it down.")
        is_read, bgr = capture.read()
        if not is_read:
            raise InputError(path, f"{problem}. Check it.")
        while is_read:
            yield np.asarray(cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB), np.uint8)
            is_read, bgr = capture.read()
    finally:
        capture.release()


def _encode(suffix: str, pixels: NDArray[Any], options: list[int]) -> bytes:
    is_encoded, data = cv2.imencode(suffix, pixels, options)
    if not is_encoded:
        raise ValueError(f"cannot encode {pixels.dtype} {pixels.shape} as {suffix}")
    return bytes(data.tobytes())


def _read_bytes(path: Path) -> bytes:
    if get_file_size(path) > _MAX_FILE_BYTES:
        raise InputError(path, f"larger than {_MAX_FILE_BYTES >> 20} MiB. Scale it down.")
    return path.read_bytes()


def _open_image(path: Path) -> Image.Image:
    try:
        if path.exists():
            get_file_size(path)  # opening a pipe would block
        with warnings.catch_warnings():  # large images raise an error below
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            formats = (_TGA,) if path.suffix.lower() == ".tga" else _FORMATS
            image = Image.open(path, formats=formats)
    except FileNotFoundError as error:
        raise InputError(path, "no such image. Check the path or the annotation file.") from error
    except Image.DecompressionBombError as error:
        raise InputError(path, f"more than {MAX_PIXELS} pixels. Scale it down.") from error
    except UnidentifiedImageError as error:
        raise InputError(path, f"not an image. Supported: {FORMAT_NAMES}.") from error
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
    return InputError(path, f"damaged image ({error}). Copy the file again.")
