"""Detector with a torchvision model: from an image to detections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from sim2cam.geometry.boxes import pad_boxes
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
from sim2cam.models.network.masks import decode_category_masks, upsample_window
from sim2cam.models.network.torchvision_network import (
    MaskWindow,
    TorchvisionNetwork,
    TorchvisionOutputs,
)
from sim2cam.models.reliability.confidence import calibrate_scores, stack_calibration
from sim2cam.models.training.images import PIXEL_CENTRE_OFFSET

Floats = NDArray[np.float64]

MIN_SEGMENT_SCORE = 0.5
"""Lowest score of instances that contribute to the category masks."""


@dataclass(frozen=True)
class TorchvisionDetector:
    """Detector with a torchvision model, ready for prediction.

    Attributes:
        network: network in evaluation mode, on its device.
        card: card of the weights.
        feature_distribution: None, since OOD detection is not supported.
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
        """Predict one image of any size; see ``predict_image``."""
        card, size = self.card, (rgb.shape[0], rgb.shape[1])
        levels = self.network.select_levels(card.input_scale, card.box_size_range_px, max(size))
        if input_scale is not None:
            levels = (PyramidLevel(input_scale),)
        outputs = [self.network.predict(rescale_image(rgb, level.input_scale)) for level in levels]
        candidates = [
            candidate
            for level, level_outputs in zip(levels, outputs, strict=True)
            for candidate in self._iter_candidates(level, level_outputs, score_floor)
        ]
        candidates.sort(key=lambda candidate: candidate.score, reverse=True)
        boxes = np.array([candidate.box for candidate in candidates]).reshape(-1, 4)
        categories = [candidate.category for candidate in candidates] if card.is_amodal else None
        kept = suppress_non_maxima(
            boxes, [candidate.input_scale for candidate in candidates], categories
        )
        boxes = pad_boxes(boxes[kept], card.box_padding * max(size)).clip(
            0, (*size[::-1], *size[::-1])
        )
        candidates = [candidates[i] for i in kept]
        masks = [
            None
            if candidate.mask_window is None
            else paste_mask(candidate.mask_window, size, candidate.input_scale)
            for candidate in candidates
        ]
        detections = tuple(
            self._make_detection(candidate, box, mask)
            for candidate, box, mask in zip(candidates, boxes.tolist(), masks, strict=True)
        )
        category_masks = None
        if card.masks:
            category_masks = _merge_category_masks(detections, card.categories, size)
            if outputs[0].pixel_logits is not None:
                category_masks = decode_category_masks(
                    outputs[0].pixel_logits, card.categories, size, 1 / levels[0].input_scale
                )
        return Prediction(detections, None, None, None, category_masks)

    def _iter_candidates(
        self, level: PyramidLevel, outputs: TorchvisionOutputs, score_floor: float | None
    ) -> Iterator[_Candidate]:
        """Yield the objects in the size range of a level, with calibrated scores."""
        scores = outputs.scores
        kept = scores >= SCORE_FLOOR
        calibration = stack_calibration(self.card.score_calibration, self.card.categories)
        if calibration is not None:
            coefficients = calibration[torch.from_numpy(outputs.categories)]
            scores = calibrate_scores(torch.from_numpy(scores), coefficients.double()).numpy()
        if score_floor is not None:
            kept = scores >= score_floor
        longer_sides_px = (outputs.boxes[:, 2:] - outputs.boxes[:, :2]).max(axis=1, initial=0)
        kept &= (longer_sides_px >= level.min_side_px) & (longer_sides_px <= level.max_side_px)
        for index in np.flatnonzero(kept).tolist():
            keypoints = None if outputs.keypoints is None else outputs.keypoints[index]
            yield _Candidate(
                level.input_scale,
                outputs.boxes[index] / level.input_scale,
                float(scores[index]),
                int(outputs.categories[index]),
                None if keypoints is None else keypoints / level.input_scale - PIXEL_CENTRE_OFFSET,
                None if outputs.mask_windows is None else outputs.mask_windows[index],
            )

    def _make_detection(
        self, candidate: _Candidate, box: Sequence[float], mask: RleMask | None
    ) -> Detection:
        category = self.card.categories[candidate.category]
        keypoints = None
        if candidate.keypoints is not None:
            names = self.card.keypoints[category]
            named_points = zip(names, candidate.keypoints.tolist(), strict=False)
            keypoints = tuple(DetectedKeypoint(name, (x, y)) for name, (x, y) in named_points)
        x0, y0, x1, y1 = box
        return Detection(
            category, (x0, y0, x1, y1), candidate.score, keypoints=keypoints, mask=mask
        )


@dataclass(frozen=True, eq=False)
class _Candidate:
    """Object in pixels of the image; ``mask_window`` is in pixels at ``input_scale``."""

    input_scale: float
    box: Floats
    score: float
    category: int
    keypoints: Floats | None
    mask_window: MaskWindow | None


def paste_mask(mask_window: MaskWindow, size: tuple[int, int], input_scale: float) -> RleMask:
    """Return the mask of an object in the image.

    Args:
        mask_window: mask in pixels of the resized image.
        size: height and width of the image.
        input_scale: scale of the resized image.
    """
    canvas = np.zeros(size, np.bool_, order="F")  # column-major, as in run-length encoding
    height, width = mask_window.probabilities.shape
    low = np.floor(mask_window.corner_xy / input_scale).astype(int).clip(0)
    high = np.ceil((mask_window.corner_xy + np.array([width, height])) / input_scale).astype(int)
    high = np.minimum(high, size[::-1])
    if (high > low).all():
        # pixels outside the window do not belong to the object
        probabilities = np.pad(mask_window.probabilities, 1).astype(np.float64)
        upsampled = upsample_window(
            probabilities, low, high, mask_window.corner_xy - 1, 1 / input_scale
        )
        canvas[low[1] : high[1], low[0] : high[0]] = upsampled > 0.5
    return RleMask.from_mask(canvas)


def _merge_category_masks(
    detections: Sequence[Detection], categories: Sequence[str], size: tuple[int, int]
) -> dict[str, RleMask]:
    """Return the union of confident instances per category; higher scores cover lower ones."""
    class_map = np.full(size, -1)
    for detection in reversed(detections):
        if detection.mask is not None and detection.score >= MIN_SEGMENT_SCORE:
            class_map[detection.mask.decode()] = categories.index(detection.category)
    return {name: RleMask.from_mask(class_map == index) for index, name in enumerate(categories)}
