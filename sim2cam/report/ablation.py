"""Page of an ablation study."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, Field, ValidationError

from sim2cam.errors import InputError
from sim2cam.metrics.bootstrap import Estimate
from sim2cam.metrics.names import BOX_METRICS
from sim2cam.metrics.power import SIGNIFICANCE
from sim2cam.metrics.power_law import PowerLaw
from sim2cam.report.canvas import Chart
from sim2cam.report.charts import (
    GREY_COLOUR,
    IntervalMark,
    build_curve_chart,
    build_interval_chart,
)
from sim2cam.report.gallery import OUTCOME_COLOURS, build_gallery_pairs
from sim2cam.report.page import write_page
from sim2cam.report.values import ExamplePairs

METRIC_TITLES = {name: BOX_METRICS[name] for name in ("ap50", "ap", "ap75", "agnostic_ap50")}
"""Titles of metrics in page order, the primary metric first."""
_TREND_POINTS = 64


@dataclass(frozen=True)
class VariantResult:
    """Scores of a variant."""

    name: str
    seed_count: int
    scores: dict[str, Estimate]
    runs: dict[str, tuple[float, ...]]
    reason: str = ""


class VariantComparison(BaseModel):
    """Planned comparison of two variants on the same images.

    Attributes:
        value: Score of the first minus that of the second.
        ci95: Its 95 % interval.
        p_holm: p-value, Holm-corrected over all comparisons by this metric.
        min_detectable_effect: Smallest difference that this number of images detects with 80 % power;
            None if the difference is the same on every resample.
    """

    first: str
    second: str
    metric: Literal["ap", "ap50", "ap75", "agnostic_ap50"]
    value: float
    ci95: tuple[float, float]
    p_holm: float
    min_detectable_effect: float | None

    @property
    def is_significant(self) -> bool:
        """Whether the difference is significant."""
        return self.p_holm < SIGNIFICANCE

    @property
    def is_identical(self) -> bool:
        """Whether both variants score the same on every resample."""
        return self.min_detectable_effect is None and not self.value


@dataclass(frozen=True)
class LearningCurve:
    """Scores by size of a training resource.

    Attributes:
        resource: Name, such as ``renders``.
        law: Power law of 1 - score; None if the points determine none.
        determines_floor: Whether the points determine the floor of the law.
        summary: Sentence on whether more of the resource helps.
    """

    resource: str
    metric: str
    points: dict[int, Estimate]
    law: PowerLaw | None
    determines_floor: bool
    summary: str


@dataclass(frozen=True)
class AblationResults:
    """Results of an ablation study.

    Attributes:
        learning_curve: AP50 by number of labelled images, for training on these images only.
        fitted_curves: Learning curves with the power laws through them.
    """

    protocol: dict[str, str]
    variants: tuple[VariantResult, ...]
    comparisons: tuple[VariantComparison, ...]
    learning_curve: dict[int, Estimate]
    equivalents: dict[str, str]
    fitted_curves: tuple[LearningCurve, ...]
    notes: tuple[str, ...]


def read_ablation(path: Path) -> AblationResults:
    """Read results from a file such as ``benchmarks/results/dice.json``.

    Each of ``variants`` has a ``name``, ``seeds`` (scores by seed) and scores with ``value`` and ``ci95``, such as
    ``ap50``. Optional keys: ``comparisons`` (``first second metric value ci95 p_holm min_detectable_effect``),
    ``planned`` (names of all variants; those without results are returned as not run), ``not_run``,
    ``equivalents``, ``learning_curves``, ``notes``, ``warnings``.

    Raises:
        InputError: If the file is missing, damaged, or has another format.
    """
    try:
        content = _AblationRecord.model_validate_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(path, f"cannot be read ({error.strerror}).") from error
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join(map(str, first["loc"])) or "the file"
        raise InputError(path, f"{location}: {first['msg']}.") from error
    results = {record.name: _build_variant(record) for record in content.variants}
    reasons = {record.name: record.reason for record in content.not_run}
    names = dict.fromkeys([*content.planned, *results])
    return AblationResults(
        protocol={name: _format_value(value) for name, value in content.protocol.items()},
        variants=tuple(
            results.get(name, VariantResult(name, 0, {}, {}, reasons.get(name, "")))
            for name in names
        ),
        comparisons=tuple(content.comparisons),
        learning_curve={
            p.labelled_images: Estimate(p.value, p.ci95)
            for p in sorted(content.equivalents.curve, key=lambda p: p.labelled_images)
        },
        equivalents={e.variant: e.summary for e in content.equivalents.variants},
        fitted_curves=tuple(map(_build_learning_curve, content.learning_curves)),
        notes=(*content.notes, *content.warnings),
    )


def write_ablation_page(
    results: AblationResults, out: Path, *, title: str, examples: ExamplePairs | None = None
) -> Path:
    """Write a self-contained page and return its path.

    Args:
        examples: Images with the detections of the best and of the worst variant; None without.
    """
    metrics = [m for m in METRIC_TITLES if any(m in variant.scores for variant in results.variants)]
    return write_page(
        out,
        "ablation.html",
        title=title,
        results=results,
        metrics=metrics,
        metric_titles=METRIC_TITLES,
        charts=tuple(
            build_interval_chart(
                METRIC_TITLES[m], [_make_interval_mark(variant, m) for variant in results.variants]
            )
            for m in metrics
        ),
        differences=tuple(
            _plot_differences(metric, comparisons)
            for metric in METRIC_TITLES
            if (comparisons := [c for c in results.comparisons if c.metric == metric])
        ),
        learning_curve=_plot_learning_curve(results) if results.learning_curve else None,
        fitted_curves=[(curve, _plot_fitted_curve(curve)) for curve in results.fitted_curves],
        significance=SIGNIFICANCE,
        examples=examples,
        pairs=build_gallery_pairs(examples) if examples else (),
        outcome_colours=OUTCOME_COLOURS,
    )


class _VariantRecord(BaseModel):
    name: str
    seeds: list[dict[str, Any]]
    ap: Estimate | None = None
    ap50: Estimate | None = None
    ap75: Estimate | None = None
    agnostic_ap50: Estimate | None = None


class _SkippedRecord(BaseModel):
    name: str
    reason: str


class _EquivalentRecord(BaseModel):
    variant: str
    summary: str


class _CurvePointRecord(BaseModel):
    labelled_images: int = Field(gt=0)
    value: float
    ci95: tuple[float, float]


class _EquivalentsRecord(BaseModel):
    curve: list[_CurvePointRecord] = []
    variants: list[_EquivalentRecord] = []


class _SizeRecord(BaseModel):
    size: int = Field(gt=0)
    value: float
    ci95: tuple[float, float]


class _FitRecord(BaseModel):
    law: PowerLaw
    determines_floor: bool


class _LearningCurveRecord(BaseModel):
    resource: str
    metric: Literal["ap", "ap50", "agnostic_ap50"]
    points: list[_SizeRecord] = Field(min_length=1)
    fit: _FitRecord | None
    summary: str


class _AblationRecord(BaseModel):
    protocol: dict[str, Any] = {}
    planned: list[str] = []
    variants: list[_VariantRecord]
    not_run: list[_SkippedRecord] = []
    comparisons: list[VariantComparison] = []
    equivalents: _EquivalentsRecord = _EquivalentsRecord()
    learning_curves: list[_LearningCurveRecord] = []
    notes: list[str] = []
    warnings: list[str] = []


def _build_variant(record: _VariantRecord) -> VariantResult:
    scores = {m: score for m in METRIC_TITLES if (score := getattr(record, m)) is not None}
    runs = {m: tuple(float(seed[m]) for seed in record.seeds if m in seed) for m in scores}
    return VariantResult(record.name, len(record.seeds), scores, runs)


def _build_learning_curve(record: _LearningCurveRecord) -> LearningCurve:
    points = {p.size: Estimate(p.value, p.ci95) for p in record.points}
    law, determines_floor = None, False
    if record.fit:
        law, determines_floor = record.fit.law, record.fit.determines_floor
    return LearningCurve(
        record.resource, record.metric, points, law, determines_floor, record.summary
    )


def _format_value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _make_interval_mark(variant: VariantResult, metric: str) -> IntervalMark:
    score = variant.scores.get(metric)
    if score is None:
        return IntervalMark(variant.name, None)
    return IntervalMark(variant.name, score.value, score.ci95, variant.runs[metric])


def _plot_learning_curve(results: AblationResults) -> Chart:
    """Plot the learning curve on labelled images, with scores of variants as reference lines."""
    scores = {v.name: v.scores["ap50"].value for v in results.variants if "ap50" in v.scores}
    references = {name: scores[name] for name in results.equivalents if name in scores}
    return build_curve_chart(
        METRIC_TITLES["ap50"], results.learning_curve, references, x_label="labelled images"
    )


def _plot_fitted_curve(curve: LearningCurve) -> Chart:
    """Plot a learning curve with its power law up to twice the largest size."""
    title, law = METRIC_TITLES[curve.metric], curve.law
    if law is None:
        return build_curve_chart(title, curve.points, {}, x_label=curve.resource)
    sizes = np.geomspace(min(curve.points), 2 * max(curve.points), _TREND_POINTS)
    trend = np.stack([sizes, 1 - law.predict_errors(sizes)], axis=1)
    limit = {"limit, 1 − c": 1 - law.c} if curve.determines_floor else {}
    return build_curve_chart(title, curve.points, limit, x_label=curve.resource, trend=trend)


def _plot_differences(metric: str, comparisons: Sequence[VariantComparison]) -> Chart:
    ranges = [
        IntervalMark(
            f"{c.first} − {c.second}", c.value, c.ci95, (), 0 if c.is_significant else GREY_COLOUR
        )
        for c in comparisons
    ]
    return build_interval_chart(METRIC_TITLES[metric], ranges, is_signed=True)
