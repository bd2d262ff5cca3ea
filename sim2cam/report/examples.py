"""Which pictures a page shows, and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sim2cam import images
from sim2cam.data.sample import Dataset, Sample
from sim2cam.metrics.detection import Predictions
from sim2cam.metrics.error_analysis import ImageErrors, classify_detections, count_errors
from sim2cam.report.overlay import OUTCOME_COLOURS, draw_matches
from sim2cam.report.page import encode_data_uri, encode_thumbnail
from sim2cam.report.values import Example, Examples, ImageRow, Rgb

EXAMPLE_PX = 960


@dataclass(frozen=True)
class PageImage:
    """A picture on the page: its address, what it shows in words, and what stands under it."""

    uri: str
    alt: str
    caption: str = ""


def select_examples(
    captures: Dataset, predictions: Predictions, threshold: float, *, count: int
) -> Examples:
    """Return the ``count`` best and the ``count`` worst images, none of them twice.

    Best are those without errors and the most objects; worst those with the most errors.

    Args:
        captures: labelled images.
        predictions: by the image's name.
        threshold: score from which on they count.
        count: of each; fewer where there are not enough images, and images without an error are
            never among the worst.

    Raises:
        InputError: an image cannot be read.
    """
    errors = count_errors(captures, predictions, threshold)
    ranked = sorted(errors, key=lambda e: (-e.errors, e.true_positives, e.name))
    worst = [e for e in ranked if e.errors][: min(count, (len(ranked) + 1) // 2)]
    best = sorted(ranked[len(worst) :], key=_rank_errors)[:count]
    samples = {sample.name: sample for sample in captures.samples}

    def example(errors: ImageErrors) -> Example:
        sample = samples[errors.name]
        return Example(
            sample.name,
            images.read_rgb(sample.rgb),
            sample.objects or (),
            tuple(predictions[sample.name]),
        )

    return Examples(tuple(map(example, best)), tuple(map(example, worst)), threshold)


def build_image_rows(
    sim: Dataset, adapted: Dataset | None, captures: Dataset, *, count: int
) -> tuple[ImageRow, ...]:
    """Return renders beside their translations and beside captures, spread over the sets.

    Renders that show no object are passed over, unless none does.

    Args:
        sim: the renders.
        adapted: their translations; None when nothing was translated.
        captures: labelled or not; they show other scenes.
        count: rows, fewer where there are not enough renders.

    Raises:
        InputError: an image cannot be read.
    """
    translations = {} if adapted is None else {s.parent: s for s in adapted.samples}
    whole = tuple(s for s in sim.samples if adapted is None or s.digest in translations)
    shown = tuple(s for s in whole if s.objects)
    renders = _select_evenly(replace(sim, samples=shown or whole), count)
    photos = _select_evenly(captures, count)
    return tuple(
        ImageRow(
            _read_rgb(render),
            _read_rgb(translations.get(render.digest)),
            _read_rgb(photos[index] if index < len(photos) else None),
        )
        for index, render in enumerate(renders)
    )


def render_examples(examples: Sequence[Example], threshold: float) -> tuple[PageImage, ...]:
    """Return scored images with their hits and errors among detections of a score from ``threshold`` on."""
    return tuple(_render_example(example, threshold) for example in examples)


def _render_example(example: Example, threshold: float) -> PageImage:
    outcomes = classify_detections(example.objects, example.detections, threshold)
    counts = {kind: sum(o.kind == kind for o in outcomes) for kind in OUTCOME_COLOURS}
    summary = ", ".join(f"{kind} ({n})" for kind, n in counts.items() if n)
    drawn = draw_matches(example.rgb, example.objects, example.detections, threshold)
    caption = f"{example.name}: {summary or 'no objects or detections'}"
    return PageImage(
        encode_data_uri(encode_thumbnail(drawn, EXAMPLE_PX)), f"detections in {caption}", caption
    )


def _rank_errors(errors: ImageErrors) -> tuple[int, int, str]:
    return errors.errors, -errors.true_positives, errors.name


def _select_evenly(dataset: Dataset, count: int) -> list[Sample]:
    n = len(dataset.samples)
    return (
        [dataset.samples[i * n // count] for i in range(count)] if n > count else [*dataset.samples]
    )


def _read_rgb(sample: Sample | None) -> Rgb | None:
    return None if sample is None else images.read_rgb(sample.rgb)
