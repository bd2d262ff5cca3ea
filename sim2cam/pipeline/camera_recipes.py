"""Cameras: recipes that are drawn as the camera of given photos would see them."""

from __future__ import annotations

import json
from pathlib import Path

from sim2cam.adapt.calibration.camera_calibration import calibrate_files
from sim2cam.adapt.calibration.camera_fit import write_camera
from sim2cam.data.sample import Dataset
from sim2cam.files import write_atomic
from sim2cam.seeds import derive_rng

CAMERA_FILE, RECIPE_FILE = "camera.json", "recipe.toml"


def write_camera_recipe(base_recipe: str, photos: Dataset, folder: Path, seed: int) -> str:
    """Return the path of a recipe whose cameras are drawn around the one that took most of the photos.

    The camera is told once: where the folder holds it, it stays.

    Args:
        base_recipe: name or path of the one that it is based on.
        photos: of the camera; their labels are not read.
        folder: where the camera and the recipe are written.
        seed: decides which photos are resampled and which cameras are tried.

    Raises:
        InputError: no photo can be used.
        OutputError: the folder cannot be written.
    """
    camera, path = folder / CAMERA_FILE, folder / RECIPE_FILE
    if not camera.is_file():
        files = [sample.rgb for sample in photos.samples]
        write_camera(camera, calibrate_files(files, photos.root, derive_rng(seed, "calibrate")))
    base = str(Path(base_recipe).absolute()) if base_recipe.endswith(".toml") else base_recipe
    text = f"base = {json.dumps(base)}\ncamera = {json.dumps(CAMERA_FILE)}\n"
    write_atomic(path, text.encode())
    return str(path)
