"""Benchmarking: weights on labelled captures, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from sim2cam.dataset.sample import Dataset
from sim2cam.errors import InputError, UsageError, did_you_mean
from sim2cam.measure.detection import Detection, DetectionScore, evaluate
from sim2cam.models.prediction import LoadedDetector, predict_dataset
from sim2cam.seeds import stream

SHIPPED_WEIGHTS = Path(__file__).parents[1] / "models" / "weights"


@dataclass(frozen=True)
class BenchResult:
    """What a detector found on captures, and how good that is.

    Attributes:
        captures: the labelled images it was scored on.
        predictions: by the image's name.
        score: with 95 % intervals over images.
    """

    captures: Dataset
    predictions: Mapping[str, tuple[Detection, ...]]
    score: DetectionScore


def bench(
    detector: LoadedDetector,
    captures: Dataset,
    *,
    renamed: Mapping[str, str] | None = None,
    ignore_unmatched: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> BenchResult:
    """Returns how well a detector does on labelled captures.

    Args:
        detector: from ``load_detector``.
        captures: labelled images.
        renamed: category of the captures -> category of the detector, where the names differ.
        ignore_unmatched: leave out objects of categories that the detector does not know, instead
            of refusing.
        progress: is told how many images of how many are done.

    Raises:
        InputError: a category that the detector does not know, or captures without labels.
    """
    matched = match_categories(captures, detector.card.categories, renamed or {}, ignore_unmatched)
    predictions = predict_dataset(detector, matched, progress=progress)
    score = evaluate(matched, predictions, rng=stream(0, "bench"))
    return BenchResult(matched, predictions, score)


def match_categories(
    captures: Dataset,
    known: tuple[str, ...],
    renamed: Mapping[str, str],
    ignore_unmatched: bool,
) -> Dataset:
    """Returns the captures with the detector's categories, matched by name.

    Raises:
        UsageError: ``renamed`` names a category that is not there.
        InputError: a category that the detector does not know.
    """
    for real, sim in renamed.items():
        if real not in captures.categories:
            raise UsageError(f"--map {real}={sim}: {did_you_mean(real, captures.categories)}")
        if sim not in known:
            raise UsageError(f"--map {real}={sim}: {did_you_mean(sim, known)}")
    names = {name: renamed.get(name, name) for name in captures.categories}
    strangers = sorted(name for name, new in names.items() if new not in known)
    if strangers and not ignore_unmatched:
        raise InputError(
            captures.root,
            f"category '{strangers[0]}' is not one of the detector's: {', '.join(known)}. Add "
            f"--map {strangers[0]}=NAME, or --ignore to leave such objects out.",
        )
    samples = tuple(
        replace(
            sample,
            objects=None
            if sample.objects is None
            else tuple(
                replace(o, category=names[o.category])
                for o in sample.objects
                if names[o.category] in known
            ),
        )
        for sample in captures.samples
    )
    return Dataset(captures.root, known, samples)
