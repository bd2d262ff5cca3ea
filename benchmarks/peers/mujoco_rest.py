"""Lets settled scenes go again in MuJoCo for a second: what moves did not lie still.

    PYTHON -m peers.mujoco_rest SCENES.json OUT.json

``SCENES.json`` holds bodies as ``settled/rest.py`` writes them. ``OUT.json`` gets, for each scene, how
far the middle of a body's mass moved at most (``moved_m``), and how deep two bodies overlap at most
before anything moves (``overlap_m``), both in metres.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import numpy as np

from peers import measure

SECONDS = 1.0
STEPS_S = (1e-3, 2.5e-4, 6.25e-5)
STILL_M = 1e-3
CURE = "pip install mujoco"


def main(scenes: str, out: str) -> None:
    """Let every scene go."""
    mujoco = measure.required("mujoco", CURE)
    bodies = json.loads(Path(scenes).read_text(encoding="utf-8"))["scenes"]
    moved = [let_go_finely(mujoco, scene) for scene in bodies]
    Path(out).write_text(json.dumps({"scenes": moved}), encoding="utf-8")


def let_go_finely(mujoco: Any, bodies: list[dict[str, Any]]) -> dict[str, float]:
    """Return what ``let_go`` finds with steps so short that nothing moves, or with the shortest.

    Bodies on slopes or edges creep along them by a few millimetres a second, at an even speed that halves
    with the softness of contacts, which is as short as steps let it be: that is no motion of theirs. What
    falls or slides does so at any step.
    """
    for step_s in STEPS_S:
        found = let_go(mujoco, bodies, step_s)
        if found["moved_m"] < STILL_M:
            break
    return found


def let_go(mujoco: Any, bodies: list[dict[str, Any]], step_s: float) -> dict[str, float]:
    """Return how far the bodies of a scene move, and how deep they overlap at first."""
    model = mujoco.MjModel.from_xml_string(_model(bodies, step_s))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    overlap = max((-float(contact.dist) for contact in data.contact), default=0.0)
    start = data.xipos.copy()
    for _ in range(round(SECONDS / step_s)):
        mujoco.mj_step(model, data)
    moved = float(np.linalg.norm(data.xipos - start, axis=1).max())
    if not math.isfinite(moved):
        moved = 1e3
    return {"moved_m": moved, "overlap_m": max(overlap, 0.0)}


def _model(bodies: list[dict[str, Any]], step_s: float) -> str:
    """Return a scene as MJCF.

    Elliptic cones with much weight on friction keep bodies from creeping down slopes, which MuJoCo's
    soft contacts otherwise do; with few iterations against slip they creep more than with none. Two bodies rub by the product of their frictions where they were
    settled, and by the greater one here: what moves is given its own times the table's.
    """
    root = Xml.Element("mujoco")
    Xml.SubElement(root, "compiler", angle="radian", inertiafromgeom="auto")
    option = Xml.SubElement(
        root, "option", timestep=str(step_s), cone="elliptic", impratio="20", noslip_iterations="30"
    )
    Xml.SubElement(option, "flag", multiccd="enable")  # else hulls touch in one point and rock
    assets, world = Xml.SubElement(root, "asset"), Xml.SubElement(root, "worldbody")
    table = next((body["friction"] for body in bodies if body["kind"] == "plane"), 1.0)
    for number, body in enumerate(bodies):
        frame = Xml.SubElement(
            world, "body", pos=_text(body["position_m"]), quat=_text(body["rotation_wxyz"])
        )
        if body["mass_kg"]:
            Xml.SubElement(frame, "freejoint")
            _add_mass(frame, body)
        rubs = table if body["mass_kg"] else 0.0
        slides, rolls = body["friction"] * rubs, body["rolling_m"] * rubs
        _add_geoms(assets, frame, number, body, f"{slides:.9g} {rolls:.9g} {rolls:.9g}", step_s)
    return Xml.tostring(root, encoding="unicode")


def _add_mass(frame: Xml.Element, body: dict[str, Any]) -> None:
    """Add how the mass of a body is spread, where it is not that of one geom."""
    if body["moments_m2"] is None:
        return
    moments = body["mass_kg"] * np.array(body["moments_m2"])
    most = moments.argmax()  # the sum of the others in what is flat, but for rounding
    moments[most] = min(moments[most], np.delete(moments, most).sum())
    Xml.SubElement(
        frame, "inertial", mass=repr(body["mass_kg"]), pos=_text(body["center_m"]),
        quat=_text(body["axes_wxyz"]), diaginertia=" ".join(map(repr, moments.tolist())),
    )  # fmt: skip


def _add_geoms(
    assets: Xml.Element,
    frame: Xml.Element,
    number: int,
    body: dict[str, Any],
    friction: str,
    step_s: float,
) -> None:
    """Add what a body collides as; friction is that of sliding, and of spinning and rolling in m."""
    parts = body.get("parts_m", [])
    touch = {"friction": friction, "condim": "6", "solref": f"{2 * step_s:.9g} 1"}
    if body["mass_kg"]:
        touch["mass"] = f"{body['mass_kg'] / max(len(parts), 1):.9g}"
    if body["kind"] == "plane":  # as a box: cylinders upright on MuJoCo's planes touch 10 mm below
        below = f"0 0 {-body['half_m'][2]:.9g}"
        Xml.SubElement(frame, "geom", touch, type="box", size=_text(body["half_m"]), pos=below)
    elif not parts:
        Xml.SubElement(frame, "geom", touch, type=body["kind"], size=_text(body["half_m"]))
    for index, part in enumerate(parts):
        name = f"{number}-{index}"
        Xml.SubElement(assets, "mesh", name=name, vertex=_text(part), inertia="convex")
        Xml.SubElement(frame, "geom", touch, type="mesh", mesh=name)


def _text(values: Any) -> str:
    return " ".join(f"{v:.9g}" for v in np.ravel(values))


if __name__ == "__main__":
    main(*sys.argv[1:])
