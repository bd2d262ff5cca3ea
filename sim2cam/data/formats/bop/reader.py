"""BOP reader, for datasets of the benchmark and of ``write_bop``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sim2cam import images
from sim2cam.data.formats.bop.files import (
    CAMERA_FILE,
    CAMERA_TABLE,
    HINT,
    INFO_FILE,
    INFO_LIST,
    INFO_TABLE,
    MM_PER_M,
    POSE_FILE,
    POSE_LIST,
    POSE_TABLE,
    CameraEntry,
    InfoEntry,
    PoseEntry,
    check_same_length,
    clip_bop_box,
    find_image,
    find_mask_folder,
    find_scenes,
    make_default_name,
    parse_pose_matrix,
    read_category_names,
    read_table,
    resolve_table_path,
)
from sim2cam.data.mask_file import MaskFile
from sim2cam.data.parsing import format_validation_error
from sim2cam.data.problems import AnnotationErrors
from sim2cam.data.sample import Dataset, ObjectLabel, Origin, Sample
from sim2cam.errors import InputError, LensError
from sim2cam.geometry.boxes import Box
from sim2cam.geometry.lens import BrownConrady
from sim2cam.geometry.poses import Pose


def is_bop(path: Path) -> bool:
    """Return whether a path is a BOP dataset, split or scene."""
    return bool(find_scenes(path))


def read_bop(root: Path, origin: Origin, *, skip_invalid: bool = False) -> dict[str, Dataset]:
    """Return the splits of a dataset (``test``, ``train_pbr``, ...), of one split or of one scene.

    Boxes are of the visible pixels; they and amodal boxes are clipped to the image. Visible
    fractions are of whole objects, also outside the image. Masks of ``mask_visib/`` are read
    lazily. Invisible objects are left out. Category names are from ``categories.json`` of
    ``write_bop``, else the names of mesh files, e.g. ``obj_000001``. Depth becomes the channel
    ``sensor_depth``. In scenes with several sensors (``scene_camera_rgb.json``), the sensor ``rgb``
    is read.

    Args:
        root: the folder.
        origin: origin of the images.
        skip_invalid: leave invalid annotations out with a warning.

    Raises:
        InputError: a file is missing, broken or inconsistent.
    """
    root = root.resolve()
    splits = find_scenes(root)
    names = read_category_names([scene for scenes in splits.values() for scene in scenes])
    samples: dict[str, list[Sample]] = {split: [] for split in splits}
    problems = AnnotationErrors(root, skip_invalid=skip_invalid)
    scene_index = 0
    for split, folders in splits.items():
        for folder in folders:
            samples[split].extend(_read_scene(root, folder, scene_index, names, origin, problems))
            scene_index += 1
    problems.report()
    used = {o.category for split in samples.values() for s in split for o in s.objects or ()}
    listed = tuple(dict.fromkeys(names.values()))  # several models can have one category
    categories = tuple(name for name in listed if name in used) or listed
    return {split: Dataset(root, categories, tuple(items)) for split, items in samples.items()}


def _read_scene(
    root: Path,
    folder: Path,
    scene_index: int,
    category_names: Mapping[int, str],
    origin: Origin,
    problems: AnnotationErrors,
) -> Iterator[Sample]:
    path = resolve_table_path(folder, CAMERA_FILE)
    cameras = read_table(path, CAMERA_TABLE)
    labels = _read_scene_labels(folder) if resolve_table_path(folder, POSE_FILE).is_file() else None
    for image_id, camera in sorted(cameras.items()):
        image_path = find_image(folder, image_id)
        width, height = images.read_size(image_path)
        objects = None
        if labels is not None:
            objects = tuple(
                _read_objects(folder, image_id, (width, height), labels, category_names, problems)
            )
        depth = folder / f"depth/{image_id:06d}.png"
        yield Sample(
            name=image_path.relative_to(root).as_posix(),
            rgb=image_path,
            width=width,
            height=height,
            objects=objects,
            origin=origin,
            channels={"sensor_depth": depth} if depth.is_file() else {},
            lens=_build_lens(path, image_id, camera),
            scene_index=scene_index,
            depth_unit_m=camera.depth_scale / MM_PER_M if depth.is_file() else None,
        )


def _read_scene_labels(
    folder: Path,
) -> tuple[dict[int, list[PoseEntry]], dict[int, list[InfoEntry]]]:
    path = resolve_table_path(folder, INFO_FILE)
    if not path.is_file():
        raise InputError(
            path,
            f"missing, with boxes and visibility of the poses in {POSE_FILE}. Create it with calc_gt_info.py of "
            "bop_toolkit.",
        )
    return read_table(resolve_table_path(folder, POSE_FILE), POSE_TABLE), read_table(
        path, INFO_TABLE
    )


def _build_lens(path: Path, image_id: int, camera: CameraEntry) -> BrownConrady:
    fx, skew, cx, zero, fy, cy, *last = camera.camera_matrix
    if skew or zero or last != [0, 0, 1]:
        raise InputError(path, f"image {image_id}: cam_K must be fx 0 cx, 0 fy cy, 0 0 1. {HINT}")
    try:
        return BrownConrady(fx, fy, cx, cy)
    except LensError as error:
        raise InputError(path, f"image {image_id}: {error}") from error


def _read_objects(
    folder: Path,
    image_id: int,
    size: tuple[int, int],
    labels: tuple[Mapping[int, list[PoseEntry]], Mapping[int, list[InfoEntry]]],
    category_names: Mapping[int, str],
    problems: AnnotationErrors,
) -> Iterator[ObjectLabel]:
    """Yield the visible objects of an image."""
    poses, infos = labels[0].get(image_id, []), labels[1].get(image_id, [])
    paths = resolve_table_path(folder, POSE_FILE), resolve_table_path(folder, INFO_FILE)
    check_same_length(paths[1], f"image {image_id}", infos, poses)
    masks = find_mask_folder(folder)
    for index, (pose, info) in enumerate(zip(poses, infos, strict=True)):
        with problems.collect():
            location = f"image {image_id}, object {index}"
            label = _build_label(paths, location, (pose, info), size, category_names[pose.obj_id])
            mask_path = masks / f"{image_id:06d}_{index:06d}.png"
            if label is not None and mask_path.is_file():
                label = replace(label, mask=MaskFile(mask_path, size[::-1]))
            if label is not None:
                yield label


def read_bop_image(
    path: Path, name: str, poses: Any, infos: Any, size: tuple[int, int], problems: AnnotationErrors
) -> tuple[ObjectLabel, ...]:
    """Return the visible objects of an image from tables of its own, as in BOP's WebDataset files.

    Args:
        path: source of the tables, for errors.
        name: image name.
        poses: entries of ``scene_gt.json``.
        infos: entries of ``scene_gt_info.json``.
        size: width and height of the image.
        problems: collects invalid objects, which are left out.

    Raises:
        InputError: the tables are broken, or of different lengths.
    """
    try:
        pose_entries, info_entries = (
            POSE_LIST.validate_python(poses),
            INFO_LIST.validate_python(infos),
        )
    except ValidationError as error:
        raise InputError(
            path, f"sample {name}: {format_validation_error(error)}. {HINT}"
        ) from error
    check_same_length(path, f"sample {name}", info_entries, pose_entries)
    labels = []
    for index, (pose, info) in enumerate(zip(pose_entries, info_entries, strict=True)):
        with problems.collect():
            location = f"sample {name}, object {index}"
            category = make_default_name(pose.obj_id)
            labels.append(_build_label((path, path), location, (pose, info), size, category))
    return tuple(label for label in labels if label is not None)


def _build_label(
    paths: tuple[Path, Path],
    location: str,
    entries: tuple[PoseEntry, InfoEntry],
    size: tuple[int, int],
    category: str,
) -> ObjectLabel | None:
    """Return the label of an object; None if invisible.

    Args:
        paths: files of the pose and info tables, for errors.
        location: location of the object, for errors.
        entries: entries of both tables.
        size: width and height of the image.
        category: category name.
    """
    pose, info = entries
    if info.px_count_visib <= 0:
        return None
    box, amodal_box = _clip_box(info.bbox_visib, size), _clip_box(info.bbox_obj, size)
    if box is None or amodal_box is None or not 0 < info.visib_fract <= 1:
        raise InputError(paths[1], f"{location}: invalid box or visib_fract.")
    return ObjectLabel(
        category=category,
        box_xyxy=box,
        area_px=info.px_count_visib,
        box_amodal_xyxy=amodal_box,
        visible_fraction=info.visib_fract,
        pose=Pose.from_matrix(parse_pose_matrix(paths[0], location, pose)),
    )


def _clip_box(bop_box: list[float], size: tuple[int, int]) -> Box | None:
    """Return a box clipped to an image (width, height); None if invalid or outside."""
    if not all(map(math.isfinite, bop_box)) or min(bop_box[2:]) < 0:
        return None
    x0, y0, x1, y1 = clip_bop_box(bop_box, size)
    return (x0, y0, x1, y1) if x0 < x1 and y0 < y1 else None
