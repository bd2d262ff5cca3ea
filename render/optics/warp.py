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
from sim2cam.render.optics.views import Face, Optics, Singles
from sim2cam.render.rasterizer import PinholeView

LABEL_DENSITY = 2
"""Labels under a bending lens are drawn with this many times the pixels of colour, both ways."""

_MARGIN_PX = 2
_SPARE_PX = 0.05  # samples of colour may be this much farther apart than the pixels of the view
_MOST_SAMPLES = 16  # in a pixel, both ways; only next to its fold does a lens squeeze in more
_STEEPEST = 0.25  # change of nearness from one label to the next; what is more is another surface
_BLOCK = 32768  # pixels at a time: their intermediate values stay in the processor's cache
_ROW = 1024  # cv2 moves pictures of at most 32766 rows and columns


def color_through(optics: Optics, draw: Callable[[PinholeView], Singles]) -> Singles:
    """Returns the radiance (h, w, 3) of the picture, each pixel the mean of what it covers.

    Args:
        optics: of the camera.
        draw: returns the radiance (h, w, 3) of an undistorted view.
    """
    if optics.pinhole is not None:
        return draw(optics.pinhole)
    picture = np.zeros((optics.height * optics.width, 3), np.float32)
    for face in optics.faces:
        picture[face.pixels] = _color(face, draw)
    return picture.reshape(optics.height, optics.width, 3)


def labels_through(optics: Optics, draw: Callable[[PinholeView], GBuffer]) -> GBuffer:
    """Returns the labels of the picture, all but depth from the nearest drawn point.

    Args:
        optics: of the camera; its lens says whether depth is along the optical axis or the ray.
        draw: returns label channels of an undistorted view; with depth, the bodies too.
    """
    if optics.pinhole is not None:
        return draw(optics.pinhole)
    parts = [_labels(face, draw) for face in optics.faces]
    return {channel: _joined(optics, [part[channel] for part in parts]) for channel in parts[0]}


def _joined(optics: Optics, parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Returns the picture (h, w, ...) of the values (m, ...) of each face."""
    picture = np.zeros((optics.height * optics.width, *parts[0].shape[1:]), parts[0].dtype)
    for face, part in zip(optics.faces, parts, strict=True):
        picture[face.pixels] = part
    return picture.reshape(optics.height, optics.width, *parts[0].shape[1:])


def _color(face: Face, draw: Callable[[PinholeView], Singles]) -> Singles:
    """Returns the radiance (m, 3) of a face's pixels.

    Each takes n x n interpolated samples, as many as keep them no farther apart than the pixels
    of the view; blocks of pixels take as many as the one among them that needs most.
    """
    across, down = face.across * face.focal_px, face.down * face.focal_px  # in pixels of the view
    apart = np.sqrt(np.maximum((across * across).sum(axis=0), (down * down).sum(axis=0)))
    view, places = face.view(1, _MARGIN_PX + float(apart.max()))
    drawn = np.ascontiguousarray(draw(view))
    color = np.empty((len(apart), 3), np.float32)
    for start in range(0, len(apart), _BLOCK):
        block = np.s_[start : start + _BLOCK]
        count = min(max(1, math.ceil(apart[block].max() - _SPARE_PX)), _MOST_SAMPLES)
        color[block] = _mean(drawn, places[:, block], across[:, block], down[:, block], count)
    return color


def _mean(drawn: Singles, places: Singles, across: Singles, down: Singles, count: int) -> Singles:
    """Returns the mean (m, 3) of count x count samples in pixels around places (2, m) of a view."""
    rows = -(-places.shape[1] // _ROW)
    total = np.zeros((rows, _ROW, 3), np.float32)
    inner = [(i + 0.5) / count - 0.5 for i in range(count)]
    for i, j in itertools.product(inner, inner):
        x, y = (np.resize(place, (rows, _ROW)) for place in places + i * across + j * down)
        total += cv2.remap(drawn, x, y, cv2.INTER_LINEAR)
    whole = total.reshape(-1, 3)[: places.shape[1]] / (count * count)
    return np.asarray(whole, dtype=np.float32)


def _labels(face: Face, draw: Callable[[PinholeView], GBuffer]) -> GBuffer:
    """Returns the labels (m, ...) of a face's pixels."""
    view, places = face.view(LABEL_DENSITY, _MARGIN_PX)
    drawn = draw(view)
    flat = {channel: values.reshape(-1, *values.shape[2:]) for channel, values in drawn.items()}
    shapes = {channel: (places.shape[1], *values.shape[1:]) for channel, values in flat.items()}
    labels = {channel: np.empty(shape, drawn[channel].dtype) for channel, shape in shapes.items()}
    for start in range(0, places.shape[1], _BLOCK):
        block = np.s_[start : start + _BLOCK]
        nearest = np.rint(places[:, block])
        numbers = nearest[1].astype(np.intp) * view.width + nearest[0].astype(np.intp)
        for channel, values in flat.items():
            if channel == "depth_m":
                off = places[:, block] - nearest
                depth = _depth_at(values, flat["bodies"], numbers, off, view.width)
                labels[channel][block] = depth * face.stretch[block]
            else:
                labels[channel][block] = values[numbers]
    if "normals" in labels:
        labels["normals"] = labels["normals"] @ face.to_camera.T.astype(np.float32)
    return labels


def _depth_at(
    depth_m: Singles,
    bodies: NDArray[np.uint32],
    nearest: NDArray[np.intp],
    off: Singles,
    width: int,
) -> Singles:
    """Returns depth (m,) a little off drawn points, on the plane that touches the surface there.

    Along a plane nearness, 1 / depth, changes evenly over the view.

    Args:
        depth_m: (n,) of the view, row by row, 0 where nothing is.
        bodies: (n,) what is seen; a plane does not reach over to another body.
        nearest: numbers (m,) of the drawn points.
        off: (2, m) how far off, right and down, in pixels of the view.
        width: of the view.
    """
    here, body = _nearness(depth_m.take(nearest)), bodies.take(nearest)
    there = here.copy()
    for step, way in zip((1, width), off, strict=True):
        last, after = nearest - step, nearest + step
        before, behind = _nearness(depth_m.take(last)), _nearness(depth_m.take(after))
        alike = (bodies.take(last) == body) & (bodies.take(after) == body)
        there += _slope(before, here, behind) * way * alike
    return _nearness(there * (here > 0))


def _nearness(depth_m: Singles) -> Singles:
    """Returns 1 / depth, and depth of nearness; 0 of 0."""
    return np.divide(1, depth_m, out=np.zeros_like(depth_m), where=depth_m != 0)


def _slope(before: Singles, here: Singles, after: Singles) -> Singles:
    """Returns the gentler of the changes from before and to after; 0 at crests and steep steps.

    So it does not reach over the edge of a body.
    """
    rise, next_rise = here - before, after - here
    gentler = np.minimum(np.abs(rise), np.abs(next_rise))
    is_smooth = (rise * next_rise > 0) & (gentler < _STEEPEST * here)
    return np.asarray(np.copysign(gentler, rise) * is_smooth)
