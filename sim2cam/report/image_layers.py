"""Colour images of channels and of the right stereo camera, as layers of the dataset page."""

from __future__ import annotations

import colorsys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.data.channels import FLOW_VISIBLE, ChannelName, read_channel
from sim2cam.data.sample import Sample
from sim2cam.report.values import Rgb

Floats = NDArray[np.float64]
Channels = Mapping[ChannelName, NDArray[Any]]
LayerName = ChannelName | Literal["right"]

_COVISIBLE_COLOUR, _NOT_COVISIBLE_COLOUR = (225, 225, 225), (214, 96, 36)
_GOLDEN_ANGLE_DEG = 137.508
_COLOUR_COUNT = 256
_OCCLUDED_VALUE = 0.55
_SCALE_QUANTILES = (0.01, 0.99)  # robust to outliers


@dataclass(frozen=True)
class LayerImage:
    """Layer of a sample; black where undefined.

    Attributes:
        low, high: Ends of the colour scale as text; both empty without a scale, ``low`` empty for a
            scale from 0.
    """

    rgb: Rgb
    low: str = ""
    high: str = ""


@dataclass(frozen=True)
class Layer:
    """Definition of a layer."""

    title: str
    legend: str
    paint: Callable[[Channels, Sample], LayerImage]


def list_layers(sample: Sample) -> list[LayerName]:
    """List the layers of a sample in page order."""
    return [
        name for name in LAYERS if name in sample.channels or (name == "right" and sample.right_rgb)
    ]


def paint_layers(sample: Sample) -> dict[LayerName, LayerImage]:
    """Paint all layers of a sample.

    Raises:
        InputError: If a channel or image cannot be read.
    """
    channels = {name: read_channel(name, path) for name, path in sample.channels.items()}
    return {name: LAYERS[name].paint(channels, sample) for name in list_layers(sample)}


def get_instance_colour(number: int) -> tuple[int, int, int]:
    """Return the RGB colour of an instance, distinct from those of adjacent numbers."""
    hue = number * _GOLDEN_ANGLE_DEG % 360 / 360
    red, green, blue = colorsys.hls_to_rgb(hue, 0.6, 0.9)
    return round(255 * red), round(255 * green), round(255 * blue)


def _paint_right_view(_channels: Channels, sample: Sample) -> LayerImage:
    assert sample.right_rgb is not None
    return LayerImage(images.read_rgb(sample.right_rgb))


def _paint_channel(
    name: ChannelName, paint: Callable[[NDArray[Any]], LayerImage]
) -> Callable[[Channels, Sample], LayerImage]:
    """Return the painter of a layer that shows one channel."""
    return lambda channels, _sample: paint(channels[name])


def _paint_sensor_depth(channels: Channels, sample: Sample) -> LayerImage:
    depth_m = channels["sensor_depth"] * (sample.depth_unit_m or 0.0)
    return _paint_scalar(depth_m, "m", channels.get("depth"), is_larger_nearer=False)


def _paint_covisibility(channels: Channels, _sample: Sample) -> LayerImage:
    rgb = np.array([_NOT_COVISIBLE_COLOUR, _COVISIBLE_COLOUR], np.uint8)[
        np.minimum(channels["shared"], 1)
    ]
    if "disparity" in channels:
        rgb[channels["disparity"] == 0] = 0
    return LayerImage(rgb)


def _paint_raw(channels: Channels, sample: Sample) -> LayerImage:
    raw = channels["raw"].astype(np.float64)
    assert sample.raw_format is not None
    black, white = sample.raw_format.black_level, sample.raw_format.white_level
    level = np.clip((raw - black) / (white - black), 0, 1)
    rgb = np.zeros((*raw.shape, 3), np.uint8)
    for index, color in enumerate(sample.raw_format.pattern):
        pixels = slice(index // 2, None, 2), slice(index % 2, None, 2)
        rgb[(*pixels, "RGB".index(color))] = _to_uint8(np.sqrt(level[pixels]))
    return LayerImage(rgb)


def _paint_normals(channels: Channels, _sample: Sample) -> LayerImage:
    right_up_back = channels["normals"] * np.array([1, -1, -1], np.float32)
    is_known = channels["normals"].any(axis=-1, keepdims=True)
    return LayerImage(_to_uint8(np.where(is_known, (right_up_back + 1) / 2, 0)))


def _paint_flow(flow: NDArray[np.float32]) -> LayerImage:
    """Paint flow (H, W, 3): direction as hue, length as saturation, occlusion as darkness."""
    is_known = flow[..., 2] > 0
    lengths = np.linalg.norm(flow[..., :2], axis=-1)
    longest = float(np.quantile(lengths[is_known], _SCALE_QUANTILES[1])) if is_known.any() else 0.0
    directions = np.arctan2(flow[..., 1], flow[..., 0]) / (2 * np.pi) % 1
    value = np.where(flow[..., 2] == FLOW_VISIBLE, 1.0, _OCCLUDED_VALUE) * is_known
    hsv = [directions * 360, np.minimum(lengths / max(longest, 1e-9), 1), value]
    rgb = cv2.cvtColor(np.stack(hsv, axis=-1).astype(np.float32), cv2.COLOR_HSV2RGB)
    return LayerImage(_to_uint8(rgb), high=f"{longest:.1f} px")


def _paint_scalar(
    values: Floats, unit: str, reference: Floats | None = None, *, is_larger_nearer: bool
) -> LayerImage:
    """Paint values (H, W) on a colour scale; 0 is undefined, near is bright.

    Args:
        reference: Values that define the scale; None for the painted ones.
    """
    values = values.astype(np.float64)
    reference = values if reference is None else reference.astype(np.float64)
    is_known = values > 0
    if not (reference > 0).any():
        return LayerImage(np.zeros((*values.shape, 3), np.uint8))
    low, high = np.quantile(reference[reference > 0], _SCALE_QUANTILES)
    fraction = np.clip((values - low) / max(high - low, 1e-9), 0, 1)
    levels = _to_uint8(fraction if is_larger_nearer else 1 - fraction)
    colours = cv2.cvtColor(cv2.applyColorMap(levels, cv2.COLORMAP_VIRIDIS), cv2.COLOR_BGR2RGB)
    near, far = (high, low) if is_larger_nearer else (low, high)
    rgb = np.where(is_known[..., None], colours, 0).astype(np.uint8)
    return LayerImage(rgb, f"{far:.2f} {unit}", f"{near:.2f} {unit}")


def _paint_indices(indices: NDArray[np.uint16]) -> LayerImage:
    palette = np.zeros((_COLOUR_COUNT + 1, 3), np.uint8)
    palette[1:] = [get_instance_colour(number) for number in range(1, _COLOUR_COUNT + 1)]
    is_known = indices > 0
    return LayerImage(
        palette[np.where(is_known, (indices.astype(np.int64) - 1) % _COLOUR_COUNT + 1, 0)]
    )


def _to_uint8(values: NDArray[Any]) -> NDArray[np.uint8]:
    return np.asarray(np.round(np.clip(values, 0, 1) * 255), dtype=np.uint8)


_DEPTH_LEGEND = "near: yellow, far: violet"
_FLOW_LEGEND = "right: red, down: green, left: cyan, up: violet; saturation: length; darker: occluded in that frame"
LAYERS: dict[LayerName, Layer] = {
    "right": Layer("right image", "image of the right stereo camera", _paint_right_view),
    "depth": Layer(
        "depth",
        _DEPTH_LEGEND,
        _paint_channel("depth", partial(_paint_scalar, unit="m", is_larger_nearer=False)),
    ),
    "sensor_depth": Layer(
        "sensor depth", f"{_DEPTH_LEGEND}, no measurement: black", _paint_sensor_depth
    ),
    "disparity": Layer(
        "disparity",
        _DEPTH_LEGEND,
        _paint_channel("disparity", partial(_paint_scalar, unit="px", is_larger_nearer=True)),
    ),
    "shared": Layer(
        "co-visibility",
        "visible in both images: white, in the left only: orange",
        _paint_covisibility,
    ),
    "raw": Layer(
        "raw", "sensor values in the filter colour of each pixel, square root", _paint_raw
    ),
    "ids": Layer("instance ids", "one colour per object", _paint_channel("ids", _paint_indices)),
    "parts": Layer("parts", "one colour per part", _paint_channel("parts", _paint_indices)),
    "normals": Layer("normals", "right: red, up: green, towards the camera: blue", _paint_normals),
    "coordinates": Layer(
        "object coordinates",
        "x: red, y: green, z: blue",
        _paint_channel("coordinates", lambda m: LayerImage(_to_uint8(np.nan_to_num(m)))),
    ),
    "coverage": Layer(
        "coverage",
        "white: covered by one object for the whole exposure",
        _paint_channel(
            "coverage", lambda share: LayerImage(_to_uint8(share)[..., None].repeat(3, axis=-1))
        ),
    ),
    "flow_forward": Layer(
        "flow to the next frame", _FLOW_LEGEND, _paint_channel("flow_forward", _paint_flow)
    ),
    "flow_backward": Layer(
        "flow to the previous frame", _FLOW_LEGEND, _paint_channel("flow_backward", _paint_flow)
    ),
}
"""All layers in page order."""
