"""Scores of an ablation study: variants, differences and equivalent numbers of labelled images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.data.checks.duplicates import describe_near_duplicates, find_near_duplicates
from sim2cam.data.environment import collect_environment
from sim2cam.data.formats.predictions import DETECTION_ROWS, parse_detection_rows
from sim2cam.data.real_images import RealImageSplits
from sim2cam.data.sample import Dataset, Sample
from sim2cam.errors import InputError
from sim2cam.experiments.ablation import (
    PREDICTIONS_FOLDER,
    PSEUDO_LABELLED,
    REAL,
    AblationPlan,
    Variant,
    is_render_subset,
    locate_result,
    locate_weights,
    read_job_result,
)
from sim2cam.experiments.learning_curve import (
    CurvePoint,
    LearningCurve,
    fit_learning_curve,
    locate_points,
)
from sim2cam.metrics.bootstrap import apply_holm_correction, average_over_seeds
from sim2cam.metrics.detection import (
    DetectionEvaluator,
    Predictions,
    bootstrap_scores,
    compare_seed_means,
    count_objects,
    estimate_seed_mean,
    evaluate_detections,
)
from sim2cam.metrics.equivalent_photos import estimate_equivalent_images
from sim2cam.metrics.power import DISCORDANT_FRACTION, compute_min_detectable_effect
from sim2cam.metrics.resampling import describe_units_and_runs, group_images
from sim2cam.seeds import derive_rng

METRICS = ("ap", "ap50", "agnostic_ap50")
COMPARED_METRICS = ("ap50", "ap")
EQUIVALENCE_METRIC = "ap50"  # metric of the learning curve of labelled photos
BASELINE = "randomized"

_MIN_POINTS = 2  # of a learning curve


@dataclass(frozen=True)
class VariantRuns:
    """Scores of the trainings of one variant.

    Attributes:
        means: ``average_over_seeds`` (1 + resamples,) by metric: on all images, then on resamples
            of images and seeds.
        rejected: number of rejected images by translated dataset; empty if not recorded. Images
            rejected from published translators are trained on.
    """

    variant: Variant
    seeds: tuple[int, ...]
    seed_scores: tuple[Mapping[str, float], ...]
    means: Mapping[str, NDArray[np.float64]]
    rejected: Mapping[str, int]
    digests: Mapping[str, str]


@dataclass(frozen=True)
class FirstRun:
    """First training of a variant that has run, with its detections in the test images."""

    name: str
    weights: Path
    detections: Predictions


def score_ablation(
    plan: AblationPlan, captures: RealImageSplits, results_dir: Path, *, baseline: str
) -> dict[str, Any]:
    """Score every variant on the test split, with 95 % intervals, from the files of predictions.

    Raises:
        InputError: if the baseline has no predictions, or the seeds of a variant trained on
            different data.
    """
    test = captures.test
    read = (_read_variant(plan, variant, test, results_dir) for variant in plan.variants)
    runs = {variant_runs.variant.name: variant_runs for variant_runs in read if variant_runs}
    if baseline not in runs:
        raise InputError(
            results_dir, f"no predictions of the variant '{baseline}' yet. Run it first."
        )
    photos = len(captures.train.samples) if captures.train else 0
    fewest = min(len(variant_runs.seeds) for variant_runs in runs.values())
    return {
        "protocol": {
            "steps": plan.config.steps,
            "batch": plan.config.batch,
            "crop_px": plan.config.crop_px,
            "images": plan.image_count,
            "seeds": list(plan.seeds),
            "test_images": len(test.samples),
            "intervals": f"95 %, bootstrap over {describe_units_and_runs(group_images(test.samples), fewest)}",
        },
        "variants": [_serialize_scores(variant_runs) for variant_runs in runs.values()],
        "comparisons": [
            comparison
            for metric in COMPARED_METRICS
            for comparison in _compare_variants(runs, baseline, metric)
        ],
        "equivalents": _compute_equivalents(list(runs.values()), photos),
        "learning_curves": [curve.to_json() for curve in _fit_learning_curves(runs, plan, photos)],
        "warnings": _find_data_conflicts(list(runs.values())),
    }


def summarize_ablation(
    plan: AblationPlan,
    skip_reasons: Mapping[str, str],
    captures: RealImageSplits,
    root: Path,
    notes: Sequence[str],
    *,
    workers: int,
) -> dict[str, Any]:
    """Return the results of an ablation study as JSON values, with the variants that have not run.

    Args:
        skip_reasons: reasons why variants have not run, by the names of all variants in order; those of
            variants with results are ignored.

    Raises:
        InputError: if there are no predictions, or the seeds of a variant trained on different
            data.
    """
    results = root / PREDICTIONS_FOLDER
    run_names = [
        variant.name
        for variant in plan.variants
        if any(locate_result(results, variant, seed).is_file() for seed in plan.seeds)
    ]
    baseline = run_names[0] if run_names and BASELINE not in run_names else BASELINE
    return {
        "environment": collect_environment(None, workers),
        "planned": list(skip_reasons),
        "not_run": [
            {"name": name, "reason": reason}
            for name, reason in skip_reasons.items()
            if name not in run_names
        ],
        "notes": list(notes),
        **score_ablation(plan, captures, results, baseline=baseline),
    }


def collect_notes(captures: RealImageSplits, *, variant_count: int) -> tuple[str, ...]:
    """Return notes for readers about the power and the limits of a study.

    Raises:
        InputError: if no test image has a labelled object, or an image cannot be read.
    """
    test_samples = captures.test.samples
    objects = count_objects(captures.test)
    effect = compute_min_detectable_effect(objects)
    strict_effect = compute_min_detectable_effect(objects, n_comparisons=max(1, variant_count - 1))
    dev = captures.dev
    training = [*captures.style.samples, *(captures.train.samples if captures.train else ())]
    near_duplicates = find_near_duplicates([*training, *(dev.samples if dev else ())], test_samples)
    notes = (
        f"Minimum detectable effect on {objects} objects in {len(test_samples)} test images: "
        f"{effect:.3f} AP50, or {strict_effect:.3f} with {variant_count} variants (80 % power, if two "
        f"detectors disagree on {DISCORDANT_FRACTION:.0%} of the objects).",
        "No development images: nothing is tuned."
        if dev is None
        else f"The labels of {len(dev.samples)} development images tune the input scale and the box "
        "padding only. Variants that train on some of them are tuned on the rest.",
        describe_near_duplicates(near_duplicates, len(test_samples)),
        _describe_shared_sessions(training, test_samples),
    )
    return tuple(note for note in notes if note)


def _describe_shared_sessions(
    training_samples: Sequence[Sample], test_samples: Sequence[Sample]
) -> str:
    """Return a note on sessions in both training and test images; empty without shared sessions."""
    shared = {s.session for s in training_samples} & {
        s.session for s in test_samples if s.session is not None
    }
    if not shared:
        return ""
    count = len({sample.session for sample in test_samples})
    return (
        f"{len(shared)} of {count} sessions of the test images also have style or training images. "
        "Generalization to new sessions is not measured."
    )


def _read_variant(
    plan: AblationPlan, variant: Variant, test: Dataset, results_dir: Path
) -> VariantRuns | None:
    """Read and score the predictions of a variant; None if it has not run."""
    read = (
        read_job_result(locate_result(results_dir, variant, seed), variant, plan, test)
        for seed in plan.seeds
    )
    results = [result for result in read if result is not None]
    if not results:
        return None
    # Subsets of images and pseudo-labels differ between seeds, so that the intervals cover them.
    differ = any(
        name == PSEUDO_LABELLED or name.startswith(f"{REAL}-") or is_render_subset(name)
        for name in variant.all_data
    )
    digests = [[record["digest"] for record in result["data"]] for result in results]
    if not differ and any(other != digests[0] for other in digests):
        raise InputError(
            results_dir,
            f"the seeds of variant '{variant.name}' were trained on different data. Run them again.",
        )
    predictions = [parse_detection_rows(result[DETECTION_ROWS]) for result in results]
    scores = [
        evaluate_detections(test, detections, rng=derive_rng(0, "ladder"), n_resamples=1)
        for detections in predictions
    ]
    evaluators = [DetectionEvaluator(test, detections) for detections in predictions]
    resampled = bootstrap_scores(evaluators, rng=derive_rng(0, "ladder"))
    return VariantRuns(
        variant,
        tuple(result["seed"] for result in results),
        tuple({m: getattr(score, m).value for m in METRICS} for score in scores),
        {
            m: average_over_seeds(resampled[m], derive_rng(0, f"ladder/{variant.name}"))
            for m in METRICS
        },
        results[-1].get("rejected", {}),
        {
            record["name"]: record["digest"]
            for record in results[0]["data"]
            if record["name"] in variant.all_data
        },
    )


def read_best_and_worst(
    plan: AblationPlan, scores: Mapping[str, Any], test: Dataset, root: Path
) -> tuple[FirstRun, FirstRun]:
    """Return the first runs of the variants with the highest and the lowest AP50.

    Args:
        scores: results of ``summarize_ablation``.

    Raises:
        InputError: as ``score_ablation``.
    """
    ranked = sorted(scores["variants"], key=lambda row: -row["ap50"]["value"])
    variants = {variant.name: variant for variant in plan.variants}
    best, worst = (variants[row["name"]] for row in (ranked[0], ranked[-1]))
    return _read_first_run(plan, best, test, root), _read_first_run(plan, worst, test, root)


def _read_first_run(plan: AblationPlan, variant: Variant, test: Dataset, root: Path) -> FirstRun:
    paths = ((s, locate_result(root / PREDICTIONS_FOLDER, variant, s)) for s in plan.seeds)
    results = ((seed, read_job_result(path, variant, plan, test)) for seed, path in paths)
    seed, result = next((seed, result) for seed, result in results if result is not None)
    weights = locate_weights(root, variant, seed)
    return FirstRun(variant.name, weights, parse_detection_rows(result[DETECTION_ROWS]))


def _find_data_conflicts(runs: Sequence[VariantRuns]) -> list[str]:
    """Return a warning for each pair of variants that trained on different datasets of one name."""
    warnings, first = [], dict[str, VariantRuns]()
    for variant_runs in runs:
        for name, digest in variant_runs.digests.items():
            other = first.setdefault(name, variant_runs)
            if other.digests[name] != digest:
                warnings.append(
                    f"The variants '{other.variant.name}' and '{variant_runs.variant.name}' were trained on different datasets "
                    f"'{name}'. Remove the predictions of one and run it again."
                )
    return warnings


def _serialize_scores(runs: VariantRuns) -> dict[str, Any]:
    """Return the scores of each seed, their mean with an interval, and counts of rejections."""
    return {
        "name": runs.variant.name,
        **({"rejected": dict(runs.rejected)} if runs.rejected else {}),
        "seeds": [
            {"seed": seed, **scores}
            for seed, scores in zip(runs.seeds, runs.seed_scores, strict=True)
        ],
        **{metric: estimate_seed_mean(runs.means[metric]).to_json() for metric in METRICS},
    }


def _compare_variants(
    runs: Mapping[str, VariantRuns], baseline: str, metric: str
) -> list[dict[str, Any]]:
    """Compare each planned variant with the baseline by one metric, with Holm's correction."""
    others = [n for n, r in runs.items() if n != baseline and not r.variant.is_curve_point]
    differences = [
        compare_seed_means(runs[name].means[metric], runs[baseline].means[metric])
        for name in others
    ]
    corrected = apply_holm_correction([difference.p_value for difference in differences])
    return [
        {"first": name, "second": baseline, "metric": metric, **difference.to_json(), "p_holm": p}
        for name, difference, p in zip(others, differences, corrected, strict=True)
    ]


def _compute_equivalents(runs: Sequence[VariantRuns], photo_count: int) -> dict[str, Any]:
    """Return the learning curve of real images and the equivalent number of images per variant."""
    means = {
        variant_runs.variant.name: variant_runs.means[EQUIVALENCE_METRIC] for variant_runs in runs
    }
    photo_counts = {
        variant_runs.variant.name: variant_runs.variant.count_photos(photo_count)
        for variant_runs in runs
        if all(name.startswith(REAL) for name in variant_runs.variant.data)
    }
    names = sorted(photo_counts, key=lambda name: photo_counts[name])
    equivalents: dict[str, Any] = {
        "metric": EQUIVALENCE_METRIC,
        "curve": [
            {"labelled_images": photo_counts[n], **estimate_seed_mean(means[n]).to_json()}
            for n in names
        ],
        "variants": [],
    }
    if len(names) >= _MIN_POINTS:
        curve, counts = np.stack([means[n] for n in names]), [photo_counts[n] for n in names]
        equivalents["variants"] = [
            {"variant": name, **estimate_equivalent_images(counts, curve, score).to_json()}
            for name, score in means.items()
            if name not in photo_counts
        ]
    return equivalents


def _fit_learning_curves(
    runs: Mapping[str, VariantRuns], plan: AblationPlan, photo_count: int
) -> list[LearningCurve]:
    """Return the learning curves with two or more points, by each metric."""
    variants = [variant_runs.variant for variant_runs in runs.values()]
    return [
        fit_learning_curve(
            resource,
            metric,
            {
                size: CurvePoint(len(runs[v.name].seeds), runs[v.name].means[metric])
                for size, v in points.items()
            },
        )
        for resource, points in locate_points(variants, plan, photo_count).items()
        if len(points) >= _MIN_POINTS
        for metric in METRICS
    ]
