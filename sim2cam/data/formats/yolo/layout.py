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
from sim2cam.data.formats.writing import checked_categories
from sim2cam.data.parsing import read_text, stays_inside
from sim2cam.errors import InputError

TABLE, DARKNET, CLASSES = "data.yaml", "obj.data", "classes.txt"
_PARTS = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}
_NULLS = ("", "~", "null", "Null", "NULL")
_MOST_BYTES = 4_000_000
_MOST_LIST_BYTES = 100_000_000
_LONGEST_PATH = 1024
_MOST_KEYPOINTS = 1000
_CURE = "Correct the file."


@dataclass(frozen=True)
class YoloLayout:
    """Images and classes of a folder with YOLO labels.

    Attributes:
        file: the file that names the classes.
        categories: names of the classes.
        parts: image files by the name of their part, each once; absolute or relative like ``file``.
        keypoints: names of the keypoints of each class; empty for boxes and outlines.
        keypoint_numbers: numbers that a line has for each keypoint: 2 (x, y) or 3 (and visibility).
        repeated: number of images that a part names more than once.
    """

    file: Path
    categories: tuple[str, ...]
    parts: Mapping[str, tuple[Path, ...]]
    keypoints: tuple[tuple[str, ...], ...] = ()
    keypoint_numbers: int = 0
    repeated: int = 0


def is_yolo(path: Path) -> bool:
    """Return whether a path is a folder in one of YOLO's layouts, or the file that describes one."""
    if not path.is_dir():
        return path.suffix.lower() in (".yaml", ".yml", ".data")
    named = (path / TABLE).is_file() or (path / DARKNET).is_file()
    return named or _has_label_folder(path) or _has_labels_beside(path)


def find_yolo(path: Path) -> YoloLayout:
    """Return the layout of a folder with YOLO labels.

    Args:
        path: the folder, or its ``data.yaml`` or ``obj.data``.

    Raises:
        InputError: a file is missing or broken, or names something outside the folder.
    """
    if path.is_dir():
        files = [path / name for name in (TABLE, DARKNET) if (path / name).is_file()]
        path = files[0] if files else path / CLASSES
    if path.name == CLASSES:
        return _beside_classes(path)
    return _of_darknet(path) if path.suffix.lower() == ".data" else _of_table(path)


def _has_label_folder(root: Path) -> bool:
    return (root / "images").is_dir() and (root / "labels").is_dir()


def _has_labels_beside(root: Path) -> bool:
    if not (root / CLASSES).is_file():
        return False
    return any(p.with_suffix(".txt").is_file() for p in root.iterdir() if _is_image(p))


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in images.SUFFIXES and not path.name.startswith(".")


def _beside_classes(file: Path) -> YoloLayout:
    root = file.parent
    if not file.is_file():
        raise InputError(
            root,
            f"has label files but neither {TABLE} nor {CLASSES}, which name the classes. Add {CLASSES} "
            "with one name per line.",
        )
    folder = root / "images" if _has_label_folder(root) else root
    return YoloLayout(file, _listed_categories(file), {"train": tuple(_in_folder(folder))})


def _of_darknet(file: Path) -> YoloLayout:
    lines = read_text(file, _MOST_BYTES, "list of a data set").splitlines()
    pairs = (line.partition("=") for line in lines)
    facts = {key.strip(): value.strip() for key, _, value in pairs}
    names = facts.get("names")
    if not names:
        raise InputError(file, f"does not name the file of class names (names = …). {_CURE}")
    categories = _listed_categories(_found(file, PurePosixPath("."), "names", names))
    return _with_parts(file, facts, PurePosixPath("."), categories=categories)


def _of_table(file: Path) -> YoloLayout:
    facts = _facts(file)
    categories = _categories(file, facts)
    keypoints, numbers = _keypoints(file, facts, categories)
    base = facts.get("path", ".")
    place = PurePosixPath(".") if _is_null(base) else _relative(file, "path", base)
    root = file.parent
    if place.name == root.resolve().name and not (root / place).is_dir():
        place = PurePosixPath(".")  # Ultralytics looks for it in a folder of its own
    return _with_parts(
        file, facts, place, categories=categories, keypoints=keypoints, keypoint_numbers=numbers
    )


def _with_parts(
    file: Path, facts: Mapping[str, Any], base: PurePosixPath, **fields: Any
) -> YoloLayout:
    """Return the layout with the images of each part; a part that repeats an earlier one is left out.

    Ultralytics requires ``val``, so that files without such a part name that of ``train`` again.
    """
    parts: dict[str, tuple[Path, ...]] = {}
    repeated = 0
    for key, name in _PARTS.items():
        if _is_null(facts.get(key)) or name in parts:
            continue
        given = facts[key] if isinstance(facts[key], list) else [facts[key]]
        files = [path for place in given for path in _images(file, base, key, place)]
        once = tuple(dict.fromkeys(files))
        if once and once in parts.values():
            continue
        repeated += len(files) - len(once)
        parts[name] = once
    if not parts:
        raise InputError(file, f"it names none of train, val, test. {_CURE}")
    return YoloLayout(file, parts=parts, repeated=repeated, **fields)


def _is_null(value: Any) -> bool:
    return value is None or value == [] or (isinstance(value, str) and value in _NULLS)


def _images(file: Path, base: PurePosixPath, key: str, place: Any) -> Iterator[Path]:
    path = _found(file, base, key, place)
    if path.is_dir():
        yield from _in_folder(path)
    elif path.is_file() and path.suffix.lower() == ".txt":
        for line in read_text(path, _MOST_LIST_BYTES, "list of images").splitlines():
            if line.strip():
                yield _found(path, PurePosixPath("."), "an image", line.strip(), file.parent)
    else:
        name = path.relative_to(file.parent)
        raise InputError(file, f"{key}: '{name}' is no folder of images and no list. {_CURE}")


def _in_folder(folder: Path) -> Iterator[Path]:
    """Yield the images of a folder and its sub-folders, by name."""
    return (path for path in sorted(folder.rglob("*")) if _is_image(path) and path.is_file())


def _found(file: Path, base: PurePosixPath, key: str, place: Any, root: Path | None = None) -> Path:
    """Return the path of something that a file names.

    CVAT begins each name with ``data/``, a folder that its exports do not have.
    """
    root = file.parent if root is None else root
    name = base / _relative(file, key, place, root)
    folders = (file.parent, root)
    names = (name, PurePosixPath(*name.parts[1:])) if name.parts[:1] == ("data",) else (name,)
    paths = [folder / one for one in names for folder in folders]
    return next((path for path in paths if path.exists()), paths[0])


def _relative(file: Path, key: str, place: Any, root: Path | None = None) -> PurePosixPath:
    """Return what a file names, relative to its folder.

    Some services write ``../train/images`` for folders beside the file.
    """
    name = place.replace("\\", "/") if isinstance(place, str) else ""
    while name.startswith("../"):
        name = name[3:]
    if PurePosixPath(name).is_absolute() and "\0" not in name:
        folder, path = (root or file.parent).resolve(), Path(name).resolve()
        name = path.relative_to(folder).as_posix() if path.is_relative_to(folder) else name
    if name and (not PurePosixPath(name).parts or stays_inside(name)) and _is_nameable(name):
        return PurePosixPath(name)
    cure = "Put the images into this folder and name them relative to it."
    if key == "path":
        cure = "Remove this entry where the images lie beside the file, or name their folder relative to it."
    raise InputError(
        file, f"{key}: {reprlib.repr(place)[:60]} does not lie in the folder of this file. {cure}"
    )


def _is_nameable(name: str) -> bool:
    """Return whether a file can have such a name."""
    steps = [step.encode(errors="replace") for step in PurePosixPath(name).parts]
    return "\0" not in name and len(name) < _LONGEST_PATH and all(len(s) < 256 for s in steps)


def _facts(file: Path) -> dict[str, Any]:
    """Return the table of ``data.yaml`` with every scalar as written: ``on`` is no truth value."""
    text = read_text(file, _MOST_BYTES, "list of a data set")
    try:
        facts = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 (constructs text, lists, tables)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InputError(file, f"not YAML. {_CURE}") from error
    if not isinstance(facts, dict):
        raise InputError(file, f"not a table. {_CURE}")
    return facts


def _categories(file: Path, facts: Mapping[str, Any]) -> tuple[str, ...]:
    names = facts.get("names")
    if isinstance(names, dict):
        names = _by_class(names)
        if names is None:
            raise InputError(file, f"names are not numbered from 0 without a gap. {_CURE}")
    if not isinstance(names, list) or not names:
        raise InputError(file, f"names is not a list of categories. {_CURE}")
    # aliases make a small file into something too long to be written out
    if not all(isinstance(name, str) for name in names):
        raise InputError(file, f"names holds something that is no name. {_CURE}")
    return checked_categories(file, names)


def _by_class(table: Mapping[Any, Any]) -> list[Any] | None:
    """Return the values of a table in the order of their class numbers; None with a gap or other keys."""
    numbered = {int(key): value for key, value in table.items() if str(key).isdecimal()}
    if len(numbered) < len(table) or any(n not in numbered for n in range(len(table))):
        return None
    return [numbered[number] for number in range(len(table))]


def _listed_categories(file: Path) -> tuple[str, ...]:
    names = [line.strip() for line in read_text(file, _MOST_BYTES, "list of classes").splitlines()]
    while names and not names[-1]:
        names.pop()
    if not names:
        raise InputError(file, f"names no class. {_CURE}")
    return checked_categories(file, names)


def _keypoints(
    file: Path, facts: Mapping[str, Any], categories: tuple[str, ...]
) -> tuple[tuple[tuple[str, ...], ...], int]:
    """Return the names of the keypoints of each class, and how many numbers each keypoint has."""
    shape: Any = facts.get("kpt_shape")
    if _is_null(shape):
        return (), 0
    whole = isinstance(shape, list) and all(isinstance(n, str) and n.isdecimal() for n in shape)
    count, numbers = map(int, shape) if whole and len(shape) == 2 else (0, 0)
    if not 1 <= count <= _MOST_KEYPOINTS or numbers not in (2, 3):
        raise InputError(
            file,
            f"kpt_shape: {reprlib.repr(shape)[:60]} must be the number of keypoints and 2 or 3, as [17, 3]. "
            f"{_CURE}",
        )
    names: Any = facts.get("kpt_names")
    if _is_null(names):
        names = [str(number) for number in range(count)]
    each = _by_class(names) or [] if isinstance(names, dict) else [names] * len(categories)
    if len(each) != len(categories) or not all(_fit(of_class, count) for of_class in each):
        raise InputError(file, f"kpt_names must be {count} different names for each class. {_CURE}")
    return tuple(tuple(of_class) for of_class in each), numbers


def _fit(names: Any, count: int) -> bool:
    """Return whether a value is a list of so many different names."""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return False
    return len(names) == len(set(names)) == count
