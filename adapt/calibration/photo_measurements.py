"""Measurements of photos, and their assignment to cameras."""

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
from sim2cam.adapt.calibration.calibration_chart import SensorFeatures, measure_sensor_features
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
from sim2cam.data.formats.video import is_video
from sim2cam.data.photo_folder import scan_photo_folder
from sim2cam.data.real_images import is_photo_folder, read_real_images
from sim2cam.errors import InputError
from sim2cam.images import ImageHeader
from sim2cam.objects.board import Board

Floats = NDArray[np.float64]

MAX_PHOTOS = 60
"""Maximum number of photos to measure; more hardly improve the estimates."""
_MAX_TOTAL_PIXELS, _MIN_LARGE_PHOTOS = 240_000_000, 20
"""Limits for large photos: total pixels (bounds the time to minutes), but at least this count."""
MIN_SIDE_PX = 64
"""Minimum of the shorter side of a photo."""

_UNSUPPORTED_SUFFIXES = (".heic", ".heif", ".avif", ".dng", ".cr2", ".nef", ".arw")
_COLOR_MODES = ("RGB", "RGBA")
_MIN_QUALITY_GAP = 10
"""Minimum gap in JPEG quality between two cameras; one phone varies by less from photo to photo."""
_MAX_DEAD_STD = 1.0  # levels, maximum standard deviation of a masked row


@dataclass(frozen=True)
class PhotoFile:
    """Photo file with its header.

    Attributes:
        path: path of the file.
        header: header of the file.
        name: unique path relative to the common folder of all photos.
    """

    path: Path
    header: ImageHeader
    name: str

    @property
    def camera(self) -> str:
        """Camera according to the file: make, model, focal length and size."""
        exif = self.header.exif
        maker = " ".join(str(exif[key]) for key in ("Make", "Model") if exif.get(key))
        focal = f"{exif['FocalLength']:g} mm" if isinstance(exif.get("FocalLength"), float) else ""
        size = "{}x{}".format(*self.header.stored_size)  # before EXIF rotation
        return ", ".join(part for part in (maker, focal, size) if part)

    @property
    def has_camera_name(self) -> bool:
        """Whether the file names the camera."""
        return bool(self.header.exif.get("Make") or self.header.exif.get("Model"))

    @property
    def encoding(self) -> str:
        """Encoding of the file: JPEG with its chroma subsampling, or no JPEG."""
        header = self.header
        colors = f" {':'.join(header.subsampling)}" if header.subsampling else ""
        return f"JPEG{colors}" if header.quantization else "no JPEG"


@dataclass(frozen=True, eq=False)
class PhotoMeasurements:
    """Measurements of one photo; unknown numbers are NaN.

    Attributes:
        header: header of the file.
        name: name of the photo.
        board_detection: calibration board; None without one.
        sensor_features: features of noise and edges.
        vignetting: share of light lost in the corners.
        lateral_color: (2,) relative scale of red and blue minus 1.
        metered_white: (2,) red and blue over green of the white that auto white balance estimates.
        board_white: (2,) red and blue over green of a chessboard's light squares.
        exposure_ev: stops over the exposure of auto exposure.
        grey_ev: metered light in stops over middle grey, which contrast multiplies.
        tones: statistics of light and colour.
        border_px: masked pixels at the left, top, right and bottom.
        max_level: highest level.
        row_profile: (rows,) log light by sensor row, see ``flicker.measure_row_profile``.
        jpeg_encoding: JPEG encoding of the file or of its pixels before; None if unknown.
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
        """Whether the file stores colour."""
        return self.header.mode in _COLOR_MODES


def list_photo_files(path: Path) -> tuple[list[PhotoFile], dict[str, str]]:
    """Return the usable photos of a folder, file or list, and reasons for excluded files.

    Raises:
        InputError: if there are no usable photos.
    """
    return open_photo_files(_list_files(path), path)


def open_photo_files(files: Iterable[Path], path: Path) -> tuple[list[PhotoFile], dict[str, str]]:
    """Return the usable photos of given files, and reasons for excluded files.

    Raises:
        InputError: if no file is usable.
    """
    photos: list[PhotoFile] = []
    excluded: dict[str, str] = {}
    for name, file in _name_files(list(files)).items():
        try:
            photos.append(_open_photo_file(file, name))
        except InputError as error:
            excluded[name] = str(error.args[1])
    if not photos:
        reason = next(iter(excluded.values()), "contains no photos. Check the path.")
        if len(excluded) == 1 and path.is_dir():
            raise InputError(path / next(iter(excluded)), reason)
        prefix = f"none of {len(excluded)} files is usable: " if len(excluded) > 1 else ""
        raise InputError(path, f"{prefix}{reason}")
    return photos, excluded


def group_by_camera(captures: Sequence[PhotoFile]) -> dict[str, list[PhotoFile]]:
    """Return the photos of each camera, the camera with most photos first."""
    groups: dict[str, list[PhotoFile]] = {}
    for capture in captures:
        groups.setdefault(capture.camera, []).append(capture)
    return dict(sorted(groups.items(), key=lambda entry: -len(entry[1])))


def group_by_encoding(captures: Sequence[PhotoFile]) -> dict[str, list[PhotoFile]]:
    """Return the photos of one camera name by encoding, the largest group first.

    The encoding distinguishes cameras if files do not name them; otherwise there is one group.
    """
    by_encoding: dict[str, list[PhotoFile]] = {}
    for capture in captures:
        by_encoding.setdefault("" if capture.has_camera_name else capture.encoding, []).append(
            capture
        )
    groups: dict[str, list[PhotoFile]] = {}
    for name, same_encoding in by_encoding.items():
        groups |= _group_by_quality(name, same_encoding) if name else {name: same_encoding}
    return dict(sorted(groups.items(), key=lambda entry: -len(entry[1])))


def _group_by_quality(name: str, captures: Sequence[PhotoFile]) -> dict[str, list[PhotoFile]]:
    """Return photos by JPEG quality if it has clear clusters; otherwise in one group."""
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
    """Return the most frequent camera software; empty if files do not name one."""
    counts = Counter(str(capture.header.exif.get("Software", "")) for capture in captures)
    return counts.most_common(1)[0][0]


def subsample_evenly(captures: Sequence[PhotoFile]) -> list[PhotoFile]:
    """Return the photos to measure, evenly spaced from the first to the last."""
    header = captures[0].header
    large = max(_MIN_LARGE_PHOTOS, _MAX_TOTAL_PIXELS // (header.width * header.height))
    count = min(len(captures), MAX_PHOTOS, large)
    return [captures[i] for i in np.linspace(0, len(captures) - 1, count).round().astype(int)]


def measure_photos(
    captures: Sequence[PhotoFile], board: Board | None, progress: Callable[[int, int], None]
) -> tuple[list[PhotoMeasurements], dict[str, str]]:
    """Measure photos of one camera, and return reasons for excluded photos.

    Args:
        progress: called with the number of finished photos and of all photos.
    """
    photos: list[PhotoMeasurements] = []
    excluded: dict[str, str] = {}
    for number, capture in enumerate(captures):
        try:
            photos.append(_measure_photo_file(capture, images.read_rgb(capture.path), board))
        except InputError as error:
            excluded[capture.name] = str(error.args[1])
        progress(number + 1, len(captures))
    shape = select_common_shape(
        [photo.board_detection for photo in photos if photo.board_detection]
    )
    if board is None and shape is not None:
        paths = {capture.name: capture.path for capture in captures}
        photos = [_complete_board(photo, paths[photo.name], shape) for photo in photos]
    return photos, excluded


@dataclass(frozen=True, eq=False)
class CameraPhotos:
    """Measured photos of one camera among several.

    Attributes:
        camera: camera according to the files.
        captures: all its photo files.
        photos: measurements of a subset of them.
        other_cameras: number of photos of each other camera.
        skipped: reasons for excluded files, by name.
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
    """Measure the photos of the camera with most photos.

    Args:
        progress: called with the number of finished photos and of all photos.
        preferred_camera: name of a camera to use first if present.

    Raises:
        InputError: if no photo can be read; names a file.
    """
    cameras = group_by_camera(captures)
    encodings = {camera: group_by_encoding(group_files) for camera, group_files in cameras.items()}
    groups = [(camera, name) for camera, group_files in encodings.items() for name in group_files]
    groups.sort(
        key=lambda group: (group[0] != preferred_camera, -len(encodings[group[0]][group[1]]))
    )
    excluded: dict[str, str] = {}
    for camera, name in groups:
        camera_files = encodings[camera][name]
        photos, unreadable = measure_photos(subsample_evenly(camera_files), board, progress)
        excluded |= unreadable
        if photos:
            others = {
                other: len(group_files) for other, group_files in cameras.items() if other != camera
            }
            others |= {
                f"{camera}, {other}": len(group_files)
                for other, group_files in encodings[camera].items()
                if other != name
            }
            return CameraPhotos(camera, camera_files, photos, others, excluded)
    first, reason = next(iter(excluded.items()))
    raise InputError(next(c.path for c in captures if c.name == first), reason)


def select_common_size(
    photos: Sequence[PhotoMeasurements], orientation: int | None
) -> tuple[int, int]:
    """Return the most frequent width and height of photos with one orientation.

    Args:
        orientation: EXIF orientation; all photos count if it is None or if no photo has it.
    """
    candidates = [p for p in photos if p.header.orientation == orientation] or photos
    return Counter((p.header.width, p.header.height) for p in candidates).most_common(1)[0][0]


def select_common_orientation(photos: Sequence[PhotoMeasurements]) -> int | None:
    """Return the most frequent EXIF orientation of photos with a board; None without boards.

    Rotated photos have another principal point, so a lens can only be fitted to one orientation.
    """
    counts = Counter(
        photo.header.orientation for photo in photos if photo.board_detection is not None
    )
    return counts.most_common(1)[0][0] if counts else None


def split_by_orientation(
    photos: Sequence[PhotoMeasurements], orientation: int | None
) -> tuple[list[BoardDetection], dict[str, int]]:
    """Return the boards of photos with an EXIF orientation, and all other orientations by name."""
    boards: list[BoardDetection] = []
    rotated: dict[str, int] = {}
    for photo in photos:
        if photo.board_detection is None:
            continue
        if photo.header.orientation == orientation:
            boards.append(photo.board_detection)
        else:
            rotated[photo.name] = photo.header.orientation
    return boards, rotated


def measure_photo(
    rgb: NDArray[np.uint8],
    header: ImageHeader,
    name: str = "",
    detection: BoardDetection | None = None,
) -> PhotoMeasurements:
    """Measure one image (h, w, 3).

    Args:
        detection: board in the photo; None without one.
    """
    unknown = np.full(2, np.nan)
    is_color = header.mode in _COLOR_MODES
    exposure, grey, white = measure_exposure(rgb)
    has_white_board = detection is not None and detection.pattern_shape is not None and is_color
    return PhotoMeasurements(
        header,
        name,
        detection,
        measure_sensor_features(rgb, is_color=is_color),
        estimate_vignetting(rgb),
        estimate_lateral_color(rgb) if is_color else unknown,
        white if is_color else unknown,
        measure_board_white(rgb, detection) if has_white_board and detection else unknown,
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
        scan = scan_photo_folder(path)
        # unsupported files are reported with other unusable files
        unsupported, scan.unsupported = scan.unsupported, []
        scan.warn()
        if scan.photos or unsupported:
            return sorted([*scan.photos, *unsupported])
    return [sample.rgb for sample in read_real_images(path, skip_invalid=True).samples]


def _name_files(files: Sequence[Path]) -> dict[str, Path]:
    """Return files by path relative to their common folder, each file once."""
    absolute = {file.absolute(): file for file in files}
    folder = os.path.commonpath([path.parent for path in absolute]) if absolute else ""
    return {path.relative_to(folder).as_posix(): file for path, file in absolute.items()}


def _open_photo_file(path: Path, name: str) -> PhotoFile:
    suffix = path.suffix.lower()
    if suffix in _UNSUPPORTED_SUFFIXES:
        raise InputError(
            path, f"{suffix[1:].upper()} is not supported. Export it as JPEG without edits."
        )
    header = images.read_header(path)
    if min(header.width, header.height) < MIN_SIDE_PX:
        size = f"{header.width}x{header.height}"
        raise InputError(path, f"too small: {size} pixels. Both sides need {MIN_SIDE_PX} or more.")
    return PhotoFile(path, header, name)


def _measure_photo_file(
    capture: PhotoFile, rgb: NDArray[np.uint8], board: Board | None
) -> PhotoMeasurements:
    detection = detect_board(capture.name, np.ascontiguousarray(rgb[..., 1]), board)
    photo = measure_photo(rgb, capture.header, capture.name, detection)
    return replace(
        photo, jpeg_encoding=read_jpeg_encoding(capture.header) or estimate_jpeg_encoding(rgb)
    )


def _complete_board(
    photo: PhotoMeasurements, path: Path, pattern_shape: tuple[int, int]
) -> PhotoMeasurements:
    """Detect the full chessboard if only a part or none was detected."""
    if photo.board_detection is not None and photo.board_detection.pattern_shape == pattern_shape:
        return photo
    grey = np.ascontiguousarray(images.read_rgb(path)[..., 1])
    return replace(
        photo,
        board_detection=detect_full_chessboard(photo.name, grey, pattern_shape)
        or photo.board_detection,
    )


def _measure_border(rgb: NDArray[np.uint8]) -> tuple[int, int, int, int]:
    """Return the number of masked columns and rows of one level: left, top, right, bottom."""
    columns = rgb.swapaxes(0, 1)
    return (
        _count_dead_lines(columns),
        _count_dead_lines(rgb),
        _count_dead_lines(columns[::-1]),
        _count_dead_lines(rgb[::-1]),
    )


def _count_dead_lines(lines: NDArray[np.uint8]) -> int:
    """Return how many of the first lines (n, m, 3) have one level each."""
    return sum(1 for _ in takewhile(lambda line: line.std(axis=0).max() < _MAX_DEAD_STD, lines))
