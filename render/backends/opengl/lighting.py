"""Lighting: from what is seen of surfaces, and the light of a scene, to radiance."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from sim2cam.assets.environment_map import LEVELS, mirrored_cube
from sim2cam.errors import BackendError
from sim2cam.render.backends.opengl.device_memory import DeviceCube, Store, upload_cube
from sim2cam.render.backends.opengl.program import Program
from sim2cam.render.backends.opengl.shadows import SHADOW_PX, shadow_matrix
from sim2cam.render.backends.opengl.texture_filter import interpolate
from sim2cam.render.lighting.beams import (
    MAX_LAMPS,
    MAX_PARALLEL,
    MAX_PLACED,
    TURNS,
    Beam,
    ShadowView,
    are_hard,
    dome_powers,
    ground_color,
    ground_irradiance,
    lamp_parts,
    map_radius,
    parallel_beams,
    placed_beams,
    shadow_view,
    sky_harmonics,
)
from sim2cam.render.lighting.microfacets import TABLE_SIZE, split_sum
from sim2cam.render.rasterizer import PinholeView
from sim2cam.scene.light import Environment
from sim2cam.scene.scene import Scene

Floats = NDArray[np.float64]

_PARALLEL = np.dtype([(axis, np.float32, 4) for axis in ("x", "y", "z")])
_SPLIT_SUM_UNIT, _SKY_UNIT = 5, 6  # of textures, as ``light.frag`` has it
_SKY_BYTES = 64 << 20
_PLACED = np.dtype(
    [
        *((name, np.float32, 4) for name in ("place", "power", "axis", "cone")),
        ("to_shadow", np.float32, (4, 4)),
    ]
)
_LAMP = np.dtype([(name, np.float32, 4) for name in ("place", "power")])
_UP = np.array([0.0, 0.0, 1.0])
_LIGHT = np.dtype(
    [
        ("zenith", np.float32, 4),
        ("horizon", np.float32, 4),
        ("ground_radiance", np.float32, 4),
        ("harmonics", np.float32, (9, 4)),
        ("sphere", np.float32, 4),
        ("parallel", _PARALLEL, MAX_PARALLEL),
        ("placed", _PLACED, MAX_PLACED),
        ("lamps", _LAMP, MAX_LAMPS),
        ("turn", np.float32, 4),
        ("dome", np.float32, (MAX_PARALLEL, TURNS)),
    ]
)
"""``Light`` in ``light.frag``, as std140 lays it out."""


class Light:
    """The light of a scene on the device, and the programs that shed it on what is seen.

    Args:
        gl: OpenGL's functions.
    """

    def __init__(self, gl: Any) -> None:
        self._gl = gl
        self._block = int(gl.glGenBuffers(1))
        self._screen = int(gl.glGenVertexArrays(1))
        self._split_sum = _upload_table(gl, split_sum())
        self._programs: dict[tuple[Any, ...], Program] = {}
        self._counts: dict[str, int] = {}
        self._skies: Store[DeviceCube] = Store(gl, _SKY_BYTES)
        self._sky: DeviceCube | None = None

    def load(self, scene: Scene, centre: Floats, radius: float) -> list[Floats]:
        """Uploads the light of a scene and returns world to clip (4, 4) of each shadow map.

        Args:
            scene: its environment, and the table whose colour is reflected from below.
            centre, radius: sphere (3,), () around the bodies that cast.

        Raises:
            BackendError: there are more lights than the shader has room for.
        """
        gl = self._gl
        environment = scene.environment
        parallel = parallel_beams(environment, TURNS)
        placed = placed_beams(environment, centre, radius)
        _check_counts(len(environment.lamps), len(placed))
        views = [shadow_view(beam, centre, radius) for beam in (*parallel, *placed)]
        block = np.zeros(1, _LIGHT)
        light = block[0]
        _fill_sky(light, environment, ground_color(scene, centre))
        self._sky = self._load_picture(light, environment)
        light["sphere"] = (*centre, 1 / map_radius(radius))
        for slot, beam, view in zip(light["parallel"], parallel, views, strict=False):
            _fill_parallel(slot, beam, view)
        for slot, beam, view in zip(light["placed"], placed, views[len(parallel) :], strict=False):
            _fill_placed(slot, beam, view)
        for slot, lamp in zip(light["lamps"], environment.lamps, strict=False):
            slot["place"] = (*lamp.direction, lamp.radius_rad)
            slot["power"][:3] = lamp.irradiance
        gl.glBindBufferBase(gl.GL_UNIFORM_BUFFER, 0, self._block)
        gl.glBufferData(gl.GL_UNIFORM_BUFFER, block.nbytes, block, gl.GL_DYNAMIC_DRAW)
        lamps = environment.lamps
        self._counts = {
            "N_DOME": sum(beam.is_sky for beam in parallel),
            "N_PARALLEL": len(parallel),
            "N_PLACED": len(placed),
            "N_LAMPS": len(lamps),
            "LAMP_PARTS": lamp_parts(lamps, TURNS),
            "RINGS": 1 if are_hard(lamps) else TURNS,
            **({"PICTURED": 1, "SKY_LEVELS": LEVELS} if self._sky else {}),
        }
        return self._shadow_matrices(views, environment, centre)

    def _shadow_matrices(
        self, views: list[ShadowView], environment: Environment, centre: Floats
    ) -> list[Floats]:
        """Returns world to clip (4, 4) of each map: all skies, all turns of lamps, near lights."""
        n_dome, n_parallel = self._counts["N_DOME"], self._counts["N_PARALLEL"]
        parts = self._counts["LAMP_PARTS"]
        axes = np.repeat([lamp.direction for lamp in environment.lamps], parts, axis=0)
        maps = [shadow_matrix(view, is_placed=i >= n_parallel) for i, view in enumerate(views)]
        dome, lamps, placed = maps[:n_dome], maps[n_dome:n_parallel], maps[n_parallel:]
        skies = [_turned(one, _UP, centre, turn) for turn in range(TURNS) for one in dome]
        rings = [
            _turned(one, axis, centre, turn)
            for turn in range(self._counts["RINGS"])
            for one, axis in zip(lamps, axes, strict=True)
        ]
        return [*skies, *rings, *placed]

    def _load_picture(self, light: Any, environment: Environment) -> DeviceCube | None:
        """Returns a pictured sky on the device, and fills in how it is turned and where it is bright."""
        picture = environment.picture
        if picture is None:
            return None
        turn = picture.turn_rad
        light["turn"][:3] = math.cos(turn), math.sin(turn), picture.level
        powers = dome_powers(environment).sum(axis=-1).T
        light["dome"][: len(powers)] = powers
        still = replace(picture, turn_rad=0.0, level=1.0)
        found = self._skies.get(still, lambda: upload_cube(self._gl, mirrored_cube(still)))
        self._skies.trim(1)
        return found

    def shed(self, view: PinholeView, to_clip: Floats, samples: int) -> None:
        """Writes the radiance of a view to the bound framebuffer, from the bound attributes.

        Args:
            view: what is seen.
            to_clip: (4, 4) world to clip coordinates.
            samples: a pixel, of the attributes.
        """
        gl = self._gl
        to_world = np.asarray(np.linalg.inv(to_clip))
        gl.glActiveTexture(gl.GL_TEXTURE0 + _SPLIT_SUM_UNIT)
        gl.glBindTexture(gl.GL_TEXTURE_2D, self._split_sum)
        if self._sky is not None:
            gl.glActiveTexture(gl.GL_TEXTURE0 + _SKY_UNIT)
            gl.glBindTexture(gl.GL_TEXTURE_CUBE_MAP, self._sky.texture)
        gl.glDisable(gl.GL_CULL_FACE)
        gl.glEnable(gl.GL_DEPTH_TEST)
        gl.glDepthFunc(gl.GL_ALWAYS)
        self._draw(self._program(samples), view, to_world)
        if samples > 1:
            gl.glDepthFunc(gl.GL_LESS)
            gl.glDepthMask(False)
            gl.glEnable(gl.GL_BLEND)
            gl.glBlendFunc(gl.GL_ONE, gl.GL_ONE)
            self._draw(self._program(samples, REST=1), view, to_world)
            gl.glDisable(gl.GL_BLEND)
            gl.glDepthMask(True)
        gl.glDepthFunc(gl.GL_LESS)

    def _draw(self, program: Program, view: PinholeView, to_world: Floats) -> None:
        program.use()
        program.matrix("clip_to_world", to_world)
        program.vector("eye", (*view.pose.position_m, 1.0))
        program.vector("size", (view.width, view.height, 0, 0))
        self._gl.glBindVertexArray(self._screen)
        self._gl.glDrawArrays(self._gl.GL_TRIANGLES, 0, 3)

    def _program(self, samples: int, **defines: int) -> Program:
        defines |= self._counts
        key = (samples, *defines.items())
        if key not in self._programs:
            self._programs[key] = Program(
                self._gl, "screen.vert", "light.frag", N_SAMPLES=samples, SHADOW_PX=SHADOW_PX,
                TURNS=TURNS, PARALLEL_LIMIT=MAX_PARALLEL, PLACED_LIMIT=MAX_PLACED,
                LAMPS_LIMIT=MAX_LAMPS, TABLE_SIZE=TABLE_SIZE, **defines,
            )  # fmt: skip
        return self._programs[key]


def _turned(to_clip: Floats, axis: Floats, centre: Floats, quarters: int) -> Floats:
    """Returns world to clip (4, 4) of a view that is turned about an axis (3,) through a point (3,)."""
    back = np.eye(4)
    back[:3, :3] = Rotation.from_rotvec(-quarters * math.pi / 2 * axis).as_matrix()
    back[:3, 3] = centre - back[:3, :3] @ centre
    return np.asarray(to_clip @ back)


def _upload_table(gl: Any, table: NDArray[np.float32]) -> int:
    """Returns a texture of two numbers a texel, interpolated between their middles."""
    texture, kind = int(gl.glGenTextures(1)), gl.GL_TEXTURE_2D
    gl.glBindTexture(kind, texture)
    height, width = table.shape[:2]
    content = np.ascontiguousarray(table)
    gl.glTexImage2D(kind, 0, gl.GL_RG32F, width, height, 0, gl.GL_RG, gl.GL_FLOAT, content)
    interpolate(gl, kind, wrap=gl.GL_CLAMP_TO_EDGE)
    return texture


def _check_counts(lamps: int, placed: int) -> None:
    if lamps > MAX_LAMPS or placed > MAX_PLACED:
        raise BackendError(
            f"{lamps} lamps and {placed} beams of lights nearby are more than {MAX_LAMPS} and "
            f"{MAX_PLACED}. Use fewer lights, or none from among the bodies."
        )


def _fill_sky(light: Any, environment: Environment, albedo: Floats) -> None:
    light["zenith"][:3] = environment.zenith
    light["horizon"][:3] = environment.horizon
    light["ground_radiance"][:3] = albedo * ground_irradiance(environment) / math.pi
    light["harmonics"][:, :3] = sky_harmonics(environment)


def _fill_parallel(slot: Any, beam: Beam, view: ShadowView) -> None:
    rows = shadow_matrix(view, is_placed=False)[:3, :3] * view.half
    for name, row, power in zip(("x", "y", "z"), rows, beam.power, strict=True):
        slot[name] = (*row, power)


def _fill_placed(slot: Any, beam: Beam, view: ShadowView) -> None:
    slot["place"] = (*beam.place, beam.looks is not None)
    slot["power"] = (*beam.power, 2 * view.half / SHADOW_PX)
    slot["axis"], slot["cone"] = (*beam.axis, beam.radius_m), _cone(beam)
    slot["to_shadow"] = shadow_matrix(view, is_placed=True).T


def _cone(beam: Beam) -> tuple[float, float, float, float]:
    return (0.0, 0.0, 1.0, 0.0) if beam.cone is None else (*beam.cone, 0.0, 0.0)
