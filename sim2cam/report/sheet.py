"""Contact sheets of samples and assets."""

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
from sim2cam.objects.primitives import Ground
from sim2cam.render.renderer import get_renderer
from sim2cam.report.overlay import draw_labels
from sim2cam.scene.asset_facts import AssetInfo
from sim2cam.scene.camera import Camera
from sim2cam.scene.light import Environment, Lamp
from sim2cam.scene.material import Color, Material, Texture
from sim2cam.scene.scene import Body, Scene
from sim2cam.scene.sensor import Sensor

Rgb = NDArray[np.uint8]

_SAMPLE_PX = 360
_ASSET_PX = 256
_TEXT_HEIGHT_PX = 22
_WHITE = (255, 255, 255)
_VIEW_DIRECTION = np.array([0.5, -0.65, 0.57])
_FOCAL_RATIO = 2.6  # focal length over half the image width
_ENVIRONMENT = Environment(
    (0.9, 0.9, 0.9), (0.7, 0.7, 0.7), (Lamp((0.36, -0.48, 0.8), 0.2, (1.6, 1.6, 1.6)),)
)
_SENSOR = Sensor(
    exposure_ev=0.0, red_gain=1.0, blue_gain=1.0, vignetting=0.0, blur_px=0.3, full_well_e=1e6,
    read_noise_e=0.0, denoise=0.0, tone_contrast=1.0, saturation=1.0, sharpening=0.0,
    jpeg_quality=95, noise_seed=0,
)  # fmt: skip


def build_sample_sheet(dataset: Dataset, *, tile_px: int = _SAMPLE_PX) -> Rgb:
    """Tile the images of a dataset with their labels.

    Args:
        tile_px: Longer side of an image; text does not shrink with it.
    """
    return _tile_images(
        [
            draw_labels(
                images.read_rgb(sample.rgb),
                sample.objects or (),
                dataset.categories,
                longer_side_px=tile_px,
            )
            for sample in dataset.samples
        ]
    )


def build_asset_sheet(assets: Sequence[AssetInfo]) -> Rgb:
    """Render each asset with its name and size, and tile the images."""
    return _tile_images([_render_asset(asset) for asset in assets])


def _render_asset(asset: AssetInfo) -> Rgb:
    radius = math.hypot(*asset.size_m) / 2
    target = np.add(asset.low_m, asset.high_m) / 2 - (0, 0, asset.low_m[2])
    eye = target + _VIEW_DIRECTION * radius * _FOCAL_RATIO * 1.15
    centre, focal_px = (_ASSET_PX - 1) / 2, _FOCAL_RATIO * _ASSET_PX / 2
    lens = BrownConrady(focal_px, focal_px, centre, centre, 0.0, 0.0, 0.0, 0.0)
    pose = Pose.look_at(vec3(eye), vec3(target), 0.0)
    camera = Camera(pose, _ASSET_PX, _ASSET_PX, lens, _SENSOR)
    on_table = Pose((1.0, 0.0, 0.0, 0.0), (0.0, 0.0, -asset.low_m[2]))
    table, grey = _make_plain_material((0.45, 0.45, 0.45)), _make_plain_material((0.6, 0.6, 0.6))
    bodies = (
        Body("table", Ground(40 * radius), table, Pose(), is_fixed=True),
        Body("object", asset.mesh, grey, on_table, is_fixed=True),
    )
    scene = Scene(bodies, _ENVIRONMENT, (camera,))
    with get_renderer().open(scene) as stage:
        rgb = images.decode_image(stage.shoot(camera, ()).image)
    size = " x ".join(f"{1e3 * side:.3g}" for side in asset.size_m)
    return np.vstack([rgb, _render_text(asset.name), _render_text(f"{size} mm")])


def _make_plain_material(color: Color) -> Material:
    return Material(Texture("plain", color, color, 1.0, 0.0, 0.0, 0), 0.6)


def _render_text(text: str) -> Rgb:
    """Render a line of text, cropped to its end if too long."""
    canvas = np.full((_TEXT_HEIGHT_PX, _ASSET_PX, 3), _WHITE, np.uint8)
    ascii_text = text.encode("ascii", "replace").decode()[-34:]
    origin, font = (4, _TEXT_HEIGHT_PX - 7), cv2.FONT_HERSHEY_SIMPLEX
    cv2.putText(canvas, ascii_text, origin, font, 0.4, (0, 0, 0), 1, cv2.LINE_AA)
    return canvas


def _tile_images(images_rgb: Sequence[Rgb]) -> Rgb:
    """Tile images of equal size in a square grid, padded with white."""
    columns = math.ceil(math.sqrt(len(images_rgb)))
    rows = -(-len(images_rgb) // columns)
    height, width = images_rgb[0].shape[:2]
    sheet = np.full((rows * height, columns * width, 3), _WHITE, np.uint8)
    for number, rgb in enumerate(images_rgb):
        top, left = number // columns * height, number % columns * width
        sheet[top : top + height, left : left + width] = rgb
    return sheet
