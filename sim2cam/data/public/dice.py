"""Conversion of the dice photos of ``nell-byler/dice_detection`` to COCO files.

The photos come from the repository's TFRecords. Boxes come from its YOLO labels, because the boxes in the
TFRecords are wrongly square.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from sim2cam.data.formats.yolo.layout import DATA_FILE
from sim2cam.data.formats.yolo.reader import read_yolo
from sim2cam.data.public.tf_records import read_examples
from sim2cam.data.sample import Sample
from sim2cam.data.writer import write_json
from sim2cam.errors import InputError
from sim2cam.files import write_bytes
from sim2cam.geometry.boxes import xyxy_to_xywh

PHOTO_COUNTS = {"train": 200, "test": 50}
OBJECT_COUNTS = {"train": 1487, "test": 308}

_RECORD_PATTERN, _LICENCE_FILE = "tfrecords/{}.record", "LICENSE"
_DEV_PHOTOS_PER_DAY = 20


def arrange_dice(archive_dir: Path, folder: Path) -> None:
    """Fill a folder with ``train/``, ``test/`` and COCO files of both and of two subsets of train.

    ``dev.json`` has the first 20 train photos of each of the two days, ``style.json`` the rest.

    Raises:
        InputError: If a file is missing or broken, or the number of photos or boxes is wrong.
        OutputError: If the folder is not writable.
    """
    (repository, *_) = (
        path for path in [*sorted(archive_dir.iterdir()), archive_dir] if path.is_dir()
    )
    for required_name in (
        *(_RECORD_PATTERN.format(split) for split in PHOTO_COUNTS),
        _LICENCE_FILE,
    ):
        if not (repository / required_name).is_file():
            raise InputError(
                repository / required_name, "is not in the archive, which is of another commit."
            )
    staged = archive_dir / "staged"
    for split in PHOTO_COUNTS:
        _stage_split(repository, split, staged)
    names = "".join(f"- '{value}'\n" for value in range(1, 7))
    split_lines = "".join(f"{split}: images/{split}\n" for split in PHOTO_COUNTS)
    write_bytes(staged / DATA_FILE, f"{split_lines}names:\n{names}".encode())
    datasets = read_yolo(staged, "real")
    for split, dataset in datasets.items():
        counts = len(dataset.samples), sum(len(s.objects or ()) for s in dataset.samples)
        if counts != (PHOTO_COUNTS[split], OBJECT_COUNTS[split]):
            raise InputError(
                repository,
                f"{split} has {counts[0]} photos and {counts[1]} boxes, not {PHOTO_COUNTS[split]} and "
                f"{OBJECT_COUNTS[split]}. It is of another commit.",
            )
        folder.mkdir(parents=True, exist_ok=True)
        (staged / "images" / split).rename(folder / split)
        write_json(folder / f"{split}.json", _build_coco(dataset.samples))
    dev = _select_dev(datasets["train"].samples)
    style = [sample for sample in datasets["train"].samples if sample not in dev]
    write_json(folder / "dev.json", _build_coco(dev))
    write_json(folder / "style.json", _build_coco(style))
    (repository / _LICENCE_FILE).rename(folder / _LICENCE_FILE)


def _stage_split(repository: Path, split: str, staging_dir: Path) -> None:
    records = repository / _RECORD_PATTERN.format(split)
    for example in read_examples(records):
        name = example.get("image/filename", b"").decode(errors="replace")
        photo = example.get("image/encoded")
        if photo is None or PurePosixPath(name).name != name or not name.endswith(".jpg"):
            raise InputError(records, f"has no photo named '{name}'. Fetch it again.")
        labels = repository / "data/Annotations" / name.replace(".jpg", ".txt")
        if not labels.is_file():
            raise InputError(
                labels, f"is missing, although its photo is in {records.name}. Fetch it again."
            )
        write_bytes(staging_dir / "images" / split / name, photo)
        label_copy = staging_dir / "labels" / split / labels.name
        write_bytes(label_copy, labels.read_bytes())


def _select_dev(samples: Sequence[Sample]) -> list[Sample]:
    """Return the first photos of each day by file name, as ``IMG_20191208_111228.jpg``."""
    days: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        days[sample.rgb.name.split("_")[1]].append(sample)
    return [sample for day in days.values() for sample in day[:_DEV_PHOTOS_PER_DAY]]


def _build_coco(samples: Sequence[Sample]) -> dict[str, Any]:
    annotations: list[dict[str, Any]] = []
    for image_id, sample in enumerate(samples, start=1):
        for label in sample.objects or ():
            bbox = [round(value, 2) for value in xyxy_to_xywh(label.box_xyxy)]
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": image_id,
                    "category_id": int(label.category),
                    "bbox": bbox,
                    "area": round(bbox[2] * bbox[3], 2),
                    "iscrowd": 0,
                }
            )
    return {
        "images": [
            {
                "id": image_id,
                "file_name": sample.name.removeprefix("images/"),
                "width": sample.width,
                "height": sample.height,
            }
            for image_id, sample in enumerate(samples, start=1)
        ],
        "annotations": annotations,
        "categories": [{"id": value, "name": str(value)} for value in range(1, 7)],
    }
