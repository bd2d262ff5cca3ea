"""Settled scenes, written for another engine, which lets them go again."""

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
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.pipeline.scene_sampling import SettledScene, simulate_scene
from sim2cam.render.physics.colliders import CollisionPart, build_collision_parts
from sim2cam.render.physics.contacts import build_support_graph
from sim2cam.render.physics.inertia import compute_inertial_frame
from sim2cam.render.physics.world import ROLLING_FRICTION_M
from sim2cam.scene.fasteners import Bolt, Nut
from sim2cam.scene.packages import Tin
from sim2cam.scene.scene import Body, Scene
from sim2cam.scene.shape import Cuboid, Cylinder, Die, Ground, MeshFile, Sphere
from sim2cam.scene.tubes import Tubes
from sim2cam.scene.twisty import TwistyCube

BLOCK = 50
"""Scenes of a unit of work."""


@dataclass(frozen=True)
class Block:
    """Some scenes of a recipe, settled and let go again.

    Attributes:
        recipe: name of a shipped recipe.
        seed: of the scenes.
        number: scenes from ``number * BLOCK`` on.
        python: interpreter that has MuJoCo.
        work: folder of the results, one file a block.
    """

    recipe: str
    seed: int
    number: int
    python: str
    work: Path

    @property
    def result(self) -> Path:
        """The file of what was found."""
        return self.work / f"{self.recipe}-{self.number:04d}.json"


def measure_block(block: Block) -> Path:
    """Return the file with what became of the scenes of a block; an earlier one is kept.

    Raises:
        SystemExit: the other engine failed.
    """
    if block.result.is_file():
        return block.result
    recipe, settled, starved = load_recipe(block.recipe), [], 0
    for index in range(block.number * BLOCK, (block.number + 1) * BLOCK):
        try:
            settled.append(simulate_scene(recipe, block.seed, index))
        except SceneError:
            starved += 1
    scenes = block.result.with_suffix(".scenes.json")
    write_json(scenes, {"scenes": [_neutral(one.scene) for one in settled]}, indented=False)
    told = block.result.with_suffix(".moved.json")
    ended = run(
        [block.python, "-m", "peers.mujoco_rest", str(scenes.resolve()), str(told.resolve())]
    )
    if ended.code != 0:
        raise SystemExit(f"MuJoCo could not let the scenes go:\n{ended.errors}")
    moved = json.loads(told.read_text(encoding="utf-8"))["scenes"]
    facts = [_facts(*pair) for pair in zip(settled, moved, strict=True)]
    write_json(block.result, {"starved": starved, "scenes": facts}, indented=False)
    scenes.unlink()
    told.unlink()
    return block.result


def floating(settled: SettledScene) -> tuple[str, ...]:
    """Return the bodies that nothing fixed carries, by way of whatever others."""
    supports = build_support_graph(settled.certificate.contacts)
    held = {body.name for body in settled.scene.bodies if body.is_fixed}
    while True:
        more = {name for name, by in supports.items() if held.intersection(by)} - held
        if not more:
            return tuple(b.name for b in settled.scene.bodies if b.name not in held)
        held |= more


def summary(blocks: list[Path]) -> dict[str, Any]:
    """Return the figures of all blocks together."""
    read = [json.loads(path.read_text(encoding="utf-8")) for path in blocks]
    scenes = [scene for block in read for scene in block["scenes"]]
    moved = np.array([scene["moved_m"] for scene in scenes])
    overlap = np.array([scene["overlap_m"] for scene in scenes])
    thrown: Counter[str] = Counter()
    for scene in scenes:
        thrown.update(scene["rejections"])
    return {
        "scenes": len(scenes),
        "starved": sum(block["starved"] for block in read),
        "bodies": sum(scene["bodies"] for scene in scenes),
        "rejected_share": thrown.total() / (thrown.total() + len(scenes)),
        "floating": sum(len(scene["floating"]) for scene in scenes),
        "moved_over_2_mm": int((moved > 2e-3).sum()),
        "moved_mm": _percentiles(1e3 * moved),
        "overlap_over_1_mm": int((overlap > 1e-3).sum()),
        "overlap_mm": _percentiles(1e3 * overlap),
    }


def _percentiles(values: np.ndarray) -> dict[str, float]:
    median, high, highest = np.percentile(values, [50, 99, 100])
    return {"median": float(median), "p99": float(high), "max": float(highest)}


def _facts(settled: SettledScene, moved: dict[str, float]) -> dict[str, Any]:
    return {
        "index": settled.index,
        "bodies": sum(not body.is_fixed for body in settled.scene.bodies),
        "rejections": list(settled.rejections),
        "floating": list(floating(settled)),
        **moved,
    }


def _neutral(scene: Scene) -> list[dict[str, Any]]:
    """Return the bodies of a scene as any engine can take them, metres and kilograms."""
    return [
        {
            "name": body.name,
            "position_m": body.pose.position_m,
            "rotation_wxyz": body.pose.rotation_wxyz,
            "mass_kg": 0.0 if body.is_fixed else body.mass_kg,
            "friction": body.friction,
            "rolling_m": ROLLING_FRICTION_M.get(body.asset.kind, 0.0),
            **_balance(body),
            **_shape(body),
        }
        for body in scene.bodies
    ]


def _balance(body: Body) -> dict[str, Any]:
    """Return where the mass of a body lies in its frame, its principal axes, and its moments about
    them over its mass; no moments of a simple shape about its middle, which every engine knows.
    """
    balance = compute_inertial_frame(body)
    return {
        "center_m": balance.frame.position_m,
        "axes_wxyz": balance.frame.rotation_wxyz,
        "moments_m2": balance.specific_moments_m2,
    }


def _shape(body: Body) -> dict[str, Any]:
    """Return what a body collides as."""
    match body.asset:
        case Die():
            shape: dict[str, Any] = {"kind": "box", "half_m": [body.asset.edge_m / 2] * 3}
        case Sphere():
            shape = {"kind": "sphere", "half_m": [body.asset.radius_m]}
        case Cylinder() | Tin():
            shape = {"kind": "cylinder", "half_m": [body.asset.radius_m, body.asset.height_m / 2]}
        case Ground():
            shape = {"kind": "plane", "half_m": [body.asset.side_m / 2] * 2 + [0.1]}
        case MeshFile():
            parts = [part.tolist() for part in build_collider(body.asset).parts]
            shape = {"kind": "parts", "parts_m": parts}
        case TwistyCube() | Bolt() | Nut() | Tubes():
            corners = [_corners(part).tolist() for part in build_collision_parts(body.asset)]
            shape = {"kind": "parts", "parts_m": corners}
        case _:
            shape = {"kind": "box", "half_m": [side / 2 for side in body.asset.size_m]}
    return shape


def _corners(part: CollisionPart) -> np.ndarray:
    """Return corners (n, 3) of a solid in the frame of the whole; what is round has flat sides."""
    if isinstance(part.shape, Cuboid):
        local = np.array(list(itertools.product((-0.5, 0.5), repeat=3))) * part.shape.size_m
        return part.pose.apply(local)
    turns = np.linspace(0, 2 * math.pi, 24, endpoint=False)
    ring = part.shape.radius_m * np.stack([np.cos(turns), np.sin(turns)], axis=1)
    half = part.shape.height_m / 2
    ends = [np.column_stack([ring, np.full(len(ring), z)]) for z in (-half, half)]
    return part.pose.apply(np.vstack(ends))
