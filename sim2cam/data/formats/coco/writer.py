"""COCO writer: images, and one file with boxes, masks and keypoints per split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.data.formats.writing import encode_upright, get_stem, require_labels, to_json
from sim2cam.data.keypoints import get_keypoint_names
from sim2cam.data.sample import Dataset, ObjectLabel, Sample
from sim2cam.data.silhouettes import read_visible_masks
from sim2cam.errors import InputError
from sim2cam.files import write_bytes
from sim2cam.geometry.boxes import xyxy_to_xywh
from sim2cam.geometry.run_length import RleMask


def write_coco(splits: Mapping[str, Dataset], folder: Path) -> None:
    """Write ``SPLIT.json`` and ``images/SPLIT/`` for each split.

    Image files are copied; images that EXIF rotates are written upright as PNG. Masks are
    run-length encoded; in keypoints, integers are pixel centres. Extensions: ``visible_fraction``,
    ``bbox_amodal``, ``segmentation_amodal`` and ``instance_id`` of an annotation; ``camera``
    (lens), ``origin``, ``scene_index`` and ``occlusions`` of an image.

    Raises:
        InputError: an image is unlabelled or unreadable.
        OutputError: the folder cannot be written.
    """
    keypoints = get_keypoint_names(list(splits.values()))
    for name, dataset in splits.items():
        tables = _build_tables(dataset, folder, f"images/{name}", keypoints)
        write_bytes(folder / f"{name}.json", to_json(tables, dataset.root))


def _build_tables(
    dataset: Dataset, folder: Path, image_folder: str, keypoints: Mapping[str, tuple[str, ...]]
) -> dict[str, Any]:
    """Write the images of a split and return the tables of its COCO file."""
    category_ids = {
        name: category_id for category_id, name in enumerate(dataset.categories, start=1)
    }
    image_entries: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    for sample in dataset.samples:
        image_entries.append(_write_image(sample, len(image_entries) + 1, folder, image_folder))
        other = names.setdefault(image_entries[-1]["file_name"], sample.name)
        if other != sample.name:
            raise InputError(
                dataset.root,
                f"images {other} and {sample.name}, written upright, get the same file name. Rename one.",
            )
        for annotation in _build_annotations(dataset, sample, category_ids, keypoints):
            ids = {"id": len(annotations) + 1, "image_id": len(image_entries)}
            annotations.append(ids | annotation)
    return {
        "info": {"description": f"{dataset.root.name}, written by sim2cam"},
        "images": image_entries,
        "annotations": annotations,
        "categories": [
            {"id": category_id, "name": name, **_build_skeleton(keypoints[name])}
            for name, category_id in category_ids.items()
        ],
    }


def _build_skeleton(names: tuple[str, ...]) -> dict[str, Any]:
    return {"keypoints": list(names), "skeleton": []} if names else {}


def _write_image(sample: Sample, image_id: int, folder: Path, image_folder: str) -> dict[str, Any]:
    data, suffix = encode_upright(sample)
    name = f"{image_folder}/{get_stem(sample)}{suffix}"
    write_bytes(folder / name, data)
    entry = {
        "id": image_id,
        "file_name": name,
        "width": sample.width,
        "height": sample.height,
        "origin": sample.origin,
        "scene_index": sample.scene_index,
    }
    if sample.lens:
        entry["camera"] = asdict(sample.lens)
    if sample.occlusions is not None:
        entry["occlusions"] = [asdict(occlusion) for occlusion in sample.occlusions]
    return entry


def _build_annotations(
    dataset: Dataset,
    sample: Sample,
    category_ids: dict[str, int],
    keypoints: Mapping[str, tuple[str, ...]],
) -> list[dict[str, Any]]:
    objects = require_labels(dataset, sample)
    return [
        _build_annotation(label, category_ids[label.category], mask)
        | _encode_keypoints(label, keypoints[label.category])
        for label, mask in zip(objects, read_visible_masks(sample), strict=True)
    ]


def _build_annotation(
    label: ObjectLabel, category_id: int, mask: NDArray[np.bool_] | None
) -> dict[str, Any]:
    amodal = label.box_amodal_xyxy
    entry = {
        "category_id": category_id,
        "bbox": list(xyxy_to_xywh(label.box_xyxy)),
        "area": label.area_px,
        "iscrowd": int(label.is_crowd),
        "visible_fraction": label.visible_fraction,
        "bbox_amodal": None if amodal is None else list(xyxy_to_xywh(amodal)),
        "instance_id": label.instance_id,
    }
    if mask is not None:
        entry["segmentation"] = asdict(RleMask.from_mask(mask))
    if label.amodal_mask is not None:
        entry["segmentation_amodal"] = asdict(label.amodal_mask)
    return {key: value for key, value in entry.items() if value is not None}


def _encode_keypoints(label: ObjectLabel, names: tuple[str, ...]) -> dict[str, Any]:
    """Return x, y and visibility of each keypoint, all 0 for missing ones."""
    if label.keypoints is None:
        return {}
    by_name = {point.name: point for point in label.keypoints}
    triples = [
        (*by_name[name].xy, by_name[name].visibility) if name in by_name else (0, 0, 0)
        for name in names
    ]
    return {
        "keypoints": [number for triple in triples for number in triple],
        "num_keypoints": sum(triple[2] > 0 for triple in triples),
    }
