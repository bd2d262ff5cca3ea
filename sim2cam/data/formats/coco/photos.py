"""Location of the images of a COCO file."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path, PurePosixPath, PureWindowsPath

from sim2cam import images
from sim2cam.data.formats.coco.annotation_file import ImageEntry
from sim2cam.data.formats.photos import OrientedImage, read_oriented_image
from sim2cam.data.parsing import find_name_problem, is_file, is_inside_folder
from sim2cam.errors import InputError, RepairWarning

_ANNOTATION_FOLDERS = ("annotations", "labels")
"""Names of annotation folders; images can lie next to such a folder."""
_FILE_NAME_PREFIXES = ("instances_", "person_keypoints_", "keypoints_", "panoptic_")
"""Prefixes of the names of COCO files before the name of the split."""


@dataclass(frozen=True)
class CocoImage(OrientedImage):
    """An image of a COCO file with its entry."""

    entry: ImageEntry

    @property
    def listed_size(self) -> tuple[int, int]:
        """Width and height in the entry."""
        return self.entry.width, self.entry.height


def read_coco_image_entry(path: Path, entry: ImageEntry, name: str, image: Path) -> CocoImage:
    """Return an entry of a COCO file with its image.

    Raises:
        InputError: the image cannot be read, or is of another size than listed.
    """
    photo = read_oriented_image(path, name, image, (entry.width, entry.height))
    return CocoImage(**vars(photo), entry=entry)


def find_coco_images(path: Path, entries: Sequence[ImageEntry]) -> list[CocoImage]:
    """Find the images of a COCO file, next to it or in the layouts of COCO and CVAT.

    File names are relative to one folder: that of the file, ``images/SPLIT`` or ``images`` in it,
    or, for a file in ``annotations/``, the same in the parent folder. Absolute paths and paths
    outside the folder are matched by file name in the dataset's folder.

    Raises:
        InputError: an image is missing, listed twice, outside the folder, or of another size.
    """
    names = [_normalize_path(path, entry.file_name) for entry in entries]
    base = _find_image_folder(path, [name for name in names if name is not None])
    missing = [base / name for name in names if name is not None and not is_file(base / name)]
    if len(missing) > 1:
        raise InputError(
            missing[0],
            f"no such image ({len(missing)} missing in all). Check the path and the file names in the list.",
        )
    outside = [entry.file_name for entry, name in zip(entries, names, strict=True) if name is None]
    matches = _match_file_names(path, outside) if outside else {}
    photos, used = [], set[Path | str]()
    for entry, name in zip(entries, names, strict=True):
        image = base / name if name is not None else matches[entry.file_name]
        unique_name = (
            name if name is not None else image.relative_to(_find_dataset_root(path)).as_posix()
        )
        if {image, unique_name} & used:
            raise InputError(path, f"image {entry.file_name} is listed twice. Keep one entry.")
        used |= {image, unique_name}
        photos.append(read_coco_image_entry(path, entry, unique_name, image))
    return photos


def _normalize_path(path: Path, file_name: str) -> str | None:
    """Return a relative path with slashes; None if it is absolute or outside the folder."""
    problem = find_name_problem(file_name)
    if problem:
        raise InputError(path, f"image {problem}")
    name = file_name.replace("\\", "/")
    is_relative = not PureWindowsPath(file_name).is_absolute() and is_inside_folder(name)
    return PurePosixPath(name).as_posix() if is_relative else None


def _find_dataset_root(path: Path) -> Path:
    folder = path.parent
    is_annotation_folder = folder.absolute().name.lower() in _ANNOTATION_FOLDERS
    return folder.absolute().parent if is_annotation_folder else folder


def _find_image_folder(path: Path, names: Sequence[str]) -> Path:
    folders = dict.fromkeys([path.parent, _find_dataset_root(path)])
    split = path.stem
    for prefix in _FILE_NAME_PREFIXES:
        split = split.removeprefix(prefix)
    candidates = [
        folder / name for folder in folders for name in ("", f"images/{split}", "images", split)
    ]
    counts: dict[Path, int] = {}
    for candidate in filter(Path.is_dir, candidates):
        counts[candidate] = sum(is_file(candidate / name) for name in names)
        if counts[candidate] == len(names):
            return candidate
    return max(counts, key=lambda candidate: counts[candidate])  # the first of equals


def _match_file_names(path: Path, names: Sequence[str]) -> dict[str, Path]:
    root = _find_dataset_root(path)
    files: dict[str, list[Path]] = defaultdict(list)
    for file in sorted(root.rglob("*")):
        if file.suffix.lower() in images.IMAGE_SUFFIXES and is_file(file):
            files[file.name].append(file)
    matches = {}
    for name in names:
        parts = PurePosixPath(name.replace("\\", "/")).parts
        same_name = files.get(parts[-1], []) if parts else []
        n_shared = [_count_shared_steps(parts, file.relative_to(root).parts) for file in same_name]
        if not same_name or n_shared.count(max(n_shared)) > 1:
            reason = (
                f"and {len(same_name)} images in it have that file name"
                if same_name
                else "and is not in it"
            )
            raise InputError(
                path,
                f"image '{name}' lies outside the folder of this file, {reason}. Put the images next to it and "
                "use relative paths.",
            )
        matches[name] = same_name[n_shared.index(max(n_shared))]
    count = (
        f"{len(names)} images have absolute paths or paths" if names[1:] else "an image has a path"
    )
    warnings.warn(
        f"{path}: {count} outside the folder (first: '{names[0]}'). The images of the same file names in {root} "
        "are used.",
        RepairWarning,
        stacklevel=2,
    )
    return matches


def _count_shared_steps(first: Sequence[str], second: Sequence[str]) -> int:
    pairs = zip(reversed(first), reversed(second), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
