"""Folders of environment maps and texture images, measured when a recipe is loaded."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from sim2cam import images
from sim2cam.assets.environment_map import extract_sun, read_sky, sample_upper_hemisphere
from sim2cam.assets.folder import list_images, read_image_card
from sim2cam.errors import InputError
from sim2cam.geometry.poses import vec3
from sim2cam.scene.image_facts import EnvironmentMapInfo, TextureImageInfo
from sim2cam.scene.image_file import ImageFile
from sim2cam.scene.light import EnvironmentMap


def import_environment_maps(folder: Path) -> tuple[EnvironmentMapInfo, ...]:
    """Measure the environment maps in a folder and its subfolders, sorted by name.

    Raises:
        InputError: The folder is missing or empty, or a file is invalid.
    """
    return tuple(
        _measure_environment_map(folder, name)
        for name in list_images(folder, images.ENVIRONMENT_MAP_SUFFIXES)
    )


def import_images(folder: Path) -> tuple[TextureImageInfo, ...]:
    """Measure the texture images in a folder and its subfolders, sorted by name.

    Raises:
        InputError: The folder is missing or empty, or a file is invalid.
    """
    return tuple(
        _measure_image(folder, name) for name in list_images(folder, images.IMAGE_SUFFIXES)
    )


def _measure_environment_map(folder: Path, name: str) -> EnvironmentMapInfo:
    path = folder / name
    file = ImageFile(str(path), images.compute_digest(path))
    directions, radiances, solid_angles = sample_upper_hemisphere(EnvironmentMap(file))
    irradiance_scale = float(
        (radiances.mean(axis=1) * solid_angles * directions[:, 2]).sum() / math.pi
    )
    if irradiance_scale <= 0:
        raise InputError(path, "is black above the horizon. Remove it from the folder.")
    card = read_image_card(path)
    sun = extract_sun(read_sky(file))
    return EnvironmentMapInfo(name, file, irradiance_scale, sun, card.licence, card.credit)


def _measure_image(folder: Path, name: str) -> TextureImageInfo:
    path = folder / name
    color = vec3(images.SRGB_TO_LINEAR[images.read_rgb(path)].mean(axis=(0, 1), dtype=np.float64))
    card = read_image_card(path)
    file = ImageFile(str(path), images.compute_digest(path))
    return TextureImageInfo(name, file, color, card.width_m, card.licence, card.credit)
