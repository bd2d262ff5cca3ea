"""The commands that tell a camera from its captures, and whether it is still the same."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from sim2cam.commands.options import Overwrite, Talk, check_new, check_numbers
from sim2cam.errors import SpecError, UsageError

if TYPE_CHECKING:
    from sim2cam.adapt.calibration.camera_fit import CameraFit, Finding
    from sim2cam.adapt.calibration.detector_drift import Witness
    from sim2cam.adapt.calibration.drift import Drift as Found
    from sim2cam.adapt.calibration.parameter_changes import Change
    from sim2cam.scene.shape import Board

_Run = Annotated[Path | None, tyro.conf.arg(metavar="WEIGHTS")]
_Board = Annotated[str | None, tyro.conf.arg(metavar="PATTERN:COLUMNSxROWS:DICTIONARY:SHARE")]


@dataclass(frozen=True)
class Calibrate:
    """Tell lens and sensor of a camera from its captures; recipes draw around it with camera = FILE."""

    captures: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="CAPTURES")]
    """Folder of photos, one photo, or a list of them (COCO). Photos of a chessboard tell the lens."""
    out: Path | None = None
    """File to write, as camera.json; without it the result is only shown."""
    board: _Board = None
    """A board of markers, as charuco:8x6:4x4_50:0.7 or markers:6x5:apriltag_36h11:0.8; SHARE is the
    side of a marker over that of its square. Chessboards are found without."""
    run: _Run = None
    """A detector that is asked of the photos too, so that drift can tell when it answers otherwise."""
    seed: int = 0
    """Decides which photos are resampled and which cameras are tried."""
    overwrite: Overwrite = False
    talk: Talk = field(default_factory=Talk)

    def execute(self) -> None:
        """Calibrates, writes and shows."""
        from sim2cam.adapt.calibration.camera_calibration import calibrate
        from sim2cam.adapt.calibration.camera_fit import write_camera
        from sim2cam.seeds import stream

        check_numbers(seed=self.seed)
        if self.out is not None:
            check_new(self.out, overwrite=self.overwrite, inputs=[self.captures])
        board = None if self.board is None else _board(self.board)
        console = self.talk.console()
        rng = stream(self.seed, "calibrate")
        witness = _witness(self.run)
        fit = calibrate(self.captures, board, rng, console.progress("photos"), witness)
        for line in _remarks(fit):
            console.say(line)
        if self.out is not None:
            write_camera(self.out, fit)
            console.say(f"camera: {self.out}")
        console.result(fit.to_json()) if self.talk.json else console.table(_table(fit))


@dataclass(frozen=True)
class Drift:
    """Tell which numbers of a camera have moved since it was calibrated; "moved" in --json names them."""

    camera: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="CAMERA.JSON")]
    """What sim2cam calibrate wrote."""
    captures: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="CAPTURES")]
    """New photos: a folder, one photo, or a list of them (COCO); best of what was photographed then."""
    board: _Board = None
    """A board of markers in the photos, as calibrate takes it."""
    run: _Run = None
    """The detector that was asked when the camera was calibrated: its novelty and confidence are compared."""
    seed: int = 0
    """Decides which photos are exchanged and resampled."""
    talk: Talk = field(default_factory=Talk)

    def execute(self) -> None:
        """Compares and shows."""
        from sim2cam.adapt.calibration.camera_fit import read_camera
        from sim2cam.adapt.calibration.drift import drift
        from sim2cam.seeds import stream

        check_numbers(seed=self.seed)
        board = None if self.board is None else _board(self.board)
        fit = read_camera(self.camera)
        console = self.talk.console()
        rng = stream(self.seed, "drift")
        witness = _witness(self.run)
        found = drift(fit, self.captures, board, rng, console.progress("photos"), witness)
        for line in _left_out(found):
            console.say(line)
        console.say(_verdict(found))
        console.result(found.to_json()) if self.talk.json else console.table(_changes(found))


def _witness(run: Path | None) -> Witness | None:
    """Returns the detector that ``--run`` names."""
    from sim2cam.pipeline.verifiers import weights_file, witness_of

    return None if run is None else witness_of(weights_file(run))


def _board(text: str) -> Board:
    """Returns the board of markers that ``--board`` names."""
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


def _remarks(fit: CameraFit) -> list[str]:
    """Returns what a person should know before the table."""
    lines = [f"{fit.camera}: {fit.photos} photos, {fit.boards} with a board", *_left_out(fit)]
    if any(fit.border):
        lines.append(
            "dead border, pixels at the left, top, right and bottom: {}, {}, {}, {}".format(
                *fit.border
            )
        )
    if fit.brightest < 255:
        lines.append(f"no level above {fit.brightest}")
    if fit.turned:
        names = ", ".join(f"{name} ({number})" for name, number in fit.turned.items())
        lines.append(
            f"left out of the lens: {len(fit.turned)} photos of a board, as the camera was held another way "
            f"(EXIF orientation): {names}"
        )
    if fit.lens is not None:
        for name, error in fit.lens.outliers.items():
            lines.append(f"board left out: {name}: {error:.2f} px off any lens")
        models = ", ".join(
            [f"{name} {error:.3f}" for name, error in fit.lens.left_out_px.items()]
            + [f"{name} does not see the whole picture" for name in fit.lens.blind]
        )
        lines.append(
            f"lens: {fit.lens.kind}, {fit.lens.rms_px:.3f} px; on photos left out: {models}"
        )
    return lines


def _left_out(found: CameraFit | Found) -> list[str]:
    others = [f"{count} of another camera: {camera}" for camera, count in found.others.items()]
    refused = [f"{name}: {reason}" for name, reason in found.refused.items()]
    return [f"left out: {line}" for line in (*others, *refused)]


def _table(fit: CameraFit) -> str:
    """Returns parameter, value and interval, or why there is none."""
    return _columns([(f.name, _number(f.value), _sure(f)) for f in fit.findings])


def _columns(rows: list[tuple[str, str, str]]) -> str:
    wide = [max(len(row[i]) for row in rows) for i in (0, 1)]
    return "\n".join(f"{a:{wide[0]}}  {b:>{wide[1]}}  {c}".rstrip() for a, b, c in rows)


def _verdict(found: Found) -> str:
    """Returns in a sentence what moved."""
    words = [change.words for change in found.changes if change.verdict == "moved"]
    untold = sum(change.verdict == "untold" for change in found.changes)
    still = len(found.changes) - len(words) - untold
    moved = f"moved: {', '.join(words)}" if words else "nothing is seen to have moved"
    return f"{found.camera}: {found.photos} photos; {moved}; {still} still, {untold} not told"


def _changes(found: Found) -> str:
    """Returns verdict, shift and p-value of each number, or why there is none."""
    return _columns([(change.words, change.verdict, _moved(change)) for change in found.changes])


def _moved(change: Change) -> str:
    """Returns by how much a number moved, how surely, and the note."""
    parts = []
    if change.shift is not None and change.ci95 is not None:
        low, high = change.ci95
        parts.append(f"{change.shift:+.2g} {change.unit} ({low:+.2g} to {high:+.2g})")
    if change.p_value is not None:
        parts.append(f"p {change.p_value:.2g}")
    if change.note and change.verdict != "still":
        parts.append(change.note)
    return "; ".join(parts)


def _number(value: float | str | None) -> str:
    if value is None:
        return "?"
    return value if isinstance(value, str) else f"{value:.5g}"


def _sure(finding: Finding) -> str:
    """Returns the interval, the spread over photos and the note, as far as there are any."""
    parts = []
    if finding.ci95 is not None:
        parts.append(f"{finding.ci95[0]:.5g} to {finding.ci95[1]:.5g}")
    if finding.spread:
        parts.append(f"varies by {finding.spread:.2g}")
    if finding.note:
        parts.append(finding.note)
    return "; ".join(parts)
