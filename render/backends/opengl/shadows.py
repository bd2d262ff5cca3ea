"""Shadow maps with hardware depth comparison."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.poses import Pose, vec3
from sim2cam.render.backends.opengl.texture_filter import set_texture_filtering
from sim2cam.render.lighting.beams import MAX_SHADOW_MAPS, ShadowView

Floats = NDArray[np.float64]

SHADOW_PX = 512


class ShadowMapArray:
    """Array of depth maps, one per beam.

    Args:
        gl: module of OpenGL functions.
    """

    def __init__(self, gl: Any) -> None:
        self._gl = gl
        kind = gl.GL_TEXTURE_2D_ARRAY
        self._texture = gl.glGenTextures(1)
        gl.glBindTexture(kind, self._texture)
        gl.glTexImage3D(
            kind, 0, gl.GL_DEPTH_COMPONENT32F, SHADOW_PX, SHADOW_PX, MAX_SHADOW_MAPS, 0,
            gl.GL_DEPTH_COMPONENT, gl.GL_FLOAT, None,
        )  # fmt: skip
        set_texture_filtering(gl, kind, wrap_mode=gl.GL_CLAMP_TO_EDGE)
        gl.glTexParameteri(kind, gl.GL_TEXTURE_COMPARE_MODE, gl.GL_COMPARE_REF_TO_TEXTURE)
        gl.glTexParameteri(kind, gl.GL_TEXTURE_COMPARE_FUNC, gl.GL_LEQUAL)
        self._nearest_sampler = _create_nearest_sampler(gl)
        self._framebuffer = gl.glGenFramebuffers(1)

    def bind(self, layer: int) -> None:
        """Clear the map of a beam and bind it for drawing."""
        gl = self._gl
        gl.glBindFramebuffer(gl.GL_FRAMEBUFFER, self._framebuffer)
        gl.glFramebufferTextureLayer(
            gl.GL_FRAMEBUFFER, gl.GL_DEPTH_ATTACHMENT, self._texture, 0, layer
        )
        gl.glDrawBuffer(gl.GL_NONE)
        gl.glReadBuffer(gl.GL_NONE)
        gl.glViewport(0, 0, SHADOW_PX, SHADOW_PX)
        gl.glClear(gl.GL_DEPTH_BUFFER_BIT)

    def bind_textures(self, unit: int, nearest_unit: int) -> None:
        """Bind the maps to two texture units, with linear and with nearest filtering."""
        gl = self._gl
        for number in (unit, nearest_unit):
            gl.glActiveTexture(gl.GL_TEXTURE0 + number)
            gl.glBindTexture(gl.GL_TEXTURE_2D_ARRAY, self._texture)
        gl.glBindSampler(nearest_unit, self._nearest_sampler)


def _create_nearest_sampler(gl: Any) -> int:
    """Return a sampler that compares with one texel instead of four."""
    sampler = gl.glGenSamplers(1)
    for name, value in (
        (gl.GL_TEXTURE_MIN_FILTER, gl.GL_NEAREST),
        (gl.GL_TEXTURE_MAG_FILTER, gl.GL_NEAREST),
        (gl.GL_TEXTURE_WRAP_S, gl.GL_CLAMP_TO_EDGE),
        (gl.GL_TEXTURE_WRAP_T, gl.GL_CLAMP_TO_EDGE),
        (gl.GL_TEXTURE_COMPARE_MODE, gl.GL_COMPARE_REF_TO_TEXTURE),
        (gl.GL_TEXTURE_COMPARE_FUNC, gl.GL_LEQUAL),
    ):
        gl.glSamplerParameteri(sampler, name, value)
    return int(sampler)


def compute_shadow_matrix(view: ShadowView, *, is_local: bool) -> Floats:
    """Return the matrix (4, 4) from world to clip coordinates of a shadow map."""
    eye, target = view.eye, view.target
    pose = Pose.look_at(vec3(eye), vec3(target), 0.0)
    near, far = view.near_m, view.far_m
    if is_local:
        to_clip = np.diag(
            [1 / view.half_extent, 1 / view.half_extent, (far + near) / (far - near), 0.0]
        )
        to_clip[2, 3] = -2 * far * near / (far - near)
        to_clip[3, 2] = 1.0
    else:
        to_clip = np.diag([1 / view.half_extent, 1 / view.half_extent, 2 / (far - near), 1.0])
        to_clip[2, 3] = -(far + near) / (far - near)
    return np.asarray(to_clip @ pose.inverse().matrix())
