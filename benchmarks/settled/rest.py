"""Simulation of settled scenes in another physics engine."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rendering.commands import run

from sim2cam.assets.mesh import build_collider
from sim2cam.data.writer import write_json
from sim2cam.errors import SceneError
from sim2cam.objects.primitives import Ground
from sim2cam.objects.solid import ConvexPart, Solid
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.pipeline.scene_sampling import SettledScene, simulate_scene
from sim2cam.render.physics.contacts import build_support_graph
from sim2cam.render.physics.inertia import compute_inertial_frame
from sim2cam.render.physics.world import FILE_ROLLING_FRICTION_M
from sim2cam.scene.scene import Body, Scene
from sim2cam.scene.shape import MeshFile

BLOCK = 50
"""Scenes per unit of work."""


@dataclass(frozen=True)
class Block:
    """A range of scenes of a recipe.

    Attributes:
        number: number of the block, which starts at scene ``number * BLOCK``.
        python: interpreter with MuJoCo.
        work: folder of the results, one file per block.
    """

    recipe: str
    seed: int
    number: int
    python: str
    work: Path

    @property
    def result(self) -> Path:
        """Results file."""
        return self.work / f"{self.recipe}-{self.number:04d}.json"


def measure_block(block: Block) -> Path:
    """Measure the scenes of a block and return the results file; an existing file is kept.

    Raises:
        SystemExit: the other engine failed.
    """
    if block.result.is_file():
        return block.result
    recipe, settled, exhausted = load_recipe(block.recipe), [], 0
    for index in range(block.number * BLOCK, (block.number + 1) * BLOCK):
        try:
            settled.append(simulate_scene(recipe, block.seed, index))
        except SceneError:
            exhausted += 1
    scenes = block.result.with_suffix(".scenes.json")
    write_json(
        scenes, {"scenes": [_export_bodies(result.scene) for result in settled]}, indented=False
    )
    output = block.result.with_suffix(".moved.json")
    process = run(
        [block.python, "-m", "peers.mujoco_rest", str(scenes.resolve()), str(output.resolve())]
    )
    if process.code != 0:
        raise SystemExit(f"The simulation in MuJoCo failed:\n{process.errors}")
    movements = json.loads(output.read_text(encoding="utf-8"))["scenes"]
    facts = [_make_row(*pair) for pair in zip(settled, movements, strict=True)]
    write_json(block.result, {"starved": exhausted, "scenes": facts}, indented=False)
    scenes.unlink()
    output.unlink()
    return block.result


def list_floating(settled: SettledScene) -> tuple[str, ...]:
    """Return the names of bodies without direct or indirect support by a fixed body."""
    supports = build_support_graph(settled.certificate.contacts)
    held = {body.name for body in settled.scene.bodies if body.is_fixed}
    while True:
        more = {name for name, by in supports.items() if held.intersection(by)} - held
        if not more:
            return tuple(b.name for b in settled.scene.bodies if b.name not in held)
        held |= more


def summarize(blocks: list[Path]) -> dict[str, Any]:
    """Return the statistics over all blocks."""
    read = [json.loads(path.read_text(encoding="utf-8")) for path in blocks]
    scenes = [scene for block in read for scene in block["scenes"]]
    movements = np.array([scene["moved_m"] for scene in scenes])
    overlap = np.array([scene["overlap_m"] for scene in scenes])
    rejections: Counter[str] = Counter()
    for scene in scenes:
        rejections.update(scene["rejections"])
    return {
        "scenes": len(scenes),
        "starved": sum(block["starved"] for block in read),
        "bodies": sum(scene["bodies"] for scene in scenes),
        "rejected_share": rejections.total() / (rejections.total() + len(scenes)),
        "floating": sum(len(scene["floating"]) for scene in scenes),
        "moved_over_2_mm": int((movements > 2e-3).sum()),
        "moved_mm": _compute_percentiles(1e3 * movements),
        "overlap_over_1_mm": int((overlap > 1e-3).sum()),
        "overlap_mm": _compute_percentiles(1e3 * overlap),
    }


def _compute_percentiles(values: np.ndarray) -> dict[str, float]:
    median, high, highest = np.percentile(values, [50, 99, 100])
    return {"median": float(median), "p99": float(high), "max": float(highest)}


def _make_row(settled: SettledScene, movements: dict[str, float]) -> dict[str, Any]:
    return {
        "index": settled.index,
        "bodies": sum(not body.is_fixed for body in settled.scene.bodies),
        "rejections": list(settled.rejections),
        "floating": list(list_floating(settled)),
        **movements,
    }


def _export_bodies(scene: Scene) -> list[dict[str, Any]]:
    """Return the bodies of a scene in an engine-independent form, in metres and kilograms."""
    return [
        {
            "name": body.name,
            "position_m": body.pose.position_m,
            "rotation_wxyz": body.pose.rotation_wxyz,
            "mass_kg": 0.0 if body.is_fixed else body.mass_kg,
            "friction": body.friction,
            "rolling_m": _get_rolling_friction_m(body),
            **_export_inertia(body),
            **_export_shape(body),
        }
        for body in scene.bodies
    ]


def _get_rolling_friction_m(body: Body) -> float:
    if isinstance(body.asset, Solid):
        return body.asset.rolling_friction_m
    return FILE_ROLLING_FRICTION_M


def _export_inertia(body: Body) -> dict[str, Any]:
    """Return centre of mass, principal axes and specific moments of inertia of a body.

    Simple shapes with a central centre of mass have no moments; every engine computes them.
    """
    balance = compute_inertial_frame(body)
    return {
        "center_m": balance.frame.position_m,
        "axes_wxyz": balance.frame.rotation_wxyz,
        "moments_m2": balance.specific_moments_m2,
    }


def _export_shape(body: Body) -> dict[str, Any]:
    """Return the collision shape of a body."""
    asset = body.asset
    if isinstance(asset, Ground):
        return {"kind": "plane", "half_m": [asset.side_m / 2] * 2 + [0.1]}
    if not isinstance(asset, Solid):
        assert isinstance(asset, MeshFile)
        return {
            "kind": "parts",
            "parts_m": [part.tolist() for part in build_collider(asset).parts],
        }
    parts = asset.build_collider()
    if asset.is_compound:
        return {"kind": "parts", "parts_m": [_compute_corners(part).tolist() for part in parts]}
    x, y, z = (side / 2 for side in parts[0].size_m)
    halves = {"box": [x, y, z], "cylinder": [x, z], "sphere": [x]}
    return {"kind": parts[0].geometry, "half_m": halves[parts[0].geometry]}


def _compute_corners(part: ConvexPart) -> np.ndarray:
    """Return the corners (n, 3) of a solid in the frame of the body; round shapes become prisms."""
    if part.geometry == "box":
        local = np.array(list(itertools.product((-0.5, 0.5), repeat=3))) * part.size_m
        return np.asarray(part.pose.apply(local))
    turns = np.linspace(0, 2 * math.pi, 24, endpoint=False)
    ring = part.size_m[0] / 2 * np.stack([np.cos(turns), np.sin(turns)], axis=1)
    half = part.size_m[2] / 2
    ends = [np.column_stack([ring, np.full(len(ring), z)]) for z in (-half, half)]
    return np.asarray(part.pose.apply(np.vstack(ends)))
