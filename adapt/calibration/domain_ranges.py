"""Ranges: what a recipe draws around a fitted camera, as tables of its ``[domain]`` and ``[render]``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from sim2cam.adapt.calibration.camera_fit import CameraFit, ParameterEstimate
from sim2cam.geometry.lens import KannalaBrandt
from sim2cam.seeds import derive_rng

LENS_SAMPLES = 64
"""Lenses that a recipe draws from, each of which might as well be the camera's."""

_LENS_TABLE, _SENSOR_TABLE = "camera", "sensor"  # tables
_FACTOR_OF_PARAMETER = {
    "sensor.exposure_ev": ("exposure", "exposure_ev"),
    "sensor.red_gain": ("exposure", "red_gain"),
    "sensor.blue_gain": ("exposure", "blue_gain"),
    "sensor.vignetting": ("sensor", "vignetting"),
    "sensor.file_format": ("sensor", "file_format"),
    "sensor.jpeg_quality": ("sensor", "jpeg_quality"),
    "sensor.processing.jpeg_subsampling": ("processing", "jpeg_subsampling"),
    "glass.lateral_color.red": ("lateral_color", "red"),
    "glass.lateral_color.blue": ("lateral_color", "blue"),
}
"""The group and factor of a recipe that each finding decides; those of lenses are ``_lens``'s, those that
sensors have together are ``_sensors``'s, those of shutters and hands ``_make_motion_groups``'s."""
_FACTOR_BOUNDS = {
    "exposure_ev": (-8.0, 8.0),
    "red_gain": (0.05, 20.0),
    "blue_gain": (0.05, 20.0),
    "vignetting": (0.0, 1.0),
    "full_well_e": (1.0, 1e9),
    "read_noise_e": (0.0, 1e4),
    "red_response": (0.05, 1.0),
    "blue_response": (0.05, 1.0),
    "chroma_blur_px": (0.0, 20.0),
    "tone_contrast": (0.1, 5.0),
    "denoise": (0.0, 1.0),
    "sharpening": (0.0, 10.0),
    "blur_px": (0.0, 50.0),
    "jpeg_quality": (1.0, 100.0),
    "red": (-0.05, 0.05),
    "blue": (-0.05, 0.05),
    "exposure_s": (1e-6, 10.0),
    "readout_s": (0.0, 10.0),
}
_SCALE_EXPONENTS = {"blur_px": 1, "chroma_blur_px": 1, "read_noise_e": -1, "full_well_e": -2}
"""Powers of how much larger pictures are drawn by which numbers of pixels grow: half as large a picture has
pixels of four of the camera's."""
_TRUNCATION_STDS = 2.5  # standard deviations to which draws go
_INTERVAL_STDS = 2 * 1.96  # standard deviations in an interval


def make_recipe_tables(fit: CameraFit, width: int) -> dict[str, Any]:
    """Return the tables of a recipe that draws cameras around a fit, as far as the fit tells them.

    Lenses are drawn whole, and so are sensors, as their numbers are sure together. All other numbers follow
    normal laws that are as wide as they are unsure and as they differ from photo to photo; numbers without an
    interval are left to the recipe.

    Args:
        fit: of the camera.
        width: of the pictures that are drawn, pixels; they have the shape of the camera's.
    """
    scale = width / fit.width
    domain: dict[str, dict[str, Any]] = _make_lens_groups(fit) | _make_motion_groups(fit)
    for name, values in fit.sensor_samples.items():
        group, factor = _FACTOR_OF_PARAMETER.get(name) or name.split(".")[-2:]
        drawn = np.clip(
            np.array(values) * scale ** _SCALE_EXPONENTS.get(factor, 0), *_FACTOR_BOUNDS[factor]
        )
        spread = fit.get_estimate(name).photo_std  # from photo to photo
        column = _make_column(_SENSOR_TABLE, drawn.tolist())
        domain.setdefault(group, {})[factor] = _add_variation(column, spread) if spread else column
    for finding in fit.estimates:
        is_told = finding.ci95 is not None or isinstance(finding.value, str)
        if (
            finding.name in _FACTOR_OF_PARAMETER
            and finding.name not in fit.sensor_samples
            and is_told
        ):
            group, factor = _FACTOR_OF_PARAMETER[finding.name]
            domain.setdefault(group, {})[factor] = _make_distribution(finding, factor)
    return {"render": {"width": width, "height": round(fit.height * scale)}, "domain": domain}


def remove_camera_factors(tables: Mapping[str, Any], fit: CameraFit) -> dict[str, Any]:
    """Return a recipe's tables without what a fit has measured already, so that nothing is done twice.

    What the photos do not tell stays: glare, dirt and drops.
    """
    domain, render = (dict(tables.get(name, {})) for name in ("domain", "render"))
    processing = dict(domain.get("processing", {}))
    gone: set[str] = set()
    if fit.lens is not None:
        gone |= {"lens", "fisheye"}
    if "sensor.blur_px" in fit.sensor_samples:
        gone |= {"defocus", "field_blur"}
    if "sensor.full_well_e" in fit.sensor_samples:
        gone |= {"mosaic"}
        if "raw" in render.get("channels", ()):  # of a mosaic
            render["channels"] = [name for name in render["channels"] if name != "raw"]
        processing.pop("local_tone", None)
    if fit.get_estimate("sensor.exposure_ev").ci95 or fit.get_estimate("sensor.red_gain").ci95:
        gone |= {"automatics"}
    if fit.get_estimate("sensor.vignetting").ci95:
        processing.pop("shading_correction", None)
    kept = {name: group for name, group in domain.items() if name not in gone}
    if "processing" in kept:
        kept["processing"] = processing
    return {**tables, "render": render, "domain": kept}


def _make_column(table: str, values: list[float]) -> dict[str, Any]:
    return {"kind": "column", "table": table, "values": values}


def _add_variation(distribution: dict[str, Any], std: float) -> dict[str, Any]:
    turn = {
        "kind": "normal",
        "mean": 0.0,
        "std": std,
        "low": -_TRUNCATION_STDS * std,
        "high": _TRUNCATION_STDS * std,
    }
    return {"kind": "sum", "of": [distribution, turn]}


def _make_distribution(estimate: ParameterEstimate, factor: str) -> dict[str, Any]:
    if not isinstance(estimate.value, int | float) or estimate.ci95 is None:
        return {"kind": "constant", "value": estimate.value}
    low, high = estimate.ci95
    std = math.hypot((high - low) / _INTERVAL_STDS, estimate.photo_std or 0.0)
    least, most = _FACTOR_BOUNDS[factor]
    middle = min(max(estimate.value, least), most)
    ends = max(least, middle - _TRUNCATION_STDS * std), min(most, middle + _TRUNCATION_STDS * std)
    whole = factor == "jpeg_quality"
    if ends[1] <= ends[0]:
        return {"kind": "constant", "value": round(middle) if whole else middle}
    drawn = {"kind": "normal", "mean": middle, "std": std, "low": ends[0], "high": ends[1]}
    return {"kind": "rounded", "of": drawn} if whole else drawn


def _make_motion_groups(fit: CameraFit) -> dict[str, dict[str, Any]]:
    """Return the groups of shutter and motion, where hands are seen to move the picture."""
    exposure, spin = fit.get_estimate("shutter.exposure_s"), fit.get_estimate("twist.spin_rad_s")
    if exposure.ci95 is None or not isinstance(spin.value, float):
        return {}
    if spin.ci95 is None or spin.ci95[0] <= 0:
        return {}
    readout, std = fit.get_estimate("shutter.readout_s"), spin.value
    turns = {
        "kind": "normal",
        "mean": 0.0,
        "std": std,
        "low": -_TRUNCATION_STDS * std,
        "high": _TRUNCATION_STDS * std,
    }
    names = ("right_m_s", "down_m_s", "forward_m_s", "roll_rad_s")
    return {
        "shutter": {
            "exposure_s": _make_distribution(exposure, "exposure_s"),
            "readout_s": _ZERO
            if readout.value is None
            else _make_distribution(readout, "readout_s"),
        },
        "motion": dict.fromkeys(names, _ZERO) | dict.fromkeys(("pitch_rad_s", "yaw_rad_s"), turns),
    }


_ZERO = {"kind": "constant", "value": 0.0}


def _make_lens_groups(fit: CameraFit) -> dict[str, dict[str, Any]]:
    """Return the groups that decide the lens: columns of one table, a row for each lens."""
    if fit.lens is None:
        return {}
    rng, width = derive_rng(0, _LENS_TABLE), fit.width
    lenses = [fit.lens.sample(rng, (fit.width, fit.height)) for _ in range(LENS_SAMPLES)]
    bends = {
        name: [float(getattr(lens, name)) for lens in lenses]
        for name in ("k1", "k2", "p1", "p2", "k3", "k4", "k5", "k6", "s1", "s2", "s3", "s4")
        if hasattr(lenses[0], name)
    }
    groups = {
        "lens": {
            "shift_x": [(lens.cx_px - (width - 1) / 2) / width for lens in lenses],
            "shift_y": [(lens.cy_px - (fit.height - 1) / 2) / width for lens in lenses],
            "aspect": [lens.fy_px / lens.fx_px for lens in lenses],
        }
    }
    halves = [width / 2 / lens.fx_px for lens in lenses]
    if isinstance(lenses[0], KannalaBrandt):
        groups |= {"view": {"fov_rad": [2 * half for half in halves]}, "fisheye": bends}
        groups["lens"] |= {name: [0.0] * LENS_SAMPLES for name in ("k1", "k2", "p1", "p2")}
    else:
        groups["view"] = {"fov_rad": [2 * math.atan(half) for half in halves]}
        groups["lens"] |= bends
    return {
        group: {name: _make_column(_LENS_TABLE, values) for name, values in factors.items()}
        for group, factors in groups.items()
    }
