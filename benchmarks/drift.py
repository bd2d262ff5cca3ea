"""False alarms and sensitivity of drift detection.

    python benchmarks/drift.py [--cameras N]

Simulated cameras with random, hidden parameters take images, one parameter is changed, and they take
images again. Real photos from ``sim2cam fetch`` or ``$SIM2CAM_REAL`` are used too, with changes that can
be applied to a photo. Writes ``drift.json`` to ``benchmarks/results``. Existing parts are kept, so an
interrupted run resumes.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import tyro
from calibrate import format_recipe, make_photos, sample_camera_factors
from numpy.typing import NDArray
from result_files import write_results

from sim2cam import images
from sim2cam.adapt.calibration.board_corners import BoardDetection
from sim2cam.adapt.calibration.camera_features import tabulate_statistics
from sim2cam.adapt.calibration.camera_fit import CameraFit
from sim2cam.adapt.calibration.drift import compare_lens, compare_photos, detect_drift
from sim2cam.adapt.calibration.jpeg import estimate_jpeg_quality
from sim2cam.adapt.calibration.lens import MIN_BOARD_PHOTOS, fit_lens
from sim2cam.adapt.calibration.linearization import decode_levels, encode_levels
from sim2cam.adapt.calibration.photo_measurements import (
    PhotoMeasurements,
    group_by_camera,
    list_photo_files,
    measure_photos,
)
from sim2cam.data.data_folder import locate_data_folder
from sim2cam.errors import LensError
from sim2cam.files import write_bytes
from sim2cam.seeds import derive_rng

Rgb = NDArray[np.uint8]
Numbers = dict[str, dict[str, Any]]

THEN, POOL, NOW = 20, 20, 8
"""Images of a hidden camera at calibration, unchanged images later, and images per comparison."""
SPLITS = 10
"""Comparisons of a camera with itself."""
DICE_SPLITS, DICE_THEN, DICE_NOW = 40, 60, 20
GOPRO_SPLITS = 40
VEIL = 0.08

PLANTED: dict[str, tuple[str, ...]] = {
    "red +10 %": ("sensor.red_gain",),
    "exposure -0.5 stops": ("sensor.exposure_ev",),
    "a third of the electrons": ("sensor.full_well_e",),
    "blur +0.4 px": ("sensor.blur_px", "sensor.sharpening"),
    "JPEG quality -15": ("sensor.jpeg_quality",),
    "vignetting +0.25": ("sensor.vignetting",),
    "red fringes +0.001": ("glass.lateral_color.red",),
    "8 % of the light astray": ("glass.glare.veil", "sensor.tone_contrast"),
    "smears before a third": ("glass.glare.veil", "sensor.tone_contrast", "sensor.blur_px"),
    "focal length +2 %": ("lens",),
    "three quarters of the size": ("camera",),
}
"""Parameters by change; a report must contain at least one of them."""
ON_PHOTOS = [name for name in PLANTED if name not in (
    "red fringes +0.001", "smears before a third", "focal length +2 %",
)]  # fmt: skip
"""Changes that can be applied to photos; noise is that of 1,000 electrons."""


@dataclass(frozen=True)
class Arguments:
    """Options of the benchmark."""

    cameras: int = 4
    """Number of hidden cameras."""
    out: Path = Path(__file__).parent / "results"
    """Folder of the results."""


def main(arguments: Arguments) -> None:
    """Compare images and write the results after each part."""
    path = arguments.out / "drift.json"
    stored: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    real = locate_data_folder()
    parts: dict[str, Callable[[], Any]] = {}
    if (real / "dice").is_dir():
        parts["dice"] = partial(measure_dice, real / "dice")
    if (real / "gopro_chessboard").is_dir():
        parts["gopro"] = partial(measure_gopro, real / "gopro_chessboard")
    for number in range(arguments.cameras):
        parts[f"camera {number}"] = partial(measure_hidden_camera, number)
    results = stored.get("parts", {})
    for name, run in parts.items():
        if name not in results:
            results[name] = run()
            write_results(path, {"summary": summarize(results), "parts": results})
        print(name, file=sys.stderr, flush=True)


def measure_hidden_camera(number: int) -> dict[str, Any]:
    """Return the parameters reported as drifted for a hidden camera, by change."""
    numbers, rng = (
        sample_camera_factors(derive_rng(number, "hidden camera")),
        derive_rng(number, "drift"),
    )
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        photos = measure_folder(
            make_photos(format_recipe(numbers), THEN + POOL, number, root / "then")
        )
        fit = fit_camera(photos[:THEN], rng)
        pool = photos[THEN:]
        same = [list_drifted(fit, _sample_photos(pool, rng), rng) for _ in range(SPLITS)]
        planted = {}
        for place, name in enumerate(PLANTED):
            recipe = make_changed_recipe(numbers, name)
            path = make_photos(recipe, NOW, 1000 + 100 * number + place, root / str(place))
            planted[name] = [list(detect_drift(fit, path, None, rng).drifted)]
    return {"same": same, "planted": planted}


_LOW_EXPOSURE = {"kind": "normal", "mean": -0.6, "std": 0.4, "low": -1.9, "high": 0.0}
"""Default exposures of the recipe, half a stop lower."""
_CHANGES: dict[str, tuple[str, str, Callable[[float], Any]]] = {
    "red +10 %": ("exposure", "red_gain", lambda gain: gain * 1.1),
    "exposure -0.5 stops": ("exposure", "exposure_ev", lambda _: _LOW_EXPOSURE),
    "a third of the electrons": ("sensor", "full_well_e", lambda well: well / 3),
    "blur +0.4 px": ("sensor", "blur_px", lambda blur: blur + 0.4),
    "JPEG quality -15": ("sensor", "jpeg_quality", lambda quality: quality - 15),
    "vignetting +0.25": ("sensor", "vignetting", lambda lost: lost + 0.25),
    "red fringes +0.001": ("lateral_color", "red", lambda red: red + 0.001),
    "8 % of the light astray": ("glare", "veil", lambda _: VEIL),
    "smears before a third": ("dirt", "coverage", lambda _: 0.33),
    "focal length +2 %": ("view", "fov_rad", lambda fov: fov / 1.02),
}
"""Group, factor and function of its new value, by change."""


def make_changed_recipe(numbers: Numbers, name: str) -> str:
    """Return the recipe of a hidden camera with one change."""
    if name not in _CHANGES:
        return format_recipe(numbers, (480, 360))
    changed = deepcopy(numbers)
    group, factor, change = _CHANGES[name]
    factors = changed.setdefault(group, {"loss": 0.4} if group == "dirt" else {})
    factors[factor] = change(factors.get(factor, 0.0))
    return format_recipe(changed)


def measure_dice(root: Path) -> dict[str, Any]:
    """Return the parameters reported as drifted for the phone of the dice dataset; no label is read."""
    names = sorted(
        image["file_name"] for image in json.loads((root / "style.json").read_text())["images"]
    )
    rng = derive_rng(0, "drift of dice")
    days = [[root / name for name in names if f"_2019120{day}_" in name] for day in (8, 9)]
    with tempfile.TemporaryDirectory() as folder:
        by_day = [
            measure_folder(_link_photos(day, Path(folder, str(i)))) for i, day in enumerate(days)
        ]
        photos = [photo for day in by_day for photo in day]
        same = []
        for _ in range(DICE_SPLITS):
            order = [photos[i] for i in rng.permutation(len(photos))]
            now = order[DICE_THEN : DICE_THEN + DICE_NOW]
            same.append(list_drifted(fit_camera(order[:DICE_THEN], rng), now, rng))
        halves = [list_drifted(fit_camera(day[:40], rng), day[40:], rng) for day in by_day]
        other = [list_drifted(fit_camera(a, rng), b, rng) for a, b in (by_day, by_day[::-1])]
        planted: dict[str, list[list[str]]] = {}
        for name in ("written again, else as it was", *ON_PHOTOS):
            planted[name] = []
            for day, paths in zip(by_day, days, strict=True):
                order = rng.permutation(len(day)).tolist()
                then = fit_camera([day[i] for i in order[:40]], rng)
                place = Path(folder, f"{name} {len(planted[name])}")
                _change_photos([paths[i] for i in order[40:60]], name, place, rng)
                planted[name].append(list(detect_drift(then, place, None, rng).drifted))
    return {"same": same, "halves of a day": halves, "other day": other, "planted": planted}


def measure_gopro(root: Path) -> dict[str, Any]:
    """Return p-value and shift of the lens between random halves of chessboard photos."""
    rng = derive_rng(0, "drift of gopro")
    photo_files = next(iter(group_by_camera(list_photo_files(root)[0]).values()))
    photos = [
        p
        for p in measure_photos(photo_files, None, _ignore_progress)[0]
        if p.board_detection is not None
    ]
    results = []
    for _ in range(GOPRO_SPLITS):
        order = [photos[i] for i in rng.permutation(len(photos))]
        half = len(order) // 2
        fit = fit_camera(order[:half], rng)
        change = compare_lens(fit, _list_detections(order[half:]), (fit.width, fit.height), rng)
        results.append({"p_value": change.p_value, "shift_px": change.shift})
    return {"same": results}


def measure_folder(folder: Path) -> list[PhotoMeasurements]:
    """Measure the photos of a folder."""
    return measure_photos(list_photo_files(folder)[0], None, _ignore_progress)[0]


def fit_camera(photos: Sequence[PhotoMeasurements], rng: np.random.Generator) -> CameraFit:
    """Return the part of a camera fit that drift detection uses."""
    header, sightings = photos[0].header, _list_detections(photos)
    size = (header.width, header.height)
    try:
        lens = fit_lens(sightings, size, rng) if len(sightings) >= MIN_BOARD_PHOTOS else None
    except LensError:
        lens = None
    name = "{}x{}".format(*size)
    return CameraFit(
        name,
        *size,
        len(photos),
        len(sightings),
        (),
        lens=lens,
        statistics=tabulate_statistics(photos),
    )


def list_drifted(
    fit: CameraFit, photos: Sequence[PhotoMeasurements], rng: np.random.Generator
) -> list[str]:
    """Return the names of drifted parameters."""
    changes = compare_photos(fit, photos, (fit.width, fit.height), rng)
    return [change.name for change in changes if change.status == "drifted"]


def summarize(parts: dict[str, Any]) -> dict[str, Any]:
    """Return counts of false alarms and of detected changes."""
    rendered = [part for name, part in parts.items() if name.startswith("camera")]
    results: dict[str, Any] = {"rendered": _count_reports(rendered)} if rendered else {}
    if "dice" in parts:
        results["dice"] = _count_reports([parts["dice"]]) | {
            name: _count_alarms(parts["dice"][name]) for name in ("halves of a day", "other day")
        }
    if "gopro" in parts:
        p_values = [split["p_value"] for split in parts["gopro"]["same"]]
        alarms = sum(p <= 0.05 for p in p_values)
        results["gopro"] = {"same": {"trials": len(p_values), "alarms": alarms}}
    return results


def _count_reports(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    planted: dict[str, Any] = {}
    for name in dict.fromkeys(name for part in parts for name in part["planted"]):
        reports = [names for part in parts for names in part["planted"][name]]
        expected = set(PLANTED.get(name, ()))
        planted[name] = {
            "trials": len(reports),
            "found": sum(bool(expected & set(names)) for names in reports),
            "others": float(np.mean([len(set(names) - expected) for names in reports])),
        }
    return {"same": _count_alarms([s for part in parts for s in part["same"]]), "planted": planted}


def _count_alarms(reports: Sequence[Sequence[str]]) -> dict[str, Any]:
    names = sorted({name for names in reports for name in names})
    return {"trials": len(reports), "alarms": sum(map(bool, reports)), "named": names}


def _change_photos(
    paths: Sequence[Path], name: str, folder: Path, rng: np.random.Generator
) -> None:
    """Write photos with one change, at their original JPEG quality unless that is the change."""
    for path in paths:
        header, rgb = images.read_header(path), images.read_rgb(path)
        quality = estimate_jpeg_quality(header) or 95
        lower = 15 if name == "JPEG quality -15" else 0
        data = images.encode_jpeg(
            _change_light(rgb, name, rng), quality - lower, header.subsampling or "444"
        )
        write_bytes(folder / f"{path.stem}.jpg", data)


def _change_light(rgb: Rgb, name: str, rng: np.random.Generator) -> Rgb:
    """Return a photo (h, w, 3) with one change of its linear light."""
    if name == "three quarters of the size":
        return np.asarray(cv2.resize(rgb, None, fx=0.75, fy=0.75, interpolation=cv2.INTER_AREA))
    light = decode_levels(rgb)
    if name == "red +10 %":
        light[..., 0] *= 1.1
    elif name == "exposure -0.5 stops":
        light *= 2**-0.5
    elif name == "a third of the electrons":
        light += rng.standard_normal(light.shape) * np.sqrt(light / 1000)
    elif name == "blur +0.4 px":
        light = np.asarray(cv2.GaussianBlur(light, (0, 0), 0.8))
    elif name == "vignetting +0.25":
        y, x = np.ogrid[-1 : 1 : rgb.shape[0] * 1j, -1 : 1 : rgb.shape[1] * 1j]
        light *= (1 - 0.25 * (x * x + y * y) / 2)[..., None]
    elif name == "8 % of the light astray":
        light = (1 - VEIL) * light + VEIL * light.mean(axis=(0, 1))
    else:
        return rgb
    return np.asarray(encode_levels(light).round().clip(0, 255), np.uint8)


def _sample_photos(
    photos: Sequence[PhotoMeasurements], rng: np.random.Generator
) -> list[PhotoMeasurements]:
    return [photos[i] for i in rng.choice(len(photos), NOW, replace=False)]


def _list_detections(photos: Sequence[PhotoMeasurements]) -> list[BoardDetection]:
    return [photo.board_detection for photo in photos if photo.board_detection is not None]


def _link_photos(paths: Sequence[Path], folder: Path) -> Path:
    """Return a new folder of links to photos."""
    folder.mkdir()
    for path in paths:
        (folder / path.name).symlink_to(path)
    return folder


def _ignore_progress(done: int, total: int) -> None:
    pass


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
