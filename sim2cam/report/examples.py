"""Selection of example images for pages."""

from __future__ import annotations

from dataclasses import replace

from sim2cam import images
from sim2cam.data.sample import Dataset, Sample
from sim2cam.metrics.detection import Predictions
from sim2cam.metrics.error_analysis import ImageErrors, count_errors
from sim2cam.metrics.precision_recall import find_best_f1_threshold
from sim2cam.report.values import Example, ExamplePairs, Examples, ImageRow, Rgb

_KIND_FIELDS = (
    "confusion_errors", "localisation_errors", "both_errors", "duplicates", "background_errors", "missed",
)  # fmt: skip


def select_examples(
    captures: Dataset, predictions: Predictions, threshold: float, *, count: int, per_kind: int = 0
) -> Examples:
    """Select disjoint sets of images with the fewest and the most errors.

    Images with the same number of errors are ranked by true positives.

    Args:
        count: Maximum size of each set. Images without errors are never in the second set.
        per_kind: Number of images with the most errors of each kind that join the second set.

    Raises:
        InputError: If an image cannot be read.
    """
    errors = count_errors(captures, predictions, threshold)
    ranked = sorted(errors, key=lambda e: (-e.errors, e.true_positives, e.name))
    worst = [e for e in ranked if e.errors][: min(count, (len(ranked) + 1) // 2)]
    for kind in _KIND_FIELDS:
        by_kind = sorted(ranked, key=lambda e: -getattr(e, kind))[:per_kind]
        worst += [e for e in by_kind if getattr(e, kind) and e not in worst]
    best = sorted((e for e in ranked if e not in worst), key=_rank_errors)[:count]
    return Examples(
        tuple(_make_example(captures, e.name, predictions) for e in best),
        tuple(_make_example(captures, e.name, predictions) for e in worst),
        threshold,
    )


def select_differing_examples(
    captures: Dataset,
    names: tuple[str, str],
    predictions: tuple[Predictions, Predictions],
    *,
    count: int,
) -> ExamplePairs:
    """Select the images on which the numbers of errors of two detectors differ most.

    Errors are counted at the threshold with the best F1 of each detector.

    Args:
        names: Names of the detectors.
        count: Maximum number of images; images with equal numbers of errors are left out.

    Raises:
        InputError: If an image cannot be read.
    """
    first, second = predictions
    thresholds = find_best_f1_threshold(captures, first), find_best_f1_threshold(captures, second)
    errors = zip(
        count_errors(captures, first, thresholds[0]),
        count_errors(captures, second, thresholds[1]),
        strict=True,
    )
    differences = {ours.name: abs(ours.errors - theirs.errors) for ours, theirs in errors}
    ranked = sorted(filter(differences.get, differences), key=lambda name: -differences[name])
    pairs = tuple(
        (_make_example(captures, name, first), _make_example(captures, name, second))
        for name in ranked[:count]
    )
    return ExamplePairs(names, thresholds, pairs)


def _make_example(captures: Dataset, name: str, predictions: Predictions) -> Example:
    (sample,) = captures.select_by_name([name]).samples
    return Example(
        name, images.read_rgb(sample.rgb), sample.objects or (), tuple(predictions[name])
    )


def build_image_rows(
    sim: Dataset, adapted: Dataset | None, captures: Dataset, *, count: int
) -> tuple[ImageRow, ...]:
    """Build rows of a render, its translation and a real image, evenly spaced over the sets.

    Renders without objects are skipped, unless all are.

    Raises:
        InputError: If an image cannot be read.
    """
    translations = {} if adapted is None else {s.parent: s for s in adapted.samples}
    candidates = tuple(s for s in sim.samples if adapted is None or s.digest in translations)
    with_objects = tuple(s for s in candidates if s.objects)
    renders = _select_evenly(replace(sim, samples=with_objects or candidates), count)
    photos = _select_evenly(captures, count)
    return tuple(
        ImageRow(
            _read_rgb(render),
            _read_rgb(translations.get(render.digest)),
            _read_rgb(photos[index] if index < len(photos) else None),
        )
        for index, render in enumerate(renders)
    )


def _rank_errors(errors: ImageErrors) -> tuple[int, int, str]:
    return errors.errors, -errors.true_positives, errors.name


def _select_evenly(dataset: Dataset, count: int) -> list[Sample]:
    sample_count = len(dataset.samples)
    shown = min(count, sample_count)
    return [dataset.samples[i * sample_count // shown] for i in range(shown)]


def _read_rgb(sample: Sample | None) -> Rgb | None:
    return None if sample is None else images.read_rgb(sample.rgb)
