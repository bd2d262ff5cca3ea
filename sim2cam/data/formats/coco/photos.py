"""Images of a COCO file: where they lie."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path, PurePosixPath, PureWindowsPath

from sim2cam import images
from sim2cam.data.formats.coco.file import ImageEntry
from sim2cam.data.formats.photos import OrientedImage, read_oriented_image
from sim2cam.data.parsing import find_name_problem, is_file, is_inside_folder
from sim2cam.errors import InputError, RepairWarning

_ANNOTATION_FOLDERS = ("annotations", "labels")
"""Names of folders beside whose siblings the images may lie."""
_FILE_NAME_PREFIXES = ("instances_", "person_keypoints_", "keypoints_", "panoptic_")
"""Beginnings of the names of COCO files, before the name of the split."""


@dataclass(frozen=True)
class CocoImage(OrientedImage):
    """An image of a COCO file with its entry in the list."""

    entry: ImageEntry

    @property
    def listed_size(self) -> tuple[int, int]:
        """Width and height in the list."""
        return self.entry.width, self.entry.height


def read_coco_image_entry(path: Path, entry: ImageEntry, name: str, image: Path) -> CocoImage:
    """Return an entry of a COCO file with its image.

    Args:
        path: of the COCO file, for errors.
        entry: of the list.
        name: that identifies the image.
        image: its file.

    Raises:
        InputError: the image cannot be read, or is of another size than listed.
    """
    photo = read_oriented_image(path, name, image, (entry.width, entry.height))
    return CocoImage(**vars(photo), entry=entry)


def find_coco_images(path: Path, entries: Sequence[ImageEntry]) -> list[CocoImage]:
    """Find the images of a COCO file, beside it or in the layouts of COCO and CVAT.

    Names are relative to one folder for all: the file's own, ``images/SPLIT`` or ``images`` in it, and of a
    file in ``annotations/`` the same beside that folder. Absolute paths and paths that lead outside are
    replaced by the only image of that file name in the dataset's folder.

    Args:
        path: the COCO file.
        entries: its list of images.

    Raises:
        InputError: an image is missing, listed twice, outside the folder, or of another size.
    """
    names = [_normalize_path(path, entry.file_name) for entry in entries]
    base = _find_image_folder(path, [name for name in names if name is not None])
    missing = [base / name for name in names if name is not None and not is_file(base / name)]
    if len(missing) > 1:
        raise InputError(
            missing[0],
            f"no such image, and {len(missing) - 1} more that the list names are missing. Check the path, or what "
            "the list names.",
        )
    strays = [entry.file_name for entry, name in zip(entries, names, strict=True) if name is None]
    found = _match_file_names(path, strays) if strays else {}
    photos, listed = [], set[Path | str]()
    for entry, name in zip(entries, names, strict=True):
        image = base / name if name is not None else found[entry.file_name]
        own = name if name is not None else image.relative_to(_find_dataset_root(path)).as_posix()
        if {image, own} & listed:
            raise InputError(path, f"image {entry.file_name} is listed twice. Keep one entry.")
        listed |= {image, own}
        photos.append(read_coco_image_entry(path, entry, own, image))
    return photos


def _normalize_path(path: Path, file_name: str) -> str | None:
    """Return the relative path that a list names, with slashes; None where it leads outside."""
    problem = find_name_problem(file_name)
    if problem:
        raise InputError(path, f"image {problem}")
    name = file_name.replace("\\", "/")
    is_relative = not PureWindowsPath(file_name).is_absolute() and is_inside_folder(name)
    return PurePosixPath(name).as_posix() if is_relative else None


def _find_dataset_root(path: Path) -> Path:
    """Return the folder of the dataset, outside which no image may lie."""
    folder = path.parent
    is_apart = folder.absolute().name.lower() in _ANNOTATION_FOLDERS
    return folder.absolute().parent if is_apart else folder


def _find_image_folder(path: Path, names: Sequence[str]) -> Path:
    """Return the folder in which most of the images lie."""
    folders = dict.fromkeys([path.parent, _find_dataset_root(path)])
    split = path.stem
    for kind in _FILE_NAME_PREFIXES:
        split = split.removeprefix(kind)
    places = [
        folder / place for folder in folders for place in ("", f"images/{split}", "images", split)
    ]
    counts: dict[Path, int] = {}
    for place in filter(Path.is_dir, places):
        counts[place] = sum(is_file(place / name) for name in names)
        if counts[place] == len(names):
            return place
    return max(counts, key=lambda place: counts[place])  # the first of equals


def _match_file_names(path: Path, names: Sequence[str]) -> dict[str, Path]:
    """Return the files of images by their names, which are absolute or lead outside the folder."""
    root = _find_dataset_root(path)
    files: dict[str, list[Path]] = defaultdict(list)
    for file in sorted(root.rglob("*")):
        if file.suffix.lower() in images.IMAGE_SUFFIXES and is_file(file):
            files[file.name].append(file)
    found = {}
    for name in names:
        steps = PurePosixPath(name.replace("\\", "/")).parts
        like = files.get(steps[-1], []) if steps else []
        likeness = [_count_shared_steps(steps, file.relative_to(root).parts) for file in like]
        if not like or likeness.count(max(likeness)) > 1:
            what = (
                f"and {len(like)} images in it have that file name" if like else "and is not in it"
            )
            raise InputError(
                path,
                f"image '{name}' lies outside the folder of this file, {what}. Put the images beside it and "
                "name them relative to it.",
            )
        found[name] = like[likeness.index(max(likeness))]
    count = (
        f"{len(names)} images have absolute paths or paths" if names[1:] else "an image has a path"
    )
    warnings.warn(
        f"{path}: {count} outside the folder (first: '{names[0]}'). The images of the same file names in {root} "
        "are used.",
        RepairWarning,
        stacklevel=2,
    )
    return found


def _count_shared_steps(first: Sequence[str], second: Sequence[str]) -> int:
    """Return how many steps at their ends two paths share."""
    pairs = zip(reversed(first), reversed(second), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
