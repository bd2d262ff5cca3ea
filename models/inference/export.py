"""A detector as one ONNX graph: an image in, boxes out."""

from __future__ import annotations

import copy
from importlib.resources import files
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from sim2cam import images
from sim2cam.learn.onnx import Outputs, write_onnx
from sim2cam.models.augment.crops import SUPERSAMPLE_BELOW_SCALE
from sim2cam.models.card import DetectorCard
from sim2cam.models.inference.detections import NMS_IOU
from sim2cam.models.inference.detector import NativeDetector
from sim2cam.models.inference.differentiable import pad_images, resize_images
from sim2cam.models.network.detector import STRIDE_PX, UNIT_PX, DetectorNetwork, is_peak
from sim2cam.models.network.roi_crops import DEFAULT_ROI_VIEW, RoiView, get_roi_side_px
from sim2cam.models.reliability.confidence import calibrate_scores, stack_calibration

_PYRAMID_LEVELS = 4  # of a picture, for close-ups; ``PAD_TO_PX`` allows five
MAX_EXPORTED_DETECTIONS = 100  # detections that the graph returns, however unsure
_OUTPUT_NAMES = "boxes", "scores", "labels"
_MIN_SIDE_PX, _MAX_SIDE_PX = 64, 8192
_EXAMPLE_SIZES_PX = (192, 264), (333, 250)
"""How much, high and wide, of photos that a graph has to see as its network does: of noise a trained network
is unsure, and what it then finds hangs on rounding."""
_MAX_UNMATCHED_SHARE = 0.02
"""Largest share of all scores whose detections another run has not: two as sure, or mostly one another,
may change places by rounding, what is computed wrongly changes all."""
_SCORE_EPSILON = 1e-6  # of scores
_MATCH_TOLERANCE = 0.01  # of the larger side of a box, and of a score: what is the same detection


class DetectorGraph(nn.Module):
    """Everything from an image to boxes, in tensors of fixed size.

    Unlike ``prediction.predict`` it looks with the card's magnification alone, so not for objects larger
    than those trained on, and returns no more than ``MOST`` detections. A box goes where it is mostly a
    surer one's, also where that one goes for the same reason; scores of such boxes are 0.
    """

    score_calibration: Tensor | None

    def __init__(self, detector: NativeDetector) -> None:
        super().__init__()
        self.network: DetectorNetwork = copy.deepcopy(detector.network)
        self.network.keypoint_head = self.network.mask_head = None
        self.roi_side_px = get_roi_side_px(poses=bool(detector.card.objects))
        self.roi_views = detector.card.roi_views
        if self.network.roi_network is not None:
            self.network.roi_network.surface_head = None  # poses are found by more than tensors
        self.input_scale = detector.card.input_scale
        self.box_expansion = detector.card.box_expansion
        score_calibration = stack_calibration(
            detector.card.score_calibration, detector.card.categories
        )
        self.register_buffer("score_calibration", score_calibration, persistent=False)

    def forward(self, rgb: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return boxes (MOST, 4) in pixels, scores (MOST,), surest first, and labels (MOST,).

        Args:
            rgb: (1, h, w, 3) uint8, sides of 64 to 8192 pixels.
        """
        height, width = rgb.shape[1], rgb.shape[2]
        picture = rgb.permute(0, 3, 1, 2).float()
        image = resize_images(picture, self.input_scale)
        maps = self.network(pad_images(self.network, image))
        heat = maps.heatmap[0].sigmoid()  # (h, w)
        probability, label = maps.class_logits[0].softmax(0).max(0)
        score = (heat * probability).sqrt()
        if self.score_calibration is not None:
            score = calibrate_scores(score, self.score_calibration[label])
        score = torch.where(is_peak(heat), score, torch.zeros_like(heat))
        # the smallest pictures have fewer places than that
        best, where = functional.pad(score.flatten(), (0, MAX_EXPORTED_DETECTIONS)).topk(
            MAX_EXPORTED_DETECTIONS
        )
        where = where.clamp(max=heat.numel() - 1)
        across = torch.arange(heat.shape[1]).expand(heat.shape[0], -1).flatten()[where]
        down = torch.arange(heat.shape[0])[:, None].expand(-1, heat.shape[1]).flatten()[where]
        centre = torch.stack([across, down], 1) * STRIDE_PX + STRIDE_PX / 2
        sides = maps.log_sides[0].flatten(1)[:, where].T.exp() * UNIT_PX
        low, high = centre - sides[:, :2], centre + sides[:, 2:]
        label = label.flatten()[where]
        if self.network.roi_network is not None and self.network.roi_network.class_head is not None:
            tight = torch.cat([low, high], 1) / self.input_scale
            whole, fill = pad_images(self.network, picture), self.network.mean
            seen = [
                crop_rois(whole, fill, tight, self.roi_side_px, view) for view in self.roi_views
            ]
            logits = self.network.classify_crops(torch.cat(seen)).category_logits
            assert logits is not None
            shares = (
                logits.softmax(1).reshape(len(self.roi_views), MAX_EXPORTED_DETECTIONS, -1).mean(0)
            )
            probability, label = shares.max(1)
            read = (heat.flatten()[where] * probability).sqrt()
            read = (
                read
                if self.score_calibration is None
                else calibrate_scores(read, self.score_calibration[label])
            )
            best, order = torch.where(best > 0, read, best).topk(MAX_EXPORTED_DETECTIONS)
            low, high, label = low[order], high[order], label[order]
        more = self.box_expansion * (high - low)
        edges = torch.cat([torch.full((1,), n, dtype=torch.float32) for n in (width, height)])
        low, high = (
            torch.minimum(ends.clamp(min=0.0), edges)
            for ends in ((low - more) / self.input_scale, (high + more) / self.input_scale)
        )
        boxes = torch.cat([low, high], 1)
        kept = best * (1.0 - _find_duplicates(boxes))
        return boxes * (kept > 0)[:, None], kept, label * (kept > 0)


def crop_rois(
    image: Tensor,
    fill_colour: Tensor,
    boxes_xyxy: Tensor,
    side: int,
    roi_view: RoiView = DEFAULT_ROI_VIEW,
) -> Tensor:
    """Return close-ups (n, 3, side, side) of boxes (n, 4), as ``crop_roi`` cuts them.

    Where that takes the mean of many pixels, here a pixel of a picture of half, a quarter, ... of the size is.

    Args:
        image: (1, 3, h, w), with sides that ``PAD_TO_PX`` divides.
        fill_colour: its colour outside (1, 3, 1, 1).
        boxes_xyxy: in its pixels.
        side: of a close-up.
        roi_view: how objects are looked at.
    """
    middle = (boxes_xyxy[:, :2] + boxes_xyxy[:, 2:]) / 2
    reach = (boxes_xyxy[:, 2:] - boxes_xyxy[:, :2]).amax(1).clamp(min=1.0) / roi_view.box_fraction
    steps = (torch.arange(side) + 0.5) / side - 0.5
    across = -steps if roi_view.is_flipped else steps
    places = torch.stack([across.expand(side, -1), steps[:, None].expand(-1, side)], 2)
    places = middle[:, None, None] + reach[:, None, None, None] * places
    size = torch.cat([torch.full((1,), n, dtype=torch.float32) for n in image.shape[:1:-1]])
    grid = (2 * places / size - 1).flatten(0, 1)[None]  # rows of all close-ups below one another
    halvings = (reach / side * SUPERSAMPLE_BELOW_SCALE).log2().ceil().clamp(0, _PYRAMID_LEVELS)
    found = torch.zeros(len(boxes_xyxy), 3, side, side)
    level = image - fill_colour
    for number in range(_PYRAMID_LEVELS + 1):
        seen = functional.grid_sample(level, grid, align_corners=False)[0]  # (3, n * s, s)
        seen = seen.reshape(3, -1, side, side).transpose(0, 1)
        found = torch.where((halvings == number)[:, None, None, None], seen, found)
        level = functional.avg_pool2d(level, 2)
    return found + fill_colour


def export_detector(detector: NativeDetector, path: Path) -> tuple[str, ...]:
    """Write a detector as ONNX, whose card is the file's metadata ``card``; returns what the graph lacks,
    in words.

    Raises:
        UsageError: the extra ``export`` is not installed.
        Sim2CamError: the graph computes something else than the network.
        OutputError: the folder cannot be written.
    """
    shapes = (
        torch.export.Dim("height", min=_MIN_SIDE_PX, max=_MAX_SIDE_PX),
        torch.export.Dim("width", min=_MIN_SIDE_PX, max=_MAX_SIDE_PX),
    )
    photos = Path(str(files("sim2cam"))) / "recipes" / "standin" / "style"
    example, other = map(_read_example, sorted(photos.iterdir()), _EXAMPLE_SIZES_PX)
    write_onnx(
        path,
        DetectorGraph(detector).eval(),
        {"rgb": example},
        {"rgb": other},
        {"rgb": dict(enumerate(shapes, 1))},
        _OUTPUT_NAMES,
        {"card": detector.card.to_json()},
        compare=_compare_detections,
    )
    return _list_missing_outputs(detector.card)


def _list_missing_outputs(card: DetectorCard) -> tuple[str, ...]:
    """Return what ``predict`` tells and the graph does not."""
    only_predicted = {
        "masks": card.masks,
        "keypoints": any(card.keypoints.values()),
        "poses": bool(card.objects),
        "how unlike what was trained on a picture is": card.ood_threshold is not None,
    }
    return tuple(
        f"{what}: not in the graph, which tells boxes, scores and labels alone; predict does"
        for what, is_known in only_predicted.items()
        if is_known
    )


def _find_duplicates(boxes: Tensor) -> Tensor:
    """Return 1.0 for each box (n, 4), by falling score, that is mostly a surer one's, else 0.0."""
    low = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    shared = (high - low).clamp(min=0.0).prod(2)
    area = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    overlap = shared / (area[:, None] + area - shared).clamp(min=1e-9)
    surer = torch.ones_like(overlap).tril(-1)
    return ((overlap > NMS_IOU).float() * surer).amax(1)


def _compare_detections(expected: Outputs, actual: Outputs) -> str:
    """Return how detections differ, in words; empty where each has its like among the others."""
    lost = max(
        _compute_unmatched_share(expected, actual), _compute_unmatched_share(actual, expected)
    )
    return (
        f"{lost:.1%} of the scores are of other detections"
        if not lost <= _MAX_UNMATCHED_SHARE
        else ""
    )


def _compute_unmatched_share(detections: Outputs, reference: Outputs) -> float:
    """Return the share of our scores whose detections have no like among theirs."""
    boxes, scores, labels = (detections[name] for name in _OUTPUT_NAMES)
    other_boxes, other_scores, other_labels = (reference[name] for name in _OUTPUT_NAMES)
    side = (boxes[:, 2:] - boxes[:, :2]).max(1).clip(min=1.0)
    is_near = np.abs(boxes[:, None] - other_boxes).max(2) <= _MATCH_TOLERANCE * side[:, None]
    is_as_sure = (
        np.abs(scores[:, None] - other_scores)
        <= _MATCH_TOLERANCE * scores[:, None] + _SCORE_EPSILON
    )
    has_like = (is_near & is_as_sure & (labels[:, None] == other_labels)).any(1)
    return float(scores[~has_like].sum() / (scores.sum() + _SCORE_EPSILON))


def _read_example(photo: Path, size_px: tuple[int, int]) -> Tensor:
    """Return the upper left (1, h, w, 3) uint8 of a photo."""
    height, width = size_px
    return torch.from_numpy(images.read_rgb(photo)[None, :height, :width].copy())
