"""Bullet without its chatter: it greets on standard output, which belongs to our results."""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pybullet_utils.bullet_client import BulletClient

SCALE = 20.0
"""Bullet's units a metre: it is made for bodies of 0.1 to 10 units, and dice are 0.016 m long.

Masses stay as they are, so forces are as many times larger, and inertias by the square.
"""


def empty_world() -> BulletClient:
    """Returns this process's world, emptied; what was made in it before is gone."""
    world = _world()
    world.resetSimulation()
    return world


@functools.cache
def _world() -> BulletClient:
    """Returns a world without a window, which takes longer to make than many a scene to settle."""
    with silent_output():
        import pybullet
        from pybullet_utils.bullet_client import BulletClient

        atexit.register(_world.cache_clear)  # while what closing it needs is there
        return BulletClient(pybullet.DIRECT)


@contextmanager
def silent_output() -> Iterator[None]:
    """Sends what C code prints, on both streams, nowhere."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [(fd, os.dup(fd)) for fd in (1, 2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for fd, _ in kept:
            os.dup2(nowhere, fd)
        yield
    finally:
        ctypes.CDLL(None).fflush(None)  # what C keeps until later, where output is no terminal
        for fd, copy in kept:
            os.dup2(copy, fd)
            os.close(copy)
        os.close(nowhere)
