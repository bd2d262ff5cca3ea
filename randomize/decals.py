"""Decals from sampled factors: their content and target surface."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sim2cam.randomize.factors import DecalFactors
from sim2cam.randomize.materials import get_surface_image
from sim2cam.randomize.sampling import FactorValues
from sim2cam.scene.decal import Decal
from sim2cam.scene.image_file import ImageFile
from sim2cam.scene.material import hsv_to_linear
from sim2cam.scene.scene import Body

_CHARACTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ0123456789-/."


def add_decals(bodies: Sequence[Body], factors: FactorValues) -> tuple[Body, ...]:
    """Return the bodies with the sampled decals; a decal without a target body is skipped."""
    decorated = list(bodies)
    for i in range(int(factors.get_float_or("layout/decal_count", 0))):
        path = f"decal/{i}"
        own = factors.read(DecalFactors, path)
        candidates = [
            n for n, body in enumerate(decorated) if body.name.partition("/")[0] == own.on
        ]
        if candidates:
            n = candidates[_pick_index(own.which, len(candidates))]
            body, info = decorated[n], get_surface_image(factors, path)
            side = _pick_index(own.side, body.asset.side_count)
            decal = _make_decal(own, side, None if info is None else info.file)
            decorated[n] = replace(body, decals=(*(body.decals or ()), decal))
    return tuple(decorated)


def _make_decal(own: DecalFactors, side: int, image: ImageFile | None) -> Decal:
    ground = hsv_to_linear(own.ground_hue, own.ground_saturation, own.ground_value)
    return Decal(
        side,
        own.x,
        own.y,
        own.width_m,
        own.angle_rad,
        own.wear,
        own.seed,
        _make_random_text(own.seed, own.length) if own.text is None else own.text,
        hsv_to_linear(own.letter_hue, own.letter_saturation, own.letter_value),
        ground if own.backed else None,
        image,
    )


def _pick_index(share: float, count: int) -> int:
    """Return the index below ``count`` at a share from 0 to 1."""
    return min(int(share * count), count - 1)


def _make_random_text(seed: int, length: int) -> str:
    """Return random characters, similar to a lot number."""
    rng = np.random.default_rng(seed)
    return "".join(_CHARACTERS[n] for n in rng.integers(len(_CHARACTERS), size=length))
