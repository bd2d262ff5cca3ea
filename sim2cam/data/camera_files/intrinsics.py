"""Intrinsics: what a calibration knows of a camera."""

from __future__ import annotations

from dataclasses import dataclass

from sim2cam.geometry.lens import Lens


@dataclass(frozen=True)
class Intrinsics:
    """A calibrated camera, without its pose.

    Attributes:
        name: what its file calls it; empty where it has no name.
        width, height: of its pictures, pixels.
        lens: pixels have integers at their centres, whatever the file says.
    """

    name: str
    width: int
    height: int
    lens: Lens
