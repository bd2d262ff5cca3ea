"""Path-traced radiance by Mitsuba 3: the reference for the rasterizers, and a backend."""

from __future__ import annotations

import importlib
import math
import os
import zlib
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import BackendError
from sim2cam.render.backends.emitters import build_emitters
from sim2cam.render.gbuffer import Channel, GBuffer, PinholeView, Rasterizer
from sim2cam.render.meshes.mesh import build_mesh
from sim2cam.render.meshes.texture_set import TextureSet, build_texture_set
from sim2cam.scene.material import Material
from sim2cam.scene.scene import Body, Scene

Floats = NDArray[np.float32]

MAX_PATH_DEPTH = 5
"""Maximum number of path segments from the camera to a light; 2 is direct light only."""

SAMPLES_PER_PIXEL = 64
"""Default number of paths per pixel of the backend."""

LLVM_VARIABLE = "DRJIT_LIBLLVM_PATH"
"""Environment variable with the path of the LLVM library, for vectorized tracing."""

MIN_LLVM_VERSION = 19
"""Older versions abort the process: they lack a NaN-preserving float minimum on x86."""

_LLVM_HINT = f"Use version {MIN_LLVM_VERSION} or later, or unset {LLVM_VARIABLE} to trace without LLVM (four times slower)."

_SPECULAR_ONE_F0 = 0.08  # f0 at specular 1 of the principled BSDF
_BLOCK_PX = 32  # fixed: otherwise the random numbers depend on the number of threads


class PathTracer:
    """Path tracer of one settled scene.

    Sets the Mitsuba variant of the whole process; see ``load_mitsuba``.

    Args:
        scene: settled scene.
        max_depth: maximum path length; see ``MAX_PATH_DEPTH``.

    Raises:
        BackendError: Mitsuba is not installed, or the LLVM library is unusable.
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
            view: view to render.
            samples_per_pixel: number of paths per pixel.
            seed: seed of the paths; equal seeds give equal images on any number of threads.
        """
        sensor = self._mi.load_dict(_make_sensor(self._mi, view))
        image = self._mi.render(self._scene, sensor=sensor, spp=samples_per_pixel, seed=seed)
        return np.array(image, np.float32)[..., :3]


class PathTracedRasterizer(Rasterizer):
    """Radiance by Mitsuba, all other channels by a rasterizer.

    Mitsuba samples its channels at random positions in the pixel and has no amodal channel.

    Args:
        label_rasterizer: rasterizer of all channels but the radiance.
        samples_per_pixel: number of paths per pixel.

    Raises:
        BackendError: Mitsuba is not installed.
    """

    def __init__(
        self, label_rasterizer: Rasterizer, *, samples_per_pixel: int = SAMPLES_PER_PIXEL
    ) -> None:
        module = load_mitsuba()
        self._version = f"{module.__version__} {module.variant()}"
        self._label_rasterizer = label_rasterizer
        self._samples_per_pixel = samples_per_pixel
        self._tracer: PathTracer | None = None

    @property
    def name(self) -> str:
        """Backend, and the rasterizer of the labels."""
        return f"mitsuba: {self._version}, {self._samples_per_pixel} paths a pixel; labels by {self._label_rasterizer.name}"

    @property
    def channels(self) -> frozenset[Channel]:
        """Channels of the rasterizer, and the radiance."""
        return self._label_rasterizer.channels | {"radiance"}

    def _load(self, scene: Scene) -> None:
        self._label_rasterizer.load(scene)
        self._tracer = PathTracer(scene)
        self._scene_hash = zlib.crc32(scene.to_json().encode())

    def _release(self) -> None:
        self._label_rasterizer.release()
        self._tracer = None

    def _render(
        self, scene: Scene, view: PinholeView, channels: Collection[Channel], _samples: int
    ) -> GBuffer:
        gbuffer = dict(self._label_rasterizer.render(scene, view, set(channels) - {"radiance"}))
        if "radiance" in channels:
            assert self._tracer is not None
            # a seed per view: a noise pattern shared by all images could be learned
            seed = zlib.crc32(repr(view).encode(), self._scene_hash)
            gbuffer["radiance"] = self._tracer.trace(
                view, samples_per_pixel=self._samples_per_pixel, seed=seed
            )
        return gbuffer


def load_mitsuba() -> Any:
    """Import Mitsuba and set its variant.

    The variant is ``llvm_ad_rgb`` if ``LLVM_VARIABLE`` is set, otherwise ``scalar_rgb``, which is
    four times slower.

    Raises:
        BackendError: Mitsuba is not installed, or the LLVM library is unusable.
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
            f"{LLVM_VARIABLE}='{library}' is not an LLVM library. {_LLVM_HINT}"
        ) from error
    if library and (version := _get_llvm_version()) < MIN_LLVM_VERSION:
        raise BackendError(f"{LLVM_VARIABLE}: LLVM {version} is too old. {_LLVM_HINT}")
    return mi


def _get_llvm_version() -> int:
    return int(importlib.import_module("drjit").detail.llvm_version()[0])


def _make_sensor(mi: Any, view: PinholeView) -> dict[str, Any]:
    """Return the Mitsuba sensor; its x axis points left and y up."""
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
    """Return a body as a mesh in the world frame, with its textures."""
    mesh, textures = build_mesh(body.asset), _unfold_mirrored(build_texture_set(body))
    wrap = "mirror" if textures.roughness_metallic is None else "repeat"
    bsdf = _make_bsdf(body.material, _make_bitmap(mi, textures.colors, is_color=True, wrap=wrap))
    if textures.roughness_metallic is not None:
        for name, level in zip(
            ("roughness", "metallic"), np.moveaxis(textures.roughness_metallic, -1, 0), strict=True
        ):
            bsdf[name] = _make_bitmap(mi, level[..., None], is_color=False, wrap=wrap)
    if textures.normals is not None:
        normal_map = _make_bitmap(mi, textures.normals, is_color=False, wrap=wrap)
        bsdf = {"type": "normalmap", "normalmap": normal_map, "bsdf": bsdf}
    properties = mi.Properties()
    properties["bsdf"] = mi.load_dict(bsdf)
    if body.material.emission > 0:
        properties["emitter"] = mi.load_dict(
            _make_emitter(mi, textures.colors, body.material.emission)
        )
    shape = mi.Mesh(
        body.name, len(mesh.vertices_m), len(mesh.faces), properties,
        has_vertex_normals=True, has_vertex_texcoords=True,
    )  # fmt: skip
    buffers = mi.traverse(shape)
    buffers["vertex_positions"] = body.pose.apply(mesh.vertices_m).astype(np.float32).ravel()
    normals = body.pose.rotation().apply(mesh.normals)
    buffers["vertex_normals"] = normals.astype(np.float32).ravel()
    buffers["vertex_texcoords"] = (
        (mesh.uvs * textures.uv_scale + textures.uv_offset).astype(np.float32).ravel()
    )
    buffers["faces"] = mesh.faces.astype(np.uint32).ravel()
    buffers.update()
    return shape


def _unfold_mirrored(textures: TextureSet) -> TextureSet:
    """Return textures extended by mirrored copies, if they have material maps and normals.

    Normals of the copies are mirrored, too.
    """
    if textures.roughness_metallic is None or textures.normals is None:
        return textures
    colors, roughness_metallic = (
        _append_mirrored(textures.colors),
        _append_mirrored(textures.roughness_metallic),
    )
    normals = _append_mirrored(textures.normals)
    rows, columns = textures.normals.shape[:2]
    normals[:, columns:, 0] = 255 - normals[:, columns:, 0]
    normals[rows:, :, 1] = 255 - normals[rows:, :, 1]
    return TextureSet(
        colors, normals, textures.uv_scale / 2, textures.uv_offset / 2, roughness_metallic
    )


def _append_mirrored(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    row = np.concatenate([image, image[:, ::-1]], axis=1)
    return np.concatenate([row, row[::-1]])


def _make_bsdf(material: Material, colors: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "principled",
        "base_color": colors,
        "roughness": material.roughness,
        "specular": material.specular / _SPECULAR_ONE_F0,
        "metallic": material.metallic,
    }


def _make_emitter(mi: Any, colors: NDArray[np.uint8], emission: float) -> dict[str, Any]:
    """Return an area emitter with radiance ``emission`` times the surface colours."""
    rgb, float32 = mi.Bitmap.PixelFormat.RGB, mi.Struct.Type.Float32
    linear = mi.Bitmap(np.ascontiguousarray(colors)).convert(rgb, float32, False)
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
