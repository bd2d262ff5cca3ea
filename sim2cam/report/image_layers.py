"""Layers of the page: the right eye's picture, and channels in colours that tell values apart."""

from __future__ import annotations

import colorsys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.data.channels import FLOW_SEEN, ChannelName, read
from sim2cam.data.sample import Sample
from sim2cam.report.values import Rgb

Floats = NDArray[np.float64]
Channels = Mapping[ChannelName, NDArray[Any]]
LayerName = ChannelName | Literal["right"]

_SHARED, _NOT_SHARED = (225, 225, 225), (214, 96, 36)
_GOLDEN_ANGLE_DEG = 137.508
_COLOURS = 256
_HIDDEN_VALUE = 0.55
_RANGE = (0.01, 0.99)  # quantiles: a few stray values do not take the colours of all others


@dataclass(frozen=True)
class Painted:
    """A layer of one sample; black where nothing is.

    Attributes:
        rgb: (h, w, 3).
        low, high: the values at both ends of the scale, as text; empty where there is no scale, and
            ``low`` alone where it begins at 0.
    """

    rgb: Rgb
    low: str = ""
    high: str = ""


@dataclass(frozen=True)
class Layer:
    """How something of a sample is shown.

    Attributes:
        title: its name on the page.
        legend: what its colours mean.
        paint: from the channels of a sample to the picture.
    """

    title: str
    legend: str
    paint: Callable[[Channels, Sample], Painted]


def layers_of(sample: Sample) -> list[LayerName]:
    """Returns which layers a sample has, in the order of the page."""
    return [
        name for name in LAYERS if name in sample.channels or (name == "right" and sample.right)
    ]


def paint_layers(sample: Sample) -> dict[LayerName, Painted]:
    """Returns the layers that a sample has.

    Raises:
        InputError: a channel or picture cannot be read.
    """
    channels = {name: read(name, path) for name, path in sample.channels.items()}
    return {name: LAYERS[name].paint(channels, sample) for name in layers_of(sample)}


def instance_colour(number: int) -> tuple[int, int, int]:
    """Returns a colour for an instance, far from those of the numbers next to it."""
    hue = number * _GOLDEN_ANGLE_DEG % 360 / 360
    red, green, blue = colorsys.hls_to_rgb(hue, 0.6, 0.9)
    return round(255 * red), round(255 * green), round(255 * blue)


def _right(_channels: Channels, sample: Sample) -> Painted:
    assert sample.right is not None
    return Painted(images.read_rgb(sample.right))


def _depth(channels: Channels, _sample: Sample) -> Painted:
    depth = channels["depth"].astype(np.float64)
    return _scaled(depth, depth, "m", is_near=False)


def _sensor_depth(channels: Channels, sample: Sample) -> Painted:
    read_m = channels["sensor_depth"] * (sample.depth_unit_m or 0.0)
    like = channels["depth"].astype(np.float64) if "depth" in channels else read_m
    return _scaled(read_m, like, "m", is_near=False)


def _disparity(channels: Channels, _sample: Sample) -> Painted:
    disparity = channels["disparity"].astype(np.float64)
    return _scaled(disparity, disparity, "px", is_near=True)


def _shared(channels: Channels, _sample: Sample) -> Painted:
    rgb = np.array([_NOT_SHARED, _SHARED], np.uint8)[np.minimum(channels["shared"], 1)]
    if "disparity" in channels:
        rgb[channels["disparity"] == 0] = 0
    return Painted(rgb)


def _raw(channels: Channels, sample: Sample) -> Painted:
    """Returns each pixel in the colour of its filter."""
    raw = channels["raw"].astype(np.float64)
    assert sample.raw is not None
    share = np.clip((raw - sample.raw.black) / (sample.raw.white - sample.raw.black), 0, 1)
    rgb = np.zeros((*raw.shape, 3), np.uint8)
    for place, color in enumerate(sample.raw.pattern):
        at = slice(place // 2, None, 2), slice(place % 2, None, 2)
        rgb[(*at, "RGB".index(color))] = _bytes(np.sqrt(share[at]))
    return Painted(rgb)


def _ids(channels: Channels, _sample: Sample) -> Painted:
    return _numbered(channels["ids"])


def _parts(channels: Channels, _sample: Sample) -> Painted:
    return _numbered(channels["parts"])


def _normals(channels: Channels, _sample: Sample) -> Painted:
    towards = channels["normals"] * np.array(
        [1, -1, -1], np.float32
    )  # right, up and towards the viewer
    known = channels["normals"].any(axis=-1, keepdims=True)
    return Painted(_bytes(np.where(known, (towards + 1) / 2, 0)))


def _coordinates(channels: Channels, _sample: Sample) -> Painted:
    return Painted(_bytes(np.nan_to_num(channels["coordinates"])))


def _coverage(channels: Channels, _sample: Sample) -> Painted:
    return Painted(_bytes(channels["coverage"])[..., None].repeat(3, axis=-1))


def _flow_forward(channels: Channels, _sample: Sample) -> Painted:
    return _wheel(channels["flow_forward"])


def _flow_backward(channels: Channels, _sample: Sample) -> Painted:
    return _wheel(channels["flow_backward"])


def _wheel(flow: NDArray[np.float32]) -> Painted:
    """Returns a flow (h, w, 3): direction as hue, length as saturation; darker where it is hidden."""
    known = flow[..., 2] > 0
    lengths = np.linalg.norm(flow[..., :2], axis=-1)
    longest = float(np.quantile(lengths[known], _RANGE[1])) if known.any() else 0.0
    turns = np.arctan2(flow[..., 1], flow[..., 0]) / (2 * np.pi) % 1
    value = np.where(flow[..., 2] == FLOW_SEEN, 1.0, _HIDDEN_VALUE) * known
    hsv = [turns * 360, np.minimum(lengths / max(longest, 1e-9), 1), value]
    rgb = cv2.cvtColor(np.stack(hsv, axis=-1).astype(np.float32), cv2.COLOR_HSV2RGB)
    return Painted(_bytes(rgb), high=f"{longest:.1f} px")


def _scaled(values: Floats, like: Floats, unit: str, *, is_near: bool) -> Painted:
    """Returns values (h, w) on the scale of those of another picture; 0 is nothing.

    Args:
        values: what is shown.
        like: what its scale is made for.
        unit: of both.
        is_near: whether large values are near; near is bright.
    """
    known = values > 0
    if not (like > 0).any():
        return Painted(np.zeros((*values.shape, 3), np.uint8))
    low, high = np.quantile(like[like > 0], _RANGE)
    share = np.clip((values - low) / max(high - low, 1e-9), 0, 1)
    levels = _bytes(share if is_near else 1 - share)
    coloured = cv2.cvtColor(cv2.applyColorMap(levels, cv2.COLORMAP_VIRIDIS), cv2.COLOR_BGR2RGB)
    near, far = (high, low) if is_near else (low, high)
    shown = np.where(known[..., None], coloured, 0).astype(np.uint8)
    return Painted(shown, f"{far:.2f} {unit}", f"{near:.2f} {unit}")


def _numbered(numbers: NDArray[np.uint16]) -> Painted:
    palette = np.zeros((_COLOURS + 1, 3), np.uint8)
    palette[1:] = [instance_colour(number) for number in range(1, _COLOURS + 1)]
    known = numbers > 0
    return Painted(palette[np.where(known, (numbers.astype(np.int64) - 1) % _COLOURS + 1, 0)])


def _bytes(shares: NDArray[Any]) -> NDArray[np.uint8]:
    return np.asarray(np.round(np.clip(shares, 0, 1) * 255), dtype=np.uint8)


_NEAR = "near yellow, far violet"
_WHEEL = "right red, down green, left cyan, up violet, the longer the stronger; darker where hidden there"
LAYERS: dict[LayerName, Layer] = {
    "right": Layer("right eye", "its picture", _right),
    "depth": Layer("depth", _NEAR, _depth),
    "sensor_depth": Layer("depth camera", f"{_NEAR}, no reading black", _sensor_depth),
    "disparity": Layer("disparity", _NEAR, _disparity),
    "shared": Layer("seen by both eyes", "seen by both white, by the left alone orange", _shared),
    "raw": Layer("raw", "what each pixel counted, in the colour of its filter; square root", _raw),
    "ids": Layer("ids", "a colour for each object", _ids),
    "parts": Layer("parts", "a colour for each part", _parts),
    "normals": Layer("normals", "right red, up green, towards the viewer blue", _normals),
    "coordinates": Layer("object coordinates", "x red, y green, z blue", _coordinates),
    "coverage": Layer("coverage", "white where one body was seen throughout", _coverage),
    "flow_forward": Layer("flow to the next", _WHEEL, _flow_forward),
    "flow_backward": Layer("flow to the previous", _WHEEL, _flow_backward),
}
"""Every layer, in the order of the page."""
