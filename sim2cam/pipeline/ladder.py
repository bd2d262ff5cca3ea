"""The ladder: equal trainings on ever more of the pipeline, scored on the same real captures.

Every arm trains the same detector for the same number of steps; only the data differ. Pieces are
(arm, seed) pairs: each leaves one file of predictions, from which all scores are computed, so that
a ladder can be run in pieces and on several machines.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

from sim2cam.adapt.store import METHODS, PlainMethod
from sim2cam.dataset.captures import read_captures
from sim2cam.dataset.reader import read_dataset
from sim2cam.dataset.sample import Dataset
from sim2cam.dataset.writer import write_json
from sim2cam.errors import InputError
from sim2cam.measure.bootstrap import holm
from sim2cam.measure.detection import Detection, MatchedRun, compare, evaluate, mean_estimate
from sim2cam.models.config import TrainConfig
from sim2cam.models.prediction import predict_dataset
from sim2cam.models.training import train_detector
from sim2cam.models.tuning import tuned
from sim2cam.pipeline.generate import generate
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.pipeline.translate import (
    Certification,
    apply_transfer,
    fit_plain_transfer,
    train_network,
)
from sim2cam.seeds import stream
from sim2cam.training.device import use_threads

METRICS = ("ap", "ap50", "agnostic_ap50")
REAL = "real"  # the labelled captures, among the names of data sets
TRANSLATED = "translated"  # by the network; other translations have the names of their methods


@dataclass(frozen=True)
class Arm:
    """One rung.

    Attributes:
        name: as tables show it.
        data: names of the data sets of its training, all with the same weight.
    """

    name: str
    data: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """What is equal for all arms.

    Attributes:
        arms: the rungs.
        seeds: of the trainings.
        config: of every training, but for its seed.
        pictures: size of each rendered data set.
        data_seed: of rendering and translating.
    """

    arms: tuple[Arm, ...]
    seeds: tuple[int, ...]
    config: TrainConfig
    pictures: int
    data_seed: int


@dataclass(frozen=True)
class Captures:
    """The splits of the real captures.

    Attributes:
        train: labelled; only arms with the data set ``REAL`` train on it.
        style: pictures whose labels are not read.
        dev: labelled; the other arms choose magnification and box margin on it.
        test: labelled; scored, chooses nothing.
    """

    train: Path
    style: Path
    dev: Path
    test: Path


@dataclass(frozen=True)
class Piece:
    """One training to be done; where its data lie and where its predictions go."""

    arm: Arm
    seed: int
    config: TrainConfig
    work: Path
    captures: Captures
    result: Path
    threads: int


def prepare_data(plan: Plan, captures: Captures, work: Path, *, workers: int) -> None:
    """Makes, or completes, every data set that the arms train on, below ``work``.

    Raises:
        Sim2CamError: a data set cannot be made.
    """
    names = {name for arm in plan.arms for name in arm.data}
    for name, recipe in (("fixed", "dice-fixed"), ("randomized", "dice")):
        if name in names:
            _render(plan, recipe, work / name, workers)
    for name in sorted(names & {*METHODS, TRANSLATED}):
        _translate(plan, name, captures, work, workers)


def run_piece(piece: Piece) -> Path:
    """Trains one arm with one seed and writes its predictions on the test split.

    Arms without real labels are tuned on the development split, which the others train on.

    Raises:
        Sim2CamError: the training failed.
    """
    use_threads(piece.threads)
    run = piece.work / "runs" / piece.result.stem
    parts = tuple((_data(name, piece), 1.0) for name in piece.arm.data)
    detector = train_detector(parts, replace(piece.config, seed=piece.seed), run, resume=True)
    if REAL not in piece.arm.data:
        detector = tuned(detector, read_captures(piece.captures.dev))
    found = predict_dataset(detector, read_captures(piece.captures.test))
    facts = {
        "arm": piece.arm.name,
        "seed": piece.seed,
        "config": asdict(piece.config),
        "data": [asdict(record) for record in detector.card.data],
        "magnification": detector.card.magnification,
        "box_margin": detector.card.box_margin,
        "found": {image: [_short(d) for d in detections] for image, detections in found.items()},
    }
    write_json(piece.result, facts, in_lines=False)
    return piece.result


def pieces(
    plan: Plan, captures: Captures, work: Path, results: Path, *, threads: int
) -> list[Piece]:
    """Returns the pieces that have no predictions yet, all arms of one seed before the next."""
    planned = [
        Piece(
            arm,
            seed,
            plan.config,
            work,
            captures,
            _result_file(results, arm, seed),
            threads,
        )
        for seed in plan.seeds
        for arm in plan.arms
    ]
    return [piece for piece in planned if not piece.result.is_file()]


def score_ladder(plan: Plan, captures: Captures, results: Path, *, baseline: str) -> dict[str, Any]:
    """Returns every arm's scores on the test split, with intervals, from the files of predictions.

    Args:
        plan: the ladder.
        captures: the splits.
        results: folder of the predictions.
        baseline: name of the arm that the others are compared with, paired over images.

    Raises:
        InputError: the baseline has no predictions yet, or seeds of an arm saw different data.
    """
    test = read_captures(captures.test)
    runs: dict[str, list[dict[str, Any]]] = {}
    for arm in plan.arms:
        found = [_read_piece(_result_file(results, arm, seed), arm, plan) for seed in plan.seeds]
        if done := [facts for facts in found if facts is not None]:
            runs[arm.name] = done
    _check_same_data(runs, results)
    if baseline not in runs:
        raise InputError(
            results, f"no predictions of the arm '{baseline}' yet. Run its piece first."
        )
    arms = [_arm_scores(name, found, test) for name, found in runs.items()]
    return {
        "protocol": {
            "steps": plan.config.steps,
            "batch": plan.config.batch,
            "crop_px": plan.config.crop_px,
            "pictures": plan.pictures,
            "seeds": list(plan.seeds),
            "test_images": len(test.samples),
            "intervals": "95 %, bootstrap over images, mean of the seeds",
        },
        "arms": arms,
        "comparisons": _comparisons(runs, test, baseline),
    }


def _result_file(results: Path, arm: Arm, seed: int) -> Path:
    return results / f"{_slug(arm.name)}-{seed}.json"


def _read_piece(path: Path, arm: Arm, plan: Plan) -> dict[str, Any] | None:
    """Returns the predictions of a piece of this very plan; None before it was run.

    Raises:
        InputError: they come from another budget or other data.
    """
    if not path.is_file():
        return None
    facts: dict[str, Any] = json.loads(path.read_text())
    wanted = {"arm": arm.name, "config": json.loads(json.dumps(asdict(plan.config)))}
    for key, value in wanted.items():
        if facts.get(key) != value:
            raise InputError(
                path, f"{key} is {facts.get(key)}, not {value}. Remove it to run it again."
            )
    return facts


def _check_same_data(runs: Mapping[str, Sequence[Mapping[str, Any]]], results: Path) -> None:
    for name, found in runs.items():
        if any(facts["data"] != found[0]["data"] for facts in found):
            raise InputError(
                results,
                f"the seeds of arm '{name}' were trained on different data. Run them again.",
            )


def _render(plan: Plan, recipe: str, root: Path, workers: int) -> None:
    generate(
        load_recipe(recipe),
        root,
        count=plan.pictures,
        seed=plan.data_seed,
        workers=workers,
        resume=True,
        overwrite=False,
        progress=lambda _done, _total: None,
    )


def _translate(plan: Plan, name: str, captures: Captures, work: Path, workers: int) -> None:
    style, run = read_captures(captures.style), work / "transfers" / name
    sim = read_dataset(work / "randomized")
    options = load_recipe("dice").adapt
    if name == TRANSLATED:
        train_network(sim, style, options.translator, run, resume=True, device="cpu", progress=None)
    elif not run.is_dir():
        fit_plain_transfer(style, cast(PlainMethod, name), run, overwrite=False)
    apply_transfer(
        run,
        sim,
        work / name,
        certification=Certification(options.certificate),
        seed=plan.data_seed,
        workers=workers,
        device="cpu",
        resume=True,
        overwrite=False,
        progress=lambda _done, _total: None,
    )


def _data(name: str, piece: Piece) -> Dataset:
    return read_captures(piece.captures.train) if name == REAL else read_dataset(piece.work / name)


def _arm_scores(name: str, runs: Sequence[Mapping[str, Any]], test: Dataset) -> dict[str, Any]:
    """Returns the scores of each seed, and their mean with an interval over images."""
    matched = [MatchedRun(test, _predictions(run["found"])) for run in runs]
    each = [
        evaluate(test, _predictions(run["found"]), rng=stream(0, "ladder")).to_json()
        for run in runs
    ]
    seeds = [
        {"seed": run["seed"], **{metric: score[metric]["value"] for metric in METRICS}}
        for run, score in zip(runs, each, strict=True)
    ]
    estimates = {
        metric: mean_estimate(matched, metric=metric, rng=stream(0, "ladder")).to_json()
        for metric in METRICS
    }
    return {"name": name, "seeds": seeds, **estimates}


def _comparisons(
    runs: Mapping[str, Sequence[Mapping[str, Any]]], test: Dataset, baseline: str
) -> list[dict[str, Any]]:
    """Returns how much each arm's AP50 differs from the baseline's, with Holm's correction."""
    matched = {
        name: [MatchedRun(test, _predictions(run["found"])) for run in found]
        for name, found in runs.items()
    }
    others = [name for name in matched if name != baseline]
    found = [
        compare(matched[name], matched[baseline], metric="ap50", rng=stream(0, "ladder"))
        for name in others
    ]
    corrected = holm([difference.p_value for difference in found])
    return [
        {
            "first": name,
            "second": baseline,
            "metric": "ap50",
            **difference.to_json(),
            "p_holm": p,
        }
        for name, difference, p in zip(others, found, corrected, strict=True)
    ]


def _predictions(found: Mapping[str, Sequence[Sequence[Any]]]) -> dict[str, tuple[Detection, ...]]:
    return {
        image: tuple(Detection(d[0], (d[1], d[2], d[3], d[4]), d[5]) for d in detections)
        for image, detections in found.items()
    }


def _short(detection: Detection) -> list[Any]:
    box = [round(side, 2) for side in detection.box_xyxy]
    return [detection.category, *box, round(detection.score, 4)]


def _slug(name: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in name).split()).lower()
