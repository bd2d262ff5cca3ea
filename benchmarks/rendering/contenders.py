"""The renderers that are compared, each in a process of its own."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from peers.measure import NOT_INSTALLED

from rendering.commands import run
from rendering.spread import spread


@dataclass(frozen=True)
class Contender:
    """A renderer.

    Attributes:
        name: in tables.
        program: among the peers.
        lacks: of what a camera would see, and of ground truth.
        is_slow: draws seconds a frame.
    """

    name: str
    program: str
    lacks: str
    is_slow: bool = False


SIM2CAM = Contender(
    "sim2cam", "sim2cam_rasterizer",
    "light that goes from object to object; soft shadows are a few hard ones, steps between them show",
)  # fmt: skip
CONTENDERS = (
    SIM2CAM,
    Contender(
        "pyrender", "pyrender_stock",
        "light from all around (its ambient light has no shadows, even under objects); colour and "
        "depth are multisampled and ids are not, so they differ at silhouettes; no normals, parts, "
        "object coordinates or hidden parts",
    ),
    Contender(
        "pybullet TinyRenderer", "tiny",
        "anti-aliasing, texture filtering, linear light, highlights; shadows are faint and of one "
        "light; no normals, parts, object coordinates or hidden parts",
    ),
    Contender(
        "MuJoCo", "mujoco_renderer",
        "light from all around, linear light, soft shadows; colour is multisampled and depth and "
        "ids are not; no normals, parts, object coordinates or hidden parts",
    ),
    Contender(
        "Blender Cycles, 16 samples", "cycles",
        "nothing of the light but quiet: 16 paths a pixel are noisy; no parts, object coordinates "
        "or hidden parts in these passes",
        is_slow=True,
    ),
)  # fmt: skip


def contest(
    contender: Contender, python: str, tabletop: Path, out: Path, *, frames: int, warm: int
) -> dict[str, Any]:
    """Return how a renderer did on a tabletop, as JSON has it; or why it did not run.

    Args:
        contender: the renderer.
        python: the interpreter that it runs with.
        tabletop: folder of the exported scene.
        out: folder for its report and picture.
        frames, warm: that are timed, and drawn before.
    """
    counts = ["--frames", str(frames), "--warm", str(warm)]
    places = [str(folder.resolve()) for folder in (tabletop, out)]
    ended = run([python, "-m", f"peers.{contender.program}", *places, *counts])
    facts = {"name": contender.name, "lacks": contender.lacks}
    if ended.code == NOT_INSTALLED:
        return facts | {"state": "not installed", "cure": ended.errors.splitlines()[0]}
    if ended.code != 0:
        lines = ended.errors.strip().splitlines() or [f"exit code {ended.code}"]
        return facts | {"state": "failed", "error": lines[-1]}
    found = json.loads((out / "report.json").read_text(encoding="utf-8"))
    timings = [
        {
            "what": timing["what"],
            "cpu_ms": asdict(spread(timing["cpu_ms"])),
            "wall_ms": asdict(spread(timing["wall_ms"])),
        }
        for timing in found["timings"]
    ]
    return facts | {"state": "ran", **found, "timings": timings}


def agreement(reference: Path, other: Path) -> dict[str, float] | None:
    """Return how well a renderer's ids and depth agree with those of another, frame 0 of both.

    That is the share of pixels with the same body and the median difference of depth on these, mm.

    Args:
        reference, other: folders with pictures.
    """
    with np.load(reference / "picture.npz") as ours, np.load(other / "picture.npz") as theirs:
        if "bodies" not in theirs or "depth_m" not in theirs:
            return None
        same = ours["bodies"] == theirs["bodies"]
        apart_mm = 1e3 * np.abs(ours["depth_m"] - theirs["depth_m"])[same]
    return {"ids": float(same.mean()), "depth_mm": float(np.median(apart_mm))}


def picture(out: Path) -> NDArray[np.uint8]:
    """Return the colours (h, w, 3) of the picture in a renderer's folder."""
    with np.load(out / "picture.npz") as planes:
        return np.asarray(planes["rgb"], np.uint8)


def channel_costs(result: dict[str, Any]) -> dict[str, Any]:
    """Return the CPU-milliseconds that shadow maps and each channel of sim2cam's add to a frame.

    Args:
        result: of ``contest``.
    """
    times = {timing["what"]: timing["cpu_ms"] for timing in result.get("timings", [])}
    costs = {"shadow maps": times["shadow maps"]} if "shadow maps" in times else {}
    prefix = "channel: "
    return costs | {w.removeprefix(prefix): ms for w, ms in times.items() if w.startswith(prefix)}
