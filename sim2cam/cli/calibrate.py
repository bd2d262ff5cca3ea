"""The command that tells a camera from its captures."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from sim2cam.cli.options import Talk, check_numbers
from sim2cam.errors import SpecError, UsageError

if TYPE_CHECKING:
    from sim2cam.adapt.calibrate.camera_fit import CameraFit, Finding
    from sim2cam.scene.asset import Board


@dataclass(frozen=True)
class Calibrate:
    """Tell lens and sensor of a camera from its captures; recipes draw around it with camera = FILE."""

    captures: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="CAPTURES")]
    """Folder of photos, one photo, or a list of them (COCO). Photos of a chessboard tell the lens."""
    out: Path | None = None
    """File to write, as camera.json; without it the result is only shown."""
    board: Annotated[str | None, tyro.conf.arg(metavar="PATTERN:COLUMNSxROWS:DICTIONARY:SHARE")] = (
        None
    )
    """A board of markers, as charuco:8x6:4x4_50:0.7 or markers:6x5:apriltag_36h11:0.8; SHARE is the
    side of a marker over that of its square. Chessboards are found without."""
    seed: int = 0
    """Decides which photos are resampled and which cameras are tried."""
    overwrite: bool = False
    """Replace the file that is there."""
    talk: Talk = field(default_factory=Talk)

    def execute(self) -> None:
        """Calibrates, writes and shows."""
        from sim2cam.adapt.calibrate.calibrate import calibrate
        from sim2cam.adapt.calibrate.camera_fit import write_camera
        from sim2cam.seeds import stream

        check_numbers(seed=self.seed)
        if self.out is not None and self.out.exists() and not self.overwrite:
            raise UsageError(f"{self.out} is there already. Name another file, or use --overwrite.")
        board = None if self.board is None else _board(self.board)
        console = self.talk.console()
        rng = stream(self.seed, "calibrate")
        fit = calibrate(self.captures, board, rng, console.progress("photos"))
        for line in _remarks(fit):
            console.say(line)
        if self.out is not None:
            write_camera(self.out, fit)
            console.say(f"camera: {self.out}")
        console.result(fit.to_json()) if self.talk.json else console.table(_table(fit))


def _board(text: str) -> Board:
    """Returns the board of markers that ``--board`` names."""
    from sim2cam.scene.asset import Board

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
    lines = [f"{fit.camera}: {fit.photos} photos, {fit.boards} with a board"]
    for camera, count in fit.others.items():
        lines.append(f"left out: {count} of another camera: {camera}")
    for name, reason in fit.refused.items():
        lines.append(f"left out: {name}: {reason}")
    if any(fit.border):
        lines.append(
            "dead border, pixels at the left, top, right and bottom: {}, {}, {}, {}".format(
                *fit.border
            )
        )
    if fit.brightest < 255:
        lines.append(f"no level above {fit.brightest}")
    if fit.lens is not None:
        for name, error in fit.lens.outliers.items():
            lines.append(f"board left out: {name}: {error:.2f} px off any lens")
        models = ", ".join(f"{name} {error:.3f}" for name, error in fit.lens.left_out_px.items())
        lines.append(
            f"lens: {fit.lens.kind}, {fit.lens.rms_px:.3f} px; on photos left out: {models}"
        )
    return lines


def _table(fit: CameraFit) -> str:
    """Returns parameter, value and interval, or why there is none."""
    rows = [(f.name, _number(f.value), _sure(f)) for f in fit.findings]
    wide = [max(len(row[i]) for row in rows) for i in (0, 1)]
    return "\n".join(f"{a:{wide[0]}}  {b:>{wide[1]}}  {c}".rstrip() for a, b, c in rows)


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
