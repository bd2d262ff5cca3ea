"""Benefit of camera fitting and translation on hidden cameras, with equal training.

    python benchmarks/hidden.py [--cameras N ...] [--arms NAME ...] [--work DIR] [--at-once N] [--minutes M]

Lens, sensor, tone, table and light of three cameras are sampled from a seed; none is the shipped stand-in
camera. Their images are path-traced, so that there is a gap to the rasterized training images: 60
unlabelled images for camera fits and translators, and 200 test images. Images, datasets and training runs
go to ``--work`` and are resumed. Scores go to ``benchmarks/results/hidden.json``, which keeps the results
of other cameras. Nothing is started after ``--minutes``. ``--arms`` selects variants. Existing results
are always scored.

An image takes about 17 s of one core, or 3 s if ``DRJIT_LIBLLVM_PATH`` names LLVM 19 or later. A dataset
takes about ten minutes, a translator twenty, a training run ten. Renders with sampled cameras and their
training are shared by the three cameras. Needs ``pip install "sim2cam[reference]"``.
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
from calibrate import format_recipe, sample_camera_factors
from dice import PLAN
from make_standin import SAMPLES, make_sets
from result_files import RESULTS, write_results
from sites import ADAPTED, Site, run_variant

from sim2cam import images
from sim2cam.data.environment import collect_environment
from sim2cam.data.reader import read_dataset
from sim2cam.data.real_images import split_real_images
from sim2cam.data.sample import Dataset
from sim2cam.experiments.ablation import PREDICTIONS_FOLDER, AblationPlan
from sim2cam.experiments.ablation_scores import BASELINE, score_ablation
from sim2cam.experiments.isp_features import compare_isp_features, extract_isp_features
from sim2cam.files import write_bytes
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.seeds import derive_rng

CAMERAS = 3
IMAGE_COUNTS = {"style": 60, "test": 200}
SIZE_PX = (384, 384)
STANDIN = Path(__file__).with_name("standin.toml")
HIDDEN = replace(
    PLAN,
    variants=tuple(variant for variant in PLAN.variants if variant.data in ADAPTED),
    seeds=(0,),
)


@dataclass(frozen=True)
class Arguments:
    """Options of the benchmark."""

    cameras: tuple[int, ...] = tuple(range(CAMERAS))
    """Numbers of the cameras."""
    work: Path = Path("runs/hidden")
    """Folder of images, datasets and training runs."""
    at_once: int = 2
    """Images and training runs in parallel, one thread each."""
    minutes: float = 1e9
    """Start nothing after this many minutes."""
    arms: tuple[str, ...] = tuple(variant.name for variant in HIDDEN.variants)
    """Variants to train."""
    out: Path = RESULTS
    """Folder of the results."""


def main(arguments: Arguments, plan: AblationPlan = HIDDEN) -> None:
    """Run missing jobs of each camera and write the scores of all results."""
    if cameras := set(arguments.cameras).difference(range(CAMERAS)):
        raise SystemExit(f"--cameras: unknown cameras: {', '.join(map(str, sorted(cameras)))}.")
    if unknown := set(arguments.arms).difference(variant.name for variant in plan.variants):
        raise SystemExit(f"--arms: unknown variants: {', '.join(sorted(unknown))}.")
    start = time.monotonic()

    def remaining_minutes() -> float:
        return arguments.minutes - (time.monotonic() - start) / 60

    for number in arguments.cameras:
        root = arguments.work / f"camera-{number}"
        if remaining_minutes() > 0:
            make_images(number, root / "photos", arguments.at_once)
            site = get_site(root)
            for variant in plan.variants:
                if variant.name in arguments.arms and remaining_minutes() > 0:
                    run_variant(
                        plan, variant, site, at_once=arguments.at_once, minutes=remaining_minutes()
                    )
        if not any((root / PREDICTIONS_FOLDER).glob("*.json.gz")):
            continue  # without predictions, keep earlier results
        measured = {
            "camera": number,
            "environment": collect_environment(None, arguments.at_once),
            **score(plan, number, get_site(root)),
        }
        write_measured(arguments.out / "hidden.json", measured)
        print(f"camera {number}: {_format_scores(measured)}", flush=True)


def write_measured(path: Path, measured: dict[str, Any]) -> None:
    """Write the results of a camera; keep those of the other cameras."""
    before = json.loads(path.read_text(encoding="utf-8"))["cameras"] if path.is_file() else []
    results = {result["camera"]: result for result in (*before, measured)}
    protocol = {"images": IMAGE_COUNTS, "size_px": SIZE_PX, "paths": SAMPLES}
    write_results(
        path, {"protocol": protocol, "cameras": [results[number] for number in sorted(results)]}
    )


def make_images(number: int, folder: Path, at_once: int) -> None:
    """Render the missing images of a hidden camera."""
    path = folder.with_name("hidden.toml")
    write_bytes(path, format_hidden_recipe(number).encode())
    make_sets(load_recipe(str(path)), number, IMAGE_COUNTS, folder, at_once=at_once)


def format_hidden_recipe(number: int) -> str:
    """Return the recipe of a hidden camera with its usual table and light."""
    camera_factors = sample_camera_factors(derive_rng(number, "hidden stand-in"))
    for group, factors in sample_habits(derive_rng(number, "hidden stand-in/habits")).items():
        camera_factors[group] = camera_factors.get(group, {}) | factors
    return format_recipe(camera_factors, SIZE_PX, STANDIN)


def sample_habits(rng: np.random.Generator) -> dict[str, dict[str, Any]]:
    """Sample the factors of a camera's place of use, by group: narrow ranges around random values."""

    def sample_range(low: float, high: float, half: float) -> dict[str, Any]:
        middle = rng.uniform(low, high)
        return {"kind": "uniform", "low": middle - half, "high": middle + half}

    exposure = float(rng.uniform(-0.6, 0.2))
    return {
        "view": {"die_px": {"kind": "uniform", "low": 30.0, "high": 60.0}},
        "table": {
            "family": str(rng.choice(["wood", "fbm", "value", "stains"])),
            "hue": sample_range(0.05, 0.95, 0.04),
            "saturation": sample_range(0.1, 0.6, 0.1),
            "value": sample_range(0.3, 0.8, 0.1),
        },
        "light": {"sky_level": sample_range(0.1, 0.5, 0.05), "warmth": sample_range(-0.4, 0.5, 0.15)},
        "lamp": {
            "level": sample_range(0.8, 2.2, 0.3),
            "elevation_rad": sample_range(0.6, 1.2, 0.15),
            "radius_rad": sample_range(0.1, 0.4, 0.05),
            "warmth": sample_range(-0.2, 0.5, 0.15),
        },
        "exposure": {
            "exposure_ev": {
                "kind": "normal", "mean": exposure, "std": 0.15,
                "low": exposure - 0.4, "high": exposure + 0.4,
            },
        },
    }  # fmt: skip


def get_site(root: Path) -> Site:
    """Return the site of a camera from its folder."""
    splits = split_real_images(root / "photos", origin="stand-in")
    return Site(splits, root, root.with_name("shared"), root / PREDICTIONS_FOLDER)


def score(plan: AblationPlan, number: int, site: Site) -> dict[str, Any]:
    """Return the scores of a camera's variants and the ISP-feature gaps of their renders."""
    reference_features = extract_features(site.captures.style)
    places = {
        variant.name: site.get_folder(variant) / variant.data[-1]
        for variant in plan.variants
        if not variant.fine_tuning_data
    }
    measured = {name: read_dataset(place) for name, place in places.items() if place.is_dir()}
    gaps = {
        name: compare_isp_features(reference_features, extract_features(dataset), number)
        for name, dataset in measured.items()
        if dataset.samples  # empty if a translator passed no image
    }
    return {
        **score_ablation(plan, site.captures, site.predictions, baseline=BASELINE),
        "isp_gaps": {
            name: {stage: gap.to_json() for stage, gap in stages.items()}
            for name, stages in gaps.items()
        },
    }


def extract_features(dataset: Dataset) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the ISP features (n, ...) of the first images; n is at most the number of unlabelled images."""
    return np.array(
        [
            extract_isp_features(images.read_rgb(s.rgb))
            for s in islice(dataset.samples, IMAGE_COUNTS["style"])
        ]
    )


def _format_scores(scores: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{variant['name']} AP50 {variant['ap50']['value']:.3f}" for variant in scores["variants"]
    )


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
