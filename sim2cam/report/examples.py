"""Selection of example images for pages."""

from __future__ import annotations

from dataclasses import replace

from sim2cam import images
from sim2cam.data.sample import Dataset, Sample
from sim2cam.metrics.detection import Predictions
from sim2cam.metrics.error_analysis import ImageErrors, count_errors
from sim2cam.report.values import Example, Examples, ImageRow, Rgb

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
    samples = {sample.name: sample for sample in captures.samples}

    def make_example(errors: ImageErrors) -> Example:
        sample = samples[errors.name]
        return Example(
            sample.name,
            images.read_rgb(sample.rgb),
            sample.objects or (),
            tuple(predictions[sample.name]),
        )

    return Examples(tuple(map(make_example, best)), tuple(map(make_example, worst)), threshold)


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
