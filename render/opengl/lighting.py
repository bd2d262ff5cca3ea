"""The light of a scene as the block of uniforms that the surface shader reads."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import BackendError
from sim2cam.render.light import (
    MAX_BEAMS,
    MAX_LOBES,
    Beam,
    ground_irradiance,
    lobes_of,
    shadow_view,
)
from sim2cam.render.opengl.shadows import SHADOW_PX, shadow_matrix
from sim2cam.scene.scene import Scene

Floats = NDArray[np.float64]

_BEAM = np.dtype(
    [
        ("place", np.float32, 4),
        ("power", np.float32, 4),
        ("axis", np.float32, 4),
        ("cone", np.float32, 4),
        ("to_shadow", np.float32, (4, 4)),
    ]
)
_LOBE = np.dtype(
    [
        ("place", np.float32, 4),
        ("power", np.float32, 4),
        ("axis", np.float32, 4),
        ("cone", np.float32, 4),
    ]
)
_LIGHT = np.dtype(
    [
        ("zenith", np.float32, 4),
        ("horizon", np.float32, 4),
        ("ground_radiance", np.float32, 4),
        ("counts", np.int32, 4),
        ("beams", _BEAM, MAX_BEAMS),
        ("lobes", _LOBE, MAX_LOBES),
    ]
)
"""``Light`` in ``surface.frag``, as std140 lays it out."""


def light_block(
    scene: Scene, beams: tuple[Beam, ...], centre: Floats, radius: float
) -> NDArray[Any]:
    """Returns the content of the block ``Light``, one record.

    Args:
        scene: its environment, and the table whose colour is reflected from below.
        beams: of its light.
        centre, radius: sphere (3,), () around the bodies that cast.

    Raises:
        BackendError: there are more lights than the shader has room for.
    """
    environment = scene.environment
    lobes = lobes_of(environment)
    if len(beams) > MAX_BEAMS or len(lobes) > MAX_LOBES:
        raise BackendError(
            f"{len(beams)} beams of {len(lobes)} lights are more than {MAX_BEAMS} and {MAX_LOBES}. "
            "Use fewer lights, or none from among the bodies."
        )
    block = np.zeros(1, _LIGHT)
    light = block[0]
    light["zenith"][:3] = environment.zenith
    light["horizon"][:3] = environment.horizon
    albedo = np.array(scene.bodies[0].material.texture.color_a)
    light["ground_radiance"][:3] = albedo * ground_irradiance(environment) / math.pi
    light["counts"][:2] = len(beams), len(lobes)
    for slot, beam in zip(light["beams"], beams, strict=False):
        _fill(slot, beam, centre, radius)
    for slot, lobe in zip(light["lobes"], lobes, strict=False):
        _fill_beam(slot, lobe.beam)
        slot["power"][3] = lobe.radius
    return block


def _fill(slot: Any, beam: Beam, centre: Floats, radius: float) -> None:
    view = shadow_view(beam, centre, radius)
    _fill_beam(slot, beam)
    slot["power"][3] = beam.looks is not None
    slot["axis"][3] = 2 * view.half / SHADOW_PX
    slot["to_shadow"] = shadow_matrix(view, is_placed=beam.is_placed).T


def _fill_beam(slot: Any, beam: Beam) -> None:
    slot["place"] = (*beam.place, beam.is_placed)
    slot["power"][:3] = beam.power
    slot["axis"][:3] = beam.axis
    slot["cone"] = (0.0, 0.0, 1.0, 0.0) if beam.cone is None else (*beam.cone, 0.0, 0.0)
