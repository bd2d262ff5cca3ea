"""From a photo to what lies in it, with a model of torchvision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from sim2cam.geometry.boxes import widened
from sim2cam.geometry.run_length import RunLengths
from sim2cam.metrics.detection import Detection, FoundKeypoint
from sim2cam.models.card import DetectorCard
from sim2cam.models.inference.detections import SCORE_FLOOR, Prediction, scaled, without_duplicates
from sim2cam.models.inference.input_scales import Level
from sim2cam.models.network.masks import enlarged
from sim2cam.models.network.torchvision_network import NamedNetwork, Sighting, Window
from sim2cam.models.reliability.confidence import calibrated, slopes_and_offsets
from sim2cam.models.training.images import PIXEL_CENTRE

Floats = NDArray[np.float64]

SURE = 0.5
"""Score from which on the pixels of an object count as its category's."""


@dataclass(frozen=True)
class NamedDetector:
    """A model of torchvision that is ready to predict.

    Attributes:
        network: in evaluation mode, on its device.
        card: what it is.
        familiar: None: novelty is not measured.
    """

    network: NamedNetwork
    card: DetectorCard
    familiar: None = None

    def look(
        self,
        rgb: NDArray[np.uint8],
        *,
        score_floor: float | None = None,
        scale: float | None = None,
    ) -> Prediction:
        """Returns what lies in an image of any size; arguments are those of ``prediction.look``."""
        card, size = self.card, (rgb.shape[0], rgb.shape[1])
        levels = self.network.levels(card.magnification, card.sizes_px, max(size))
        if scale is not None:
            levels = (Level(scale),)
        sightings = [self.network.sight(scaled(rgb, level.scale)) for level in levels]
        found = [
            one
            for level, sighting in zip(levels, sightings, strict=True)
            for one in self._found(level, sighting, score_floor)
        ]
        found.sort(key=lambda one: one.score, reverse=True)
        boxes = np.array([one.box for one in found]).reshape(-1, 4)
        kinds = [one.category for one in found] if card.is_amodal else None
        kept = without_duplicates(boxes, [one.scale for one in found], kinds)
        boxes = widened(boxes[kept], card.box_margin).clip(0, (*size[::-1], *size[::-1]))
        found = [found[i] for i in kept]
        masks = [
            None if one.window is None else mask_of(one.window, size, one.scale) for one in found
        ]
        detections = tuple(
            self._detection(*each) for each in zip(found, boxes.tolist(), masks, strict=True)
        )
        segments = None
        if card.masks:
            segments = _segments(detections, card.categories, size)
            if sightings[0].pixels is not None:
                segments = _shown(sightings[0].pixels, card.categories, size, levels[0].scale)
        return Prediction(detections, None, None, None, segments)

    def _found(
        self, level: Level, sighting: Sighting, score_floor: float | None
    ) -> Iterator[_Found]:
        """Yields the objects that count at a level, with calibrated scores, in pixels of the picture."""
        scores, least = sighting.scores, SCORE_FLOOR if score_floor is None else score_floor
        kept = scores >= min(SCORE_FLOOR, least)
        scaling = slopes_and_offsets(self.card.scaling, self.card.categories)
        if scaling is not None:
            rows = scaling[torch.from_numpy(sighting.categories)]
            scores = calibrated(torch.from_numpy(scores), rows.double()).numpy()
        if score_floor is not None:
            kept = scores >= score_floor
        longer_px = (sighting.boxes[:, 2:] - sighting.boxes[:, :2]).max(axis=1, initial=0)
        kept &= (longer_px >= level.least_px) & (longer_px <= level.most_px)
        for number in np.flatnonzero(kept).tolist():
            points = None if sighting.keypoints is None else sighting.keypoints[number]
            yield _Found(
                level.scale,
                sighting.boxes[number] / level.scale,
                float(scores[number]),
                int(sighting.categories[number]),
                None if points is None else points / level.scale - PIXEL_CENTRE,
                None if sighting.windows is None else sighting.windows[number],
            )

    def _detection(self, one: _Found, box: Sequence[float], mask: RunLengths | None) -> Detection:
        category = self.card.categories[one.category]
        keypoints = None
        if one.keypoints is not None:
            names = self.card.keypoints[category]
            places = zip(names, one.keypoints.tolist(), strict=False)
            keypoints = tuple(FoundKeypoint(name, (x, y)) for name, (x, y) in places)
        x0, y0, x1, y1 = box
        return Detection(category, (x0, y0, x1, y1), one.score, keypoints=keypoints, mask=mask)


@dataclass(frozen=True, eq=False)
class _Found:
    """An object, in pixels of the picture but for its window, which is as it was looked at."""

    scale: float
    box: Floats
    score: float
    category: int
    keypoints: Floats | None
    window: Window | None


def mask_of(window: Window, size: tuple[int, int], scale: float) -> RunLengths:
    """Returns the mask of an object in a picture.

    Args:
        window: what shows it, in the pixels of the magnified picture.
        size: height and width of the picture.
        scale: the magnification.
    """
    canvas = np.zeros(size, np.bool_, order="F")  # as run lengths go
    height, width = window.shares.shape
    low = np.floor(window.corner / scale).astype(int).clip(0)
    high = np.ceil((window.corner + np.array([width, height])) / scale).astype(int)
    high = np.minimum(high, size[::-1])
    if (high > low).all():
        # pixels beyond the window do not show it
        shares = np.pad(window.shares, 1).astype(np.float64)
        said = enlarged(shares, low, high, window.corner - 1, 1 / scale)
        canvas[low[1] : high[1], low[0] : high[0]] = said > 0.5
    return RunLengths.of(canvas)


def _segments(
    detections: Sequence[Detection], categories: Sequence[str], size: tuple[int, int]
) -> dict[str, RunLengths]:
    """Returns the pixels of each category: those of sure objects, the surer ones before the others."""
    shown = np.full(size, -1)
    for one in reversed(detections):
        if one.mask is not None and one.score >= SURE:
            shown[one.mask.mask()] = categories.index(one.category)
    return {name: RunLengths.of(shown == number) for number, name in enumerate(categories)}


def _shown(
    pixels: NDArray[np.float32], categories: Sequence[str], size: tuple[int, int], scale: float
) -> dict[str, RunLengths]:
    """Returns the pixels of each category of a picture, from those of the magnified one."""
    origin, end = np.zeros(2, np.int64), np.array(size[::-1])
    said = np.stack([enlarged(one, origin, end, origin, 1 / scale) for one in pixels])
    shown = said.argmax(axis=0)
    return {name: RunLengths.of(shown == number) for number, name in enumerate(categories, 1)}
