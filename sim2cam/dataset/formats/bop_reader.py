"""Reading BOP: data sets of its benchmark, and what ``bop`` wrote."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from sim2cam import images
from sim2cam.dataset.formats.bop_files import (
    CAMERA_TABLE,
    CAMERAS,
    CURE,
    INFO_TABLE,
    INFOS,
    MM,
    POSE_TABLE,
    POSES,
    CameraEntry,
    InfoEntry,
    PoseEntry,
    box_within,
    matrix_of,
    names_of,
    picture_file,
    read_table,
    scenes_below,
)
from sim2cam.dataset.mask_file import MaskFile
from sim2cam.dataset.sample import Dataset, ObjectLabel, Origin, Sample
from sim2cam.errors import InputError, LensError
from sim2cam.geometry.boxes import Box
from sim2cam.geometry.lens import BrownConrady
from sim2cam.geometry.poses import Pose


def is_bop(path: Path) -> bool:
    """Returns whether a path is a folder of scenes, or one."""
    return bool(scenes_below(path))


def read_bop(root: Path, origin: Origin) -> dict[str, Dataset]:
    """Returns the parts of a data set (``test``, ``train_pbr``, ...), of one part or of one scene.

    Boxes are those of what is seen, and end at the picture's edge, as those of whole objects do;
    visible fractions are of whole objects, also beyond it. Masks are those of ``mask_visib/``, read
    when they are asked for. Objects that are hidden whole are left out. Categories are named by
    ``categories.json`` where our export wrote one, and else as the files of their meshes:
    ``obj_000001``. Depth is that of a depth camera, ``sensor_depth``.

    Raises:
        InputError: a file is missing, broken or contradicts itself.
    """
    root = root.resolve()
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
    listed = tuple(dict.fromkeys(names.values()))  # several models may be of one category
    categories = tuple(name for name in listed if name in found) or listed
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
            mask = folder / f"mask_visib/{number:06d}_{index:06d}.png"
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
                mask=MaskFile(mask, size[::-1]) if mask.is_file() else None,
            )


def _box(first_and_more: list[float], size: tuple[int, int]) -> Box | None:
    """Returns a box as far as it lies in a picture (width, height); None where it is none or beside."""
    if not all(map(math.isfinite, first_and_more)) or min(first_and_more[2:]) < 0:
        return None
    x0, y0, x1, y1 = box_within(first_and_more, size)
    return (x0, y0, x1, y1) if x0 < x1 and y0 < y1 else None
