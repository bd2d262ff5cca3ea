"""Compared renderers, each run in a separate process."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from peers.measure import NOT_INSTALLED

from rendering.commands import run
from rendering.spread import compute_spread


@dataclass(frozen=True)
class Renderer:
    """A renderer.

    Attributes:
        name: name in tables.
        program: module in ``peers``.
        is_slow: whether a frame takes seconds.
    """

    name: str
    program: str
    is_slow: bool = False


SIM2CAM = Renderer("sim2cam", "sim2cam_rasterizer")
RENDERERS = (
    SIM2CAM,
    Renderer("pyrender", "pyrender_stock"),
    Renderer("pybullet TinyRenderer", "tiny"),
    Renderer("MuJoCo", "mujoco_renderer"),
    Renderer("Blender Cycles, 16 samples", "cycles", is_slow=True),
)


def benchmark_renderer(
    renderer: Renderer, python: str, tabletop: Path, out: Path, *, frames: int, warm: int
) -> dict[str, Any]:
    """Run a renderer on a tabletop and return its report, or the reason why it did not run.

    Args:
        renderer: the renderer.
        python: Python interpreter of the renderer.
        tabletop: folder of the exported scene.
        out: folder of report and image.
        frames, warm: numbers of timed and warm-up frames.
    """
    counts = ["--frames", str(frames), "--warm", str(warm)]
    places = [str(folder.resolve()) for folder in (tabletop, out)]
    process = run([python, "-m", f"peers.{renderer.program}", *places, *counts])
    facts = {"name": renderer.name}
    if process.code == NOT_INSTALLED:
        return facts | {"state": "not installed", "cure": process.errors.splitlines()[0]}
    if process.code != 0:
        lines = process.errors.strip().splitlines() or [f"exit code {process.code}"]
        return facts | {"state": "failed", "error": lines[-1]}
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    timings = [
        {
            "what": timing["what"],
            "cpu_ms": asdict(compute_spread(timing["cpu_ms"])),
            "wall_ms": asdict(compute_spread(timing["wall_ms"])),
        }
        for timing in report["timings"]
    ]
    return facts | {"state": "ran", **report, "timings": timings}


def compute_agreement(reference: Path, other: Path) -> dict[str, float] | None:
    """Compare ids and depth of two renderers in frame 0.

    Args:
        reference, other: folders of the images.

    Returns:
        ``ids``: share of pixels with the same body; ``depth_mm``: median absolute depth difference of these
        pixels. None if depth or ids are missing.
    """
    with np.load(reference / "image.npz") as ours, np.load(other / "image.npz") as theirs:
        if "bodies" not in theirs or "depth_m" not in theirs:
            return None
        same = ours["bodies"] == theirs["bodies"]
        difference_mm = 1e3 * np.abs(ours["depth_m"] - theirs["depth_m"])[same]
    return {"ids": float(same.mean()), "depth_mm": float(np.median(difference_mm))}


def read_image(out: Path) -> NDArray[np.uint8]:
    """Return the image (h, w, 3) in a renderer's folder."""
    with np.load(out / "image.npz") as planes:
        return np.asarray(planes["rgb"], np.uint8)


def get_channel_costs(result: dict[str, Any]) -> dict[str, Any]:
    """Return the CPU milliseconds that shadow maps and each channel of sim2cam add to a frame.

    Args:
        result: result of ``benchmark_renderer``.
    """
    times = {timing["what"]: timing["cpu_ms"] for timing in result.get("timings", [])}
    costs = {"shadow maps": times["shadow maps"]} if "shadow maps" in times else {}
    prefix = "channel: "
    return costs | {w.removeprefix(prefix): ms for w, ms in times.items() if w.startswith(prefix)}
