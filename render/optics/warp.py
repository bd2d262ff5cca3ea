"""Resampling of undistorted views to the image of a lens.

Radiance is averaged over the pixels of the view that an image pixel covers. Labels take the nearest
pixel; depth is interpolated on the surface at the pixel centre.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.render.gbuffer import GBuffer, PinholeView
from sim2cam.render.optics.views import Float32Array, Optics, ViewPatch

LABEL_OVERSAMPLING = 2
"""Resolution factor of label views over radiance views."""

_MARGIN_PX = 2
_SAMPLE_SPACING_SLACK_PX = (
    0.05  # tolerated excess of the sample spacing over the pixels of the view
)
_MAX_SAMPLES = 16  # per pixel side; more are needed only next to the fold of a lens
_MAX_INVERSE_DEPTH_STEP = (
    0.25  # relative change of inverse depth between label pixels; larger steps are edges
)
_BLOCK_PX = 32768  # pixels per block: intermediate arrays fit the processor cache
_REMAP_COLUMNS = 1024  # cv2.remap is limited to 32766 rows and columns


def warp_radiance(
    optics: Optics, render_view: Callable[[PinholeView], Float32Array]
) -> Float32Array:
    """Return the radiance (h, w, 3) of the image, averaged over each pixel.

    Args:
        optics: optics of the camera.
        render_view: renders the radiance (h, w, 3) of an undistorted view.
    """
    if optics.pinhole is not None:
        return render_view(optics.pinhole)
    image = np.zeros((optics.height * optics.width, 3), np.float32)
    for patch in optics.patches:
        image[patch.pixels] = _resample_radiance(patch, render_view)
    return image.reshape(optics.height, optics.width, 3)


def warp_labels(optics: Optics, render_view: Callable[[PinholeView], GBuffer]) -> GBuffer:
    """Return the label channels of the image; all but depth take the nearest pixel.

    Args:
        optics: optics of the camera; depth is along the axis or the ray, as the lens defines it.
        render_view: renders label channels of an undistorted view; depth needs ``bodies``.
    """
    if optics.pinhole is not None:
        return render_view(optics.pinhole)
    parts = [_resample_labels(patch, render_view) for patch in optics.patches]
    return {
        channel: _assemble_image(optics, [part[channel] for part in parts]) for channel in parts[0]
    }


def _assemble_image(optics: Optics, parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Return the image (h, w, ...) from the values (m, ...) of each patch."""
    image = np.zeros((optics.height * optics.width, *parts[0].shape[1:]), parts[0].dtype)
    for patch, values in zip(optics.patches, parts, strict=True):
        image[patch.pixels] = values
    return image.reshape(optics.height, optics.width, *parts[0].shape[1:])


def _resample_radiance(
    patch: ViewPatch, render_view: Callable[[PinholeView], Float32Array]
) -> Float32Array:
    """Return the radiance (m, 3) of the pixels of a patch.

    Each pixel averages n x n interpolated samples, no farther apart than the pixels of the view;
    n is the maximum over a block of pixels.
    """
    right, down = (
        patch.step_right * patch.focal_px,
        patch.step_down * patch.focal_px,
    )  # in pixels of the view
    spacing = np.sqrt(np.maximum((right * right).sum(axis=0), (down * down).sum(axis=0)))
    view, positions = patch.make_view(1, _MARGIN_PX + float(spacing.max()))
    radiance = np.ascontiguousarray(render_view(view))
    color = np.empty((len(spacing), 3), np.float32)
    for start in range(0, len(spacing), _BLOCK_PX):
        block = np.s_[start : start + _BLOCK_PX]
        count = min(
            max(1, math.ceil(spacing[block].max() - _SAMPLE_SPACING_SLACK_PX)), _MAX_SAMPLES
        )
        color[block] = _supersample(
            radiance, positions[:, block], right[:, block], down[:, block], count
        )
    return color


def _supersample(
    radiance: Float32Array,
    positions: Float32Array,
    step_right: Float32Array,
    step_down: Float32Array,
    count: int,
) -> Float32Array:
    """Return the mean (m, 3) of count x count samples in pixels at positions (2, m) of a view."""
    rows = -(-positions.shape[1] // _REMAP_COLUMNS)
    total = np.zeros((rows, _REMAP_COLUMNS, 3), np.float32)
    offsets = [(i + 0.5) / count - 0.5 for i in range(count)]
    for i, j in itertools.product(offsets, offsets):
        x, y = (
            np.resize(coordinates, (rows, _REMAP_COLUMNS))
            for coordinates in positions + i * step_right + j * step_down
        )
        total += cv2.remap(radiance, x, y, cv2.INTER_LINEAR)
    mean = total.reshape(-1, 3)[: positions.shape[1]] / (count * count)
    return np.asarray(mean, dtype=np.float32)


def _resample_labels(patch: ViewPatch, render_view: Callable[[PinholeView], GBuffer]) -> GBuffer:
    """Return the label channels (m, ...) of the pixels of a patch."""
    view, positions = patch.make_view(LABEL_OVERSAMPLING, _MARGIN_PX)
    channels = render_view(view)
    flat = {channel: values.reshape(-1, *values.shape[2:]) for channel, values in channels.items()}
    shapes = {channel: (positions.shape[1], *values.shape[1:]) for channel, values in flat.items()}
    labels = {
        channel: np.empty(shape, channels[channel].dtype) for channel, shape in shapes.items()
    }
    for start in range(0, positions.shape[1], _BLOCK_PX):
        block = np.s_[start : start + _BLOCK_PX]
        nearest = np.rint(positions[:, block])
        indices = nearest[1].astype(np.intp) * view.width + nearest[0].astype(np.intp)
        for channel, values in flat.items():
            if channel == "depth_m":
                offsets = positions[:, block] - nearest
                depth = _interpolate_depth(values, flat["bodies"], indices, offsets, view.width)
                labels[channel][block] = depth * patch.depth_scale[block]
            else:
                labels[channel][block] = values[indices]
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
    """Extrapolate depth (m,) from pixels of the view along the tangent plane of the surface.

    On a plane, 1 / depth is linear in the pixel coordinates.

    Args:
        depth_m: (n,) depth of the view, row by row, 0 for the background.
        body_ids: (n,) bodies; planes end at the edge of a body.
        indices: flat indices (m,) of the pixels.
        offsets: (2, m) offsets to the right and down, in pixels of the view.
        width: width of the view.
    """
    center, body = _invert_depth(depth_m.take(indices)), body_ids.take(indices)
    inverse_depth = center.copy()
    for step, offset in zip((1, width), offsets, strict=True):
        previous_indices, next_indices = indices - step, indices + step
        previous, following = (
            _invert_depth(depth_m.take(previous_indices)),
            _invert_depth(depth_m.take(next_indices)),
        )
        is_same_body = (body_ids.take(previous_indices) == body) & (
            body_ids.take(next_indices) == body
        )
        inverse_depth += _limit_slope(previous, center, following) * offset * is_same_body
    return _invert_depth(inverse_depth * (center > 0))


def _invert_depth(depth_m: Float32Array) -> Float32Array:
    """Return 1 / depth; 0 for 0."""
    return np.divide(1, depth_m, out=np.zeros_like(depth_m), where=depth_m != 0)


def _limit_slope(
    previous: Float32Array, center: Float32Array, following: Float32Array
) -> Float32Array:
    """Return the smaller of backward and forward difference; 0 at extrema and steep steps.

    The smaller difference does not cross the edge of a body.
    """
    rise, next_rise = center - previous, following - center
    smaller = np.minimum(np.abs(rise), np.abs(next_rise))
    is_smooth = (rise * next_rise > 0) & (smaller < _MAX_INVERSE_DEPTH_STEP * center)
    return np.asarray(np.copysign(smaller, rise) * is_smooth)
