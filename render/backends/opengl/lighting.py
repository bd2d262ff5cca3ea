"""Deferred lighting: radiance from surface attributes and the lights of a scene."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from sim2cam.assets.environment_map import ROUGHNESS_LEVELS, prefilter_cube_map
from sim2cam.errors import BackendError
from sim2cam.render.backends.opengl.context import GLProgram
from sim2cam.render.backends.opengl.device_memory import (
    DeviceTextures,
    ResourceCache,
    set_texture_filtering,
    upload_cube_map,
)
from sim2cam.render.backends.opengl.framebuffers import SHADOW_PX, compute_shadow_matrix
from sim2cam.render.gbuffer import PinholeView
from sim2cam.render.lighting.beams import (
    MAX_DIRECTIONAL,
    MAX_LAMPS,
    MAX_LOCAL,
    ROTATIONS,
    Beam,
    ShadowView,
    compute_dome_powers,
    compute_ground_irradiance,
    compute_map_radius,
    compute_sky_harmonics,
    count_beams_per_lamp,
    find_ground_color,
    fit_shadow_view,
    have_hard_shadows,
    make_directional_beams,
    make_local_beams,
)
from sim2cam.render.lighting.microfacets import TABLE_SIZE, compute_split_sum_table
from sim2cam.scene.light import Environment
from sim2cam.scene.scene import Scene

Floats = NDArray[np.float64]

_DIRECTIONAL_DTYPE = np.dtype([(axis, np.float32, 4) for axis in ("x", "y", "z")])
_SPLIT_SUM_UNIT, _SKY_UNIT = 5, 6  # texture units in ``light.frag``
_SKY_CACHE_BYTES = 64 << 20
_LOCAL_DTYPE = np.dtype(
    [
        *((name, np.float32, 4) for name in ("position", "power", "axis", "cone")),
        ("to_shadow", np.float32, (4, 4)),
    ]
)
_LAMP_DTYPE = np.dtype([(name, np.float32, 4) for name in ("position", "power")])
_UP = np.array([0.0, 0.0, 1.0])
_LIGHT_DTYPE = np.dtype(
    [
        ("zenith", np.float32, 4),
        ("horizon", np.float32, 4),
        ("ground_radiance", np.float32, 4),
        ("harmonics", np.float32, (9, 4)),
        ("sphere", np.float32, 4),
        ("directional_beams", _DIRECTIONAL_DTYPE, MAX_DIRECTIONAL),
        ("local_beams", _LOCAL_DTYPE, MAX_LOCAL),
        ("lamps", _LAMP_DTYPE, MAX_LAMPS),
        ("sky_rotation", np.float32, 4),
        ("sky_powers", np.float32, (MAX_DIRECTIONAL, ROTATIONS)),
    ]
)
"""Block ``Light`` of ``light.frag`` in std140 layout."""


class DeviceLighting:
    """Lights of a scene on the device, and the lighting programs.

    Args:
        gl: module of OpenGL functions.
    """

    def __init__(self, gl: Any) -> None:
        self._gl = gl
        self._uniform_buffer = int(gl.glGenBuffers(1))
        self._screen_vertex_array = int(gl.glGenVertexArrays(1))
        self._split_sum_texture = _upload_table(gl, compute_split_sum_table())
        self._programs: dict[tuple[Any, ...], GLProgram] = {}
        self._shader_defines: dict[str, int] = {}
        self._sky_cache: ResourceCache[DeviceTextures] = ResourceCache(gl, _SKY_CACHE_BYTES)
        self._sky: DeviceTextures | None = None

    def load(self, scene: Scene, centre: Floats, radius: float) -> list[Floats]:
        """Upload the lights of a scene.

        Args:
            scene: scene with its environment, and the table that reflects light from below.
            centre, radius: bounding sphere of the shadow casters, centre (3,).

        Returns:
            World-to-clip matrix (4, 4) of each shadow map.

        Raises:
            BackendError: the scene has more lights than the shader supports.
        """
        gl = self._gl
        environment = scene.environment
        directional = make_directional_beams(environment, ROTATIONS)
        local = make_local_beams(environment, centre, radius)
        _check_counts(len(environment.lamps), len(local))
        views = [fit_shadow_view(beam, centre, radius) for beam in (*directional, *local)]
        block = np.zeros(1, _LIGHT_DTYPE)
        light = block[0]
        _fill_sky(light, environment, find_ground_color(scene, centre))
        self._sky = self._load_sky_image(light, environment)
        light["sphere"] = (*centre, 1 / compute_map_radius(radius))
        for slot, beam, view in zip(light["directional_beams"], directional, views, strict=False):
            _fill_directional(slot, beam, view)
        for slot, beam, view in zip(
            light["local_beams"], local, views[len(directional) :], strict=False
        ):
            _fill_local(slot, beam, view)
        for slot, lamp in zip(light["lamps"], environment.lamps, strict=False):
            slot["position"] = (*lamp.direction, lamp.radius_rad)
            slot["power"][:3] = lamp.irradiance
        gl.glBindBufferBase(gl.GL_UNIFORM_BUFFER, 0, self._uniform_buffer)
        gl.glBufferData(gl.GL_UNIFORM_BUFFER, block.nbytes, block, gl.GL_DYNAMIC_DRAW)
        lamps = environment.lamps
        self._shader_defines = {
            "N_DOME": sum(beam.is_sky for beam in directional),
            "N_DIRECTIONAL": len(directional),
            "N_LOCAL": len(local),
            "N_LAMPS": len(lamps),
            "BEAMS_PER_LAMP": count_beams_per_lamp(lamps, ROTATIONS),
            "N_LAMP_ROTATIONS": 1 if have_hard_shadows(lamps) else ROTATIONS,
            **({"ENVIRONMENT_MAP": 1, "SKY_LEVELS": ROUGHNESS_LEVELS} if self._sky else {}),
        }
        return self._compute_shadow_matrices(views, environment, centre)

    def _compute_shadow_matrices(
        self, views: list[ShadowView], environment: Environment, centre: Floats
    ) -> list[Floats]:
        """Return the world-to-clip matrix (4, 4) of each map: rotated skies, rotated lamps, local lights."""
        n_dome, n_directional = (
            self._shader_defines["N_DOME"],
            self._shader_defines["N_DIRECTIONAL"],
        )
        parts = self._shader_defines["BEAMS_PER_LAMP"]
        axes = np.repeat([lamp.direction for lamp in environment.lamps], parts, axis=0)
        maps = [
            compute_shadow_matrix(view, is_local=i >= n_directional) for i, view in enumerate(views)
        ]
        dome, lamps, local = maps[:n_dome], maps[n_dome:n_directional], maps[n_directional:]
        skies = [
            _rotate_clip_matrix(matrix, _UP, centre, rotation)
            for rotation in range(ROTATIONS)
            for matrix in dome
        ]
        rings = [
            _rotate_clip_matrix(matrix, axis, centre, rotation)
            for rotation in range(self._shader_defines["N_LAMP_ROTATIONS"])
            for matrix, axis in zip(lamps, axes, strict=True)
        ]
        return [*skies, *rings, *local]

    def _load_sky_image(self, light: Any, environment: Environment) -> DeviceTextures | None:
        """Return the environment map on the device, and set its uniforms; None without one."""
        environment_map = environment.environment_map
        if environment_map is None:
            return None
        angle_rad = environment_map.turn_rad
        light["sky_rotation"][:3] = (
            math.cos(angle_rad),
            math.sin(angle_rad),
            environment_map.radiance_scale,
        )
        powers = compute_dome_powers(environment).sum(axis=-1).T
        light["sky_powers"][: len(powers)] = powers
        unrotated = replace(environment_map, turn_rad=0.0, radiance_scale=1.0)
        cube_map = self._sky_cache.get(
            unrotated, lambda: upload_cube_map(self._gl, prefilter_cube_map(unrotated))
        )
        self._sky_cache.trim(1)
        return cube_map

    def render(self, view: PinholeView, to_clip: Floats, samples: int) -> None:
        """Render the radiance of a view to the bound framebuffer, from the bound attributes.

        Args:
            view: view to render.
            to_clip: (4, 4) world to clip coordinates.
            samples: samples per pixel of the attributes.
        """
        gl = self._gl
        to_world = np.asarray(np.linalg.inv(to_clip))
        gl.glActiveTexture(gl.GL_TEXTURE0 + _SPLIT_SUM_UNIT)
        gl.glBindTexture(gl.GL_TEXTURE_2D, self._split_sum_texture)
        if self._sky is not None:
            gl.glActiveTexture(gl.GL_TEXTURE0 + _SKY_UNIT)
            gl.glBindTexture(gl.GL_TEXTURE_CUBE_MAP, self._sky.names[0])
        gl.glDisable(gl.GL_CULL_FACE)
        gl.glEnable(gl.GL_DEPTH_TEST)
        gl.glDepthFunc(gl.GL_ALWAYS)
        self._draw_screen(self._get_program(samples), view, to_world)
        gl.glDepthFunc(gl.GL_LESS)
        if samples > 1:
            gl.glDepthMask(False)
            gl.glEnable(gl.GL_BLEND)
            gl.glBlendFunc(gl.GL_ONE, gl.GL_ONE)
            self._draw_screen(self._get_program(samples, OTHER_SURFACES=1), view, to_world)
            gl.glDisable(gl.GL_BLEND)
            gl.glDepthMask(True)

    def _draw_screen(self, program: GLProgram, view: PinholeView, to_world: Floats) -> None:
        program.use()
        program.set_matrix("clip_to_world", to_world)
        program.set_vector("eye", (*view.pose.position_m, 1.0))
        program.set_vector("size", (view.width, view.height, 0, 0))
        self._gl.glBindVertexArray(self._screen_vertex_array)
        self._gl.glDrawArrays(self._gl.GL_TRIANGLES, 0, 3)

    def _get_program(self, samples: int, **defines: int) -> GLProgram:
        defines |= self._shader_defines
        key = (samples, *defines.items())
        if key not in self._programs:
            self._programs[key] = GLProgram(
                self._gl, "screen.vert", "light.frag", N_SAMPLES=samples, SHADOW_PX=SHADOW_PX,
                N_ROTATIONS=ROTATIONS, MAX_DIRECTIONAL=MAX_DIRECTIONAL, MAX_LOCAL=MAX_LOCAL,
                MAX_LAMPS=MAX_LAMPS, TABLE_SIZE=TABLE_SIZE, **defines,
            )  # fmt: skip
        return self._programs[key]


def _rotate_clip_matrix(
    to_clip: Floats, axis: Floats, centre: Floats, quarter_turns: int
) -> Floats:
    """Return the world-to-clip matrix (4, 4) of a view rotated about an axis (3,) through a point (3,)."""
    inverse_rotation = np.eye(4)
    inverse_rotation[:3, :3] = Rotation.from_rotvec(-quarter_turns * math.pi / 2 * axis).as_matrix()
    inverse_rotation[:3, 3] = centre - inverse_rotation[:3, :3] @ centre
    return np.asarray(to_clip @ inverse_rotation)


def _upload_table(gl: Any, table: NDArray[np.float32]) -> int:
    """Return a two-channel texture with linear interpolation."""
    texture, kind = int(gl.glGenTextures(1)), gl.GL_TEXTURE_2D
    gl.glBindTexture(kind, texture)
    height, width = table.shape[:2]
    content = np.ascontiguousarray(table)
    gl.glTexImage2D(kind, 0, gl.GL_RG32F, width, height, 0, gl.GL_RG, gl.GL_FLOAT, content)
    set_texture_filtering(gl, kind, wrap_mode=gl.GL_CLAMP_TO_EDGE)
    return texture


def _check_counts(lamp_count: int, local_beam_count: int) -> None:
    if lamp_count > MAX_LAMPS or local_beam_count > MAX_LOCAL:
        raise BackendError(
            f"{lamp_count} lamps and {local_beam_count} beams of local lights exceed the limits of "
            f"{MAX_LAMPS} and {MAX_LOCAL}. Use fewer lights, or place none among the bodies."
        )


def _fill_sky(light: Any, environment: Environment, albedo: Floats) -> None:
    light["zenith"][:3] = environment.zenith
    light["horizon"][:3] = environment.horizon
    light["ground_radiance"][:3] = albedo * compute_ground_irradiance(environment) / math.pi
    light["harmonics"][:, :3] = compute_sky_harmonics(environment)


def _fill_directional(slot: Any, beam: Beam, view: ShadowView) -> None:
    rows = compute_shadow_matrix(view, is_local=False)[:3, :3] * view.half_extent
    for name, axis, power in zip(("x", "y", "z"), rows, beam.power, strict=True):
        slot[name] = (*axis, power)


def _fill_local(slot: Any, beam: Beam, view: ShadowView) -> None:
    slot["position"] = (*beam.location, beam.shadow_axis is not None)
    slot["power"] = (*beam.power, 2 * view.half_extent / SHADOW_PX)
    slot["axis"], slot["cone"] = (*beam.axis, beam.source_radius_m), _compute_cone(beam)
    slot["to_shadow"] = compute_shadow_matrix(view, is_local=True).T


def _compute_cone(beam: Beam) -> tuple[float, float, float, float]:
    return (0.0, 0.0, 1.0, 0.0) if beam.cone is None else (*beam.cone, 0.0, 0.0)
