"""Image-formation stages of a camera, each of which can be disabled."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from typing import Any, Literal, get_args

from sim2cam.scene.camera import Camera

FormationStage = Literal["lens", "exposure", "tone", "sharpness", "noise", "jpeg"]

FORMATION_STAGES: tuple[FormationStage, ...] = get_args(FormationStage)
"""Stages in the order of the stage-wise domain gap. ``lens``: distortion, vignetting, lateral colour, glare, dirt,
shutter and motion. ``exposure`` includes white balance, ``tone`` saturation, ``sharpness`` blur and sharpening,
``noise`` the colour filter array and denoising.
"""

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
    "lens": {
        "lateral_color": None, "falloff": None, "glare": None, "dirt": None, "droplets": None,
    },
    "sharpness": {"defocus": None, "field_blur": None},
}  # fmt: skip
_NEUTRAL_CAMERA: dict[FormationStage, dict[str, Any]] = {"lens": {"shutter": None, "twist": None}}
"""Values that disable a stage, by stage."""
_DISTORTION_COEFFICIENTS = {f"{letter}{number}" for letter in "kps" for number in range(1, 7)}


def keep_stages(camera: Camera, stages: Collection[FormationStage]) -> Camera:
    """Return a camera with only some image-formation stages.

    Without any stage it is a pinhole, or an equidistant fisheye, with auto-exposure and the sRGB curve. Lenses given
    as tables keep their distortion.
    """
    disabled = [stage for stage in FORMATION_STAGES if stage not in stages]
    glass = _neutralise(camera.glass, _NEUTRAL_LENS_EFFECTS, disabled)
    processing = _neutralise(camera.sensor.processing, _NEUTRAL_PROCESSING, disabled)
    sensor = replace(_neutralise(camera.sensor, _NEUTRAL_SENSOR, disabled), processing=processing)
    lens = camera.lens if "lens" in stages else _remove_distortion(camera.lens)
    return replace(
        camera,
        lens=lens,
        sensor=sensor,
        glass=glass,
        **_get_neutral_values(_NEUTRAL_CAMERA, disabled),
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
    return {name: value for stage in disabled for name, value in table.get(stage, {}).items()}


def _remove_distortion(lens: Any) -> Any:
    return replace(
        lens,
        **{field.name: 0.0 for field in fields(lens) if field.name in _DISTORTION_COEFFICIENTS},
    )
