"""Decals of what was drawn: what they say, and what they stick to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sim2cam.randomize.materials import color_of, picture_of
from sim2cam.randomize.sampling import Draw
from sim2cam.scene.decal import SIDES, Decal
from sim2cam.scene.scene import Body

PLACES = ("die", "board", "card", "tin", "carton", "paper", "mat", "table")
"""What decals can be on, as bodies are named."""

_CHARACTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ0123456789-/."
_LENGTH = 8


def with_decals(bodies: Sequence[Body], drawn: Draw) -> tuple[Body, ...]:
    """Returns the bodies with the decals that were drawn; what none of them can carry is left out."""
    found = list(bodies)
    for i in range(int(drawn.number_or("layout/decal_count", 0))):
        path = f"decal/{i}"
        place = drawn.text(f"{path}/on")
        there = [n for n, body in enumerate(found) if body.name.partition("/")[0] == place]
        if there:
            n = there[_nth(drawn, f"{path}/which", len(there))]
            body = found[n]
            decal = _decal(drawn, path, SIDES[body.asset.kind])
            found[n] = replace(body, decals=(*(body.decals or ()), decal))
    return tuple(found)


def _decal(drawn: Draw, path: str, sides: int) -> Decal:
    facts = picture_of(drawn, path)
    return Decal(
        side=_nth(drawn, f"{path}/side", sides),
        x=drawn.number(f"{path}/x"),
        y=drawn.number(f"{path}/y"),
        width_m=drawn.number(f"{path}/width_m"),
        angle_rad=drawn.number(f"{path}/angle_rad"),
        wear=drawn.number(f"{path}/wear"),
        seed=drawn.count(f"{path}/seed"),
        text=str(drawn.values.get(f"{path}/text", _characters(drawn, path))),
        letters=color_of(drawn, path, "letter_"),
        ground=color_of(drawn, path, "ground_") if drawn.flag(f"{path}/backed") else None,
        picture=facts.file if facts else None,
    )


def _nth(drawn: Draw, path: str, count: int) -> int:
    """Returns which of so many a share, 0 to 1, stands for."""
    return min(int(drawn.number(path) * count), count - 1)


def _characters(drawn: Draw, path: str) -> str:
    """Returns a line that means nothing, as of a lot or a shelf life."""
    rng = np.random.default_rng(drawn.count(f"{path}/seed"))
    length = int(drawn.number_or(f"{path}/length", _LENGTH))
    return "".join(_CHARACTERS[n] for n in rng.integers(len(_CHARACTERS), size=length))
