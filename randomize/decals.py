"""Decals from sampled factors: their content and target surface."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sim2cam.randomize.materials import get_color, get_surface_image
from sim2cam.randomize.sampling import FactorValues
from sim2cam.scene.decal import Decal
from sim2cam.scene.scene import Body

_CHARACTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ0123456789-/."
_DEFAULT_LENGTH = 8


def add_decals(bodies: Sequence[Body], factors: FactorValues) -> tuple[Body, ...]:
    """Return the bodies with the sampled decals; a decal without a target body is skipped."""
    decorated = list(bodies)
    for i in range(int(factors.get_float_or("layout/decal_count", 0))):
        path = f"decal/{i}"
        target = factors.get_str(f"{path}/on")
        candidates = [
            n for n, body in enumerate(decorated) if body.name.partition("/")[0] == target
        ]
        if candidates:
            n = candidates[_pick_index(factors, f"{path}/which", len(candidates))]
            body = decorated[n]
            decal = _make_decal(factors, path, body.asset.side_count)
            decorated[n] = replace(body, decals=(*(body.decals or ()), decal))
    return tuple(decorated)


def _make_decal(factors: FactorValues, path: str, sides: int) -> Decal:
    facts = get_surface_image(factors, path)
    return Decal(
        side=_pick_index(factors, f"{path}/side", sides),
        x=factors.get_float(f"{path}/x"),
        y=factors.get_float(f"{path}/y"),
        width_m=factors.get_float(f"{path}/width_m"),
        angle_rad=factors.get_float(f"{path}/angle_rad"),
        wear=factors.get_float(f"{path}/wear"),
        seed=factors.get_int(f"{path}/seed"),
        text=str(factors.values.get(f"{path}/text", _make_random_text(factors, path))),
        text_color=get_color(factors, path, "letter_"),
        background_color=get_color(factors, path, "ground_")
        if factors.get_bool(f"{path}/backed")
        else None,
        image=facts.file if facts else None,
    )


def _pick_index(factors: FactorValues, path: str, count: int) -> int:
    """Return the index below ``count`` at a share from 0 to 1."""
    return min(int(factors.get_float(path) * count), count - 1)


def _make_random_text(factors: FactorValues, path: str) -> str:
    """Return random characters, similar to a lot number."""
    rng = np.random.default_rng(factors.get_int(f"{path}/seed"))
    length = int(factors.get_float_or(f"{path}/length", _DEFAULT_LENGTH))
    return "".join(_CHARACTERS[n] for n in rng.integers(len(_CHARACTERS), size=length))
