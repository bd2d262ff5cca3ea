"""The detector: what lies where, from the peaks of a heat map, without anchors."""

from __future__ import annotations

import math
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from sim2cam.models.network.backbones import DilatedBackbone, Neck, ResNetBackbone, build_conv_block
from sim2cam.models.network.roi_classifier import (
    RESIDUAL_CHANNELS,
    RoiNetwork,
    RoiOutputs,
    SurfaceMaps,
)
from sim2cam.models.training.config import ARCHITECTURES, DilatedArchitecture

STRIDE_PX = 4
UNIT_PX = 16.0  # a side of exp(0) units
MAX_LOG_SIDE = 4.0  # sides from 0.3 to 870 px
MEAN_RGB = (123.7, 116.3, 103.5)  # of 8-bit values
STD_RGB = (58.4, 57.1, 57.4)
LOG_SCALE_RANGE = (-6.0, 3.0)
BOX_CHANNELS = 5  # heat and the logarithms of four sides
OBJECT_PRIOR = 0.01  # probability of an object's centre that an untrained detector gives every cell


class DetectionMaps(NamedTuple):
    """What the detector says of every cell of ``STRIDE_PX`` pixels.

    Attributes:
        heatmap: logit of the middle of what is seen of an object being here (n, h/4, w/4).
        log_sides: natural logarithm of the distances in ``UNIT_PX`` from the cell's centre to the
            left, upper, right and lower edge of the object (n, 4, h/4, w/4).
        class_logits: logits of the categories (n, c, h/4, w/4).
        keypoints: for each category, where its named points are from the cell's centre, x and y, and the
            natural logarithm of how far off that is, in the unit of ``decode_points``, and the logit of each
            being seen (n, c, k, 4, h/4, w/4), where a category that has fewer is never taught the last; None
            without any.
        segmentation: logits of the cell showing nothing that is labelled, then each category (n, 1 + c, h/4, w/4);
            None without masks.
        centre_offsets: where the centre of the object is that it shows, x and y from the cell's centre in ``UNIT_PX``
            (n, 2, h/4, w/4); None without masks.
    """

    heatmap: Tensor
    log_sides: Tensor
    class_logits: Tensor
    keypoints: Tensor | None = None
    segmentation: Tensor | None = None
    centre_offsets: Tensor | None = None

    def select(self, images: slice) -> DetectionMaps:
        """Return the maps of some of the images."""
        cut = {name: each[images] for name, each in self._asdict().items() if each is not None}
        return self._replace(**cut)


class DetectorNetwork(nn.Module):
    """Maps of a batch of images, of any size that 16 divides.

    Args:
        architecture: a key of ``ARCHITECTURES``.
        n_categories: how many categories it tells apart.
        generator: source of the initial weights, on the CPU.
        poses: whether the points of surfaces are read from close-ups, which ``classify_crops`` does.
        n_keypoints: how many named points a category has at most; 0 finds none.
        masks: whether it says what every cell shows, and where the centre of that is (Cheng et al. 2020,
            "Panoptic-DeepLab").
        residual: whether a small head corrects boxes and categories that the others say; it says nothing
            at first.
        roi_classifier: whether categories are read from close-ups too.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        architecture: str,
        n_categories: int,
        generator: torch.Generator,
        *,
        poses: bool = False,
        n_keypoints: int = 0,
        masks: bool = False,
        residual: bool = False,
        roi_classifier: bool = False,
    ) -> None:
        super().__init__()
        numbers = ARCHITECTURES[architecture]
        head = numbers.head_channels
        self.register_buffer("mean", torch.tensor(MEAN_RGB).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(STD_RGB).view(1, 3, 1, 1))
        self.backbone: ResNetBackbone | DilatedBackbone
        if isinstance(numbers, DilatedArchitecture):
            self.backbone = DilatedBackbone(numbers.channels, numbers.dilations)
            self.upsampling = _build_upsampling(numbers.channels[-1], head)
        else:
            self.backbone = ResNetBackbone(numbers.blocks)
            self.neck = Neck(numbers.neck_channels, head)
        self.box_head = nn.Sequential(
            build_conv_block(head, head), nn.Conv2d(head, BOX_CHANNELS, 1)
        )
        self.class_head = nn.Sequential(
            build_conv_block(head, head), nn.Conv2d(head, n_categories, 1)
        )
        self.keypoint_head = (
            _build_keypoint_head(head, (n_categories, n_keypoints, 4)) if n_keypoints else None
        )
        self.mask_head = _build_mask_head(head, n_categories) if masks else None
        self.residual_head = (
            _build_residual_head(head, BOX_CHANNELS + n_categories) if residual else None
        )
        self.roi_network = (
            RoiNetwork(n_categories, classify=roi_classifier, surfaces=poses, residual=residual)
            if roi_classifier or poses
            else None
        )
        _initialize_weights(self, generator)

    def forward(self, rgb: Tensor) -> DetectionMaps:
        """Return the maps of images (n, 3, h, w), RGB, 0 to 255, in floats or bytes."""
        return self.apply_heads(self.extract_features(rgb))

    def extract_features(self, rgb: Tensor) -> Tensor:
        """Return what the heads read (n, c, h/4, w/4) of images as ``forward`` takes them."""
        image = (rgb - self.mean) / self.std
        if isinstance(self.backbone, DilatedBackbone):
            return cast("Tensor", self.upsampling(self.backbone(image)[-1]))
        return cast("Tensor", self.neck(self.backbone(image)))

    def classify_crops(self, rgb: Tensor) -> RoiOutputs:
        """Return what close-ups show, which are as ``forward`` takes images."""
        assert self.roi_network is not None
        return cast("RoiOutputs", self.roi_network((rgb - self.mean) / self.std))

    def predict_surfaces(self, features: Tensor, categories: Tensor) -> SurfaceMaps:
        """Return what close-ups show of the surfaces of objects.

        Args:
            features: ``Reading.features``.
            categories: class index of each close-up (n,).
        """
        assert self.roi_network is not None
        assert self.roi_network.surface_head is not None
        return cast("SurfaceMaps", self.roi_network.surface_head(features, categories))

    def apply_heads(self, features: Tensor, cells: tuple[int, int] | None = None) -> DetectionMaps:
        """Return the maps that the heads make of ``features``.

        Args:
            features: of images.
            cells: rows and columns that count, the first ones. What categories and keypoints
                are is then said at the peaks among them alone, which is several times cheaper and all that
                is found; elsewhere their maps hold nothing of use. When None, of all cells, everywhere.
        """
        where = self._apply_box_head(features)
        more = None if self.residual_head is None else self.residual_head(features)
        if more is not None:
            where = where + more[:, :BOX_CHANNELS]
        rows, columns = cells or where.shape[2:]
        where = where[..., :rows, :columns]
        peaks = None if cells is None else is_peak(where[:, 0].float().sigmoid())
        classes = _apply_head(self.class_head, features, peaks)
        if more is not None:
            classes = classes + more[:, BOX_CHANNELS:, :rows, :columns]
        keypoints = _apply_keypoint_head(self.keypoint_head, features, peaks)
        log_sides = where[:, 1:].clamp(-MAX_LOG_SIDE, MAX_LOG_SIDE)
        found = DetectionMaps(where[:, 0], log_sides, classes, keypoints)
        if self.mask_head is None:
            return found
        shown = self.mask_head(features)[..., :rows, :columns]
        return found._replace(segmentation=shown[:, :-2], centre_offsets=shown[:, -2:])

    def _apply_box_head(self, features: Tensor) -> Tensor:
        hidden, outputs = self.box_head
        read = hidden(features)
        # bfloat16 has steps of 3 px at the side of an object of 400
        with torch.autocast(features.device.type, enabled=False):
            return cast("Tensor", outputs(read.float()))


def is_peak(heatmap: Tensor) -> Tensor:
    """Return where no neighbour of a cell is hotter, in a map (h, w) or in several (n, h, w)."""
    return functional.max_pool2d(heatmap[None], 3, stride=1, padding=1)[0] == heatmap


def decode_points(
    points: Tensor, log_sides: Tensor, centres: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return places of points (k, p, 2), how far off they are (k, p), and the unit of both (k, 1).

    All are in pixels. How far off is the scale of a Laplace distribution of either coordinate. The unit
    is the geometric mean of the distances to the four edges, about half a side of the box, so that an
    object has the same numbers near and far.

    Args:
        points: what the detector says of keypoints in some cells of one category each (k, p, 4), as in
            ``Maps``.
        log_sides: what it says there (k, 4).
        centres: of the cells (k, 2), pixels.
    """
    unit_px = log_sides.mean(1, keepdim=True).exp() * UNIT_PX
    places = centres[:, None] + points[..., :2] * unit_px[..., None]
    return places, points[..., 2].clamp(*LOG_SCALE_RANGE).exp() * unit_px, unit_px


def _build_upsampling(in_channels: int, out_channels: int) -> nn.Sequential:
    """Return the layers by which a cell of 8 pixels speaks for the four of ``STRIDE_PX`` in it (Shi et al.
    2016).
    """
    return nn.Sequential(
        nn.Conv2d(in_channels, 4 * out_channels, 1, bias=False),
        nn.BatchNorm2d(4 * out_channels),
        nn.ReLU(inplace=True),
        nn.PixelShuffle(2),
    )


def _build_keypoint_head(in_channels: int, shape: tuple[int, int, int]) -> nn.Sequential:
    """Return the layers that say numbers of points of categories in every cell."""
    outputs = nn.Conv2d(in_channels, math.prod(shape), 1)
    return nn.Sequential(
        build_conv_block(in_channels, in_channels), outputs, nn.Unflatten(1, shape)
    )


def _build_mask_head(in_channels: int, n_categories: int) -> nn.Sequential:
    """Return the layers that say what every cell shows: nothing or a category, and two of a vote."""
    return nn.Sequential(
        build_conv_block(in_channels, in_channels), nn.Conv2d(in_channels, 1 + n_categories + 2, 1)
    )


def _build_residual_head(in_channels: int, out_channels: int) -> nn.Sequential:
    """Return the layers that correct what others say; without batch normalization, for few pictures."""
    return nn.Sequential(
        nn.Conv2d(in_channels, RESIDUAL_CHANNELS, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(RESIDUAL_CHANNELS, out_channels, 1),
    )


def _apply_keypoint_head(
    head: nn.Sequential | None, features: Tensor, peaks: Tensor | None
) -> Tensor | None:
    if head is None:
        return None
    # bfloat16 has steps of half a pixel at the edge of an object of 100
    with torch.autocast(features.device.type, enabled=False):
        return _apply_head(head, features.float(), peaks)


def _apply_head(head: nn.Sequential, features: Tensor, peaks: Tensor | None) -> Tensor:
    """Return what a head of a 3x3 convolution and more of 1x1 says: everywhere, or at peaks and 0 elsewhere.

    Args:
        head: the layers.
        features: that it reads (n, c, h, w).
        peaks: cells (n, rows, columns), of the first rows and columns; None for all.
    """
    if peaks is None:
        return cast("Tensor", head(features))
    image, row, column = peaks.nonzero(as_tuple=True)
    around = functional.pad(features, (1, 1, 1, 1)).unfold(2, 3, 1).unfold(3, 3, 1)
    patches = around.permute(0, 2, 3, 1, 4, 5)[image, row, column]  # (k, c, 3, 3)
    first, *others = head
    assert isinstance(first, nn.Sequential)
    kernel, *after = first
    assert isinstance(kernel, nn.Conv2d)
    said = functional.conv2d(patches, kernel.weight, kernel.bias)
    for layer in (*after, *others):
        said = layer(said)
    said = said[..., 0, 0]  # (k, ...)
    maps = said.new_zeros(*peaks.shape, *said.shape[1:])
    maps[image, row, column] = said
    return maps.movedim((1, 2), (-2, -1))


def list_residual_heads(detector: DetectorNetwork) -> list[nn.Sequential]:
    """Return the small heads of a detector that correct what others say; none where it has none."""
    roi_head = None if detector.roi_network is None else detector.roi_network.residual_head
    return [head for head in (detector.residual_head, roi_head) if head is not None]


def _initialize_weights(detector: DetectorNetwork, generator: torch.Generator) -> None:
    for module in detector.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(
                module.weight, mode="fan_out", nonlinearity="relu", generator=generator
            )
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    later = (detector.keypoint_head, detector.mask_head)
    heads = (detector.box_head, detector.class_head, *(head for head in later if head is not None))
    roi_network = detector.roi_network
    last = [head[1] for head in heads]
    if roi_network is not None:
        last += [] if roi_network.class_head is None else [roi_network.class_head]
    for outputs in last:
        nn.init.normal_(cast("Tensor", outputs.weight), std=0.01, generator=generator)
        nn.init.zeros_(cast("Tensor", outputs.bias))
    if roi_network is not None and roi_network.surface_head is not None:
        nn.init.normal_(roi_network.surface_head.outputs.weight, std=0.01, generator=generator)
    for layer in detector.modules():
        if isinstance(layer, nn.Linear) and layer not in last:
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu", generator=generator)
            nn.init.zeros_(layer.bias)
    heat_bias = detector.box_head[1].bias
    assert isinstance(heat_bias, Tensor)
    with torch.no_grad():
        heat_bias[0] = -math.log((1 - OBJECT_PRIOR) / OBJECT_PRIOR)
    for corrects in list_residual_heads(detector):
        nn.init.zeros_(cast("Tensor", corrects[2].weight))
        nn.init.zeros_(cast("Tensor", corrects[2].bias))
