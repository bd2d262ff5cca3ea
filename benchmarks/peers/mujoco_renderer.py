"""MuJoCo's ``Renderer``: colour, depth and segmentation in three passes."""

from __future__ import annotations

import math
import os

os.environ.setdefault("MUJOCO_GL", "egl")

import tempfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import numpy as np

from peers import measure

CURE = "pip install mujoco"


def main() -> None:
    """Time the three passes together, and colour with depth."""
    asked = measure.arguments()
    mujoco = measure.required("mujoco", CURE)
    tabletop = measure.read_tabletop(asked.folder)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "scene.xml").write_text(_model(tabletop, Path(folder)), encoding="utf-8")
        model = mujoco.MjModel.from_xml_path(str(Path(folder) / "scene.xml"))
    data = mujoco.MjData(model)
    renderer = mujoco.Renderer(model, tabletop.height, tabletop.width)

    def colour(frame: int) -> Any:
        for body in range(len(tabletop.bodies)):
            pose = tabletop.pose(frame, body)
            data.mocap_pos[body] = pose[:3, 3]
            mujoco.mju_mat2Quat(data.mocap_quat[body], pose[:3, :3].ravel())
        mujoco.mj_kinematics(model, data)
        mujoco.mj_camlight(model, data)
        renderer.update_scene(data, camera=0)
        rgb = renderer.render()
        renderer.enable_depth_rendering()
        depth_m = renderer.render()
        renderer.disable_depth_rendering()
        return rgb, depth_m

    def with_ids(frame: int) -> Any:
        seen = colour(frame)
        renderer.enable_segmentation_rendering()
        ids = renderer.render()
        renderer.disable_segmentation_rendering()
        return *seen, ids

    rgb, depth_m, ids = with_ids(0)
    before = measure.resident_mb()
    timings = [
        measure.timed("RGB, depth", colour, asked),
        measure.timed("RGB, depth, ids", with_ids, asked),
    ]
    picture = measure.Picture(rgb, depth_m, ids[..., 0].astype(np.int64) + 1)
    measure.report(asked, measure.version_of("mujoco"), timings, picture, before)


def _model(tabletop: measure.Tabletop, folder: Path) -> str:
    """Return the model as MJCF, every body one that is moved from outside."""
    root = Xml.Element("mujoco")
    visual = Xml.SubElement(root, "visual")
    size = {"offwidth": str(tabletop.width), "offheight": str(tabletop.height)}
    fovy_deg = math.degrees(2 * math.atan(tabletop.height / 2 / tabletop.focal_px))
    Xml.SubElement(visual, "global", size)
    Xml.SubElement(visual, "quality", shadowsize="2048", offsamples="4")
    Xml.SubElement(visual, "headlight", ambient="0.4 0.4 0.4", diffuse="0 0 0", specular="0 0 0")
    Xml.SubElement(visual, "map", znear="0.05", zfar="20")
    Xml.SubElement(root, "statistic", extent="1", center="0 0 0")
    assets, world = Xml.SubElement(root, "asset"), Xml.SubElement(root, "worldbody")
    towards = -tabletop.to_light
    Xml.SubElement(
        world, "light", type="directional", castshadow="true", dir=_text(towards),
        pos=_text(tabletop.to_light), ambient="0 0 0", diffuse="0.6 0.6 0.6", specular="0.1 0.1 0.1",
    )  # fmt: skip
    axes = (tabletop.camera @ measure.OPENGL_FROM_OPENCV)[:3, :2].T
    Xml.SubElement(
        world, "camera", pos=_text(tabletop.camera[:3, 3]), fovy=str(fovy_deg), xyaxes=_text(axes)
    )
    for index, body in enumerate(tabletop.bodies):
        measure.write_obj(folder / f"{index}.obj", body)
        _add(assets, world, index, body)
    return Xml.tostring(root, encoding="unicode")


def _add(assets: Xml.Element, world: Xml.Element, index: int, body: measure.Body) -> None:
    """Add a body: its mesh, its picture, and the frame that moves it."""
    name = f"body{index}"
    inertia = "shell" if index == 0 else "convex"  # the table has no volume
    Xml.SubElement(assets, "mesh", name=name, file=f"{index}.obj", inertia=inertia)
    Xml.SubElement(assets, "texture", name=name, type="2d", file=str(body.picture.resolve()))
    Xml.SubElement(assets, "material", name=name, texture=name, specular="0.3", shininess="0.3")
    moved = Xml.SubElement(world, "body", name=name, mocap="true")
    Xml.SubElement(
        moved, "geom", type="mesh", mesh=name, material=name, contype="0", conaffinity="0"
    )


def _text(values: measure.Floats) -> str:
    return " ".join(f"{v:.9g}" for v in np.ravel(values))


if __name__ == "__main__":
    main()
