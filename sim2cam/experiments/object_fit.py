"""Ranges of object size and number that cover what a detector finds in real images."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from sim2cam.data.sample import Dataset
from sim2cam.engines.process_pool import map_units
from sim2cam.errors import InputError, UsageError
from sim2cam.models.inference.detector import AnyDetector, detect_dataset
from sim2cam.models.reliability.domain_shift import select_evenly
from sim2cam.models.reliability.object_sizes import compute_longer_side, select_learned
from sim2cam.models.training.config import TrainConfig
from sim2cam.pipeline.generation import render_view
from sim2cam.pipeline.recipe import Recipe
from sim2cam.pipeline.scene_sampling import simulate_scene
from sim2cam.progress import Progress
from sim2cam.randomize.distributions import Distribution
from sim2cam.randomize.range_rescaling import FactorRange, RangeDistribution, find_ranges

MARGIN = 1.15
"""Factor by which widened ranges exceed the detected values."""

TOLERANCE = 1.05
"""Factor by which detected values may exceed the rendered range before it is widened."""

QUANTILES = (0.05, 0.95)
"""Quantiles of sizes and numbers that are compared; outliers are false detections or truncated objects."""

MIN_OBJECTS = 20
"""Fewest detected objects that determine ranges."""

MAX_IMAGES = 64
"""Largest number of real images in which objects are detected."""

_MIN_SCORE = 0.5
_SIZE_FACTORS = ("view/die_px", "view/object_px")

Bounds = tuple[float, float]
ObjectSampler = Callable[[Recipe], "ObjectStatistics"]
"""Returns sizes and numbers of the objects in renders of a recipe."""


@dataclass(frozen=True)
class ObjectStatistics:
    """Sizes and numbers of objects in images.

    Attributes:
        sides_px: longer box sides, in pixels of an image as wide as the renders.
        counts: number of objects in each image.
    """

    sides_px: tuple[float, ...]
    counts: tuple[int, ...]

    def compute_bounds(self) -> tuple[Bounds, Bounds]:
        """Return the quantiles ``QUANTILES`` of sizes and of numbers."""
        (low_px, high_px), (low, high) = (
            np.quantile(values, QUANTILES).tolist() for values in (self.sides_px, self.counts)
        )
        return (low_px, high_px), (low, high)


@dataclass(frozen=True)
class WidenedRange:
    """A range before and after the fit."""

    factor: str
    before: Bounds
    after: Bounds


@dataclass(frozen=True)
class ObjectFit:
    """Ranges that cover the objects found in real images.

    Attributes:
        input_scale: input scale at which the detector found the objects.
        objects: number of detected objects.
        found_px, rendered_px: 5th and 95th percentile of box sides in real images and in renders of the
            original recipe.
        found_count, rendered_count: the same of objects per image.
        ranges: ranges of size and number.
        distributions: widened distributions by factor; without those that already cover what is found.
    """

    input_scale: float
    objects: int
    found_px: Bounds
    rendered_px: Bounds
    found_count: Bounds
    rendered_count: Bounds
    ranges: tuple[WidenedRange, ...]
    distributions: Mapping[str, Distribution]

    def to_json(self) -> dict[str, Any]:
        """Return the fit as JSON values."""
        names = ("input_scale", "objects", "found_px", "rendered_px", "found_count", "rendered_count")  # fmt: skip
        values = {name: getattr(self, name) for name in names}
        return values | {"ranges": [asdict(widened) for widened in self.ranges]}


def fit_objects(
    recipe: Recipe, detector: AnyDetector, captures: Dataset, sample_objects: ObjectSampler
) -> ObjectFit:
    """Widen the ranges of object size and number until they cover what a detector finds in real images.

    An end of a range moves by the factor by which the objects found exceed those in renders, times ``MARGIN``;
    ends that already cover them, within ``TOLERANCE``, stay, so ranges never get narrower. Sizes are compared
    relative to the image width.

    Args:
        recipe: the recipe.
        detector: detector whose input scale fits the images.
        captures: real images, labels unused; up to ``MAX_IMAGES`` are used, evenly spaced.
        sample_objects: returns the objects in renders of the recipe.

    Raises:
        InputError: if an image cannot be read, or too few objects are found.
        UsageError: if the recipe has no ranges of size or number.
    """
    ranges = _find_object_ranges(recipe)
    found = detect_objects(detector, captures, recipe.render.width)
    if len(found.sides_px) < MIN_OBJECTS:
        raise InputError(
            captures.root,
            f"the detector finds {len(found.sides_px)} objects; {MIN_OBJECTS} are needed. Give more images, or a "
            "detector that finds the objects (see tune).",
        )
    rendered = sample_objects(recipe)
    found_px, found_count = found.compute_bounds()
    rendered_px, rendered_count = rendered.compute_bounds()
    widened: list[WidenedRange] = []
    distributions: dict[str, Distribution] = {}
    for factor_range in ranges:
        is_size = factor_range.path in _SIZE_FACTORS
        target, current = (found_px, rendered_px) if is_size else (found_count, rendered_count)
        distribution = _widen(factor_range, target, current)
        original = factor_range.distribution
        before, after = (original.low, original.high), (distribution.low, distribution.high)
        widened.append(WidenedRange(factor_range.path, before, after))
        if before != after:
            distributions[factor_range.path] = distribution
    return ObjectFit(
        detector.card.input_scale, len(found.sides_px), found_px, rendered_px, found_count, rendered_count,
        tuple(widened), distributions,
    )  # fmt: skip


def detect_objects(detector: AnyDetector, captures: Dataset, width_px: int) -> ObjectStatistics:
    """Return sizes of detected objects, scaled to an image width of ``width_px``, and their numbers."""
    images = replace(captures, samples=select_evenly(captures.samples, MAX_IMAGES))
    detections = detect_dataset(detector, images, score_floor=_MIN_SCORE)
    sides = [
        compute_longer_side(d.box_xyxy) * width_px / sample.width
        for sample in images.samples
        for d in detections[sample.name]
    ]
    return ObjectStatistics(tuple(sides), tuple(map(len, detections.values())))


def render_objects(
    recipe: Recipe, *, count: int, seed: int, workers: int, progress: Progress
) -> ObjectStatistics:
    """Return sizes and numbers of the labelled objects in renders of a recipe.

    Args:
        recipe: recipe; only the first camera of each scene is rendered.
        count: number of scenes.

    Raises:
        SceneError: if a scene does not come to rest.
    """
    stills = replace(recipe.render, views=1, channels=("ids",), sequence=None)
    text = replace(recipe, render=stills).to_json()
    images: list[tuple[float, ...]] = []
    for sides in map_units(_render_sides, [(text, seed, i) for i in range(count)], workers):
        images.append(sides)
        progress(len(images), count)
    return ObjectStatistics(
        tuple(side for sides in images for side in sides), tuple(map(len, images))
    )


def _render_sides(unit: tuple[str, int, int]) -> tuple[float, ...]:
    """Return the longer box sides of the objects in the first image of a scene."""
    text, seed, index = unit
    recipe = Recipe.from_json(text)
    frame = render_view(recipe, simulate_scene(recipe, seed, index), 0)
    return tuple(
        compute_longer_side(label.box_xyxy)
        for label in select_learned(frame.objects or (), TrainConfig())
    )


def _find_object_ranges(recipe: Recipe) -> tuple[FactorRange, ...]:
    """Return the ranges of object size and of the numbers of labelled objects."""
    counts = [f"layout/{group}_count" for group in (*recipe.domain.object_groups, "object")]
    ranges = tuple(r for r in find_ranges(recipe.domain) if r.path in (*_SIZE_FACTORS, *counts))
    if not ranges:
        raise UsageError(
            f"recipe {recipe.name} has no ranges of object size (view.object_px or die_px) or number "
            "(counts in layout). Set one, such as { kind = 'uniform', low = 40, high = 80 }."
        )
    return ranges


def _widen(factor_range: FactorRange, found: Bounds, rendered: Bounds) -> RangeDistribution:
    """Return the distribution with its ends moved to cover the detected values; integers are rounded outwards."""
    original = factor_range.distribution
    low, high = original.low, original.high
    if found[0] < rendered[0] / TOLERANCE:
        low = max(low * found[0] / rendered[0] / MARGIN, factor_range.lower_bound)
    if found[1] > rendered[1] * TOLERANCE:
        high = min(high * found[1] / max(rendered[1], 1.0) * MARGIN, factor_range.upper_bound)
    if (low, high) == (original.low, original.high):
        return original
    return factor_range.rescale(factor_range.to_position(low), factor_range.to_position(high))
