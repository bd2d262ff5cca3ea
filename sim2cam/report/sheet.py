"""Sheets: many small pictures in one, to look at."""

from __future__ import annotations

import math
from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.data.sample import Dataset
from sim2cam.geometry.lens import BrownConrady
from sim2cam.geometry.poses import Pose, vec3
from sim2cam.render.frame import shoot
from sim2cam.render.rasterizer import rasterizer
from sim2cam.report.overlay import draw_labels
from sim2cam.scene.asset_facts import AssetFacts
from sim2cam.scene.camera import Camera
from sim2cam.scene.light import Environment, Lamp
from sim2cam.scene.material import Color, Material, Texture
from sim2cam.scene.scene import Body, Scene
from sim2cam.scene.sensor import Sensor
from sim2cam.scene.shape import Ground

Rgb = NDArray[np.uint8]

_SAMPLE_PX = 480
_ASSET_PX = 256
_LINE_PX = 22
_WHITE = (255, 255, 255)
_TO_EYE = np.array([0.5, -0.65, 0.57])
_FOCAL = 2.6  # over the picture's half side
_SKY = Environment(
    (0.9, 0.9, 0.9), (0.7, 0.7, 0.7), (Lamp((0.36, -0.48, 0.8), 0.2, (1.6, 1.6, 1.6)),)
)
_SENSOR = Sensor(
    exposure_ev=0.0, red_gain=1.0, blue_gain=1.0, vignetting=0.0, blur_px=0.3, full_well_e=1e6,
    read_noise_e=0.0, denoise=0.0, tone_contrast=1.0, saturation=1.0, sharpening=0.0,
    jpeg_quality=95, noise_seed=0,
)  # fmt: skip


def sample_sheet(dataset: Dataset) -> Rgb:
    """Returns the pictures of a data set with their labels, side by side."""
    drawn = (
        draw_labels(images.read_rgb(sample.rgb), sample.objects or (), dataset.categories)
        for sample in dataset.samples
    )
    return _tiled([_fitted(picture, _SAMPLE_PX) for picture in drawn])


def asset_sheet(assets: Sequence[AssetFacts]) -> Rgb:
    """Returns a picture of each asset with its name and size, side by side."""
    return _tiled([_portrait(facts) for facts in assets])


def _portrait(facts: AssetFacts) -> Rgb:
    middle = np.add(facts.low_m, facts.high_m) / 2
    radius = math.hypot(*facts.size_m) / 2
    eye = middle - (0, 0, facts.low_m[2]) + _TO_EYE * radius * _FOCAL * 1.15
    target = middle - (0, 0, facts.low_m[2])
    centre, focal_px = (_ASSET_PX - 1) / 2, _FOCAL * _ASSET_PX / 2
    camera = Camera(
        Pose.looking_at(vec3(eye), vec3(target), 0.0),
        _ASSET_PX,
        _ASSET_PX,
        BrownConrady(focal_px, focal_px, centre, centre, 0.0, 0.0, 0.0, 0.0),
        _SENSOR,
    )
    on_table = Pose((1.0, 0.0, 0.0, 0.0), (0.0, 0.0, -facts.low_m[2]))
    bodies = (
        Body("table", Ground(40 * radius), _plain((0.45, 0.45, 0.45)), Pose(), is_fixed=True),
        Body("object", facts.mesh, _plain((0.6, 0.6, 0.6)), on_table, is_fixed=True),
    )
    scene = Scene(bodies, _SKY, (camera,))
    rasterizer().load(scene)
    picture = images.decode_picture(shoot(scene, camera, rasterizer(), ()).picture)
    size = " x ".join(f"{1e3 * side:.3g}" for side in facts.size_m)
    return np.vstack([picture, _line(facts.name), _line(f"{size} mm")])


def _plain(color: Color) -> Material:
    return Material(Texture("plain", color, color, 1.0, 0.0, 0.0, 0), 0.6)


def _line(text: str) -> Rgb:
    """Returns a line of text, its end where it does not fit."""
    canvas = np.full((_LINE_PX, _ASSET_PX, 3), _WHITE, np.uint8)
    shown = text.encode("ascii", "replace").decode()[-34:]
    cv2.putText(
        canvas, shown, (4, _LINE_PX - 7), cv2.FONT_HERSHEY_SIMPLEX, 0.4, (0, 0, 0), 1, cv2.LINE_AA
    )
    return canvas


def _fitted(picture: Rgb, width: int) -> Rgb:
    height = max(1, round(picture.shape[0] * width / picture.shape[1]))
    return np.asarray(cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA), np.uint8)


def _tiled(pictures: Sequence[Rgb]) -> Rgb:
    """Returns pictures of one size in a grid that is about as wide as high, filled up with white."""
    columns = math.ceil(math.sqrt(len(pictures)))
    rows = -(-len(pictures) // columns)
    height, width = pictures[0].shape[:2]
    sheet = np.full((rows * height, columns * width, 3), _WHITE, np.uint8)
    for number, picture in enumerate(pictures):
        top, left = number // columns * height, number % columns * width
        sheet[top : top + height, left : left + width] = picture
    return sheet
