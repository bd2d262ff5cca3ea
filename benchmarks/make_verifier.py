"""Makes the judge that ships: a second opinion on translated dice, of another architecture.

    python benchmarks/make_verifier.py [--work DIR] [--threads N]

It learns from the same data as the first training of the weights that ship (``make_weights.py``), made in the same folder, so that
both know renders and renders in the colours of photos, and no real label. Without a reader it learns faces from
crops, which therefore stand upright, and begins with renders without randomization. The development photos choose
magnification and box margin, and their scores go into the card. As a judge it is asked of pictures before
and after their translation, never of how far it is to be trusted.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import tyro
from make_weights import CONFIG, SHARES, parts_of, tell
from scoring_log import real_folder

from sim2cam.data.real_images import read_real_images
from sim2cam.experiments.ablation import FIXED
from sim2cam.experiments.benchmark import bench
from sim2cam.learn.device import use_threads
from sim2cam.models.inference.detector import SHIPPED_WEIGHTS, save_detector
from sim2cam.models.training.datasets import add_curriculum
from sim2cam.models.training.training import train_detector
from sim2cam.models.training.tuning import tune_detector

MOST_BYTES = 1_000_000


@dataclass(frozen=True)
class Arguments:
    """Where it is made."""

    work: Path = Path("runs/ladder")
    """Data sets and trainings; both are resumed."""
    threads: int = 2
    """Threads, and processes of the rendering."""


def main(arguments: Arguments) -> None:
    """Render, translates, trains, tunes and writes weights and card."""
    config = replace(CONFIG, architecture="scout", roi_classifier=False, rotate_90=False)
    *mix, (plain, _) = parts_of({**SHARES, FIXED: 0.0}, arguments.work, arguments.threads)
    parts, config = add_curriculum(plain, tuple(mix), config)
    use_threads(arguments.threads)
    run = arguments.work / "runs" / "judge"
    trained = train_detector(parts, config, run, resume=True, progress=tell)
    dev = read_real_images(real_folder("dice") / "dev.json")
    detector = tune_detector(trained, dev)
    metrics = {"dice development photos": bench(detector, dev).score.to_json()}
    path = SHIPPED_WEIGHTS / "dice-verifier.safetensors"
    card = replace(detector.card, metrics=metrics, licence="Apache-2.0")
    save_detector(path, detector.network.state_dict(), card)
    size = path.stat().st_size
    assert size <= MOST_BYTES, f"{path} has {size} bytes"
    print(f"{path}: {size} bytes, AP50 {metrics['dice development photos']['ap50']}")


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
