"""The page of a ladder: every arm with its seeds and interval, and what the planned pairs show."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError

from sim2cam.errors import InputError
from sim2cam.metrics.bootstrap import Estimate
from sim2cam.metrics.names import BOX_METRICS
from sim2cam.metrics.power import SIGNIFICANCE
from sim2cam.report.charts import CurveChart, Range, RangeChart, curve_chart, range_chart
from sim2cam.report.page import write_page

METRICS = {name: BOX_METRICS[name] for name in ("ap50", "ap", "ap75", "agnostic_ap50")}
"""In the order of pages: what arms are mostly compared by comes first."""
_GREY = 7  # the colour of differences that are not shown


@dataclass(frozen=True)
class Arm:
    """One way of training.

    Attributes:
        name: of the arm.
        seeds: number of trainings; 0 when it was not run.
        scores: by metric, of all seeds.
        runs: by metric, of each seed.
        reason: why it was not run, where that is known.
    """

    name: str
    seeds: int
    scores: dict[str, Estimate]
    runs: dict[str, tuple[float, ...]]
    reason: str = ""


@dataclass(frozen=True)
class Comparison:
    """A planned pair of arms, on the same images.

    Attributes:
        first, second: names of the arms.
        metric: one of ``METRICS``.
        difference: first minus second.
        p_holm: of there being no difference, holding for all comparisons by the metric together.
        detectable: the smallest difference that so many images show in four of five repetitions;
            None where the difference is the same on every resample.
    """

    first: str
    second: str
    metric: str
    difference: Estimate
    p_holm: float
    detectable: float | None

    @property
    def shown(self) -> bool:
        """Whether there is a difference, as far as the images can tell."""
        return self.p_holm < SIGNIFICANCE

    @property
    def same(self) -> bool:
        """Whether the arms score the same on every resample."""
        return self.detectable is None and not self.difference.value


@dataclass(frozen=True)
class Ladder:
    """Results of a ladder.

    Attributes:
        protocol: what was held equal and what was scored, as text by name.
        arms: in order.
        comparisons: in order.
        curve: AP50 of photos alone, by how many were labelled.
        worth: how many labelled photos arms are worth, in words by their names.
        notes: what a reader has to know before believing the scores.
    """

    protocol: dict[str, str]
    arms: tuple[Arm, ...]
    comparisons: tuple[Comparison, ...]
    curve: dict[int, Estimate]
    worth: dict[str, str]
    notes: tuple[str, ...]


def read_ladder(path: Path) -> Ladder:
    """Returns the results in a file such as ``benchmarks/results/dice.json``.

    ``arms`` are as ``benchmarks/readme_tables.py`` says; ``comparisons``, which may be absent, hold
    ``first second metric value ci95 p_holm detectable``; so may ``planned``, names of all arms, of which
    those without results come out as not run, and ``not_run``, ``equivalents``, ``notes`` and ``warnings``.

    Args:
        path: the JSON file.

    Raises:
        InputError: the file is missing, broken, or has another form.
    """
    try:
        content = _Content.model_validate_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(path, f"cannot be read ({error.strerror}).") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise InputError(path, f"{place}: {first['msg']}.") from error
    found = {arm.name: _arm(arm) for arm in content.arms}
    reasons = {one.name: one.reason for one in content.not_run}
    names = dict.fromkeys([*content.planned, *found])
    return Ladder(
        protocol={name: _text(value) for name, value in content.protocol.items()},
        arms=tuple(found.get(name, Arm(name, 0, {}, {}, reasons.get(name, ""))) for name in names),
        comparisons=tuple(
            Comparison(
                c.first, c.second, c.metric, Estimate(c.value, c.ci95), c.p_holm, c.detectable
            )
            for c in content.comparisons
        ),
        curve={
            p.photos: Estimate(p.value, p.ci95)
            for p in sorted(content.equivalents.curve, key=lambda p: p.photos)
        },
        worth={one.arm: one.words for one in content.equivalents.worth},
        notes=(*content.notes, *content.warnings),
    )


def write_ladder_page(ladder: Ladder, out: Path, *, title: str) -> Path:
    """Writes one page that holds everything it shows, and returns its path.

    Raises:
        OutputError: the file cannot be written.
    """
    metrics = [m for m in METRICS if any(m in arm.scores for arm in ladder.arms)]
    return write_page(
        out,
        "ladder.html",
        title=title,
        ladder=ladder,
        metrics=metrics,
        names=METRICS,
        charts=tuple(
            range_chart(METRICS[m], [_arm_range(arm, m) for arm in ladder.arms]) for m in metrics
        ),
        differences=tuple(
            _differences_chart(metric, found)
            for metric in METRICS
            if (found := [c for c in ladder.comparisons if c.metric == metric])
        ),
        curve=_curve(ladder) if ladder.curve else None,
        significant=SIGNIFICANCE,
    )


class _Score(BaseModel):
    value: float
    ci95: tuple[float, float]


class _Arm(BaseModel):
    name: str
    seeds: list[dict[str, Any]]
    ap: _Score | None = None
    ap50: _Score | None = None
    ap75: _Score | None = None
    agnostic_ap50: _Score | None = None


class _Comparison(_Score):
    first: str
    second: str
    metric: Literal["ap", "ap50", "ap75", "agnostic_ap50"]
    p_holm: float
    detectable: float | None


class _NotRun(BaseModel):
    name: str
    reason: str


class _Worth(BaseModel):
    arm: str
    words: str


class _Photos(_Score):
    photos: int = Field(gt=0)


class _Equivalents(BaseModel):
    curve: list[_Photos] = []
    worth: list[_Worth] = []


class _Content(BaseModel):
    protocol: dict[str, Any] = {}
    planned: list[str] = []
    arms: list[_Arm]
    not_run: list[_NotRun] = []
    comparisons: list[_Comparison] = []
    equivalents: _Equivalents = _Equivalents()
    notes: list[str] = []
    warnings: list[str] = []


def _arm(arm: _Arm) -> Arm:
    found = {metric: getattr(arm, metric) for metric in METRICS}
    scores = {m: Estimate(s.value, s.ci95) for m, s in found.items() if s is not None}
    runs = {m: tuple(float(seed[m]) for seed in arm.seeds if m in seed) for m in scores}
    return Arm(arm.name, len(arm.seeds), scores, runs)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _arm_range(arm: Arm, metric: str) -> Range:
    score = arm.scores.get(metric)
    if score is None:
        return Range(arm.name, None)
    return Range(arm.name, score.value, score.ci95, arm.runs[metric])


def _curve(ladder: Ladder) -> CurveChart:
    """Returns the learning curve of photos alone, and where arms that are held against it lie."""
    scores = {arm.name: arm.scores["ap50"].value for arm in ladder.arms if "ap50" in arm.scores}
    levels = {name: scores[name] for name in ladder.worth if name in scores}
    return curve_chart(METRICS["ap50"], ladder.curve, levels, x_label="labelled photos")


def _differences_chart(metric: str, comparisons: Sequence[Comparison]) -> RangeChart:
    ranges = [
        Range(
            f"{c.first} − {c.second}",
            c.difference.value,
            c.difference.ci95,
            colour=0 if c.shown else _GREY,
        )
        for c in comparisons
    ]
    return range_chart(METRICS[metric], ranges, signed=True)
