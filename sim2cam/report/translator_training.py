"""The page of a translator's training: the same renders as it went on, and its curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from sim2cam.report.charts import build_line_chart
from sim2cam.report.page import encode_data_uri, write_page
from sim2cam.report.values import Curves


def write_samples_page(
    out: Path,
    *,
    strips: Mapping[int, Path],
    captures: bytes,
    curves: Curves,
    selected_step: int,
    notes: Sequence[str],
) -> Path:
    """Write a page and returns its path.

    Args:
        out: the HTML file.
        strips: JPEG files by their steps, the renders themselves as 0.
        captures: some, as a JPEG file.
        curves: of the training.
        selected_step: step whose weights ship.
        notes: what else to say.

    Raises:
        OutputError: the file cannot be written.
    """
    return write_page(
        out,
        "translator_training.html",
        strips={step: encode_data_uri(path.read_bytes()) for step, path in strips.items()},
        captures=encode_data_uri(captures),
        chart=build_line_chart(curves),
        selected_step=selected_step,
        notes=notes,
    )
