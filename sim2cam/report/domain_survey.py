"""The page of a domain: what was drawn of each factor, what was asked, and what its ends look like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sim2cam.randomize.domain_survey import FactorHistogram
from sim2cam.report.charts import BarChart, build_bar_chart, build_binned_chart
from sim2cam.report.page import encode_data_uri, encode_thumbnail, write_page
from sim2cam.report.values import Rgb

IMAGE_PX = 160

RangeEndImages = Mapping[tuple[str, str], Sequence[tuple[str, Rgb]]]
"""Pictures (h, w, 3) of the ends of factors with what they are set to, by group and factor."""


@dataclass(frozen=True)
class FactorView:
    """A factor on the page: its survey, its chart, and addresses of pictures with their values."""

    survey: FactorHistogram
    chart: BarChart
    images: tuple[tuple[str, str], ...]


def write_domain_page(
    name: str,
    scene_count: int,
    factors: Sequence[FactorHistogram],
    images: RangeEndImages,
    out: Path,
) -> Path:
    """Write a page and returns its path.

    Args:
        name: of the recipe.
        scene_count: how many were drawn.
        factors: in the order of the domain.
        images: of some of them.
        out: the HTML file.

    Raises:
        OutputError: the file cannot be written.
    """
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
    found = images.get((factor.group, factor.factor), ())
    return FactorView(
        factor,
        _build_chart(factor),
        tuple((value, encode_data_uri(encode_thumbnail(rgb, IMAGE_PX))) for value, rgb in found),
    )


def _build_chart(factor: FactorHistogram) -> BarChart:
    title = f"{factor.group}.{factor.factor}"
    if factor.options:
        counts = dict(zip(factor.options, factor.observed, strict=True))
        return build_bar_chart(title, counts, factor.expected)
    return build_binned_chart(title, factor.edges, factor.observed, factor.expected)
