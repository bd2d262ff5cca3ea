"""Camera intrinsics of a calibration."""

from __future__ import annotations

from dataclasses import dataclass

from sim2cam.geometry.lens import Lens


@dataclass(frozen=True)
class Intrinsics:
    """A calibrated camera without its pose.

    Attributes:
        name: Name in the file; empty without one.
        width, height: Image size in pixels.
        lens: Lens model, with integer pixel centres for every file format.
    """

    name: str
    width: int
    height: int
    lens: Lens
