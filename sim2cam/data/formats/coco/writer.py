"""Writing COCO: the pictures, and one file with boxes and masks that any COCO tool loads."""

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
    """Fill a folder with ``PART.json`` and ``images/PART/`` for each part.

    Pictures keep their bytes; those that EXIF turns are written upright as PNG, as tools disagree
    on whether to turn them. Masks are run-length encoded; keypoints are COCO's, an integer being the
    centre of a pixel. What COCO has no field for stands beside: ``visible_fraction``,
    ``bbox_amodal``, ``segmentation_amodal`` and ``instance_id`` of an object, ``camera`` (the lens),
    ``origin``, ``scene_index`` and ``occlusions`` of an image.

    Raises:
        InputError: an image without labels, or one that cannot be read.
        OutputError: the folder cannot be written.
    """
    keypoints = get_keypoint_names(list(splits.values()))
    for name, dataset in splits.items():
        tables = _build_tables(dataset, folder, f"images/{name}", keypoints)
        write_bytes(folder / f"{name}.json", to_json(tables, dataset.root))


def _build_tables(
    dataset: Dataset, folder: Path, image_folder: str, keypoints: Mapping[str, tuple[str, ...]]
) -> dict[str, Any]:
    """Write the pictures to a place in the folder and returns what the file holds.

    Args:
        dataset: a part.
        folder: of the export.
        image_folder: in it, of this part's pictures.
        keypoints: names of each category's keypoints, in the order of all parts.
    """
    numbers = {name: number for number, name in enumerate(dataset.categories, start=1)}
    pictures: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    written: dict[str, str] = {}
    for sample in dataset.samples:
        pictures.append(_write_image(sample, len(pictures) + 1, folder, image_folder))
        other = written.setdefault(pictures[-1]["file_name"], sample.name)
        if other != sample.name:
            raise InputError(
                dataset.root,
                f"images {other} and {sample.name}, turned upright, would be one file. Rename one.",
            )
        for annotation in _build_annotations(dataset, sample, numbers, keypoints):
            numbered = {"id": len(annotations) + 1, "image_id": len(pictures)}
            annotations.append(numbered | annotation)
    return {
        "info": {"description": f"{dataset.root.name}, written by sim2cam"},
        "images": pictures,
        "annotations": annotations,
        "categories": [
            {"id": number, "name": name, **_build_skeleton(keypoints[name])}
            for name, number in numbers.items()
        ],
    }


def _build_skeleton(names: tuple[str, ...]) -> dict[str, Any]:
    return {"keypoints": list(names), "skeleton": []} if names else {}


def _write_image(sample: Sample, image_id: int, folder: Path, image_folder: str) -> dict[str, Any]:
    """Write the picture and returns its entry."""
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
    found = {
        "category_id": category_id,
        "bbox": list(xyxy_to_xywh(label.box_xyxy)),
        "area": label.area_px,
        "iscrowd": int(label.is_crowd),
        "visible_fraction": label.visible_fraction,
        "bbox_amodal": None if amodal is None else list(xyxy_to_xywh(amodal)),
        "instance_id": label.instance_id,
    }
    if mask is not None:
        found["segmentation"] = asdict(RleMask.from_mask(mask))
    if label.amodal_mask is not None:
        found["segmentation_amodal"] = asdict(label.amodal_mask)
    return {key: value for key, value in found.items() if value is not None}


def _encode_keypoints(label: ObjectLabel, names: tuple[str, ...]) -> dict[str, Any]:
    """Return x, y and visibility of each keypoint, all 0 for one that the object does not have."""
    if label.keypoints is None:
        return {}
    points = {point.name: point for point in label.keypoints}
    triples = [
        (*points[name].xy, points[name].visibility) if name in points else (0, 0, 0)
        for name in names
    ]
    return {
        "keypoints": [number for triple in triples for number in triple],
        "num_keypoints": sum(triple[2] > 0 for triple in triples),
    }
