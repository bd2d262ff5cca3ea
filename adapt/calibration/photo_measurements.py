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
from sim2cam.adapt.calibration.board_corners import Sighting, find_board, find_whole, usual_shape
from sim2cam.adapt.calibration.flicker import row_light
from sim2cam.adapt.calibration.illumination import (
    Tones,
    board_white,
    falloff,
    fringes,
    metered,
    tones,
)
from sim2cam.adapt.calibration.jpeg import Jpeg, jpeg_in, jpeg_of, jpeg_quality
from sim2cam.adapt.calibration.test_chart import Marks, marks
from sim2cam.data.formats.video import is_video
from sim2cam.data.photo_folder import find_photos
from sim2cam.data.real_images import is_photos, read_captures
from sim2cam.errors import InputError
from sim2cam.images import Header
from sim2cam.scene.shape import Board

Floats = NDArray[np.float64]

MOST_PHOTOS = 60
"""Photos that are looked at closely; more of them hardly tell more."""
_MOST_PIXELS, _LARGE_PHOTOS = 240_000_000, 20
"""Of large photos as many as have so many pixels, so that it takes no longer than minutes, or that many."""
LEAST_PX = 64
"""Shorter side of the smallest picture that is taken for a photo."""

_FOREIGN = (".heic", ".heif", ".avif", ".dng", ".cr2", ".nef", ".arw")
_COLORED = ("RGB", "RGBA")
_APART = 10
"""Steps of JPEG quality that no file has, between those of two cameras: phones change it by less from photo to
photo."""
_FLAT = 1.0  # levels, standard deviation of a row that is dead


@dataclass(frozen=True)
class Capture:
    """A file and what it says of itself.

    Attributes:
        path: of the file.
        header: what it says.
        name: its path from the folder that holds all of the captures: two files never share it.
    """

    path: Path
    header: Header
    name: str

    @property
    def camera(self) -> str:
        """What took it, as far as the file says: make, model, focal length, size."""
        exif = self.header.exif
        maker = " ".join(str(exif[key]) for key in ("Make", "Model") if exif.get(key))
        focal = f"{exif['FocalLength']:g} mm" if isinstance(exif.get("FocalLength"), float) else ""
        size = "{}x{}".format(*self.header.stored)  # however it was held
        return ", ".join(part for part in (maker, focal, size) if part)

    @property
    def is_named(self) -> bool:
        """Whether the file says what took it."""
        return bool(self.header.exif.get("Make") or self.header.exif.get("Model"))

    @property
    def writing(self) -> str:
        """How the file is written: as which JPEG, if it is one."""
        header = self.header
        colors = f" {':'.join(header.subsampling)}" if header.subsampling else ""
        return f"JPEG{colors}" if header.quantization else "no JPEG"


@dataclass(frozen=True, eq=False)
class Photo:
    """What is seen in a capture.

    Attributes:
        header: of its file.
        name: of its capture.
        sighting: of a board; None without one.
        marks: of noise and edges.
        falloff: light that corners lose; NaN where it is not told, as all that follows.
        fringes: (2,) how much larger red and blue are.
        white: (2,) red and blue over green in what the meter takes for white.
        board_white: (2,) the same of a chessboard's light squares.
        exposure_ev: stops over the meter's exposure.
        grey_ev: stops over middle grey of what the meter goes by, which is what contrast multiplies.
        tones: how light and colour are spread.
        border: dead pixels at the left, top, right and bottom.
        brightest: the highest level.
        rows: (rows,) how the light differs from row to row of the sensor, as ``bands.row_light`` has it.
        stored: as which JPEG it is stored, or was before it came into its file; None where nothing tells.
    """

    header: Header
    name: str
    sighting: Sighting | None
    marks: Marks
    falloff: float
    fringes: Floats
    white: Floats
    board_white: Floats
    exposure_ev: float
    grey_ev: float
    tones: Tones
    border: tuple[int, int, int, int]
    brightest: int
    rows: Floats
    stored: Jpeg | None = None

    @property
    def is_colored(self) -> bool:
        """Whether its pixels have the colours of a camera."""
        return self.header.mode in _COLORED


def list_captures(path: Path) -> tuple[list[Capture], dict[str, str]]:
    """Returns the captures of a folder, a photo or a list of photos, and why files were left out.

    Raises:
        InputError: there is nothing there, or nothing that can be used.
    """
    return open_captures(_files(path), path)


def open_captures(files: Iterable[Path], path: Path) -> tuple[list[Capture], dict[str, str]]:
    """Returns the captures in files, and why files were left out.

    Args:
        files: of photos.
        path: where they come from, for errors.

    Raises:
        InputError: there is nothing that can be used.
    """
    captures: list[Capture] = []
    refused: dict[str, str] = {}
    for name, file in _named(list(files)).items():
        try:
            captures.append(_opened(file, name))
        except InputError as error:
            refused[name] = str(error.args[1])
    if not captures:
        reason = next(iter(refused.values()), "no photos in it. Check the path.")
        count = f"none of {len(refused)} files can be used: " if len(refused) > 1 else ""
        raise InputError(path, f"{count}{reason}")
    return captures, refused


def by_camera(captures: Sequence[Capture]) -> dict[str, list[Capture]]:
    """Returns the captures of each camera, that with most captures first."""
    found: dict[str, list[Capture]] = {}
    for capture in captures:
        found.setdefault(capture.camera, []).append(capture)
    return dict(sorted(found.items(), key=lambda entry: -len(entry[1])))


def by_writing(captures: Sequence[Capture]) -> dict[str, list[Capture]]:
    """Returns captures of one name by how their files are written, most first.

    That tells cameras apart where files do not say what took them; where they do, all are of one
    camera.
    """
    written: dict[str, list[Capture]] = {}
    for capture in captures:
        written.setdefault("" if capture.is_named else capture.writing, []).append(capture)
    found: dict[str, list[Capture]] = {}
    for name, alike in written.items():
        found |= _by_quality(name, alike) if name else {name: alike}
    return dict(sorted(found.items(), key=lambda entry: -len(entry[1])))


def _by_quality(name: str, captures: Sequence[Capture]) -> dict[str, list[Capture]]:
    """Returns captures by their JPEG quality, where that falls into clear groups; else all by the name."""
    qualities = np.array([jpeg_quality(capture.header) or 0 for capture in captures])
    values = np.unique(qualities)
    groups = np.split(values, np.flatnonzero(np.diff(values) >= _APART) + 1)
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


def software(captures: Sequence[Capture]) -> str:
    """Returns what most captures say of the camera's software; nothing where they are silent."""
    named = Counter(str(capture.header.exif.get("Software", "")) for capture in captures)
    return named.most_common(1)[0][0]


def evenly(captures: Sequence[Capture]) -> list[Capture]:
    """Returns as many captures as are looked at closely, from the first to the last."""
    header = captures[0].header
    large = max(_LARGE_PHOTOS, _MOST_PIXELS // (header.width * header.height))
    count = min(len(captures), MOST_PHOTOS, large)
    return [captures[i] for i in np.linspace(0, len(captures) - 1, count).round().astype(int)]


def look(
    captures: Sequence[Capture], board: Board | None, progress: Callable[[int, int], None]
) -> tuple[list[Photo], dict[str, str]]:
    """Returns what is seen in captures, and why some were left out.

    Args:
        captures: of one camera.
        board: of markers; None for chessboards.
        progress: is told how many are done, and of how many.
    """
    photos: list[Photo] = []
    refused: dict[str, str] = {}
    for number, capture in enumerate(captures):
        try:
            photos.append(_seen(capture, images.read_rgb(capture.path), board))
        except InputError as error:
            refused[capture.name] = str(error.args[1])
        progress(number + 1, len(captures))
    shape = usual_shape([photo.sighting for photo in photos if photo.sighting])
    if board is None and shape is not None:
        paths = {capture.name: capture.path for capture in captures}
        photos = [_completed(photo, paths[photo.name], shape) for photo in photos]
    return photos, refused


@dataclass(frozen=True, eq=False)
class Seen:
    """What is seen in the captures of one camera of several.

    Attributes:
        camera: what took them, as far as their files say.
        captures: all of them.
        photos: those that were looked at.
        others: how many captures other cameras took, by what took them.
        refused: why files were left out, by name.
    """

    camera: str
    captures: Sequence[Capture]
    photos: Sequence[Photo]
    others: Mapping[str, int]
    refused: Mapping[str, str]


def look_at_one(
    captures: Sequence[Capture],
    board: Board | None,
    progress: Callable[[int, int], None],
    expected: str = "",
) -> Seen:
    """Returns what is seen in those of a camera: in those of most of which any can be read.

    Args:
        captures: of any cameras.
        board: of markers; None for chessboards.
        progress: is told how many are done, and of how many.
        expected: the camera that is looked for first, by its name.

    Raises:
        InputError: nothing can be read; naming a file.
    """
    cameras = by_camera(captures)
    written = {camera: by_writing(alike) for camera, alike in cameras.items()}
    groups = [(camera, name) for camera, alike in written.items() for name in alike]
    groups.sort(key=lambda group: (group[0] != expected, -len(written[group[0]][group[1]])))
    refused: dict[str, str] = {}
    for camera, name in groups:
        own = written[camera][name]
        photos, broken = look(evenly(own), board, progress)
        refused |= broken
        if photos:
            others = {other: len(alike) for other, alike in cameras.items() if other != camera}
            others |= {
                f"{camera}, {other}": len(alike)
                for other, alike in written[camera].items()
                if other != name
            }
            return Seen(camera, own, photos, others, refused)
    first, reason = next(iter(refused.items()))
    raise InputError(next(c.path for c in captures if c.name == first), reason)


def usual_size(photos: Sequence[Photo], orientation: int | None) -> tuple[int, int]:
    """Returns the width and height of most photos that were taken with the camera held one way.

    Args:
        photos: of one camera.
        orientation: as EXIF has it; None, or one that none of them has, for any.
    """
    held = [p for p in photos if p.header.orientation == orientation] or photos
    return Counter((p.header.width, p.header.height) for p in held).most_common(1)[0][0]


def usual_orientation(photos: Sequence[Photo]) -> int | None:
    """Returns the EXIF orientation of most photos with a board; None without any.

    Upright pictures of a camera that was held upside down, or turned the other way, show the middle of its
    lens elsewhere: what is fitted to both is neither.
    """
    found = Counter(photo.header.orientation for photo in photos if photo.sighting is not None)
    return found.most_common(1)[0][0] if found else None


def boards_of(
    photos: Sequence[Photo], orientation: int | None
) -> tuple[list[Sighting], dict[str, int]]:
    """Returns the boards in photos of an EXIF orientation, and the orientations of others by name."""
    boards: list[Sighting] = []
    turned: dict[str, int] = {}
    for photo in photos:
        if photo.sighting is None:
            continue
        if photo.header.orientation == orientation:
            boards.append(photo.sighting)
        else:
            turned[photo.name] = photo.header.orientation
    return boards, turned


def see(
    rgb: NDArray[np.uint8], header: Header, name: str = "", sighting: Sighting | None = None
) -> Photo:
    """Returns what is seen in a picture (h, w, 3).

    Args:
        rgb: its pixels.
        header: of its file.
        name: of its capture.
        sighting: of the board in it; None without one.
    """
    unknown = np.full(2, np.nan)
    colored = header.mode in _COLORED
    exposure, grey, white = metered(rgb)
    on_board = sighting is not None and sighting.shape is not None and colored
    return Photo(
        header,
        name,
        sighting,
        marks(rgb, colored=colored),
        falloff(rgb),
        fringes(rgb) if colored else unknown,
        white if colored else unknown,
        board_white(rgb, sighting) if on_board and sighting else unknown,
        exposure,
        grey,
        tones(rgb),
        _border(rgb),
        int(rgb.max()),
        row_light(rgb.swapaxes(0, 1) if header.stored != (header.width, header.height) else rgb),
    )


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise InputError(path, "no such file or folder. Check the path.")
    if path.is_file() and path.suffix.lower() != ".json" and not is_video(path):
        return [path]
    if is_photos(path):
        found = find_photos(path)
        unread, found.unread = found.unread, []  # reported with other files that cannot be used
        found.warn()
        if found.photos or unread:
            return sorted([*found.photos, *unread])
    return [sample.rgb for sample in read_captures(path, skip_invalid=True).samples]


def _named(files: Sequence[Path]) -> dict[str, Path]:
    """Returns files by their paths from the folder that holds all of them; each file once."""
    places = {file.absolute(): file for file in files}
    folder = os.path.commonpath([place.parent for place in places]) if places else ""
    return {place.relative_to(folder).as_posix(): file for place, file in places.items()}


def _opened(path: Path, name: str) -> Capture:
    suffix = path.suffix.lower()
    if suffix in _FOREIGN:
        raise InputError(path, f"{suffix[1:].upper()} is not read. Export it as JPEG, unedited.")
    header = images.read_header(path)
    if min(header.width, header.height) < LEAST_PX:
        size = f"{header.width}x{header.height}"
        raise InputError(path, f"{size} pixels are no photo. Both sides have {LEAST_PX} or more.")
    return Capture(path, header, name)


def _seen(capture: Capture, rgb: NDArray[np.uint8], board: Board | None) -> Photo:
    sighting = find_board(capture.name, np.ascontiguousarray(rgb[..., 1]), board)
    photo = see(rgb, capture.header, capture.name, sighting)
    return replace(photo, stored=jpeg_of(capture.header) or jpeg_in(rgb))


def _completed(photo: Photo, path: Path, shape: tuple[int, int]) -> Photo:
    """Returns a photo with the whole board, where a part or none was found and it shows the whole."""
    if photo.sighting is not None and photo.sighting.shape == shape:
        return photo
    grey = np.ascontiguousarray(images.read_rgb(path)[..., 1])
    return replace(photo, sighting=find_whole(photo.name, grey, shape) or photo.sighting)


def _border(rgb: NDArray[np.uint8]) -> tuple[int, int, int, int]:
    """Returns how many columns and rows at each side hold one level, as where a sensor is masked."""
    columns = rgb.swapaxes(0, 1)
    return _dead(columns), _dead(rgb), _dead(columns[::-1]), _dead(rgb[::-1])


def _dead(lines: NDArray[np.uint8]) -> int:
    """Returns how many of the first lines (n, m, 3) hold one level each."""
    return sum(1 for _ in takewhile(lambda line: line.std(axis=0).max() < _FLAT, lines))
