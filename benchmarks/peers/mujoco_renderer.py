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
    """Time colour with depth, and all three passes."""
    arguments = measure.parse_arguments()
    mujoco = measure.require_module("mujoco", CURE)
    tabletop = measure.read_tabletop(arguments.folder)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "scene.xml").write_text(
            _make_model(tabletop, Path(folder)), encoding="utf-8"
        )
        model = mujoco.MjModel.from_xml_path(str(Path(folder) / "scene.xml"))
    data = mujoco.MjData(model)
    renderer = mujoco.Renderer(model, tabletop.height, tabletop.width)

    def render_color(frame: int) -> Any:
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

    def render_with_ids(frame: int) -> Any:
        buffers = render_color(frame)
        renderer.enable_segmentation_rendering()
        ids = renderer.render()
        renderer.disable_segmentation_rendering()
        return *buffers, ids

    rgb, depth_m, ids = render_with_ids(0)
    before = measure.resident_mb()
    timings = [
        measure.time_frames("RGB, depth", render_color, arguments),
        measure.time_frames("RGB, depth, ids", render_with_ids, arguments),
    ]
    image = measure.RenderedImage(rgb, depth_m, ids[..., 0].astype(np.int64) + 1)
    measure.report(arguments, measure.get_version("mujoco"), timings, image, before)


def _make_model(tabletop: measure.Tabletop, folder: Path) -> str:
    """Return the scene as MJCF with mocap bodies."""
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
    direction = -tabletop.to_light
    Xml.SubElement(
        world, "light", type="directional", castshadow="true", dir=_format_numbers(direction),
        pos=_format_numbers(tabletop.to_light), ambient="0 0 0", diffuse="0.6 0.6 0.6", specular="0.1 0.1 0.1",
    )  # fmt: skip
    axes = (tabletop.camera @ measure.OPENGL_FROM_OPENCV)[:3, :2].T
    Xml.SubElement(
        world,
        "camera",
        pos=_format_numbers(tabletop.camera[:3, 3]),
        fovy=str(fovy_deg),
        xyaxes=_format_numbers(axes),
    )
    for index, body in enumerate(tabletop.bodies):
        measure.write_obj(folder / f"{index}.obj", body)
        _add_body(assets, world, index, body)
    return Xml.tostring(root, encoding="unicode")


def _add_body(assets: Xml.Element, world: Xml.Element, index: int, body: measure.Body) -> None:
    """Add mesh, texture and mocap frame of a body."""
    name = f"body{index}"
    inertia = "shell" if index == 0 else "convex"  # the table has no volume
    Xml.SubElement(assets, "mesh", name=name, file=f"{index}.obj", inertia=inertia)
    Xml.SubElement(assets, "texture", name=name, type="2d", file=str(body.texture.resolve()))
    Xml.SubElement(assets, "material", name=name, texture=name, specular="0.3", shininess="0.3")
    moved = Xml.SubElement(world, "body", name=name, mocap="true")
    Xml.SubElement(
        moved, "geom", type="mesh", mesh=name, material=name, contype="0", conaffinity="0"
    )


def _format_numbers(values: measure.Floats) -> str:
    return " ".join(f"{v:.9g}" for v in np.ravel(values))


if __name__ == "__main__":
    main()
