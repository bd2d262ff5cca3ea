"""Training of the shipped dice weights from renders and unlabelled photos.

    python benchmarks/make_weights.py [--work DIR] [--threads N]

Uses the datasets of the variant "+ transfer" of ``benchmarks/dice.py`` in the same folder. Pseudo-labels
of the style photos are added to the renders of a second training
(``docs/decisions/0019-adaptation-and-few-labels.md``), and to frontal and oblique renders of a third
(``docs/decisions/0025-shipped-weights.md``). The development photos select input scale and box
expansion and calibrate confidence and OOD detection. Their scores are stored in the card.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import tyro
from dice import PLAN, read_splits
from scoring_log import locate_real_dataset

from sim2cam.data.reader import read_dataset
from sim2cam.data.real_images import read_real_images
from sim2cam.data.sample import Dataset
from sim2cam.experiments.ablation import RANDOMIZED, Variant, prepare_data
from sim2cam.experiments.benchmark import bench
from sim2cam.learn.device import use_threads
from sim2cam.learn.trainer import Callbacks
from sim2cam.models.inference.detector import (
    SHIPPED_WEIGHTS,
    AnyDetector,
    load_detector,
    require_native_detector,
    save_detector,
)
from sim2cam.models.reliability.measurement import calibrate_detector, fit_training_distribution
from sim2cam.models.training.config import TrainConfig
from sim2cam.models.training.datasets import WeightedDatasets
from sim2cam.models.training.pseudo_labels import pseudo_label
from sim2cam.models.training.setup import AuxiliaryData
from sim2cam.models.training.training import WEIGHTS, TrainProgress, train_detector
from sim2cam.models.training.tuning import tune_detector
from sim2cam.pipeline.generation import generate
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.progress import ignore_progress

CONFIG = replace(PLAN.config, steps=10_000)
SHARES = {RANDOMIZED: 2.0, "reinhard": 1.0}  # shares of training crops
PSEUDO_LABEL_STEPS = 1_000  # steps of the second training
PSEUDO_LABEL_SHARE = 3.0  # share of photos in its crops
OBLIQUE, OBLIQUE_COUNT, OBLIQUE_SEED = Path(__file__).parent / "oblique.toml", 1_600, 11
"""Recipe, number and seed of the oblique renders.

Training crops are in equal parts oblique renders, other renders and photos.
"""


@dataclass(frozen=True)
class Arguments:
    """Options of the training."""

    work: Path = Path("runs/ladder")
    """Folder of datasets and training runs; both are resumed."""
    threads: int = 2
    """Threads, and worker processes of rendering."""


def main(arguments: Arguments) -> None:
    """Render, translate, train three times with pseudo-labels, tune and write weights and card."""
    datasets = prepare_datasets(SHARES, arguments.work, arguments.threads)
    use_threads(arguments.threads)
    run = arguments.work / "runs" / "shipped"
    train_detector(datasets, CONFIG, run, resume=True, callbacks=Callbacks(log=print_progress))
    second_run, third_run = run.with_name("shipped-own"), run.with_name("shipped-oblique")
    dev = read_real_images(locate_real_dataset("dice") / "dev.json")
    fine_tune(
        (*datasets, (pseudo_label_style_photos(run, dev), PSEUDO_LABEL_SHARE)),
        replace(CONFIG, steps=PSEUDO_LABEL_STEPS),
        run,
        second_run,
    )
    renders = read_dataset(arguments.work / RANDOMIZED)
    datasets = tuple(
        (dataset, 1.0)
        for dataset in (
            renders,
            generate_oblique(arguments),
            pseudo_label_style_photos(second_run, dev),
        )
    )
    config = replace(load_recipe(str(OBLIQUE)).train, cache_bytes=CONFIG.cache_bytes)
    fine_tuned = fine_tune(datasets, config, second_run, third_run)
    trained = require_native_detector(fine_tuned, "features")
    trained = replace(
        trained, feature_distribution=fit_training_distribution(trained, datasets, config)
    )
    detector = calibrate_detector(tune_detector(trained, dev), dev, "validation images")
    metrics = {"dice development photos": bench(detector, dev).score.to_json()}
    path = SHIPPED_WEIGHTS / "dice.safetensors"
    card = replace(detector.card, metrics=metrics, licence="Apache-2.0")
    save_detector(path, detector.network.state_dict(), card, detector.feature_distribution)
    print(f"{path}: AP50 on the development photos {metrics['dice development photos']['ap50']}")


def pseudo_label_style_photos(run: Path, dev: Dataset) -> Dataset:
    """Return the style photos with pseudo-labels of a trained detector."""
    trained = load_detector(run / WEIGHTS)
    return pseudo_label(
        calibrate_detector(tune_detector(trained, dev), dev, "validation images"),
        read_splits().style,
    )


def fine_tune(
    datasets: WeightedDatasets, config: TrainConfig, initial: Path, run: Path
) -> AnyDetector:
    """Train a detector from the weights of an earlier run."""
    auxiliary_data = AuxiliaryData(initial_weights=initial / WEIGHTS)
    return train_detector(
        datasets,
        config,
        run,
        auxiliary_data=auxiliary_data,
        resume=True,
        callbacks=Callbacks(log=print_progress),
    )


def generate_oblique(arguments: Arguments) -> Dataset:
    """Return oblique renders of dice; render missing ones."""
    return generate(
        load_recipe(str(OBLIQUE)), arguments.work / "oblique", count=OBLIQUE_COUNT, seed=OBLIQUE_SEED,
        workers=arguments.threads, resume=True, overwrite=False, progress=ignore_progress,
    )  # fmt: skip


def prepare_datasets(shares: dict[str, float], work: Path, threads: int) -> WeightedDatasets:
    """Return datasets of the ablation study with their shares; generate missing ones."""
    variant = Variant("weights that ship", tuple(shares))
    prepare_data(replace(PLAN, variants=(variant,)), read_splits(), work, workers=threads)
    return tuple((read_dataset(work / name), share) for name, share in shares.items())


def print_progress(line: TrainProgress) -> None:
    """Print progress every 200 steps."""
    if line.step % 200 == 0:
        left = (line.steps - line.step) * line.step_s / 60
        print(f"{time.strftime('%X')} step {line.step}, {left:.0f} min left, {line.losses}")


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
