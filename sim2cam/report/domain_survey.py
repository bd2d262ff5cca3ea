"""Page of a domain: sampled and expected counts of each factor, and images of its range ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sim2cam.randomize.domain_survey import FactorHistogram
from sim2cam.report.canvas import Chart
from sim2cam.report.charts import build_bar_chart, build_binned_chart
from sim2cam.report.page import encode_data_uri, encode_thumbnail, write_page
from sim2cam.report.values import Rgb

IMAGE_PX = 160

RangeEndImages = Mapping[tuple[str, str], Sequence[tuple[str, Rgb]]]
"""Images (H, W, 3) of range ends with the factor's value as text, by group and factor."""


@dataclass(frozen=True)
class FactorView:
    """Factor on the page: histogram, chart, and pairs of value and image URI."""

    survey: FactorHistogram
    chart: Chart | None
    images: tuple[tuple[str, str], ...]


def write_domain_page(
    name: str,
    scene_count: int,
    factors: Sequence[FactorHistogram],
    images: RangeEndImages,
    out: Path,
) -> Path:
    """Write a self-contained page and return its path."""
    groups: dict[str, list[FactorHistogram]] = {}
    for factor in factors:
        groups.setdefault(factor.group, []).append(factor)
    return write_page(
        out,
        "domain_survey.html",
        name=name,
        scene_count=scene_count,
        factor_count=len(factors),
        groups={
            group: (
                [_build_factor(factor, images) for factor in members if not factor.is_fixed],
                [factor for factor in members if factor.is_fixed],
            )
            for group, members in groups.items()
        },
    )


def _build_factor(factor: FactorHistogram, images: RangeEndImages) -> FactorView:
    range_ends = images.get((factor.group, factor.factor), ())
    return FactorView(
        factor,
        _build_chart(factor),
        tuple(
            (value, encode_data_uri(encode_thumbnail(rgb, IMAGE_PX))) for value, rgb in range_ends
        ),
    )


def _build_chart(factor: FactorHistogram) -> Chart | None:
    title = f"{factor.group}.{factor.factor}"
    if factor.options:
        counts = dict(zip(factor.options, factor.observed, strict=True))
        return build_bar_chart(title, counts, factor.expected)
    return build_binned_chart(title, factor.edges, factor.observed, factor.expected)
