"""Checkpoint selection: held-out split, schedule of evaluations, and choice of the best candidate."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sim2cam.adapt.card import compute_sample_digest
from sim2cam.data.sample import Dataset, Sample
from sim2cam.learn.run_folder import WEIGHTS
from sim2cam.learn.weight_file import get_card_path, load_card, parse_card
from sim2cam.metrics.image_statistics import MIN_SIDE_PX
from sim2cam.metrics.two_sample import MIN_IMAGES

Groups = Sequence[Sequence[Sample]]

HELD_OUT_FRACTION = 1 / 5
MAX_HELD_OUT = 20
MIN_DATASET_SIZE = 3 * MIN_IMAGES  # so that at least two thirds of the images are trained on
MIN_CANDIDATES, MAX_CANDIDATES = 2, 5
MIN_INTERVAL_STEPS = 100  # between two candidates
LOG_INTERVAL_STEPS = 10


@dataclass(frozen=True)
class CandidateScores:
    """Scores of one checkpoint on held-out images.

    Attributes:
        step: training steps of the checkpoint.
        accepted: translated renders that keep all limits of the certificate.
        violations: limits that the set of translated renders breaks, as messages.
        distance: sliced Wasserstein distance between the image statistics of the translated renders and of the
            real images, in standard deviations.
    """

    step: int
    accepted: int
    violations: tuple[str, ...]
    distance: float


@dataclass(frozen=True)
class CheckpointSelection:
    """The checkpoint that ships, with the scores of all candidates.

    Attributes:
        step: training steps of the checkpoint.
        reason: why it was selected, as a message.
        render_count, capture_count: held-out renders and real images.
        source_distance: distance of the untranslated renders; None without held-out images.
        candidates: scores of all candidates, in order.
    """

    step: int
    reason: str
    render_count: int = 0
    capture_count: int = 0
    source_distance: float | None = None
    candidates: tuple[CandidateScores, ...] = ()


@dataclass(frozen=True)
class TrainingOutcome:
    """Outcome of a training apart from its weights.

    Attributes:
        selection: the checkpoint that ships.
        warnings: diagnostics of the last steps, as messages.
    """

    selection: CheckpointSelection
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class TrainingSplit:
    """Renders and real images, split into training and held-out images.

    Attributes:
        sim, real: images to train on.
        sim_held_out, real_held_out: images to evaluate on; empty without candidates.
        candidate_steps: steps after which a candidate is evaluated; none, or at least two.
        reason: why nothing is held out, as a message; None otherwise.
    """

    sim: Dataset
    real: Dataset
    sim_held_out: Dataset
    real_held_out: Dataset
    candidate_steps: tuple[int, ...] = ()
    reason: str | None = None


def split_held_out(
    sim: Dataset, real: Dataset, steps: int, *, is_paired: bool = False
) -> TrainingSplit:
    """Split renders and real images into training and held-out images.

    A fifth of each side is held out: 10 to 20 images, chosen by the hash of their content. Renders of one scene
    stay together, so there may be a few more, up to a third of all. Nothing is held out from fewer than 30
    images, from images smaller than ``MIN_SIDE_PX``, and if the training is too short for two evaluations.

    Args:
        sim: renders.
        real: real images.
        steps: steps of the training.
        is_paired: whether each real image shows the scene of the render at its index; pairs stay together.

    Raises:
        InputError: a real image cannot be read.
    """
    empty = replace(real, samples=())
    unsplit = TrainingSplit(sim, real, replace(sim, samples=()), empty)
    for dataset, content in ((sim, "renders"), (real, "real images")):
        count = len(dataset.samples)
        if count < MIN_DATASET_SIZE:
            return replace(unsplit, reason=f"{count} {content} are fewer than {MIN_DATASET_SIZE}")
        if any(min(sample.width, sample.height) < MIN_SIDE_PX for sample in dataset.samples):
            return replace(unsplit, reason=f"some {content} are smaller than {MIN_SIDE_PX} px")
    renders = _take_groups(sim)
    captures = _select_partners(sim, real, renders) if is_paired else _take_groups(real)
    if len(renders) < MIN_IMAGES:
        return replace(unsplit, reason="the renders show too few scenes")
    if len(captures) < MIN_IMAGES:
        return replace(unsplit, reason="too many real images are copies of one another")
    candidate_steps = schedule_evaluations(steps, MAX_CANDIDATES, MIN_INTERVAL_STEPS)
    if not candidate_steps:
        return replace(unsplit, reason=f"{steps} steps are too few for two evaluations")
    return TrainingSplit(
        _exclude_samples(sim, renders), _exclude_samples(real, captures),
        replace(sim, samples=renders), replace(real, samples=captures),
        candidate_steps,
    )  # fmt: skip


def select_best(candidates: Sequence[CandidateScores]) -> CandidateScores:
    """Return the candidate that ships.

    It is the candidate nearest to the real images among those without violations. If all have violations, it is
    the one with the most accepted images, then the nearest. The latest of equal candidates wins.
    """
    return max(
        candidates,
        key=lambda c: (not c.violations, c.accepted if c.violations else 0, -c.distance, c.step),
    )


def build_selection(
    split: TrainingSplit, candidates: Sequence[CandidateScores], source_distance: float
) -> CheckpointSelection:
    """Build the record of the best candidate and the reason for its selection."""
    best = select_best(candidates)
    valid_count = sum(not candidate.violations for candidate in candidates)
    render_count = len(split.sim_held_out.samples)
    if valid_count:
        reason = (
            f"{valid_count} of {len(candidates)} candidates keep all limits; this one is nearest to the held-out "
            "real images"
        )
    else:
        reason = (
            f"none of {len(candidates)} candidates keeps all limits; this one has the most accepted images, "
            f"{best.accepted} of {render_count}"
        )
    capture_count = len(split.real_held_out.samples)
    return CheckpointSelection(
        best.step, reason, render_count, capture_count, source_distance, tuple(candidates)
    )


def read_training_outcome(run_dir: Path) -> TrainingOutcome:
    """Read the outcome of a training from the card in its run folder.

    Raises:
        CheckpointError: the folder has no card of a translator, or the card has no outcome.
    """
    path = run_dir / WEIGHTS
    return parse_card(
        get_card_path(path), load_card(path).get("outcome") or {}, TrainingOutcome, "a translator"
    )


def _rank_groups(dataset: Dataset) -> Groups:
    """Return groups of samples ordered by hash; copies, and renders of one scene, form a group."""
    groups: dict[str, list[Sample]] = {}
    for sample in dataset.samples:
        key = f"scene {sample.scene_index}" if sample.digest else compute_sample_digest(sample)
        groups.setdefault(key, []).append(sample)
    hashes = {
        key: min(hashlib.sha256(compute_sample_digest(s).encode()).digest() for s in group)
        for key, group in groups.items()
    }
    return [groups[key] for key in sorted(groups, key=lambda key: hashes[key])]


def _take_groups(dataset: Dataset) -> tuple[Sample, ...]:
    """Return about a fifth of the samples, each group whole."""
    count = min(max(round(HELD_OUT_FRACTION * len(dataset.samples)), MIN_IMAGES), MAX_HELD_OUT)
    samples: list[Sample] = []
    for group in _rank_groups(dataset):
        if len(samples) < count and len(samples) + len(group) <= len(dataset.samples) // 3:
            samples += group
    return tuple(samples)


def _select_partners(sim: Dataset, real: Dataset, renders: Sequence[Sample]) -> tuple[Sample, ...]:
    """Return the real images that have the indices of these renders."""
    partners = {s.name: capture.name for s, capture in zip(sim.samples, real.samples, strict=True)}
    return real.select_by_name({partners[sample.name] for sample in renders}).samples


def _exclude_samples(dataset: Dataset, samples: Sequence[Sample]) -> Dataset:
    names = {sample.name for sample in samples}
    return replace(dataset, samples=tuple(s for s in dataset.samples if s.name not in names))


def schedule_evaluations(steps: int, max_count: int, min_interval_steps: int) -> tuple[int, ...]:
    """Return evenly spaced steps for evaluations, of which the last is the last step of the training.

    All but the last are multiples of ``LOG_INTERVAL_STEPS``. None if the limits leave fewer than
    ``MIN_CANDIDATES``.
    """
    count = min(steps // min_interval_steps, max_count)
    if count < MIN_CANDIDATES:
        return ()
    interval = steps / count / LOG_INTERVAL_STEPS
    return (*(LOG_INTERVAL_STEPS * round(i * interval) for i in range(1, count)), steps)
