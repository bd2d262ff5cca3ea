"""Formation: the steps in which a camera makes a picture of light, each of which can be left out."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from typing import Any, Literal, get_args

from sim2cam.scene.camera import Camera

FormationStage = Literal["lens", "exposure", "tone", "sharpness", "noise", "jpeg"]

FORMATION_STAGES: tuple[FormationStage, ...] = get_args(FormationStage)
"""In the order in which a gap is looked for. ``lens`` is all that moves or takes away light: bending,
fall-off, fringes, glare, dirt, shutter and motion; ``exposure`` is white balance too, ``tone`` is
colour strength too, ``sharpness`` is blur and sharpening, ``noise`` is colour filters and noise filters
too."""

_NEUTRAL_SENSOR: dict[FormationStage, dict[str, Any]] = {
    "lens": {"vignetting": 0.0},
    "exposure": {"exposure_ev": 0.0, "red_gain": 1.0, "blue_gain": 1.0, "automatics": None},
    "tone": {"tone_contrast": 1.0, "tone_shoulder": 1.0, "saturation": 1.0},
    "sharpness": {"blur_px": 0.0, "sharpening": 0.0},
    "noise": {
        "full_well_e": math.inf, "read_noise_e": 0.0, "denoise": 0.0, "mosaic": None,
        "red_response": 1.0, "blue_response": 1.0,
    },
    "jpeg": {"file_format": "png"},
}  # fmt: skip
_NEUTRAL_PROCESSING: dict[FormationStage, dict[str, Any]] = {
    "lens": {"shading_correction": 0.0},
    "tone": {"local_tone": 0.0},
    "noise": {"chroma_blur_px": 0.0},
}
_NEUTRAL_LENS_EFFECTS: dict[FormationStage, dict[str, Any]] = {
    "lens": {"lateral_color": None, "glare": None, "dirt": None, "droplets": None},
    "sharpness": {"defocus": None, "field_blur": None},
}
_NEUTRAL_CAMERA: dict[FormationStage, dict[str, Any]] = {"lens": {"shutter": None, "twist": None}}
"""What each part of a camera is without a step."""
_DISTORTION_COEFFICIENTS = {f"{letter}{number}" for letter in "kps" for number in range(1, 7)}


def keep_stages(camera: Camera, stages: Collection[FormationStage]) -> Camera:
    """Return the camera that makes its pictures by some steps alone; without any, it is a pinhole
    with a meter and the curve of sRGB.

    Lenses measured as tables bend as they do.
    """
    off = [step for step in FORMATION_STAGES if step not in stages]
    glass = _neutralise(camera.glass, _NEUTRAL_LENS_EFFECTS, off)
    processing = _neutralise(camera.sensor.processing, _NEUTRAL_PROCESSING, off)
    sensor = replace(_neutralise(camera.sensor, _NEUTRAL_SENSOR, off), processing=processing)
    lens = camera.lens if "lens" in stages else _remove_distortion(camera.lens)
    return replace(
        camera, lens=lens, sensor=sensor, glass=glass, **_get_neutral_values(_NEUTRAL_CAMERA, off)
    )


def _neutralise(
    part: Any,
    table: Mapping[FormationStage, Mapping[str, Any]],
    disabled: Collection[FormationStage],
) -> Any:
    return part if part is None else replace(part, **_get_neutral_values(table, disabled))


def _get_neutral_values(
    table: Mapping[FormationStage, Mapping[str, Any]], disabled: Collection[FormationStage]
) -> dict[str, Any]:
    return {name: value for step in disabled for name, value in table.get(step, {}).items()}


def _remove_distortion(lens: Any) -> Any:
    return replace(
        lens, **{f.name: 0.0 for f in fields(lens) if f.name in _DISTORTION_COEFFICIENTS}
    )
