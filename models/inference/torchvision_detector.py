"""From a photo to what lies in it, with a model of torchvision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from sim2cam.geometry.boxes import expand_boxes
from sim2cam.geometry.run_length import RleMask
from sim2cam.metrics.detection import DetectedKeypoint, Detection
from sim2cam.models.card import DetectorCard
from sim2cam.models.inference.detections import (
    SCORE_FLOOR,
    Prediction,
    rescale_image,
    suppress_non_maxima,
)
from sim2cam.models.inference.input_scales import PyramidLevel
from sim2cam.models.network.masks import upsample_window
from sim2cam.models.network.torchvision_network import (
    MaskWindow,
    TorchvisionNetwork,
    TorchvisionOutputs,
)
from sim2cam.models.reliability.confidence import calibrate_scores, stack_calibration
from sim2cam.models.training.images import PIXEL_CENTRE_OFFSET

Floats = NDArray[np.float64]

MIN_SEGMENT_SCORE = 0.5
"""Score from which on the pixels of an object count as its category's."""


@dataclass(frozen=True)
class TorchvisionDetector:
    """A model of torchvision that is ready to predict.

    Attributes:
        network: in evaluation mode, on its device.
        card: what it is.
        feature_distribution: None: novelty is not measured.
    """

    network: TorchvisionNetwork
    card: DetectorCard
    feature_distribution: None = None

    def predict(
        self,
        rgb: NDArray[np.uint8],
        *,
        score_floor: float | None = None,
        input_scale: float | None = None,
    ) -> Prediction:
        """Return what lies in an image of any size; arguments are those of ``prediction.look``."""
        card, size = self.card, (rgb.shape[0], rgb.shape[1])
        levels = self.network.select_levels(card.input_scale, card.box_size_range_px, max(size))
        if input_scale is not None:
            levels = (PyramidLevel(input_scale),)
        sightings = [
            self.network.predict(rescale_image(rgb, level.input_scale)) for level in levels
        ]
        found = [
            one
            for level, sighting in zip(levels, sightings, strict=True)
            for one in self._iter_candidates(level, sighting, score_floor)
        ]
        found.sort(key=lambda one: one.score, reverse=True)
        boxes = np.array([one.box for one in found]).reshape(-1, 4)
        kinds = [one.category for one in found] if card.is_amodal else None
        kept = suppress_non_maxima(boxes, [one.input_scale for one in found], kinds)
        boxes = expand_boxes(boxes[kept], card.box_expansion).clip(0, (*size[::-1], *size[::-1]))
        found = [found[i] for i in kept]
        masks = [
            None if one.mask_window is None else paste_mask(one.mask_window, size, one.input_scale)
            for one in found
        ]
        detections = tuple(
            self._make_detection(*each) for each in zip(found, boxes.tolist(), masks, strict=True)
        )
        segments = None
        if card.masks:
            segments = _merge_category_masks(detections, card.categories, size)
            if sightings[0].pixel_logits is not None:
                segments = _decode_category_masks(
                    sightings[0].pixel_logits, card.categories, size, levels[0].input_scale
                )
        return Prediction(detections, None, None, None, segments)

    def _iter_candidates(
        self, level: PyramidLevel, outputs: TorchvisionOutputs, score_floor: float | None
    ) -> Iterator[_Candidate]:
        """Yield the objects that count at a level, with calibrated scores, in pixels of the picture."""
        scores, least = outputs.scores, SCORE_FLOOR if score_floor is None else score_floor
        kept = scores >= min(SCORE_FLOOR, least)
        scaling = stack_calibration(self.card.score_calibration, self.card.categories)
        if scaling is not None:
            rows = scaling[torch.from_numpy(outputs.categories)]
            scores = calibrate_scores(torch.from_numpy(scores), rows.double()).numpy()
        if score_floor is not None:
            kept = scores >= score_floor
        longer_px = (outputs.boxes[:, 2:] - outputs.boxes[:, :2]).max(axis=1, initial=0)
        kept &= (longer_px >= level.min_side_px) & (longer_px <= level.max_side_px)
        for number in np.flatnonzero(kept).tolist():
            points = None if outputs.keypoints is None else outputs.keypoints[number]
            yield _Candidate(
                level.input_scale,
                outputs.boxes[number] / level.input_scale,
                float(scores[number]),
                int(outputs.categories[number]),
                None if points is None else points / level.input_scale - PIXEL_CENTRE_OFFSET,
                None if outputs.mask_windows is None else outputs.mask_windows[number],
            )

    def _make_detection(
        self, candidate: _Candidate, box: Sequence[float], mask: RleMask | None
    ) -> Detection:
        category = self.card.categories[candidate.category]
        keypoints = None
        if candidate.keypoints is not None:
            names = self.card.keypoints[category]
            places = zip(names, candidate.keypoints.tolist(), strict=False)
            keypoints = tuple(DetectedKeypoint(name, (x, y)) for name, (x, y) in places)
        x0, y0, x1, y1 = box
        return Detection(
            category, (x0, y0, x1, y1), candidate.score, keypoints=keypoints, mask=mask
        )


@dataclass(frozen=True, eq=False)
class _Candidate:
    """An object, in pixels of the picture but for its window, which is as it was looked at."""

    input_scale: float
    box: Floats
    score: float
    category: int
    keypoints: Floats | None
    mask_window: MaskWindow | None


def paste_mask(mask_window: MaskWindow, size: tuple[int, int], input_scale: float) -> RleMask:
    """Return the mask of an object in a picture.

    Args:
        mask_window: what shows it, in the pixels of the magnified picture.
        size: height and width of the picture.
        input_scale: the magnification.
    """
    canvas = np.zeros(size, np.bool_, order="F")  # as run lengths go
    height, width = mask_window.probabilities.shape
    low = np.floor(mask_window.corner_xy / input_scale).astype(int).clip(0)
    high = np.ceil((mask_window.corner_xy + np.array([width, height])) / input_scale).astype(int)
    high = np.minimum(high, size[::-1])
    if (high > low).all():
        # pixels beyond the window do not show it
        shares = np.pad(mask_window.probabilities, 1).astype(np.float64)
        said = upsample_window(shares, low, high, mask_window.corner_xy - 1, 1 / input_scale)
        canvas[low[1] : high[1], low[0] : high[0]] = said > 0.5
    return RleMask.from_mask(canvas)


def _merge_category_masks(
    detections: Sequence[Detection], categories: Sequence[str], size: tuple[int, int]
) -> dict[str, RleMask]:
    """Return the pixels of each category: those of sure objects, the surer ones before the others."""
    shown = np.full(size, -1)
    for one in reversed(detections):
        if one.mask is not None and one.score >= MIN_SEGMENT_SCORE:
            shown[one.mask.decode()] = categories.index(one.category)
    return {name: RleMask.from_mask(shown == number) for number, name in enumerate(categories)}


def _decode_category_masks(
    pixel_logits: NDArray[np.float32],
    categories: Sequence[str],
    size: tuple[int, int],
    input_scale: float,
) -> dict[str, RleMask]:
    """Return the pixels of each category of a picture, from those of the magnified one."""
    origin, end = np.zeros(2, np.int64), np.array(size[::-1])
    said = np.stack(
        [upsample_window(one, origin, end, origin, 1 / input_scale) for one in pixel_logits]
    )
    shown = said.argmax(axis=0)
    return {name: RleMask.from_mask(shown == number) for number, name in enumerate(categories, 1)}
