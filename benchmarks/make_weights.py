"""Makes the weights that ship, from renders and from photos that nobody labelled for it.

    python benchmarks/make_weights.py [--work DIR] [--threads N]

The data are those of the ladder's arm "+ transfer" (``benchmarks/dice.py``), made in the same folder.
What the training then finds in the style photos is learned in a second one, beside the renders
(``docs/decisions/0056-learning-from-own-labels.md``), and what that finds in a third, beside the renders and others of dice seen from the side
(``docs/decisions/0079-dice-from-the-side.md``). The development photos choose magnification and box margin, and tell when not to trust it; their scores go
into the card.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import tyro
from dice import PLAN, splits
from scoring_log import real_folder

from sim2cam.data.reader import read_dataset
from sim2cam.data.real_images import read_real_images
from sim2cam.data.sample import Dataset
from sim2cam.experiments.ablation import RANDOMIZED, Variant, prepare_data
from sim2cam.experiments.benchmark import bench
from sim2cam.learn.device import use_threads
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

CONFIG = replace(PLAN.config, steps=10_000)
SHARES = {RANDOMIZED: 2.0, "reinhard": 1.0}  # of the crops
OWN_STEPS, OWN_SHARE = 1_000, 3.0  # of the second training, and of its crops of photos
OBLIQUE, OBLIQUE_COUNT, OBLIQUE_SEED = Path(__file__).parent / "oblique.toml", 1_600, 11
"""Recipe, number and seed of the renders from the side; a third each of the crops are of these, of others, of photos."""


@dataclass(frozen=True)
class Arguments:
    """Where it is made."""

    work: Path = Path("runs/ladder")
    """Data sets and trainings; both are resumed."""
    threads: int = 2
    """Threads, and processes of the rendering."""


def main(arguments: Arguments) -> None:
    """Render, translates, trains, labels, trains again, tunes and writes weights and card."""
    parts = parts_of(SHARES, arguments.work, arguments.threads)
    use_threads(arguments.threads)
    run = arguments.work / "runs" / "shipped"
    train_detector(parts, CONFIG, run, resume=True, progress=tell)
    own, oblique = run.with_name("shipped-own"), run.with_name("shipped-oblique")
    dev = read_real_images(real_folder("dice") / "dev.json")
    go_on((*parts, (found_by(run, dev), OWN_SHARE)), replace(CONFIG, steps=OWN_STEPS), run, own)
    renders = read_dataset(arguments.work / RANDOMIZED)
    parts = tuple((one, 1.0) for one in (renders, seen_aside(arguments), found_by(own, dev)))
    config = replace(load_recipe(str(OBLIQUE)).train, cache_bytes=CONFIG.cache_bytes)
    last = go_on(parts, config, own, oblique)
    trained = require_native_detector(last, "features")
    trained = replace(
        trained, feature_distribution=fit_training_distribution(trained, parts, config)
    )
    detector = calibrate_detector(tune_detector(trained, dev), dev, "validation images")
    metrics = {"dice development photos": bench(detector, dev).score.to_json()}
    path = SHIPPED_WEIGHTS / "dice.safetensors"
    card = replace(detector.card, metrics=metrics, licence="Apache-2.0")
    save_detector(path, detector.network.state_dict(), card, detector.feature_distribution)
    print(f"{path}: AP50 on the development photos {metrics['dice development photos']['ap50']}")


def found_by(run: Path, dev: Dataset) -> Dataset:
    """Return the style photos with what a training finds in them as their labels."""
    trained = load_detector(run / WEIGHTS)
    return pseudo_label(
        calibrate_detector(tune_detector(trained, dev), dev, "validation images"), splits().style
    )


def go_on(parts: WeightedDatasets, config: TrainConfig, before: Path, run: Path) -> AnyDetector:
    """Return the detector of a training that begins with the weights of another."""
    aids = AuxiliaryData(initial_weights=before / WEIGHTS)
    return train_detector(parts, config, run, auxiliary_data=aids, resume=True, progress=tell)


def seen_aside(arguments: Arguments) -> Dataset:
    """Return renders of dice seen from the side, made where they are missing."""
    return generate(
        load_recipe(str(OBLIQUE)), arguments.work / "oblique", count=OBLIQUE_COUNT, seed=OBLIQUE_SEED,
        workers=arguments.threads, resume=True, overwrite=False, progress=lambda _done, _total: None,
    )  # fmt: skip


def parts_of(shares: dict[str, float], work: Path, threads: int) -> WeightedDatasets:
    """Return data sets of the ladder with their shares, made where they are missing."""
    arm = Variant("weights that ship", tuple(shares))
    prepare_data(replace(PLAN, variants=(arm,)), splits(), work, workers=threads)
    return tuple((read_dataset(work / name), share) for name, share in shares.items())


def tell(line: TrainProgress) -> None:
    """Print a line of the record now and then."""
    if line.step % 200 == 0:
        left = (line.steps - line.step) * line.step_s / 60
        print(f"{time.strftime('%X')} step {line.step}, {left:.0f} min left, {line.losses}")


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
