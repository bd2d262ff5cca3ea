"""Optics: which undistorted views a lens needs, and how their pixels reach the picture.

Colour and every label are drawn through a pinhole that sees at least what the lens sees, and moved
once by the same map, so that they agree wherever the lens bends them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.render.gbuffer import GBuffer
from sim2cam.render.rasterizer import PinholeView
from sim2cam.scene.camera import Camera
from sim2cam.scene.scene import Scene

LABEL_DENSITY = 2
"""Labels under a distorting lens are drawn at this many times the pixels, then picked nearest."""

_MARGIN_PX = 2


@dataclass(frozen=True)
class ViewMap:
    """A pinhole view and where in it each pixel of the picture lies; None when they are the same."""

    view: PinholeView
    places: tuple[NDArray[np.float32], NDArray[np.float32]] | None


def blind_spot(scene: Scene) -> str | None:
    """Returns why a drawn lens cannot see a corner of its picture; None when all can."""
    for camera in scene.cameras:
        right, bottom = camera.width - 1.0, camera.height - 1.0
        try:
            camera.lens.unproject(np.array([[0, 0], [right, 0], [0, bottom], [right, bottom]]))
        except ValueError as error:
            return str(error)
    return None


def view_maps(camera: Camera) -> tuple[ViewMap, ViewMap]:
    """Returns the views to draw colour and labels in.

    Raises:
        ValueError: the lens folds back within the picture.
    """
    lens = camera.lens
    if lens.is_pinhole() and lens.fx_px == lens.fy_px:
        size = (camera.width, camera.height)
        same = ViewMap(PinholeView(camera.pose, *size, lens.fx_px, lens.cx_px, lens.cy_px), None)
        return same, same
    x, y = np.meshgrid(np.arange(camera.width), np.arange(camera.height))
    rays = lens.unproject(np.stack([x.ravel(), y.ravel()], axis=1).astype(np.float64))
    return _view_map(camera, rays, 1), _view_map(camera, rays, LABEL_DENSITY)


def warp_color(radiance: NDArray[np.float32], through: ViewMap) -> NDArray[np.float32]:
    """Returns the radiance (h, w, 3) of the picture, interpolated."""
    if through.places is None:
        return radiance
    return np.asarray(cv2.remap(radiance, *through.places, cv2.INTER_LINEAR), dtype=np.float32)


def warp_labels(labels: GBuffer, through: ViewMap) -> GBuffer:
    """Returns the labels of the picture, each from the nearest drawn point; never mixed."""
    if through.places is None:
        return labels
    x, y = (np.rint(p).astype(np.intp) for p in through.places)
    return {name: channel[y, x] for name, channel in labels.items()}


def _view_map(camera: Camera, rays: NDArray[np.float64], density: int) -> ViewMap:
    focal = density * max(camera.lens.fx_px, camera.lens.fy_px)
    x, y = rays.T  # one axis at a time: numpy reduces long columns slowly
    low = np.array([x.min(), y.min()]) * focal - _MARGIN_PX
    high = np.array([x.max(), y.max()]) * focal + _MARGIN_PX
    places = (rays * focal - low).astype(np.float32).reshape(camera.height, camera.width, 2)
    width, height = (math.ceil(side) + 1 for side in high - low)
    view = PinholeView(camera.pose, width, height, focal, -float(low[0]), -float(low[1]))
    return ViewMap(
        view, (np.ascontiguousarray(places[..., 0]), np.ascontiguousarray(places[..., 1]))
    )
