"""Simulation of settled scenes in MuJoCo for a second, to test whether they are at rest.

    PYTHON -m peers.mujoco_rest SCENES.json OUT.json

``SCENES.json`` holds bodies as exported by ``settled/rest.py``. ``OUT.json`` gets two values per scene in
metres: the maximum displacement of a centre of mass (``moved_m``), and the maximum overlap of two bodies
at the start (``overlap_m``).
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
    """Simulate every scene."""
    mujoco = measure.require_module("mujoco", CURE)
    bodies = json.loads(Path(scenes).read_text(encoding="utf-8"))["scenes"]
    results = [simulate_adaptively(mujoco, scene) for scene in bodies]
    Path(out).write_text(json.dumps({"scenes": results}), encoding="utf-8")


def simulate_adaptively(mujoco: Any, bodies: list[dict[str, Any]]) -> dict[str, float]:
    """Simulate with decreasing time steps until nothing moves, or with the shortest step.

    Bodies on slopes or edges creep by a few millimetres per second. The speed is constant and halves with the
    softness of contacts, whose lower limit is the time step: an artefact of the engine. Bodies that fall or
    slide do so with any step.
    """
    for step_s in STEPS_S:
        result = simulate(mujoco, bodies, step_s)
        if result["moved_m"] < STILL_M:
            break
    return result


def simulate(mujoco: Any, bodies: list[dict[str, Any]], step_s: float) -> dict[str, float]:
    """Return the maximum displacement and initial overlap of the bodies of a scene."""
    model = mujoco.MjModel.from_xml_string(_make_model(bodies, step_s))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    overlap = max((-float(contact.dist) for contact in data.contact), default=0.0)
    start = data.xipos.copy()
    for _ in range(round(SECONDS / step_s)):
        mujoco.mj_step(model, data)
    displacement = float(np.linalg.norm(data.xipos - start, axis=1).max())
    if not math.isfinite(displacement):
        displacement = 1e3
    return {"moved_m": displacement, "overlap_m": max(overlap, 0.0)}


def _make_model(bodies: list[dict[str, Any]], step_s: float) -> str:
    """Return a scene as MJCF.

    Elliptic cones with a high friction weight keep bodies from creeping down slopes on MuJoCo's soft contacts;
    too few no-slip iterations increase creep. Bullet multiplies the frictions of two bodies, MuJoCo takes the
    maximum; moving bodies therefore get their own friction times that of the table.
    """
    root = Xml.Element("mujoco")
    Xml.SubElement(root, "compiler", angle="radian", inertiafromgeom="auto")
    option = Xml.SubElement(
        root, "option", timestep=str(step_s), cone="elliptic", impratio="20", noslip_iterations="30"
    )
    Xml.SubElement(option, "flag", multiccd="enable")  # with one contact point, hulls rock
    assets, world = Xml.SubElement(root, "asset"), Xml.SubElement(root, "worldbody")
    table = next((body["friction"] for body in bodies if body["kind"] == "plane"), 1.0)
    for number, body in enumerate(bodies):
        frame = Xml.SubElement(
            world,
            "body",
            pos=_format_numbers(body["position_m"]),
            quat=_format_numbers(body["rotation_wxyz"]),
        )
        if body["mass_kg"]:
            Xml.SubElement(frame, "freejoint")
            _add_mass(frame, body)
        table_friction = table if body["mass_kg"] else 0.0
        sliding, rolling = body["friction"] * table_friction, body["rolling_m"] * table_friction
        _add_geoms(
            assets, frame, number, body, f"{sliding:.9g} {rolling:.9g} {rolling:.9g}", step_s
        )
    return Xml.tostring(root, encoding="unicode")


def _add_mass(frame: Xml.Element, body: dict[str, Any]) -> None:
    """Add the inertia of a body, if it differs from that of its geom."""
    if body["moments_m2"] is None:
        return
    moments = body["mass_kg"] * np.array(body["moments_m2"])
    largest = moments.argmax()  # rounding: flat bodies violate the triangle inequality
    moments[largest] = min(moments[largest], np.delete(moments, largest).sum())
    Xml.SubElement(
        frame, "inertial", mass=repr(body["mass_kg"]), pos=_format_numbers(body["center_m"]),
        quat=_format_numbers(body["axes_wxyz"]), diaginertia=" ".join(map(repr, moments.tolist())),
    )  # fmt: skip


def _add_geoms(
    assets: Xml.Element,
    frame: Xml.Element,
    number: int,
    body: dict[str, Any],
    friction: str,
    step_s: float,
) -> None:
    """Add the collision shapes of a body; ``friction`` is sliding, and torsional and rolling in metres."""
    parts = body.get("parts_m", [])
    contact = {"friction": friction, "condim": "6", "solref": f"{2 * step_s:.9g} 1"}
    if body["mass_kg"]:
        contact["mass"] = f"{body['mass_kg'] / max(len(parts), 1):.9g}"
    if body["kind"] == "plane":  # a box, because upright cylinders sink 10 mm into planes
        below = f"0 0 {-body['half_m'][2]:.9g}"
        Xml.SubElement(
            frame, "geom", contact, type="box", size=_format_numbers(body["half_m"]), pos=below
        )
    elif not parts:
        Xml.SubElement(
            frame, "geom", contact, type=body["kind"], size=_format_numbers(body["half_m"])
        )
    for index, part in enumerate(parts):
        name = f"{number}-{index}"
        Xml.SubElement(assets, "mesh", name=name, vertex=_format_numbers(part), inertia="convex")
        Xml.SubElement(frame, "geom", contact, type="mesh", mesh=name)


def _format_numbers(values: Any) -> str:
    return " ".join(f"{v:.9g}" for v in np.ravel(values))


if __name__ == "__main__":
    main(*sys.argv[1:])
