"""The file that ``bench --out`` writes of poses: scores, and how well every instance was found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError

from sim2cam.data.formats.bop.files import read_category_names
from sim2cam.data.formats.bop.poses import read_pose_images
from sim2cam.data.formats.predictions import DETECTIONS
from sim2cam.data.parsing import format_validation_error, read_json
from sim2cam.data.writer import write_json
from sim2cam.errors import InputError
from sim2cam.experiments.pose_benchmark import PoseBenchResult, group_views, list_pose_scenes
from sim2cam.metrics.poses import PoseEvaluator, PoseMatches

POSES_KEY = "poses"
"""Key of the pictures in which something was sought."""

_MAX_BYTES = 500_000_000

_Credit = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True)
class _ObjectPoses:
    name: str
    credit: dict[str, list[_Credit]]
    errors: dict[str, list[float | None]]


@dataclass(frozen=True)
class _ImagePoses:
    scene_id: int
    image_id: int
    objects: list[_ObjectPoses]


_IMAGES_ADAPTER: TypeAdapter[list[_ImagePoses]] = TypeAdapter(list[_ImagePoses])


def serialize_pose_images(result: PoseBenchResult) -> list[dict[str, Any]]:
    """Return how well every instance was found, by pictures and objects, as JSON values."""
    objects: list[list[dict[str, Any]]] = [[] for _ in result.views]
    for one in result.placings:
        errors = {name: _replace_infinities(values.tolist()) for name, values in one.errors.items()}
        credit = {name: values.tolist() for name, values in one.recalls.items()}
        objects[one.image_index].append({"name": one.name, "errors": errors, "credit": credit})
    return [
        {"scene_id": view.scene_id, "image_id": view.image_id, "objects": found}
        for view, found in zip(result.views, objects, strict=True)
    ]


def write_pose_result(result: PoseBenchResult, path: Path) -> None:
    """Write scores, and how well every instance was found.

    Raises:
        OutputError: the file cannot be written.
    """
    write_json(path, {"scores": result.to_json(), POSES_KEY: serialize_pose_images(result)})


def detect_result_kinds(path: Path) -> set[str]:
    """Return what a file of what was found holds: ``DETECTIONS``, ``POSES`` or both.

    Raises:
        InputError: it is missing or no JSON.
    """
    if path.suffix == ".csv":
        return {POSES_KEY}
    values = read_json(path, _MAX_BYTES, "list of what was found")
    held = {DETECTIONS, POSES_KEY}.intersection(values if isinstance(values, dict) else ())
    return held or {DETECTIONS}  # also in the forms of COCO and BOP


def read_pose_run(path: Path, bop_root: Path) -> PoseEvaluator:
    """Return poses that ``write_pose_result`` or ``write_bench_result`` wrote, ready to be scored on any resample.

    Neither meshes nor depth are read again.

    Args:
        path: the file.
        bop_root: folder of the BOP data set that they were scored on.

    Raises:
        InputError: a file is broken, or the poses were scored on other pictures or instances.
    """
    values = read_json(path, _MAX_BYTES, "list of poses")[POSES_KEY]
    try:
        pictures = _IMAGES_ADAPTER.validate_python(values)
    except ValidationError as error:
        raise InputError(
            path, f"{POSES_KEY}: {format_validation_error(error)}. Make it anew."
        ) from error
    placings = [
        _parse_object(path, number, one)
        for number, picture in enumerate(pictures)
        for one in picture.objects
    ]
    if len({(*one.recalls,) for one in placings}) > 1:
        raise InputError(path, f"{POSES_KEY}: objects have different numbers. Make it anew.")
    scenes = list_pose_scenes(bop_root)
    views, names = read_pose_images(scenes), read_category_names(scenes)
    sought = [
        (
            view.scene_id,
            view.image_id,
            sorted((names[o], len(t)) for o, t in view.ground_truth_poses.items()),
        )
        for view in views
    ]
    scored = [
        (one.scene_id, one.image_id, sorted(map(_count_instances, one.objects))) for one in pictures
    ]
    if scored != sought or not placings:
        raise InputError(
            path,
            f"was scored on other pictures or instances than {bop_root} has. Run bench on that.",
        )
    return PoseEvaluator(placings, group_views(views))


def _parse_object(path: Path, image: int, object_poses: _ObjectPoses) -> PoseMatches:
    lengths = {*map(len, object_poses.credit.values()), *map(len, object_poses.errors.values())}
    if not object_poses.credit or len(lengths) > 1:
        raise InputError(
            path,
            f"{POSES_KEY}[{image}]: {object_poses.name} must have as many values of each number. Make it anew.",
        )
    errors = {
        name: np.array([math.inf if value is None else value for value in values])
        for name, values in object_poses.errors.items()
    }
    return PoseMatches(
        image, object_poses.name, errors, {n: np.array(v) for n, v in object_poses.credit.items()}
    )


def _count_instances(object_poses: _ObjectPoses) -> tuple[str, int]:
    return object_poses.name, len(next(iter(object_poses.credit.values())))


def _replace_infinities(values: Sequence[float]) -> list[float | None]:
    """Return values as JSON has them, which knows no infinity."""
    return [value if math.isfinite(value) else None for value in values]
