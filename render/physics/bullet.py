"""Bullet without its chatter: it greets on standard output, which belongs to our results."""

from __future__ import annotations

import atexit
import functools
from typing import TYPE_CHECKING

from sim2cam.engines.silence import silent_output

if TYPE_CHECKING:
    from pybullet_utils.bullet_client import BulletClient

SCALE = 20.0
"""Bullet's units a metre: it is made for bodies of 0.1 to 10 units, and dice are 0.016 m long.

Masses stay as they are, so forces are as many times larger, and inertias by the square.
"""


def reset_world() -> BulletClient:
    """Return this process's world, emptied; what was made in it before is gone."""
    world = _create_world()
    world.resetSimulation()
    return world


@functools.cache
def _create_world() -> BulletClient:
    """Return a world without a window, which takes longer to make than many a scene to settle."""
    with silent_output():
        import pybullet
        from pybullet_utils.bullet_client import BulletClient

        atexit.register(_create_world.cache_clear)  # while what closing it needs is there
        return BulletClient(pybullet.DIRECT)
