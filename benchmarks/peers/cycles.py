"""Blender's Cycles with ``bpy``: 16 samples per pixel, depth and object index, written as EXR."""

from __future__ import annotations

import math
import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peers import measure

CURE = 'pip install "bpy==4.5.*"'
SAMPLES = 16


def main() -> None:
    """Time frames of a scene that stays loaded."""
    arguments = measure.parse_arguments()
    bpy = measure.require_module("bpy", CURE)
    tabletop = measure.read_tabletop(arguments.folder)
    bpy.ops.wm.read_factory_settings(use_empty=True)
    objects = [_make_object(bpy, i, body) for i, body in enumerate(tabletop.bodies)]
    _add_light(bpy, tabletop)
    _add_camera(bpy, tabletop)
    with tempfile.TemporaryDirectory() as folder:
        _configure(bpy, tabletop, Path(folder) / "frame.exr")

        def render(frame: int) -> Any:
            for body, placed in enumerate(objects):
                placed.matrix_world = _columns(tabletop.pose(frame, body))
            bpy.ops.render.render(write_still=True)

        render(0)
        image = _read_image(Path(folder) / "frame.exr")
        before = measure.resident_mb()
        timings = [measure.time_frames("RGB, depth, ids", render, arguments)]
    version = f"Blender {bpy.app.version_string}, Cycles, {SAMPLES} samples"
    measure.report(arguments, version, timings, image, before)


def _make_object(bpy: Any, index: int, body: measure.Body) -> Any:
    mesh = bpy.data.meshes.new(f"body{index}")
    mesh.from_pydata(body.vertices_m.tolist(), [], body.faces.tolist())
    mesh.shade_smooth()
    mesh.normals_split_custom_set_from_vertices(body.normals.tolist())
    layer = mesh.uv_layers.new(name="uv")
    layer.data.foreach_set("uv", body.uvs[body.faces].astype(np.float32).ravel())
    mesh.materials.append(_make_material(bpy, index, body))
    placed = bpy.data.objects.new(f"body{index}", mesh)
    placed.pass_index = index + 1
    bpy.context.scene.collection.objects.link(placed)
    return placed


def _make_material(bpy: Any, index: int, body: measure.Body) -> Any:
    material = bpy.data.materials.new(f"body{index}")
    material.use_nodes = True
    nodes, links = material.node_tree.nodes, material.node_tree.links
    surface = next(node for node in nodes if node.type == "BSDF_PRINCIPLED")
    surface.inputs["Roughness"].default_value = body.roughness
    surface.inputs["Specular IOR Level"].default_value = body.specular / 0.08
    texture = nodes.new("ShaderNodeTexImage")
    texture.image = bpy.data.images.load(str(body.texture))
    links.new(texture.outputs["Color"], surface.inputs["Base Color"])
    return material


def _add_light(bpy: Any, tabletop: measure.Tabletop) -> None:
    strength = float(tabletop.irradiance.max())
    sun = bpy.data.lights.new("sun", "SUN")
    sun.energy, sun.color = strength, (tabletop.irradiance / strength).tolist()
    sun.angle = 2 * tabletop.light_radius_rad
    placed = bpy.data.objects.new("sun", sun)
    x, y, z = tabletop.to_light
    placed.rotation_euler = (0, math.acos(z), math.atan2(y, x))
    bpy.context.scene.collection.objects.link(placed)
    world = bpy.data.worlds.new("sky")
    world.use_nodes = True
    sky = next(node for node in world.node_tree.nodes if node.type == "BACKGROUND")
    sky.inputs["Color"].default_value = (*tabletop.sky.tolist(), 1.0)
    bpy.context.scene.world = world


def _add_camera(bpy: Any, tabletop: measure.Tabletop) -> None:
    camera = bpy.data.cameras.new("camera")
    camera.sensor_fit = "HORIZONTAL"
    camera.lens = camera.sensor_width * tabletop.focal_px / tabletop.width
    camera.clip_start, camera.clip_end = 0.02, 20.0
    placed = bpy.data.objects.new("camera", camera)
    placed.matrix_world = _columns(tabletop.camera @ measure.OPENGL_FROM_OPENCV)
    bpy.context.scene.collection.objects.link(placed)
    bpy.context.scene.camera = placed


def _configure(bpy: Any, tabletop: measure.Tabletop, path: Path) -> None:
    scene = bpy.context.scene
    scene.render.engine = "CYCLES"
    scene.cycles.device = "CPU"
    scene.cycles.samples = SAMPLES
    scene.cycles.use_adaptive_sampling = False
    scene.cycles.use_denoising = False
    scene.render.use_persistent_data = True
    scene.render.resolution_x, scene.render.resolution_y = tabletop.width, tabletop.height
    scene.render.resolution_percentage = 100
    layer = bpy.context.view_layer
    layer.use_pass_z = layer.use_pass_object_index = True
    scene.render.image_settings.file_format = "OPEN_EXR_MULTILAYER"
    scene.render.image_settings.color_depth = "32"
    scene.render.image_settings.exr_codec = "NONE"
    scene.render.filepath = str(path)


def _read_image(path: Path) -> measure.RenderedImage:
    """Return the image of the first frame."""
    channels = {name.split(".", 1)[1]: plane for name, plane in read_exr(path).items()}
    linear = np.stack([channels[f"Combined.{c}"] for c in "RGB"], axis=-1).clip(0, 1)
    srgb = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    depth_m = channels["Depth.Z"]
    bodies = np.rint(channels["IndexOB.X"]).astype(np.int64)
    return measure.RenderedImage(np.round(255 * srgb).astype(np.uint8), depth_m, bodies)


def read_exr(path: Path) -> dict[str, NDArray[np.float32]]:
    """Return the channels (h, w) of an uncompressed single-part OpenEXR file with 32-bit channels."""
    data = path.read_bytes()
    names: list[str] = []
    box = (0, 0, 0, 0)
    offset = 8
    while data[offset]:
        name, offset = _read_string(data, offset)
        _, offset = _read_string(data, offset)
        (size,) = struct.unpack_from("<i", data, offset)
        offset += 4
        if name == "channels":
            names = _channel_names(data[offset : offset + size])
        if name == "dataWindow":
            box = struct.unpack_from("<4i", data, offset)
        offset += size
    width, height = box[2] - box[0] + 1, box[3] - box[1] + 1
    row = np.dtype([("place", "<i4", 2), ("planes", "<f4", (len(names), width))])
    rows = np.frombuffer(data, row, height, offset=offset + 1 + 8 * height)
    return {name: rows["planes"][:, i].astype(np.float32) for i, name in enumerate(names)}


def _channel_names(data: bytes) -> list[str]:
    names, offset = [], 0
    while data[offset]:
        name, offset = _read_string(data, offset)
        names.append(name)
        offset += 16
    return names


def _read_string(data: bytes, offset: int) -> tuple[str, int]:
    """Return the zero-terminated string at an offset, and the offset after it."""
    end = data.index(0, offset)
    return data[offset:end].decode(), end + 1


def _columns(matrix: measure.Floats) -> list[list[float]]:
    """Return a matrix as Blender expects it, column by column."""
    return [[float(v) for v in column] for column in matrix.T]


if __name__ == "__main__":
    main()
