"""The reference: path-traced light by Mitsuba 3, for pictures that rasterizing is measured by."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import BackendError
from sim2cam.render.light import sky_radiance
from sim2cam.render.mesh import mesh_of
from sim2cam.render.rasterizer import PinholeView
from sim2cam.render.skin import skin_of
from sim2cam.scene.light import Environment
from sim2cam.scene.material import Material
from sim2cam.scene.scene import Body, Scene

Floats = NDArray[np.float32]

_MAX_DEPTH = 5
_SKY_ROWS = 256  # 0.012 rad a texel; lamps are wider
_SKY_TO_WORLD = np.array([[1, 0, 0, 0], [0, 0, -1, 0], [0, 1, 0, 0], [0, 0, 0, 1.0]])
_FULL_SPECULAR = 0.08  # reflectance that the principled material's specular 1 stands for


def trace(scene: Scene, view: PinholeView, *, samples: int, seed: int) -> Floats:
    """Returns the linear radiance (h, w, 3) of a settled scene, by path tracing.

    Sets Mitsuba's variant to ``scalar_rgb`` for the whole process.

    Args:
        scene: bodies where they lie, and the light.
        view: what is seen.
        samples: paths for each pixel.
        seed: which paths; equal seeds give equal pictures.

    Raises:
        BackendError: Mitsuba is not installed.
    """
    mi = _mitsuba()
    parts: dict[str, Any] = {
        "type": "scene",
        "integrator": {"type": "path", "max_depth": _MAX_DEPTH},
        "sensor": _sensor(mi, view),
        "sky": {
            "type": "envmap",
            "bitmap": mi.Bitmap(sky_map(scene.environment, _SKY_ROWS)),
            "to_world": mi.ScalarTransform4f(_SKY_TO_WORLD),
        },
    }
    for index, body in enumerate(scene.bodies):
        parts[f"body{index}"] = _shape(mi, body)
    image = mi.render(mi.load_dict(parts), spp=samples, seed=seed)
    return np.array(image, np.float32)[..., :3]


def sky_map(environment: Environment, rows: int) -> Floats:
    """Returns the radiance (rows, 2 rows, 3) from all directions, lamps with it.

    Row 0 looks up the world's z, the last one down; columns go round from y over x.
    """
    polar = (np.arange(rows) + 0.5) / rows * math.pi
    around = (np.arange(2 * rows) + 0.5) / rows * math.pi
    z, radius = np.cos(polar)[:, None], np.sin(polar)[:, None]
    directions = np.stack(
        np.broadcast_arrays(radius * np.sin(around), radius * np.cos(around), z), axis=-1
    )
    light = sky_radiance(environment, directions[..., 2].ravel()).reshape(directions.shape)
    for lamp in environment.lamps:
        away = np.arccos((directions @ lamp.direction).clip(-1, 1))
        lobe = np.exp(-((away / lamp.radius_rad) ** 2)) / (math.pi * lamp.radius_rad**2)
        light += lobe[..., None] * np.array(lamp.irradiance)
    return np.asarray(light, dtype=np.float32)


def _mitsuba() -> Any:
    try:
        import mitsuba as mi
    except ImportError as error:
        raise BackendError(
            'the reference needs Mitsuba. Run: pip install "sim2cam[reference]"'
        ) from error
    if mi.variant() != "scalar_rgb":
        mi.set_variant("scalar_rgb")
    return mi


def _sensor(mi: Any, view: PinholeView) -> dict[str, Any]:
    """Returns Mitsuba's camera, whose x goes left and y up."""
    to_world = view.pose.matrix() @ np.diag([-1.0, -1.0, 1.0, 1.0])
    return {
        "type": "perspective",
        "fov": math.degrees(2 * math.atan(view.width / 2 / view.focal_px)),
        "fov_axis": "x",
        "principal_point_offset_x": 0.5 - (view.cx_px + 0.5) / view.width,
        "principal_point_offset_y": 0.5 - (view.cy_px + 0.5) / view.height,
        "near_clip": 0.01,
        "far_clip": 100.0,
        "to_world": mi.ScalarTransform4f(to_world),
        "film": {
            "type": "hdrfilm",
            "width": view.width,
            "height": view.height,
            "pixel_format": "rgb",
            "component_format": "float32",
            "rfilter": {"type": "box"},
        },
        "sampler": {"type": "multijitter"},
    }


def _shape(mi: Any, body: Body) -> Any:
    """Returns a body as a mesh in the world, with its colours and relief."""
    mesh, skin = mesh_of(body.asset), skin_of(body)
    look = _look(body.material, _picture(mi, skin.colors, is_color=True))
    if skin.normals is not None:
        relief = _picture(mi, skin.normals, is_color=False)
        look = {"type": "normalmap", "normalmap": relief, "bsdf": look}
    properties = mi.Properties()
    properties["bsdf"] = mi.load_dict(look)
    shape = mi.Mesh(
        body.name, len(mesh.vertices_m), len(mesh.faces), properties,
        has_vertex_normals=True, has_vertex_texcoords=True,
    )  # fmt: skip
    buffers = mi.traverse(shape)
    buffers["vertex_positions"] = body.pose.apply(mesh.vertices_m).astype(np.float32).ravel()
    turned = body.pose.rotation().apply(mesh.normals)
    buffers["vertex_normals"] = turned.astype(np.float32).ravel()
    buffers["vertex_texcoords"] = (mesh.uvs * skin.turns).astype(np.float32).ravel()
    buffers["faces"] = mesh.faces.astype(np.uint32).ravel()
    buffers.update()
    return shape


def _look(material: Material, colors: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "principled",
        "base_color": colors,
        "roughness": material.roughness,
        "specular": material.specular / _FULL_SPECULAR,
        "metallic": material.metallic,
    }


def _picture(mi: Any, pixels: NDArray[np.uint8], *, is_color: bool) -> dict[str, Any]:
    return {
        "type": "bitmap",
        "bitmap": mi.Bitmap(np.ascontiguousarray(pixels)),
        "raw": not is_color,
        "wrap_mode": "mirror",
    }
