"""BOP, the benchmark for 6D poses (Hodan et al. 2018): scenes, millimetres, pinhole cameras.

Its boxes hold the first pixel and how many more there are, as its own ``calc_gt_info.py`` writes
them: one less than the width in pixels.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.dataset.channels import DEPTH_SCALE_M
from sim2cam.dataset.formats.bop_files import (
    CAMERA_TABLE,
    CAMERAS,
    CURE,
    INFO_TABLE,
    INFOS,
    MM,
    NAMES,
    POSE_TABLE,
    POSES,
    CameraEntry,
    InfoEntry,
    PoseEntry,
    matrix_of,
    names_of,
    picture_file,
    read_table,
    scenes_below,
)
from sim2cam.dataset.formats.pictures import labels_of
from sim2cam.dataset.formats.pinhole import Straightener
from sim2cam.dataset.sample import Dataset, ObjectLabel, Origin, Sample
from sim2cam.errors import InputError, LensError
from sim2cam.geometry.boxes import Box, box_of_mask
from sim2cam.geometry.lens import BrownConrady
from sim2cam.geometry.poses import Pose


def write_bop(parts: Mapping[str, Dataset], folder: Path) -> None:
    """Fills a folder with ``PART/SCENE/`` and ``categories.json``.

    A scene holds ``rgb/``, ``depth/`` (where the data set has it), ``mask_visib/`` and ``mask/``
    (where it has ``amodal_masks``), and the three JSON files. Pictures of a lens that bends are
    straightened, masks and depth with them: BOP has no place for distortion. ``obj_id`` counts the
    categories from 1, and ``categories.json`` names them; meshes are not written. Whole objects, in
    ``mask`` and ``bbox_obj``, end at the picture's edge, where BOP's own go on.

    Raises:
        InputError: an image without labels, poses or ids, or of a lens that no pinhole can stand for.
        OutputError: the folder cannot be written.
    """
    categories = next(iter(parts.values())).categories
    numbers = {name: number for number, name in enumerate(categories, start=1)}
    names = {str(number): name for name, number in numbers.items()}
    images.write_bytes(folder / NAMES, json.dumps(names, indent=1).encode())
    for name, dataset in parts.items():
        scenes: dict[int, list[Sample]] = defaultdict(list)
        for sample in dataset.samples:
            scenes[sample.scene_index].append(sample)
        for scene, samples in scenes.items():
            _write_scene(dataset, samples, numbers, folder / name / f"{scene:06d}")


def _write_scene(
    dataset: Dataset, samples: list[Sample], numbers: Mapping[str, int], folder: Path
) -> None:
    files: dict[str, dict[str, Any]] = {CAMERAS: {}, POSES: {}, INFOS: {}}
    for number, sample in enumerate(samples):
        picture = _straight(dataset, sample)
        _write_images(picture, number, folder)
        files[CAMERAS][str(number)] = _camera(sample, picture)
        files[POSES][str(number)] = [_pose(o.label, numbers) for o in picture.objects]
        files[INFOS][str(number)] = [_info(o, picture) for o in picture.objects]
    for name, table in files.items():
        images.write_bytes(folder / name, json.dumps(table, indent=1).encode())


@dataclass(frozen=True, eq=False)
class _Object:
    """A label with its masks (h, w), the whole one None where unknown, and its whole box."""

    label: ObjectLabel
    seen: NDArray[np.bool_]
    whole: NDArray[np.bool_] | None
    whole_box: Box


@dataclass(frozen=True, eq=False)
class _Picture:
    """A picture as a pinhole has it; depth in its channel's steps, None without it."""

    matrix: NDArray[np.float64]
    rgb: NDArray[np.uint8]
    depth: NDArray[np.uint16] | None
    objects: tuple[_Object, ...]


def _straight(dataset: Dataset, sample: Sample) -> _Picture:
    labels = labels_of(dataset, sample)
    if "ids" not in sample.channels:
        raise InputError(dataset.root, f"image {sample.name} has no ids, from which masks come.")
    straightener = Straightener.of(sample)
    ids = straightener.nearest(images.read_16bit(sample.channels["ids"]))
    depth = None
    if "depth" in sample.channels:
        depth = straightener.nearest(images.read_16bit(sample.channels["depth"]))
    found = (_object(dataset, sample, label, straightener, ids) for label in labels)
    return _Picture(
        straightener.matrix,
        straightener.smooth(images.read_rgb(sample.rgb)),
        depth,
        tuple(o for o in found if o.seen.any()),  # straightened, some lie outside
    )


def _object(
    dataset: Dataset,
    sample: Sample,
    label: ObjectLabel,
    straightener: Straightener,
    ids: NDArray[np.uint16],
) -> _Object:
    place = f"image {sample.name}: an object of category {label.category} has no"
    for what in ("pose", "visible_fraction", "box_amodal_xyxy", "instance_id"):
        if getattr(label, what) is None:
            raise InputError(dataset.root, f"{place} {what}, which BOP needs.")
    seen = ids == label.instance_id
    if label.amodal_mask is not None:
        bits = label.amodal_mask.mask().astype(np.uint8)
        whole = straightener.nearest(bits) > 0
        return _Object(label, seen, whole, box_of_mask(whole) or (0.0, 0.0, 0.0, 0.0))
    if straightener.source is not None:
        raise InputError(
            dataset.root,
            f"{place} whole mask, without which its whole box cannot be straightened. Render with "
            "amodal_masks among the --channels.",
        )
    assert label.box_amodal_xyxy is not None
    return _Object(label, seen, None, label.box_amodal_xyxy)


def _write_images(picture: _Picture, number: int, folder: Path) -> None:
    images.write_bytes(folder / f"rgb/{number:06d}.png", images.encode_png(picture.rgb))
    if picture.depth is not None:
        images.write_bytes(folder / f"depth/{number:06d}.png", images.encode_png(picture.depth))
    for index, found in enumerate(picture.objects):
        for name, mask in (("mask_visib", found.seen), ("mask", found.whole)):
            if mask is not None:
                data = images.encode_png(mask.astype(np.uint8) * np.uint8(255))
                images.write_bytes(folder / f"{name}/{number:06d}_{index:06d}.png", data)


def _camera(sample: Sample, picture: _Picture) -> dict[str, Any]:
    facts = {"cam_K": picture.matrix.ravel().tolist(), "depth_scale": DEPTH_SCALE_M * MM}
    if sample.moment is None:
        return facts
    world = sample.moment.camera.inverse()
    return facts | {
        "cam_R_w2c": world.rotation().as_matrix().ravel().tolist(),
        "cam_t_w2c": [MM * value for value in world.position_m],
    }


def _pose(label: ObjectLabel, numbers: Mapping[str, int]) -> dict[str, Any]:
    assert label.pose is not None
    return {
        "cam_R_m2c": label.pose.rotation().as_matrix().ravel().tolist(),
        "cam_t_m2c": [MM * value for value in label.pose.position_m],
        "obj_id": numbers[label.category],
    }


def _info(found: _Object, picture: _Picture) -> dict[str, Any]:
    seen = int(found.seen.sum())
    if found.whole is None:
        assert found.label.visible_fraction is not None
        pixels = round(seen / found.label.visible_fraction)
    else:
        pixels = int(found.whole.sum())
    with_depth = 0
    if picture.depth is not None:
        with_depth = pixels if found.whole is None else int((picture.depth[found.whole] > 0).sum())
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


def is_bop(path: Path) -> bool:
    """Returns whether a path is a folder of scenes, or one."""
    return bool(scenes_below(path))


def read_bop(root: Path, origin: Origin) -> dict[str, Dataset]:
    """Returns the parts of a data set (``test``, ``train_pbr``, ...), of one part or of one scene.

    Boxes are those of what is seen, and end at the picture's edge, as those of whole objects do;
    objects that are hidden whole are left out. Categories are named
    by ``categories.json`` where our export wrote one, and else as the files of their meshes:
    ``obj_000001``. Depth is that of a depth camera, ``sensor_depth``.

    Raises:
        InputError: a file is missing, broken or contradicts itself.
    """
    parts = scenes_below(root)
    scenes = [scene for found in parts.values() for scene in found]
    names = names_of(scenes)
    samples: dict[str, list[Sample]] = {part: [] for part in parts}
    number = 0
    for part, folders in parts.items():
        for folder in folders:
            samples[part].extend(_scene(root, folder, number, names, origin))
            number += 1
    found = {o.category for part in samples.values() for s in part for o in s.objects or ()}
    categories = tuple(name for name in names.values() if name in found) or tuple(names.values())
    return {part: Dataset(root, categories, tuple(read)) for part, read in samples.items()}


def _scene(
    root: Path, folder: Path, scene_index: int, names: Mapping[int, str], origin: Origin
) -> Iterator[Sample]:
    cameras = read_table(folder / CAMERAS, CAMERA_TABLE)
    labelled = (folder / POSES).is_file()
    poses = read_table(folder / POSES, POSE_TABLE) if labelled else {}
    infos = read_table(folder / INFOS, INFO_TABLE) if labelled else {}
    for number, camera in sorted(cameras.items()):
        path = picture_file(folder, number)
        width, height = images.read_size(path)
        objects = None
        if labelled:
            objects = tuple(_labels(folder, number, (width, height), poses, infos, names))
        depth = folder / f"depth/{number:06d}.png"
        yield Sample(
            name=path.relative_to(root).as_posix(),
            rgb=path,
            width=width,
            height=height,
            objects=objects,
            origin=origin,
            channels={"sensor_depth": depth} if depth.is_file() else {},
            lens=_lens(folder / CAMERAS, number, camera),
            scene_index=scene_index,
            depth_unit_m=camera.depth_scale / MM if depth.is_file() else None,
        )


def _lens(path: Path, number: int, camera: CameraEntry) -> BrownConrady:
    fx, skew, cx, zero, fy, cy, *last = camera.matrix
    if skew or zero or last != [0, 0, 1]:
        raise InputError(path, f"image {number}: cam_K is not fx 0 cx, 0 fy cy, 0 0 1. {CURE}")
    try:
        return BrownConrady(fx, fy, cx, cy)
    except LensError as error:
        raise InputError(path, f"image {number}: {error}") from error


def _labels(
    folder: Path,
    number: int,
    size: tuple[int, int],
    poses: Mapping[int, list[PoseEntry]],
    infos: Mapping[int, list[InfoEntry]],
    names: Mapping[int, str],
) -> Iterator[ObjectLabel]:
    given, beside = poses.get(number, []), infos.get(number, [])
    if len(given) != len(beside):
        raise InputError(
            folder / INFOS,
            f"image {number}: {len(beside)} objects, but {POSES} has {len(given)}. Calculate it "
            "again.",
        )
    for index, (pose, info) in enumerate(zip(given, beside, strict=True)):
        if info.px_count_visib > 0:
            box, whole = _box(info.bbox_visib, size), _box(info.bbox_obj, size)
            if box is None or whole is None or not 0 < info.visib_fract <= 1:
                raise InputError(
                    folder / INFOS,
                    f"image {number}, object {index}: impossible box or visib_fract. {CURE}",
                )
            yield ObjectLabel(
                category=names[pose.obj_id],
                box_xyxy=box,
                area_px=info.px_count_visib,
                box_amodal_xyxy=whole,
                visible_fraction=info.visib_fract,
                pose=Pose.from_matrix(matrix_of(folder / POSES, number, index, pose)),
            )


def _box(first_and_more: list[float], size: tuple[int, int]) -> Box | None:
    """Returns a box as far as it lies in a picture (width, height); None where it is none or beside."""
    x, y, width, height = first_and_more
    if not all(map(math.isfinite, first_and_more)) or width < 0 or height < 0:
        return None
    x0, y0 = max(x, 0.0), max(y, 0.0)
    x1, y1 = min(x + width + 1, size[0]), min(y + height + 1, size[1])
    return (x0, y0, x1, y1) if x0 < x1 and y0 < y1 else None
