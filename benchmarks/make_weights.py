"""Makes the weights that ship, from renders and from photos that nobody labelled for it.

    python benchmarks/make_weights.py [--work DIR] [--threads N]

The data are those of the ladder's arm "+ transfer" (``benchmarks/dice.py``), made in the same folder.
What the training then finds in the style photos is learned in a second one, beside the renders
(``docs/decisions/0056-learning-from-own-labels.md``). The
development photos choose magnification and box margin, and tell when not to trust it; their scores go
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

from sim2cam.dataset.captures import read_captures
from sim2cam.dataset.reader import read_dataset
from sim2cam.models.labelling import labelled
from sim2cam.models.lesson import Aids
from sim2cam.models.parts import Parts
from sim2cam.models.prediction import own_detector, save_detector
from sim2cam.models.training import WEIGHTS, TrainProgress, train_detector
from sim2cam.models.trust import training_crops, with_trust
from sim2cam.models.tuning import tuned
from sim2cam.pipeline.bench import SHIPPED_WEIGHTS, bench
from sim2cam.pipeline.ladder import RANDOMIZED, Arm, prepare_data
from sim2cam.training.device import use_threads

CONFIG = replace(PLAN.config, steps=10_000)
SHARES = {RANDOMIZED: 2.0, "reinhard": 1.0}  # of the crops
OWN_STEPS, OWN_SHARE = 1_000, 3.0  # of the second training, and of its crops of photos


@dataclass(frozen=True)
class Arguments:
    """Where it is made."""

    work: Path = Path("runs/ladder")
    """Data sets and trainings; both are resumed."""
    threads: int = 2
    """Threads, and processes of the rendering."""


def main(arguments: Arguments) -> None:
    """Renders, translates, trains, labels, trains again, tunes and writes weights and card."""
    parts = parts_of(SHARES, arguments.work, arguments.threads)
    use_threads(arguments.threads)
    run = arguments.work / "runs" / "shipped"
    first = train_detector(parts, CONFIG, run, resume=True, progress=tell)
    dev = read_captures(real_folder("dice") / "dev.json")
    sure = with_trust(tuned(first, dev), dev, "development captures")
    parts = (*parts, (labelled(sure, splits().style), OWN_SHARE))
    config, own = replace(CONFIG, steps=OWN_STEPS), run.with_name("shipped-own")
    second = train_detector(
        parts, config, own, aids=Aids(start=run / WEIGHTS), resume=True, progress=tell
    )
    trained = own_detector(second, "features")
    trained = replace(trained, familiar=training_crops(trained, parts, config))
    detector = with_trust(tuned(trained, dev), dev, "development captures")
    metrics = {"dice development photos": bench(detector, dev).score.to_json()}
    path = SHIPPED_WEIGHTS / "dice.safetensors"
    card = replace(detector.card, metrics=metrics, licence="Apache-2.0")
    save_detector(path, detector.network.state_dict(), card, detector.familiar)
    print(f"{path}: AP50 on the development photos {metrics['dice development photos']['ap50']}")


def parts_of(shares: dict[str, float], work: Path, threads: int) -> Parts:
    """Returns data sets of the ladder with their shares, made where they are missing."""
    arm = Arm("weights that ship", tuple(shares))
    prepare_data(replace(PLAN, arms=(arm,)), splits(), work, workers=threads)
    return tuple((read_dataset(work / name), share) for name, share in shares.items())


def tell(line: TrainProgress) -> None:
    """Prints a line of the record now and then."""
    if line.step % 200 == 0:
        left = (line.steps - line.step) * line.step_s / 60
        print(f"{time.strftime('%X')} step {line.step}, {left:.0f} min left, {line.losses}")


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
