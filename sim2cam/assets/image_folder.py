"""Folders of pictures: skies and surfaces, measured once when a recipe is loaded."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.assets.environment_map import extract_sun, read_sky, sample_upper_hemisphere
from sim2cam.assets.folder import list_images, read_image_card
from sim2cam.errors import InputError
from sim2cam.geometry.poses import vec3
from sim2cam.scene.image_facts import EnvironmentMapInfo, TextureImageInfo
from sim2cam.scene.image_file import ImageFile
from sim2cam.scene.light import EnvironmentMap


def import_environment_maps(folder: Path) -> tuple[EnvironmentMapInfo, ...]:
    """Return what is known of every sky in a folder and those in it, sorted by name.

    Raises:
        InputError: naming the folder or the file, and what is wrong with it.
    """
    return tuple(
        _measure_environment_map(folder, name)
        for name in list_images(folder, images.ENVIRONMENT_MAP_SUFFIXES)
    )


def import_images(folder: Path) -> tuple[TextureImageInfo, ...]:
    """Return what is known of every picture in a folder and those in it, sorted by name.

    Raises:
        InputError: naming the folder or the file, and what is wrong with it.
    """
    return tuple(
        _measure_image(folder, name) for name in list_images(folder, images.IMAGE_SUFFIXES)
    )


def read_pixels(file: ImageFile) -> NDArray[np.uint8]:
    """Return a picture of a surface, sRGB uint8 (h, w, 3).

    Raises:
        InputError: it is missing, damaged, or not what it was when it was brought in.
    """
    images.check_digest(Path(file.path), file.digest)
    return images.read_rgb(Path(file.path))


def _measure_environment_map(folder: Path, name: str) -> EnvironmentMapInfo:
    path = folder / name
    file = ImageFile(str(path), images.compute_digest(path))
    around, light, solid = sample_upper_hemisphere(EnvironmentMap(file))
    radiance = float((light.mean(axis=1) * solid * around[:, 2]).sum() / math.pi)
    if radiance <= 0:
        raise InputError(path, "is black above the horizon. Leave it out of the folder.")
    return EnvironmentMapInfo(
        name, file, radiance, extract_sun(read_sky(file)), read_image_card(path).licence
    )


def _measure_image(folder: Path, name: str) -> TextureImageInfo:
    path = folder / name
    color = vec3(images.SRGB_TO_LINEAR[images.read_rgb(path)].mean(axis=(0, 1), dtype=np.float64))
    card = read_image_card(path)
    file = ImageFile(str(path), images.compute_digest(path))
    return TextureImageInfo(name, file, color, card.width_m, card.licence)
