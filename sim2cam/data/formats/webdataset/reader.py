"""WebDataset reader: tar files are unpacked to the user's cache, once per content.

Names in a tar file do not determine output paths: samples are numbered, and only images are
unpacked.
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

_VERSION = "tars-2"  # change when unpacking changes
_INDEX_FILE = "samples.jsonl"
_MAX_BYTES = 300_000_000  # per file
_CHANNEL_NAMES = (*CHANNELS, "right")
_ENTRY_PATTERN = re.compile(r"((?:.*/)?[^./][^./]*)\.([^/]+)")
_META_PATTERN = re.compile(r"__[^/]*__($|/)")
_BOP_IMAGE_PATTERN = re.compile(r"(rgb|gray)\.[^.]+")
_POSE_FILE, _INFO_FILE = "gt.json", "gt_info.json"
_TABLE_NAMES = ("json", _POSE_FILE, _INFO_FILE)
_REWRITE_HINT = "Write the file again"


def is_webdataset(path: Path) -> bool:
    """Return whether a path is a tar file, or a folder of tar files without images or JSON files."""
    if path.suffix == ".tar":
        return path.is_file()
    others = (p for p in path.glob("*") if p.suffix.lower() in (*images.IMAGE_SUFFIXES, ".json"))
    return any(path.glob("*.tar")) and not any(others)


def read_webdataset(
    path: Path, origin: Origin, *, skip_invalid: bool = False
) -> dict[str, Dataset]:
    """Return the splits of a tar file or a folder of tar files named ``SPLIT-000000.tar``.

    Files of ``write_webdataset`` are restored completely. In others, a sample is its one image,
    named ``TAR/KEY``: the only image, or ``KEY.rgb.*`` or ``KEY.gray.*``. Labels come from COCO
    tables with ``annotations`` and ``categories`` in its ``json``, or from BOP's ``gt.json`` and
    ``gt_info.json``; otherwise the sample is unlabelled.

    Raises:
        InputError: a file is truncated or not a tar file, contains links, unsafe or duplicate
            names, or a sample is broken.
    """
    problems = AnnotationErrors(path, skip_invalid=skip_invalid)
    tars = [path] if path.is_file() else sorted(path.glob("*.tar"))
    by_split: dict[str, list[_TarSample]] = {}
    for tar in tars:
        split = re.sub(r"[-_.]?\d+$", "", tar.stem) or "train"
        by_split.setdefault(split, []).extend(_read_samples(tar, origin, problems))
    problems.report()
    tar_samples = [item for items in by_split.values() for item in items]
    _check_unique_names(tar_samples)
    categories = tuple(dict.fromkeys(name for item in tar_samples for name in item.categories))
    splits = {
        split: Dataset(path, categories, tuple(item.sample for item in items))
        for split, items in by_split.items()
    }
    is_own_format = all(item.is_own_format for item in tar_samples)
    return splits if is_own_format else assign_scene_per_image(splits)


@dataclass(frozen=True)
class _TarSample:
    """A sample with its categories, and whether ``write_webdataset`` wrote it."""

    tar: Path
    sample: Sample
    categories: tuple[str, ...]
    is_own_format: bool


def _check_unique_names(tar_samples: Sequence[_TarSample]) -> None:
    tars: dict[str, Path] = {}
    for item in tar_samples:
        other = tars.setdefault(item.sample.name, item.tar)
        if other != item.tar:
            raise InputError(
                item.tar, f"sample {item.sample.name} is also in {other.name}. Remove one of them."
            )


def _read_samples(tar: Path, origin: Origin, problems: AnnotationErrors) -> Iterator[_TarSample]:
    folder = unpack_cached(tar, _VERSION, functools.partial(_unpack_tar, tar))
    for text in (folder / _INDEX_FILE).read_bytes().splitlines():
        entry = json.loads(text)
        tables = {
            name: _parse_json(tar, entry["key"], text) for name, text in entry["json"].items()
        }
        metadata = tables.get("json")
        metadata = metadata if isinstance(metadata, dict) else {}
        names = _parse_names(metadata.get("categories"))
        if "origin" in metadata and names is not None:
            record = metadata | {"files": dict.fromkeys(entry["files"], "")}
            sample = parse_sample(SampleRecord(folder, record, tar), names)
            _check_size(tar, sample)
            yield _TarSample(tar, sample, names, is_own_format=True)
        else:
            yield _read_foreign_sample(tar, folder, entry, tables, origin, problems)


def _parse_names(value: Any) -> tuple[str, ...] | None:
    """Return a list of names; None if the value is not one."""
    is_valid = isinstance(value, list) and all(isinstance(name, str) for name in value)
    return tuple(value) if is_valid else None


def _parse_json(tar: Path, key: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(tar, f"sample {key}: invalid JSON ({error}). {_REWRITE_HINT}.") from error


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
    (image_path,) = (folder / name for name in entry["files"] if name.startswith("rgb/"))
    width, height = images.read_size(image_path)
    name = f"{tar.stem}/{entry['key']}"
    categories: tuple[str, ...] = ()
    objects = None
    metadata = tables.get("json")
    if isinstance(metadata, dict) and {"annotations", "categories"} <= metadata.keys():
        categories, objects = read_coco_image(tar, name, image_path, metadata, problems)
    elif {_POSE_FILE, _INFO_FILE} <= tables.keys():
        objects = read_bop_image(
            tar, name, tables[_POSE_FILE], tables[_INFO_FILE], (width, height), problems
        )
        categories = tuple(sorted({label.category for label in objects}))
    sample = Sample(name, image_path, width, height, objects, origin)
    return _TarSample(tar, sample, categories, is_own_format=False)


def _unpack_tar(tar: Path, folder: Path) -> None:
    """Write the numbered images of a tar file's samples, and an index with a line for each sample."""
    records = [
        _unpack_sample(tar, key, files, folder, number)
        for number, (key, files) in enumerate(_group_by_key(tar))
    ]
    if not records:
        raise InputError(tar, f"contains no samples. {_REWRITE_HINT}.")
    write_bytes(
        folder / _INDEX_FILE, "".join(f"{json.dumps(record)}\n" for record in records).encode()
    )


def _unpack_sample(
    tar: Path, key: str, files: dict[str, bytes], folder: Path, number: int
) -> dict[str, Any]:
    image_endings = [ending for ending in files if f".{ending}" in images.IMAGE_SUFFIXES]
    if not image_endings:  # names of BOP
        image_endings = [
            ending
            for ending in files
            if _BOP_IMAGE_PATTERN.fullmatch(ending)
            and f".{ending.split('.')[1]}" in images.IMAGE_SUFFIXES
        ]
    if len(image_endings) != 1:
        listed = f" ({', '.join(image_endings)})" if image_endings else ""
        raise InputError(
            tar, f"sample {key} has {len(image_endings)} images{listed}, not one. {_REWRITE_HINT}."
        )
    targets = {image_endings[0]: f"rgb/{number:06d}.{image_endings[0].rpartition('.')[2]}"}
    for ending in files:
        name, _, suffix = ending.partition(".")
        if name in _CHANNEL_NAMES and f".{suffix}" in images.IMAGE_SUFFIXES:
            targets[ending] = f"{name}/{number:06d}.{suffix}"
    for ending, target in targets.items():
        write_bytes(folder / target, files[ending])
    try:
        texts = {name: files[name].decode("utf-8-sig") for name in _TABLE_NAMES if name in files}
    except UnicodeDecodeError as error:
        raise InputError(tar, f"sample {key}: its json is not UTF-8. {_REWRITE_HINT}.") from error
    return {"key": key, "files": list(targets.values()), "json": texts}


def _group_by_key(path: Path) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield the key of each sample and its files by ending, as the webdataset library does."""
    keys: set[str] = set()
    current, files = "", dict[str, bytes]()
    for key, ending, data in _iterate_files(path):
        if key != current:
            if files:
                yield current, files
            if key in keys:
                raise InputError(
                    path, f"the files of sample {key} are not contiguous. {_REWRITE_HINT}."
                )
            keys.add(key)
            current, files = key, {}
        if ending in files:
            raise InputError(path, f"two files are named {key}.{ending}. Remove one of them.")
        files[ending] = data
    if files:
        yield current, files


def _iterate_files(path: Path) -> Iterator[tuple[str, str, bytes]]:
    """Yield key, ending and content of each file; files without a key are left out."""
    try:
        with tarfile.open(path, mode="r:") as tar:
            for entry in tar:
                parts = _split_entry_name(path, entry)
                if parts is not None:
                    content = tar.extractfile(entry)
                    assert content is not None
                    yield (*parts, content.read())
            end = tar.offset
    except (tarfile.TarError, EOFError) as error:
        raise InputError(
            path, f"truncated or invalid tar file ({error}). Copy it again."
        ) from error
    except OSError as error:
        raise InputError(path, f"cannot be read ({error.strerror}). Check the path.") from error
    with path.open("rb") as file:
        file.seek(end)
        if file.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):  # not checked by tarfile
            raise InputError(path, "truncated tar file (end marker is missing). Copy it again.")


def _split_entry_name(path: Path, entry: tarfile.TarInfo) -> tuple[str, str] | None:
    """Return key and ending of an entry; None if it does not belong to a sample."""
    name = entry.name.removeprefix("./")
    if entry.isdir() or _META_PATTERN.match(name):
        return None
    if not entry.isreg() or entry.issparse():
        raise InputError(
            path, f"entry '{name[:80]}' is not a regular file. {_REWRITE_HINT} without it."
        )
    if not is_inside_folder(name):
        raise InputError(
            path, f"entry '{name[:80]}' has an unsafe path. {_REWRITE_HINT} without it."
        )
    if entry.size > _MAX_BYTES:
        raise InputError(
            path,
            f"entry '{name[:80]}' is larger than {_MAX_BYTES} bytes. {_REWRITE_HINT} without it.",
        )
    match = _ENTRY_PATTERN.fullmatch(name)
    return (match[1], match[2].lower()) if match else None
