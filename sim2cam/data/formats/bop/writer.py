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
from sim2cam.data.formats.bop.files import CAMERAS, INFOS, MM, NAMES, POSES
from sim2cam.data.formats.bop.models import Model, Shapes, write_models
from sim2cam.data.formats.undistortion import Straightener
from sim2cam.data.formats.writing import labels_of, to_json
from sim2cam.data.sample import Dataset, ObjectLabel, Sample
from sim2cam.errors import InputError
from sim2cam.files import write_bytes
from sim2cam.geometry.boxes import Box, box_of_mask, keeps_off_edge
from sim2cam.geometry.triangles import covered_pixels, seen_triangles
from sim2cam.scene.shape import Asset

TARGETS = "targets_bop19.json"
_LEAST_SEEN = 0.1  # of an object that BOP asks for
_MOST_MODELS = 1000
_NOWHERE: Box = (0.0, 0.0, 0.0, 0.0)


def write_bop(
    parts: Mapping[str, Dataset], folder: Path, shapes: Shapes | None = None
) -> tuple[str, ...]:
    """Fills a folder with ``PART/SCENE/``, ``categories.json`` and ``models/``; returns what it lacks.

    A scene holds ``rgb/``, ``depth/`` (where the data set has it), ``mask_visib/`` and ``mask/``
    (where it has ``amodal_masks``), and the three JSON files. Pictures of a lens that bends are
    straightened, masks and depth with them: BOP has no place for distortion. ``obj_id`` counts the
    pairs of category and model from 1, and ``categories.json`` names their categories; without
    models, it counts the categories. A part ``test`` has its ``test_targets_bop19.json``: objects of
    which a tenth is seen. ``bbox_obj``, ``px_count_all`` and ``visib_fract`` are of whole objects, as
    far as a canvas three times as wide and high as the picture reaches, as in BOP's own
    ``calc_gt_info.py``; of objects whose shapes are unknown they end at the picture's edge.

    Args:
        parts: by name.
        folder: to fill.
        shapes: of the objects; None where they are unknown.

    Raises:
        InputError: an image without labels, poses or ids, or of a lens that no pinhole can stand for.
        OutputError: the folder cannot be written.
    """
    numbering = _numbering(parts, shapes)
    names = {str(number): category for (category, _), number in numbering.numbers.items()}
    write_bytes(folder / NAMES, to_json(names, folder, indent=1))
    if numbering.models:
        write_models(numbering.models, folder)
    for name, dataset in parts.items():
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
            write_bytes(folder / f"{name}_{TARGETS}", data)
    return numbering.lacks + tuple(_lacks(parts, numbering))


def _lacks(parts: Mapping[str, Dataset], numbering: _Numbering) -> Iterator[str]:
    samples = [sample for part in parts.values() for sample in part.samples]
    without = [s for s in samples if any(o.amodal_mask is None for o in s.objects or ())]
    if without:
        yield (
            "mask/ is left out where there are no whole masks; render with amodal_masks among the "
            "--channels to have it"
        )
    if any(Straightener.of(sample).source is not None for sample in without):
        yield (
            "bbox_obj and px_count_all are estimated where a lens was straightened without whole "
            "masks: from the straightened box, and from the share that was seen"
        )
    if any(_may_go_on(numbering, sample, o) for sample in samples for o in sample.objects or ()):
        yield (
            "bbox_obj, px_count_all and visib_fract end at the picture's edge where it cuts objects "
            "whose shapes are unknown"
        )


def _may_go_on(numbering: _Numbering, sample: Sample, label: ObjectLabel) -> bool:
    """Returns whether an object reaches the picture's edge and nothing tells how it goes on."""
    box = label.box_amodal_xyxy or label.box_xyxy
    is_whole = keeps_off_edge(box, sample.width, sample.height)
    return not is_whole and numbering.shape_of(sample, label) is None


_Key = tuple[str, Asset | None]
"""What an ``obj_id`` stands for: a category, and its shape where that is known."""


@dataclass(frozen=True, eq=False)
class _Numbering:
    """Which ``obj_id`` objects have, from 1, the models of each, and what is lacking, in words.

    Without models the numbers are those of categories, though shapes may be known.
    """

    numbers: Mapping[_Key, int]
    shapes: Shapes | None
    models: Mapping[int, Model]
    lacks: tuple[str, ...]

    def of(self, sample: Sample, label: ObjectLabel) -> int:
        """Returns the ``obj_id`` of an object."""
        return self.numbers[_key(self.shapes if self.models else None, sample, label)]

    def shape_of(self, sample: Sample, label: ObjectLabel) -> Model | None:
        """Returns the shape of an object; None where it is unknown."""
        _, asset = _key(self.shapes, sample, label)
        if self.models:
            return self.models[self.of(sample, label)]
        if self.shapes is None or asset is None:
            return None
        try:
            return self.shapes.model_of(sample, asset)
        except InputError:  # its file is gone
            return None


def _key(shapes: Shapes | None, sample: Sample, label: ObjectLabel) -> _Key:
    if shapes is None or label.instance_id is None:
        return label.category, None
    return label.category, shapes.assets_of(sample).get(label.instance_id)


def _numbering(parts: Mapping[str, Dataset], shapes: Shapes | None) -> _Numbering:
    categories = next(iter(parts.values())).categories
    first: dict[_Key, Sample] = {}
    for part in parts.values():
        for sample in part.samples:
            for label in sample.objects or ():
                first.setdefault(_key(shapes, sample, label), sample)
    keys = sorted(first, key=lambda key: categories.index(key[0]))  # within one, as they come
    numbers = {key: number for number, key in enumerate(keys, start=1)}
    plain: dict[_Key, int] = {(name, None): n for n, name in enumerate(categories, start=1)}
    why = "its scenes do not tell the shapes of its objects"
    if len(keys) > _MOST_MODELS:
        why = (
            f"its objects have {len(keys)} shapes, and {_MOST_MODELS} are the most; let them share "
            "some, as with --set die/edge_m=0.016"
        )
    elif shapes is not None and all(asset is not None for _, asset in keys):
        try:
            models = {
                number: shapes.model_of(first[key], key[1])
                for key, number in numbers.items()
                if key[1] is not None
            }
            return _Numbering(numbers, shapes, models, ())
        except InputError as error:
            why = str(error).rstrip(".")
    return _Numbering(plain, shapes, {}, (f"models/ is left out: {why}",))


def _write_scene(
    dataset: Dataset, samples: list[Sample], numbering: _Numbering, folder: Path, scene: int
) -> list[dict[str, int]]:
    """Writes a scene and returns its targets."""
    files: dict[str, dict[str, Any]] = {CAMERAS: {}, POSES: {}, INFOS: {}}
    targets = []
    for number, sample in enumerate(samples):
        picture = _straight(dataset, sample, numbering)
        _write_images(picture, number, folder)
        ids = [numbering.of(sample, found.label) for found in picture.objects]
        infos = [_info(found, picture) for found in picture.objects]
        files[CAMERAS][str(number)] = _camera(sample, picture)
        files[POSES][str(number)] = [
            _pose(found.label, obj_id) for found, obj_id in zip(picture.objects, ids, strict=True)
        ]
        files[INFOS][str(number)] = infos
        seen = Counter(
            obj_id
            for obj_id, info in zip(ids, infos, strict=True)
            if info["visib_fract"] >= _LEAST_SEEN
        )
        targets += [
            {"im_id": number, "inst_count": count, "obj_id": obj_id, "scene_id": scene}
            for obj_id, count in sorted(seen.items())
        ]
    for name, table in files.items():
        write_bytes(folder / name, to_json(table, dataset.root, indent=1))
    return targets


@dataclass(frozen=True, eq=False)
class _Object:
    """A label with its masks (h, w), the whole one None where unknown.

    Attributes:
        whole_box: of the whole object; may leave the picture.
        pixels: how many of the picture it covers, as far as the renderer told.
        beyond: how many others of BOP's canvas.
    """

    label: ObjectLabel
    seen: NDArray[np.bool_]
    whole: NDArray[np.bool_] | None
    whole_box: Box
    pixels: int
    beyond: int = 0


@dataclass(frozen=True, eq=False)
class _Picture:
    """A picture as a pinhole has it; depth in its channel's steps, None without it."""

    matrix: NDArray[np.float64]
    rgb: NDArray[np.uint8]
    depth: NDArray[np.uint16] | None
    objects: tuple[_Object, ...]


def _straight(dataset: Dataset, sample: Sample, numbering: _Numbering) -> _Picture:
    labels = labels_of(dataset, sample)
    if "ids" not in sample.channels:
        raise InputError(dataset.root, f"image {sample.name} has no ids, from which masks come.")
    straightener = Straightener.of(sample)
    ids = straightener.nearest(images.read_16bit(sample.channels["ids"]))
    depth = None
    if "depth" in sample.channels:
        depth = straightener.nearest(images.read_16bit(sample.channels["depth"]))
    height, width = ids.shape
    told = np.zeros((3 * height, 3 * width), np.bool_)
    told[_middle(told)] = straightener.nearest(np.ones(ids.shape, np.uint8)) > 0
    objects = []
    for label in labels:
        _check_whole(dataset, sample, label)
        seen = ids == label.instance_id
        if seen.any():  # straightened, some lie outside
            found = _object(label, seen, straightener)
            shape = numbering.shape_of(sample, label)
            objects.append(found if shape is None else _completed(found, shape, straightener, told))
    return _Picture(
        straightener.matrix,
        straightener.smooth(images.read_rgb(sample.rgb)),
        depth,
        tuple(objects),
    )


def _middle(canvas: NDArray[np.bool_]) -> tuple[slice, slice]:
    """Returns where the picture (h, w) lies on BOP's canvas (3 h, 3 w)."""
    height, width = (side // 3 for side in canvas.shape)
    return slice(height, 2 * height), slice(width, 2 * width)


def _check_whole(dataset: Dataset, sample: Sample, label: ObjectLabel) -> None:
    place = f"image {sample.name}: an object of category {label.category} has no"
    for what in ("pose", "visible_fraction", "box_amodal_xyxy", "instance_id"):
        if getattr(label, what) is None:
            raise InputError(dataset.root, f"{place} {what}, which BOP needs.")


def _object(label: ObjectLabel, seen: NDArray[np.bool_], straightener: Straightener) -> _Object:
    """Returns an object as far as the picture tells it."""
    if label.amodal_mask is not None:
        bits = label.amodal_mask.mask().astype(np.uint8)
        whole = straightener.nearest(bits) > 0
        return _Object(label, seen, whole, box_of_mask(whole) or _NOWHERE, int(whole.sum()))
    assert label.box_amodal_xyxy is not None
    assert label.visible_fraction is not None
    pixels = max(int(seen.sum()), round(int(seen.sum()) / label.visible_fraction))
    if straightener.source is None:
        return _Object(label, seen, None, label.box_amodal_xyxy, pixels)
    x0, y0, x1, y1 = (round(value) for value in label.box_amodal_xyxy)
    filled = np.zeros(seen.shape, np.uint8)
    filled[max(y0, 0) : y1, max(x0, 0) : x1] = 1
    box = box_of_mask(straightener.nearest(filled) > 0)
    return _Object(label, seen, None, box or _NOWHERE, pixels)


def _completed(
    found: _Object, shape: Model, straightener: Straightener, told: NDArray[np.bool_]
) -> _Object:
    """Returns an object with what its shape covers where the picture does not tell: beyond its edge,
    and where a bent lens did not see what a pinhole sees.

    Args:
        found: as far as the picture tells it.
        shape: of the object.
        straightener: of the picture.
        told: (3 h, 3 w), the pixels of BOP's canvas that the picture tells.
    """
    assert found.label.pose is not None
    rows, columns = _middle(told)
    points = found.label.pose.apply(shape.vertices_m)
    start = columns.start, rows.start
    corners = seen_triangles(points, shape.faces, straightener.matrix) + np.array(start)
    low = np.floor(corners.min(axis=(0, 1))).clip(0, told.shape[::-1]).astype(int)
    high = np.ceil(corners.max(axis=(0, 1)) + 1).clip(low, told.shape[::-1]).astype(int)
    window = slice(low[1], high[1]), slice(low[0], high[0])
    if told[window].all():
        return found
    beyond = np.zeros_like(told)
    beyond[window] = covered_pixels(corners, (*low, *high)) & ~told[window]
    box = box_of_mask(beyond)
    if box is None:
        return found
    low = np.subtract(box, 2 * start)[:2].clip(max=found.whole_box[:2])
    high = np.subtract(box, 2 * start)[2:].clip(min=found.whole_box[2:])
    return replace(
        found,
        whole=None if found.whole is None else found.whole | beyond[rows, columns],
        whole_box=(*low.tolist(), *high.tolist()),
        beyond=int(beyond.sum()),
    )


def _write_images(picture: _Picture, number: int, folder: Path) -> None:
    write_bytes(folder / f"rgb/{number:06d}.png", images.encode_png(picture.rgb))
    if picture.depth is not None:
        write_bytes(folder / f"depth/{number:06d}.png", images.encode_png(picture.depth))
    for index, found in enumerate(picture.objects):
        for name, mask in (("mask_visib", found.seen), ("mask", found.whole)):
            if mask is not None:
                data = images.encode_png(mask.astype(np.uint8) * np.uint8(255))
                write_bytes(folder / f"{name}/{number:06d}_{index:06d}.png", data)


def _camera(sample: Sample, picture: _Picture) -> dict[str, Any]:
    facts = {"cam_K": picture.matrix.ravel().tolist(), "depth_scale": DEPTH_SCALE_M * MM}
    if sample.moment is None or sample.moment.camera is None:
        return facts
    world = sample.moment.camera.inverse()
    return facts | {
        "cam_R_w2c": world.rotation().as_matrix().ravel().tolist(),
        "cam_t_w2c": [MM * value for value in world.position_m],
    }


def _pose(label: ObjectLabel, obj_id: int) -> dict[str, Any]:
    assert label.pose is not None
    return {
        "cam_R_m2c": label.pose.rotation().as_matrix().ravel().tolist(),
        "cam_t_m2c": [MM * value for value in label.pose.position_m],
        "obj_id": obj_id,
    }


def _info(found: _Object, picture: _Picture) -> dict[str, Any]:
    seen, pixels = int(found.seen.sum()), found.pixels + found.beyond
    with_depth = 0
    if picture.depth is not None:
        with_depth = (
            found.pixels if found.whole is None else int((picture.depth[found.whole] > 0).sum())
        )
    return {
        "bbox_obj": _first_and_more(found.whole_box),
        "bbox_visib": _first_and_more(box_of_mask(found.seen) or found.whole_box),
        "px_count_all": pixels,
        "px_count_valid": with_depth,
        "px_count_visib": seen,
        "visib_fract": seen / pixels,
    }


def _first_and_more(box: Box) -> list[int]:
    x0, y0, x1, y1 = (round(value) for value in box)
    return [x0, y0, x1 - x0 - 1, y1 - y0 - 1]
