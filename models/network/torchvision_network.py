"""Networks of torchvision as trainings and detectors use them: losses of crops, and what lies in a picture."""

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

from sim2cam.models.augment.crops import MIN_OBJECT_SIDE_PX, Crop, SegmentationLabels
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
"""Of a tile, the side of what it speaks for, and what is seen around that."""

IGNORE_INDEX = -1
"""What a pixel shows of which nothing is learned."""


class MaskWindow(NamedTuple):
    """A part of a picture that shows an object.

    Attributes:
        corner_xy: its upper left pixel, x and y (2,).
        probabilities: how sure each pixel is to show it, 0 to 1 (h, w).
    """

    corner_xy: NDArray[np.int64]
    probabilities: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class TorchvisionOutputs:
    """What a network says of a picture, in its pixels.

    Attributes:
        boxes: x0, y0, x1, y1 (n, 4).
        scores: 0 to 1 (n,), surest first.
        categories: class indices (n,).
        keypoints: places of the named points of each (n, k, 2), pixels as boxes have them; None without.
        mask_windows: what shows each; None without masks.
        pixel_logits: logits of every pixel showing nothing that is labelled, then each category (1 + c, h, w);
            None of a network that tells objects apart.
    """

    boxes: Floats
    scores: Floats
    categories: NDArray[np.int64]
    keypoints: Floats | None = None
    mask_windows: tuple[MaskWindow, ...] | None = None
    pixel_logits: NDArray[np.float32] | None = None


class TorchvisionNetwork(nn.Module, ABC):
    """A model of torchvision.

    Args:
        model: as torchvision makes it.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        return next(self.parameters()).device

    @abstractmethod
    def losses(self, rgb: Tensor, crops: Sequence[Crop]) -> dict[str, Tensor]:
        """Return the losses, by the names that torchvision gives them, of which the sum is learned.

        Args:
            rgb: crops (n, 3, h, w), 0 to 255, on its device.
            crops: their labels.
        """

    @abstractmethod
    def predict(self, rgb: Rgb) -> TorchvisionOutputs:
        """Return what it says of a picture (h, w, 3) of any size, at the magnification of its crops."""

    @abstractmethod
    def select_levels(
        self, input_scale: float, trained_sizes_px: tuple[float, float] | None, image_side_px: int
    ) -> tuple[PyramidLevel, ...]:
        """Return at which magnifications a picture is looked at; arguments are those of ``pyramid``."""


class TorchvisionObjectNetwork(TorchvisionNetwork):
    """A model that finds objects: their boxes and, as it was made, masks or keypoints.

    It sees crops and pictures in the pixels in which they are given to it: torchvision's own enlarging to
    800 pixels would show objects of crops larger than those of pictures. Models that see squares of one
    size alone (SSD) look at pictures in tiles of the crops' size.

    Args:
        model: as torchvision makes it.
        crop_px: side of the crops.
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
                0, 0, [m / 255 for m in MEAN_RGB], [s / 255 for s in STD_RGB]
            )

    def losses(self, rgb: Tensor, crops: Sequence[Crop]) -> dict[str, Tensor]:
        """Return the losses of crops, as torchvision's models have them.

        These know of no regions to leave out, so regions of which nothing is known are painted over with
        the mean colour, but for the boxes of objects that are learned. Objects without a mask teach none.
        """
        images = rgb.float() / 255
        mean = images.new_tensor(MEAN_RGB).view(3, 1, 1) / 255
        hidden = torch.from_numpy(np.stack([find_ignored_pixels(crop) for crop in crops]))
        images = torch.where(hidden[:, None].to(images.device), mean, images)
        targets = [
            {name: value.to(images.device) for name, value in make_torchvision_target(crop).items()}
            for crop in crops
        ]
        with _ignore_missing_masks():
            found: dict[str, Tensor] = self.model(list(images), targets)
        return found

    @torch.inference_mode()
    def predict(self, rgb: Rgb) -> TorchvisionOutputs:
        """Return what it finds; of objects at the borders of tiles, that tile speaks that has their middle."""
        height, width = rgb.shape[:2]
        found = []
        for tile in _iter_tiles(height, width, self._core_px, self._context_px):
            piece = tile.crop_padded(rgb) if self._is_square else tile.crop(rgb)
            corner = tile.corner if self._is_square else np.maximum(tile.corner, 0)
            (said,) = self.model([_to_tensor(piece, self.device)[0] / 255])
            boxes = said["boxes"].double().cpu().numpy() + np.tile(corner, 2)
            mine = np.flatnonzero(
                tile.contains_centres(boxes) & _select_inside(boxes, width, height)
            )
            found.append(_make_tile_outputs(said, mine, boxes[mine], corner))
        return _merge_tile_outputs(found)

    def select_levels(
        self, input_scale: float, trained_sizes_px: tuple[float, float] | None, image_side_px: int
    ) -> tuple[PyramidLevel, ...]:
        """Return the levels of ``pyramid``."""
        return build_pyramid(input_scale, trained_sizes_px, image_side_px)


class TorchvisionSegmentationNetwork(TorchvisionNetwork):
    """A model that says what every pixel shows: pixels that hang together count as one object.

    Args:
        model: as torchvision makes it.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.register_buffer("mean", torch.tensor(MEAN_RGB).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(STD_RGB).view(1, 3, 1, 1))

    def losses(self, rgb: Tensor, crops: Sequence[Crop]) -> dict[str, Tensor]:
        """Return the cross-entropy of all pixels of which it is known what they show."""
        shown = torch.from_numpy(np.stack([_get_segmentation(crop).semantic for crop in crops])).to(
            rgb.device
        )
        logits = self._compute_logits(rgb)
        lost = functional.cross_entropy(logits, shown, ignore_index=IGNORE_INDEX, reduction="sum")
        return {"semantic": lost / (shown != IGNORE_INDEX).sum().clamp(min=1)}

    @torch.inference_mode()
    def predict(self, rgb: Rgb) -> TorchvisionOutputs:
        """Return what every pixel shows, and the regions of one category as objects."""
        height, width = rgb.shape[:2]
        rows: dict[int, list[NDArray[np.float32]]] = {}
        for tile in _iter_tiles(height, width, TILE_CORE_PX, TILE_CONTEXT_PX):
            said = self._compute_logits(_to_tensor(tile.crop(rgb), self.device))[0].cpu().numpy()
            rows.setdefault(int(tile.core_start[1]), []).append(tile.crop_core(said))
        return _extract_regions(
            np.concatenate([np.concatenate(row, 2) for row in rows.values()], 1)
        )

    def select_levels(
        self, input_scale: float, trained_sizes_px: tuple[float, float] | None, image_side_px: int
    ) -> tuple[PyramidLevel, ...]:
        """Return one level: pixels of larger objects are pixels as well."""
        return (PyramidLevel(input_scale),)

    def _compute_logits(self, rgb: Tensor) -> Tensor:
        said: Tensor = self.model((rgb - self.mean) / self.std)["out"]
        return said.float()


def build_torchvision_network(
    name: str, n_categories: int, generator: torch.Generator, *, n_keypoints: int, crop_px: int
) -> TorchvisionNetwork:
    """Return a model of torchvision by its name; arguments are those of ``build_torchvision_model`` and of the networks.

    Raises:
        BackendError: the compiled operators that it needs do not load.
    """
    model = build_torchvision_model(name, n_categories, generator, n_keypoints=n_keypoints)
    return (
        TorchvisionSegmentationNetwork(model)
        if is_segmentation_architecture(name)
        else TorchvisionObjectNetwork(model, crop_px)
    )


@contextmanager
def seed_global_rng(seed: int, device: torch.device) -> Iterator[None]:
    """Let torch's global generators, from which torchvision draws proposals, begin anew, and leaves them as
    they were.
    """
    places = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=places):
        torch.set_rng_state(torch.Generator().manual_seed(seed).get_state())
        for place in places:
            torch.cuda.set_rng_state(torch.Generator(place).manual_seed(seed).get_state(), place)
        yield


@contextmanager
def _ignore_missing_masks() -> Iterator[None]:
    """Leave objects without a pixel out of torchvision's loss of masks: what shows them is not known, and it
    would learn that nothing does.
    """
    of_all = roi_heads.maskrcnn_loss

    def compute_known_loss(
        logits: Tensor,
        boxes: Sequence[Tensor],
        masks: Sequence[Tensor],
        categories: Sequence[Tensor],
        objects: Sequence[Tensor],
    ) -> Tensor:
        known = [
            (mask > 0).flatten(1).any(1)[mine] for mask, mine in zip(masks, objects, strict=True)
        ]
        boxes, objects = (
            [of_image[keep] for of_image, keep in zip(each, known, strict=True)]
            for each in (boxes, objects)
        )
        lost: Tensor = of_all(logits[torch.cat(known)], boxes, masks, categories, objects)
        return lost

    roi_heads.maskrcnn_loss = compute_known_loss
    try:
        yield
    finally:
        roi_heads.maskrcnn_loss = of_all


def find_ignored_pixels(crop: Crop) -> NDArray[np.bool_]:
    """Return which pixels (h, w) of a crop are of regions of which nothing is known, and of no object."""
    hidden = np.zeros(crop.rgb.shape[:2], np.bool_)
    for boxes, value in ((crop.ignored_boxes_xyxy, True), (crop.boxes_xyxy, False)):
        for box in boxes:
            (x0, y0), (x1, y1) = np.floor(box[:2]).astype(int), np.ceil(box[2:]).astype(int)
            hidden[max(y0, 0) : max(y1, 0), max(x0, 0) : max(x1, 0)] = value
    return hidden


def make_torchvision_target(crop: Crop) -> dict[str, Tensor]:
    """Return what torchvision's models learn of a crop.

    ``boxes`` float32 (n, 4), ``labels`` int64 (n,) from 1; where the crop has them, ``keypoints``
    float32 (n, k, 3) with 1 where the place is known and 0 where not, and ``masks`` uint8 (n, h, w).
    """
    target = {
        "boxes": torch.from_numpy(crop.boxes_xyxy).float(),
        "labels": torch.from_numpy(crop.categories + 1),
    }
    if crop.keypoints is not None:
        places = crop.keypoints.points_xy
        is_known = np.isfinite(places).all(-1, keepdims=True)
        points = np.concatenate([np.where(is_known, places, 0), is_known], -1)
        target["keypoints"] = torch.from_numpy(points).float()
    if crop.segmentation is not None:
        numbers = np.arange(len(crop.boxes_xyxy))[:, None, None]
        target["masks"] = torch.from_numpy(
            (crop.segmentation.object_indices == numbers).astype(np.uint8)
        )
    return target


class _NormalizeOnlyTransform(GeneralizedRCNNTransform):  # type: ignore[misc]
    """Normalizes pictures and brings them into one batch, but does not resize them."""

    def resize(
        self, image: Tensor, target: dict[str, Tensor] | None = None
    ) -> tuple[Tensor, dict[str, Tensor] | None]:
        """Return both as they are."""
        return image, target


@dataclass(frozen=True, eq=False)
class _Tile:
    """A square of a picture.

    Attributes:
        core_start: of what it speaks for, x and y (2,).
        core_px: side of that.
        context_px: what is seen around it.
    """

    core_start: NDArray[np.int64]
    core_px: int
    context_px: int

    @property
    def corner(self) -> NDArray[np.int64]:
        """Its upper left pixel, which may lie outside the picture."""
        return self.core_start - self.context_px

    def crop(self, rgb: Rgb) -> Rgb:
        """Return what there is of it."""
        x0, y0 = np.maximum(self.corner, 0)
        x1, y1 = self.core_start + self.core_px + self.context_px
        return rgb[y0:y1, x0:x1]

    def crop_padded(self, rgb: Rgb) -> Rgb:
        """Return all of it, with the mean colour outside the picture, as crops have it."""
        side = self.core_px + 2 * self.context_px
        whole = np.empty((side, side, 3), np.uint8)
        whole[:] = np.round(MEAN_RGB)
        piece = self.crop(rgb)
        x, y = np.maximum(-self.corner, 0)
        whole[y : y + piece.shape[0], x : x + piece.shape[1]] = piece
        return whole

    def crop_core(self, maps: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return what it speaks for of maps (c, h, w) of ``cut``."""
        x, y = self.core_start - np.maximum(self.corner, 0)
        return maps[:, y : y + self.core_px, x : x + self.core_px]

    def contains_centres(self, boxes: Floats) -> NDArray[np.bool_]:
        """Return for which boxes (n, 4) of the picture it speaks: those whose middle is in what it does."""
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
    """Return which boxes (n, 4) have an area, and their middle in the picture."""
    middles, sides = _compute_centres(boxes), boxes[:, 2:] - boxes[:, :2]
    return np.asarray(((middles >= 0) & (middles < (width, height)) & (sides > 0)).all(axis=1))


def _to_tensor(rgb: Rgb, device: torch.device) -> Tensor:
    """Return a picture (1, 3, h, w), 0 to 255."""
    return torch.from_numpy(np.array(rgb)).to(device).permute(2, 0, 1)[None].float()


def _make_tile_outputs(
    model_outputs: dict[str, Tensor],
    indices: NDArray[np.intp],
    boxes: Floats,
    corner: NDArray[np.int64],
) -> TorchvisionOutputs:
    """Return what a tile says of the objects that it speaks for."""
    keypoints: Floats | None = None
    windows = None
    if "keypoints" in model_outputs:
        places: Floats = model_outputs["keypoints"].double().cpu().numpy()[indices, :, :2]
        keypoints = places + corner
    if "masks" in model_outputs:
        masks = model_outputs["masks"][:, 0]
        windows = tuple(
            _crop_mask_window(masks[number].float().cpu().numpy(), box - np.tile(corner, 2), corner)
            for number, box in zip(indices.tolist(), boxes, strict=True)
        )
    scores = model_outputs["scores"].double().cpu().numpy()[indices]
    return TorchvisionOutputs(
        boxes, scores, model_outputs["labels"].cpu().numpy()[indices] - 1, keypoints, windows
    )


def _crop_mask_window(
    probabilities: NDArray[np.float32], box: NDArray[np.float64], corner: NDArray[np.int64]
) -> MaskWindow:
    """Return the part of a map (h, w) that a box surrounds, with the map's corner in the picture."""
    low = np.floor(box[:2]).astype(int).clip(0)
    x1, y1 = np.maximum(np.ceil(box[2:]).astype(int), low + 1)
    return MaskWindow(corner + low, probabilities[low[1] : y1, low[0] : x1])


def _merge_tile_outputs(tile_outputs: Sequence[TorchvisionOutputs]) -> TorchvisionOutputs:
    """Return what all tiles of a picture say, surest first."""
    scores = np.concatenate([one.scores for one in tile_outputs])
    order = np.argsort(-scores, kind="stable")[:MAX_DETECTIONS]
    keypoints = [one.keypoints for one in tile_outputs if one.keypoints is not None]
    windows = [window for one in tile_outputs for window in one.mask_windows or ()]
    return TorchvisionOutputs(
        np.concatenate([one.boxes for one in tile_outputs])[order],
        scores[order],
        np.concatenate([one.categories for one in tile_outputs])[order],
        np.concatenate(keypoints)[order] if keypoints else None,
        None if tile_outputs[0].mask_windows is None else tuple(windows[i] for i in order),
    )


def _extract_regions(pixel_logits: NDArray[np.float32]) -> TorchvisionOutputs:
    """Return the regions of one category that hang together, each as sure as its pixels in the mean."""
    shares = torch.from_numpy(pixel_logits).softmax(0).numpy()
    shown = pixel_logits.argmax(axis=0)
    boxes, scores, categories, windows = [], [], [], []
    for number in range(1, len(pixel_logits)):
        count, regions, facts, _ = cv2.connectedComponentsWithStats(
            (shown == number).astype(np.uint8)
        )
        for region in range(1, count):
            x, y, width, height, _ = facts[region].tolist()
            if min(width, height) < MIN_OBJECT_SIDE_PX:
                continue
            where = np.s_[y : y + height, x : x + width]
            mine = regions[where] == region
            boxes.append((x, y, x + width, y + height))
            scores.append(float(shares[number][where][mine].mean()))
            categories.append(number - 1)
            windows.append(MaskWindow(np.array([x, y]), mine.astype(np.float32)))
    order = np.argsort(-np.array(scores), kind="stable")[:MAX_DETECTIONS]
    return TorchvisionOutputs(
        np.array(boxes, np.float64).reshape(-1, 4)[order],
        np.array(scores, np.float64)[order],
        np.array(categories, np.int64)[order],
        mask_windows=tuple(windows[i] for i in order),
        pixel_logits=pixel_logits,
    )


def _get_segmentation(crop: Crop) -> SegmentationLabels:
    assert crop.segmentation is not None  # of all that are learned with masks
    return crop.segmentation
