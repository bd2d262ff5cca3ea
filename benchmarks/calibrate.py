"""Accuracy of ``calibrate`` on simulated cameras with random, hidden parameters.

    python benchmarks/calibrate.py [--cameras N] [--photos N] [--at-once N] [--minutes M] [--work DIR]

Writes ``calibrate.json`` to ``benchmarks/results``: the error of each parameter and the coverage of its
95 % interval. Each camera is stored in ``--work`` when it is done, and an interrupted run resumes. Delete
that folder if the measurement changes.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import tyro
from PIL import Image
from result_files import round_numbers, write_results

from sim2cam.adapt.calibration.camera_calibration import calibrate
from sim2cam.adapt.calibration.camera_fit import CameraFit
from sim2cam.adapt.calibration.sensor import compute_green_ratios
from sim2cam.adapt.certificate.certificate import estimate_proportion
from sim2cam.data.environment import collect_environment
from sim2cam.data.writer import write_json
from sim2cam.engines.process_pool import map_units
from sim2cam.errors import Sim2CamError
from sim2cam.files import write_bytes
from sim2cam.pipeline.generation import generate
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.progress import ignore_progress
from sim2cam.scene.camera import Camera
from sim2cam.scene.scene import Scene
from sim2cam.seeds import derive_rng

BASE = Path(__file__).with_name("calibrate.toml")
FISHEYES = 0.25
"""Share of cameras with fisheye lenses."""
FIRST = 100
"""Number of the first camera: lower numbers were used during development."""
HELD = 0.25
"""Share of hand-held cameras under a flickering lamp; the others are fixed, in steady light."""
FAILED = "failed"
"""Key of the error message of a camera without parameters."""
_EXPOSURE_TAG, _EXIF_IFD = 33434, 0x8769


@dataclass(frozen=True)
class Arguments:
    """Options of the benchmark."""

    cameras: int = 200
    """Number of cameras."""
    photos: int = 16
    """Images per camera; a multiple of 4."""
    at_once: int = 1
    """Cameras in parallel, one thread each."""
    minutes: float = 1e9
    """Stop after the camera that exceeds this time; 0 only summarizes existing results."""
    work: Path = Path("runs/calibrate")
    """Folder of the results of each camera."""
    out: Path = Path(__file__).parent / "results"
    """Folder of the results."""


def main(arguments: Arguments) -> None:
    """Render, calibrate and score hidden cameras, and write the results."""
    start, stored = time.monotonic(), arguments.work / f"{arguments.photos}-photos.json"
    results_by_camera = json.loads(stored.read_text()) if stored.is_file() else {}
    numbers = range(FIRST, FIRST + arguments.cameras) if arguments.minutes else ()
    missing = [Hidden(n, arguments.photos) for n in numbers if str(n) not in results_by_camera]
    for number, entry in map_units(score, missing, arguments.at_once):
        results_by_camera[str(number)] = entry
        write_json(stored, results_by_camera)
        failed = {
            name: result[FAILED] for name, result in results_by_camera.items() if FAILED in result
        }
        facts = {
            "photos": arguments.photos,
            "summary": summarize(results_by_camera),
            "failed": failed,
            "cameras": len(results_by_camera),
            "environment": collect_environment(None, arguments.at_once),
        }
        write_results(arguments.out / "calibrate.json", facts)
        minutes = (time.monotonic() - start) / 60
        status = entry.get(FAILED, f"{len(entry)} parameters")
        print(f"{minutes:6.1f} min  camera {number}: {status}", file=sys.stderr)
        if minutes > arguments.minutes:
            break
    for name, row in summarize(results_by_camera).items():
        error = row["median_error"]
        print(
            f"{name:32} {row['estimates']:4} estimates  error {'—' if error is None else f'{error:.4g}'}  "
            f"in interval {row['covered']['value']:.2f}"
        )


@dataclass(frozen=True)
class Hidden:
    """A hidden camera.

    Attributes:
        number: seed of its parameters.
    """

    number: int
    photos: int


@dataclass(frozen=True)
class Truth:
    """True parameters of a hidden camera.

    Attributes:
        spin_rad_s: standard deviation of the angular velocity of the hand.
    """

    cameras: tuple[Camera, ...]
    spin_rad_s: float = 0.0


def score(hidden: Hidden) -> tuple[int, dict[str, Any]]:
    """Return a camera's number, and truth, estimate and interval of each estimated parameter.

    A camera that fails to render or calibrate returns the error message under ``FAILED``.
    """
    try:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            truth = take_photos(hidden.number, hidden.photos, root)
            fit = calibrate(root / "photos", None, derive_rng(hidden.number, "calibrate"))
    except Sim2CamError as error:
        return hidden.number, {FAILED: str(error)}
    return hidden.number, round_numbers(compare(truth, fit))


def take_photos(number: int, photos: int, root: Path) -> Truth:
    """Render the photos of a hidden camera to the folder ``photos`` and return its true parameters."""
    factors = sample_camera_factors(derive_rng(number, "hidden camera"))
    hand = sample_hand_factors(derive_rng(number, "hidden camera/hand"))
    seconds = hand["shutter"]["exposure_s"] if hand else None
    make_photos(format_recipe(factors | hand), photos, number, root, seconds)
    return Truth(
        tuple(
            camera
            for shard in sorted((root / "made").glob("shards/*/scenes.jsonl"))
            for line in shard.read_text().splitlines()
            for camera in Scene.from_json(json.dumps(json.loads(line)["scene"])).cameras
        ),
        hand["motion"]["pitch_rad_s"]["std"] if hand else 0.0,
    )


def make_photos(
    recipe: str, photos: int, seed: int, root: Path, exposure_s: float | None = None
) -> Path:
    """Render photos of a recipe and return their folder ``photos``; file names contain no parameters.

    Args:
        root: folder of the photos and of the dataset they are copied from.
    """
    path = root / "hidden.toml"
    write_bytes(path, recipe.encode())
    dataset = generate(
        load_recipe(str(path)), root / "made", count=photos, seed=seed, workers=1, resume=False,
        overwrite=False, progress=ignore_progress,
    )  # fmt: skip
    for sample in dataset.samples:
        jpeg = (dataset.root / sample.rgb).read_bytes()
        write_bytes(
            root / "photos" / f"{sample.name}.jpg",
            jpeg if exposure_s is None else _with_exposure(jpeg, exposure_s),
        )
    return root / "photos"


def sample_camera_factors(rng: np.random.Generator) -> dict[str, dict[str, Any]]:
    """Sample the factors of one camera, by group; only its exposure varies between images."""
    fisheye = rng.random() < FISHEYES
    k1 = rng.normal(0, 0.06)
    factors: dict[str, dict[str, Any]] = {
        "view": {"fov_rad": rng.uniform(1.4, 2.2) if fisheye else rng.uniform(0.7, 1.2)},
        "lens": {
            "k1": k1,
            "k2": rng.normal(0, 0.015),
            "p1": rng.normal(0, 0.0006),
            "p2": rng.normal(0, 0.0006),
            "shift_x": rng.normal(0, 0.01),
            "shift_y": rng.normal(0, 0.01),
        },
        "exposure": {"red_gain": rng.uniform(0.85, 1.2), "blue_gain": rng.uniform(0.85, 1.2)},
        "sensor": {
            "vignetting": rng.uniform(0, 0.45),
            "blur_px": rng.uniform(0.3, 1.1),
            "full_well_e": float(np.exp(rng.uniform(np.log(600), np.log(15000)))),
            "read_noise_e": rng.uniform(1, 8),
            "denoise": rng.uniform(0, 1),
            "tone_contrast": rng.uniform(0.8, 1.4),
            "saturation": rng.uniform(0.7, 1.3),
            "sharpening": rng.uniform(0, 0.9),
            "jpeg_quality": int(rng.integers(70, 99)),
        },
        "lateral_color": {"red": rng.normal(0, 0.001), "blue": rng.normal(0, 0.001)},
        "processing": {"jpeg_subsampling": str(rng.choice(["444", "422", "420"]))},
    }
    if fisheye:
        factors["fisheye"] = {
            "k1": rng.normal(0, 0.02), "k2": rng.normal(0, 0.004), "k3": 0.0, "k4": 0.0,
        }  # fmt: skip
    factors["sensor"] |= {
        "red_response": rng.uniform(0.4, 1.0), "blue_response": rng.uniform(0.4, 1.0),
    }  # fmt: skip
    factors["processing"]["chroma_blur_px"] = rng.uniform(0, 2)
    return factors


def _with_exposure(jpeg: bytes, seconds: float) -> bytes:
    """Return a JPEG file with an exposure time in EXIF."""
    exif = Image.Exif()
    exif.get_ifd(_EXIF_IFD)[_EXPOSURE_TAG] = seconds
    data = exif.tobytes()
    return jpeg[:2] + b"\xff\xe1" + (len(data) + 2).to_bytes(2, "big") + data + jpeg[2:]


def sample_hand_factors(rng: np.random.Generator) -> dict[str, dict[str, Any]]:
    """Sample the factors of hand motion, rolling shutter and flicker, by group; mostly none."""
    if rng.random() >= HELD:
        return {}
    exposure = float(np.exp(rng.uniform(np.log(0.004), np.log(0.02))))
    spin = float(rng.uniform(0.5, 3.0)) / (600 * exposure)  # 600: focal length in pixels
    still = {"kind": "constant", "value": 0.0}
    turns = {"kind": "normal", "mean": 0.0, "std": spin, "low": -3 * spin, "high": 3 * spin}
    names = ("right_m_s", "down_m_s", "forward_m_s", "roll_rad_s")
    return {
        "shutter": {"exposure_s": exposure, "readout_s": rng.uniform(0.018, 0.035)},
        "motion": dict.fromkeys(names, still) | dict.fromkeys(("pitch_rad_s", "yaw_rad_s"), turns),
        "light": {
            "flicker_hz": float(rng.choice([100.0, 120.0])),
            "flicker_phase_rad": {"kind": "uniform", "low": 0.0, "high": 2 * np.pi},
        },
        "lamp": {"flicker": rng.uniform(0.3, 0.9)},
    }


def format_recipe(
    factors: dict[str, dict[str, Any]], size: tuple[int, int] = (640, 480), base: Path = BASE
) -> str:
    """Return a recipe of one camera with these factors and this image size."""
    lines = [f'base = "{base}"', 'name = "hidden"', "[render]"]
    lines += [f"{name} = {pixels}" for name, pixels in zip(("width", "height"), size, strict=True)]
    for group, values in factors.items():
        lines.append(f"[domain.{group}]")
        lines += [f"{name} = {_format_toml(value)}" for name, value in values.items()]
    return "\n".join(lines)


def _format_toml(value: Any) -> str:
    """Return a scalar or a distribution as TOML."""
    if not isinstance(value, dict):
        return json.dumps(value)
    return f"{{ {', '.join(f'{name} = {json.dumps(part)}' for name, part in value.items())} }}"


def compare(truth: Truth, fit: CameraFit) -> dict[str, Any]:
    """Return truth, estimate and interval of each estimated parameter that is defined in both cameras.

    String parameters, such as the chroma subsampling, have no interval. The true exposure is the median over
    images.
    """
    results: dict[str, Any] = {}
    camera = truth.cameras[0]
    if fit.get_estimate("sensor.red_response").value is None:
        camera = _equalize_noise(camera)
    true_values = {
        "sensor.exposure_ev": float(np.median([c.sensor.exposure_ev for c in truth.cameras])),
        "twist.spin_rad_s": truth.spin_rad_s,
    }
    distortion = {f"lens.k{i}" for i in range(1, 7)} | {"lens.p1", "lens.p2"}
    for estimate in fit.estimates:
        name = estimate.name
        actual = true_values[name] if name in true_values else get_parameter(camera, name)
        has_other_lens = (
            name in distortion and fit.lens is not None and fit.lens.kind != camera.lens.kind
        )
        is_estimated = estimate.ci95 is not None or isinstance(estimate.value, str)
        if is_estimated and actual is not None and not has_other_lens:
            results[name] = {"truth": actual, "value": estimate.value}
            if estimate.ci95 is not None:
                results[name]["ci95"] = list(estimate.ci95)
    return results


def _equalize_noise(camera: Camera) -> Camera:
    """Return a camera with equal noise in all channels whose mean noise is that of the given camera."""
    sensor = camera.sensor
    red, blue = sensor.red_response / sensor.red_gain, sensor.blue_response / sensor.blue_gain
    electrons, read = compute_green_ratios(np.array([red, 1.0, blue]))
    full, noise = sensor.full_well_e / float(electrons), sensor.read_noise_e / float(read)
    return replace(camera, sensor=replace(sensor, full_well_e=full, read_noise_e=noise))


def get_parameter(camera: Camera, path: str) -> float | str | None:
    """Return a number or string of a camera by its dotted path; 0 if that part is missing."""
    value: Any = camera
    for name in path.split("."):
        value = getattr(value, name, 0.0) if value is not None else 0.0
    return value if isinstance(value, int | float | str) else None


def summarize(cameras: dict[str, Any]) -> dict[str, Any]:
    """Return the number of estimates, median error, interval width and coverage of each parameter."""
    names = sorted({name for camera in cameras.values() for name in camera} - {FAILED})
    results: dict[str, Any] = {}
    for name in names:
        entries = [camera[name] for camera in cameras.values() if name in camera]
        intervals = [entry for entry in entries if "ci95" in entry]
        inside = [_is_covered(entry) for entry in entries]
        errors = [abs(entry["value"] - entry["truth"]) for entry in intervals]
        widths = [entry["ci95"][1] - entry["ci95"][0] for entry in intervals]
        results[name] = {
            "estimates": len(entries),
            "median_error": float(np.median(errors)) if errors else None,
            "median_width": float(np.median(widths)) if widths else None,
            "covered": estimate_proportion(sum(inside), len(inside)).to_json(),
        }
    return results


def _is_covered(entry: dict[str, Any]) -> bool:
    """Return whether the interval contains the truth, or the string is equal to it."""
    if "ci95" not in entry:
        return bool(entry["value"] == entry["truth"])
    return bool(entry["ci95"][0] <= entry["truth"] <= entry["ci95"][1])


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
