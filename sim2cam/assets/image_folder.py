"""Folders of pictures: skies and surfaces, measured once when a recipe is loaded."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.assets.environment_map import read_sky, sun_of, upper_light
from sim2cam.assets.folder import picture_names, read_picture_card
from sim2cam.errors import InputError
from sim2cam.geometry.poses import vec3
from sim2cam.scene.image_facts import PictureFacts, SkyFacts
from sim2cam.scene.image_file import PictureFile
from sim2cam.scene.light import SkyPicture


def import_skies(folder: Path) -> tuple[SkyFacts, ...]:
    """Returns what is known of every sky in a folder and those in it, sorted by name.

    Raises:
        InputError: naming the folder or the file, and what is wrong with it.
    """
    return tuple(_sky(folder, name) for name in picture_names(folder, images.SKY_SUFFIXES))


def import_pictures(folder: Path) -> tuple[PictureFacts, ...]:
    """Returns what is known of every picture in a folder and those in it, sorted by name.

    Raises:
        InputError: naming the folder or the file, and what is wrong with it.
    """
    return tuple(_picture(folder, name) for name in picture_names(folder, images.SUFFIXES))


def read_pixels(file: PictureFile) -> NDArray[np.uint8]:
    """Returns a picture of a surface, sRGB uint8 (h, w, 3).

    Raises:
        InputError: it is missing, damaged, or not what it was when it was brought in.
    """
    images.check_digest(Path(file.path), file.digest)
    return images.read_rgb(Path(file.path))


def _sky(folder: Path, name: str) -> SkyFacts:
    path = folder / name
    file = PictureFile(str(path), images.digest_of(path))
    around, light, solid = upper_light(SkyPicture(file))
    radiance = float((light.mean(axis=1) * solid * around[:, 2]).sum() / math.pi)
    if radiance <= 0:
        raise InputError(path, "is black above the horizon. Leave it out of the folder.")
    return SkyFacts(name, file, radiance, sun_of(read_sky(file)), read_picture_card(path).licence)


def _picture(folder: Path, name: str) -> PictureFacts:
    path = folder / name
    color = vec3(images.LINEAR[images.read_rgb(path)].mean(axis=(0, 1), dtype=np.float64))
    card = read_picture_card(path)
    file = PictureFile(str(path), images.digest_of(path))
    return PictureFacts(name, file, color, card.width_m, card.licence)
