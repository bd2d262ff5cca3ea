"""Reading WebDataset: tar files are unpacked into the user's cache, once for each content.

Nothing in a tar file decides where anything is written: samples are numbered, and only pictures that
are asked for are unpacked.
"""

from __future__ import annotations

import functools
import json
import re
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim2cam import images
from sim2cam.data.cache import unpacked
from sim2cam.data.channels import CHANNELS
from sim2cam.data.formats.bop.reader import read_bop_image
from sim2cam.data.formats.coco.reader import read_coco_image
from sim2cam.data.formats.writing import each_a_scene
from sim2cam.data.parsing import stays_inside
from sim2cam.data.problems import Problems
from sim2cam.data.reader import RawSample, parse_sample
from sim2cam.data.sample import Dataset, Origin, Sample
from sim2cam.errors import InputError
from sim2cam.files import write_bytes

_VERSION = "tars-2"  # counts up when they are unpacked differently
_LINES = "samples.jsonl"
_MOST_BYTES = 300_000_000  # of one file
_BESIDE = (*CHANNELS, "right")
_PLACE = re.compile(r"((?:.*/)?[^./][^./]*)\.([^/]+)")
_META = re.compile(r"__[^/]*__($|/)")
_NAMED = re.compile(r"(rgb|gray)\.[^.]+")
_POSES, _INFOS = "gt.json", "gt_info.json"
_TABLES = ("json", _POSES, _INFOS)
_AGAIN = "Write the file again"


def is_webdataset(path: Path) -> bool:
    """Returns whether a path is a tar file, or a folder of them without pictures or lists of any."""
    if path.suffix == ".tar":
        return path.is_file()
    others = (p for p in path.glob("*") if p.suffix.lower() in (*images.SUFFIXES, ".json"))
    return any(path.glob("*.tar")) and not any(others)


def read_webdataset(
    path: Path, origin: Origin, *, skip_invalid: bool = False
) -> dict[str, Dataset]:
    """Return the parts of a tar file or of a folder of them, named as ``PART-000000.tar``.

    Of those that ``write_webdataset`` wrote, everything is read back. Of others, a sample is its one image, named
    ``TAR/KEY``: the only one, or that called ``KEY.rgb.jpg`` or ``KEY.gray.png``. It has labels where its ``json``
    holds COCO tables of that image, with ``annotations`` and ``categories``, or where it has ``gt.json`` and
    ``gt_info.json`` of BOP; otherwise it was never labelled.

    Args:
        path: the file or folder.
        origin: how the images of others were made.
        skip_invalid: leave flawed annotations out with a warning.

    Raises:
        InputError: a file is cut off or no tar file, holds links or names that lead elsewhere or come
            twice, or a sample is broken.
    """
    problems = Problems(path, skip=skip_invalid)
    tars = [path] if path.is_file() else sorted(path.glob("*.tar"))
    found: dict[str, list[_Read]] = {}
    for tar in tars:
        part = re.sub(r"[-_.]?\d+$", "", tar.stem) or "train"
        found.setdefault(part, []).extend(_samples(tar, origin, problems))
    problems.finish()
    read = [one for part in found.values() for one in part]
    _check_names(read)
    categories = tuple(dict.fromkeys(name for one in read for name in one.categories))
    parts = {
        part: Dataset(path, categories, tuple(one.sample for one in samples))
        for part, samples in found.items()
    }
    return parts if all(one.is_ours for one in read) else each_a_scene(parts)


@dataclass(frozen=True)
class _Read:
    """A sample, the categories that are told with it, and whether our export wrote it."""

    tar: Path
    sample: Sample
    categories: tuple[str, ...]
    is_ours: bool


def _check_names(read: Sequence[_Read]) -> None:
    found: dict[str, Path] = {}
    for one in read:
        other = found.setdefault(one.sample.name, one.tar)
        if other != one.tar:
            raise InputError(
                one.tar, f"sample {one.sample.name} is in {other.name} too. Keep one of them."
            )


def _samples(tar: Path, origin: Origin, problems: Problems) -> Iterator[_Read]:
    folder = unpacked(tar, _VERSION, functools.partial(_fill, tar))
    for text in (folder / _LINES).read_bytes().splitlines():
        entry = json.loads(text)
        tables = {name: _parsed(tar, entry["key"], text) for name, text in entry["json"].items()}
        facts = tables.get("json")
        facts = facts if isinstance(facts, dict) else {}
        names = _names(facts.get("categories"))
        if "origin" in facts and names is not None:
            line = facts | {"files": dict.fromkeys(entry["files"], "")}
            sample = parse_sample(RawSample(folder, line, tar), names)
            _check_size(tar, sample)
            yield _Read(tar, sample, names, is_ours=True)
        else:
            yield _of_others(tar, folder, entry, tables, origin, problems)


def _names(value: Any) -> tuple[str, ...] | None:
    """Returns a list of names, None where it is something else."""
    are_names = isinstance(value, list) and all(isinstance(name, str) for name in value)
    return tuple(value) if are_names else None


def _parsed(tar: Path, key: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(tar, f"sample {key}: not JSON ({error}). {_AGAIN}.") from error


def _check_size(tar: Path, sample: Sample) -> None:
    width, height = images.read_size(sample.rgb)
    if (width, height) != (sample.width, sample.height):
        raise InputError(
            tar,
            f"sample {sample.name} is {width}x{height} pixels, not {sample.width}x{sample.height} as "
            f"listed. {_AGAIN}.",
        )


def _of_others(
    tar: Path,
    folder: Path,
    entry: dict[str, Any],
    tables: dict[str, Any],
    origin: Origin,
    problems: Problems,
) -> _Read:
    (picture,) = (folder / place for place in entry["files"] if place.startswith("rgb/"))
    width, height = images.read_size(picture)
    name = f"{tar.stem}/{entry['key']}"
    categories: tuple[str, ...] = ()
    objects = None
    facts = tables.get("json")
    if isinstance(facts, dict) and "annotations" in facts and "categories" in facts:
        categories, objects = read_coco_image(tar, name, picture, facts, problems)
    elif {_POSES, _INFOS} <= tables.keys():
        objects = read_bop_image(
            tar, name, tables[_POSES], tables[_INFOS], (width, height), problems
        )
        categories = tuple(sorted({label.category for label in objects}))
    sample = Sample(name, picture, width, height, objects, origin)
    return _Read(tar, sample, categories, is_ours=False)


def _fill(tar: Path, folder: Path) -> None:
    """Writes a tar file's samples: numbered pictures, and a line for each in order."""
    lines = [
        _unpack(tar, key, files, folder, number) for number, (key, files) in enumerate(_groups(tar))
    ]
    if not lines:
        raise InputError(tar, f"it holds no samples. {_AGAIN}.")
    write_bytes(folder / _LINES, "".join(f"{json.dumps(line)}\n" for line in lines).encode())


def _unpack(
    tar: Path, key: str, files: dict[str, bytes], folder: Path, number: int
) -> dict[str, Any]:
    """Writes the pictures of a sample and returns its line."""
    pictures = [ending for ending in files if f".{ending}" in images.SUFFIXES]
    if not pictures:  # then as BOP names them
        pictures = [
            e for e in files if _NAMED.fullmatch(e) and f".{e.split('.')[1]}" in images.SUFFIXES
        ]
    if len(pictures) != 1:
        told = f"{len(pictures)} pictures ({', '.join(pictures)})" if pictures else "no picture"
        raise InputError(tar, f"sample {key} has {told}, not one. {_AGAIN}.")
    places = {pictures[0]: f"rgb/{number:06d}.{pictures[0].rpartition('.')[2]}"}
    for ending in files:
        name, _, suffix = ending.partition(".")
        if name in _BESIDE and f".{suffix}" in images.SUFFIXES:
            places[ending] = f"{name}/{number:06d}.{suffix}"
    for ending, place in places.items():
        write_bytes(folder / place, files[ending])
    try:
        texts = {name: files[name].decode("utf-8-sig") for name in _TABLES if name in files}
    except UnicodeDecodeError as error:
        raise InputError(tar, f"sample {key}: its json is no text in UTF-8. {_AGAIN}.") from error
    return {"key": key, "files": list(places.values()), "json": texts}


def _groups(path: Path) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yields the key of each sample and its files by what follows the key, as the library does."""
    seen: set[str] = set()
    last, files = "", dict[str, bytes]()
    for key, ending, data in _files(path):
        if key != last:
            if files:
                yield last, files
            if key in seen:
                raise InputError(path, f"the files of sample {key} do not lie together. {_AGAIN}.")
            seen.add(key)
            last, files = key, {}
        if ending in files:
            raise InputError(path, f"two files are named {key}.{ending}. Keep one of them.")
        files[ending] = data
    if files:
        yield last, files


def _files(path: Path) -> Iterator[tuple[str, str, bytes]]:
    """Yields key, ending and content of each file; what has no key is left out."""
    try:
        with tarfile.open(path, mode="r:") as tar:
            for entry in tar:
                place = _place(path, entry)
                if place is not None:
                    content = tar.extractfile(entry)
                    assert content is not None
                    yield (*place, content.read())
            end = tar.offset
    except (tarfile.TarError, EOFError) as error:
        raise InputError(path, f"not a whole tar file ({error}). Copy it again.") from error
    except OSError as error:
        raise InputError(path, f"cannot be read ({error.strerror}). Check the path.") from error
    with path.open("rb") as file:
        file.seek(end)
        if file.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):  # which the library overlooks
            raise InputError(path, "not a whole tar file (it has no end). Copy it again.")


def _place(path: Path, entry: tarfile.TarInfo) -> tuple[str, str] | None:
    """Returns key and ending of an entry; None of what is no file of a sample."""
    name = entry.name.removeprefix("./")
    if entry.isdir() or _META.match(name):
        return None
    if not entry.isreg() or entry.issparse():
        raise InputError(path, f"entry '{name[:80]}' is no plain file. {_AGAIN} without it.")
    if not stays_inside(name):
        raise InputError(path, f"entry '{name[:80]}' leads outside. {_AGAIN} without it.")
    if entry.size > _MOST_BYTES:
        raise InputError(
            path, f"entry '{name[:80]}' has more than {_MOST_BYTES} bytes. {_AGAIN} without it."
        )
    found = _PLACE.fullmatch(name)
    return (found[1], found[2].lower()) if found else None
