"""Scores of a ladder, from its files of predictions: arms, differences, real equivalents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.data.checks.duplicates import duplicates_note, near_duplicates
from sim2cam.data.environment import environment_facts
from sim2cam.data.formats.predictions import ROWS, detections_of_rows
from sim2cam.data.real_images import CaptureSets
from sim2cam.data.sample import Dataset, Sample
from sim2cam.errors import InputError
from sim2cam.experiments.ablation import (
    LABELLED,
    PREDICTIONS,
    REAL,
    Arm,
    Plan,
    read_piece,
    result_file,
)
from sim2cam.metrics.bootstrap import holm, mean_of_seeds
from sim2cam.metrics.detection import (
    MatchedRun,
    compare,
    count_objects,
    evaluate,
    mean_estimate,
    resampled_scores,
)
from sim2cam.metrics.equivalent_photos import real_equivalent
from sim2cam.metrics.power import DISCORDANT, planned_detectable
from sim2cam.metrics.resampling import over_runs, units_of
from sim2cam.seeds import stream

METRICS = ("ap", "ap50", "agnostic_ap50")
COMPARED = ("ap50", "ap")
WORTH = "ap50"  # by which arms are held against photos
BASELINE = "randomized"

_LEAST_POINTS = 2  # of a learning curve


@dataclass(frozen=True)
class ArmRuns:
    """What was found by the trainings of one arm.

    Attributes:
        arm: the rung.
        seeds: of the trainings.
        each: by metric, of each training on all images.
        means: by metric, ``mean_of_seeds`` on all images, then on resamples of images and seeds
            (1 + draws,).
        rejected: pictures that the certificate rejected, by the name of the translated data set; empty
            where that was not told. Those of published translators are learned all the same.
        digests: of the data sets that were made for it, by their names.
    """

    arm: Arm
    seeds: tuple[int, ...]
    each: tuple[Mapping[str, float], ...]
    means: Mapping[str, NDArray[np.float64]]
    rejected: Mapping[str, int]
    digests: Mapping[str, str]


def score_ladder(
    plan: Plan, captures: CaptureSets, results: Path, *, baseline: str
) -> dict[str, Any]:
    """Returns every arm's scores on the test split, with intervals, from the files of predictions.

    Args:
        plan: the ladder.
        captures: the splits.
        results: folder of the predictions.
        baseline: name of the arm that the others are compared with, on the same resamples.

    Raises:
        InputError: the baseline has no predictions yet, or seeds of an arm saw different data.
    """
    test = captures.test
    found = [_read_arm(plan, arm, test, results) for arm in plan.arms]
    runs = {one.arm.name: one for one in found if one is not None}
    if baseline not in runs:
        raise InputError(results, f"no predictions of the arm '{baseline}' yet. Run it first.")
    photos = len(captures.train.samples) if captures.train else 0
    fewest = min(len(one.seeds) for one in runs.values())
    return {
        "protocol": {
            "steps": plan.config.steps,
            "batch": plan.config.batch,
            "crop_px": plan.config.crop_px,
            "pictures": plan.pictures,
            "seeds": list(plan.seeds),
            "test_images": len(test.samples),
            "intervals": f"95 %, bootstrap over {over_runs(units_of(test.samples), fewest)}",
        },
        "arms": [_arm_scores(one) for one in runs.values()],
        "comparisons": [c for metric in COMPARED for c in _comparisons(runs, baseline, metric)],
        "equivalents": _equivalents(list(runs.values()), photos),
        "warnings": _data_warnings(list(runs.values())),
    }


def ladder_facts(
    plan: Plan,
    missing: Mapping[str, str],
    captures: CaptureSets,
    root: Path,
    notes: Sequence[str],
    *,
    workers: int,
) -> dict[str, Any]:
    """Returns all that is known of a ladder, as JSON values: scores, and what was not run and why.

    Args:
        plan: the ladder with all arms that can be run.
        missing: why arms are not run if they are not, by the names of all, in order.
        captures: the splits.
        root: folder of the ladder.
        notes: what readers have to know.
        workers: trainings side by side.

    Raises:
        InputError: there are no predictions yet, or seeds of an arm saw different data.
    """
    results = root / PREDICTIONS
    run = [
        arm.name
        for arm in plan.arms
        if any(result_file(results, arm, seed).is_file() for seed in plan.seeds)
    ]
    baseline = run[0] if run and BASELINE not in run else BASELINE
    return {
        "environment": environment_facts(None, workers),
        "planned": list(missing),
        "not_run": [
            {"name": name, "reason": reason} for name, reason in missing.items() if name not in run
        ],
        "notes": list(notes),
        **score_ladder(plan, captures, results, baseline=baseline),
    }


def ladder_notes(captures: CaptureSets, *, arms: int) -> tuple[str, ...]:
    """Returns what readers have to know before anything is run.

    Args:
        captures: the splits.
        arms: how many are to be compared.

    Raises:
        InputError: there is nothing to score against, or a picture cannot be read.
    """
    tested = captures.test.samples
    objects = count_objects(captures.test)
    effect = planned_detectable(objects)
    strict = planned_detectable(objects, comparisons=max(1, arms - 1))
    dev = captures.dev
    learned = [*captures.style.samples, *(captures.train.samples if captures.train else ())]
    notes = (
        f"{objects} objects in {len(tested)} test images show a difference of {effect:.3f} in AP50 "
        f"in four of five repetitions, and of {strict:.3f} where {arms} arms are compared, if two "
        f"detectors disagree on {DISCORDANT:.0%} of the objects.",
        "No development images: nothing is tuned."
        if dev is None
        else f"The labels of {len(dev.samples)} development images choose the magnification and the "
        "box margin, of arms that train on some of them by the others, and nothing else.",
        duplicates_note(
            near_duplicates([*learned, *(dev.samples if dev else ())], tested), len(tested)
        ),
        _sessions_note(learned, tested),
    )
    return tuple(note for note in notes if note)


def _sessions_note(learned: Sequence[Sample], tested: Sequence[Sample]) -> str:
    """Returns which sessions are both learned from and scored; empty where none is."""
    shared = {s.session for s in learned} & {s.session for s in tested if s.session is not None}
    if not shared:
        return ""
    of_all = len({sample.session for sample in tested})
    return (
        f"{len(shared)} of {of_all} sessions of the test images have style or training images too: how it "
        "goes in another session is not measured."
    )


def _read_arm(plan: Plan, arm: Arm, test: Dataset, results: Path) -> ArmRuns | None:
    """Returns what there is of an arm; None where nothing is."""
    read = (read_piece(result_file(results, arm, seed), arm, plan, test) for seed in plan.seeds)
    found = [facts for facts in read if facts is not None]
    if not found:
        return None
    # few photos are others for each seed, so that the luck of which they are is in the spread, and so are
    # labels that the arm itself found
    differ = any(name == LABELLED or name.startswith(f"{REAL}-") for name in arm.learned)
    if not differ and any(facts["data"] != found[0]["data"] for facts in found):
        raise InputError(
            results,
            f"the seeds of arm '{arm.name}' were trained on different data. Run them again.",
        )
    predictions = [detections_of_rows(facts[ROWS]) for facts in found]
    scores = [evaluate(test, one, rng=stream(0, "ladder"), draws=1) for one in predictions]
    matched = [MatchedRun(test, one) for one in predictions]
    resampled = resampled_scores(matched, rng=stream(0, "ladder"))
    return ArmRuns(
        arm,
        tuple(facts["seed"] for facts in found),
        tuple({m: getattr(score, m).value for m in METRICS} for score in scores),
        {m: mean_of_seeds(resampled[m], stream(0, f"ladder/{arm.name}")) for m in METRICS},
        found[-1].get("rejected", {}),
        {one["name"]: one["digest"] for one in found[0]["data"] if one["name"] in arm.learned},
    )


def _data_warnings(runs: Sequence[ArmRuns]) -> list[str]:
    """Returns which arms were trained on different data sets of one name, so that what sets them apart is
    not their rung alone.
    """
    warnings, first = [], dict[str, ArmRuns]()
    for one in runs:
        for name, digest in one.digests.items():
            other = first.setdefault(name, one)
            if other.digests[name] != digest:
                warnings.append(
                    f"The arms '{other.arm.name}' and '{one.arm.name}' were trained on different data sets "
                    f"'{name}'. Remove the predictions of one and run it again."
                )
    return warnings


def _arm_scores(runs: ArmRuns) -> dict[str, Any]:
    """Returns the scores of each seed, their mean with an interval, and what was kept out."""
    return {
        "name": runs.arm.name,
        **({"rejected": dict(runs.rejected)} if runs.rejected else {}),
        "seeds": [{"seed": seed, **each} for seed, each in zip(runs.seeds, runs.each, strict=True)],
        **{metric: mean_estimate(runs.means[metric]).to_json() for metric in METRICS},
    }


def _comparisons(runs: Mapping[str, ArmRuns], baseline: str, metric: str) -> list[dict[str, Any]]:
    """Returns how much each arm differs from the baseline by a metric, with Holm's correction."""
    others = [name for name in runs if name != baseline]
    found = [compare(runs[n].means[metric], runs[baseline].means[metric]) for n in others]
    corrected = holm([one.p_value for one in found])
    return [
        {"first": name, "second": baseline, "metric": metric, **one.to_json(), "p_holm": p}
        for name, one, p in zip(others, found, corrected, strict=True)
    ]


def _equivalents(runs: Sequence[ArmRuns], photos: int) -> dict[str, Any]:
    """Returns the learning curve of photos alone, and how many of them each other arm is worth."""
    means = {one.arm.name: one.means[WORTH] for one in runs}
    numbers = {one.arm.name: one.arm.photos(photos) for one in runs if _is_photos(one.arm)}
    names = sorted(numbers, key=lambda name: numbers[name])
    facts: dict[str, Any] = {
        "metric": WORTH,
        "curve": [{"photos": numbers[n], **mean_estimate(means[n]).to_json()} for n in names],
        "worth": [],
    }
    if len(names) >= _LEAST_POINTS:
        curve = np.stack([means[name] for name in names])
        facts["worth"] = [
            {"arm": name, **real_equivalent([numbers[n] for n in names], curve, score).to_json()}
            for name, score in means.items()
            if name not in numbers
        ]
    return facts


def _is_photos(arm: Arm) -> bool:
    return all(name.startswith(REAL) for name in arm.data)
