"""pyrender's ``OffscreenRenderer`` on one scene that is kept between frames."""

from __future__ import annotations

import os

os.environ["PYOPENGL_PLATFORM"] = "egl"
os.environ.setdefault("PYGLET_HEADLESS", "1")

from typing import Any

import numpy as np

from peers import measure

CURE = 'pip install "numpy<2" pyrender==0.1.45'


def main() -> None:
    """Time colour and depth, without and with ids."""
    arguments = measure.parse_arguments()
    if not hasattr(np, "infty"):  # pyrender needs this name of NumPy 1
        vars(np)["infty"] = np.inf
    pyrender = measure.require_module("pyrender", CURE)
    tabletop = measure.read_tabletop(arguments.folder)
    scene, nodes = _make_scene(pyrender, tabletop)
    renderer = pyrender.OffscreenRenderer(tabletop.width, tabletop.height)
    shadows = pyrender.RenderFlags.SHADOWS_DIRECTIONAL
    colors = {node: (number, 0, 0) for number, node in enumerate(nodes, 1)}

    def render_color(frame: int) -> Any:
        for body, node in enumerate(nodes):
            scene.set_pose(node, tabletop.pose(frame, body))
        return renderer.render(scene, flags=shadows)

    def render_with_ids(frame: int) -> Any:
        buffers = render_color(frame)
        return *buffers, renderer.render(
            scene, flags=pyrender.RenderFlags.SEG, seg_node_map=colors
        )[0]

    rgb, depth_m, ids = render_with_ids(0)
    before = measure.resident_mb()
    timings = [
        measure.time_frames("RGB, depth", render_color, arguments),
        measure.time_frames("RGB, depth, ids", render_with_ids, arguments),
    ]
    image = measure.RenderedImage(rgb, depth_m, ids[..., 0].astype(np.int64))
    version = measure.get_version("pyrender", "scikit-robot-pyrender")
    measure.report(arguments, version, timings, image, before)


def _make_scene(pyrender: Any, tabletop: measure.Tabletop) -> tuple[Any, list[Any]]:
    """Return the scene and the node of each body."""
    scene = pyrender.Scene(ambient_light=tabletop.sky, bg_color=(*tabletop.sky, 1.0))
    nodes = [
        scene.add(_make_mesh(pyrender, body), pose=tabletop.pose(0, i))
        for i, body in enumerate(tabletop.bodies)
    ]
    f, middle = tabletop.focal_px, (tabletop.width / 2, tabletop.height / 2)
    camera = pyrender.IntrinsicsCamera(f, f, *middle, znear=0.02, zfar=20.0)
    scene.add(camera, pose=tabletop.camera @ measure.OPENGL_FROM_OPENCV)
    strength = float(tabletop.irradiance.max())
    light = pyrender.DirectionalLight(tabletop.irradiance / strength, strength)
    scene.add(light, pose=_orient_light(tabletop.to_light))
    return scene, nodes


def _make_mesh(pyrender: Any, body: measure.Body) -> Any:
    repeat = 10497  # OpenGL's GL_REPEAT
    sampler = pyrender.Sampler(wrapS=repeat, wrapT=repeat)
    texture = pyrender.Texture(source=body.pixels, source_channels="RGB", sampler=sampler)
    material = pyrender.MetallicRoughnessMaterial(
        baseColorTexture=texture, roughnessFactor=body.roughness, metallicFactor=0.0
    )
    primitive = pyrender.Primitive(
        positions=body.vertices_m.astype(np.float32),
        normals=body.normals.astype(np.float32),
        texcoord_0=body.uvs.astype(np.float32),
        indices=body.faces.astype(np.uint32),
        material=material,
    )
    return pyrender.Mesh([primitive])


def _orient_light(to_light: measure.Floats) -> measure.Floats:
    """Return the pose (4, 4) of a light whose z axis points towards the light."""
    side = np.cross([0.0, 0.0, 1.0], to_light)
    side /= np.linalg.norm(side)
    pose = np.eye(4)
    pose[:3, :3] = np.stack([side, np.cross(to_light, side), to_light], axis=1)
    pose[:3, 3] = to_light
    return pose


if __name__ == "__main__":
    main()
