"""JSON file of pose scores, written by ``bench --out``."""

from __future__ import annotations

import math
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
"""Key of the images with targets."""

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
    """Return the errors and recalls of every target, by image and object, as JSON values."""
    objects: list[list[dict[str, Any]]] = [[] for _ in result.views]
    for matches in result.matches:
        errors = {  # JSON has no infinity
            name: [value if math.isfinite(value) else None for value in values.tolist()]
            for name, values in matches.errors.items()
        }
        credit = {name: values.tolist() for name, values in matches.recalls.items()}
        objects[matches.image_index].append(
            {"name": matches.name, "errors": errors, "credit": credit}
        )
    return [
        {"scene_id": view.scene_id, "image_id": view.image_id, "objects": image_objects}
        for view, image_objects in zip(result.views, objects, strict=True)
    ]


def write_pose_result(result: PoseBenchResult, path: Path) -> None:
    """Write the scores, and the errors and recalls of every target.

    Raises:
        OutputError: if the file cannot be written.
    """
    write_json(path, {"scores": result.to_json(), POSES_KEY: serialize_pose_images(result)})


def detect_result_kinds(path: Path) -> set[str]:
    """Return the kinds of results in a file: ``DETECTIONS``, ``POSES_KEY`` or both.

    Raises:
        InputError: if the file is missing or not JSON.
    """
    if path.suffix == ".csv":
        return {POSES_KEY}
    values = read_json(path, _MAX_BYTES, "file of results")
    kinds = {DETECTIONS, POSES_KEY}.intersection(values if isinstance(values, dict) else ())
    return kinds or {DETECTIONS}  # COCO and BOP results have no such keys


def read_pose_run(path: Path, bop_root: Path, limit: int | None = None) -> PoseEvaluator:
    """Return the poses of a file of ``bench --out``, for bootstrap comparisons.

    Meshes and depth images are not needed.

    Args:
        path: file of ``bench --out``.
        bop_root: folder of the BOP dataset.
        limit: number of images that were scored; None for all.

    Raises:
        InputError: if a file is broken, or the poses were scored on other images or instances.
    """
    values = read_json(path, _MAX_BYTES, "list of poses")[POSES_KEY]
    try:
        pose_images = _IMAGES_ADAPTER.validate_python(values)
    except ValidationError as error:
        raise InputError(
            path, f"{POSES_KEY}: {format_validation_error(error)}. Run bench again."
        ) from error
    matches = [
        _parse_object(path, number, object_poses)
        for number, pose_image in enumerate(pose_images)
        for object_poses in pose_image.objects
    ]
    if len({(*object_matches.recalls,) for object_matches in matches}) > 1:
        raise InputError(path, f"{POSES_KEY}: objects have different metrics. Run bench again.")
    scenes = list_pose_scenes(bop_root)
    views, names = read_pose_images(scenes)[:limit], read_category_names(scenes)
    expected = [
        (
            v.scene_id,
            v.image_id,
            sorted((names[o], len(t)) for o, t in v.ground_truth_poses.items()),
        )
        for v in views
    ]
    scored = [
        (image.scene_id, image.image_id, sorted(map(_count_instances, image.objects)))
        for image in pose_images
    ]
    if scored != expected or not matches:
        raise InputError(
            path,
            f"was scored on other images or instances than {bop_root} has. Run bench on that dataset.",
        )
    return PoseEvaluator(matches, group_views(views))


def _parse_object(path: Path, image: int, object_poses: _ObjectPoses) -> PoseMatches:
    lengths = {*map(len, object_poses.credit.values()), *map(len, object_poses.errors.values())}
    if not object_poses.credit or len(lengths) > 1:
        raise InputError(
            path,
            f"{POSES_KEY}[{image}]: {object_poses.name} must have equally many values of each metric. Run bench again.",
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
