"""The file that ``bench --out`` writes of poses: scores, and how well every instance was found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError

from sim2cam.data.formats.bop.files import names_of
from sim2cam.data.formats.bop.poses import read_views
from sim2cam.data.formats.predictions import DETECTIONS
from sim2cam.data.parsing import first_problem, read_json
from sim2cam.data.writer import write_json
from sim2cam.errors import InputError
from sim2cam.experiments.pose_benchmark import PoseBench, pose_scenes, units_of_views
from sim2cam.metrics.poses import Placings, PoseRun

POSES = "poses"
"""Key of the pictures in which something was sought."""

_MOST_BYTES = 500_000_000

_Credit = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True)
class _Object:
    name: str
    credit: dict[str, list[_Credit]]
    errors: dict[str, list[float | None]]


@dataclass(frozen=True)
class _Picture:
    scene_id: int
    image_id: int
    objects: list[_Object]


_PICTURES: TypeAdapter[list[_Picture]] = TypeAdapter(list[_Picture])


def pictures_json(bench: PoseBench) -> list[dict[str, Any]]:
    """Returns how well every instance was found, by pictures and objects, as JSON values."""
    objects: list[list[dict[str, Any]]] = [[] for _ in bench.views]
    for one in bench.placings:
        errors = {name: _finite(values.tolist()) for name, values in one.errors.items()}
        credit = {name: values.tolist() for name, values in one.credit.items()}
        objects[one.image].append({"name": one.name, "errors": errors, "credit": credit})
    return [
        {"scene_id": view.scene_id, "image_id": view.image_id, "objects": found}
        for view, found in zip(bench.views, objects, strict=True)
    ]


def write_pose_bench(bench: PoseBench, path: Path) -> None:
    """Writes scores, and how well every instance was found.

    Raises:
        OutputError: the file cannot be written.
    """
    write_json(path, {"scores": bench.to_json(), POSES: pictures_json(bench)})


def kinds_held(path: Path) -> set[str]:
    """Returns what a file of what was found holds: ``DETECTIONS``, ``POSES`` or both.

    Raises:
        InputError: it is missing or no JSON.
    """
    if path.suffix == ".csv":
        return {POSES}
    values = read_json(path, _MOST_BYTES, "list of what was found")
    held = {DETECTIONS, POSES}.intersection(values if isinstance(values, dict) else ())
    return held or {DETECTIONS}  # also in the forms of COCO and BOP


def read_pose_run(path: Path, captures: Path) -> PoseRun:
    """Returns poses that ``write_pose_bench`` or ``write_bench`` wrote, ready to be scored on any resample.

    Neither meshes nor depth are read again.

    Args:
        path: the file.
        captures: folder of the BOP data set that they were scored on.

    Raises:
        InputError: a file is broken, or the poses were scored on other pictures or instances.
    """
    values = read_json(path, _MOST_BYTES, "list of poses")[POSES]
    try:
        pictures = _PICTURES.validate_python(values)
    except ValidationError as error:
        raise InputError(path, f"{POSES}: {first_problem(error)}. Make it anew.") from error
    placings = [
        _placings(path, number, one)
        for number, picture in enumerate(pictures)
        for one in picture.objects
    ]
    if len({(*one.credit,) for one in placings}) > 1:
        raise InputError(path, f"{POSES}: objects have different numbers. Make it anew.")
    scenes = pose_scenes(captures)
    views, names = read_views(scenes), names_of(scenes)
    sought = [
        (view.scene_id, view.image_id, sorted((names[o], len(t)) for o, t in view.truths.items()))
        for view in views
    ]
    scored = [(one.scene_id, one.image_id, sorted(map(_counted, one.objects))) for one in pictures]
    if scored != sought or not placings:
        raise InputError(
            path,
            f"was scored on other pictures or instances than {captures} has. Run bench on that.",
        )
    return PoseRun(placings, units_of_views(views))


def _placings(path: Path, image: int, one: _Object) -> Placings:
    lengths = {*map(len, one.credit.values()), *map(len, one.errors.values())}
    if not one.credit or len(lengths) > 1:
        raise InputError(
            path,
            f"{POSES}[{image}]: {one.name} must have as many values of each number. Make it anew.",
        )
    errors = {
        name: np.array([math.inf if value is None else value for value in values])
        for name, values in one.errors.items()
    }
    return Placings(image, one.name, errors, {n: np.array(v) for n, v in one.credit.items()})


def _counted(one: _Object) -> tuple[str, int]:
    return one.name, len(next(iter(one.credit.values())))


def _finite(values: Sequence[float]) -> list[float | None]:
    """Returns values as JSON has them, which knows no infinity."""
    return [value if math.isfinite(value) else None for value in values]
