"""Photos in a folder and its subfolders, separated from depth maps, masks and datasets."""

from __future__ import annotations

import os
import re
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sim2cam import images
from sim2cam.data.formats.writing import describe_unsupported_images, list_unsupported_images
from sim2cam.data.writer import HEADER
from sim2cam.errors import InputError, RepairWarning

_MAX_SHOWN = 5
_HIGH_BIT_DEPTH_MODES = ("I", "I;16", "I;16B", "I;16L", "F")
"""Pillow modes of single-channel images with more than 8 bits."""
_MAP_WORDS = {"depth", "disparity", "flow", "coordinates", "normal", "normals", "mask", "masks", "ids"} | {
    "segmentation", "segment", "seg", "semantic", "instance", "instances"
}  # fmt: skip
"""Words in file and folder names that mark per-pixel maps."""
_PHOTO_WORDS = {"rgb", "rgba", "color", "colour", "image", "images", "img", "photo", "photos"} | {
    "object", "forward", "backward"
}  # fmt: skip  # the last three occur in names of maps, as object_coordinates
"""Words in file names that do not distinguish one shot from another."""


@dataclass
class PhotoFolder:
    """Images in a folder and its subfolders, sorted by path."""

    root: Path
    photos: list[Path] = field(default_factory=list)
    unsupported: list[Path] = field(default_factory=list)
    pixel_maps: list[Path] = field(default_factory=list)
    datasets: list[Path] = field(default_factory=list)

    def warn(self) -> None:
        """Warn about nested, unsupported and ignored images."""
        for note in self.list_warnings():
            warnings.warn(note, RepairWarning, stacklevel=2)

    def list_warnings(self) -> list[str]:
        """Return warnings about nested, unsupported and ignored images."""
        nested = sum(photo.parent != self.root for photo in self.photos)
        notes = []
        if nested:
            image_count = _format_count(len(self.photos), "image")
            notes.append(f"{self.root}: {image_count}, {nested} of them in subfolders.")
        if self.pixel_maps:
            name = self.pixel_maps[0].relative_to(self.root)
            notes.append(
                f"{self.root}: {_format_count(len(self.pixel_maps), 'image')} left out as depth, mask or normal maps "
                f"(first: {name}). If they are photos, move them to a separate folder."
            )
        if self.datasets:
            first = self.datasets[0].relative_to(self.root)
            count = _format_count(len(self.datasets), "dataset")
            notes.append(f"{self.root}: {count} in subfolders left out (first: {first}).")
        coco_files = format_coco_files(self.root)
        if coco_files and self.photos:
            notes.append(
                f"{self.root}: labels are not read. To read them, name the COCO file: {coco_files}."
            )
        unsupported_warning = describe_unsupported_images(self.root, self.unsupported)
        return [*notes, unsupported_warning] if unsupported_warning else notes


def _format_count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def list_photos(root: Path) -> list[Path]:
    """Return the photos in a folder and its subfolders, sorted by path, and warn about ignored files.

    Links are followed and each file counts once. Hidden files and folders are ignored.

    Raises:
        InputError: If there are no photos or a folder cannot be read.
    """
    folder = scan_photo_folder(root)
    if not folder.photos:
        warnings_ = folder.list_warnings()
        reason = (
            f" {warnings_[0].removeprefix(f'{root}: ')}" if warnings_ else _suggest_coco_files(root)
        )
        raise InputError(root, f"no images in it ({images.FORMAT_NAMES}).{reason}")
    folder.warn()
    return folder.photos


def scan_photo_folder(root: Path) -> PhotoFolder:
    """Return the images in a folder and its subfolders by kind.

    Raises:
        InputError: If a folder cannot be read.
    """
    photo_folder = PhotoFolder(root)
    files, links = list[Path](), list[Path]()
    for subfolder in _walk_folders(root, photo_folder.datasets):
        photo_folder.unsupported += list_unsupported_images(subfolder)
        for path in subfolder.iterdir():
            is_image = path.suffix.lower() in images.IMAGE_SUFFIXES and path.name[0] != "."
            if is_image and path.is_file():
                (links if path.is_symlink() else files).append(path)
    paths = sorted([*files, *_drop_duplicate_links(links, files)])
    maps = _find_pixel_maps(root, paths)
    photo_folder.photos = [path for path in paths if path not in maps]
    photo_folder.pixel_maps = sorted(maps)
    photo_folder.unsupported.sort()
    return photo_folder


def _drop_duplicate_links(links: Sequence[Path], files: Sequence[Path]) -> list[Path]:
    if not links:
        return []
    known = {path.resolve() for path in files}
    targets = {link.resolve(): link for link in sorted(links, reverse=True)}
    return [link for target, link in targets.items() if target not in known]


def _walk_folders(root: Path, datasets: list[Path]) -> Iterator[Path]:
    """Yield a folder and its subfolders once each, links last; add sim2cam datasets to ``datasets`` instead."""
    queue, links, visited = deque([root]), deque[Path](), set[tuple[int, int]]()
    while queue or links:
        folder = queue.popleft() if queue else links.popleft()
        try:
            status = folder.stat()
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            raise InputError(
                folder, f"cannot be read ({error.strerror}). Check the path."
            ) from error
        if (status.st_dev, status.st_ino) in visited:
            continue
        visited.add((status.st_dev, status.st_ino))
        if folder != root and (folder / HEADER).is_file():
            datasets.append(folder)
            continue
        yield folder
        for entry in entries:
            if entry.name[0] != "." and entry.is_dir():
                (links if entry.is_symlink() else queue).append(Path(entry.path))


def _find_pixel_maps(root: Path, paths: Sequence[Path]) -> set[Path]:
    """Return the images that hold depth, masks or other per-pixel values.

    An image is a map if its name contains a map word and a photo has the same remaining name. Images with more
    than 8 bits are maps by name or next to such a photo, float images next to any photo.
    """
    words = {path: _split_words(path.relative_to(root)) for path in paths}
    modes = {path: _read_mode(path) for path in paths}
    high_bit_depth = {path for path, mode in modes.items() if mode in _HIGH_BIT_DEPTH_MODES}
    named_as_map = {path for path, path_words in words.items() if _MAP_WORDS & {*path_words}}
    if len(high_bit_depth) == len(paths):
        high_bit_depth = set()
    shots = {
        _strip_type_words(words[path])
        for path in paths
        if path not in high_bit_depth | named_as_map
    }
    paired = {
        path for path in high_bit_depth | named_as_map if _strip_type_words(words[path]) in shots
    }
    return (
        paired
        | (high_bit_depth & named_as_map)
        | {path for path in high_bit_depth if modes[path] == "F"}
    )


def _read_mode(path: Path) -> str | None:
    """Return the Pillow mode of an image, or None for 8-bit formats and unreadable files."""
    if path.suffix.lower() not in (*images.LOSSLESS_SUFFIXES, ".jp2"):
        return None
    try:
        return images.read_mode(path)
    except InputError:
        return None  # reported when the image is decoded


def _split_words(path: Path) -> tuple[str, ...]:
    return tuple(filter(None, re.split(r"[\W_]+", path.with_suffix("").as_posix().lower())))


def _strip_type_words(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(word for word in words if word not in _MAP_WORDS | _PHOTO_WORDS)


def _suggest_coco_files(root: Path) -> str:
    coco_files = format_coco_files(root)
    return f" Name the COCO file itself: {coco_files}." if coco_files else " Check the path."


def list_coco_files(root: Path) -> list[Path]:
    """Return the COCO files in a folder and its subfolder ``annotations``; none if it is a file."""
    return [
        path
        for subfolder in (".", "annotations")
        for path in sorted((root / subfolder).glob("*.json"))
        if _looks_like_coco(path)
    ]


def find_coco_file(root: Path) -> Path | None:
    """Return the COCO file of a folder if it is the only one and has annotations, or else None."""
    files = list_coco_files(root)
    return files[0] if len(files) == 1 and b'"annotations"' in files[0].read_bytes() else None


def format_coco_files(root: Path) -> str:
    """Return the names of the COCO files in a folder, at most ``_MAX_SHOWN``; empty without any."""
    names = [str(path.relative_to(root)) for path in list_coco_files(root)]
    return ", ".join(names[:_MAX_SHOWN]) + (
        f" and {len(names) - _MAX_SHOWN} more" if names[_MAX_SHOWN:] else ""
    )


def _looks_like_coco(path: Path) -> bool:
    content = path.read_bytes() if path.is_file() else b""
    is_result = b'"detections"' in content or b'"selection_scores"' in content  # of bench
    return not is_result and any(
        key in content for key in (b'"images"', b'"annotations"', b'"categories"')
    )
