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
from sim2cam.data.cache import unpack_cached
from sim2cam.data.channels import CHANNELS
from sim2cam.data.formats.bop.reader import read_bop_image
from sim2cam.data.formats.coco.reader import read_coco_image
from sim2cam.data.formats.writing import assign_scene_per_image
from sim2cam.data.parsing import is_inside_folder
from sim2cam.data.problems import AnnotationErrors
from sim2cam.data.reader import SampleRecord, parse_sample
from sim2cam.data.sample import Dataset, Origin, Sample
from sim2cam.errors import InputError
from sim2cam.files import write_bytes

_VERSION = "tars-2"  # counts up when they are unpacked differently
_INDEX_FILE = "samples.jsonl"
_MAX_BYTES = 300_000_000  # of one file
_CHANNEL_NAMES = (*CHANNELS, "right")
_ENTRY_PATTERN = re.compile(r"((?:.*/)?[^./][^./]*)\.([^/]+)")
_META_PATTERN = re.compile(r"__[^/]*__($|/)")
_BOP_IMAGE_PATTERN = re.compile(r"(rgb|gray)\.[^.]+")
_POSE_FILE, _INFO_FILE = "gt.json", "gt_info.json"
_TABLE_NAMES = ("json", _POSE_FILE, _INFO_FILE)
_REWRITE_HINT = "Write the file again"


def is_webdataset(path: Path) -> bool:
    """Return whether a path is a tar file, or a folder of them without pictures or lists of any."""
    if path.suffix == ".tar":
        return path.is_file()
    others = (p for p in path.glob("*") if p.suffix.lower() in (*images.IMAGE_SUFFIXES, ".json"))
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
    problems = AnnotationErrors(path, skip_invalid=skip_invalid)
    tars = [path] if path.is_file() else sorted(path.glob("*.tar"))
    found: dict[str, list[_TarSample]] = {}
    for tar in tars:
        part = re.sub(r"[-_.]?\d+$", "", tar.stem) or "train"
        found.setdefault(part, []).extend(_read_samples(tar, origin, problems))
    problems.report()
    read = [one for part in found.values() for one in part]
    _check_unique_names(read)
    categories = tuple(dict.fromkeys(name for one in read for name in one.categories))
    parts = {
        part: Dataset(path, categories, tuple(one.sample for one in samples))
        for part, samples in found.items()
    }
    return parts if all(one.is_own_format for one in read) else assign_scene_per_image(parts)


@dataclass(frozen=True)
class _TarSample:
    """A sample, the categories that are told with it, and whether our export wrote it."""

    tar: Path
    sample: Sample
    categories: tuple[str, ...]
    is_own_format: bool


def _check_unique_names(tar_samples: Sequence[_TarSample]) -> None:
    found: dict[str, Path] = {}
    for one in tar_samples:
        other = found.setdefault(one.sample.name, one.tar)
        if other != one.tar:
            raise InputError(
                one.tar, f"sample {one.sample.name} is in {other.name} too. Keep one of them."
            )


def _read_samples(tar: Path, origin: Origin, problems: AnnotationErrors) -> Iterator[_TarSample]:
    folder = unpack_cached(tar, _VERSION, functools.partial(_unpack_tar, tar))
    for text in (folder / _INDEX_FILE).read_bytes().splitlines():
        entry = json.loads(text)
        tables = {
            name: _parse_json(tar, entry["key"], text) for name, text in entry["json"].items()
        }
        facts = tables.get("json")
        facts = facts if isinstance(facts, dict) else {}
        names = _parse_names(facts.get("categories"))
        if "origin" in facts and names is not None:
            line = facts | {"files": dict.fromkeys(entry["files"], "")}
            sample = parse_sample(SampleRecord(folder, line, tar), names)
            _check_size(tar, sample)
            yield _TarSample(tar, sample, names, is_own_format=True)
        else:
            yield _read_foreign_sample(tar, folder, entry, tables, origin, problems)


def _parse_names(value: Any) -> tuple[str, ...] | None:
    """Return a list of names, None where it is something else."""
    are_names = isinstance(value, list) and all(isinstance(name, str) for name in value)
    return tuple(value) if are_names else None


def _parse_json(tar: Path, key: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(tar, f"sample {key}: not JSON ({error}). {_REWRITE_HINT}.") from error


def _check_size(tar: Path, sample: Sample) -> None:
    width, height = images.read_size(sample.rgb)
    if (width, height) != (sample.width, sample.height):
        raise InputError(
            tar,
            f"sample {sample.name} is {width}x{height} pixels, not {sample.width}x{sample.height} as "
            f"listed. {_REWRITE_HINT}.",
        )


def _read_foreign_sample(
    tar: Path,
    folder: Path,
    entry: dict[str, Any],
    tables: dict[str, Any],
    origin: Origin,
    problems: AnnotationErrors,
) -> _TarSample:
    (picture,) = (folder / place for place in entry["files"] if place.startswith("rgb/"))
    width, height = images.read_size(picture)
    name = f"{tar.stem}/{entry['key']}"
    categories: tuple[str, ...] = ()
    objects = None
    facts = tables.get("json")
    if isinstance(facts, dict) and "annotations" in facts and "categories" in facts:
        categories, objects = read_coco_image(tar, name, picture, facts, problems)
    elif {_POSE_FILE, _INFO_FILE} <= tables.keys():
        objects = read_bop_image(
            tar, name, tables[_POSE_FILE], tables[_INFO_FILE], (width, height), problems
        )
        categories = tuple(sorted({label.category for label in objects}))
    sample = Sample(name, picture, width, height, objects, origin)
    return _TarSample(tar, sample, categories, is_own_format=False)


def _unpack_tar(tar: Path, folder: Path) -> None:
    """Write a tar file's samples: numbered pictures, and a line for each in order."""
    lines = [
        _unpack_sample(tar, key, files, folder, number)
        for number, (key, files) in enumerate(_group_by_key(tar))
    ]
    if not lines:
        raise InputError(tar, f"it holds no samples. {_REWRITE_HINT}.")
    write_bytes(folder / _INDEX_FILE, "".join(f"{json.dumps(line)}\n" for line in lines).encode())


def _unpack_sample(
    tar: Path, key: str, files: dict[str, bytes], folder: Path, number: int
) -> dict[str, Any]:
    """Write the pictures of a sample and returns its line."""
    pictures = [ending for ending in files if f".{ending}" in images.IMAGE_SUFFIXES]
    if not pictures:  # then as BOP names them
        pictures = [
            e
            for e in files
            if _BOP_IMAGE_PATTERN.fullmatch(e) and f".{e.split('.')[1]}" in images.IMAGE_SUFFIXES
        ]
    if len(pictures) != 1:
        told = f"{len(pictures)} pictures ({', '.join(pictures)})" if pictures else "no picture"
        raise InputError(tar, f"sample {key} has {told}, not one. {_REWRITE_HINT}.")
    places = {pictures[0]: f"rgb/{number:06d}.{pictures[0].rpartition('.')[2]}"}
    for ending in files:
        name, _, suffix = ending.partition(".")
        if name in _CHANNEL_NAMES and f".{suffix}" in images.IMAGE_SUFFIXES:
            places[ending] = f"{name}/{number:06d}.{suffix}"
    for ending, place in places.items():
        write_bytes(folder / place, files[ending])
    try:
        texts = {name: files[name].decode("utf-8-sig") for name in _TABLE_NAMES if name in files}
    except UnicodeDecodeError as error:
        raise InputError(
            tar, f"sample {key}: its json is no text in UTF-8. {_REWRITE_HINT}."
        ) from error
    return {"key": key, "files": list(places.values()), "json": texts}


def _group_by_key(path: Path) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield the key of each sample and its files by what follows the key, as the library does."""
    seen: set[str] = set()
    last, files = "", dict[str, bytes]()
    for key, ending, data in _iterate_files(path):
        if key != last:
            if files:
                yield last, files
            if key in seen:
                raise InputError(
                    path, f"the files of sample {key} do not lie together. {_REWRITE_HINT}."
                )
            seen.add(key)
            last, files = key, {}
        if ending in files:
            raise InputError(path, f"two files are named {key}.{ending}. Keep one of them.")
        files[ending] = data
    if files:
        yield last, files


def _iterate_files(path: Path) -> Iterator[tuple[str, str, bytes]]:
    """Yield key, ending and content of each file; what has no key is left out."""
    try:
        with tarfile.open(path, mode="r:") as tar:
            for entry in tar:
                place = _split_entry_name(path, entry)
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


def _split_entry_name(path: Path, entry: tarfile.TarInfo) -> tuple[str, str] | None:
    """Return key and ending of an entry; None of what is no file of a sample."""
    name = entry.name.removeprefix("./")
    if entry.isdir() or _META_PATTERN.match(name):
        return None
    if not entry.isreg() or entry.issparse():
        raise InputError(path, f"entry '{name[:80]}' is no plain file. {_REWRITE_HINT} without it.")
    if not is_inside_folder(name):
        raise InputError(path, f"entry '{name[:80]}' leads outside. {_REWRITE_HINT} without it.")
    if entry.size > _MAX_BYTES:
        raise InputError(
            path,
            f"entry '{name[:80]}' has more than {_MAX_BYTES} bytes. {_REWRITE_HINT} without it.",
        )
    found = _ENTRY_PATTERN.fullmatch(name)
    return (found[1], found[2].lower()) if found else None
