"""Page of a translator training: sample images over steps, and training curves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sim2cam.metrics.verdict import Verdict
from sim2cam.report.charts import build_line_chart
from sim2cam.report.page import encode_data_uri, write_page
from sim2cam.report.values import Curves


def write_samples_page(
    out: Path,
    *,
    strips: Mapping[int, Path],
    captures: bytes,
    curves: Curves,
    verdict: Verdict,
) -> Path:
    """Write a self-contained page and return its path.

    Args:
        strips: JPEG files of sample images by step; step 0 shows the renders.
    """
    return write_page(
        out,
        "translator_training.html",
        strips={step: encode_data_uri(path.read_bytes()) for step, path in strips.items()},
        captures=encode_data_uri(captures),
        chart=build_line_chart(curves),
        verdict=verdict,
    )
