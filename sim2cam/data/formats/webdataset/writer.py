"""WebDataset writer: tar files in which the files of a sample share a key."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sim2cam.data.channels import DEPTH_SCALE_M
from sim2cam.data.formats.writing import encode_upright, read_bytes, to_json
from sim2cam.data.sample import Dataset, Sample
from sim2cam.data.writer import to_json_value
from sim2cam.files import convert_write_errors

SAMPLES_PER_TAR = 1000


def write_webdataset(splits: Mapping[str, Dataset], folder: Path) -> None:
    """Write ``SPLIT-000000.tar``, ... with whole scenes, about 1000 samples each.

    A sample has ``KEY.jpg`` (or its image format), ``KEY.json`` with labels, lens and origin in the
    fields of ``data.sample.Sample`` (metres, pixels, boxes xyxy), and a file for each channel, e.g.
    ``KEY.depth.png``, encoded as in ``data.channels`` with 16 bits. The key is the index of the
    sample.

    Raises:
        InputError: an image cannot be read.
        OutputError: the folder cannot be written.
    """
    for name, dataset in splits.items():
        for number, group in enumerate(_group_by_scene(dataset.samples)):
            _write_tar(folder / f"{name}-{number:06d}.tar", group, dataset.categories)


def _group_by_scene(samples: Sequence[Sample]) -> Iterator[list[tuple[int, Sample]]]:
    """Yield groups of indexed samples, split between scenes."""
    group: list[tuple[int, Sample]] = []
    for number, sample in enumerate(samples):
        if len(group) >= SAMPLES_PER_TAR and group[-1][1].scene_index != sample.scene_index:
            yield group
            group = []
        group.append((number, sample))
    if group:
        yield group


def _write_tar(
    path: Path, group: Sequence[tuple[int, Sample]], categories: tuple[str, ...]
) -> None:
    with convert_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(path, mode="w") as tar:
            for number, sample in group:
                for ending, data in _encode_files(sample, categories).items():
                    # entries have no time and owner, for reproducible files
                    entry = tarfile.TarInfo(f"{number:06d}{ending}")
                    entry.size = len(data)
                    tar.addfile(entry, io.BytesIO(data))


def _encode_files(sample: Sample, categories: tuple[str, ...]) -> dict[str, bytes]:
    image, suffix = encode_upright(sample)
    files = {
        suffix.lower(): image,
        ".json": to_json(_build_metadata(sample, categories), sample.rgb),
    }
    for channel, path in sample.channels.items():
        files[f".{channel}.png"] = read_bytes(path)
    if sample.right_rgb is not None:
        files[f".right{sample.right_rgb.suffix.lower()}"] = read_bytes(sample.right_rgb)
    return files


def _build_metadata(sample: Sample, categories: tuple[str, ...]) -> dict[str, Any]:
    """Return the JSON values of a sample without its files, with categories and depth encoding."""
    metadata: dict[str, Any] = to_json_value(sample)
    for name in ("rgb", "channels", "tracks", "right_rgb"):
        metadata.pop(name, None)
    metadata["categories"] = list(categories)
    if sample.lens is not None:
        metadata["depth_along"] = sample.lens.depth_along
    if "depth" in sample.channels:
        metadata["depth_scale_m"] = DEPTH_SCALE_M
    return metadata
