"""darktable's noise profiles, and the simulated sensors that they measure.

A profile gives the variance a x + b of each channel at the level x, 0 to 1, after demosaicing and white balance.
darktable's profiler (``tools/noise/noiseprofile.c``) takes it from the finest diagonal Haar coefficients, each
(p - q - r + s) / 4 of 2 x 2 pixels. For noise that is independent between pixels, their variance is a quarter of
that of a pixel.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ConfigDict, TypeAdapter

from sim2cam.data.parsing import convert_validation_errors, find_category_problem, read_json
from sim2cam.errors import InputError

_MAX_BYTES = 32 * 2**20
_VARIANCE_RATIO = 4.0
"""Variance of a pixel over that of its Haar coefficients."""
_MIN_RESPONSE, _MAX_RESPONSE = 0.05, 1.0
Channels = tuple[float, float, float]


@dataclass(frozen=True)
class NoiseProfile:
    """Measured noise of a camera at a sensitivity.

    Attributes:
        camera: Maker and model.
        iso: Sensitivity.
        a, b: Slope and offset of the variance of red, green and blue.
    """

    camera: str
    iso: float
    a: Channels
    b: Channels

    def to_sensor_factors(self) -> Mapping[str, float]:
        """Return the factors of ``Sensor`` whose noise the profiler would measure like that of the camera.

        Green sets the electrons, red and blue their response. Offsets below 0, from fits in which the shadows were
        clipped, become a read noise of 0.
        """
        red, green, blue = self.a
        full_well_e = 1 / (_VARIANCE_RATIO * green)
        return {
            "full_well_e": full_well_e,
            "read_noise_e": math.sqrt(max(_VARIANCE_RATIO * self.b[1], 0.0)) * full_well_e,
            "red_response": _compute_response(green, red),
            "blue_response": _compute_response(green, blue),
        }


def _compute_response(green: float, channel: float) -> float:
    """Return the electrons of white light in a channel over those in green; 1 for a channel without fit."""
    response = green / channel if channel > 0 else _MAX_RESPONSE
    return min(max(response, _MIN_RESPONSE), _MAX_RESPONSE)


@functools.lru_cache(maxsize=2)
def read_noise_profiles(path: Path) -> tuple[NoiseProfile, ...]:
    """Read a ``noiseprofiles.json``; profiles that it marks to be skipped, or without noise, are left out.

    Raises:
        InputError: If the file is missing, too large or broken.
    """
    tables = read_json(path, _MAX_BYTES, "noise profile")
    with convert_validation_errors(path, "Install the package again."):
        makers = _FILE.validate_python(tables).noiseprofiles
    profiles = []
    for maker in makers:
        for model in maker.models:
            camera = f"{maker.maker} {model.model}"
            problem = find_category_problem(camera)
            if problem is not None:
                raise InputError(path, problem)
            profiles += [
                NoiseProfile(camera, row.iso, row.a, row.b)
                for row in model.profiles
                if row.a[1] > 0 and not row.skip
            ]
    return tuple(profiles)


@dataclass(frozen=True)
class _Row:
    iso: float
    a: Channels
    b: Channels
    skip: bool = False

    __pydantic_config__ = ConfigDict(allow_inf_nan=False)


@dataclass(frozen=True)
class _Model:
    model: str
    profiles: list[_Row] = field(default_factory=list)


@dataclass(frozen=True)
class _Maker:
    maker: str
    models: list[_Model] = field(default_factory=list)


@dataclass(frozen=True)
class _File:
    noiseprofiles: list[_Maker]


_FILE: TypeAdapter[_File] = TypeAdapter(_File)
