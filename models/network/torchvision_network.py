"""Torchvision networks behind one interface: training losses and predictions of full images."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, cast

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from sim2cam.models.augment.crops import MIN_OBJECT_SIDE_PX, Crop
from sim2cam.models.compat import GeneralizedRCNNTransform, roi_heads
from sim2cam.models.inference.detections import MAX_DETECTIONS
from sim2cam.models.inference.input_scales import PyramidLevel, build_pyramid
from sim2cam.models.network.detector import MEAN_RGB, STD_RGB
from sim2cam.models.network.torchvision_models import (
    build_torchvision_model,
    is_segmentation_architecture,
)

Floats = NDArray[np.float64]
Rgb = NDArray[np.uint8]

TILE_CORE_PX, TILE_CONTEXT_PX = 768, 128
"""Side of the area that a tile is responsible for, and context around it."""

IGNORE_INDEX = -1
"""Class index of pixels that are not learned."""


class MaskWindow(NamedTuple):
    """Mask of an object in a window of the image.

    Attributes:
        corner_xy: upper left pixel of the window (2,).
        probabilities: probability of each pixel showing the object (h, w).
    """

    corner_xy: NDArray[np.int64]
    probabilities: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class TorchvisionOutputs:
    """Outputs for an image, in its pixels.

    Attributes:
        boxes: x0, y0, x1, y1 (n, 4).
        scores: falling scores, 0 to 1 (n,).
        categories: class indices (n,).
        keypoints: keypoint positions (n, k, 2), box coordinates; None without keypoints.
        mask_windows: mask of each object; None without masks.
        pixel_logits: logits of background and of each category (1 + c, h, w); None for instance models.
    """

    boxes: Floats
    scores: Floats
    categories: NDArray[np.int64]
    keypoints: Floats | None = None
    mask_windows: tuple[MaskWindow, ...] | None = None
    pixel_logits: NDArray[np.float32] | None = None


class TorchvisionNetwork(nn.Module, ABC):
    """Interface of torchvision models."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return next(self.parameters()).device

    @abstractmethod
    def losses(self, rgb: Tensor, crops: Sequence[Crop]) -> dict[str, Tensor]:
        """Return the losses by torchvision's names; their sum is minimized.

        Args:
            rgb: crops (n, 3, h, w), 0 to 255, on the model's device.
            crops: labels of the crops.
        """

    @abstractmethod
    def predict(self, rgb: Rgb) -> TorchvisionOutputs:
        """Predict an image (h, w, 3) of any size, at the scale of the training crops."""

    def select_levels(
        self, input_scale: float, trained_sizes_px: tuple[float, float] | None, image_side_px: int
    ) -> tuple[PyramidLevel, ...]:
        """Return the pyramid levels for an image; see ``build_pyramid``."""
        return build_pyramid(input_scale, trained_sizes_px, image_side_px)


class TorchvisionObjectNetwork(TorchvisionNetwork):
    """Detection model with boxes and, depending on the model, masks or keypoints.

    Crops and images are not resized: torchvision's resizing to 800 pixels would enlarge objects in crops more
    than in images. Models with a fixed square input (SSD) process images in tiles of the crop size.

    Args:
        crop_px: side of the training crops.
    """

    def __init__(self, model: nn.Module, crop_px: int) -> None:
        super().__init__(model)
        self._core_px, self._context_px = TILE_CORE_PX, TILE_CONTEXT_PX
        transform = cast("GeneralizedRCNNTransform", model.transform)
        self._is_square = transform.fixed_size is not None
        if self._is_square:
            self._core_px, self._context_px = crop_px // 2, crop_px // 4
        else:
            model.transform = _NormalizeOnlyTransform(
                0, 0, [mean / 255 for mean in MEAN_RGB], [std / 255 for std in STD_RGB]
            )

    def losses(self, rgb: Tensor, crops: Sequence[Crop]) -> dict[str, Tensor]:
        """Return torchvision's losses of crops.

        Torchvision does not support ignored regions, so these are filled with the mean colour, except inside boxes
        of learned objects. Objects without a mask have no mask loss.
        """
        images = rgb.float() / 255
        mean = images.new_tensor(MEAN_RGB).view(3, 1, 1) / 255
        is_ignored = torch.from_numpy(np.stack([find_ignored_pixels(crop) for crop in crops]))
        images = torch.where(is_ignored[:, None].to(images.device), mean, images)
        targets = [
            {name: value.to(images.device) for name, value in make_torchvision_target(crop).items()}
            for crop in crops
        ]
        with _ignore_missing_masks():
            losses: dict[str, Tensor] = self.model(list(images), targets)
        return losses

    @torch.inference_mode()
    def predict(self, rgb: Rgb) -> TorchvisionOutputs:
        """Predict an image in tiles; an object belongs to the tile with its centre."""
        height, width = rgb.shape[:2]
        outputs = []
        for tile in _iter_tiles(height, width, self._core_px, self._context_px):
            image = tile.crop_padded(rgb) if self._is_square else tile.crop(rgb)
            corner = tile.corner if self._is_square else np.maximum(tile.corner, 0)
            (prediction,) = self.model([_to_tensor(image, self.device)[0] / 255])
            boxes = prediction["boxes"].double().cpu().numpy() + np.tile(corner, 2)
            indices = np.flatnonzero(
                tile.contains_centres(boxes) & _select_inside(boxes, width, height)
            )
            outputs.append(_make_tile_outputs(prediction, indices, boxes[indices], corner))
        return _merge_tile_outputs(outputs)


class TorchvisionSegmentationNetwork(TorchvisionNetwork):
    """Segmentation model; connected regions of a category count as objects."""

    mean: Tensor
    std: Tensor

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.register_buffer("mean", torch.tensor(MEAN_RGB).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(STD_RGB).view(1, 3, 1, 1))

    def losses(self, rgb: Tensor, crops: Sequence[Crop]) -> dict[str, Tensor]:
        """Return the cross-entropy over the pixels with known categories."""
        # training with masks always has segmentation
        labels = [crop.segmentation.semantic for crop in crops if crop.segmentation is not None]
        classes = torch.from_numpy(np.stack(labels)).to(rgb.device)
        logits = self._compute_logits(rgb)
        total = functional.cross_entropy(
            logits, classes, ignore_index=IGNORE_INDEX, reduction="sum"
        )
        return {"semantic": total / (classes != IGNORE_INDEX).sum().clamp(min=1)}

    @torch.inference_mode()
    def predict(self, rgb: Rgb) -> TorchvisionOutputs:
        """Predict the category of each pixel, and connected regions as objects."""
        height, width = rgb.shape[:2]
        rows: dict[int, list[NDArray[np.float32]]] = {}
        for tile in _iter_tiles(height, width, TILE_CORE_PX, TILE_CONTEXT_PX):
            logits = self._compute_logits(_to_tensor(tile.crop(rgb), self.device))[0].cpu().numpy()
            rows.setdefault(int(tile.core_start[1]), []).append(tile.crop_core(logits))
        return _extract_regions(
            np.concatenate([np.concatenate(row, 2) for row in rows.values()], 1)
        )

    def select_levels(
        self, input_scale: float, trained_sizes_px: tuple[float, float] | None, image_side_px: int
    ) -> tuple[PyramidLevel, ...]:
        """Return one level, since large objects need no coarser scale."""
        return (PyramidLevel(input_scale),)

    def _compute_logits(self, rgb: Tensor) -> Tensor:
        logits: Tensor = self.model((rgb - self.mean) / self.std)["out"]
        return logits.float()


def build_torchvision_network(
    name: str, n_categories: int, generator: torch.Generator, *, n_keypoints: int, crop_px: int
) -> TorchvisionNetwork:
    """Build a torchvision network by name; see ``build_torchvision_model`` for the arguments.

    Raises:
        BackendError: if compiled operators of the model do not load.
    """
    model = build_torchvision_model(name, n_categories, generator, n_keypoints=n_keypoints)
    return (
        TorchvisionSegmentationNetwork(model)
        if is_segmentation_architecture(name)
        else TorchvisionObjectNetwork(model, crop_px)
    )


@contextmanager
def seed_global_rng(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's global generators, which torchvision uses for proposals, and restore them at exit."""
    cuda_devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda_devices):
        torch.set_rng_state(torch.Generator().manual_seed(seed).get_state())
        for cuda_device in cuda_devices:
            torch.cuda.set_rng_state(
                torch.Generator(cuda_device).manual_seed(seed).get_state(), cuda_device
            )
        yield


@contextmanager
def _ignore_missing_masks() -> Iterator[None]:
    """Exclude objects without a mask from torchvision's mask loss, which would learn empty masks."""
    original_loss = roi_heads.maskrcnn_loss

    def compute_masked_loss(
        logits: Tensor,
        boxes: Sequence[Tensor],
        masks: Sequence[Tensor],
        categories: Sequence[Tensor],
        objects: Sequence[Tensor],
    ) -> Tensor:
        has_mask = [
            (mask > 0).flatten(1).any(1)[matched]
            for mask, matched in zip(masks, objects, strict=True)
        ]
        boxes, objects = (
            [values[keep] for values, keep in zip(per_image, has_mask, strict=True)]
            for per_image in (boxes, objects)
        )
        loss: Tensor = original_loss(logits[torch.cat(has_mask)], boxes, masks, categories, objects)
        return loss

    roi_heads.maskrcnn_loss = compute_masked_loss
    try:
        yield
    finally:
        roi_heads.maskrcnn_loss = original_loss


def find_ignored_pixels(crop: Crop) -> NDArray[np.bool_]:
    """Return a mask (h, w) of the crop's pixels in ignored regions and outside objects."""
    is_ignored = np.zeros(crop.rgb.shape[:2], np.bool_)
    for boxes, value in ((crop.ignored_boxes_xyxy, True), (crop.boxes_xyxy, False)):
        for box in boxes:
            (x0, y0), (x1, y1) = np.floor(box[:2]).astype(int), np.ceil(box[2:]).astype(int)
            is_ignored[max(y0, 0) : max(y1, 0), max(x0, 0) : max(x1, 0)] = value
    return is_ignored


def make_torchvision_target(crop: Crop) -> dict[str, Tensor]:
    """Return torchvision's training target of a crop.

    It has ``boxes`` float32 (n, 4) and ``labels`` int64 (n,) from 1. If the crop has them, also ``keypoints``
    float32 (n, k, 3), with 1 for known and 0 for unknown positions, and ``masks`` uint8 (n, h, w).
    """
    target = {
        "boxes": torch.from_numpy(crop.boxes_xyxy).float(),
        "labels": torch.from_numpy(crop.categories + 1),
    }
    if crop.keypoints is not None:
        points_xy = crop.keypoints.points_xy
        is_known = np.isfinite(points_xy).all(-1, keepdims=True)
        points = np.concatenate([np.where(is_known, points_xy, 0), is_known], -1)
        target["keypoints"] = torch.from_numpy(points).float()
    if crop.segmentation is not None:
        indices = np.arange(len(crop.boxes_xyxy))[:, None, None]
        target["masks"] = torch.from_numpy(
            (crop.segmentation.object_indices == indices).astype(np.uint8)
        )
    return target


class _NormalizeOnlyTransform(GeneralizedRCNNTransform):  # type: ignore[misc]
    """Transform that normalizes and batches images without resizing them."""

    def resize(
        self, image: Tensor, target: dict[str, Tensor] | None = None
    ) -> tuple[Tensor, dict[str, Tensor] | None]:
        """Return image and target unchanged."""
        return image, target


@dataclass(frozen=True, eq=False)
class _Tile:
    """Square tile of an image.

    Attributes:
        core_start: upper left pixel (x, y) of the area that the tile is responsible for.
        core_px: side of this area.
        context_px: width of the context around it.
    """

    core_start: NDArray[np.int64]
    core_px: int
    context_px: int

    @property
    def corner(self) -> NDArray[np.int64]:
        """Upper left pixel of the tile, possibly outside the image."""
        return self.core_start - self.context_px

    def crop(self, rgb: Rgb) -> Rgb:
        """Return the part of the tile inside the image."""
        x0, y0 = np.maximum(self.corner, 0)
        x1, y1 = self.core_start + self.core_px + self.context_px
        return rgb[y0:y1, x0:x1]

    def crop_padded(self, rgb: Rgb) -> Rgb:
        """Return the full tile, with the mean colour outside the image as in training crops."""
        side = self.core_px + 2 * self.context_px
        padded = np.empty((side, side, 3), np.uint8)
        padded[:] = np.round(MEAN_RGB)
        inner = self.crop(rgb)
        x, y = np.maximum(-self.corner, 0)
        padded[y : y + inner.shape[0], x : x + inner.shape[1]] = inner
        return padded

    def crop_core(self, maps: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the core area of maps (c, h, w) that were computed from ``crop``."""
        x, y = self.core_start - np.maximum(self.corner, 0)
        return maps[:, y : y + self.core_px, x : x + self.core_px]

    def contains_centres(self, boxes: Floats) -> NDArray[np.bool_]:
        """Return a mask (n,) of the boxes (n, 4) with centres in the core area."""
        return np.asarray(
            (_compute_centres(boxes) // self.core_px * self.core_px == self.core_start).all(axis=1)
        )


def _iter_tiles(height: int, width: int, core_px: int, context_px: int) -> Iterator[_Tile]:
    for y in range(0, height, core_px):
        for x in range(0, width, core_px):
            yield _Tile(np.array([x, y]), core_px, context_px)


def _compute_centres(boxes: Floats) -> Floats:
    return np.asarray((boxes[:, :2] + boxes[:, 2:]) / 2)


def _select_inside(boxes: Floats, width: int, height: int) -> NDArray[np.bool_]:
    """Return a mask (n,) of the boxes (n, 4) with positive area and centre inside the image."""
    centres, sides = _compute_centres(boxes), boxes[:, 2:] - boxes[:, :2]
    return np.asarray(((centres >= 0) & (centres < (width, height)) & (sides > 0)).all(axis=1))


def _to_tensor(rgb: Rgb, device: torch.device) -> Tensor:
    """Return an image as a float tensor (1, 3, h, w), 0 to 255."""
    return torch.from_numpy(np.array(rgb)).to(device).permute(2, 0, 1)[None].float()


def _make_tile_outputs(
    model_outputs: dict[str, Tensor],
    indices: NDArray[np.intp],
    boxes: Floats,
    corner: NDArray[np.int64],
) -> TorchvisionOutputs:
    """Return the outputs of a tile for selected objects."""
    keypoints: Floats | None = None
    windows = None
    if "keypoints" in model_outputs:
        points_xy: Floats = model_outputs["keypoints"].double().cpu().numpy()[indices, :, :2]
        keypoints = points_xy + corner
    if "masks" in model_outputs:
        masks = model_outputs["masks"][:, 0]
        windows = tuple(
            _crop_mask_window(masks[index].float().cpu().numpy(), box - np.tile(corner, 2), corner)
            for index, box in zip(indices.tolist(), boxes, strict=True)
        )
    scores = model_outputs["scores"].double().cpu().numpy()[indices]
    return TorchvisionOutputs(
        boxes, scores, model_outputs["labels"].cpu().numpy()[indices] - 1, keypoints, windows
    )


def _crop_mask_window(
    probabilities: NDArray[np.float32], box: NDArray[np.float64], corner: NDArray[np.int64]
) -> MaskWindow:
    """Return the window of a mask (h, w) inside a box; ``corner`` is the mask's corner in the image."""
    low = np.floor(box[:2]).astype(int).clip(0)
    x1, y1 = np.maximum(np.ceil(box[2:]).astype(int), low + 1)
    return MaskWindow(corner + low, probabilities[low[1] : y1, low[0] : x1])


def _merge_tile_outputs(tile_outputs: Sequence[TorchvisionOutputs]) -> TorchvisionOutputs:
    """Merge the outputs of all tiles of an image by falling score."""
    scores = np.concatenate([outputs.scores for outputs in tile_outputs])
    order = np.argsort(-scores, kind="stable")[:MAX_DETECTIONS]
    keypoints = [outputs.keypoints for outputs in tile_outputs if outputs.keypoints is not None]
    windows = [window for outputs in tile_outputs for window in outputs.mask_windows or ()]
    return TorchvisionOutputs(
        np.concatenate([outputs.boxes for outputs in tile_outputs])[order],
        scores[order],
        np.concatenate([outputs.categories for outputs in tile_outputs])[order],
        np.concatenate(keypoints)[order] if keypoints else None,
        None if tile_outputs[0].mask_windows is None else tuple(windows[i] for i in order),
    )


def _extract_regions(pixel_logits: NDArray[np.float32]) -> TorchvisionOutputs:
    """Return the connected regions of each category, scored by their mean probability."""
    probabilities = torch.from_numpy(pixel_logits).softmax(0).numpy()
    classes = pixel_logits.argmax(axis=0)
    boxes, scores, categories, windows = [], [], [], []
    for category_index in range(1, len(pixel_logits)):
        count, regions, stats, _ = cv2.connectedComponentsWithStats(
            (classes == category_index).astype(np.uint8)
        )
        for region in range(1, count):
            x, y, width, height, _ = stats[region].tolist()
            if min(width, height) < MIN_OBJECT_SIDE_PX:
                continue
            window = np.s_[y : y + height, x : x + width]
            is_region = regions[window] == region
            boxes.append((x, y, x + width, y + height))
            scores.append(float(probabilities[category_index][window][is_region].mean()))
            categories.append(category_index - 1)
            windows.append(MaskWindow(np.array([x, y]), is_region.astype(np.float32)))
    order = np.argsort(-np.array(scores), kind="stable")[:MAX_DETECTIONS]
    return TorchvisionOutputs(
        np.array(boxes, np.float64).reshape(-1, 4)[order],
        np.array(scores, np.float64)[order],
        np.array(categories, np.int64)[order],
        mask_windows=tuple(windows[i] for i in order),
        pixel_logits=pixel_logits,
    )
