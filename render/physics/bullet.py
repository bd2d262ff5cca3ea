"""The pybullet world of this process, opened without messages on standard output."""

from __future__ import annotations

import atexit
import functools
from typing import TYPE_CHECKING

from sim2cam.engines.silence import silent_output

if TYPE_CHECKING:
    from pybullet_utils.bullet_client import BulletClient

SCALE = 20.0
"""Bullet length units per metre: Bullet is tuned for bodies of 0.1 to 10 units; dice are 0.016 m.

Masses are not scaled, so forces scale by this factor and inertias by its square.
"""


def reset_world() -> BulletClient:
    """Return the emptied world of this process."""
    world = _create_world()
    world.resetSimulation()
    return world


@functools.cache
def _create_world() -> BulletClient:
    """Return a world without a window; creating one is slower than simulating many scenes."""
    with silent_output():
        import pybullet
        from pybullet_utils.bullet_client import BulletClient

        atexit.register(_create_world.cache_clear)  # before the modules that it needs are unloaded
        return BulletClient(pybullet.DIRECT)
