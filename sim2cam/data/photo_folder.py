"""Photos in a folder and its subfolders, without what renderers and depth cameras write beside them."""

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
_HEAD_BYTES = 65536
_HIGH_BIT_DEPTH_MODES = ("I", "I;16", "I;16B", "I;16L", "F")
"""Modes of images of one channel that hold more than 8 bits."""
_MAP_WORDS = {"depth", "disparity", "flow", "coordinates", "normal", "normals", "mask", "masks", "ids"} | {
    "segmentation", "segment", "seg", "semantic", "instance", "instances"
}  # fmt: skip
"""Words in the names of files and folders that hold no photos but numbers of each pixel."""
_PHOTO_WORDS = {"rgb", "rgba", "color", "colour", "image", "images", "img", "photo", "photos"} | {
    "object", "forward", "backward"
}  # fmt: skip  # the last are of maps, as in object_coordinates
"""Words in the names of the files of one shot that do not name the shot."""


@dataclass
class PhotoFolder:
    """Images in a folder and its subfolders, sorted by their paths.

    Attributes:
        root: the folder.
        photos: that can be read.
        unsupported: images of kinds that cannot be read.
        pixel_maps: images that are left out because they hold depth, masks or other numbers of each pixel.
        datasets: subfolders that are data sets of ours, which are not looked into.
    """

    root: Path
    photos: list[Path] = field(default_factory=list)
    unsupported: list[Path] = field(default_factory=list)
    pixel_maps: list[Path] = field(default_factory=list)
    datasets: list[Path] = field(default_factory=list)

    def warn(self) -> None:
        """Warn of what a user should know of the folder."""
        for note in self.list_warnings():
            warnings.warn(note, RepairWarning, stacklevel=2)

    def list_warnings(self) -> list[str]:
        """Return what a user should know of the folder: which images are nested, and which are left out."""
        nested = sum(photo.parent != self.root for photo in self.photos)
        notes = []
        if nested:
            images_here = _format_count(len(self.photos), "image")
            notes.append(f"{self.root}: {images_here}, {nested} of them in subfolders.")
        if self.pixel_maps:
            name = self.pixel_maps[0].relative_to(self.root)
            notes.append(
                f"{self.root}: {_format_count(len(self.pixel_maps), 'image')} left out as depth, mask or normal maps, by bits or "
                f"names (first: {name}). Put them into a folder of their own if they are photos."
            )
        if self.datasets:
            first = self.datasets[0].relative_to(self.root)
            count = _format_count(len(self.datasets), "data set")
            notes.append(f"{self.root}: {count} in it left out (first: {first}).")
        lists = _format_coco_files(self.root)
        if lists and self.photos:
            notes.append(
                f"{self.root}: labels are not read. To read them, name the COCO file: {lists}."
            )
        unread = describe_unsupported_images(self.root, self.unsupported)
        return [*notes, unread] if unread else notes


def _format_count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def list_photos(root: Path) -> list[Path]:
    """Return the photos in a folder and its subfolders, sorted by their paths, and warn of what is left out.

    Links are followed, each file counts once; hidden files and folders are left out.

    Raises:
        InputError: there is none, or a folder cannot be read.
    """
    found = scan_photo_folder(root)
    if not found.photos:
        notes = found.list_warnings()
        other = f" {notes[0].removeprefix(f'{root}: ')}" if notes else _suggest_coco_files(root)
        raise InputError(root, f"no images in it ({images.FORMAT_NAMES}).{other}")
    found.warn()
    return found.photos


def scan_photo_folder(root: Path) -> PhotoFolder:
    """Return the images in a folder and its subfolders.

    Raises:
        InputError: a folder cannot be read.
    """
    found = PhotoFolder(root)
    files, links = list[Path](), list[Path]()
    for folder in _walk_folders(root, found.datasets):
        found.unsupported += list_unsupported_images(folder)
        for path in folder.iterdir():
            is_image = path.suffix.lower() in images.IMAGE_SUFFIXES and path.name[0] != "."
            if is_image and path.is_file():
                (links if path.is_symlink() else files).append(path)
    paths = sorted([*files, *_drop_duplicate_links(links, files)])
    maps = _find_pixel_maps(root, paths)
    found.photos = [path for path in paths if path not in maps]
    found.pixel_maps = sorted(maps)
    found.unsupported.sort()
    return found


def _drop_duplicate_links(links: Sequence[Path], files: Sequence[Path]) -> list[Path]:
    """Return the links that lead to other files than these, one for each file."""
    if not links:
        return []
    known = {path.resolve() for path in files}
    targets = {link.resolve(): link for link in sorted(links, reverse=True)}
    return [link for target, link in targets.items() if target not in known]


def _walk_folders(root: Path, datasets: list[Path]) -> Iterator[Path]:
    """Yield a folder and those below it, each once, links last; data sets of ours are listed instead."""
    waiting, links, seen = deque([root]), deque[Path](), set[tuple[int, int]]()
    while waiting or links:
        folder = waiting.popleft() if waiting else links.popleft()
        try:
            status = folder.stat()
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            raise InputError(
                folder, f"cannot be read ({error.strerror}). Check the path."
            ) from error
        if (status.st_dev, status.st_ino) in seen:
            continue
        seen.add((status.st_dev, status.st_ino))
        if folder != root and (folder / HEADER).is_file():
            datasets.append(folder)
            continue
        yield folder
        for entry in entries:
            if entry.name[0] != "." and entry.is_dir():
                (links if entry.is_symlink() else waiting).append(Path(entry.path))


def _find_pixel_maps(root: Path, paths: Sequence[Path]) -> set[Path]:
    """Return the images that hold depth, masks or the like beside photos.

    Names of maps count where a photo has the rest of the name. Images of more than eight bits are maps by their
    name or beside a photo of the same rest; images of floats are maps beside any photo.
    """
    words = {path: _split_words(path.relative_to(root)) for path in paths}
    modes = {path: _read_mode(path) for path in paths}
    deep = {path for path, mode in modes.items() if mode in _HIGH_BIT_DEPTH_MODES}
    named = {path for path, found in words.items() if _MAP_WORDS & {*found}}
    if len(deep) == len(paths):
        deep = set()
    shots = {_strip_type_words(words[path]) for path in paths if path not in deep | named}
    paired = {path for path in deep | named if _strip_type_words(words[path]) in shots}
    return paired | (deep & named) | {path for path in deep if modes[path] == "F"}


def _read_mode(path: Path) -> str | None:
    """Return the mode of an image in Pillow's terms; None where it has eight bits or cannot be read."""
    if path.suffix.lower() not in (*images.LOSSLESS_SUFFIXES, ".jp2"):
        return None
    try:
        return images.read_mode(path)
    except InputError:
        return None  # whoever decodes the image reports the error


def _split_words(path: Path) -> tuple[str, ...]:
    return tuple(filter(None, re.split(r"[\W_]+", path.with_suffix("").as_posix().lower())))


def _strip_type_words(words: Sequence[str]) -> tuple[str, ...]:
    """Return what names of the files of one shot share."""
    return tuple(word for word in words if word not in _MAP_WORDS | _PHOTO_WORDS)


def _suggest_coco_files(root: Path) -> str:
    lists = _format_coco_files(root)
    return f" Name the COCO file itself: {lists}." if lists else " Check the path."


def _format_coco_files(root: Path) -> str:
    """Return the COCO files in a folder or its ``annotations/``, by their names."""
    files = (p for place in (".", "annotations") for p in sorted((root / place).glob("*.json")))
    found = [str(path.relative_to(root)) for path in files if _looks_like_coco(path)]
    return ", ".join(found[:_MAX_SHOWN]) + (
        f" and {len(found) - _MAX_SHOWN} more" if found[_MAX_SHOWN:] else ""
    )


def _looks_like_coco(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    return any(key in head for key in (b'"images"', b'"annotations"', b'"categories"'))
