"""Path-traced light by Mitsuba 3: pictures that rasterizing is measured by."""

from __future__ import annotations

import importlib
import math
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import BackendError
from sim2cam.render.backends.emitters import emitters_of
from sim2cam.render.meshes.mesh import mesh_of
from sim2cam.render.meshes.skin import Skin, skin_of
from sim2cam.render.rasterizer import PinholeView
from sim2cam.scene.material import Material
from sim2cam.scene.scene import Body, Scene

Floats = NDArray[np.float32]

PATH_SEGMENTS = 5
"""Of the longest paths, from the eye to a light; with 2, light comes straight from its source."""

LLVM_PATH = "DRJIT_LIBLLVM_PATH"
"""Variable that names the library of LLVM, if paths are to be traced many at a time."""

OLDEST_LLVM = 19
"""Older ones end the process: they know no minimum of two floats that keeps NaN on x86."""

_LLVM_CURE = f"Name that of version {OLDEST_LLVM} or later, or unset it: light is traced without, four times slower."

_FULL_SPECULAR = 0.08  # reflectance that the principled material's specular 1 stands for
_BLOCK_PX = 32  # given: left to Mitsuba, its chance follows the number of threads


class Tracer:
    """A settled scene in Mitsuba, ready to be seen from anywhere.

    Sets Mitsuba's variant for the whole process, see ``mitsuba``.

    Args:
        scene: bodies where they lie, and the light.
        segments: of the longest paths, see ``PATH_SEGMENTS``.

    Raises:
        BackendError: Mitsuba is not installed, or the LLVM that is named does not serve it.
    """

    def __init__(self, scene: Scene, *, segments: int = PATH_SEGMENTS) -> None:
        self._mi = mi = mitsuba()
        parts: dict[str, Any] = {
            "type": "scene",
            "integrator": {"type": "path", "max_depth": segments, "block_size": _BLOCK_PX},
        }
        for index, emitter in enumerate(emitters_of(mi, scene.environment)):
            parts[f"light{index}"] = emitter
        for index, body in enumerate(scene.bodies):
            parts[f"body{index}"] = _shape(mi, body)
        self._scene = mi.load_dict(parts)

    def trace(self, view: PinholeView, *, paths: int, seed: int) -> Floats:
        """Returns the linear radiance (h, w, 3) of a view.

        Args:
            view: what is seen.
            paths: for each pixel.
            seed: which paths; equal seeds give equal pictures, on any number of threads.
        """
        sensor = self._mi.load_dict(_sensor(self._mi, view))
        image = self._mi.render(self._scene, sensor=sensor, spp=paths, seed=seed)
        return np.array(image, np.float32)[..., :3]


def mitsuba() -> Any:
    """Returns the module of Mitsuba, with its variant set: ``llvm_ad_rgb`` where ``LLVM_PATH`` names a
    library, which takes a quarter of the time of ``scalar_rgb``, the one without.

    Raises:
        BackendError: it is not installed, or the library cannot be used.
    """
    try:
        import mitsuba as mi
    except ImportError as error:
        raise BackendError(
            'path tracing needs Mitsuba. Run: pip install "sim2cam[reference]"'
        ) from error
    library = os.environ.get(LLVM_PATH)
    variant = "llvm_ad_rgb" if library else "scalar_rgb"
    try:
        if mi.variant() != variant:
            mi.set_variant(variant)
    except ImportError as error:
        raise BackendError(
            f"{LLVM_PATH} names '{library}', which is no library of LLVM. {_LLVM_CURE}"
        ) from error
    if library and (found := _llvm_version()) < OLDEST_LLVM:
        raise BackendError(f"{LLVM_PATH} names LLVM {found}, which is too old. {_LLVM_CURE}")
    return mi


def _llvm_version() -> int:
    return int(importlib.import_module("drjit").detail.llvm_version()[0])


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
    mesh, skin = mesh_of(body.asset), _unfolded(skin_of(body))
    wrap = "mirror" if skin.finish is None else "repeat"
    look = _look(body.material, _picture(mi, skin.colors, is_color=True, wrap=wrap))
    if skin.finish is not None:
        for name, level in zip(
            ("roughness", "metallic"), np.moveaxis(skin.finish, -1, 0), strict=True
        ):
            look[name] = _picture(mi, level[..., None], is_color=False, wrap=wrap)
    if skin.normals is not None:
        relief = _picture(mi, skin.normals, is_color=False, wrap=wrap)
        look = {"type": "normalmap", "normalmap": relief, "bsdf": look}
    properties = mi.Properties()
    properties["bsdf"] = mi.load_dict(look)
    if body.material.emission > 0:
        properties["emitter"] = mi.load_dict(_glow(mi, skin.colors, body.material.emission))
    shape = mi.Mesh(
        body.name, len(mesh.vertices_m), len(mesh.faces), properties,
        has_vertex_normals=True, has_vertex_texcoords=True,
    )  # fmt: skip
    buffers = mi.traverse(shape)
    buffers["vertex_positions"] = body.pose.apply(mesh.vertices_m).astype(np.float32).ravel()
    turned = body.pose.rotation().apply(mesh.normals)
    buffers["vertex_normals"] = turned.astype(np.float32).ravel()
    buffers["vertex_texcoords"] = (mesh.uvs * skin.turns + skin.shift).astype(np.float32).ravel()
    buffers["faces"] = mesh.faces.astype(np.uint32).ravel()
    buffers.update()
    return shape


def _unfolded(skin: Skin) -> Skin:
    """Returns a skin with its mirrored copies beside it, their slopes mirrored, if it has a finish."""
    if skin.finish is None or skin.normals is None:
        return skin
    colors, finish = _with_mirrored(skin.colors), _with_mirrored(skin.finish)
    normals = _with_mirrored(skin.normals)
    rows, columns = skin.normals.shape[:2]
    normals[:, columns:, 0] = 255 - normals[:, columns:, 0]
    normals[rows:, :, 1] = 255 - normals[rows:, :, 1]
    return Skin(colors, normals, skin.turns / 2, skin.shift / 2, finish)


def _with_mirrored(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    wide = np.concatenate([picture, picture[:, ::-1]], axis=1)
    return np.concatenate([wide, wide[::-1]])


def _look(material: Material, colors: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "principled",
        "base_color": colors,
        "roughness": material.roughness,
        "specular": material.specular / _FULL_SPECULAR,
        "metallic": material.metallic,
    }


def _glow(mi: Any, colors: NDArray[np.uint8], emission: float) -> dict[str, Any]:
    """Returns an emitter that sends out some times a surface's colours."""
    rgb, single = mi.Bitmap.PixelFormat.RGB, mi.Struct.Type.Float32
    linear = mi.Bitmap(np.ascontiguousarray(colors)).convert(rgb, single, False)
    radiance = _picture(mi, np.array(linear) * np.float32(emission), is_color=False)
    return {"type": "area", "radiance": radiance}


def _picture(
    mi: Any, pixels: NDArray[Any], *, is_color: bool, wrap: str = "mirror"
) -> dict[str, Any]:
    return {
        "type": "bitmap",
        "bitmap": mi.Bitmap(np.ascontiguousarray(pixels)),
        "raw": not is_color,
        "wrap_mode": wrap,
    }
