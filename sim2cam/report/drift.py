"""Page of a drift test: which camera parameters changed since calibration."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sim2cam.adapt.calibration.camera_features import CAMERA_STATISTICS, DETECTOR_STATISTICS
from sim2cam.adapt.calibration.drift import DriftReport
from sim2cam.adapt.calibration.parameter_changes import ALPHA, ParameterShift
from sim2cam.metrics.verdict import Finding, Verdict
from sim2cam.report.page import write_page

_THRESHOLDS = {
    statistic.name: 100 * math.expm1(statistic.min_shift)
    if statistic.unit == "%"
    else statistic.min_shift
    for statistic in (*CAMERA_STATISTICS, *DETECTOR_STATISTICS)
}
"""Largest shift of each statistic that counts as stable, in its unit."""

MIN_P_VALUE = 0.001
"""Smallest p-value that is shown as a number."""
_SCENE_REMEDY = (
    "Compare with photos of the same scenes and light. If the change remains, calibrate again."
)
_COLOUR_REMEDY = f"Check the white balance setting and the lamps. {_SCENE_REMEDY}"
_EDGES_REMEDY = "Check the focus and clean the lens. If the change remains, calibrate again."
_FILE_REMEDY = (
    "Check the quality setting and the firmware. Use the files as the camera writes them."
)
_DETECTOR_REMEDY = "Score the detector on new labelled photos with sim2cam bench."
REMEDIES: Mapping[str, str] = {
    "camera": "These photos show another camera or another size. Calibrate this camera.",
    "software": "The firmware was updated. Calibrate again if other measures drifted too.",
    "lens": "The lens or its focus moved. Calibrate again with 15 photos of the board, and check that the lens is fixed.",
    "sensor.exposure_ev": f"Check the exposure setting and the light. {_SCENE_REMEDY}",
    "sensor.red_gain": _COLOUR_REMEDY,
    "sensor.blue_gain": _COLOUR_REMEDY,
    "sensor.tone_contrast": f"Check the colour profile. {_SCENE_REMEDY}",
    "sensor.saturation": f"Check the colour profile. {_SCENE_REMEDY}",
    "glass.glare.veil": f"Clean the lens, and check for light that shines into it. {_SCENE_REMEDY}",
    "sensor.vignetting": "Check for dirt, a filter or a hood in front of the lens. Calibrate again if it stays.",
    "sensor.full_well_e": f"Check the gain (ISO) and the light. {_SCENE_REMEDY}",
    "sensor.denoise": f"Check the noise reduction setting. {_SCENE_REMEDY}",
    "sensor.blur_px": _EDGES_REMEDY,
    "sensor.sharpening": _EDGES_REMEDY,
    "glass.lateral_color.red": _EDGES_REMEDY,
    "glass.lateral_color.blue": _EDGES_REMEDY,
    "sensor.jpeg_quality": _FILE_REMEDY,
    "sensor.processing.jpeg_subsampling": _FILE_REMEDY,
    "detector.ood_score": _DETECTOR_REMEDY,
    "detector.confidence": _DETECTOR_REMEDY,
}
"""What to do about each drifted parameter."""


@dataclass(frozen=True)
class DriftRow:
    """Table row of a parameter, as text."""

    shift: ParameterShift
    change: str
    interval: str
    threshold: str
    p_value: str
    remedy: str


def write_drift_page(report: DriftReport, camera_file: Path, photos: Path, out: Path) -> Path:
    """Write a self-contained page and return its path.

    Args:
        camera_file: calibrated camera.
        photos: new photos.

    Raises:
        OutputError: If the page cannot be written.
    """
    return write_page(
        out,
        "drift.html",
        report=report,
        camera_file=camera_file,
        verdict=summarize_drift(report, camera_file, photos),
        rows=[_build_row(shift) for shift in report.shifts],
        alpha=ALPHA,
    )


def summarize_drift(report: DriftReport, camera_file: Path, photos: Path) -> Verdict:
    """Return findings on drifted parameters, with next steps."""
    shifts = {
        status: [shift for shift in report.shifts if shift.status == status]
        for status in ("drifted", "stable", "undetermined")
    }
    drifted = shifts["drifted"]
    changes = (
        Finding(
            f"{_capitalize(shift.description)}: {_format_evidence(shift)}. {REMEDIES[shift.name]}",
            "problem",
        )
        for shift in drifted
    )
    counts = Finding(
        f"{report.photos} photos; stable measures: {len(shifts['stable'])}; undetermined measures: "
        f"{len(shifts['undetermined'])}.",
        "note",
    )
    if not drifted:
        missing = (
            Finding(f"{_capitalize(shift.description)}: {shift.note}", "next")
            for shift in shifts["undetermined"]
        )
        return Verdict((Finding("No drift detected.", "good"), counts, *missing))
    names = ", ".join(shift.description for shift in drifted)
    paths = [shlex.quote(str(path)) for path in (photos, camera_file)]
    again = Finding(
        "Calibrate again, then render and train with the new camera.",
        "next",
        "sim2cam calibrate {} --out {} --overwrite".format(*paths),
    )
    return Verdict((Finding(f"The camera changed: {names}.", "problem"), *changes, counts, again))


def _build_row(shift: ParameterShift) -> DriftRow:
    threshold = _THRESHOLDS.get(shift.name)
    return DriftRow(
        shift,
        change="" if shift.shift is None else f"{shift.shift:+.2g} {shift.unit}",
        interval="" if shift.ci95 is None else "{:+.2g} to {:+.2g}".format(*shift.ci95),
        threshold="p alone" if threshold is None else f"{threshold:.2g} {shift.unit}",
        p_value="" if shift.p_value is None else _format_p_value(shift.p_value),
        remedy=REMEDIES[shift.name] if shift.status == "drifted" else "",
    )


def _format_evidence(shift: ParameterShift) -> str:
    """Return the change with its interval and p-value; for metadata the old and the new value."""
    row = _build_row(shift)
    if not row.change:
        return shift.note
    sign = "" if row.p_value.startswith("<") else "= "
    return f"{row.change} (95 % interval {row.interval}, p {sign}{row.p_value})"


def _format_p_value(p_value: float) -> str:
    return f"{p_value:.2g}" if p_value >= MIN_P_VALUE else f"< {MIN_P_VALUE:g}"


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]
