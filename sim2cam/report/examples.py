"""Which pictures a page shows, and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sim2cam import images
from sim2cam.data.sample import Dataset, Sample
from sim2cam.metrics.detection import Predictions
from sim2cam.metrics.error_analysis import ImageErrors, count_errors, judge
from sim2cam.report.overlay import KIND_COLOURS, draw_verdicts
from sim2cam.report.page import data_uri, shrunk_jpeg
from sim2cam.report.values import Example, Examples, PictureRow, Rgb

EXAMPLE_PX = 960


@dataclass(frozen=True)
class Shown:
    """A picture on the page: its address, what it shows in words, and what stands under it."""

    uri: str
    alt: str
    caption: str = ""


def choose_examples(
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
    ranked = sorted(errors, key=lambda e: (-e.errors, e.right, e.name))
    worst = [e for e in ranked if e.errors][: min(count, (len(ranked) + 1) // 2)]
    best = sorted(ranked[len(worst) :], key=_goodness)[:count]
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


def picture_rows(
    sim: Dataset, adapted: Dataset | None, captures: Dataset, *, count: int
) -> tuple[PictureRow, ...]:
    """Returns renders beside their translations and beside captures, spread over the sets.

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
    renders = _spread(replace(sim, samples=shown or whole), count)
    photos = _spread(captures, count)
    return tuple(
        PictureRow(
            _read(render),
            _read(translations.get(render.digest)),
            _read(photos[index] if index < len(photos) else None),
        )
        for index, render in enumerate(renders)
    )


def show_examples(examples: Sequence[Example], threshold: float) -> tuple[Shown, ...]:
    """Return scored images with their hits and errors among detections of a score from ``threshold`` on."""
    return tuple(_show_example(example, threshold) for example in examples)


def _show_example(example: Example, threshold: float) -> Shown:
    verdicts = judge(example.objects, example.detections, threshold)
    counts = {kind: sum(v.kind == kind for v in verdicts) for kind in KIND_COLOURS}
    said = ", ".join(f"{n} {kind}" for kind, n in counts.items() if n) or "nothing in it"
    drawn = draw_verdicts(example.rgb, example.objects, example.detections, threshold)
    caption = f"{example.name}: {said}"
    return Shown(data_uri(shrunk_jpeg(drawn, EXAMPLE_PX)), f"detections in {caption}", caption)


def _goodness(errors: ImageErrors) -> tuple[int, int, str]:
    return errors.errors, -errors.right, errors.name


def _spread(dataset: Dataset, count: int) -> list[Sample]:
    n = len(dataset.samples)
    return (
        [dataset.samples[i * n // count] for i in range(count)] if n > count else [*dataset.samples]
    )


def _read(sample: Sample | None) -> Rgb | None:
    return None if sample is None else images.read_rgb(sample.rgb)
