"""Export of a detector as one ONNX graph, from image to boxes."""

from __future__ import annotations

import copy
from importlib.resources import files
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from sim2cam import images
from sim2cam.geometry.boxes import MAX_SHRINKAGE
from sim2cam.learn.onnx import Outputs, write_onnx
from sim2cam.models.augment.crops import SUPERSAMPLE_BELOW_SCALE
from sim2cam.models.card import DetectorCard
from sim2cam.models.inference.detections import NMS_IOU
from sim2cam.models.inference.detector import NativeDetector
from sim2cam.models.inference.differentiable import pad_images, resize_images
from sim2cam.models.network.detector import STRIDE_PX, UNIT_PX, DetectorNetwork, is_peak
from sim2cam.models.network.roi_crops import DEFAULT_ROI_VIEW, RoiView, get_roi_side_px
from sim2cam.models.reliability.confidence import calibrate_scores, stack_calibration

_PYRAMID_LEVELS = 4  # halvings of the image for RoI crops; ``PAD_TO_PX`` allows five
MAX_EXPORTED_DETECTIONS = 100
_OUTPUT_NAMES = "boxes", "scores", "labels"
_MIN_SIDE_PX, _MAX_SIDE_PX = 64, 8192
_EXAMPLE_SIZES_PX = (192, 264), (333, 250)
"""Sizes (h, w) of the photos that verify the graph. Photos, because detections in noise depend on rounding."""
_MAX_UNMATCHED_SHARE = 0.02
"""Largest share of the score sum without a matching detection: rounding may swap detections of equal score."""
_SCORE_EPSILON = 1e-6
_MATCH_TOLERANCE = 0.01  # of a box's larger side and of a score, for matching detections


class DetectorGraph(nn.Module):
    """Detector as a module from image to boxes, with tensors of fixed size.

    Unlike ``predict_image`` it uses only the card's input scale, so it misses objects larger than those in the
    training data, and returns at most ``MAX_EXPORTED_DETECTIONS``. Suppression is not sequential: a suppressed
    box still suppresses others. Suppressed boxes get a score of 0.
    """

    score_calibration: Tensor | None

    def __init__(self, detector: NativeDetector) -> None:
        super().__init__()
        self.network: DetectorNetwork = copy.deepcopy(detector.network)
        self.network.keypoint_head = self.network.mask_head = None
        self.roi_side_px = get_roi_side_px(poses=bool(detector.card.objects))
        self.roi_views = detector.card.roi_views
        if self.network.roi_network is not None:
            self.network.roi_network.surface_head = None  # the graph solves no poses
        self.input_scale = detector.card.input_scale
        self.box_padding = detector.card.box_padding
        score_calibration = stack_calibration(
            detector.card.score_calibration, detector.card.categories
        )
        self.register_buffer("score_calibration", score_calibration, persistent=False)

    def forward(self, rgb: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return boxes (MAX, 4) in pixels, falling scores (MAX,) and labels (MAX,).

        Args:
            rgb: (1, h, w, 3) uint8, sides of 64 to 8192 pixels.
        """
        height, width = rgb.shape[1], rgb.shape[2]
        image = rgb.permute(0, 3, 1, 2).float()
        scaled_image = resize_images(image, self.input_scale)
        maps = self.network(pad_images(self.network, scaled_image))
        heat = maps.heatmap[0].sigmoid()  # (h, w)
        probability, label = maps.class_logits[0].softmax(0).max(0)
        score = (heat * probability).sqrt()
        if self.score_calibration is not None:
            score = calibrate_scores(score, self.score_calibration[label])
        score = torch.where(is_peak(heat), score, torch.zeros_like(heat))
        # small images have fewer cells than MAX_EXPORTED_DETECTIONS
        best, indices = functional.pad(score.flatten(), (0, MAX_EXPORTED_DETECTIONS)).topk(
            MAX_EXPORTED_DETECTIONS
        )
        indices = indices.clamp(max=heat.numel() - 1)
        columns = torch.arange(heat.shape[1]).expand(heat.shape[0], -1).flatten()[indices]
        rows = torch.arange(heat.shape[0])[:, None].expand(-1, heat.shape[1]).flatten()[indices]
        centre = torch.stack([columns, rows], 1) * STRIDE_PX + STRIDE_PX / 2
        sides = maps.log_sides[0].flatten(1)[:, indices].T.exp() * UNIT_PX
        low, high = centre - sides[:, :2], centre + sides[:, 2:]
        label = label.flatten()[indices]
        limits = torch.cat(
            [torch.full((1,), side, dtype=torch.float32) for side in (width, height)]
        )
        padding = torch.maximum(
            self.box_padding * limits.amax(0) * self.input_scale, -MAX_SHRINKAGE * (high - low)
        )
        boxes = torch.cat(
            [
                torch.minimum(corners.clamp(min=0.0) / self.input_scale, limits)
                for corners in (low - padding, high + padding)
            ],
            1,
        )
        best = best * (1.0 - _find_duplicates(boxes))
        if self.network.roi_network is not None and self.network.roi_network.class_head is not None:
            unpadded_boxes = torch.cat([low, high], 1) / self.input_scale
            padded, fill_colour = pad_images(self.network, image), self.network.mean
            crops = [
                crop_rois(padded, fill_colour, unpadded_boxes, self.roi_side_px, view)
                for view in self.roi_views
            ]
            logits = self.network.classify_crops(torch.cat(crops)).category_logits
            assert logits is not None
            probabilities = (
                logits.softmax(1).reshape(len(self.roi_views), MAX_EXPORTED_DETECTIONS, -1).mean(0)
            )
            probability, label = probabilities.max(1)
            roi_score = (heat.flatten()[indices] * probability).sqrt()
            roi_score = (
                roi_score
                if self.score_calibration is None
                else calibrate_scores(roi_score, self.score_calibration[label])
            )
            best = torch.where(best > 0, roi_score, best)
        best, order = best.topk(MAX_EXPORTED_DETECTIONS)
        boxes, label = boxes[order], label[order]
        return boxes * (best > 0)[:, None], best, label * (best > 0)


def crop_rois(
    image: Tensor,
    fill_colour: Tensor,
    boxes_xyxy: Tensor,
    side: int,
    roi_view: RoiView = DEFAULT_ROI_VIEW,
) -> Tensor:
    """Return RoI crops (n, 3, side, side) of boxes (n, 4), as ``crop_roi`` does.

    Downscaling uses an image pyramid instead of supersampling.

    Args:
        image: (1, 3, h, w), sides divisible by ``PAD_TO_PX``.
        fill_colour: colour outside the image (1, 3, 1, 1).
        boxes_xyxy: boxes in pixels of the image.
        roi_view: scale and flip of the crops.
    """
    centres = (boxes_xyxy[:, :2] + boxes_xyxy[:, 2:]) / 2
    sides_px = (boxes_xyxy[:, 2:] - boxes_xyxy[:, :2]).amax(1).clamp(
        min=1.0
    ) / roi_view.box_fraction
    steps = (torch.arange(side) + 0.5) / side - 0.5
    x_steps = -steps if roi_view.is_flipped else steps
    positions = torch.stack([x_steps.expand(side, -1), steps[:, None].expand(-1, side)], 2)
    positions = centres[:, None, None] + sides_px[:, None, None, None] * positions
    size = torch.cat(
        [torch.full((1,), length, dtype=torch.float32) for length in image.shape[:1:-1]]
    )
    grid = (2 * positions / size - 1).flatten(0, 1)[None]  # crops stacked along the rows
    halvings = (sides_px / side * SUPERSAMPLE_BELOW_SCALE).log2().ceil().clamp(0, _PYRAMID_LEVELS)
    crops = torch.zeros(len(boxes_xyxy), 3, side, side)
    level = image - fill_colour
    for halving in range(_PYRAMID_LEVELS + 1):
        if halving:
            level = functional.avg_pool2d(level, 2)
        samples = functional.grid_sample(level, grid, align_corners=False)[0]  # (3, n * s, s)
        samples = samples.reshape(3, -1, side, side).transpose(0, 1)
        crops = torch.where((halvings == halving)[:, None, None, None], samples, crops)
    return crops + fill_colour


def export_detector(detector: NativeDetector, path: Path) -> tuple[str, ...]:
    """Write a detector as ONNX with the card as metadata ``card``; return notes about missing outputs.

    Raises:
        UsageError: if the extra ``export`` is not installed.
        Sim2CamError: if ONNX Runtime and PyTorch disagree.
        OutputError: if the folder cannot be written.
    """
    shapes = (
        torch.export.Dim("height", min=_MIN_SIDE_PX, max=_MAX_SIDE_PX),
        torch.export.Dim("width", min=_MIN_SIDE_PX, max=_MAX_SIDE_PX),
    )
    photos = Path(str(files("sim2cam"))) / "recipes" / "standin" / "style"
    example, second_example = map(_read_example, sorted(photos.iterdir()), _EXAMPLE_SIZES_PX)
    write_onnx(
        path,
        DetectorGraph(detector).eval(),
        {"rgb": example},
        {"rgb": second_example},
        {"rgb": dict(enumerate(shapes, 1))},
        _OUTPUT_NAMES,
        {"card": detector.card.to_json()},
        compare=_compare_detections,
    )
    return _list_missing_outputs(detector.card)


def _list_missing_outputs(card: DetectorCard) -> tuple[str, ...]:
    missing = {
        "masks": card.masks,
        "keypoints": any(card.keypoints.values()),
        "poses": bool(card.objects),
        "OOD score": card.ood_threshold is not None,
    }
    return tuple(
        f"{output}: not in the graph, which returns boxes, scores and labels only; predict has it"
        for output, is_predicted in missing.items()
        if is_predicted
    )


def _find_duplicates(boxes: Tensor) -> Tensor:
    """Return 1.0 for each box (n, 4), by falling score, that overlaps a better one, else 0.0."""
    low = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    intersection = (high - low).clamp(min=0.0).prod(2)
    area = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    iou = intersection / (area[:, None] + area - intersection).clamp(min=1e-9)
    is_better = torch.ones_like(iou).tril(-1)
    return ((iou > NMS_IOU).float() * is_better).amax(1)


def _compare_detections(expected: Outputs, actual: Outputs) -> str:
    """Return a description of how detections differ; empty if they match."""
    unmatched = max(
        _compute_unmatched_share(expected, actual), _compute_unmatched_share(actual, expected)
    )
    return (
        f"{unmatched:.1%} of the score sum has no matching detection"
        if not unmatched <= _MAX_UNMATCHED_SHARE
        else ""
    )


def _compute_unmatched_share(detections: Outputs, reference: Outputs) -> float:
    """Return the share of the score sum whose detections have no match in the reference."""
    boxes, scores, labels = (detections[name] for name in _OUTPUT_NAMES)
    other_boxes, other_scores, other_labels = (reference[name] for name in _OUTPUT_NAMES)
    side = (boxes[:, 2:] - boxes[:, :2]).max(1).clip(min=1.0)
    is_near = np.abs(boxes[:, None] - other_boxes).max(2) <= _MATCH_TOLERANCE * side[:, None]
    has_similar_score = (
        np.abs(scores[:, None] - other_scores)
        <= _MATCH_TOLERANCE * scores[:, None] + _SCORE_EPSILON
    )
    has_match = (is_near & has_similar_score & (labels[:, None] == other_labels)).any(1)
    return float(scores[~has_match].sum() / (scores.sum() + _SCORE_EPSILON))


def _read_example(photo: Path, size_px: tuple[int, int]) -> Tensor:
    """Return the upper left part of a photo, (1, h, w, 3) uint8."""
    height, width = size_px
    return torch.from_numpy(images.read_rgb(photo)[None, :height, :width].copy())
