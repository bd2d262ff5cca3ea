"""Anchor-free detector network that predicts objects at the peaks of a heatmap."""

from __future__ import annotations

import math
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from sim2cam.models.network.architectures import (
    ARCHITECTURES,
    DilatedArchitecture,
    EfficientNetLiteArchitecture,
)
from sim2cam.models.network.backbones import DilatedBackbone, Neck, ResNetBackbone, build_conv_block
from sim2cam.models.network.efficientnet_lite import EfficientNetLiteBackbone
from sim2cam.models.network.roi_classifier import (
    RESIDUAL_CHANNELS,
    RoiNetwork,
    RoiOutputs,
    SurfaceMaps,
)

STRIDE_PX = 4
UNIT_PX = 16.0  # side at a log side of 0
MAX_LOG_SIDE = 4.0  # for sides from 0.3 to 870 px
RgbValues = tuple[float, float, float]
MEAN_RGB: RgbValues = (123.7, 116.3, 103.5)  # of 8-bit pixels
STD_RGB: RgbValues = (58.4, 57.1, 57.4)
LOG_SCALE_RANGE = (-6.0, 3.0)
BOX_CHANNELS = 5  # heatmap and four log sides
OBJECT_PRIOR = 0.01  # initial objectness of each cell


class DetectionMaps(NamedTuple):
    """Output maps of the detector network, in cells of ``STRIDE_PX`` pixels.

    Attributes:
        heatmap: logit of the centre of an object's visible part (n, h/4, w/4).
        log_sides: natural logarithm of the distances from the cell centre to the left, upper, right and lower
            edge of the object, in ``UNIT_PX`` (n, 4, h/4, w/4).
        class_logits: logits of the categories (n, c, h/4, w/4).
        keypoints: for each category and keypoint the offset x, y from the cell centre, the natural logarithm of
            its uncertainty, both in the unit of ``decode_points``, and the logit of its visibility
            (n, c, k, 4, h/4, w/4). Entries beyond a category's number of keypoints are untrained. None without
            keypoints.
        segmentation: logits of background and of each category (n, 1 + c, h/4, w/4); None without masks.
        centre_offsets: offset x, y from the cell centre to the centre of its object, in ``UNIT_PX``
            (n, 2, h/4, w/4); None without masks.
    """

    heatmap: Tensor
    log_sides: Tensor
    class_logits: Tensor
    keypoints: Tensor | None = None
    segmentation: Tensor | None = None
    centre_offsets: Tensor | None = None

    def select(self, images: slice) -> DetectionMaps:
        """Return the maps of a slice of the images."""
        selected = {
            name: values[images] for name, values in self._asdict().items() if values is not None
        }
        return self._replace(**selected)

    def crop(self, rows: slice, columns: slice) -> DetectionMaps:
        """Return the maps of some rows and columns of cells."""
        cropped = {n: v[..., rows, columns] for n, v in self._asdict().items() if v is not None}
        return self._replace(**cropped)


class DetectorNetwork(nn.Module):
    """Detector network for images whose sides are multiples of 32.

    Args:
        architecture: key of ``ARCHITECTURES``.
        generator: random generator of the initial weights, on the CPU.
        poses: predict surface points from RoI crops.
        n_keypoints: largest number of keypoints of a category; 0 for no keypoints.
        masks: predict segmentation and centre offsets (Cheng et al. 2020, "Panoptic-DeepLab").
        residual: add a small head, initially zero, that corrects boxes and categories.
        roi_classifier: predict categories from RoI crops.
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
        layout = ARCHITECTURES[architecture]
        head = layout.head_channels
        mean_rgb, std_rgb = get_normalization(architecture)
        self.register_buffer("mean", torch.tensor(mean_rgb).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(std_rgb).view(1, 3, 1, 1))
        self.backbone: ResNetBackbone | DilatedBackbone | EfficientNetLiteBackbone
        if isinstance(layout, DilatedArchitecture):
            self.backbone = DilatedBackbone(layout.channels, layout.dilations)
            self.upsampling = _build_upsampling(layout.channels[-1], head)
        elif isinstance(layout, EfficientNetLiteArchitecture):
            self.backbone = EfficientNetLiteBackbone(layout)
            self.neck = Neck(self.backbone.out_channels, layout.neck_channels, head, normalize=True)
        else:
            self.backbone = ResNetBackbone(layout.blocks)
            self.neck = Neck(self.backbone.out_channels, layout.neck_channels, head)
        self.box_head = _build_head(head, BOX_CHANNELS)
        self.class_head = _build_head(head, n_categories)
        shape = (n_categories, n_keypoints, 4)
        self.keypoint_head = (
            _build_head(head, math.prod(shape), nn.Unflatten(1, shape)) if n_keypoints else None
        )
        # background, categories and centre offset of each cell
        self.mask_head = _build_head(head, 1 + n_categories + 2) if masks else None
        self.residual_head = (
            _build_residual_head(head, BOX_CHANNELS + n_categories) if residual else None
        )
        self.roi_network = (
            RoiNetwork(
                _build_roi_backbone(architecture, poses=poses),
                n_categories,
                classify=roi_classifier,
                surfaces=poses,
                residual=residual,
            )
            if roi_classifier or poses
            else None
        )
        _initialize_weights(self, generator)

    def forward(self, rgb: Tensor) -> DetectionMaps:
        """Return the maps of RGB images (n, 3, h, w), 0 to 255, float or uint8."""
        return self.apply_heads(self.extract_features(rgb))

    def extract_features(self, rgb: Tensor) -> Tensor:
        """Return the features (n, c, h/4, w/4) of images for the heads; see ``forward``."""
        image = (rgb - self.mean) / self.std
        if isinstance(self.backbone, DilatedBackbone):
            return cast("Tensor", self.upsampling(self.backbone(image)[-1]))
        return cast("Tensor", self.neck(self.backbone(image)))

    def classify_crops(self, rgb: Tensor) -> RoiOutputs:
        """Return the outputs of the RoI network for RoI crops; see ``forward`` for the format."""
        assert self.roi_network is not None
        return cast("RoiOutputs", self.roi_network((rgb - self.mean) / self.std))

    def predict_surfaces(self, features: Tensor, categories: Tensor) -> SurfaceMaps:
        """Return the surface maps of RoI crops.

        Args:
            features: ``RoiOutputs.features``.
            categories: class index of each crop (n,).
        """
        assert self.roi_network is not None
        assert self.roi_network.surface_head is not None
        return cast("SurfaceMaps", self.roi_network.surface_head(features, categories))

    def apply_heads(self, features: Tensor, cells: tuple[int, int] | None = None) -> DetectionMaps:
        """Return the output maps for features.

        Args:
            cells: number of valid rows and columns, from the first ones. Categories and keypoints are then
                computed only at peaks in these cells, which is several times cheaper; other cells of these maps
                are undefined. None for all cells.
        """
        boxes = self._apply_box_head(features)
        corrections = None if self.residual_head is None else self.residual_head(features)
        if corrections is not None:
            boxes = boxes + corrections[:, :BOX_CHANNELS]
        rows, columns = cells or boxes.shape[2:]
        boxes = boxes[..., :rows, :columns]
        peaks = None if cells is None else is_peak(boxes[:, 0].float().sigmoid())
        classes = _apply_head(self.class_head, features, peaks)
        if corrections is not None:
            classes = classes + corrections[:, BOX_CHANNELS:, :rows, :columns]
        keypoints = _apply_keypoint_head(self.keypoint_head, features, peaks)
        log_sides = boxes[:, 1:].clamp(-MAX_LOG_SIDE, MAX_LOG_SIDE)
        maps = DetectionMaps(boxes[:, 0], log_sides, classes, keypoints)
        if self.mask_head is None:
            return maps
        outputs = self.mask_head(features)[..., :rows, :columns]
        return maps._replace(segmentation=outputs[:, :-2], centre_offsets=outputs[:, -2:])

    def _apply_box_head(self, features: Tensor) -> Tensor:
        hidden, outputs = self.box_head
        activations = hidden(features)
        # the resolution of bfloat16 is 3 px for a side of 400 px
        with torch.autocast(features.device.type, enabled=False):
            return cast("Tensor", outputs(activations.float()))


def get_normalization(architecture: str) -> tuple[RgbValues, RgbValues]:
    """Return mean and standard deviation by which 8-bit pixels are normalized.

    Args:
        architecture: name in ``ARCHITECTURES``, or of a torchvision model.
    """
    if isinstance(ARCHITECTURES.get(architecture), EfficientNetLiteArchitecture):
        return (127.0, 127.0, 127.0), (128.0, 128.0, 128.0)  # of the published training
    return MEAN_RGB, STD_RGB


def is_peak(heatmap: Tensor) -> Tensor:
    """Return a mask of the local maxima in 3x3 neighbourhoods, of a map (h, w) or maps (n, h, w)."""
    return functional.max_pool2d(heatmap[None], 3, stride=1, padding=1)[0] == heatmap


def decode_points(
    points: Tensor, log_sides: Tensor, centres: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Decode keypoint outputs: positions (k, p, 2), uncertainties (k, p) and their unit (k, 1), in pixels.

    The uncertainty is the scale of a Laplace distribution of each coordinate. The unit is the geometric mean of
    the distances to the four edges, about half the side of the box, so that outputs do not depend on the object's
    size in the image.

    Args:
        points: keypoint outputs of cells with one category each (k, p, 4), see ``DetectionMaps``.
        log_sides: log sides of the cells (k, 4).
        centres: centres of the cells (k, 2) in pixels.
    """
    unit_px = log_sides.mean(1, keepdim=True).exp() * UNIT_PX
    positions = centres[:, None] + points[..., :2] * unit_px[..., None]
    return positions, points[..., 2].clamp(*LOG_SCALE_RANGE).exp() * unit_px, unit_px


def _build_roi_backbone(
    architecture: str, *, poses: bool
) -> ResNetBackbone | EfficientNetLiteBackbone:
    layout = ARCHITECTURES[architecture]
    if isinstance(layout, EfficientNetLiteArchitecture):
        return EfficientNetLiteBackbone(layout, n_levels=3)
    return ResNetBackbone((1, 3, 1) if poses else (1, 1, 1))


def _build_upsampling(in_channels: int, out_channels: int) -> nn.Sequential:
    """Return the layers that upsample stride 8 to ``STRIDE_PX`` (Shi et al. 2016)."""
    return nn.Sequential(
        nn.Conv2d(in_channels, 4 * out_channels, 1, bias=False),
        nn.BatchNorm2d(4 * out_channels),
        nn.ReLU(inplace=True),
        nn.PixelShuffle(2),
    )


def _build_head(in_channels: int, out_channels: int, *layers: nn.Module) -> nn.Sequential:
    """Return a head of a 3x3 and a 1x1 convolution."""
    outputs = nn.Conv2d(in_channels, out_channels, 1)
    return nn.Sequential(build_conv_block(in_channels, in_channels), outputs, *layers)


def _build_residual_head(in_channels: int, out_channels: int) -> nn.Sequential:
    """Return the residual head; without batch norm, which is unreliable for few images."""
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
    # the resolution of bfloat16 is half a pixel at the edge of an object of 100 px
    with torch.autocast(features.device.type, enabled=False):
        return _apply_head(head, features.float(), peaks)


def _apply_head(head: nn.Sequential, features: Tensor, peaks: Tensor | None) -> Tensor:
    """Apply a head of a 3x3 and 1x1 convolutions, everywhere or only at peaks (0 elsewhere).

    Args:
        features: features (n, c, h, w).
        peaks: mask (n, rows, columns) of the first rows and columns; None for all cells.
    """
    if peaks is None:
        return cast("Tensor", head(features))
    image, row, column = peaks.nonzero(as_tuple=True)
    neighbourhoods = functional.pad(features, (1, 1, 1, 1)).unfold(2, 3, 1).unfold(3, 3, 1)
    patches = neighbourhoods.permute(0, 2, 3, 1, 4, 5)[image, row, column]  # (k, c, 3, 3)
    first, *remaining = head
    assert isinstance(first, nn.Sequential)
    convolution, *block_layers = first
    assert isinstance(convolution, nn.Conv2d)
    outputs = functional.conv2d(patches, convolution.weight, convolution.bias)
    for layer in (*block_layers, *remaining):
        outputs = layer(outputs)
    outputs = outputs[..., 0, 0]  # (k, ...)
    maps = outputs.new_zeros(*peaks.shape, *outputs.shape[1:])
    maps[image, row, column] = outputs
    return maps.movedim((1, 2), (-2, -1))


def list_residual_heads(detector: DetectorNetwork) -> list[nn.Sequential]:
    """Return the residual heads of a detector network; empty if it has none."""
    roi_head = None if detector.roi_network is None else detector.roi_network.residual_head
    return [head for head in (detector.residual_head, roi_head) if head is not None]


def _initialize_weights(detector: DetectorNetwork, generator: torch.Generator) -> None:
    for module in detector.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(
                module.weight,
                # torch counts the outputs of all groups; a depthwise convolution has as many as inputs
                mode="fan_out" if module.groups == 1 else "fan_in",
                nonlinearity="relu",
                generator=generator,
            )
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    optional_heads = (detector.keypoint_head, detector.mask_head)
    heads = (
        detector.box_head,
        detector.class_head,
        *(head for head in optional_heads if head is not None),
    )
    roi_network = detector.roi_network
    output_layers = [head[1] for head in heads]
    if roi_network is not None:
        output_layers += [] if roi_network.class_head is None else [roi_network.class_head]
    for outputs in output_layers:
        nn.init.normal_(cast("Tensor", outputs.weight), std=0.01, generator=generator)
        nn.init.zeros_(cast("Tensor", outputs.bias))
    if roi_network is not None and roi_network.surface_head is not None:
        nn.init.normal_(roi_network.surface_head.outputs.weight, std=0.01, generator=generator)
    for layer in detector.modules():
        if isinstance(layer, nn.Linear) and layer not in output_layers:
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu", generator=generator)
            nn.init.zeros_(layer.bias)
    heat_bias = detector.box_head[1].bias
    assert isinstance(heat_bias, Tensor)
    with torch.no_grad():
        heat_bias[0] = -math.log((1 - OBJECT_PRIOR) / OBJECT_PRIOR)
    for residual_head in list_residual_heads(detector):
        nn.init.zeros_(cast("Tensor", residual_head[2].weight))
        nn.init.zeros_(cast("Tensor", residual_head[2].bias))
