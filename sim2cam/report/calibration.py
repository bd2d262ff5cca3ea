"""Page of a camera calibration: estimated parameters, their intervals, and what to do next."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sim2cam.adapt.calibration.camera_fit import CameraFit, ParameterEstimate
from sim2cam.adapt.calibration.lens import FittedLens
from sim2cam.metrics.verdict import Finding, Verdict
from sim2cam.report.camera_charts import (
    build_edge_chart,
    build_line_grid_chart,
    build_noise_chart,
    build_projection_chart,
    build_radial_error_chart,
    build_residual_chart,
    build_vignetting_chart,
)
from sim2cam.report.camera_parameters import PARAMETER_GROUPS, ParameterText
from sim2cam.report.charts import build_bar_chart
from sim2cam.report.page import write_page

_UNCERTAINTY_DIGITS = 2  # significant digits of the half width of an interval
_MAX_DECIMALS = 6
_ASSUMED_PARAMETERS = ("sensor.tone_contrast", "sensor.tone_shoulder", "sensor.saturation")
"""Parameters that no photo determines; the renderer assumes a range."""


@dataclass(frozen=True)
class ParameterRow:
    """Table row of a parameter, as text."""

    name: str
    text: ParameterText
    value: str
    interval: str
    photo_std: str
    note: str


@dataclass(frozen=True)
class ExcludedPhotos:
    """Photos that were not used, and why."""

    photos: str
    cause: str


def write_calibration_page(fit: CameraFit, camera_file: Path, out: Path) -> Path:
    """Write a self-contained page and return its path.

    Args:
        camera_file: file that recipes name.

    Raises:
        OutputError: If the page cannot be written.
    """
    builders = (
        build_line_grid_chart,
        build_projection_chart,
        build_residual_chart,
        build_radial_error_chart,
        build_vignetting_chart,
        build_noise_chart,
        build_edge_chart,
    )
    held_out = fit.lens.held_out_rms_px if fit.lens else {}
    return write_page(
        out,
        "calibration.html",
        fit=fit,
        verdict=summarize_calibration(fit, camera_file),
        groups=_build_groups(fit),
        charts=[chart for build in builders if (chart := build(fit)) is not None],
        models_chart=build_bar_chart("RMS reprojection error on held-out photos, px", held_out),
        excluded=tuple(_list_excluded(fit)),
    )


def summarize_calibration(fit: CameraFit, camera_file: Path) -> Verdict:
    """Return findings on estimated and missing parameters, with next steps."""
    known = [estimate for estimate in fit.estimates if estimate.value is not None]
    sensors = len(next(iter(fit.sensor_samples.values()), ()))
    return Verdict(
        (
            *_describe_lens(fit),
            Finding(
                f"{len(known)} of {len(fit.estimates)} parameters are estimated from {fit.photos} photos, "
                f"{fit.boards} of them with a board.",
                "note",
            ),
            Finding(
                f"{sensors} simulated sensors reproduce noise and sharpness of the photos; recipes sample them jointly.",
                "good",
            )
            if sensors
            else Finding("Noise and sharpness are not estimated.", "problem"),
            *_list_next_steps(fit, camera_file),
        )
    )


def _describe_lens(fit: CameraFit) -> Iterator[Finding]:
    lens, focal = fit.lens, fit.get_estimate("lens.fx_px")
    if lens is None:
        reason = focal.note.split(". ")[0].rstrip(".")
        text = f"The lens is not estimated: {reason}." if reason else "The lens is not estimated."
        yield Finding(text, "problem")
        return
    model = _get_model_name(lens)
    error = lens.held_out_rms_px.get(model, lens.rms_px)
    yield Finding(
        f"The lens is known to {error:.2f} px (RMS reprojection error on held-out photos; fit: {lens.rms_px:.2f} px).",
        "good",
    )
    if isinstance(focal.value, float) and focal.ci95 is not None:
        percent = 50 * (focal.ci95[1] - focal.ci95[0]) / focal.value
        yield Finding(
            f"Lens model {model}, focal length {focal.value:.1f} px ± {percent:.1f} % (95 % interval). The boards "
            f"reach {100 * min(lens.corner_coverage, 1.0):.0f} % of the distance from the centre of the image to its "
            "corner.",
            "note",
        )


def _get_model_name(lens: FittedLens) -> str:
    """Return the name of the model in the cross-validation; a pinhole has no distortion."""
    return lens.kind if "k1" in lens.parameter_names else "pinhole"


def _list_next_steps(fit: CameraFit, camera_file: Path) -> Iterator[Finding]:
    path = json.dumps(str(camera_file.resolve()), ensure_ascii=False)
    yield Finding(
        f"Sample cameras around this one: write camera = {path} into a recipe, and render it.",
        "next",
        "sim2cam render RECIPE.toml --out RENDERS --count 400",
    )
    for note, names in _group_missing(fit).items():
        yield Finding(f"To estimate {', '.join(names)}: {note}", "next")
    yield Finding(
        "Check later photos for changes.",
        "next",
        f"sim2cam drift {shlex.quote(str(camera_file))} PHOTOS --out drift.json",
    )


def _group_missing(fit: CameraFit) -> dict[str, list[str]]:
    """Return the titles of parameters that photos could determine and did not, by note."""
    missing: dict[str, list[str]] = {}
    for _, name, text in _iterate_texts():
        estimate = fit.get_estimate(name)
        if estimate.value is None and estimate.note and name not in _ASSUMED_PARAMETERS:
            title = "the lens" if name == "lens.fx_px" else text.title
            missing.setdefault(estimate.note, []).append(title)
    return missing


def _build_groups(fit: CameraFit) -> dict[str, list[ParameterRow]]:
    groups: dict[str, list[ParameterRow]] = {}
    estimates = {estimate.name: estimate for estimate in fit.estimates}
    for group, name, text in _iterate_texts():
        if name in estimates:
            groups.setdefault(group, []).append(_format_row(estimates[name], text))
    return groups


def _iterate_texts() -> Iterator[tuple[str, str, ParameterText]]:
    for group, texts in PARAMETER_GROUPS.items():
        for name, text in texts.items():
            yield group, name, text


def _format_row(estimate: ParameterEstimate, text: ParameterText) -> ParameterRow:
    """Format an estimate; its uncertainty sets the decimals, and no interval is shown for constants."""
    value, (low, high) = estimate.value, estimate.ci95 or (0.0, 0.0)
    decimals = None
    if high > low:
        decimals = _UNCERTAINTY_DIGITS - 1 - math.floor(math.log10((high - low) / 2))
        decimals = min(max(decimals, 0), _MAX_DECIMALS)

    def format_value(number: float) -> str:
        return f"{number:.5g}" if decimals is None else f"{number:.{decimals}f}"

    return ParameterRow(
        estimate.name,
        text,
        value=format_value(value) if isinstance(value, int | float) else value or "",
        interval=f"{format_value(low)} to {format_value(high)}" if high > low else "",
        photo_std=f"{estimate.photo_std:.2g}" if estimate.photo_std else "",
        note=estimate.note,
    )


def _list_excluded(fit: CameraFit) -> Iterator[ExcludedPhotos]:
    for camera, count in fit.other_cameras.items():
        yield ExcludedPhotos(f"{count} photos", f"taken by another camera: {camera}")
    for name, reason in fit.skipped.items():
        yield ExcludedPhotos(name, reason)
    for name, orientation in fit.rotated_boards.items():
        yield ExcludedPhotos(
            name, f"excluded from the lens: EXIF orientation {orientation}, not {fit.orientation}"
        )
    if fit.lens is not None:
        for name, error in fit.lens.outliers.items():
            yield ExcludedPhotos(
                name,
                f"excluded from the lens: reprojection error {error:.2f} px, no lens fits this board",
            )
