"""Path-traced light by Mitsuba 3: pictures that rasterizing is measured by."""

from __future__ import annotations

import importlib
import math
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import BackendError
from sim2cam.render.backends.emitters import build_emitters
from sim2cam.render.meshes.mesh import build_mesh
from sim2cam.render.meshes.skin import TextureSet, build_texture_set
from sim2cam.render.rasterizer import PinholeView
from sim2cam.scene.material import Material
from sim2cam.scene.scene import Body, Scene

Floats = NDArray[np.float32]

MAX_PATH_DEPTH = 5
"""Of the longest paths, from the eye to a light; with 2, light comes straight from its source."""

LLVM_VARIABLE = "DRJIT_LIBLLVM_PATH"
"""Variable that names the library of LLVM, if paths are to be traced many at a time."""

MIN_LLVM_VERSION = 19
"""Older ones end the process: they know no minimum of two floats that keeps NaN on x86."""

_LLVM_HINT = f"Name that of version {MIN_LLVM_VERSION} or later, or unset it: light is traced without, four times slower."

_SPECULAR_ONE_F0 = 0.08  # reflectance that the principled material's specular 1 stands for
_BLOCK_PX = 32  # given: left to Mitsuba, its chance follows the number of threads


class PathTracer:
    """A settled scene in Mitsuba, ready to be seen from anywhere.

    Sets Mitsuba's variant for the whole process, see ``mitsuba``.

    Args:
        scene: bodies where they lie, and the light.
        max_depth: of the longest paths, see ``MAX_PATH_DEPTH``.

    Raises:
        BackendError: Mitsuba is not installed, or the LLVM that is named does not serve it.
    """

    def __init__(self, scene: Scene, *, max_depth: int = MAX_PATH_DEPTH) -> None:
        self._mi = mi = load_mitsuba()
        parts: dict[str, Any] = {
            "type": "scene",
            "integrator": {"type": "path", "max_depth": max_depth, "block_size": _BLOCK_PX},
        }
        for index, emitter in enumerate(build_emitters(mi, scene.environment)):
            parts[f"light{index}"] = emitter
        for index, body in enumerate(scene.bodies):
            parts[f"body{index}"] = _make_shape(mi, body)
        self._scene = mi.load_dict(parts)

    def trace(self, view: PinholeView, *, samples_per_pixel: int, seed: int) -> Floats:
        """Return the linear radiance (h, w, 3) of a view.

        Args:
            view: what is seen.
            samples_per_pixel: for each pixel.
            seed: which paths; equal seeds give equal pictures, on any number of threads.
        """
        sensor = self._mi.load_dict(_make_sensor(self._mi, view))
        image = self._mi.render(self._scene, sensor=sensor, spp=samples_per_pixel, seed=seed)
        return np.array(image, np.float32)[..., :3]


def load_mitsuba() -> Any:
    """Return the module of Mitsuba, with its variant set: ``llvm_ad_rgb`` where ``LLVM_VARIABLE`` names a
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
    library = os.environ.get(LLVM_VARIABLE)
    variant = "llvm_ad_rgb" if library else "scalar_rgb"
    try:
        if mi.variant() != variant:
            mi.set_variant(variant)
    except ImportError as error:
        raise BackendError(
            f"{LLVM_VARIABLE} names '{library}', which is no library of LLVM. {_LLVM_HINT}"
        ) from error
    if library and (found := _get_llvm_version()) < MIN_LLVM_VERSION:
        raise BackendError(f"{LLVM_VARIABLE} names LLVM {found}, which is too old. {_LLVM_HINT}")
    return mi


def _get_llvm_version() -> int:
    return int(importlib.import_module("drjit").detail.llvm_version()[0])


def _make_sensor(mi: Any, view: PinholeView) -> dict[str, Any]:
    """Return Mitsuba's camera, whose x goes left and y up."""
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


def _make_shape(mi: Any, body: Body) -> Any:
    """Return a body as a mesh in the world, with its colours and relief."""
    mesh, skin = build_mesh(body.asset), _unfold_mirrored(build_texture_set(body))
    wrap = "mirror" if skin.roughness_metallic is None else "repeat"
    look = _make_bsdf(body.material, _make_bitmap(mi, skin.colors, is_color=True, wrap=wrap))
    if skin.roughness_metallic is not None:
        for name, level in zip(
            ("roughness", "metallic"), np.moveaxis(skin.roughness_metallic, -1, 0), strict=True
        ):
            look[name] = _make_bitmap(mi, level[..., None], is_color=False, wrap=wrap)
    if skin.normals is not None:
        relief = _make_bitmap(mi, skin.normals, is_color=False, wrap=wrap)
        look = {"type": "normalmap", "normalmap": relief, "bsdf": look}
    properties = mi.Properties()
    properties["bsdf"] = mi.load_dict(look)
    if body.material.emission > 0:
        properties["emitter"] = mi.load_dict(_make_emitter(mi, skin.colors, body.material.emission))
    shape = mi.Mesh(
        body.name, len(mesh.vertices_m), len(mesh.faces), properties,
        has_vertex_normals=True, has_vertex_texcoords=True,
    )  # fmt: skip
    buffers = mi.traverse(shape)
    buffers["vertex_positions"] = body.pose.apply(mesh.vertices_m).astype(np.float32).ravel()
    turned = body.pose.rotation().apply(mesh.normals)
    buffers["vertex_normals"] = turned.astype(np.float32).ravel()
    buffers["vertex_texcoords"] = (
        (mesh.uvs * skin.uv_scale + skin.uv_offset).astype(np.float32).ravel()
    )
    buffers["faces"] = mesh.faces.astype(np.uint32).ravel()
    buffers.update()
    return shape


def _unfold_mirrored(textures: TextureSet) -> TextureSet:
    """Return a skin with its mirrored copies beside it, their slopes mirrored, if it has a finish."""
    if textures.roughness_metallic is None or textures.normals is None:
        return textures
    colors, finish = (
        _append_mirrored(textures.colors),
        _append_mirrored(textures.roughness_metallic),
    )
    normals = _append_mirrored(textures.normals)
    rows, columns = textures.normals.shape[:2]
    normals[:, columns:, 0] = 255 - normals[:, columns:, 0]
    normals[rows:, :, 1] = 255 - normals[rows:, :, 1]
    return TextureSet(colors, normals, textures.uv_scale / 2, textures.uv_offset / 2, finish)


def _append_mirrored(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    wide = np.concatenate([image, image[:, ::-1]], axis=1)
    return np.concatenate([wide, wide[::-1]])


def _make_bsdf(material: Material, colors: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "principled",
        "base_color": colors,
        "roughness": material.roughness,
        "specular": material.specular / _SPECULAR_ONE_F0,
        "metallic": material.metallic,
    }


def _make_emitter(mi: Any, colors: NDArray[np.uint8], emission: float) -> dict[str, Any]:
    """Return an emitter that sends out some times a surface's colours."""
    rgb, single = mi.Bitmap.PixelFormat.RGB, mi.Struct.Type.Float32
    linear = mi.Bitmap(np.ascontiguousarray(colors)).convert(rgb, single, False)
    radiance = _make_bitmap(mi, np.array(linear) * np.float32(emission), is_color=False)
    return {"type": "area", "radiance": radiance}


def _make_bitmap(
    mi: Any, pixels: NDArray[Any], *, is_color: bool, wrap: str = "mirror"
) -> dict[str, Any]:
    return {
        "type": "bitmap",
        "bitmap": mi.Bitmap(np.ascontiguousarray(pixels)),
        "raw": not is_color,
        "wrap_mode": wrap,
    }
