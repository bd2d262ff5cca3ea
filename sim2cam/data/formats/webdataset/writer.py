"""WebDataset: tar files in which a sample is the files of one name, read in one stream."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sim2cam.data.channels import DEPTH_SCALE_M
from sim2cam.data.formats.writing import bytes_of, to_json, upright_file
from sim2cam.data.sample import Dataset, Sample
from sim2cam.data.writer import plain
from sim2cam.files import writing

SAMPLES_PER_TAR = 1000


def write_webdataset(parts: Mapping[str, Dataset], folder: Path) -> None:
    """Fills a folder with ``PART-000000.tar``, ... of whole scenes, about 1000 samples each.

    Of a sample there are ``KEY.jpg`` (or what the picture is), ``KEY.json`` with its labels, lens
    and origin in the fields of ``dataset.sample`` (metres, pixels, boxes xyxy), and a file for each
    channel, ``KEY.depth.png``, as ``dataset.channels`` says; the key is its number. Decode these
    with all their 16 bits.

    Raises:
        InputError: an image that cannot be read.
        OutputError: the folder cannot be written.
    """
    for name, dataset in parts.items():
        for number, group in enumerate(_groups(dataset.samples)):
            _write_tar(folder / f"{name}-{number:06d}.tar", group, dataset.categories)


def _groups(samples: Sequence[Sample]) -> Iterator[list[tuple[int, Sample]]]:
    """Yields numbered samples, cut between scenes."""
    group: list[tuple[int, Sample]] = []
    for number, sample in enumerate(samples):
        if len(group) >= SAMPLES_PER_TAR and group[-1][1].scene_index != sample.scene_index:
            yield group
            group = []
        group.append((number, sample))
    yield group


def _write_tar(
    path: Path, group: Sequence[tuple[int, Sample]], categories: tuple[str, ...]
) -> None:
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(path, mode="w") as tar:
            for number, sample in group:
                for ending, data in _files(sample, categories).items():
                    entry = tarfile.TarInfo(f"{number:06d}{ending}")  # without times or owners
                    entry.size = len(data)
                    tar.addfile(entry, io.BytesIO(data))


def _files(sample: Sample, categories: tuple[str, ...]) -> dict[str, bytes]:
    picture, suffix = upright_file(sample)
    files = {suffix.lower(): picture, ".json": to_json(_facts(sample, categories), sample.rgb)}
    for channel, path in sample.channels.items():
        files[f".{channel}.png"] = bytes_of(path)
    if sample.right is not None:
        files[f".right{sample.right.suffix.lower()}"] = bytes_of(sample.right)
    return files


def _facts(sample: Sample, categories: tuple[str, ...]) -> dict[str, Any]:
    """Returns a sample without its files, and what makes it readable alone."""
    facts: dict[str, Any] = plain(sample)
    for name in ("rgb", "channels", "tracks", "right"):
        facts.pop(name, None)
    facts["categories"] = list(categories)
    if sample.lens is not None:
        facts["depth_along"] = sample.lens.depth_along
    if "depth" in sample.channels:
        facts["depth_scale_m"] = DEPTH_SCALE_M
    return facts
