"""Training of the shipped dice weights from renders, photographs of other places, and unlabelled photos of dice.

    python benchmarks/make_weights.py [--work DIR] [--threads N]

The first training takes renders of the recipe ``dice`` and renders seen from the side; photographs that
``sim2cam fetch backgrounds`` stored are its backgrounds. The second adds the style photos with pseudo-labels of
the first (``docs/decisions/0019-adaptation-and-few-labels.md``). No label of a photo tunes the boxes or the input
scale: labelled development photos, together with renders that are not trained on, only calibrate confidence and
OOD detection. Their scores are stored in the card. Writes ``dice.safetensors`` and its card to ``--work``;
``benchmarks/ship.py`` decides whether they ship.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import tyro
from dice import read_splits

from sim2cam.commands.backgrounds import Backgrounds, find_backgrounds
from sim2cam.commands.console import Console
from sim2cam.data.data_folder import locate_data_folder
from sim2cam.data.photo_sources import list_photo_folders
from sim2cam.data.sample import Dataset
from sim2cam.data.set_operations import merge_datasets
from sim2cam.experiments.benchmark import bench
from sim2cam.learn.device import use_threads
from sim2cam.learn.trainer import Callbacks
from sim2cam.models.inference.detector import AnyDetector, require_native_detector, save_detector
from sim2cam.models.reliability.measurement import calibrate_detector, fit_training_distribution
from sim2cam.models.training.config import TrainConfig
from sim2cam.models.training.datasets import WeightedDatasets
from sim2cam.models.training.pseudo_labels import pseudo_label
from sim2cam.models.training.setup import AuxiliaryData
from sim2cam.models.training.training import WEIGHTS, TrainProgress, train_detector
from sim2cam.pipeline.generation import generate
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.progress import ignore_progress

FOLDER = Path(__file__).parent
RENDERS = {"dice": 1600, str(FOLDER / "oblique.toml"): 800}
"""Number of renders by recipe; each recipe gives half of the crops."""
SEED, HELD_OUT_SEED, HELD_OUT_COUNT = 100, 200, 40
CONFIG = replace(load_recipe("dice").train, steps=3000, cache_bytes=6 << 30)
PSEUDO_LABEL_SHARE = 1.0  # share of photos in the second training; each recipe has 1.0, too
FINE_TUNING = load_recipe(str(FOLDER / "oblique.toml")).train


@dataclass(frozen=True)
class Arguments:
    """Options of the training."""

    work: Path = Path("runs/weights")
    """Folder of datasets and training runs; both are resumed."""
    threads: int = 2
    """Threads, and worker processes of rendering."""


def main(arguments: Arguments) -> None:
    """Render, train twice, calibrate, and write weights and card."""
    if not list_photo_folders(locate_data_folder()):
        raise SystemExit("No background photographs. First run: sim2cam fetch backgrounds")
    renders = [render(recipe, count, SEED, arguments) for recipe, count in RENDERS.items()]
    backgrounds = find_backgrounds(renders, Console(0))
    use_threads(arguments.threads)
    datasets = tuple((dataset, 1.0) for dataset in renders)
    run = arguments.work / "first"
    first = train(datasets, CONFIG, backgrounds, run)
    splits = read_splits()
    assert splits.dev is not None
    held_out = render("dice", HELD_OUT_COUNT, HELD_OUT_SEED, arguments)
    calibration_set = merge_datasets([splits.dev, held_out])
    pseudo_labelled = pseudo_label(calibrate(first, calibration_set), splits.style)
    datasets = (*datasets, (pseudo_labelled, PSEUDO_LABEL_SHARE))
    config = replace(FINE_TUNING, cache_bytes=CONFIG.cache_bytes)
    trained = require_native_detector(
        train(datasets, config, backgrounds, arguments.work / "second", run / WEIGHTS), "features"
    )
    distribution = fit_training_distribution(trained, datasets, config)
    detector = calibrate(replace(trained, feature_distribution=distribution), calibration_set)
    metrics = {"dice development photos": bench(detector, splits.dev).score.to_json()}
    path = arguments.work / "dice.safetensors"
    card = replace(detector.card, metrics=metrics, licence="Apache-2.0")
    save_detector(path, detector.network.state_dict(), card, detector.feature_distribution)
    print(f"{path}: AP50 on the development photos {metrics['dice development photos']['ap50']}")


def render(recipe: str, count: int, seed: int, arguments: Arguments) -> Dataset:
    """Return renders of a recipe; render missing ones."""
    folder = arguments.work / f"{Path(recipe).stem}-{seed}"
    return generate(
        load_recipe(recipe), folder, count=count, seed=seed, workers=arguments.threads,
        resume=True, overwrite=False, progress=ignore_progress,
    )  # fmt: skip


def train(
    datasets: WeightedDatasets,
    config: TrainConfig,
    backgrounds: Backgrounds,
    run: Path,
    initial_weights: Path | None = None,
) -> AnyDetector:
    """Train a detector, or continue its run."""
    auxiliary_data = AuxiliaryData(
        initial_weights, background_images=backgrounds.images, background_shares=backgrounds.shares
    )
    return train_detector(
        datasets, config, run, auxiliary_data=auxiliary_data, resume=True,
        callbacks=Callbacks(log=print_progress),
    )  # fmt: skip


def calibrate(detector: AnyDetector, images: Dataset) -> AnyDetector:
    """Return the detector with confidences and OOD limits calibrated on development photos and renders."""
    return calibrate_detector(detector, images, "validation images")


def print_progress(line: TrainProgress) -> None:
    """Print progress every 200 steps."""
    if line.step % 200 == 0:
        left = (line.steps - line.step) * line.step_s / 60
        print(
            f"{time.strftime('%X')} step {line.step}, {left:.0f} min left, {line.losses}",
            flush=True,
        )


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
