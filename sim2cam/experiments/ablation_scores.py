"""Scores of a ladder, from its files of predictions: arms, differences, real equivalents."""

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
    locate_result,
    read_job_result,
)
from sim2cam.metrics.bootstrap import apply_holm_correction, average_over_seeds
from sim2cam.metrics.detection import (
    DetectionEvaluator,
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
EQUIVALENCE_METRIC = "ap50"  # by which arms are held against photos
BASELINE = "randomized"

_MIN_POINTS = 2  # of a learning curve


@dataclass(frozen=True)
class VariantRuns:
    """What was found by the trainings of one arm.

    Attributes:
        variant: the rung.
        seeds: of the trainings.
        seed_scores: by metric, of each training on all images.
        means: by metric, ``average_over_seeds`` on all images, then on resamples of images and seeds
            (1 + draws,).
        rejected: pictures that the certificate rejected, by the name of the translated data set; empty
            where that was not told. Those of published translators are learned all the same.
        digests: of the data sets that were made for it, by their names.
    """

    variant: Variant
    seeds: tuple[int, ...]
    seed_scores: tuple[Mapping[str, float], ...]
    means: Mapping[str, NDArray[np.float64]]
    rejected: Mapping[str, int]
    digests: Mapping[str, str]


def score_ablation(
    plan: AblationPlan, captures: RealImageSplits, results_dir: Path, *, baseline: str
) -> dict[str, Any]:
    """Return every arm's scores on the test split, with intervals, from the files of predictions.

    Args:
        plan: the ladder.
        captures: the splits.
        results_dir: folder of the predictions.
        baseline: name of the arm that the others are compared with, on the same resamples.

    Raises:
        InputError: the baseline has no predictions yet, or seeds of an arm saw different data.
    """
    test = captures.test
    found = [_read_variant(plan, arm, test, results_dir) for arm in plan.variants]
    runs = {one.variant.name: one for one in found if one is not None}
    if baseline not in runs:
        raise InputError(results_dir, f"no predictions of the arm '{baseline}' yet. Run it first.")
    photos = len(captures.train.samples) if captures.train else 0
    fewest = min(len(one.seeds) for one in runs.values())
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
        "variants": [_serialize_scores(one) for one in runs.values()],
        "comparisons": [
            c for metric in COMPARED_METRICS for c in _compare_variants(runs, baseline, metric)
        ],
        "equivalents": _compute_equivalents(list(runs.values()), photos),
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
    """Return all that is known of a ladder, as JSON values: scores, and what was not run and why.

    Args:
        plan: the ladder with all arms that can be run.
        skip_reasons: why arms are not run if they are not, by the names of all, in order.
        captures: the splits.
        root: folder of the ladder.
        notes: what readers have to know.
        workers: trainings side by side.

    Raises:
        InputError: there are no predictions yet, or seeds of an arm saw different data.
    """
    results = root / PREDICTIONS_FOLDER
    run = [
        arm.name
        for arm in plan.variants
        if any(locate_result(results, arm, seed).is_file() for seed in plan.seeds)
    ]
    baseline = run[0] if run and BASELINE not in run else BASELINE
    return {
        "environment": collect_environment(None, workers),
        "planned": list(skip_reasons),
        "not_run": [
            {"name": name, "reason": reason}
            for name, reason in skip_reasons.items()
            if name not in run
        ],
        "notes": list(notes),
        **score_ablation(plan, captures, results, baseline=baseline),
    }


def collect_notes(captures: RealImageSplits, *, variant_count: int) -> tuple[str, ...]:
    """Return what readers have to know before anything is run.

    Args:
        captures: the splits.
        variant_count: how many are to be compared.

    Raises:
        InputError: there is nothing to score against, or a picture cannot be read.
    """
    tested = captures.test.samples
    objects = count_objects(captures.test)
    effect = compute_min_detectable_effect(objects)
    strict = compute_min_detectable_effect(objects, n_comparisons=max(1, variant_count - 1))
    dev = captures.dev
    learned = [*captures.style.samples, *(captures.train.samples if captures.train else ())]
    notes = (
        f"{objects} objects in {len(tested)} test images show a difference of {effect:.3f} in AP50 "
        f"in four of five repetitions, and of {strict:.3f} where {variant_count} arms are compared, if two "
        f"detectors disagree on {DISCORDANT_FRACTION:.0%} of the objects.",
        "No development images: nothing is tuned."
        if dev is None
        else f"The labels of {len(dev.samples)} development images choose the magnification and the "
        "box margin, of arms that train on some of them by the others, and nothing else.",
        describe_near_duplicates(
            find_near_duplicates([*learned, *(dev.samples if dev else ())], tested), len(tested)
        ),
        _describe_shared_sessions(learned, tested),
    )
    return tuple(note for note in notes if note)


def _describe_shared_sessions(
    training_samples: Sequence[Sample], test_samples: Sequence[Sample]
) -> str:
    """Return which sessions are both learned from and scored; empty where none is."""
    shared = {s.session for s in training_samples} & {
        s.session for s in test_samples if s.session is not None
    }
    if not shared:
        return ""
    of_all = len({sample.session for sample in test_samples})
    return (
        f"{len(shared)} of {of_all} sessions of the test images have style or training images too: how it "
        "goes in another session is not measured."
    )


def _read_variant(
    plan: AblationPlan, variant: Variant, test: Dataset, results_dir: Path
) -> VariantRuns | None:
    """Return what there is of an arm; None where nothing is."""
    read = (
        read_job_result(locate_result(results_dir, variant, seed), variant, plan, test)
        for seed in plan.seeds
    )
    found = [facts for facts in read if facts is not None]
    if not found:
        return None
    # few photos are others for each seed, so that the luck of which they are is in the spread, and so are
    # labels that the arm itself found
    differ = any(
        name == PSEUDO_LABELLED or name.startswith(f"{REAL}-") for name in variant.all_data
    )
    if not differ and any(facts["data"] != found[0]["data"] for facts in found):
        raise InputError(
            results_dir,
            f"the seeds of arm '{variant.name}' were trained on different data. Run them again.",
        )
    predictions = [parse_detection_rows(facts[DETECTION_ROWS]) for facts in found]
    scores = [
        evaluate_detections(test, one, rng=derive_rng(0, "ladder"), n_resamples=1)
        for one in predictions
    ]
    matched = [DetectionEvaluator(test, one) for one in predictions]
    resampled = bootstrap_scores(matched, rng=derive_rng(0, "ladder"))
    return VariantRuns(
        variant,
        tuple(facts["seed"] for facts in found),
        tuple({m: getattr(score, m).value for m in METRICS} for score in scores),
        {
            m: average_over_seeds(resampled[m], derive_rng(0, f"ladder/{variant.name}"))
            for m in METRICS
        },
        found[-1].get("rejected", {}),
        {one["name"]: one["digest"] for one in found[0]["data"] if one["name"] in variant.all_data},
    )


def _find_data_conflicts(runs: Sequence[VariantRuns]) -> list[str]:
    """Return which arms were trained on different data sets of one name, so that what sets them apart is
    not their rung alone.
    """
    warnings, first = [], dict[str, VariantRuns]()
    for one in runs:
        for name, digest in one.digests.items():
            other = first.setdefault(name, one)
            if other.digests[name] != digest:
                warnings.append(
                    f"The arms '{other.variant.name}' and '{one.variant.name}' were trained on different data sets "
                    f"'{name}'. Remove the predictions of one and run it again."
                )
    return warnings


def _serialize_scores(runs: VariantRuns) -> dict[str, Any]:
    """Return the scores of each seed, their mean with an interval, and what was kept out."""
    return {
        "name": runs.variant.name,
        **({"rejected": dict(runs.rejected)} if runs.rejected else {}),
        "seeds": [
            {"seed": seed, **each} for seed, each in zip(runs.seeds, runs.seed_scores, strict=True)
        ],
        **{metric: estimate_seed_mean(runs.means[metric]).to_json() for metric in METRICS},
    }


def _compare_variants(
    runs: Mapping[str, VariantRuns], baseline: str, metric: str
) -> list[dict[str, Any]]:
    """Return how much each arm differs from the baseline by a metric, with Holm's correction."""
    others = [name for name in runs if name != baseline]
    found = [
        compare_seed_means(runs[n].means[metric], runs[baseline].means[metric]) for n in others
    ]
    corrected = apply_holm_correction([one.p_value for one in found])
    return [
        {"first": name, "second": baseline, "metric": metric, **one.to_json(), "p_holm": p}
        for name, one, p in zip(others, found, corrected, strict=True)
    ]


def _compute_equivalents(runs: Sequence[VariantRuns], photo_count: int) -> dict[str, Any]:
    """Return the learning curve of photos alone, and how many of them each other arm is worth."""
    means = {one.variant.name: one.means[EQUIVALENCE_METRIC] for one in runs}
    numbers = {
        one.variant.name: one.variant.count_photos(photo_count)
        for one in runs
        if _is_real_only(one.variant)
    }
    names = sorted(numbers, key=lambda name: numbers[name])
    facts: dict[str, Any] = {
        "metric": EQUIVALENCE_METRIC,
        "curve": [
            {"labelled_images": numbers[n], **estimate_seed_mean(means[n]).to_json()} for n in names
        ],
        "variants": [],
    }
    if len(names) >= _MIN_POINTS:
        curve = np.stack([means[name] for name in names])
        facts["variants"] = [
            {
                "variant": name,
                **estimate_equivalent_images([numbers[n] for n in names], curve, score).to_json(),
            }
            for name, score in means.items()
            if name not in numbers
        ]
    return facts


def _is_real_only(variant: Variant) -> bool:
    return all(name.startswith(REAL) for name in variant.data)
