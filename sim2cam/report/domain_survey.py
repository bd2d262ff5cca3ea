"""The page of a domain: what was drawn of each factor, what was asked, and what its ends look like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sim2cam.randomize.domain_survey import FactorSurvey
from sim2cam.report.charts import BarChart, bar_chart, bins_chart
from sim2cam.report.page import data_uri, shrunk_jpeg, write_page
from sim2cam.report.values import Rgb

PICTURE_PX = 160

Pictures = Mapping[tuple[str, str], Sequence[tuple[str, Rgb]]]
"""Pictures (h, w, 3) of the ends of factors with what they are set to, by group and factor."""


@dataclass(frozen=True)
class ShownFactor:
    """A factor on the page: its survey, its chart, and addresses of pictures with their values."""

    survey: FactorSurvey
    chart: BarChart
    pictures: tuple[tuple[str, str], ...]


def write_domain_page(
    name: str, scenes: int, factors: Sequence[FactorSurvey], pictures: Pictures, out: Path
) -> Path:
    """Writes a page and returns its path.

    Args:
        name: of the recipe.
        scenes: how many were drawn.
        factors: in the order of the domain.
        pictures: of some of them.
        out: the HTML file.

    Raises:
        OutputError: the file cannot be written.
    """
    groups: dict[str, list[FactorSurvey]] = {}
    for factor in factors:
        groups.setdefault(factor.group, []).append(factor)
    return write_page(
        out,
        "domain.html",
        name=name,
        scenes=scenes,
        count=len(factors),
        groups={
            group: (
                [_shown(one, pictures) for one in inside if not one.is_fixed],
                [one for one in inside if one.is_fixed],
            )
            for group, inside in groups.items()
        },
    )


def _shown(factor: FactorSurvey, pictures: Pictures) -> ShownFactor:
    found = pictures.get((factor.group, factor.factor), ())
    return ShownFactor(
        factor,
        _chart(factor),
        tuple((value, data_uri(shrunk_jpeg(rgb, PICTURE_PX))) for value, rgb in found),
    )


def _chart(factor: FactorSurvey) -> BarChart:
    title = f"{factor.group}.{factor.factor}"
    if factor.words:
        counts = dict(zip(factor.words, factor.drawn, strict=True))
        return bar_chart(title, counts, factor.asked)
    return bins_chart(title, factor.edges, factor.drawn, factor.asked)
