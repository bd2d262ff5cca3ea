"""What fitting a camera and translating are worth on hidden cameras: equal trainings, scored on each.

    python benchmarks/hidden.py [--cameras N ...] [--arms NAME ...] [--work DIR] [--at-once N] [--minutes M]

Three cameras, none of them the stand-in that ships: lens, sensor, tone, table and light of each are drawn
from a seed. They take path-traced pictures, so that there is a gap between these and what is trained on:
60 without labels, from which each camera is told and looks are learned, and 200 that are scored. Pictures,
data and trainings go to ``--work`` and are resumed; the scores go to ``benchmarks/results/hidden.json``, in
which cameras that are not measured now stay as they were. With ``--minutes`` no picture set, data set or
training is started after that time, with ``--arms`` none of another arm; what there is is scored.

Each picture takes about 17 s of one core, and 3 s where ``DRJIT_LIBLLVM_PATH`` names a library of LLVM 19 or
later; each data set about ten minutes, each translator twenty, and each training ten: renders with cameras as
drawn are made and trained on once for all three. Needs ``pip install "sim2cam[reference]"``.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import tyro
from calibrate import hidden_numbers, recipe_text
from dice import PLAN
from make_standin import SAMPLES, make_sets
from scoring_log import RESULTS
from sites import ADAPTED, Site, run_arm

from sim2cam import images
from sim2cam.data.environment import collect_environment
from sim2cam.data.reader import read_dataset
from sim2cam.data.real_images import split_real_images
from sim2cam.data.sample import Dataset
from sim2cam.data.writer import write_json
from sim2cam.experiments.ablation import PREDICTIONS_FOLDER, AblationPlan
from sim2cam.experiments.ablation_scores import BASELINE, score_ablation
from sim2cam.experiments.isp_features import compare_isp_features, extract_isp_features
from sim2cam.files import write_bytes
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.seeds import derive_rng

CAMERAS = 3
PICTURES = {"style": 60, "test": 200}
SIZE_PX = (384, 384)
STANDIN = Path(__file__).with_name("standin.toml")
HIDDEN = replace(
    PLAN, variants=tuple(arm for arm in PLAN.variants if arm.data in ADAPTED), seeds=(0,)
)


@dataclass(frozen=True)
class Arguments:
    """What is made now."""

    cameras: tuple[int, ...] = tuple(range(CAMERAS))
    """Of which cameras, by their numbers."""
    work: Path = Path("runs/hidden")
    """Pictures, data sets and trainings."""
    at_once: int = 2
    """Pictures and trainings side by side, one thread each."""
    minutes: float = 1e9
    """Start nothing after so many minutes."""
    arms: tuple[str, ...] = tuple(arm.name for arm in HIDDEN.variants)
    """What is trained, by names in the table."""
    out: Path = RESULTS
    """Folder of the results."""


def main(arguments: Arguments, plan: AblationPlan = HIDDEN) -> None:
    """Make what is missing, camera by camera, and writes the scores of what there is of each."""
    if strangers := set(arguments.cameras).difference(range(CAMERAS)):
        raise SystemExit(f"--cameras: there is no {', '.join(map(str, sorted(strangers)))}")
    if unknown := set(arguments.arms).difference(arm.name for arm in plan.variants):
        raise SystemExit(f"--arms: there is no {', '.join(sorted(unknown))}")
    start = time.monotonic()

    def left() -> float:
        return arguments.minutes - (time.monotonic() - start) / 60

    for number in arguments.cameras:
        root = arguments.work / f"camera-{number}"
        if left() > 0:
            make_pictures(number, root / "photos", arguments.at_once)
            site = site_of(root)
            for arm in plan.variants:
                if arm.name in arguments.arms and left() > 0:
                    run_arm(plan, arm, site, at_once=arguments.at_once, minutes=left())
        if not any((root / PREDICTIONS_FOLDER).glob("*.json.gz")):
            continue  # nothing is scored yet: what was measured before stays
        made = {
            "camera": number,
            "environment": collect_environment(None, arguments.at_once),
            **scored(plan, number, site_of(root)),
        }
        write_measured(arguments.out / "hidden.json", made)
        print(f"camera {number}: {_words(made)}", flush=True)


def write_measured(path: Path, made: dict[str, Any]) -> None:
    """Write what was measured of a camera beside what is known of the others."""
    before = json.loads(path.read_text(encoding="utf-8"))["cameras"] if path.is_file() else []
    found = {one["camera"]: one for one in (*before, made)}
    protocol = {"images": PICTURES, "size_px": SIZE_PX, "paths": SAMPLES}
    write_json(path, {"protocol": protocol, "cameras": [found[one] for one in sorted(found)]})


def make_pictures(number: int, folder: Path, at_once: int) -> None:
    """Make the captures of a hidden camera, as far as they are missing."""
    path = folder.with_name("hidden.toml")
    write_bytes(path, hidden_recipe(number).encode())
    make_sets(load_recipe(str(path)), number, PICTURES, folder, at_once=at_once)


def hidden_recipe(number: int) -> str:
    """Return the recipe of a hidden camera, and of the table and the light that are usual where it is."""
    numbers = hidden_numbers(derive_rng(number, "hidden stand-in"))
    for group, factors in habits(derive_rng(number, "hidden stand-in/habits")).items():
        numbers[group] = numbers.get(group, {}) | factors
    return recipe_text(numbers, SIZE_PX, STANDIN)


def habits(rng: np.random.Generator) -> dict[str, dict[str, Any]]:
    """Return the factors, by group, of where a camera is used: narrow ranges around what is drawn."""

    def near(low: float, high: float, half: float) -> dict[str, Any]:
        middle = rng.uniform(low, high)
        return {"kind": "uniform", "low": middle - half, "high": middle + half}

    exposure = float(rng.uniform(-0.6, 0.2))
    return {
        "view": {"die_px": {"kind": "uniform", "low": 30.0, "high": 60.0}},
        "table": {
            "family": str(rng.choice(["wood", "fbm", "value", "stains"])),
            "hue": near(0.05, 0.95, 0.04),
            "saturation": near(0.1, 0.6, 0.1),
            "value": near(0.3, 0.8, 0.1),
        },
        "light": {"sky_level": near(0.1, 0.5, 0.05), "warmth": near(-0.4, 0.5, 0.15)},
        "lamp": {
            "level": near(0.8, 2.2, 0.3),
            "elevation_rad": near(0.6, 1.2, 0.15),
            "radius_rad": near(0.1, 0.4, 0.05),
            "warmth": near(-0.2, 0.5, 0.15),
        },
        "exposure": {
            "exposure_ev": {
                "kind": "normal", "mean": exposure, "std": 0.15,
                "low": exposure - 0.4, "high": exposure + 0.4,
            },
        },
    }  # fmt: skip


def site_of(root: Path) -> Site:
    """Return the site of a camera, whose captures are there, by the folder of all that is its own."""
    captures = split_real_images(root / "photos", origin="stand-in")
    return Site(captures, root, root.with_name("shared"), root / PREDICTIONS_FOLDER)


def scored(plan: AblationPlan, number: int, site: Site) -> dict[str, Any]:
    """Return the scores of a camera's arms, and how well the looks of their renders are told from its own."""
    own = imprints_of(site.captures.style)
    places = {
        arm.name: site.folder_of(arm) / arm.data[-1]
        for arm in plan.variants
        if not arm.fine_tuning_data
    }
    made = {name: read_dataset(place) for name, place in places.items() if place.is_dir()}
    gaps = {
        name: compare_isp_features(own, imprints_of(pictures), number)
        for name, pictures in made.items()
        if pictures.samples  # else a translator has passed none
    }
    return {
        **score_ablation(plan, site.captures, site.predictions, baseline=BASELINE),
        "isp_gaps": {
            arm: {step: gap.to_json() for step, gap in found.items()} for arm, found in gaps.items()
        },
    }


def imprints_of(pictures: Dataset) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the imprints (n, ...) of the first pictures, as many as there are without labels."""
    return np.array(
        [
            extract_isp_features(images.read_rgb(s.rgb))
            for s in islice(pictures.samples, PICTURES["style"])
        ]
    )


def _words(found: Mapping[str, Any]) -> str:
    return ", ".join(f"{arm['name']} AP50 {arm['ap50']['value']:.3f}" for arm in found["variants"])


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
