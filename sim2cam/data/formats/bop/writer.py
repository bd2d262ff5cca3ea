"""BOP writer (Hodan et al. 2018): scenes in millimetres with pinhole cameras.

Boxes are the first pixel and the number of further pixels, as in BOP's ``calc_gt_info.py``: one
less than the width.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.data.channels import DEPTH_SCALE_M
from sim2cam.data.formats.bop.files import (
    CAMERA_FILE,
    CATEGORY_FILE,
    INFO_FILE,
    MM_PER_M,
    POSE_FILE,
)
from sim2cam.data.formats.bop.models import ModelSource, ObjectModel, write_models
from sim2cam.data.formats.undistortion import Undistorter
from sim2cam.data.formats.writing import require_labels, to_json
from sim2cam.data.sample import Dataset, ObjectLabel, Sample
from sim2cam.errors import InputError
from sim2cam.files import write_bytes
from sim2cam.geometry.boxes import Box, is_inside_image, mask_to_box
from sim2cam.geometry.triangles import project_triangles, rasterize_triangles
from sim2cam.scene.shape import Shape

TARGETS_SUFFIX = "targets_bop19.json"
_MIN_VISIBLE_FRACTION = 0.1  # of target objects
_MAX_MODELS = 1000
_EMPTY_BOX: Box = (0.0, 0.0, 0.0, 0.0)


def write_bop(
    splits: Mapping[str, Dataset], folder: Path, model_source: ModelSource | None = None
) -> tuple[str, ...]:
    """Write ``SPLIT/SCENE/``, ``categories.json`` and ``models/``; return notes on omissions.

    A scene has ``rgb/``, ``depth/`` (if present), ``mask_visib/``, ``mask/`` (with
    ``amodal_masks``), and three JSON files. Images of distorted lenses are undistorted, with masks
    and depth, as BOP does not support distortion. ``obj_id`` numbers pairs of category and model
    from 1, with category names in ``categories.json``; without models, it numbers categories. The
    split ``test`` has ``test_targets_bop19.json`` with objects of a visible fraction of at least
    0.1. ``bbox_obj``, ``px_count_all`` and ``visib_fract`` are of whole objects within a canvas of
    three times the image size, as in ``calc_gt_info.py``; without models, objects are clipped at
    the image border.

    Raises:
        InputError: an image has no labels, poses or ids, or a lens that cannot be undistorted to a
            pinhole.
        OutputError: the folder cannot be written.
    """
    numbering = _number_objects(splits, model_source)
    names = {str(object_id): category for (category, _), object_id in numbering.object_ids.items()}
    write_bytes(folder / CATEGORY_FILE, to_json(names, folder, indent=1))
    if numbering.models:
        write_models(numbering.models, folder)
    for name, dataset in splits.items():
        scenes: dict[int, list[Sample]] = defaultdict(list)
        for sample in dataset.samples:
            scenes[sample.scene_index].append(sample)
        targets: list[dict[str, int]] = []
        for scene_id, samples in scenes.items():
            targets += _write_scene(
                dataset, samples, numbering, folder / name / f"{scene_id:06d}", scene_id
            )
        if name == "test":
            data = to_json(targets, dataset.root, indent=1)
            write_bytes(folder / f"{name}_{TARGETS_SUFFIX}", data)
    return numbering.omissions + tuple(_describe_omissions(splits, numbering))


def _describe_omissions(
    splits: Mapping[str, Dataset], numbering: _ObjectNumbering
) -> Iterator[str]:
    samples = [sample for split in splits.values() for sample in split.samples]
    without_masks = [s for s in samples if any(o.amodal_mask is None for o in s.objects or ())]
    if without_masks:
        yield (
            "mask/ is left out without amodal masks; to write it, render with amodal_masks in --channels"
        )
    if any(Undistorter.from_sample(sample).source_xy is not None for sample in without_masks):
        yield (
            "bbox_obj and px_count_all of undistorted images without amodal masks are estimated from the "
            "undistorted box and the visible fraction"
        )
    if any(
        _is_cut_without_model(numbering, sample, o)
        for sample in samples
        for o in sample.objects or ()
    ):
        yield (
            "bbox_obj, px_count_all and visib_fract of objects without models are clipped at the image "
            "border"
        )


def _is_cut_without_model(numbering: _ObjectNumbering, sample: Sample, label: ObjectLabel) -> bool:
    """Return whether an object reaches the image border and its model is unknown."""
    box = label.box_amodal_xyxy or label.box_xyxy
    is_inside = is_inside_image(box, sample.width, sample.height)
    return not is_inside and numbering.find_model(sample, label) is None


_ObjectKey = tuple[str, Shape | None]
"""Key of an ``obj_id``: category, and asset if known."""


@dataclass(frozen=True, eq=False)
class _ObjectNumbering:
    """Object ids from 1, models by id, and notes on omissions.

    Without models, ids are of categories, even if assets are known.
    """

    object_ids: Mapping[_ObjectKey, int]
    model_source: ModelSource | None
    models: Mapping[int, ObjectModel]
    omissions: tuple[str, ...]

    def get_object_id(self, sample: Sample, label: ObjectLabel) -> int:
        """Return the ``obj_id`` of an object."""
        return self.object_ids[
            _make_object_key(self.model_source if self.models else None, sample, label)
        ]

    def find_model(self, sample: Sample, label: ObjectLabel) -> ObjectModel | None:
        """Return the model of an object; None if unknown."""
        _, asset = _make_object_key(self.model_source, sample, label)
        if self.models:
            return self.models[self.get_object_id(sample, label)]
        if self.model_source is None or asset is None:
            return None
        try:
            return self.model_source.load_model(sample, asset)
        except InputError:  # file is missing
            return None


def _make_object_key(
    model_source: ModelSource | None, sample: Sample, label: ObjectLabel
) -> _ObjectKey:
    if model_source is None or label.instance_id is None:
        return label.category, None
    return label.category, model_source.find_assets(sample).get(label.instance_id)


def _number_objects(
    splits: Mapping[str, Dataset], model_source: ModelSource | None
) -> _ObjectNumbering:
    categories = next(iter(splits.values())).categories
    first_samples: dict[_ObjectKey, Sample] = {}
    for split in splits.values():
        for sample in split.samples:
            for label in sample.objects or ():
                first_samples.setdefault(_make_object_key(model_source, sample, label), sample)
    keys = sorted(first_samples, key=lambda key: categories.index(key[0]))
    object_ids = {key: object_id for object_id, key in enumerate(keys, start=1)}
    category_ids: dict[_ObjectKey, int] = {
        (name, None): category_id for category_id, name in enumerate(categories, start=1)
    }
    reason = "the scenes have no object shapes"
    if len(keys) > _MAX_MODELS:
        reason = (
            f"{len(keys)} object shapes exceed the maximum of {_MAX_MODELS}; fix sizes, e.g. with "
            "--set die/edge_m=0.016"
        )
    elif model_source is not None and all(asset is not None for _, asset in keys):
        try:
            models = {
                object_id: model_source.load_model(first_samples[key], key[1])
                for key, object_id in object_ids.items()
                if key[1] is not None
            }
            return _ObjectNumbering(object_ids, model_source, models, ())
        except InputError as error:
            reason = str(error).rstrip(".")
    return _ObjectNumbering(category_ids, model_source, {}, (f"models/ is left out: {reason}",))


def _write_scene(
    dataset: Dataset,
    samples: list[Sample],
    numbering: _ObjectNumbering,
    folder: Path,
    scene_id: int,
) -> list[dict[str, int]]:
    tables: dict[str, dict[str, Any]] = {CAMERA_FILE: {}, POSE_FILE: {}, INFO_FILE: {}}
    targets = []
    for image_id, sample in enumerate(samples):
        image = _undistort_sample(dataset, sample, numbering)
        _write_images(image, image_id, folder)
        object_ids = [numbering.get_object_id(sample, item.label) for item in image.objects]
        infos = [_build_info_entry(item, image) for item in image.objects]
        tables[CAMERA_FILE][str(image_id)] = _build_camera_entry(sample, image)
        tables[POSE_FILE][str(image_id)] = [
            _build_pose_entry(item.label, obj_id)
            for item, obj_id in zip(image.objects, object_ids, strict=True)
        ]
        tables[INFO_FILE][str(image_id)] = infos
        visible_counts = Counter(
            obj_id
            for obj_id, info in zip(object_ids, infos, strict=True)
            if info["visib_fract"] >= _MIN_VISIBLE_FRACTION
        )
        targets += [
            {"im_id": image_id, "inst_count": count, "obj_id": obj_id, "scene_id": scene_id}
            for obj_id, count in sorted(visible_counts.items())
        ]
    for name, table in tables.items():
        write_bytes(folder / name, to_json(table, dataset.root, indent=1))
    return targets


@dataclass(frozen=True, eq=False)
class _BopObject:
    """A label with its masks (h, w); the amodal mask is None if unknown.

    Attributes:
        amodal_box: box of the whole object; can extend outside the image.
        inside_px: number of pixels of the whole object in the image.
        outside_px: number of further pixels on BOP's canvas.
    """

    label: ObjectLabel
    visible_mask: NDArray[np.bool_]
    amodal_mask: NDArray[np.bool_] | None
    amodal_box: Box
    inside_px: int
    outside_px: int = 0


@dataclass(frozen=True, eq=False)
class _PinholeImage:
    """An undistorted image; depth in units of its channel, None without depth."""

    camera_matrix: NDArray[np.float64]
    rgb: NDArray[np.uint8]
    depth: NDArray[np.uint16] | None
    objects: tuple[_BopObject, ...]


def _undistort_sample(
    dataset: Dataset, sample: Sample, numbering: _ObjectNumbering
) -> _PinholeImage:
    labels = require_labels(dataset, sample)
    if "ids" not in sample.channels:
        raise InputError(
            dataset.root,
            f"image {sample.name} has no channel ids for masks. Render with ids in --channels.",
        )
    undistorter = Undistorter.from_sample(sample)
    ids = undistorter.undistort_labels(images.read_16bit(sample.channels["ids"]))
    depth = None
    if "depth" in sample.channels:
        depth = undistorter.undistort_labels(images.read_16bit(sample.channels["depth"]))
    height, width = ids.shape
    observed = np.zeros((3 * height, 3 * width), np.bool_)
    observed[_get_image_window(observed)] = (
        undistorter.undistort_labels(np.ones(ids.shape, np.uint8)) > 0
    )
    objects = []
    for label in labels:
        _check_required_labels(dataset, sample, label)
        visible_mask = ids == label.instance_id
        if visible_mask.any():  # undistortion can move objects outside
            item = _build_object(label, visible_mask, undistorter)
            model = numbering.find_model(sample, label)
            objects.append(
                item if model is None else _complete_from_model(item, model, undistorter, observed)
            )
    return _PinholeImage(
        undistorter.camera_matrix,
        undistorter.undistort_image(images.read_rgb(sample.rgb)),
        depth,
        tuple(objects),
    )


def _get_image_window(canvas: NDArray[np.bool_]) -> tuple[slice, slice]:
    """Return the slices of the image (h, w) on BOP's canvas (3 h, 3 w)."""
    height, width = (side // 3 for side in canvas.shape)
    return slice(height, 2 * height), slice(width, 2 * width)


def _check_required_labels(dataset: Dataset, sample: Sample, label: ObjectLabel) -> None:
    prefix = f"image {sample.name}: an object of category {label.category} has no"
    for field in ("pose", "visible_fraction", "box_amodal_xyxy", "instance_id"):
        if getattr(label, field) is None:
            raise InputError(dataset.root, f"{prefix} {field}, which BOP requires.")


def _build_object(
    label: ObjectLabel, visible_mask: NDArray[np.bool_], undistorter: Undistorter
) -> _BopObject:
    if label.amodal_mask is not None:
        amodal_mask = label.amodal_mask.decode().astype(np.uint8)
        undistorted_mask = undistorter.undistort_labels(amodal_mask) > 0
        return _BopObject(
            label,
            visible_mask,
            undistorted_mask,
            mask_to_box(undistorted_mask) or _EMPTY_BOX,
            int(undistorted_mask.sum()),
        )
    assert label.box_amodal_xyxy is not None
    assert label.visible_fraction is not None
    n_pixels = max(int(visible_mask.sum()), round(int(visible_mask.sum()) / label.visible_fraction))
    if undistorter.source_xy is None:
        return _BopObject(label, visible_mask, None, label.box_amodal_xyxy, n_pixels)
    x0, y0, x1, y1 = (round(value) for value in label.box_amodal_xyxy)
    filled = np.zeros(visible_mask.shape, np.uint8)
    filled[max(y0, 0) : y1, max(x0, 0) : x1] = 1
    box = mask_to_box(undistorter.undistort_labels(filled) > 0)
    return _BopObject(label, visible_mask, None, box or _EMPTY_BOX, n_pixels)


def _complete_from_model(
    bop_object: _BopObject,
    model: ObjectModel,
    undistorter: Undistorter,
    observed: NDArray[np.bool_],
) -> _BopObject:
    """Return an object with the pixels of its model that the image does not show.

    These lie outside the image, or outside the field of view of a distorted lens.

    Args:
        observed: pixels of BOP's canvas that the image shows (3 h, 3 w).
    """
    assert bop_object.label.pose is not None
    rows, columns = _get_image_window(observed)
    points = bop_object.label.pose.apply(model.vertices_m)
    origin_xy = columns.start, rows.start
    corners = project_triangles(points, model.faces, undistorter.camera_matrix) + np.array(
        origin_xy
    )
    low = np.floor(corners.min(axis=(0, 1))).clip(0, observed.shape[::-1]).astype(int)
    high = np.ceil(corners.max(axis=(0, 1)) + 1).clip(low, observed.shape[::-1]).astype(int)
    window = slice(low[1], high[1]), slice(low[0], high[0])
    if observed[window].all():
        return bop_object
    unobserved = np.zeros_like(observed)
    unobserved[window] = rasterize_triangles(corners, (*low, *high)) & ~observed[window]
    box = mask_to_box(unobserved)
    if box is None:
        return bop_object
    image_box = np.subtract(box, (*origin_xy, *origin_xy))
    low = image_box[:2].clip(max=bop_object.amodal_box[:2])
    high = image_box[2:].clip(min=bop_object.amodal_box[2:])
    return replace(
        bop_object,
        amodal_mask=None
        if bop_object.amodal_mask is None
        else bop_object.amodal_mask | unobserved[rows, columns],
        amodal_box=(*low.tolist(), *high.tolist()),
        outside_px=int(unobserved.sum()),
    )


def _write_images(image: _PinholeImage, image_id: int, folder: Path) -> None:
    write_bytes(folder / f"rgb/{image_id:06d}.png", images.encode_png(image.rgb))
    if image.depth is not None:
        write_bytes(folder / f"depth/{image_id:06d}.png", images.encode_png(image.depth))
    for index, item in enumerate(image.objects):
        for name, mask in (("mask_visib", item.visible_mask), ("mask", item.amodal_mask)):
            if mask is not None:
                data = images.encode_png(mask.astype(np.uint8) * np.uint8(255))
                write_bytes(folder / f"{name}/{image_id:06d}_{index:06d}.png", data)


def _build_camera_entry(sample: Sample, image: _PinholeImage) -> dict[str, Any]:
    entry = {"cam_K": image.camera_matrix.ravel().tolist(), "depth_scale": DEPTH_SCALE_M * MM_PER_M}
    if sample.frame_info is None or sample.frame_info.camera_pose is None:
        return entry
    world_to_camera = sample.frame_info.camera_pose.inverse()
    return entry | {
        "cam_R_w2c": world_to_camera.rotation().as_matrix().ravel().tolist(),
        "cam_t_w2c": [MM_PER_M * value for value in world_to_camera.position_m],
    }


def _build_pose_entry(label: ObjectLabel, obj_id: int) -> dict[str, Any]:
    assert label.pose is not None
    return {
        "cam_R_m2c": label.pose.rotation().as_matrix().ravel().tolist(),
        "cam_t_m2c": [MM_PER_M * value for value in label.pose.position_m],
        "obj_id": obj_id,
    }


def _build_info_entry(bop_object: _BopObject, image: _PinholeImage) -> dict[str, Any]:
    n_visible, n_pixels = (
        int(bop_object.visible_mask.sum()),
        bop_object.inside_px + bop_object.outside_px,
    )
    n_valid = 0
    if image.depth is not None:
        n_valid = (
            bop_object.inside_px
            if bop_object.amodal_mask is None
            else int((image.depth[bop_object.amodal_mask] > 0).sum())
        )
    return {
        "bbox_obj": _to_bop_box(bop_object.amodal_box),
        "bbox_visib": _to_bop_box(mask_to_box(bop_object.visible_mask) or bop_object.amodal_box),
        "px_count_all": n_pixels,
        "px_count_valid": n_valid,
        "px_count_visib": n_visible,
        "visib_fract": n_visible / n_pixels,
    }


def _to_bop_box(box: Box) -> list[int]:
    x0, y0, x1, y1 = (round(value) for value in box)
    return [x0, y0, x1 - x0 - 1, y1 - y0 - 1]
