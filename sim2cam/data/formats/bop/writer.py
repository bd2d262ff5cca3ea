"""Writing BOP, the benchmark for 6D poses (Hodan et al. 2018): scenes, millimetres, pinholes.

Its boxes hold the first pixel and how many more there are, as its own ``calc_gt_info.py`` writes
them: one less than the width in pixels.
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
from sim2cam.scene.shape import Asset

TARGETS_SUFFIX = "targets_bop19.json"
_MIN_VISIBLE_FRACTION = 0.1  # of an object that BOP asks for
_MAX_MODELS = 1000
_EMPTY_BOX: Box = (0.0, 0.0, 0.0, 0.0)


def write_bop(
    splits: Mapping[str, Dataset], folder: Path, model_source: ModelSource | None = None
) -> tuple[str, ...]:
    """Fill a folder with ``PART/SCENE/``, ``categories.json`` and ``models/``; returns what it lacks.

    A scene holds ``rgb/``, ``depth/`` (where the data set has it), ``mask_visib/`` and ``mask/``
    (where it has ``amodal_masks``), and the three JSON files. Pictures of a lens that bends are
    straightened, masks and depth with them: BOP has no place for distortion. ``obj_id`` counts the
    pairs of category and model from 1, and ``categories.json`` names their categories; without
    models, it counts the categories. A part ``test`` has its ``test_targets_bop19.json``: objects of
    which a tenth is seen. ``bbox_obj``, ``px_count_all`` and ``visib_fract`` are of whole objects, as
    far as a canvas three times as wide and high as the picture reaches, as in BOP's own
    ``calc_gt_info.py``; of objects whose shapes are unknown they end at the picture's edge.

    Args:
        splits: by name.
        folder: to fill.
        model_source: of the objects; None where they are unknown.

    Raises:
        InputError: an image without labels, poses or ids, or of a lens that no pinhole can stand for.
        OutputError: the folder cannot be written.
    """
    numbering = _number_objects(splits, model_source)
    names = {str(number): category for (category, _), number in numbering.object_ids.items()}
    write_bytes(folder / CATEGORY_FILE, to_json(names, folder, indent=1))
    if numbering.models:
        write_models(numbering.models, folder)
    for name, dataset in splits.items():
        scenes: dict[int, list[Sample]] = defaultdict(list)
        for sample in dataset.samples:
            scenes[sample.scene_index].append(sample)
        targets: list[dict[str, int]] = []
        for scene, samples in scenes.items():
            targets += _write_scene(
                dataset, samples, numbering, folder / name / f"{scene:06d}", scene
            )
        if name == "test":
            data = to_json(targets, dataset.root, indent=1)
            write_bytes(folder / f"{name}_{TARGETS_SUFFIX}", data)
    return numbering.omissions + tuple(_describe_omissions(splits, numbering))


def _describe_omissions(
    splits: Mapping[str, Dataset], numbering: _ObjectNumbering
) -> Iterator[str]:
    samples = [sample for part in splits.values() for sample in part.samples]
    without = [s for s in samples if any(o.amodal_mask is None for o in s.objects or ())]
    if without:
        yield (
            "mask/ is left out where there are no whole masks; render with amodal_masks among the "
            "--channels to have it"
        )
    if any(Undistorter.from_sample(sample).source_xy is not None for sample in without):
        yield (
            "bbox_obj and px_count_all are estimated where a lens was straightened without whole "
            "masks: from the straightened box, and from the share that was seen"
        )
    if any(
        _is_cut_without_model(numbering, sample, o)
        for sample in samples
        for o in sample.objects or ()
    ):
        yield (
            "bbox_obj, px_count_all and visib_fract end at the picture's edge where it cuts objects "
            "whose shapes are unknown"
        )


def _is_cut_without_model(numbering: _ObjectNumbering, sample: Sample, label: ObjectLabel) -> bool:
    """Return whether an object reaches the picture's edge and nothing tells how it goes on."""
    box = label.box_amodal_xyxy or label.box_xyxy
    is_whole = is_inside_image(box, sample.width, sample.height)
    return not is_whole and numbering.find_model(sample, label) is None


_ObjectKey = tuple[str, Asset | None]
"""What an ``obj_id`` stands for: a category, and its shape where that is known."""


@dataclass(frozen=True, eq=False)
class _ObjectNumbering:
    """Which ``obj_id`` objects have, from 1, the models of each, and what is lacking, in words.

    Without models the numbers are those of categories, though shapes may be known.
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
        """Return the shape of an object; None where it is unknown."""
        _, asset = _make_object_key(self.model_source, sample, label)
        if self.models:
            return self.models[self.get_object_id(sample, label)]
        if self.model_source is None or asset is None:
            return None
        try:
            return self.model_source.load_model(sample, asset)
        except InputError:  # its file is gone
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
    first: dict[_ObjectKey, Sample] = {}
    for part in splits.values():
        for sample in part.samples:
            for label in sample.objects or ():
                first.setdefault(_make_object_key(model_source, sample, label), sample)
    keys = sorted(first, key=lambda key: categories.index(key[0]))  # within one, as they come
    numbers = {key: number for number, key in enumerate(keys, start=1)}
    plain: dict[_ObjectKey, int] = {(name, None): n for n, name in enumerate(categories, start=1)}
    why = "its scenes do not tell the shapes of its objects"
    if len(keys) > _MAX_MODELS:
        why = (
            f"its objects have {len(keys)} shapes, and {_MAX_MODELS} are the most; let them share "
            "some, as with --set die/edge_m=0.016"
        )
    elif model_source is not None and all(asset is not None for _, asset in keys):
        try:
            models = {
                number: model_source.load_model(first[key], key[1])
                for key, number in numbers.items()
                if key[1] is not None
            }
            return _ObjectNumbering(numbers, model_source, models, ())
        except InputError as error:
            why = str(error).rstrip(".")
    return _ObjectNumbering(plain, model_source, {}, (f"models/ is left out: {why}",))


def _write_scene(
    dataset: Dataset,
    samples: list[Sample],
    numbering: _ObjectNumbering,
    folder: Path,
    scene_id: int,
) -> list[dict[str, int]]:
    """Write a scene and returns its targets."""
    files: dict[str, dict[str, Any]] = {CAMERA_FILE: {}, POSE_FILE: {}, INFO_FILE: {}}
    targets = []
    for number, sample in enumerate(samples):
        picture = _undistort_sample(dataset, sample, numbering)
        _write_images(picture, number, folder)
        ids = [numbering.get_object_id(sample, found.label) for found in picture.objects]
        infos = [_build_info_entry(found, picture) for found in picture.objects]
        files[CAMERA_FILE][str(number)] = _build_camera_entry(sample, picture)
        files[POSE_FILE][str(number)] = [
            _build_pose_entry(found.label, obj_id)
            for found, obj_id in zip(picture.objects, ids, strict=True)
        ]
        files[INFO_FILE][str(number)] = infos
        seen = Counter(
            obj_id
            for obj_id, info in zip(ids, infos, strict=True)
            if info["visib_fract"] >= _MIN_VISIBLE_FRACTION
        )
        targets += [
            {"im_id": number, "inst_count": count, "obj_id": obj_id, "scene_id": scene_id}
            for obj_id, count in sorted(seen.items())
        ]
    for name, table in files.items():
        write_bytes(folder / name, to_json(table, dataset.root, indent=1))
    return targets


@dataclass(frozen=True, eq=False)
class _BopObject:
    """A label with its masks (h, w), the whole one None where unknown.

    Attributes:
        amodal_box: of the whole object; may leave the picture.
        inside_px: how many of the picture it covers, as far as the renderer told.
        outside_px: how many others of BOP's canvas.
    """

    label: ObjectLabel
    visible_mask: NDArray[np.bool_]
    amodal_mask: NDArray[np.bool_] | None
    amodal_box: Box
    inside_px: int
    outside_px: int = 0


@dataclass(frozen=True, eq=False)
class _PinholeImage:
    """A picture as a pinhole has it; depth in its channel's steps, None without it."""

    camera_matrix: NDArray[np.float64]
    rgb: NDArray[np.uint8]
    depth: NDArray[np.uint16] | None
    objects: tuple[_BopObject, ...]


def _undistort_sample(
    dataset: Dataset, sample: Sample, numbering: _ObjectNumbering
) -> _PinholeImage:
    labels = require_labels(dataset, sample)
    if "ids" not in sample.channels:
        raise InputError(dataset.root, f"image {sample.name} has no ids, from which masks come.")
    straightener = Undistorter.from_sample(sample)
    ids = straightener.undistort_labels(images.read_16bit(sample.channels["ids"]))
    depth = None
    if "depth" in sample.channels:
        depth = straightener.undistort_labels(images.read_16bit(sample.channels["depth"]))
    height, width = ids.shape
    told = np.zeros((3 * height, 3 * width), np.bool_)
    told[_get_image_window(told)] = straightener.undistort_labels(np.ones(ids.shape, np.uint8)) > 0
    objects = []
    for label in labels:
        _check_required_labels(dataset, sample, label)
        seen = ids == label.instance_id
        if seen.any():  # straightened, some lie outside
            found = _build_object(label, seen, straightener)
            shape = numbering.find_model(sample, label)
            objects.append(
                found if shape is None else _complete_from_model(found, shape, straightener, told)
            )
    return _PinholeImage(
        straightener.camera_matrix,
        straightener.undistort_image(images.read_rgb(sample.rgb)),
        depth,
        tuple(objects),
    )


def _get_image_window(canvas: NDArray[np.bool_]) -> tuple[slice, slice]:
    """Return where the picture (h, w) lies on BOP's canvas (3 h, 3 w)."""
    height, width = (side // 3 for side in canvas.shape)
    return slice(height, 2 * height), slice(width, 2 * width)


def _check_required_labels(dataset: Dataset, sample: Sample, label: ObjectLabel) -> None:
    place = f"image {sample.name}: an object of category {label.category} has no"
    for what in ("pose", "visible_fraction", "box_amodal_xyxy", "instance_id"):
        if getattr(label, what) is None:
            raise InputError(dataset.root, f"{place} {what}, which BOP needs.")


def _build_object(
    label: ObjectLabel, visible_mask: NDArray[np.bool_], undistorter: Undistorter
) -> _BopObject:
    """Return an object as far as the picture tells it."""
    if label.amodal_mask is not None:
        bits = label.amodal_mask.decode().astype(np.uint8)
        whole = undistorter.undistort_labels(bits) > 0
        return _BopObject(
            label, visible_mask, whole, mask_to_box(whole) or _EMPTY_BOX, int(whole.sum())
        )
    assert label.box_amodal_xyxy is not None
    assert label.visible_fraction is not None
    pixels = max(int(visible_mask.sum()), round(int(visible_mask.sum()) / label.visible_fraction))
    if undistorter.source_xy is None:
        return _BopObject(label, visible_mask, None, label.box_amodal_xyxy, pixels)
    x0, y0, x1, y1 = (round(value) for value in label.box_amodal_xyxy)
    filled = np.zeros(visible_mask.shape, np.uint8)
    filled[max(y0, 0) : y1, max(x0, 0) : x1] = 1
    box = mask_to_box(undistorter.undistort_labels(filled) > 0)
    return _BopObject(label, visible_mask, None, box or _EMPTY_BOX, pixels)


def _complete_from_model(
    bop_object: _BopObject,
    model: ObjectModel,
    undistorter: Undistorter,
    observed: NDArray[np.bool_],
) -> _BopObject:
    """Return an object with what its shape covers where the picture does not tell: beyond its edge,
    and where a bent lens did not see what a pinhole sees.

    Args:
        bop_object: as far as the picture tells it.
        model: of the object.
        undistorter: of the picture.
        observed: (3 h, 3 w), the pixels of BOP's canvas that the picture tells.
    """
    assert bop_object.label.pose is not None
    rows, columns = _get_image_window(observed)
    points = bop_object.label.pose.apply(model.vertices_m)
    start = columns.start, rows.start
    corners = project_triangles(points, model.faces, undistorter.camera_matrix) + np.array(start)
    low = np.floor(corners.min(axis=(0, 1))).clip(0, observed.shape[::-1]).astype(int)
    high = np.ceil(corners.max(axis=(0, 1)) + 1).clip(low, observed.shape[::-1]).astype(int)
    window = slice(low[1], high[1]), slice(low[0], high[0])
    if observed[window].all():
        return bop_object
    beyond = np.zeros_like(observed)
    beyond[window] = rasterize_triangles(corners, (*low, *high)) & ~observed[window]
    box = mask_to_box(beyond)
    if box is None:
        return bop_object
    low = np.subtract(box, 2 * start)[:2].clip(max=bop_object.amodal_box[:2])
    high = np.subtract(box, 2 * start)[2:].clip(min=bop_object.amodal_box[2:])
    return replace(
        bop_object,
        amodal_mask=None
        if bop_object.amodal_mask is None
        else bop_object.amodal_mask | beyond[rows, columns],
        amodal_box=(*low.tolist(), *high.tolist()),
        outside_px=int(beyond.sum()),
    )


def _write_images(image: _PinholeImage, image_id: int, folder: Path) -> None:
    write_bytes(folder / f"rgb/{image_id:06d}.png", images.encode_png(image.rgb))
    if image.depth is not None:
        write_bytes(folder / f"depth/{image_id:06d}.png", images.encode_png(image.depth))
    for index, found in enumerate(image.objects):
        for name, mask in (("mask_visib", found.visible_mask), ("mask", found.amodal_mask)):
            if mask is not None:
                data = images.encode_png(mask.astype(np.uint8) * np.uint8(255))
                write_bytes(folder / f"{name}/{image_id:06d}_{index:06d}.png", data)


def _build_camera_entry(sample: Sample, image: _PinholeImage) -> dict[str, Any]:
    facts = {"cam_K": image.camera_matrix.ravel().tolist(), "depth_scale": DEPTH_SCALE_M * MM_PER_M}
    if sample.frame_info is None or sample.frame_info.camera_pose is None:
        return facts
    world = sample.frame_info.camera_pose.inverse()
    return facts | {
        "cam_R_w2c": world.rotation().as_matrix().ravel().tolist(),
        "cam_t_w2c": [MM_PER_M * value for value in world.position_m],
    }


def _build_pose_entry(label: ObjectLabel, obj_id: int) -> dict[str, Any]:
    assert label.pose is not None
    return {
        "cam_R_m2c": label.pose.rotation().as_matrix().ravel().tolist(),
        "cam_t_m2c": [MM_PER_M * value for value in label.pose.position_m],
        "obj_id": obj_id,
    }


def _build_info_entry(bop_object: _BopObject, image: _PinholeImage) -> dict[str, Any]:
    seen, pixels = int(bop_object.visible_mask.sum()), bop_object.inside_px + bop_object.outside_px
    with_depth = 0
    if image.depth is not None:
        with_depth = (
            bop_object.inside_px
            if bop_object.amodal_mask is None
            else int((image.depth[bop_object.amodal_mask] > 0).sum())
        )
    return {
        "bbox_obj": _to_bop_box(bop_object.amodal_box),
        "bbox_visib": _to_bop_box(mask_to_box(bop_object.visible_mask) or bop_object.amodal_box),
        "px_count_all": pixels,
        "px_count_valid": with_depth,
        "px_count_visib": seen,
        "visib_fract": seen / pixels,
    }


def _to_bop_box(box: Box) -> list[int]:
    x0, y0, x1, y1 = (round(value) for value in box)
    return [x0, y0, x1 - x0 - 1, y1 - y0 - 1]
