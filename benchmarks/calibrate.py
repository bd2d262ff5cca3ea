"""How well calibrate tells a camera: hidden ones, all numbers drawn, take pictures and are told from them.

    python benchmarks/calibrate.py [--cameras N] [--photos N]

Writes ``calibrate.json`` to ``benchmarks/results``: of each parameter its error and how often its 95 %
interval holds the truth. Cameras that are there already are kept, so that it can be stopped and go on.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from sim2cam import images
from sim2cam.adapt.calibrate.calibrate import calibrate
from sim2cam.adapt.calibrate.camera_fit import CameraFit
from sim2cam.dataset.writer import write_json
from sim2cam.pipeline.generate import generate
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.scene.camera import Camera
from sim2cam.scene.scene import Scene
from sim2cam.seeds import stream

BASE = Path(__file__).with_name("calibrate.toml")
FISHEYES = 0.25
"""Share of the cameras whose lenses are fisheyes."""


@dataclass(frozen=True)
class Arguments:
    """How many cameras are hidden."""

    cameras: int = 200
    """Number of cameras."""
    photos: int = 16
    """Pictures that each takes; a multiple of 4."""
    out: Path = Path(__file__).parent / "results"
    """Folder of the results."""


def main(arguments: Arguments) -> None:
    """Hides, calibrates, scores and writes."""
    path = arguments.out / "calibrate.json"
    known: dict[str, Any] = (
        json.loads(path.read_text()) if path.is_file() else {"photos": arguments.photos}
    )
    done: dict[str, Any] = known.get("cameras", {}) if known["photos"] == arguments.photos else {}
    for number in range(arguments.cameras):
        if str(number) not in done:
            done[str(number)] = score(number, arguments.photos)
            facts = {"photos": arguments.photos, "summary": summary(done), "cameras": done}
            write_json(path, facts)
        print(f"camera {number}: {len(done[str(number)])} parameters", file=sys.stderr, flush=True)
    for name, found in summary(done).items():
        print(
            f"{name:32} {found['told']:4} told  error {found['median_error']:.4g}  "
            f"in interval {found['covered']:.2f}"
        )


def score(number: int, photos: int) -> dict[str, Any]:
    """Returns truth, estimate and interval of what was told of a hidden camera, by parameter."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        truth = take_photos(number, photos, root)
        fit = calibrate(root / "photos", None, stream(number, "calibrate"))
    return compare(truth, fit)


def take_photos(number: int, photos: int, root: Path) -> Camera:
    """Returns a hidden camera, whose photos are then in a folder ``photos`` and whose name tells nothing."""
    recipe = recipe_text(hidden_numbers(stream(number, "hidden camera")))
    make_photos(recipe, photos, number, root)
    scenes = next((root / "made").glob("shards/*/scenes.jsonl"))
    first = json.loads(scenes.read_text().splitlines()[0])["scene"]
    return Scene.from_json(json.dumps(first)).cameras[0]


def make_photos(recipe: str, photos: int, seed: int, root: Path) -> Path:
    """Returns a folder ``photos`` of what a recipe's camera takes; their names tell nothing."""
    path = root / "hidden.toml"
    images.write_bytes(path, recipe.encode())
    dataset = generate(
        load_recipe(str(path)), root / "made", count=photos, seed=seed, workers=1, resume=False,
        overwrite=False, progress=lambda done, total: None,
    )  # fmt: skip
    for sample in dataset.samples:
        images.write_bytes(
            root / "photos" / f"{sample.name}.jpg", (dataset.root / sample.rgb).read_bytes()
        )
    return root / "photos"


def hidden_numbers(rng: np.random.Generator) -> dict[str, dict[str, Any]]:
    """Returns the factors, by group, of one camera whose exposure alone changes."""
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
    return numbers


def recipe_text(numbers: dict[str, dict[str, Any]], size: tuple[int, int] = (640, 480)) -> str:
    """Returns a recipe with one camera, of these factors and with pictures of this size."""
    lines = [f'base = "{BASE}"', 'name = "hidden"', "[render]"]
    lines += [f"{name} = {pixels}" for name, pixels in zip(("width", "height"), size, strict=True)]
    for group, factors in numbers.items():
        lines.append(f"[domain.{group}]")
        lines += [f"{name} = {_toml(value)}" for name, value in factors.items()]
    return "\n".join(lines)


def _toml(value: Any) -> str:
    """Returns a number, a word or a distribution as TOML has it."""
    if not isinstance(value, dict):
        return json.dumps(value)
    return f"{{ {', '.join(f'{name} = {json.dumps(part)}' for name, part in value.items())} }}"


def compare(truth: Camera, fit: CameraFit) -> dict[str, Any]:
    """Returns truth, estimate and interval of each number that was told and means the same in both."""
    found: dict[str, Any] = {}
    bends = {f"lens.k{i}" for i in range(1, 7)} | {"lens.p1", "lens.p2"}
    for finding in fit.findings:
        actual = value_at(truth, finding.name)
        varies = finding.name == "sensor.exposure_ev"  # other in each photo
        other = finding.name in bends and fit.lens is not None and fit.lens.kind != truth.lens.kind
        if finding.ci95 is not None and actual is not None and not (varies or other):
            found[finding.name] = {
                "truth": actual,
                "value": finding.value,
                "ci95": list(finding.ci95),
            }
    return found


def value_at(camera: Camera, path: str) -> float | None:
    """Returns a number of a camera by its dotted path; 0 where that part is left out."""
    value: Any = camera
    for name in path.split("."):
        value = getattr(value, name, 0.0) if value is not None else 0.0
    return value if isinstance(value, int | float) else None


def summary(cameras: dict[str, Any]) -> dict[str, Any]:
    """Returns of each parameter in how many cameras it was told, how well, and how often rightly sure."""
    names = sorted({name for camera in cameras.values() for name in camera})
    found: dict[str, Any] = {}
    for name in names:
        told = [camera[name] for camera in cameras.values() if name in camera]
        errors = [abs(entry["value"] - entry["truth"]) for entry in told]
        inside = [entry["ci95"][0] <= entry["truth"] <= entry["ci95"][1] for entry in told]
        widths = [entry["ci95"][1] - entry["ci95"][0] for entry in told]
        found[name] = {
            "told": len(told),
            "median_error": float(np.median(errors)),
            "median_width": float(np.median(widths)),
            "covered": float(np.mean(inside)),
        }
    return found


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
