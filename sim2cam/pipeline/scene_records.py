"""Scene records: settled scenes read back from a rendered dataset."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from sim2cam.data.parsing import format_validation_error
from sim2cam.data.reader import RequirementResult, read_header
from sim2cam.data.shards import read_quarantined
from sim2cam.data.writer import SAMPLES_PER_SHARD, shard_folder
from sim2cam.errors import InputError, SceneError
from sim2cam.geometry.motion import RigidMotion
from sim2cam.pipeline.recipe import Recipe
from sim2cam.pipeline.scene_sampling import Counterfactual, Instant, SettledScene
from sim2cam.randomize.counterfactual import Intervention
from sim2cam.randomize.sampling import FactorValues
from sim2cam.randomize.sampling_context import Value
from sim2cam.render.physics.contacts import Contact
from sim2cam.render.physics.simulation import PhysicsCertificate
from sim2cam.render.physics.trajectory import apply_motion
from sim2cam.scene.scene import Scene


@dataclass(frozen=True)
class RecordedInstant:
    """Poses and velocities of movable bodies at a time, and the contacts."""

    seconds: float
    bodies: Mapping[str, RigidMotion]
    contacts: tuple[Contact, ...]


@dataclass(frozen=True)
class SceneRecord:
    """A line of ``scenes.jsonl``; see ``SettledScene``.

    Attributes:
        sampled_values: sampled values by factor path.
        sequence: instants of a sequence; empty for a still.
    """

    scene_index: int
    attempt: int
    rejections: tuple[str, ...]
    certificate: PhysicsCertificate
    sampled_values: Mapping[str, Value]
    scene: Scene
    sequence: tuple[RecordedInstant, ...] = ()
    counterfactual: Counterfactual | None = None
    requirement_values: Mapping[str, RequirementResult] = field(default_factory=dict)


def read_scene_record(path: Path, index: int) -> SceneRecord:
    """Return the record of a scene.

    Raises:
        InputError: if the scene is missing, or its record is broken.
    """
    lines = path.read_bytes().splitlines() if path.is_file() else []
    for number, line in enumerate(lines, start=1):
        try:
            if json.loads(line)["scene_index"] == index:
                return _ADAPTER.validate_json(line)
        except ValidationError as error:
            problem = format_validation_error(error)
            raise InputError(path, f"line {number}: broken scene, {problem}.") from error
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(path, f"line {number}: broken scene ({error!r}).") from error
    raise InputError(path, f"has no scene {index}.")


def read_settled_scene(root: Path, recipe: Recipe, index: int) -> SettledScene:
    """Return a settled scene of a dataset that passes ``check_scenes``.

    Raises:
        InputError: if the scene is missing, or its record is broken.
        SceneError: if the scene is quarantined.
    """
    shard = index * recipe.render.samples_per_scene // SAMPLES_PER_SHARD
    for quarantined in read_quarantined(root, shard):
        if quarantined.scene_index == index:
            raise SceneError(quarantined.reason)
    path = shard_folder(root, shard) / "scenes.jsonl"
    record = read_scene_record(path, index)
    scene = record.scene.replace_paths(
        {name: path for path, name in recipe.map_file_names().items()}
    )
    try:
        sequence = _restore_sequence(recipe, replace(record, scene=scene))
    except KeyError as error:
        raise InputError(path, f"scene {index}: its sequence lacks body {error}.") from error
    return SettledScene(
        index,
        record.attempt,
        record.rejections,
        FactorValues(record.sampled_values, recipe.render.views),
        scene,
        record.certificate,
        sequence,
        record.counterfactual,
        record.requirement_values,
    )


def _round_floats(value: Any) -> Any:
    """Round the numbers of a JSON value to nine digits, on which machines agree."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, list):
        return [_round_floats(entry) for entry in value]
    if isinstance(value, dict):
        return {name: _round_floats(entry) for name, entry in value.items()}
    return value


def check_scenes(root: Path, recipe: Recipe, seed: int, change: Intervention) -> None:
    """Refuse a dataset whose scenes differ from those of a recipe, seed and change.

    Raises:
        InputError: naming the difference.
    """
    header = read_header(root)
    expected, stored = recipe.collect_rendering_settings(), header.get("recipe", {})
    header_values = {
        "seed": seed,
        "change": json.loads(_CHANGE_ADAPTER.dump_json(change)) if change else None,
    }
    for key, value in header_values.items():
        if header.get(key) != value:
            raise _build_mismatch_error(root, key, header.get(key), value)
    for key in ("domain", "assets", "skies", "pictures", "require"):
        if _round_floats(stored.get(key)) != _round_floats(expected.get(key)):
            raise InputError(root, f"its recipe has another [{key}]. Simulate the scenes again.")
    for key in ("width", "height", "views", "sequence"):
        stored_value, value = stored.get("render", {}).get(key), expected["render"].get(key)
        if stored_value != value:
            raise _build_mismatch_error(root, key, stored_value, value)


_ADAPTER: TypeAdapter[SceneRecord] = TypeAdapter(SceneRecord)
_CHANGE_ADAPTER: TypeAdapter[Intervention] = TypeAdapter(Intervention)


def _build_mismatch_error(root: Path, key: str, actual: object, expected: object) -> InputError:
    return InputError(
        root,
        f"holds other scenes: {key} is {json.dumps(actual)}, not {json.dumps(expected)}. Simulate the "
        "scenes again.",
    )


def build_instants(record: SceneRecord, interval_s: float) -> tuple[Instant, ...]:
    """Return the instants of a recorded sequence.

    Raises:
        KeyError: if a movable body is missing in the sequence.
    """
    instants = []
    for number, instant in enumerate(record.sequence):
        back = len(record.sequence) - 1 - number
        scene = replace(
            record.scene,
            bodies=tuple(
                body if body.is_fixed else apply_motion(body, instant.bodies[body.name])
                for body in record.scene.bodies
            ),
            cameras=tuple(
                camera.rewind_frames(back, interval_s) for camera in record.scene.cameras
            ),
        )
        instants.append(Instant(instant.seconds, scene, instant.contacts))
    return tuple(instants)


def _restore_sequence(recipe: Recipe, record: SceneRecord) -> tuple[Instant, ...]:
    options = recipe.render.sequence
    if options is None or not record.sequence:
        certificate = record.certificate
        return (Instant(certificate.seconds, record.scene, certificate.contacts),)
    return build_instants(record, options.interval_s)
