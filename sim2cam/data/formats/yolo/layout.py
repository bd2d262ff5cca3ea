"""Layouts of folders with YOLO labels: images of each split and class names.

Supported are ``data.yaml`` (Ultralytics), ``obj.data`` (darknet, CVAT), folders ``images`` and
``labels`` with ``classes.txt`` (Label Studio), and label files with ``classes.txt`` next to the
images (labelImg).
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
        splits: image files by split, without repetitions; absolute or relative like ``file``.
        keypoint_names: keypoint names of each class; empty for boxes and polygons.
        keypoint_dims: numbers per keypoint: 2 (x, y) or 3 (x, y, visibility).
        repeated_count: number of images listed more than once.
    """

    file: Path
    categories: tuple[str, ...]
    splits: Mapping[str, tuple[Path, ...]]
    keypoint_names: tuple[tuple[str, ...], ...] = ()
    keypoint_dims: int = 0
    repeated_count: int = 0


def is_yolo(path: Path) -> bool:
    """Return whether a path is a folder in a YOLO layout, or the file that describes one."""
    if not path.is_dir():
        return path.suffix.lower() in (".yaml", ".yml", ".data")
    has_description = (path / DATA_FILE).is_file() or (path / DARKNET_FILE).is_file()
    return has_description or _has_label_folder(path) or _has_label_files(path)


def find_yolo_layout(path: Path) -> YoloLayout:
    """Return the layout of a folder with YOLO labels.

    Raises:
        InputError: a file is missing or broken, or refers to a path outside the folder.
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
            f"has label files but no class names ({DATA_FILE} or {CLASS_FILE}). Add {CLASS_FILE} with one name "
            "per line.",
        )
    folder = root / "images" if _has_label_folder(root) else root
    return YoloLayout(file, _read_class_file(file), {"train": tuple(_list_images(folder))})


def _read_darknet_layout(file: Path) -> YoloLayout:
    lines = read_text(file, _MAX_BYTES, "dataset description").splitlines()
    pairs = (line.partition("=") for line in lines)
    entries = {key.strip(): value.strip() for key, _, value in pairs}
    names = entries.get("names")
    if not names:
        raise InputError(file, f"entry 'names', the file of class names, is missing. {_HINT}")
    categories = _read_class_file(_resolve_path(file, PurePosixPath("."), "names", names))
    return _build_layout(file, entries, PurePosixPath("."), categories=categories)


def _read_data_file_layout(file: Path) -> YoloLayout:
    entries = _read_data_file(file)
    categories = _parse_categories(file, entries)
    keypoints, dims = _parse_keypoint_names(file, entries, categories)
    path = entries.get("path", ".")
    folder = PurePosixPath(".") if _is_null(path) else _parse_relative_path(file, "path", path)
    root = file.parent
    if folder.name == root.resolve().name and not (root / folder).is_dir():
        folder = PurePosixPath(".")  # relative to the datasets folder of Ultralytics
    return _build_layout(
        file, entries, folder, categories=categories, keypoint_names=keypoints, keypoint_dims=dims
    )


def _build_layout(
    file: Path, entries: Mapping[str, Any], base: PurePosixPath, **fields: Any
) -> YoloLayout:
    """Return the layout with the images of each split, without splits that repeat an earlier one.

    Ultralytics requires ``val``, so files without such a split name the images of ``train`` again.
    """
    splits: dict[str, tuple[Path, ...]] = {}
    repeated_count = 0
    for key, name in _SPLIT_NAMES.items():
        if _is_null(entries.get(key)) or name in splits:
            continue
        sources = entries[key] if isinstance(entries[key], list) else [entries[key]]
        files = [path for source in sources for path in _resolve_images(file, base, key, source)]
        unique = tuple(dict.fromkeys(files))
        if unique and unique in splits.values():
            continue
        repeated_count += len(files) - len(unique)
        splits[name] = unique
    if not splits:
        raise InputError(file, f"has none of the entries train, val, test. {_HINT}")
    return YoloLayout(file, splits=splits, repeated_count=repeated_count, **fields)


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
        raise InputError(
            file, f"{key}: '{name}' must be a folder of images or a list (.txt). {_HINT}"
        )


def _list_images(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if _is_image(path) and path.is_file())


def _resolve_path(
    file: Path, base: PurePosixPath, key: str, entry: Any, root: Path | None = None
) -> Path:
    """Return the path of an entry of a file.

    CVAT prefixes names with ``data/``, a folder that its exports do not have.
    """
    root = file.parent if root is None else root
    name = base / _parse_relative_path(file, key, entry, root)
    folders = (file.parent, root)
    names = (name, PurePosixPath(*name.parts[1:])) if name.parts[:1] == ("data",) else (name,)
    paths = [folder / candidate for candidate in names for folder in folders]
    return next((path for path in paths if path.exists()), paths[0])


def _parse_relative_path(
    file: Path, key: str, entry: Any, root: Path | None = None
) -> PurePosixPath:
    """Return the path of an entry, relative to the file's folder.

    Some services write ``../train/images`` for folders next to the file.
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
    hint = "Put the images into this folder and use relative paths."
    if key == "path":
        hint = "Give the folder of the images relative to this file, or remove the entry if they lie next to it."
    raise InputError(
        file, f"{key}: {reprlib.repr(entry)[:60]} is not in the folder of this file. {hint}"
    )


def _is_valid_file_name(name: str) -> bool:
    parts = [part.encode(errors="replace") for part in PurePosixPath(name).parts]
    return (
        "\0" not in name and len(name) < _MAX_PATH_LENGTH and all(len(part) < 256 for part in parts)
    )


def _read_data_file(file: Path) -> dict[str, Any]:
    """Return the table of ``data.yaml`` with scalars as text, so that ``on`` is not a boolean."""
    text = read_text(file, _MAX_BYTES, "dataset description")
    try:
        entries = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 (constructs text, lists, tables)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InputError(file, f"not YAML. {_HINT}") from error
    if not isinstance(entries, dict):
        raise InputError(file, f"not a table. {_HINT}")
    return entries


def _parse_categories(file: Path, entries: Mapping[str, Any]) -> tuple[str, ...]:
    names = entries.get("names")
    if isinstance(names, dict):
        names = _order_by_class(names)
        if names is None:
            raise InputError(file, f"names must be numbered from 0 without gaps. {_HINT}")
    if not isinstance(names, list) or not names:
        raise InputError(file, f"names must be a list of categories. {_HINT}")
    # not shown in the message, as YAML aliases can make it very long
    if not all(isinstance(name, str) for name in names):
        raise InputError(file, f"names must be texts. {_HINT}")
    return validate_categories(file, names)


def _order_by_class(table: Mapping[Any, Any]) -> list[Any] | None:
    """Return the values of a table in the order of class indices; None with gaps or other keys."""
    by_index = {int(key): value for key, value in table.items() if str(key).isdecimal()}
    if len(by_index) < len(table) or any(index not in by_index for index in range(len(table))):
        return None
    return [by_index[index] for index in range(len(table))]


def _read_class_file(file: Path) -> tuple[str, ...]:
    names = [line.strip() for line in read_text(file, _MAX_BYTES, "list of classes").splitlines()]
    while names and not names[-1]:
        names.pop()
    if not names:
        raise InputError(file, f"contains no class. {_HINT}")
    return validate_categories(file, names)


def _parse_keypoint_names(
    file: Path, entries: Mapping[str, Any], categories: tuple[str, ...]
) -> tuple[tuple[tuple[str, ...], ...], int]:
    """Return the keypoint names of each class, and the numbers per keypoint."""
    shape: Any = entries.get("kpt_shape")
    if _is_null(shape):
        return (), 0
    is_valid = isinstance(shape, list) and all(isinstance(n, str) and n.isdecimal() for n in shape)
    count, dims = map(int, shape) if is_valid and len(shape) == 2 else (0, 0)
    if not 1 <= count <= _MAX_KEYPOINTS or dims not in (2, 3):
        raise InputError(
            file,
            f"kpt_shape: {reprlib.repr(shape)[:60]} must be the number of keypoints and 2 or 3, e.g. [17, 3]. "
            f"{_HINT}",
        )
    names: Any = entries.get("kpt_names")
    if _is_null(names):
        names = [str(number) for number in range(count)]
    class_names = (
        _order_by_class(names) or [] if isinstance(names, dict) else [names] * len(categories)
    )
    if len(class_names) != len(categories) or not all(
        _are_unique_names(keypoint_names, count) for keypoint_names in class_names
    ):
        raise InputError(file, f"kpt_names must be {count} different names for each class. {_HINT}")
    return tuple(tuple(keypoint_names) for keypoint_names in class_names), dims


def _are_unique_names(names: Any, count: int) -> bool:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return False
    return len(names) == len(set(names)) == count
