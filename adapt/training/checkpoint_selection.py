"""Which weights of a training ship: what is kept aside to judge them by, when, and which are best."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from sim2cam.adapt.card import compute_sample_digest
from sim2cam.data.sample import Dataset, Sample
from sim2cam.learn.run_folder import WEIGHTS
from sim2cam.learn.weight_file import get_card_path, load_card, parse_card
from sim2cam.metrics.image_statistics import MIN_SIDE_PX
from sim2cam.metrics.two_sample import MIN_IMAGES

Groups = Sequence[Sequence[Sample]]

ASIDE_SHARE = 1 / 5
MOST_ASIDE = 20
LEAST_SIDE = 3 * MIN_IMAGES  # of renders, and of captures: most of them are to be learned from
MIN_CANDIDATES, MAX_CANDIDATES = 2, 8
MIN_INTERVAL_STEPS = 100  # from one candidate to the next
JUDGED_SHARE = 0.5
"""Pixels that are translated to be judged, at most, for each pixel that is trained on: a step costs six
to twenty times as much a pixel as a translation, so that judging takes less than a tenth of the time. Of the
least candidates on the fewest pictures it takes what it takes."""
JUDGE_COST = 1.5
"""What it costs to ask a detector before and after, over translating and measuring a picture."""


@dataclass(frozen=True)
class CandidateScores:
    """Weights that could ship, by pictures that were kept aside.

    Attributes:
        step: after which they were taken.
        accepted: translated renders that keep to every limit.
        violations: what of all of them breaks a limit, in words.
        distance: of their looks from those of the captures; the sliced Wasserstein distance, in standard
            deviations.
    """

    step: int
    accepted: int
    violations: tuple[str, ...]
    distance: float


@dataclass(frozen=True)
class CheckpointSelection:
    """Which weights ship.

    Attributes:
        step: after which they were taken.
        reason: these, in words.
        render_count, capture_count: how many were kept aside.
        source_distance: distance of the renders themselves; None where nothing was kept aside.
        candidates: all of them, in order.
    """

    step: int
    reason: str
    render_count: int = 0
    capture_count: int = 0
    source_distance: float | None = None
    candidates: tuple[CandidateScores, ...] = ()


@dataclass(frozen=True)
class TrainingOutcome:
    """What came of a training, beside its weights.

    Attributes:
        selection: which weights ship.
        warnings: signs that it went wrong, in words.
    """

    selection: CheckpointSelection
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class TrainingSplit:
    """Renders and captures, apart by their use.

    Attributes:
        sim, real: to be trained on.
        sim_held_out, real_held_out: to judge by; empty without candidates.
        candidate_steps: after which a candidate is judged; none, or two and more.
        reason: nothing is kept aside, in words; None where something is.
    """

    sim: Dataset
    real: Dataset
    sim_held_out: Dataset
    real_held_out: Dataset
    candidate_steps: tuple[int, ...] = ()
    reason: str | None = None


def split_held_out(
    sim: Dataset,
    real: Dataset,
    *,
    steps: int,
    pixels: int,
    log_interval_steps: int,
    verifier_count: int,
    is_paired: bool = False,
) -> TrainingSplit:
    """Return what is trained on, and what is kept aside: a fifth of each side, 10 to 20 pictures.

    Pictures are chosen by their hashes; scenes of renders as a whole, which may make it a few more,
    but no more than a third. Where judging so many renders would take too much of the time, they are fewer,
    10 at least. Nothing is kept aside from fewer than 30 pictures, from small ones, or when the training is
    too short to judge twice.

    Args:
        sim, real: renders and captures.
        steps: of the training.
        pixels: of the renders that a step is trained on.
        log_interval_steps: candidates are judged after multiples of this, and at the end.
        verifier_count: detectors that are asked, which leave time for fewer candidates.
        is_paired: each capture is of the scene of the render in its place, and stays with it.

    Raises:
        InputError: a capture cannot be read.
    """
    none = replace(real, samples=())
    whole = TrainingSplit(sim, real, replace(sim, samples=()), none)
    for side, what in ((sim, "renders"), (real, "captures")):
        if len(side.samples) < LEAST_SIDE:
            return replace(whole, reason=f"{len(side.samples)} {what} are fewer than {LEAST_SIDE}")
        if any(min(sample.width, sample.height) < MIN_SIDE_PX for sample in side.samples):
            return replace(whole, reason=f"some {what} have a side of less than {MIN_SIDE_PX} px")
    cost_px = (1 + JUDGE_COST * verifier_count) * fmean(s.width * s.height for s in sim.samples)
    affordable = JUDGED_SHARE * pixels * steps / cost_px  # renders, of all candidates together
    wanted = min(_wanted(sim), max(MIN_IMAGES, int(affordable / MIN_CANDIDATES)))
    renders = _picked(_ranked(sim), wanted, len(sim.samples) // 3)
    if is_paired:
        aside = _partners(sim, real, renders)
    else:
        aside = _picked(_ranked(real), _wanted(real), len(real.samples) // 3)
    if len(renders) < MIN_IMAGES:
        return replace(whole, reason="the renders are of too few scenes")
    if len(aside) < MIN_IMAGES:
        return replace(whole, reason="too many captures are copies of one another")
    count = max(MIN_CANDIDATES, int(affordable / len(renders)))
    judged = schedule_evaluations(
        steps, count, log_interval_steps, min_interval_steps=MIN_INTERVAL_STEPS
    )
    if not judged:
        return replace(whole, reason=f"{steps} steps are too few to judge more than once")
    return TrainingSplit(
        _without(sim, renders), _without(real, aside),
        replace(sim, samples=renders), replace(real, samples=aside),
        judged,
    )  # fmt: skip


def select_best(candidates: Sequence[CandidateScores]) -> CandidateScores:
    """Return the candidate that ships.

    Of the candidates without a violation this is the one nearest to the real images. If every candidate has
    one, it is the one with the most accepted images. Of equals, the latest.
    """
    return max(
        candidates,
        key=lambda c: (not c.violations, c.accepted if c.violations else 0, -c.distance, c.step),
    )


def build_selection(
    split: TrainingSplit, candidates: Sequence[CandidateScores], source_distance: float
) -> CheckpointSelection:
    """Return which of some candidates ships, and why."""
    best = select_best(candidates)
    keep = sum(not candidate.violations for candidate in candidates)
    renders = len(split.sim_held_out.samples)
    if not keep:
        why = (
            f"none of {len(candidates)} candidates kept to the limits; of this one most pictures "
            f"passed, {best.accepted} of {renders}"
        )
    else:
        why = (
            f"of {len(candidates)} candidates, {keep} kept to the limits; of these, this one is the "
            "nearest to the captures that were kept aside"
        )
    captures = len(split.real_held_out.samples)
    return CheckpointSelection(
        best.step, why, renders, captures, source_distance, tuple(candidates)
    )


def read_training_outcome(run_dir: Path) -> TrainingOutcome:
    """Return what came of the training in a folder.

    Raises:
        CheckpointError: there is no card of a translator, or it does not say.
    """
    path = run_dir / WEIGHTS
    return parse_card(
        get_card_path(path), load_card(path).get("outcome") or {}, TrainingOutcome, "a translator"
    )


def _ranked(dataset: Dataset) -> Groups:
    """Return pictures by their hashes; copies, and renders of one scene, stay together."""
    groups: dict[str, list[Sample]] = {}
    for sample in dataset.samples:
        key = f"scene {sample.scene_index}" if sample.digest else compute_sample_digest(sample)
        groups.setdefault(key, []).append(sample)
    hashes = {
        key: min(hashlib.sha256(compute_sample_digest(s).encode()).digest() for s in group)
        for key, group in groups.items()
    }
    return [groups[key] for key in sorted(groups, key=lambda key: hashes[key])]


def _wanted(dataset: Dataset) -> int:
    share = round(ASIDE_SHARE * len(dataset.samples))
    return min(max(share, MIN_IMAGES), MOST_ASIDE)


def _picked(groups: Groups, least: int, most: int) -> tuple[Sample, ...]:
    """Return the samples of the first groups, whole."""
    picked: list[Sample] = []
    for group in groups:
        if len(picked) < least and len(picked) + len(group) <= most:
            picked += group
    return tuple(picked)


def _partners(sim: Dataset, real: Dataset, renders: Sequence[Sample]) -> tuple[Sample, ...]:
    """Return the captures in the places of some renders."""
    of = {s.name: capture.name for s, capture in zip(sim.samples, real.samples, strict=True)}
    return real.select_by_name({of[sample.name] for sample in renders}).samples


def _without(dataset: Dataset, samples: Sequence[Sample]) -> Dataset:
    gone = {sample.name for sample in samples}
    return replace(dataset, samples=tuple(s for s in dataset.samples if s.name not in gone))


def schedule_evaluations(
    steps: int, max_count: int, log_interval_steps: int, *, min_interval_steps: int
) -> tuple[int, ...]:
    """Return the steps of a training after which it is looked at, evenly spread and ending with the last.

    They are at most ``MAX_CANDIDATES``, and none where that leaves fewer than two.

    Args:
        steps: of the training.
        max_count: of them.
        log_interval_steps: all but the last are multiples of this.
        min_interval_steps: steps from one to the next, at least.
    """
    count = min(MAX_CANDIDATES, steps // min_interval_steps, max_count)
    if count < MIN_CANDIDATES:
        return ()
    inner = (
        log_interval_steps * round(i * steps / count / log_interval_steps) for i in range(1, count)
    )
    return (*inner, steps)
