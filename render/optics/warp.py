"""Warp: undistorted views are drawn and moved, once, to where the lens has their pixels.

Where a lens squeezes several pixels of a view into one of the picture, colour is their mean, as on
a sensor. Labels are picked, and depth is that of the point at which the pixel's centre looks.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.render.gbuffer import GBuffer
from sim2cam.render.optics.views import Float32Array, Optics, ViewPatch
from sim2cam.render.rasterizer import PinholeView

LABEL_OVERSAMPLING = 2
"""Labels under a bending lens are drawn with this many times the pixels of colour, both ways."""

_MARGIN_PX = 2
_SAMPLE_SPACING_SLACK_PX = (
    0.05  # samples of colour may be this much farther apart than the pixels of the view
)
_MAX_SAMPLES = 16  # in a pixel, both ways; only next to its fold does a lens squeeze in more
_MAX_INVERSE_DEPTH_STEP = (
    0.25  # change of nearness from one label to the next; what is more is another surface
)
_BLOCK_PX = 32768  # pixels at a time: their intermediate values stay in the processor's cache
_REMAP_COLUMNS = 1024  # cv2 moves pictures of at most 32766 rows and columns


def warp_radiance(
    optics: Optics, render_view: Callable[[PinholeView], Float32Array]
) -> Float32Array:
    """Return the radiance (h, w, 3) of the picture, each pixel the mean of what it covers.

    Args:
        optics: of the camera.
        render_view: returns the radiance (h, w, 3) of an undistorted view.
    """
    if optics.pinhole is not None:
        return render_view(optics.pinhole)
    picture = np.zeros((optics.height * optics.width, 3), np.float32)
    for face in optics.patches:
        picture[face.pixels] = _resample_radiance(face, render_view)
    return picture.reshape(optics.height, optics.width, 3)


def warp_labels(optics: Optics, render_view: Callable[[PinholeView], GBuffer]) -> GBuffer:
    """Return the labels of the picture, all but depth from the nearest drawn point.

    Args:
        optics: of the camera; its lens says whether depth is along the optical axis or the ray.
        render_view: returns label channels of an undistorted view; with depth, the bodies too.
    """
    if optics.pinhole is not None:
        return render_view(optics.pinhole)
    parts = [_resample_labels(face, render_view) for face in optics.patches]
    return {
        channel: _assemble_image(optics, [part[channel] for part in parts]) for channel in parts[0]
    }


def _assemble_image(optics: Optics, parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Return the picture (h, w, ...) of the values (m, ...) of each face."""
    picture = np.zeros((optics.height * optics.width, *parts[0].shape[1:]), parts[0].dtype)
    for face, part in zip(optics.patches, parts, strict=True):
        picture[face.pixels] = part
    return picture.reshape(optics.height, optics.width, *parts[0].shape[1:])


def _resample_radiance(
    patch: ViewPatch, render_view: Callable[[PinholeView], Float32Array]
) -> Float32Array:
    """Return the radiance (m, 3) of a face's pixels.

    Each takes n x n interpolated samples, as many as keep them no farther apart than the pixels
    of the view; blocks of pixels take as many as the one among them that needs most.
    """
    across, down = (
        patch.step_right * patch.focal_px,
        patch.step_down * patch.focal_px,
    )  # in pixels of the view
    apart = np.sqrt(np.maximum((across * across).sum(axis=0), (down * down).sum(axis=0)))
    view, places = patch.make_view(1, _MARGIN_PX + float(apart.max()))
    drawn = np.ascontiguousarray(render_view(view))
    color = np.empty((len(apart), 3), np.float32)
    for start in range(0, len(apart), _BLOCK_PX):
        block = np.s_[start : start + _BLOCK_PX]
        count = min(max(1, math.ceil(apart[block].max() - _SAMPLE_SPACING_SLACK_PX)), _MAX_SAMPLES)
        color[block] = _supersample(
            drawn, places[:, block], across[:, block], down[:, block], count
        )
    return color


def _supersample(
    radiance: Float32Array,
    positions: Float32Array,
    step_right: Float32Array,
    step_down: Float32Array,
    count: int,
) -> Float32Array:
    """Return the mean (m, 3) of count x count samples in pixels around places (2, m) of a view."""
    rows = -(-positions.shape[1] // _REMAP_COLUMNS)
    total = np.zeros((rows, _REMAP_COLUMNS, 3), np.float32)
    inner = [(i + 0.5) / count - 0.5 for i in range(count)]
    for i, j in itertools.product(inner, inner):
        x, y = (
            np.resize(place, (rows, _REMAP_COLUMNS))
            for place in positions + i * step_right + j * step_down
        )
        total += cv2.remap(radiance, x, y, cv2.INTER_LINEAR)
    whole = total.reshape(-1, 3)[: positions.shape[1]] / (count * count)
    return np.asarray(whole, dtype=np.float32)


def _resample_labels(patch: ViewPatch, render_view: Callable[[PinholeView], GBuffer]) -> GBuffer:
    """Return the labels (m, ...) of a face's pixels."""
    view, places = patch.make_view(LABEL_OVERSAMPLING, _MARGIN_PX)
    drawn = render_view(view)
    flat = {channel: values.reshape(-1, *values.shape[2:]) for channel, values in drawn.items()}
    shapes = {channel: (places.shape[1], *values.shape[1:]) for channel, values in flat.items()}
    labels = {channel: np.empty(shape, drawn[channel].dtype) for channel, shape in shapes.items()}
    for start in range(0, places.shape[1], _BLOCK_PX):
        block = np.s_[start : start + _BLOCK_PX]
        nearest = np.rint(places[:, block])
        numbers = nearest[1].astype(np.intp) * view.width + nearest[0].astype(np.intp)
        for channel, values in flat.items():
            if channel == "depth_m":
                off = places[:, block] - nearest
                depth = _interpolate_depth(values, flat["bodies"], numbers, off, view.width)
                labels[channel][block] = depth * patch.depth_scale[block]
            else:
                labels[channel][block] = values[numbers]
    if "normals" in labels:
        labels["normals"] = labels["normals"] @ patch.to_camera.T.astype(np.float32)
    return labels


def _interpolate_depth(
    depth_m: Float32Array,
    body_ids: NDArray[np.uint32],
    indices: NDArray[np.intp],
    offsets: Float32Array,
    width: int,
) -> Float32Array:
    """Return depth (m,) a little off drawn points, on the plane that touches the surface there.

    Along a plane nearness, 1 / depth, changes evenly over the view.

    Args:
        depth_m: (n,) of the view, row by row, 0 where nothing is.
        body_ids: (n,) what is seen; a plane does not reach over to another body.
        indices: numbers (m,) of the drawn points.
        offsets: (2, m) how far off, right and down, in pixels of the view.
        width: of the view.
    """
    here, body = _invert_depth(depth_m.take(indices)), body_ids.take(indices)
    there = here.copy()
    for step, way in zip((1, width), offsets, strict=True):
        last, after = indices - step, indices + step
        before, behind = _invert_depth(depth_m.take(last)), _invert_depth(depth_m.take(after))
        alike = (body_ids.take(last) == body) & (body_ids.take(after) == body)
        there += _limit_slope(before, here, behind) * way * alike
    return _invert_depth(there * (here > 0))


def _invert_depth(depth_m: Float32Array) -> Float32Array:
    """Return 1 / depth, and depth of nearness; 0 of 0."""
    return np.divide(1, depth_m, out=np.zeros_like(depth_m), where=depth_m != 0)


def _limit_slope(
    previous: Float32Array, center: Float32Array, following: Float32Array
) -> Float32Array:
    """Return the gentler of the changes from before and to after; 0 at crests and steep steps.

    So it does not reach over the edge of a body.
    """
    rise, next_rise = center - previous, following - center
    gentler = np.minimum(np.abs(rise), np.abs(next_rise))
    is_smooth = (rise * next_rise > 0) & (gentler < _MAX_INVERSE_DEPTH_STEP * center)
    return np.asarray(np.copysign(gentler, rise) * is_smooth)
