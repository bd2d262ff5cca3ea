"""Recipe tables ``[domain]`` and ``[render]`` that sample cameras around a calibrated one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from sim2cam.adapt.calibration.camera_fit import CameraFit, ParameterEstimate
from sim2cam.geometry.lens import KannalaBrandt
from sim2cam.seeds import derive_rng

LENS_SAMPLES = 64
"""Number of sampled lenses in a recipe."""

_LENS_TABLE, _SENSOR_TABLE = "camera", "sensor"  # tables of jointly sampled columns
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
"""Group and factor of each independent parameter. Lens parameters are in ``_make_lens_groups``,
shutter and motion in ``_make_motion_groups``; joint sensor parameters keep their names."""
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
"""Exponents of the image scale for parameters that depend on pixel size: at half size, one pixel
covers four pixels of the camera."""
_TRUNCATION_STDS = 2.5  # standard deviations at which normal distributions are truncated
_INTERVAL_STDS = 2 * 1.96  # width of a 95 % interval in standard deviations


def make_recipe_tables(fit: CameraFit, width: int) -> dict[str, Any]:
    """Return recipe tables that sample cameras around a calibrated one.

    Lenses and sensors are sampled jointly. All other parameters follow normal distributions with
    the combined uncertainty and variation between photos; parameters without an interval are
    omitted.

    Args:
        width: width of the rendered images in pixels; they have the aspect ratio of the camera.
    """
    scale = width / fit.width
    domain: dict[str, dict[str, Any]] = _make_lens_groups(fit) | _make_motion_groups(fit)
    for name, values in fit.sensor_samples.items():
        group, factor = _FACTOR_OF_PARAMETER.get(name) or name.split(".")[-2:]
        scaled = np.clip(
            np.array(values) * scale ** _SCALE_EXPONENTS.get(factor, 0), *_FACTOR_BOUNDS[factor]
        )
        photo_std = fit.get_estimate(name).photo_std
        column = _make_column(_SENSOR_TABLE, scaled.tolist())
        domain.setdefault(group, {})[factor] = (
            _add_variation(column, photo_std) if photo_std else column
        )
    for estimate in fit.estimates:
        is_determined = estimate.ci95 is not None or isinstance(estimate.value, str)
        is_independent = (
            estimate.name in _FACTOR_OF_PARAMETER and estimate.name not in fit.sensor_samples
        )
        if is_determined and is_independent:
            group, factor = _FACTOR_OF_PARAMETER[estimate.name]
            domain.setdefault(group, {})[factor] = _make_distribution(estimate, factor)
    return {"render": {"width": width, "height": round(fit.height * scale)}, "domain": domain}


def remove_camera_factors(tables: Mapping[str, Any], fit: CameraFit) -> dict[str, Any]:
    """Return recipe tables without camera factors that the calibration replaces.

    Factors that photos do not determine remain: glare, dirt and droplets.
    """
    domain, render = (dict(tables.get(name, {})) for name in ("domain", "render"))
    processing = dict(domain.get("processing", {}))
    replaced: set[str] = set()
    if fit.lens is not None:
        replaced |= {"lens", "fisheye"}
    if "sensor.blur_px" in fit.sensor_samples:
        replaced |= {"defocus", "field_blur"}
    if "sensor.full_well_e" in fit.sensor_samples:
        replaced |= {"mosaic"}
        if "raw" in render.get("channels", ()):  # needs a mosaic
            render["channels"] = [name for name in render["channels"] if name != "raw"]
        processing.pop("local_tone", None)
    if fit.get_estimate("sensor.exposure_ev").ci95 or fit.get_estimate("sensor.red_gain").ci95:
        replaced |= {"automatics"}
    if fit.get_estimate("sensor.vignetting").ci95:
        processing.pop("shading_correction", None)
    remaining = {name: group for name, group in domain.items() if name not in replaced}
    if "processing" in remaining:
        remaining["processing"] = processing
    return {**tables, "render": render, "domain": remaining}


def _make_column(table: str, values: list[float]) -> dict[str, Any]:
    return {"kind": "column", "table": table, "values": values}


def _add_variation(distribution: dict[str, Any], std: float) -> dict[str, Any]:
    return {"kind": "sum", "of": [distribution, _make_zero_mean_normal(std)]}


def _make_zero_mean_normal(std: float) -> dict[str, Any]:
    bound = _TRUNCATION_STDS * std
    return {"kind": "normal", "mean": 0.0, "std": std, "low": -bound, "high": bound}


def _make_distribution(estimate: ParameterEstimate, factor: str) -> dict[str, Any]:
    if not isinstance(estimate.value, int | float) or estimate.ci95 is None:
        return {"kind": "constant", "value": estimate.value}
    low, high = estimate.ci95
    std = math.hypot((high - low) / _INTERVAL_STDS, estimate.photo_std or 0.0)
    minimum, maximum = _FACTOR_BOUNDS[factor]
    mean = min(max(estimate.value, minimum), maximum)
    bounds = (
        max(minimum, mean - _TRUNCATION_STDS * std),
        min(maximum, mean + _TRUNCATION_STDS * std),
    )
    is_integer = factor == "jpeg_quality"
    if bounds[1] <= bounds[0]:
        return {"kind": "constant", "value": round(mean) if is_integer else mean}
    normal = {"kind": "normal", "mean": mean, "std": std, "low": bounds[0], "high": bounds[1]}
    return {"kind": "rounded", "of": normal} if is_integer else normal


def _make_motion_groups(fit: CameraFit) -> dict[str, dict[str, Any]]:
    """Return the groups of shutter and motion if camera shake is significant."""
    exposure, spin = fit.get_estimate("shutter.exposure_s"), fit.get_estimate("twist.spin_rad_s")
    if exposure.ci95 is None or not isinstance(spin.value, float):
        return {}
    if spin.ci95 is None or spin.ci95[0] <= 0:
        return {}
    readout = fit.get_estimate("shutter.readout_s")
    names = ("right_m_s", "down_m_s", "forward_m_s", "roll_rad_s")
    return {
        "shutter": {
            "exposure_s": _make_distribution(exposure, "exposure_s"),
            "readout_s": _ZERO
            if readout.value is None
            else _make_distribution(readout, "readout_s"),
        },
        "motion": dict.fromkeys(names, _ZERO)
        | dict.fromkeys(("pitch_rad_s", "yaw_rad_s"), _make_zero_mean_normal(spin.value)),
    }


_ZERO = {"kind": "constant", "value": 0.0}


def _make_lens_groups(fit: CameraFit) -> dict[str, dict[str, Any]]:
    """Return the groups of the lens: columns of one table with a row for each lens."""
    if fit.lens is None:
        return {}
    rng, width = derive_rng(0, _LENS_TABLE), fit.width
    lenses = [fit.lens.sample(rng, (fit.width, fit.height)) for _ in range(LENS_SAMPLES)]
    distortion = {
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
    half_widths = [width / 2 / lens.fx_px for lens in lenses]
    if isinstance(lenses[0], KannalaBrandt):
        groups |= {
            "view": {"fov_rad": [2 * half_width for half_width in half_widths]},
            "fisheye": distortion,
        }
        groups["lens"] |= {name: [0.0] * LENS_SAMPLES for name in ("k1", "k2", "p1", "p2")}
    else:
        groups["view"] = {"fov_rad": [2 * math.atan(half_width) for half_width in half_widths]}
        groups["lens"] |= distortion
    return {
        group: {name: _make_column(_LENS_TABLE, values) for name, values in factors.items()}
        for group, factors in groups.items()
    }
