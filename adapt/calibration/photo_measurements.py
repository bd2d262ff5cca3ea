"""Photos: what is seen in each capture, and which of them one camera took."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.adapt.calibration.board_corners import (
    BoardDetection,
    detect_board,
    detect_full_chessboard,
    select_common_shape,
)
from sim2cam.adapt.calibration.flicker import measure_row_profile
from sim2cam.adapt.calibration.illumination import (
    ToneStatistics,
    estimate_lateral_color,
    estimate_vignetting,
    measure_board_white,
    measure_exposure,
    measure_tones,
)
from sim2cam.adapt.calibration.jpeg import (
    JpegEncoding,
    estimate_jpeg_encoding,
    estimate_jpeg_quality,
    read_jpeg_encoding,
)
from sim2cam.adapt.calibration.test_chart import SensorFeatures, measure_sensor_features
from sim2cam.data.formats.video import is_video
from sim2cam.data.photo_folder import scan_photo_folder
from sim2cam.data.real_images import is_photo_folder, read_real_images
from sim2cam.errors import InputError
from sim2cam.images import ImageHeader
from sim2cam.scene.shape import Board

Floats = NDArray[np.float64]

MAX_PHOTOS = 60
"""Photos that are looked at closely; more of them hardly tell more."""
_MAX_TOTAL_PIXELS, _MIN_LARGE_PHOTOS = 240_000_000, 20
"""Of large photos as many as have so many pixels, so that it takes no longer than minutes, or that many."""
MIN_SIDE_PX = 64
"""Shorter side of the smallest picture that is taken for a photo."""

_UNSUPPORTED_SUFFIXES = (".heic", ".heif", ".avif", ".dng", ".cr2", ".nef", ".arw")
_COLOR_MODES = ("RGB", "RGBA")
_MIN_QUALITY_GAP = 10
"""Steps of JPEG quality that no file has, between those of two cameras: phones change it by less from photo to
photo."""
_MAX_DEAD_STD = 1.0  # levels, standard deviation of a row that is dead


@dataclass(frozen=True)
class PhotoFile:
    """A file and what it says of itself.

    Attributes:
        path: of the file.
        header: what it says.
        name: its path from the folder that holds all of the captures: two files never share it.
    """

    path: Path
    header: ImageHeader
    name: str

    @property
    def camera(self) -> str:
        """What took it, as far as the file says: make, model, focal length, size."""
        exif = self.header.exif
        maker = " ".join(str(exif[key]) for key in ("Make", "Model") if exif.get(key))
        focal = f"{exif['FocalLength']:g} mm" if isinstance(exif.get("FocalLength"), float) else ""
        size = "{}x{}".format(*self.header.stored_size)  # however it was held
        return ", ".join(part for part in (maker, focal, size) if part)

    @property
    def has_camera_name(self) -> bool:
        """Whether the file says what took it."""
        return bool(self.header.exif.get("Make") or self.header.exif.get("Model"))

    @property
    def encoding(self) -> str:
        """How the file is written: as which JPEG, if it is one."""
        header = self.header
        colors = f" {':'.join(header.subsampling)}" if header.subsampling else ""
        return f"JPEG{colors}" if header.quantization else "no JPEG"


@dataclass(frozen=True, eq=False)
class PhotoMeasurements:
    """What is seen in a capture.

    Attributes:
        header: of its file.
        name: of its capture.
        board_detection: of a board; None without one.
        sensor_features: of noise and edges.
        vignetting: light that corners lose; NaN where it is not told, as all that follows.
        lateral_color: (2,) how much larger red and blue are.
        metered_white: (2,) red and blue over green in what the meter takes for white.
        board_white: (2,) the same of a chessboard's light squares.
        exposure_ev: stops over the meter's exposure.
        grey_ev: stops over middle grey of what the meter goes by, which is what contrast multiplies.
        tones: how light and colour are spread.
        border_px: dead pixels at the left, top, right and bottom.
        max_level: the highest level.
        row_profile: (rows,) how the light differs from row to row of the sensor, as ``bands.row_light`` has it.
        jpeg_encoding: as which JPEG it is stored, or was before it came into its file; None where nothing tells.
    """

    header: ImageHeader
    name: str
    board_detection: BoardDetection | None
    sensor_features: SensorFeatures
    vignetting: float
    lateral_color: Floats
    metered_white: Floats
    board_white: Floats
    exposure_ev: float
    grey_ev: float
    tones: ToneStatistics
    border_px: tuple[int, int, int, int]
    max_level: int
    row_profile: Floats
    jpeg_encoding: JpegEncoding | None = None

    @property
    def is_color(self) -> bool:
        """Whether its pixels have the colours of a camera."""
        return self.header.mode in _COLOR_MODES


def list_photo_files(path: Path) -> tuple[list[PhotoFile], dict[str, str]]:
    """Return the captures of a folder, a photo or a list of photos, and why files were left out.

    Raises:
        InputError: there is nothing there, or nothing that can be used.
    """
    return open_photo_files(_list_files(path), path)


def open_photo_files(files: Iterable[Path], path: Path) -> tuple[list[PhotoFile], dict[str, str]]:
    """Return the captures in files, and why files were left out.

    Args:
        files: of photos.
        path: where they come from, for errors.

    Raises:
        InputError: there is nothing that can be used.
    """
    captures: list[PhotoFile] = []
    refused: dict[str, str] = {}
    for name, file in _name_files(list(files)).items():
        try:
            captures.append(_open_photo_file(file, name))
        except InputError as error:
            refused[name] = str(error.args[1])
    if not captures:
        reason = next(iter(refused.values()), "no photos in it. Check the path.")
        count = f"none of {len(refused)} files can be used: " if len(refused) > 1 else ""
        raise InputError(path, f"{count}{reason}")
    return captures, refused


def group_by_camera(captures: Sequence[PhotoFile]) -> dict[str, list[PhotoFile]]:
    """Return the captures of each camera, that with most captures first."""
    found: dict[str, list[PhotoFile]] = {}
    for capture in captures:
        found.setdefault(capture.camera, []).append(capture)
    return dict(sorted(found.items(), key=lambda entry: -len(entry[1])))


def group_by_encoding(captures: Sequence[PhotoFile]) -> dict[str, list[PhotoFile]]:
    """Return captures of one name by how their files are written, most first.

    That tells cameras apart where files do not say what took them; where they do, all are of one
    camera.
    """
    written: dict[str, list[PhotoFile]] = {}
    for capture in captures:
        written.setdefault("" if capture.has_camera_name else capture.encoding, []).append(capture)
    found: dict[str, list[PhotoFile]] = {}
    for name, alike in written.items():
        found |= _group_by_quality(name, alike) if name else {name: alike}
    return dict(sorted(found.items(), key=lambda entry: -len(entry[1])))


def _group_by_quality(name: str, captures: Sequence[PhotoFile]) -> dict[str, list[PhotoFile]]:
    """Return captures by their JPEG quality, where that falls into clear groups; else all by the name."""
    qualities = np.array([estimate_jpeg_quality(capture.header) or 0 for capture in captures])
    values = np.unique(qualities)
    groups = np.split(values, np.flatnonzero(np.diff(values) >= _MIN_QUALITY_GAP) + 1)
    if len(groups) == 1:
        return {name: list(captures)}
    return {
        f"{name} of quality {np.median(qualities[np.isin(qualities, group)]):.0f}": [
            capture
            for capture, quality in zip(captures, qualities, strict=True)
            if quality in group
        ]
        for group in groups
    }


def get_common_software(captures: Sequence[PhotoFile]) -> str:
    """Return what most captures say of the camera's software; nothing where they are silent."""
    named = Counter(str(capture.header.exif.get("Software", "")) for capture in captures)
    return named.most_common(1)[0][0]


def subsample_evenly(captures: Sequence[PhotoFile]) -> list[PhotoFile]:
    """Return as many captures as are looked at closely, from the first to the last."""
    header = captures[0].header
    large = max(_MIN_LARGE_PHOTOS, _MAX_TOTAL_PIXELS // (header.width * header.height))
    count = min(len(captures), MAX_PHOTOS, large)
    return [captures[i] for i in np.linspace(0, len(captures) - 1, count).round().astype(int)]


def measure_photos(
    captures: Sequence[PhotoFile], board: Board | None, progress: Callable[[int, int], None]
) -> tuple[list[PhotoMeasurements], dict[str, str]]:
    """Return what is seen in captures, and why some were left out.

    Args:
        captures: of one camera.
        board: of markers; None for chessboards.
        progress: is told how many are done, and of how many.
    """
    photos: list[PhotoMeasurements] = []
    refused: dict[str, str] = {}
    for number, capture in enumerate(captures):
        try:
            photos.append(_measure_photo_file(capture, images.read_rgb(capture.path), board))
        except InputError as error:
            refused[capture.name] = str(error.args[1])
        progress(number + 1, len(captures))
    shape = select_common_shape(
        [photo.board_detection for photo in photos if photo.board_detection]
    )
    if board is None and shape is not None:
        paths = {capture.name: capture.path for capture in captures}
        photos = [_complete_board(photo, paths[photo.name], shape) for photo in photos]
    return photos, refused


@dataclass(frozen=True, eq=False)
class CameraPhotos:
    """What is seen in the captures of one camera of several.

    Attributes:
        camera: what took them, as far as their files say.
        captures: all of them.
        photos: those that were looked at.
        other_cameras: how many captures other cameras took, by what took them.
        skipped: why files were left out, by name.
    """

    camera: str
    captures: Sequence[PhotoFile]
    photos: Sequence[PhotoMeasurements]
    other_cameras: Mapping[str, int]
    skipped: Mapping[str, str]


def measure_one_camera(
    captures: Sequence[PhotoFile],
    board: Board | None,
    progress: Callable[[int, int], None],
    preferred_camera: str = "",
) -> CameraPhotos:
    """Return what is seen in those of a camera: in those of most of which any can be read.

    Args:
        captures: of any cameras.
        board: of markers; None for chessboards.
        progress: is told how many are done, and of how many.
        preferred_camera: the camera that is looked for first, by its name.

    Raises:
        InputError: nothing can be read; naming a file.
    """
    cameras = group_by_camera(captures)
    written = {camera: group_by_encoding(alike) for camera, alike in cameras.items()}
    groups = [(camera, name) for camera, alike in written.items() for name in alike]
    groups.sort(key=lambda group: (group[0] != preferred_camera, -len(written[group[0]][group[1]])))
    refused: dict[str, str] = {}
    for camera, name in groups:
        own = written[camera][name]
        photos, broken = measure_photos(subsample_evenly(own), board, progress)
        refused |= broken
        if photos:
            others = {other: len(alike) for other, alike in cameras.items() if other != camera}
            others |= {
                f"{camera}, {other}": len(alike)
                for other, alike in written[camera].items()
                if other != name
            }
            return CameraPhotos(camera, own, photos, others, refused)
    first, reason = next(iter(refused.items()))
    raise InputError(next(c.path for c in captures if c.name == first), reason)


def select_common_size(
    photos: Sequence[PhotoMeasurements], orientation: int | None
) -> tuple[int, int]:
    """Return the width and height of most photos that were taken with the camera held one way.

    Args:
        photos: of one camera.
        orientation: as EXIF has it; None, or one that none of them has, for any.
    """
    held = [p for p in photos if p.header.orientation == orientation] or photos
    return Counter((p.header.width, p.header.height) for p in held).most_common(1)[0][0]


def select_common_orientation(photos: Sequence[PhotoMeasurements]) -> int | None:
    """Return the EXIF orientation of most photos with a board; None without any.

    Upright pictures of a camera that was held upside down, or turned the other way, show the middle of its
    lens elsewhere: what is fitted to both is neither.
    """
    found = Counter(
        photo.header.orientation for photo in photos if photo.board_detection is not None
    )
    return found.most_common(1)[0][0] if found else None


def split_by_orientation(
    photos: Sequence[PhotoMeasurements], orientation: int | None
) -> tuple[list[BoardDetection], dict[str, int]]:
    """Return the boards in photos of an EXIF orientation, and the orientations of others by name."""
    boards: list[BoardDetection] = []
    turned: dict[str, int] = {}
    for photo in photos:
        if photo.board_detection is None:
            continue
        if photo.header.orientation == orientation:
            boards.append(photo.board_detection)
        else:
            turned[photo.name] = photo.header.orientation
    return boards, turned


def measure_photo(
    rgb: NDArray[np.uint8],
    header: ImageHeader,
    name: str = "",
    detection: BoardDetection | None = None,
) -> PhotoMeasurements:
    """Return what is seen in a picture (h, w, 3).

    Args:
        rgb: its pixels.
        header: of its file.
        name: of its capture.
        detection: of the board in it; None without one.
    """
    unknown = np.full(2, np.nan)
    colored = header.mode in _COLOR_MODES
    exposure, grey, white = measure_exposure(rgb)
    on_board = detection is not None and detection.pattern_shape is not None and colored
    return PhotoMeasurements(
        header,
        name,
        detection,
        measure_sensor_features(rgb, is_color=colored),
        estimate_vignetting(rgb),
        estimate_lateral_color(rgb) if colored else unknown,
        white if colored else unknown,
        measure_board_white(rgb, detection) if on_board and detection else unknown,
        exposure,
        grey,
        measure_tones(rgb),
        _measure_border(rgb),
        int(rgb.max()),
        measure_row_profile(
            rgb.swapaxes(0, 1) if header.stored_size != (header.width, header.height) else rgb
        ),
    )


def _list_files(path: Path) -> list[Path]:
    if not path.exists():
        raise InputError(path, "no such file or folder. Check the path.")
    if path.is_file() and path.suffix.lower() != ".json" and not is_video(path):
        return [path]
    if is_photo_folder(path):
        found = scan_photo_folder(path)
        unread, found.unsupported = (
            found.unsupported,
            [],
        )  # reported with other files that cannot be used
        found.warn()
        if found.photos or unread:
            return sorted([*found.photos, *unread])
    return [sample.rgb for sample in read_real_images(path, skip_invalid=True).samples]


def _name_files(files: Sequence[Path]) -> dict[str, Path]:
    """Return files by their paths from the folder that holds all of them; each file once."""
    places = {file.absolute(): file for file in files}
    folder = os.path.commonpath([place.parent for place in places]) if places else ""
    return {place.relative_to(folder).as_posix(): file for place, file in places.items()}


def _open_photo_file(path: Path, name: str) -> PhotoFile:
    suffix = path.suffix.lower()
    if suffix in _UNSUPPORTED_SUFFIXES:
        raise InputError(path, f"{suffix[1:].upper()} is not read. Export it as JPEG, unedited.")
    header = images.read_header(path)
    if min(header.width, header.height) < MIN_SIDE_PX:
        size = f"{header.width}x{header.height}"
        raise InputError(
            path, f"{size} pixels are no photo. Both sides have {MIN_SIDE_PX} or more."
        )
    return PhotoFile(path, header, name)


def _measure_photo_file(
    capture: PhotoFile, rgb: NDArray[np.uint8], board: Board | None
) -> PhotoMeasurements:
    sighting = detect_board(capture.name, np.ascontiguousarray(rgb[..., 1]), board)
    photo = measure_photo(rgb, capture.header, capture.name, sighting)
    return replace(
        photo, jpeg_encoding=read_jpeg_encoding(capture.header) or estimate_jpeg_encoding(rgb)
    )


def _complete_board(
    photo: PhotoMeasurements, path: Path, pattern_shape: tuple[int, int]
) -> PhotoMeasurements:
    """Return a photo with the whole board, where a part or none was found and it shows the whole."""
    if photo.board_detection is not None and photo.board_detection.pattern_shape == pattern_shape:
        return photo
    grey = np.ascontiguousarray(images.read_rgb(path)[..., 1])
    return replace(
        photo,
        board_detection=detect_full_chessboard(photo.name, grey, pattern_shape)
        or photo.board_detection,
    )


def _measure_border(rgb: NDArray[np.uint8]) -> tuple[int, int, int, int]:
    """Return how many columns and rows at each side hold one level, as where a sensor is masked."""
    columns = rgb.swapaxes(0, 1)
    return (
        _count_dead_lines(columns),
        _count_dead_lines(rgb),
        _count_dead_lines(columns[::-1]),
        _count_dead_lines(rgb[::-1]),
    )


def _count_dead_lines(lines: NDArray[np.uint8]) -> int:
    """Return how many of the first lines (n, m, 3) hold one level each."""
    return sum(1 for _ in takewhile(lambda line: line.std(axis=0).max() < _MAX_DEAD_STD, lines))
