"""Background images from environment maps: perspective views with the tone curve of a camera."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.assets.package_files import PackagedPanorama
from sim2cam.assets.panorama_views import project_view, sample_view
from sim2cam.data.card import build_card, write_card
from sim2cam.data.photo_sources import PhotoSource, write_photo_sources
from sim2cam.data.real_images import read_real_images
from sim2cam.data.writer import write_json
from sim2cam.files import convert_write_errors, write_bytes
from sim2cam.progress import Progress, ignore_progress
from sim2cam.render.sensor.tone import apply_tone_curve
from sim2cam.seeds import derive_rng
from sim2cam.surfaces.textures import encode_srgb

BACKGROUNDS = "backgrounds"
"""Name of the folder of views and environment maps in the folder of named datasets."""
IMAGES_FOLDER, MAPS_FOLDER = "images", "maps"
"""Subfolders with the photographs and with the environment maps."""

VIEWS_PER_MAP = 16

_VIEWS_FILE = "views.json"
_MIDDLE_GREY = 0.18
_EXPOSURE_STD_STOPS, _MAX_EXPOSURE_STOPS = 1.3, 3.5
_CONTRAST_RANGE, _SHOULDER_RANGE, _SATURATION_RANGE = (0.9, 1.4), (0.6, 0.95), (0.8, 1.2)
_JPEG_QUALITY = 95
_MIN_STD = 6.0  # of the grey levels; views of a uniform surface teach nothing
_MAX_TRIALS = 8
_DARK_FRACTION, _MIN_RADIANCE = 0.01, 1e-6  # black areas count as this fraction of the mean


@dataclass(frozen=True)
class ToneParameters:
    """Exposure and tone curve of a view.

    Attributes:
        exposure_ev: Exposure in stops; at 0 the geometric mean of the radiance is middle grey.
        contrast, shoulder, saturation: Parameters of ``apply_tone_curve``.
    """

    exposure_ev: float
    contrast: float
    shoulder: float
    saturation: float


def write_background_images(
    panoramas: Sequence[PackagedPanorama],
    folder: Path,
    *,
    seed: int = 0,
    progress: Progress = ignore_progress,
) -> int:
    """Write views of environment maps, the maps as Radiance files, the sources of both, and a card.

    Args:
        panoramas: Environment maps.
        folder: Folder to fill; replaced when all is written.
        seed: Seed of the views.
        progress: Called with the number of finished and of all maps.

    Returns:
        The number of views.

    Raises:
        InputError: If a map cannot be read.
        OutputError: If the folder is not writable.
    """
    part = folder.with_name(f".{folder.name}.part")
    with convert_write_errors(part):
        shutil.rmtree(part, ignore_errors=True)
        (part / IMAGES_FOLDER).mkdir(parents=True)
        (part / MAPS_FOLDER).mkdir()
    views: dict[str, Mapping[str, Any]] = {}
    sources: dict[str, PhotoSource] = {}
    for done, panorama in enumerate(panoramas):
        progress(done, len(panoramas))
        radiance = panorama.read()
        map_name = f"{MAPS_FOLDER}/{panorama.name}.hdr"
        write_bytes(part / map_name, images.encode_radiance(radiance))
        sources[map_name] = panorama.source
        for index in range(VIEWS_PER_MAP):
            name = f"{IMAGES_FOLDER}/{panorama.name}-{index:02}.jpg"
            rng = derive_rng(seed, f"background/{panorama.name}", scene_index=index)
            rgb, views[name] = _take_view(radiance, rng)
            write_bytes(part / name, images.encode_jpeg(rgb, _JPEG_QUALITY, "444"))
            sources[name] = replace(panorama.source, source=f"view of {panorama.source.source}")
    write_json(part / _VIEWS_FILE, views)
    write_photo_sources(part, sources)
    write_card(build_card(read_real_images(part / IMAGES_FOLDER)), part)
    with convert_write_errors(folder):
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)
    progress(len(panoramas), len(panoramas))
    return len(views)


def _take_view(
    radiance: NDArray[np.float32], rng: np.random.Generator
) -> tuple[NDArray[np.uint8], Mapping[str, Any]]:
    """Return a view with some contrast (h, w, 3), and its parameters."""
    for _ in range(_MAX_TRIALS):
        view, tone = sample_view(len(radiance), rng), _sample_tone(rng)
        rgb = develop_view(project_view(radiance, view), tone)
        if rgb.mean(axis=2).std() >= _MIN_STD:
            break
    return rgb, asdict(view) | asdict(tone)


def _sample_tone(rng: np.random.Generator) -> ToneParameters:
    exposure_ev = float(rng.normal(0, _EXPOSURE_STD_STOPS))
    return ToneParameters(
        min(max(exposure_ev, -_MAX_EXPOSURE_STOPS), _MAX_EXPOSURE_STOPS),
        float(rng.uniform(*_CONTRAST_RANGE)),
        float(rng.uniform(*_SHOULDER_RANGE)),
        float(rng.uniform(*_SATURATION_RANGE)),
    )


def develop_view(radiance: NDArray[np.float32], tone: ToneParameters) -> NDArray[np.uint8]:
    """Return the image (h, w, 3) RGB of a view's linear radiance (h, w, 3)."""
    levels = radiance.mean(axis=2, dtype=np.float64)
    levels = np.maximum(levels, max(_DARK_FRACTION * levels.mean(), _MIN_RADIANCE))
    geometric_mean = math.exp(float(np.log(levels).mean()))
    exposed = radiance * np.float32(_MIDDLE_GREY * 2**tone.exposure_ev / geometric_mean)
    return encode_srgb(apply_tone_curve(exposed, tone.contrast, tone.shoulder, tone.saturation))
