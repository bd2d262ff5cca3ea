"""Training of the shipped verifier of translated dice, which has another architecture than the detector.

    python benchmarks/make_verifier.py [--work DIR] [--threads N]

Uses the datasets of the variant "+ transfer" of ``benchmarks/dice.py`` in the same folder: renders and
colour-transferred renders, without real labels. It has no RoI classifier and
classifies faces of upright crops. Its curriculum begins with renders without randomization. The
development photos select input scale and box padding. Their scores are stored in the card. A verifier
compares images before and after translation, so its confidence is not calibrated.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import tyro
from dice import PLAN, read_splits
from make_weights import print_progress
from result_files import locate_real_dataset

from sim2cam.data.reader import read_dataset
from sim2cam.data.real_images import read_real_images
from sim2cam.experiments.ablation import FIXED, RANDOMIZED, Variant, prepare_data
from sim2cam.experiments.benchmark import bench
from sim2cam.learn.device import use_threads
from sim2cam.learn.trainer import Callbacks
from sim2cam.models.inference.detector import SHIPPED_WEIGHTS, save_detector
from sim2cam.models.training.datasets import WeightedDatasets, add_curriculum
from sim2cam.models.training.training import train_detector
from sim2cam.models.training.tuning import tune_detector

STEPS = 10_000
SHARES = {RANDOMIZED: 2.0, "reinhard": 1.0}  # shares of training crops
MAX_BYTES = 1_000_000


@dataclass(frozen=True)
class Arguments:
    """Options of the training."""

    work: Path = Path("runs/ladder")
    """Folder of datasets and training runs; both are resumed."""
    threads: int = 2
    """Threads, and worker processes of rendering."""


def main(arguments: Arguments) -> None:
    """Render, translate, train, tune and write weights and card."""
    config = replace(
        PLAN.config, steps=STEPS, architecture="scout", roi_classifier=False, rotate_90=False
    )
    *mix, (plain, _) = prepare_datasets({**SHARES, FIXED: 0.0}, arguments.work, arguments.threads)
    datasets, config = add_curriculum(plain, tuple(mix), config)
    use_threads(arguments.threads)
    run = arguments.work / "runs" / "judge"
    trained = train_detector(
        datasets, config, run, resume=True, callbacks=Callbacks(log=print_progress)
    )
    dev = read_real_images(locate_real_dataset("dice") / "dev.json")
    detector = tune_detector(trained, dev)
    metrics = {"dice development photos": bench(detector, dev).score.to_json()}
    path = SHIPPED_WEIGHTS / "dice-verifier.safetensors"
    card = replace(detector.card, metrics=metrics, licence="Apache-2.0")
    save_detector(path, detector.network.state_dict(), card)
    size = path.stat().st_size
    assert size <= MAX_BYTES, f"{path} has {size} bytes"
    print(f"{path}: {size} bytes, AP50 {metrics['dice development photos']['ap50']}")


def prepare_datasets(shares: dict[str, float], work: Path, threads: int) -> WeightedDatasets:
    """Return datasets of the ablation study with their shares; generate missing ones."""
    variant = Variant("verifier", tuple(shares))
    prepare_data(replace(PLAN, variants=(variant,)), read_splits(), work, workers=threads)
    return tuple((read_dataset(work / name), share) for name, share in shares.items())


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
