"""Folders with YOLO labels: where the images of each part are and what their classes are called.

Four layouts are known: ``data.yaml`` (Ultralytics), ``obj.data`` (darknet, CVAT), the folders
``images`` and ``labels`` with ``classes.txt`` (Label Studio), and label files with ``classes.txt``
beside the images (labelImg).
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from sim2cam import images
from sim2cam.data.formats.writing import validate_categories
from sim2cam.data.parsing import is_inside_folder, read_text
from sim2cam.errors import InputError

DATA_FILE, DARKNET_FILE, CLASS_FILE = "data.yaml", "obj.data", "classes.txt"
_SPLIT_NAMES = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}
_NULLS = ("", "~", "null", "Null", "NULL")
_MAX_BYTES = 4_000_000
_MAX_LIST_BYTES = 100_000_000
_MAX_PATH_LENGTH = 1024
_MAX_KEYPOINTS = 1000
_HINT = "Correct the file."


@dataclass(frozen=True)
class YoloLayout:
    """Images and classes of a folder with YOLO labels.

    Attributes:
        file: the file that names the classes.
        categories: names of the classes.
        splits: image files by the name of their part, each once; absolute or relative like ``file``.
        keypoint_names: names of the keypoints of each class; empty for boxes and outlines.
        keypoint_dims: numbers that a line has for each keypoint: 2 (x, y) or 3 (and visibility).
        repeated_count: number of images that a part names more than once.
    """

    file: Path
    categories: tuple[str, ...]
    splits: Mapping[str, tuple[Path, ...]]
    keypoint_names: tuple[tuple[str, ...], ...] = ()
    keypoint_dims: int = 0
    repeated_count: int = 0


def is_yolo(path: Path) -> bool:
    """Return whether a path is a folder in one of YOLO's layouts, or the file that describes one."""
    if not path.is_dir():
        return path.suffix.lower() in (".yaml", ".yml", ".data")
    named = (path / DATA_FILE).is_file() or (path / DARKNET_FILE).is_file()
    return named or _has_label_folder(path) or _has_label_files(path)


def find_yolo_layout(path: Path) -> YoloLayout:
    """Return the layout of a folder with YOLO labels.

    Args:
        path: the folder, or its ``data.yaml`` or ``obj.data``.

    Raises:
        InputError: a file is missing or broken, or names something outside the folder.
    """
    if path.is_dir():
        files = [path / name for name in (DATA_FILE, DARKNET_FILE) if (path / name).is_file()]
        path = files[0] if files else path / CLASS_FILE
    if path.name == CLASS_FILE:
        return _read_class_file_layout(path)
    return (
        _read_darknet_layout(path)
        if path.suffix.lower() == ".data"
        else _read_data_file_layout(path)
    )


def _has_label_folder(root: Path) -> bool:
    return (root / "images").is_dir() and (root / "labels").is_dir()


def _has_label_files(root: Path) -> bool:
    if not (root / CLASS_FILE).is_file():
        return False
    return any(p.with_suffix(".txt").is_file() for p in root.iterdir() if _is_image(p))


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in images.IMAGE_SUFFIXES and not path.name.startswith(".")


def _read_class_file_layout(file: Path) -> YoloLayout:
    root = file.parent
    if not file.is_file():
        raise InputError(
            root,
            f"has label files but neither {DATA_FILE} nor {CLASS_FILE}, which name the classes. Add {CLASS_FILE} "
            "with one name per line.",
        )
    folder = root / "images" if _has_label_folder(root) else root
    return YoloLayout(file, _read_class_file(file), {"train": tuple(_list_images(folder))})


def _read_darknet_layout(file: Path) -> YoloLayout:
    lines = read_text(file, _MAX_BYTES, "list of a data set").splitlines()
    pairs = (line.partition("=") for line in lines)
    facts = {key.strip(): value.strip() for key, _, value in pairs}
    names = facts.get("names")
    if not names:
        raise InputError(file, f"does not name the file of class names (names = …). {_HINT}")
    categories = _read_class_file(_resolve_path(file, PurePosixPath("."), "names", names))
    return _build_layout(file, facts, PurePosixPath("."), categories=categories)


def _read_data_file_layout(file: Path) -> YoloLayout:
    facts = _read_data_file(file)
    categories = _parse_categories(file, facts)
    keypoints, numbers = _parse_keypoint_names(file, facts, categories)
    base = facts.get("path", ".")
    place = PurePosixPath(".") if _is_null(base) else _parse_relative_path(file, "path", base)
    root = file.parent
    if place.name == root.resolve().name and not (root / place).is_dir():
        place = PurePosixPath(".")  # Ultralytics looks for it in a folder of its own
    return _build_layout(
        file, facts, place, categories=categories, keypoint_names=keypoints, keypoint_dims=numbers
    )


def _build_layout(
    file: Path, facts: Mapping[str, Any], base: PurePosixPath, **fields: Any
) -> YoloLayout:
    """Return the layout with the images of each part; a part that repeats an earlier one is left out.

    Ultralytics requires ``val``, so that files without such a part name that of ``train`` again.
    """
    parts: dict[str, tuple[Path, ...]] = {}
    repeated = 0
    for key, name in _SPLIT_NAMES.items():
        if _is_null(facts.get(key)) or name in parts:
            continue
        given = facts[key] if isinstance(facts[key], list) else [facts[key]]
        files = [path for place in given for path in _resolve_images(file, base, key, place)]
        once = tuple(dict.fromkeys(files))
        if once and once in parts.values():
            continue
        repeated += len(files) - len(once)
        parts[name] = once
    if not parts:
        raise InputError(file, f"it names none of train, val, test. {_HINT}")
    return YoloLayout(file, splits=parts, repeated_count=repeated, **fields)


def _is_null(value: Any) -> bool:
    return value is None or value == [] or (isinstance(value, str) and value in _NULLS)


def _resolve_images(file: Path, base: PurePosixPath, key: str, entry: Any) -> Iterator[Path]:
    path = _resolve_path(file, base, key, entry)
    if path.is_dir():
        yield from _list_images(path)
    elif path.is_file() and path.suffix.lower() == ".txt":
        for line in read_text(path, _MAX_LIST_BYTES, "list of images").splitlines():
            if line.strip():
                yield _resolve_path(path, PurePosixPath("."), "an image", line.strip(), file.parent)
    else:
        name = path.relative_to(file.parent)
        raise InputError(file, f"{key}: '{name}' is no folder of images and no list. {_HINT}")


def _list_images(folder: Path) -> Iterator[Path]:
    """Yield the images of a folder and its sub-folders, by name."""
    return (path for path in sorted(folder.rglob("*")) if _is_image(path) and path.is_file())


def _resolve_path(
    file: Path, base: PurePosixPath, key: str, entry: Any, root: Path | None = None
) -> Path:
    """Return the path of something that a file names.

    CVAT begins each name with ``data/``, a folder that its exports do not have.
    """
    root = file.parent if root is None else root
    name = base / _parse_relative_path(file, key, entry, root)
    folders = (file.parent, root)
    names = (name, PurePosixPath(*name.parts[1:])) if name.parts[:1] == ("data",) else (name,)
    paths = [folder / one for one in names for folder in folders]
    return next((path for path in paths if path.exists()), paths[0])


def _parse_relative_path(
    file: Path, key: str, entry: Any, root: Path | None = None
) -> PurePosixPath:
    """Return what a file names, relative to its folder.

    Some services write ``../train/images`` for folders beside the file.
    """
    name = entry.replace("\\", "/") if isinstance(entry, str) else ""
    while name.startswith("../"):
        name = name[3:]
    if PurePosixPath(name).is_absolute() and "\0" not in name:
        folder, path = (root or file.parent).resolve(), Path(name).resolve()
        name = path.relative_to(folder).as_posix() if path.is_relative_to(folder) else name
    if (
        name
        and (not PurePosixPath(name).parts or is_inside_folder(name))
        and _is_valid_file_name(name)
    ):
        return PurePosixPath(name)
    cure = "Put the images into this folder and name them relative to it."
    if key == "path":
        cure = "Remove this entry where the images lie beside the file, or name their folder relative to it."
    raise InputError(
        file, f"{key}: {reprlib.repr(entry)[:60]} does not lie in the folder of this file. {cure}"
    )


def _is_valid_file_name(name: str) -> bool:
    """Return whether a file can have such a name."""
    steps = [step.encode(errors="replace") for step in PurePosixPath(name).parts]
    return "\0" not in name and len(name) < _MAX_PATH_LENGTH and all(len(s) < 256 for s in steps)


def _read_data_file(file: Path) -> dict[str, Any]:
    """Return the table of ``data.yaml`` with every scalar as written: ``on`` is no truth value."""
    text = read_text(file, _MAX_BYTES, "list of a data set")
    try:
        facts = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 (constructs text, lists, tables)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InputError(file, f"not YAML. {_HINT}") from error
    if not isinstance(facts, dict):
        raise InputError(file, f"not a table. {_HINT}")
    return facts


def _parse_categories(file: Path, facts: Mapping[str, Any]) -> tuple[str, ...]:
    names = facts.get("names")
    if isinstance(names, dict):
        names = _order_by_class(names)
        if names is None:
            raise InputError(file, f"names are not numbered from 0 without a gap. {_HINT}")
    if not isinstance(names, list) or not names:
        raise InputError(file, f"names is not a list of categories. {_HINT}")
    # aliases make a small file into something too long to be written out
    if not all(isinstance(name, str) for name in names):
        raise InputError(file, f"names holds something that is no name. {_HINT}")
    return validate_categories(file, names)


def _order_by_class(table: Mapping[Any, Any]) -> list[Any] | None:
    """Return the values of a table in the order of their class numbers; None with a gap or other keys."""
    numbered = {int(key): value for key, value in table.items() if str(key).isdecimal()}
    if len(numbered) < len(table) or any(n not in numbered for n in range(len(table))):
        return None
    return [numbered[number] for number in range(len(table))]


def _read_class_file(file: Path) -> tuple[str, ...]:
    names = [line.strip() for line in read_text(file, _MAX_BYTES, "list of classes").splitlines()]
    while names and not names[-1]:
        names.pop()
    if not names:
        raise InputError(file, f"names no class. {_HINT}")
    return validate_categories(file, names)


def _parse_keypoint_names(
    file: Path, facts: Mapping[str, Any], categories: tuple[str, ...]
) -> tuple[tuple[tuple[str, ...], ...], int]:
    """Return the names of the keypoints of each class, and how many numbers each keypoint has."""
    shape: Any = facts.get("kpt_shape")
    if _is_null(shape):
        return (), 0
    whole = isinstance(shape, list) and all(isinstance(n, str) and n.isdecimal() for n in shape)
    count, numbers = map(int, shape) if whole and len(shape) == 2 else (0, 0)
    if not 1 <= count <= _MAX_KEYPOINTS or numbers not in (2, 3):
        raise InputError(
            file,
            f"kpt_shape: {reprlib.repr(shape)[:60]} must be the number of keypoints and 2 or 3, as [17, 3]. "
            f"{_HINT}",
        )
    names: Any = facts.get("kpt_names")
    if _is_null(names):
        names = [str(number) for number in range(count)]
    each = _order_by_class(names) or [] if isinstance(names, dict) else [names] * len(categories)
    if len(each) != len(categories) or not all(
        _are_unique_names(of_class, count) for of_class in each
    ):
        raise InputError(file, f"kpt_names must be {count} different names for each class. {_HINT}")
    return tuple(tuple(of_class) for of_class in each), numbers


def _are_unique_names(names: Any, count: int) -> bool:
    """Return whether a value is a list of so many different names."""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return False
    return len(names) == len(set(names)) == count
