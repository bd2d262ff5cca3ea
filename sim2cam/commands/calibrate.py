"""The commands that tell a camera from its captures, and whether it is still the same."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from sim2cam.commands.options import OutputOptions, Overwrite, check_numbers, check_output_files
from sim2cam.errors import SpecError, UsageError

if TYPE_CHECKING:
    from sim2cam.adapt.calibration.camera_fit import CameraFit, ParameterEstimate
    from sim2cam.adapt.calibration.detector_drift import DetectorMonitor
    from sim2cam.adapt.calibration.drift import DriftReport as Found
    from sim2cam.adapt.calibration.parameter_changes import ParameterShift
    from sim2cam.scene.shape import Board

_MonitorWeights = Annotated[Path | None, tyro.conf.arg(metavar="WEIGHTS")]
_BoardText = Annotated[str | None, tyro.conf.arg(metavar="PATTERN:COLUMNSxROWS:DICTIONARY:SHARE")]


@dataclass(frozen=True)
class Calibrate:
    """Tell lens and sensor of a camera from its captures; recipes draw around it with camera = FILE."""

    captures: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="CAPTURES")]
    """Folder of photos, one photo, or a list of them (COCO). Photos of a chessboard tell the lens."""
    out: Path | None = None
    """File to write, as camera.json; without it the result is only shown."""
    board: _BoardText = None
    """A board of markers, as charuco:8x6:4x4_50:0.7 or markers:6x5:apriltag_36h11:0.8; SHARE is the
    side of a marker over that of its square. Chessboards are found without."""
    monitor: _MonitorWeights = None
    """A detector that is asked of the photos too, so that drift can tell when it answers otherwise."""
    seed: int = 0
    """Decides which photos are resampled and which cameras are tried."""
    overwrite: Overwrite = False
    output: OutputOptions = field(default_factory=OutputOptions)

    def execute(self) -> None:
        """Calibrate, writes and shows."""
        from sim2cam.adapt.calibration.camera_calibration import calibrate
        from sim2cam.adapt.calibration.camera_fit import write_camera
        from sim2cam.seeds import derive_rng

        check_numbers(seed=self.seed)
        if self.out is not None:
            check_output_files(self.out, overwrite=self.overwrite, inputs=[self.captures])
        board = None if self.board is None else _parse_board(self.board)
        console = self.output.make_console()
        rng = derive_rng(self.seed, "calibrate")
        witness = _load_monitor(self.monitor)
        fit = calibrate(self.captures, board, rng, console.start_progress("photos"), witness)
        for line in _describe_fit(fit):
            console.info(line)
        if self.out is not None:
            write_camera(self.out, fit)
            console.info(f"camera: {self.out}")
        console.print_json(fit.to_json()) if self.output.json else console.print_text(
            _format_fit(fit)
        )


@dataclass(frozen=True)
class Drift:
    """Tell which numbers of a camera have moved since it was calibrated; "drifted" in --json names them."""

    camera: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="CAMERA.JSON")]
    """What sim2cam calibrate wrote."""
    captures: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="CAPTURES")]
    """New photos: a folder, one photo, or a list of them (COCO); best of what was photographed then."""
    board: _BoardText = None
    """A board of markers in the photos, as calibrate takes it."""
    monitor: _MonitorWeights = None
    """The detector that was asked when the camera was calibrated: its novelty and confidence are compared."""
    seed: int = 0
    """Decides which photos are exchanged and resampled."""
    output: OutputOptions = field(default_factory=OutputOptions)

    def execute(self) -> None:
        """Compare and shows."""
        from sim2cam.adapt.calibration.camera_fit import read_camera
        from sim2cam.adapt.calibration.drift import detect_drift
        from sim2cam.seeds import derive_rng

        check_numbers(seed=self.seed)
        board = None if self.board is None else _parse_board(self.board)
        fit = read_camera(self.camera)
        console = self.output.make_console()
        rng = derive_rng(self.seed, "drift")
        witness = _load_monitor(self.monitor)
        found = detect_drift(
            fit, self.captures, board, rng, console.start_progress("photos"), witness
        )
        for line in _list_excluded(found):
            console.info(line)
        console.info(_summarize_drift(found))
        console.print_json(found.to_json()) if self.output.json else console.print_text(
            _format_changes(found)
        )


def _load_monitor(weights: Path | None) -> DetectorMonitor | None:
    """Return the detector that ``--monitor`` names."""
    from sim2cam.pipeline.verifiers import load_monitor, resolve_weights

    return None if weights is None else load_monitor(resolve_weights(weights))


def _parse_board(text: str) -> Board:
    """Return the board of markers that ``--board`` names."""
    from sim2cam.scene.shape import Board

    try:
        pattern, size, dictionary, share = text.split(":")
        columns, _, rows = size.partition("x")
        if pattern not in ("charuco", "markers"):
            raise ValueError("chessboards are found without it")
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
            f"--board {text}: it is PATTERN:COLUMNSxROWS:DICTIONARY:SHARE, as charuco:8x6:4x4_50:0.7 "
            f"({error})."
        ) from error


def _describe_fit(fit: CameraFit) -> list[str]:
    """Return what a person should know before the table."""
    lines = [f"{fit.camera}: {fit.photos} photos, {fit.boards} with a board", *_list_excluded(fit)]
    if any(fit.border_px):
        lines.append(
            "dead border, pixels at the left, top, right and bottom: {}, {}, {}, {}".format(
                *fit.border_px
            )
        )
    if fit.max_level < 255:
        lines.append(f"no level above {fit.max_level}")
    if fit.rotated_boards:
        names = ", ".join(f"{name} ({number})" for name, number in fit.rotated_boards.items())
        lines.append(
            f"left out of the lens: {len(fit.rotated_boards)} photos of a board, as the camera was held another way "
            f"(EXIF orientation): {names}"
        )
    if fit.lens is not None:
        for name, error in fit.lens.outliers.items():
            lines.append(f"board left out: {name}: {error:.2f} px off any lens")
        models = ", ".join(
            [f"{name} {error:.3f}" for name, error in fit.lens.held_out_rms_px.items()]
            + [f"{name} does not see the whole picture" for name in fit.lens.partial_view_models]
        )
        lines.append(
            f"lens: {fit.lens.kind}, {fit.lens.rms_px:.3f} px; on photos left out: {models}"
        )
    return lines


def _list_excluded(result: CameraFit | Found) -> list[str]:
    others = [
        f"{count} of another camera: {camera}" for camera, count in result.other_cameras.items()
    ]
    refused = [f"{name}: {reason}" for name, reason in result.skipped.items()]
    return [f"left out: {line}" for line in (*others, *refused)]


def _format_fit(fit: CameraFit) -> str:
    """Return parameter, value and interval, or why there is none."""
    return _format_columns(
        [(f.name, _format_value(f.value), _format_interval(f)) for f in fit.estimates]
    )


def _format_columns(rows: list[tuple[str, str, str]]) -> str:
    wide = [max(len(row[i]) for row in rows) for i in (0, 1)]
    return "\n".join(f"{a:{wide[0]}}  {b:>{wide[1]}}  {c}".rstrip() for a, b, c in rows)


def _summarize_drift(drift_result: Found) -> str:
    """Return in a sentence what moved."""
    words = [change.description for change in drift_result.shifts if change.status == "drifted"]
    untold = sum(change.status == "undetermined" for change in drift_result.shifts)
    still = len(drift_result.shifts) - len(words) - untold
    moved = f"moved: {', '.join(words)}" if words else "nothing is seen to have moved"
    return f"{drift_result.camera}: {drift_result.photos} photos; {moved}; {still} still, {untold} not told"


def _format_changes(drift_result: Found) -> str:
    """Return verdict, shift and p-value of each number, or why there is none."""
    return _format_columns(
        [
            (change.description, change.status, _format_shift(change))
            for change in drift_result.shifts
        ]
    )


def _format_shift(shift: ParameterShift) -> str:
    """Return by how much a number moved, how surely, and the note."""
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
    """Return the interval, the spread over photos and the note, as far as there are any."""
    parts = []
    if estimate.ci95 is not None:
        parts.append(f"{estimate.ci95[0]:.5g} to {estimate.ci95[1]:.5g}")
    if estimate.photo_std:
        parts.append(f"varies by {estimate.photo_std:.2g}")
    if estimate.note:
        parts.append(estimate.note)
    return "; ".join(parts)
