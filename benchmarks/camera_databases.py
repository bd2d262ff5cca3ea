"""Compare cameras of public databases with the ranges of shipped recipes.

    python benchmarks/camera_databases.py [--recipe RECIPE] [--sheet PATH] [--renders PLAIN DATABASE]

Reads the installed noise profiles of darktable and lens profiles of Lensfun. Writes percentiles to
``benchmarks/results/camera_databases.json`` and a figure to the documentation. ``--sheet`` also renders one scene of the
recipe with twelve real cameras. ``--renders`` names two rendered datasets of the recipe, without and with ``sensor`` and
``lens`` from the databases, and compares ISP features of their first images with the photos of ``$SIM2CAM_REAL/dice/dev.json``.
No label is read.
"""

from __future__ import annotations

import io
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image
from rendering.sheet import write_contact_sheet
from result_files import FIGURES, RESULTS, locate_real_dataset, write_results

from sim2cam import images
from sim2cam.data.camera_databases.installed import find_lens_database, find_noise_database
from sim2cam.data.camera_databases.lens_conversion import compute_focal_px, convert_lens
from sim2cam.data.camera_databases.lens_profiles import read_lens_profiles
from sim2cam.data.camera_databases.noise_profiles import read_noise_profiles
from sim2cam.data.reader import read_dataset
from sim2cam.data.real_images import read_real_images
from sim2cam.data.sample import Sample
from sim2cam.experiments.domain_gap import shrink_to_width
from sim2cam.experiments.isp_features import compare_isp_features, extract_isp_features
from sim2cam.pipeline.database_cameras import CAMERA_COUNT
from sim2cam.pipeline.recipe import Recipe, load_recipe, parse_recipe
from sim2cam.pipeline.scene_sampling import simulate_scene
from sim2cam.randomize.distributions import Column
from sim2cam.randomize.sampling import sample_factors
from sim2cam.render.renderer import get_renderer

LEVELS = (0.05, 0.4)
"""Linear levels at which noise is compared: a shadow and a bright surface; 1 is saturation."""

ISOS = (100, 200, 400, 800, 1600, 3200, 6400, 12800)
PERCENTILES = (5, 50, 95)
SCENES = 2000
"""Scenes whose sensors represent the ranges of a recipe."""

GAP_IMAGES = 96
SIZE = (640, 480)
SHEET_CAMERAS = 12

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Arguments:
    """Arguments of the comparison."""

    recipe: str = "dice"
    sheet: Path | None = None
    renders: tuple[Path, Path] | None = None


def compute_noise(full_well_e: Floats, read_noise_e: Floats, level: float) -> Floats:
    """Return the standard deviation of green (n,) over saturation."""
    return np.sqrt(level / full_well_e + (read_noise_e / full_well_e) ** 2)


def measure_database() -> list[dict[str, Any]]:
    """Return percentiles of the noise at each ISO, over cameras."""
    profiles = read_noise_profiles(find_noise_database().files[0])
    table = []
    for iso in ISOS:
        factors = [profile.to_sensor_factors() for profile in profiles if profile.iso == iso]
        electrons = np.array([f["full_well_e"] for f in factors])
        read_noise = np.array([f["read_noise_e"] for f in factors])
        table.append({"iso": iso, "profiles": len(factors), **summarize(electrons, read_noise)})
    return table


def measure_recipe(name: str) -> dict[str, list[float]]:
    """Return percentiles of the noise of a recipe by level."""
    recipe = load_recipe(name)
    values = [sample_factors(recipe.domain, 0, i, views=1).values for i in range(SCENES)]
    return summarize(
        np.array([v["sensor/0/full_well_e"] for v in values]),
        np.array([v["sensor/0/read_noise_e"] for v in values]),
    )


def summarize(full_well_e: Floats, read_noise_e: Floats) -> dict[str, list[float]]:
    """Return percentiles of noise, electrons at saturation and read noise."""
    columns = {
        f"noise at {level:g}": compute_noise(full_well_e, read_noise_e, level) for level in LEVELS
    }
    columns |= {"full_well_e": full_well_e, "read_noise_e": read_noise_e}
    return {
        name: [float(f"{value:.3g}") for value in np.percentile(column, PERCENTILES)]
        for name, column in columns.items()
    }


def count_lenses(recipe: str) -> dict[str, int]:
    """Return how many lenses and focal lengths of the database a recipe can use."""
    column = load_recipe(recipe).domain.get_factor("view/fov_rad")
    low, high = map(float, column.compute_extremes(lambda path: ()))
    counts: Counter[str] = Counter()
    models = set()
    for profile in read_lens_profiles(find_lens_database().files):
        counts["focal lengths with all three calibrations"] += 1
        fov_rad = 2 * math.atan(SIZE[0] / 2 / compute_focal_px(profile, *SIZE))
        if low <= fov_rad <= high:
            counts["in the field of view"] += 1
            if any(convert_lens(profile, entry, *SIZE) for entry in profile.vignettings):
                counts["converted"] += 1
                models.add(profile.model)
    return dict(counts) | {"lenses converted": len(models)}


def plot(database: list[dict[str, Any]], recipe: dict[str, list[float]], path: Path) -> None:
    """Draw noise against ISO, with the range of the recipe as a band."""
    figure = Figure(figsize=(7.2, 2.9), layout="constrained")
    for axes, level in zip(figure.subplots(1, 2, sharey=True), LEVELS, strict=True):
        name = f"noise at {level:g}"
        low, median, high = np.array([entry[name] for entry in database]).T * 100
        isos = [entry["iso"] for entry in database]
        axes.fill_between(isos, low, high, color="#1f77b4", alpha=0.25, lw=0)
        axes.plot(isos, median, "o-", color="#1f77b4", ms=3, label="real cameras, 5-95 %")
        band = np.array(recipe[name]) * 100
        axes.axhspan(band[0], band[2], color="#ff7f0e", alpha=0.2, lw=0)
        axes.axhline(band[1], color="#ff7f0e", label="recipe dice, 5-95 %")
        axes.set(xscale="log", yscale="log", xlabel="ISO", title=f"linear level {level:g}")
        axes.set_xticks(isos, [str(iso) for iso in isos], fontsize=7)
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel("noise, % of saturation")
    figure.axes[0].set_yticks([0.1, 0.3, 1, 3, 10], ["0.1", "0.3", "1", "3", "10"])
    figure.axes[1].legend(fontsize=7, loc="upper left")
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=85)
    Image.open(drawn).convert("RGB").quantize(24).save(path, optimize=True)  # 24 colours: small


def measure_isp_gaps(renders: tuple[Path, Path]) -> dict[str, Any]:
    """Return the AUC of ISP features between photos and each dataset, by image-formation stage."""
    photos = read_real_images(locate_real_dataset("dice") / "dev.json").samples
    names = ("ranges of the recipe", "camera databases")
    datasets = [read_dataset(folder).samples[:GAP_IMAGES] for folder in renders]
    width = datasets[0][0].width
    real = extract_features(photos, width)
    gaps = {
        name: compare_isp_features(extract_features(samples, width), real, seed=0)
        for name, samples in zip(names, datasets, strict=True)
    }
    return {
        "photos": len(photos),
        "renders": GAP_IMAGES,
        "cameras": [
            {"name": name, "stages": {stage: gap.to_json() for stage, gap in stages.items()}}
            for name, stages in gaps.items()
        ],
    }


def extract_features(samples: Sequence[Sample], width: int) -> Floats:
    """Return the ISP features (n, features) of images scaled to a width."""
    return np.array(
        [
            extract_isp_features(shrink_to_width(images.read_rgb(sample.rgb), width))
            for sample in samples
        ]
    )


def write_sheet(name: str, path: Path) -> None:
    """Render one scene with twelve cameras of the databases."""
    tables = {"base": name, "render": {"views": 1, "channels": []}}
    databases = {"sensor": {"kind": "database"}, "lens": {"kind": "database"}}
    recipe = parse_recipe(tables | databases)
    settled = simulate_scene(recipe, seed=0, index=4)
    tiles = []
    for row in np.linspace(0, CAMERA_COUNT, SHEET_CAMERAS, endpoint=False).astype(int):
        values = dict(settled.sampled_values.values) | select_row(recipe, int(row))
        (camera,) = recipe.compose_scene(replace(settled.sampled_values, values=values)).cameras
        with get_renderer().open(settled.scene) as stage:
            frame = stage.shoot(camera, ())
        assert camera.model is not None
        print(camera.model.sensor, camera.model.lens, sep=" | ")
        tiles.append((camera.model.sensor or "", images.decode_image(frame.image)))
    write_contact_sheet(path, tiles, columns=4)


def select_row(recipe: Recipe, row: int) -> dict[str, float | int | str | bool]:
    """Return the values of the first camera in a row of the databases."""
    return {
        f"{group}/0/{factor}": column.values[row]
        for group, factor, column in recipe.domain.iterate_factors()
        if isinstance(column, Column)
    }


def main(arguments: Arguments) -> None:
    """Write percentiles, figure and sheet."""
    database, recipe = measure_database(), measure_recipe(arguments.recipe)
    results: dict[str, Any] = {
        "percentiles": PERCENTILES,
        "sensors": database,
        "recipe": {"name": arguments.recipe, **recipe},
        "lenses": count_lenses(arguments.recipe),
    }
    if arguments.renders is not None:
        results["isp"] = measure_isp_gaps(arguments.renders)
    write_results(RESULTS / "camera_databases.json", results)
    plot(database, recipe, FIGURES / "camera-databases.png")
    if arguments.sheet is not None:
        write_sheet(arguments.recipe, arguments.sheet)


if __name__ == "__main__":
    main(tyro.cli(Arguments))
