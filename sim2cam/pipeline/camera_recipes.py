"""Recipes whose cameras are sampled around a camera estimated from photos."""

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
    """Write a recipe with cameras sampled around the camera of most photos, and return its path.

    An existing estimate of the camera in the folder is reused.

    Args:
        photos: photos of the camera; labels are not read.

    Raises:
        InputError: if no photo is usable.
        OutputError: if the folder cannot be written.
    """
    camera, path = folder / CAMERA_FILE, folder / RECIPE_FILE
    if not camera.is_file():
        files = [sample.rgb for sample in photos.samples]
        write_camera(camera, calibrate_files(files, photos.root, derive_rng(seed, "calibrate")))
    base = str(Path(base_recipe).absolute()) if base_recipe.endswith(".toml") else base_recipe
    text = f"base = {json.dumps(base)}\ncamera = {json.dumps(CAMERA_FILE)}\n"
    write_atomic(path, text.encode())
    return str(path)
