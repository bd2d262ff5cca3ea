"""Commands ``calibrate`` and ``drift``: camera parameters from photos and their changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sim2cam.commands.options import (
    Argument,
    Option,
    OutputOptions,
    Overwrite,
    check_inputs,
    check_numbers,
    check_output_files,
)
from sim2cam.commands.results import Result
from sim2cam.errors import SpecError, UsageError

if TYPE_CHECKING:
    from sim2cam.adapt.calibration.camera_fit import CameraFit, ParameterEstimate
    from sim2cam.adapt.calibration.detector_drift import DetectorMonitor
    from sim2cam.adapt.calibration.drift import DriftReport
    from sim2cam.adapt.calibration.parameter_changes import ParameterShift
    from sim2cam.objects.board import Board

_MonitorWeights = Annotated[Path | None, Option("WEIGHTS")]
_BoardText = Annotated[str | None, Option("PATTERN:COLUMNSxROWS:DICTIONARY:SHARE")]


@dataclass(frozen=True)
class Calibrate:
    """Estimate lens and sensor parameters from photos.

    Recipes sample cameras around the estimate with camera = FILE.
    """

    captures: Annotated[Path, Argument("CAPTURES")]
    """Photo, folder of photos, or COCO file. The lens is estimated from photos of a chessboard."""
    out: Path | None = None
    """Output file, such as camera.json; a page (.html) is written next to it. Without it the result is only printed."""
    board: _BoardText = None
    """Marker board, such as charuco:8x6:4x4_50:0.7 or markers:6x5:apriltag_36h11:0.8; SHARE is the ratio of marker side to square side. Chessboards are detected without this flag."""
    monitor: _MonitorWeights = None
    """Detector whose OOD score and confidence are recorded, so that drift can detect their change."""
    seed: int = 0
    """Random seed of the bootstrap and the parameter search."""
    overwrite: Overwrite = False
    output: OutputOptions = field(default_factory=OutputOptions)

    def run(self) -> CalibrateResult:
        """Calibrate the camera and write the file."""
        check_numbers(seed=self.seed)
        check_inputs(self.captures, weights=self.monitor)

        from sim2cam.adapt.calibration.camera_calibration import calibrate
        from sim2cam.adapt.calibration.camera_fit import write_camera
        from sim2cam.report.calibration import write_calibration_page
        from sim2cam.seeds import derive_rng

        if self.out is not None:
            files = self.out, _get_page_path(self.out)
            check_output_files(*files, overwrite=self.overwrite, inputs=[self.captures])
        board = None if self.board is None else _parse_board(self.board)
        console = self.output.make_console()
        rng = derive_rng(self.seed, "calibrate")
        monitor = _load_monitor(self.monitor)
        with console.show_progress("measuring photos") as stages:
            fit = calibrate(self.captures, board, rng, stages("measuring photos"), monitor)
        if self.out is None:
            return CalibrateResult(fit, None, None)
        write_camera(self.out, fit)
        page = write_calibration_page(fit, self.out, _get_page_path(self.out))
        return CalibrateResult(fit, self.out, page)


@dataclass(frozen=True)
class CalibrateResult(Result):
    """Estimated camera.

    Attributes:
        fit: Parameters with intervals.
        camera: File that recipes name; None if none was written.
        page: Page of the calibration; None if none was written.
    """

    fit: CameraFit
    camera: Path | None
    page: Path | None

    def to_json(self) -> dict[str, Any]:
        """Return the content of the file."""
        return self.fit.to_json()

    def to_text(self) -> str:
        """Return a table of parameter, value and interval."""
        return _format_columns(
            [(f.name, _format_value(f.value), _format_interval(f)) for f in self.fit.estimates]
        )

    def summary(self) -> str:
        """Return used and excluded photos, the lens model and the paths of file and page."""
        lines = [f"camera: {self.camera}", f"page: {self.page}"] if self.camera else []
        return "\n".join([*_describe_fit(self.fit), *lines])


@dataclass(frozen=True)
class Drift:
    """Detect changes of a camera since its calibration."""

    camera: Annotated[Path, Argument("CAMERA.JSON")]
    """Output file of calibrate."""
    captures: Annotated[Path, Argument("CAPTURES")]
    """New photo, folder of photos, or COCO file; preferably of the scenes used for calibration."""
    out: Path | None = None
    """Output file (.json) of the changes; a page (.html) is written next to it."""
    board: _BoardText = None
    """Marker board in the photos, as for calibrate."""
    monitor: _MonitorWeights = None
    """Detector used at calibration; its OOD scores and confidences are compared."""
    seed: int = 0
    """Random seed of the permutation tests and the bootstrap."""
    overwrite: Overwrite = False
    output: OutputOptions = field(default_factory=OutputOptions)

    def run(self) -> DriftResult:
        """Compare the photos with the calibration."""
        check_numbers(seed=self.seed)
        if self.out is not None:
            files = self.out, _get_page_path(self.out)
            check_output_files(
                *files, overwrite=self.overwrite, inputs=[self.camera, self.captures]
            )
        check_inputs(self.camera, self.captures, weights=self.monitor)

        from sim2cam.adapt.calibration.camera_fit import read_camera
        from sim2cam.adapt.calibration.drift import detect_drift
        from sim2cam.data.writer import write_json
        from sim2cam.report.drift import write_drift_page
        from sim2cam.seeds import derive_rng

        board = None if self.board is None else _parse_board(self.board)
        fit = read_camera(self.camera)
        console = self.output.make_console()
        rng = derive_rng(self.seed, "drift")
        monitor = _load_monitor(self.monitor)
        with console.show_progress("measuring photos") as stages:
            report = detect_drift(
                fit, self.captures, board, rng, stages("measuring photos"), monitor
            )
        if self.out is None:
            return DriftResult(report, None)
        write_json(self.out, report.to_json())
        page = write_drift_page(report, self.camera, self.captures, _get_page_path(self.out))
        return DriftResult(report, page)


@dataclass(frozen=True)
class DriftResult(Result):
    """Changes of a camera since its calibration.

    Attributes:
        page: Page of the changes; None if none was written.
    """

    report: DriftReport
    page: Path | None

    def to_json(self) -> dict[str, Any]:
        """Return the changes."""
        return self.report.to_json()

    def to_text(self) -> str:
        """Return a table of parameter, status and change."""
        shifts = self.report.shifts
        return _format_columns([(s.description, s.status, _format_shift(s)) for s in shifts])

    def summary(self) -> str:
        """Return excluded photos, the number of changes and the path of the page."""
        lines = [*_list_excluded(self.report), _summarize_drift(self.report)]
        return "\n".join([*lines, f"page: {self.page}"] if self.page else lines)


def _get_page_path(out: Path) -> Path:
    """Return the path of the page next to an output file."""
    if out.suffix == ".html":
        raise UsageError(f"--out {out} must not end in .html: the page is written next to it.")
    return out.with_suffix(".html")


def _load_monitor(weights: Path | None) -> DetectorMonitor | None:
    from sim2cam.models.shipped_weights import resolve_weights
    from sim2cam.pipeline.verifiers import load_monitor

    return None if weights is None else load_monitor(resolve_weights(weights))


def _parse_board(text: str) -> Board:
    from sim2cam.objects.board import Board

    try:
        pattern, size, dictionary, share = text.split(":")
        columns, _, rows = size.partition("x")
        if pattern not in ("charuco", "markers"):
            raise ValueError("the pattern must be charuco or markers")
        return Board(
            "charuco" if pattern == "charuco" else "markers",
            int(columns),
            int(rows),
            marker_share=float(share),
            dictionary=dictionary,
            first_marker=0,
            ink=(0.0, 0.0, 0.0),
            square_m=1.0,
            margin_m=1.0,
            thickness_m=1.0,
        )
    except SpecError as error:
        raise UsageError(f"--board {text}: {error}") from error
    except ValueError as error:
        raise UsageError(
            f"--board {text}: must be PATTERN:COLUMNSxROWS:DICTIONARY:SHARE, such as "
            f"charuco:8x6:4x4_50:0.7 ({error})."
        ) from error


def _describe_fit(fit: CameraFit) -> list[str]:
    """Return lines on the photos, excluded photos and the lens model."""
    lines = [f"{fit.camera}: {fit.photos} photos, {fit.boards} with a board", *_list_excluded(fit)]
    if any(fit.border_px):
        lines.append(
            "dead border in px (left, top, right, bottom): {}, {}, {}, {}".format(*fit.border_px)
        )
    if fit.max_level < 255:
        lines.append(f"maximum level: {fit.max_level}")
    if fit.rotated_boards:
        names = ", ".join(f"{name} ({number})" for name, number in fit.rotated_boards.items())
        lines.append(
            f"excluded from the lens fit: {len(fit.rotated_boards)} board photos with another EXIF "
            f"orientation: {names}"
        )
    if fit.lens is not None:
        for name, error in fit.lens.outliers.items():
            lines.append(f"board excluded: {name}: reprojection error {error:.2f} px")
        models = ", ".join(
            [f"{name} {error:.3f}" for name, error in fit.lens.held_out_rms_px.items()]
            + [f"{name} does not cover the whole image" for name in fit.lens.partial_view_models]
        )
        lines.append(
            f"lens: {fit.lens.kind}, {fit.lens.rms_px:.3f} px; on held-out photos: {models}"
        )
    return lines


def _list_excluded(result: CameraFit | DriftReport) -> list[str]:
    other_cameras = [
        f"{count} of another camera: {camera}" for camera, count in result.other_cameras.items()
    ]
    skipped = [f"{name}: {reason}" for name, reason in result.skipped.items()]
    return [f"excluded: {line}" for line in (*other_cameras, *skipped)]


def _format_columns(rows: list[tuple[str, str, str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in (0, 1)]
    return "\n".join(f"{a:{widths[0]}}  {b:>{widths[1]}}  {c}".rstrip() for a, b, c in rows)


def _summarize_drift(report: DriftReport) -> str:
    drifted = [change.description for change in report.shifts if change.status == "drifted"]
    undetermined = sum(change.status == "undetermined" for change in report.shifts)
    stable = len(report.shifts) - len(drifted) - undetermined
    summary = f"drifted: {', '.join(drifted)}" if drifted else "no drift detected"
    return (
        f"{report.camera}: {report.photos} photos; {summary}; {stable} stable, "
        f"{undetermined} undetermined"
    )


def _format_shift(shift: ParameterShift) -> str:
    """Return the change with its interval, p-value and note."""
    parts = []
    if shift.shift is not None and shift.ci95 is not None:
        low, high = shift.ci95
        parts.append(f"{shift.shift:+.2g} {shift.unit} ({low:+.2g} to {high:+.2g})")
    if shift.p_value is not None:
        parts.append(f"p {shift.p_value:.2g}")
    if shift.note and shift.status != "stable":
        parts.append(shift.note)
    return "; ".join(parts)


def _format_value(value: float | str | None) -> str:
    if value is None:
        return "?"
    return value if isinstance(value, str) else f"{value:.5g}"


def _format_interval(estimate: ParameterEstimate) -> str:
    """Return the available interval, standard deviation over photos and note."""
    parts = []
    if estimate.ci95 is not None:
        parts.append(f"{estimate.ci95[0]:.5g} to {estimate.ci95[1]:.5g}")
    if estimate.photo_std:
        parts.append(f"std over photos {estimate.photo_std:.2g}")
    if estimate.note:
        parts.append(estimate.note)
    return "; ".join(parts)
