"""How well calibrate tells a camera: hidden ones, all numbers drawn, take pictures and are told from them.

    python benchmarks/calibrate.py [--cameras N] [--photos N] [--at-once N] [--minutes M]

Writes ``calibrate.json`` to ``benchmarks/results``: of each parameter its error and how often its 95 %
interval holds the truth. Each camera is stored as it is done and kept, so that it can be stopped and go
on; remove the file after a change of what is measured.
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
from scoring_log import short

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
from sim2cam.scene.camera import Camera
from sim2cam.scene.scene import Scene
from sim2cam.seeds import derive_rng

BASE = Path(__file__).with_name("calibrate.toml")
FISHEYES = 0.25
"""Share of the cameras whose lenses are fisheyes."""
FIRST = 100
"""Number of the first camera: those before it were looked at while calibrate was made."""
HELD = 0.25
"""Share of the cameras that a hand holds, under a lamp on mains; the others stand still, in steady light."""
FAILED = "failed"
"""Why a camera has no parameters, in their place."""
_EXPOSURE_TAG, _EXIF_IFD = 33434, 0x8769


@dataclass(frozen=True)
class Arguments:
    """How many cameras are hidden."""

    cameras: int = 200
    """Number of cameras."""
    photos: int = 16
    """Pictures that each takes; a multiple of 4."""
    at_once: int = 1
    """Cameras side by side, one thread each."""
    minutes: float = 1e9
    """Stop with the first camera that is done later than this; with 0 what there is is summed up."""
    out: Path = Path(__file__).parent / "results"
    """Folder of the results."""


def main(arguments: Arguments) -> None:
    """Hide, calibrates, scores and writes."""
    start, path = time.monotonic(), arguments.out / "calibrate.json"
    done = kept(path, arguments.photos)
    numbers = range(FIRST, FIRST + arguments.cameras) if arguments.minutes else ()
    missing = [Hidden(n, arguments.photos) for n in numbers if str(n) not in done]
    for number, found in map_units(score, missing, arguments.at_once):
        done[str(number)] = found
        failed = {number: one[FAILED] for number, one in done.items() if FAILED in one}
        facts = {
            "photos": arguments.photos,
            "summary": summary(done),
            "failed": failed,
            "cameras": done,
        }
        facts["environment"] = collect_environment(None, arguments.at_once)
        write_json(path, facts, indented=False)
        minutes = (time.monotonic() - start) / 60
        told = found.get(FAILED, f"{len(found)} parameters")
        print(f"{minutes:6.1f} min  camera {number}: {told}", file=sys.stderr)
        if minutes > arguments.minutes:
            break
    for name, told in summary(done).items():
        error = told["median_error"]
        print(
            f"{name:32} {told['told']:4} told  error {'—' if error is None else f'{error:.4g}'}  "
            f"in interval {told['covered']['value']:.2f}"
        )


@dataclass(frozen=True)
class Hidden:
    """A hidden camera: its number, and how many pictures it takes."""

    number: int
    photos: int


@dataclass(frozen=True)
class Truth:
    """What a hidden camera was.

    Attributes:
        cameras: as it took each picture.
        spin_rad_s: standard deviation of the spin of the hand that held it.
    """

    cameras: tuple[Camera, ...]
    spin_rad_s: float = 0.0


def kept(path: Path, photos: int) -> dict[str, Any]:
    """Return what was measured before of cameras that took as many photos, by their numbers."""
    known: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    cameras: dict[str, Any] = known.get("cameras", {})
    return cameras if known.get("photos") == photos else {}


def score(hidden: Hidden) -> tuple[int, dict[str, Any]]:
    """Return a camera's number, and truth, estimate and interval of what was told, by parameter.

    Of a camera that cannot be drawn or told, why: no later one waits for it.
    """
    try:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            truth = take_photos(hidden.number, hidden.photos, root)
            fit = calibrate(root / "photos", None, derive_rng(hidden.number, "calibrate"))
    except Sim2CamError as error:
        return hidden.number, {FAILED: str(error)}
    return hidden.number, short(compare(truth, fit))


def take_photos(number: int, photos: int, root: Path) -> Truth:
    """Return what a camera was, whose photos are then in a folder ``photos`` and whose name tells nothing."""
    numbers = hidden_numbers(derive_rng(number, "hidden camera"))
    hand = hand_numbers(derive_rng(number, "hidden camera/hand"))
    seconds = hand["shutter"]["exposure_s"] if hand else None
    make_photos(recipe_text(numbers | hand), photos, number, root, seconds)
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
    """Return a folder ``photos`` of what a recipe's camera takes; their names tell nothing.

    Args:
        recipe: of the camera and what it sees.
        photos: how many.
        seed: of the scenes.
        root: where the folder, and the data set that it is from, are made.
        exposure_s: how long they say that they were exposed; None where they do not.
    """
    path = root / "hidden.toml"
    write_bytes(path, recipe.encode())
    dataset = generate(
        load_recipe(str(path)), root / "made", count=photos, seed=seed, workers=1, resume=False,
        overwrite=False, progress=lambda done, total: None,
    )  # fmt: skip
    for sample in dataset.samples:
        jpeg = (dataset.root / sample.rgb).read_bytes()
        write_bytes(
            root / "photos" / f"{sample.name}.jpg",
            jpeg if exposure_s is None else _with_exposure(jpeg, exposure_s),
        )
    return root / "photos"


def hidden_numbers(rng: np.random.Generator) -> dict[str, dict[str, Any]]:
    """Return the factors, by group, of one camera whose exposure alone changes."""
    fisheye = rng.random() < FISHEYES
    bend = rng.normal(0, 0.06)
    numbers: dict[str, dict[str, Any]] = {
        "view": {"fov_rad": rng.uniform(1.4, 2.2) if fisheye else rng.uniform(0.7, 1.2)},
        "lens": {
            "k1": bend,
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
        numbers["fisheye"] = {
            "k1": rng.normal(0, 0.02), "k2": rng.normal(0, 0.004), "k3": 0.0, "k4": 0.0,
        }  # fmt: skip
    numbers["sensor"] |= {
        "red_response": rng.uniform(0.4, 1.0), "blue_response": rng.uniform(0.4, 1.0),
    }  # fmt: skip
    numbers["processing"]["chroma_blur_px"] = rng.uniform(0, 2)
    return numbers


def _with_exposure(jpeg: bytes, seconds: float) -> bytes:
    """Return a JPEG file that says how long it was exposed."""
    exif = Image.Exif()
    exif.get_ifd(_EXIF_IFD)[_EXPOSURE_TAG] = seconds
    data = exif.tobytes()
    return jpeg[:2] + b"\xff\xe1" + (len(data) + 2).to_bytes(2, "big") + data + jpeg[2:]


def hand_numbers(rng: np.random.Generator) -> dict[str, dict[str, Any]]:
    """Return the factors, by group, of a hand, a rolling shutter and a lamp that flickers; mostly none."""
    if rng.random() >= HELD:
        return {}
    exposure = float(np.exp(rng.uniform(np.log(0.004), np.log(0.02))))
    spin = float(rng.uniform(0.5, 3.0)) / (600 * exposure)  # pixels of a lens of 600
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


def recipe_text(
    numbers: dict[str, dict[str, Any]], size: tuple[int, int] = (640, 480), base: Path = BASE
) -> str:
    """Return a recipe with one camera, of these factors and with pictures of this size."""
    lines = [f'base = "{base}"', 'name = "hidden"', "[render]"]
    lines += [f"{name} = {pixels}" for name, pixels in zip(("width", "height"), size, strict=True)]
    for group, factors in numbers.items():
        lines.append(f"[domain.{group}]")
        lines += [f"{name} = {_toml(value)}" for name, value in factors.items()]
    return "\n".join(lines)


def _toml(value: Any) -> str:
    """Return a number, a word or a distribution as TOML has it."""
    if not isinstance(value, dict):
        return json.dumps(value)
    return f"{{ {', '.join(f'{name} = {json.dumps(part)}' for name, part in value.items())} }}"


def compare(truth: Truth, fit: CameraFit) -> dict[str, Any]:
    """Return truth, estimate and interval of each number that was told and means the same in both.

    Words, as of how a JPEG stores colour, have no interval. The exposure's truth is that of the median
    picture.
    """
    found: dict[str, Any] = {}
    camera = truth.cameras[0]
    if fit.get_estimate("sensor.red_response").value is None:
        camera = _alike(camera)
    own = {
        "sensor.exposure_ev": float(np.median([c.sensor.exposure_ev for c in truth.cameras])),
        "twist.spin_rad_s": truth.spin_rad_s,
    }
    bends = {f"lens.k{i}" for i in range(1, 7)} | {"lens.p1", "lens.p2"}
    for finding in fit.estimates:
        name = finding.name
        actual = own[name] if name in own else value_at(camera, name)
        other = name in bends and fit.lens is not None and fit.lens.kind != camera.lens.kind
        told = finding.ci95 is not None or isinstance(finding.value, str)
        if told and actual is not None and not other:
            found[name] = {"truth": actual, "value": finding.value}
            if finding.ci95 is not None:
                found[name]["ci95"] = list(finding.ci95)
    return found


def _alike(camera: Camera) -> Camera:
    """Return a camera with the electrons of a sensor that is as noisy, but in all colours alike."""
    sensor = camera.sensor
    red, blue = sensor.red_response / sensor.red_gain, sensor.blue_response / sensor.blue_gain
    electrons, read = compute_green_ratios(np.array([red, 1.0, blue]))
    full, noise = sensor.full_well_e / float(electrons), sensor.read_noise_e / float(read)
    return replace(camera, sensor=replace(sensor, full_well_e=full, read_noise_e=noise))


def value_at(camera: Camera, path: str) -> float | str | None:
    """Return a number or a word of a camera by its dotted path; 0 where that part is left out."""
    value: Any = camera
    for name in path.split("."):
        value = getattr(value, name, 0.0) if value is not None else 0.0
    return value if isinstance(value, int | float | str) else None


def summary(cameras: dict[str, Any]) -> dict[str, Any]:
    """Return of each parameter in how many cameras it was told, how well, and how often rightly sure."""
    names = sorted({name for camera in cameras.values() for name in camera} - {FAILED})
    found: dict[str, Any] = {}
    for name in names:
        told = [camera[name] for camera in cameras.values() if name in camera]
        numbers = [entry for entry in told if "ci95" in entry]
        inside = [_holds(entry) for entry in told]
        errors = [abs(entry["value"] - entry["truth"]) for entry in numbers]
        widths = [entry["ci95"][1] - entry["ci95"][0] for entry in numbers]
        found[name] = {
            "told": len(told),
            "median_error": float(np.median(errors)) if errors else None,
            "median_width": float(np.median(widths)) if widths else None,
            "covered": estimate_proportion(sum(inside), len(inside)).to_json(),
        }
    return found


def _holds(entry: dict[str, Any]) -> bool:
    """Return whether the interval holds the truth, or the word is the true one."""
    if "ci95" not in entry:
        return bool(entry["value"] == entry["truth"])
    return bool(entry["ci95"][0] <= entry["truth"] <= entry["ci95"][1])


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
