"""Comparison of new dice weights with the shipped ones, which they replace if they are better.

    python benchmarks/ship.py [--candidate FILE] [--work DIR] [--pictures N]

New weights ship if, with tight boxes and the input scale of the training, AP50 on the development photos is not
more than 0.01 lower, and the mean AP50 over the test sets of ``elsewhere.py`` is higher
(``docs/decisions/0025-shipped-weights.md``). The test photos are not used. Writes ``benchmarks/results/ship.json``,
and copies weights that ship to ``models/weights``.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import tyro
from elsewhere import list_test_sets
from result_files import RESULTS, locate_real_dataset, write_results

from sim2cam.data.environment import collect_environment
from sim2cam.data.real_images import read_real_images
from sim2cam.data.sample import Dataset
from sim2cam.experiments.benchmark import bench
from sim2cam.learn.device import use_threads
from sim2cam.learn.weight_file import get_card_path
from sim2cam.models.inference.detector import SHIPPED_WEIGHTS, load_detector
from sim2cam.models.training.config import compute_trained_input_scale

MAX_LOSS = 0.01  # of AP50 on the development photos
WORKERS = 2


@dataclass(frozen=True)
class Arguments:
    """Options of the comparison."""

    candidate: Path = Path("runs/weights/dice.safetensors")
    """New weights."""
    work: Path = Path("runs/elsewhere")
    """Folder of the renders, which are resumed."""
    pictures: int = 60
    """Images per recipe."""


def main(arguments: Arguments) -> None:
    """Score both weights, write and print the decision, and copy weights that ship."""
    test_sets = list(list_test_sets(arguments.work, arguments.pictures, WORKERS))
    shipped = SHIPPED_WEIGHTS / "dice.safetensors"
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(WORKERS, mp_context=spawn) as pool:
        old, new = pool.map(_score, (shipped, arguments.candidate), [test_sets] * 2)
    ships = decide(old, new)
    facts = {"shipped": old, "candidate": new, "candidate_ships": ships}
    write_results(RESULTS / "ship.json", {"environment": collect_environment(None, 1), **facts})
    if ships:
        shutil.copy(arguments.candidate, shipped)
        shutil.copy(get_card_path(arguments.candidate), get_card_path(shipped))
    print("The new weights ship." if ships else "The shipped weights stay.")


def decide(shipped: dict[str, Any], candidate: dict[str, Any]) -> bool:
    """Return whether the candidate replaces the shipped weights."""
    dev_gain = candidate["dev"]["ap50"]["value"] - shipped["dev"]["ap50"]["value"]
    return bool(dev_gain >= -MAX_LOSS and candidate["mean_ap50"] > shipped["mean_ap50"])


def _score(weights: Path, test_sets: Sequence[tuple[str, Dataset]]) -> dict[str, Any]:
    """Return the scores on the development photos and on the other test sets."""
    use_threads(1)
    detector = load_detector(weights)
    tight = replace(detector, card=replace(detector.card, box_padding=0.0))
    scale = compute_trained_input_scale(detector.card.config["scale_range"])
    untuned = replace(tight, card=replace(tight.card, input_scale=scale))
    dev = bench(untuned, read_real_images(locate_real_dataset("dice") / "dev.json")).score
    print(f"{weights}: AP50 {dev.ap50.value:.3f} on the development photos", flush=True)
    rows: list[dict[str, Any]] = []
    for name, dataset in test_sets:
        score = bench(tight, dataset).score
        print(f"{weights}: AP50 {score.ap50.value:.3f} on {name}", flush=True)
        rows.append({"name": name, "ap50": score.ap50.to_json(), "ap": score.ap.to_json()})
    return {
        "architecture": detector.card.architecture,
        "dev": dev.to_json(),
        "places": rows,
        "mean_ap50": mean(row["ap50"]["value"] for row in rows),
    }


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
