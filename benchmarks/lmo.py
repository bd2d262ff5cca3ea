"""BOP's Linemod-Occluded from its meshes alone: boxes and poses of a detector that has seen no photo.

    python benchmarks/lmo.py [--work DIR] [--pictures N] [--device cuda] [--workers N]

It runs the commands that people type: ``render lmo``, ``train lmo --backdrops``, ``bench --poses``, once more
with ``--refine``, and ``compare`` for what that is worth. Objects are also seen before renders of other recipes (docs/decisions/0058-other-backdrops.md). Meshes and the 200 test
photos, which choose nothing, are found in ``$SIM2CAM_REAL/lmo``. Data and training go to ``--work`` and are
resumed; where ``--work`` holds weights, as of a training on another machine, they are scored. The scores go to
``benchmarks/results/lmo.json``, and the weights to those that ship.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import tyro
from scoring_log import RESULTS, real_folder

from sim2cam.dataset.writer import write_json
from sim2cam.pipeline.bench import SHIPPED_WEIGHTS
from sim2cam.pipeline.environment import environment_facts
from sim2cam.training.weights import card_path, load_card

SEED, BACKDROP_SEED = 1, 2
"""Of the pictures, and of those behind their objects."""

BACKDROPS = dict.fromkeys(
    ("cards", "cubes", "dice-rooms", "fasteners", "groceries", "twisty"), 64
) | {str(Path(__file__).with_name("heap.toml")): 192}
"""Recipes whose renders these are, and how many of each."""


@dataclass(frozen=True)
class Arguments:
    """How much is made, and where."""

    work: Path = Path("runs/lmo")
    """Data set, training and poses."""
    pictures: int = 2880
    """Rendered."""
    device: str = "cpu"
    """Of the training, cpu or cuda."""
    workers: int = 2
    """Processes of the rendering and, beside a GPU, of the training; without one its threads."""


def main(arguments: Arguments) -> None:
    """Renders, trains, scores and writes."""
    work, workers = arguments.work, str(arguments.workers)
    data, run = work / "sim", work / "run"
    weights = run / "weights.safetensors"
    behind = {recipe: work / "backdrops" / Path(recipe).stem for recipe in BACKDROPS}
    if not weights.is_file():
        made = [("lmo", data, arguments.pictures, SEED)]
        made += [(recipe, behind[recipe], n, BACKDROP_SEED) for recipe, n in BACKDROPS.items()]
        for recipe, folder, count, seed in made:
            _command(
                "render", recipe, "--out", folder, "--count", count, "--seed", seed,
                "--workers", workers, "--resume",
            )  # fmt: skip
        _command(
            "train", "lmo", "--data", data, "--backdrops", *behind.values(), "--out", run,
            "--device", arguments.device, "--workers", workers, "--resume",
        )  # fmt: skip
    real = real_folder("lmo")
    files = {"poses": (), "refined": ("--refine", real / "models")}
    told = {
        name: _bench(weights, work / f"{name}.csv", workers, *how) for name, how in files.items()
    }
    both = (work / f"{name}.csv" for name in ("refined", "poses"))
    difference = _command("compare", *both, "--captures", real, "--json", "-q")
    card = load_card(weights)
    facts = {
        "environment": environment_facts(None, arguments.workers),
        "pictures": sum(part["images"] for part in card["data"]),
        "backdrops": card["backdrops"]["images"],
        "weights_bytes": weights.stat().st_size + card_path(weights).stat().st_size,
        "training": card["config"],
        "scores": told["poses"],
        "refined": told["refined"]["poses"],
        "difference": json.loads(difference),
    }
    write_json(RESULTS / "lmo.json", facts, in_lines=False)
    shipped = SHIPPED_WEIGHTS / f"lmo{weights.suffix}"
    shutil.copyfile(weights, shipped)
    shutil.copyfile(card_path(weights), card_path(shipped))
    for name, scores in told.items():
        print(f"{name}: {_summary(scores)}")


def _bench(weights: Path, poses: Path, workers: str, *how: object) -> dict[str, Any]:
    """Returns the scores of weights, whose poses are written to a file."""
    poses.unlink(missing_ok=True)
    told = _command(
        "bench", weights, "--captures", real_folder("lmo"), "--poses", poses, *how,
        "--workers", workers, "--json", "-q",
    )  # fmt: skip
    scores: dict[str, Any] = json.loads(told)
    return scores


def _command(*words: object) -> str:
    """Returns what a command says to a program.

    Raises:
        SystemExit: it failed.
    """
    command = [sys.executable, "-m", "sim2cam", *map(str, words)]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if ended.returncode:
        raise SystemExit(f"{' '.join(command[2:])} failed.")
    return ended.stdout


def _summary(scores: dict[str, Any]) -> str:
    found = {name: scores[name]["value"] for name in ("ap", "ap50")}
    found |= {name: scores["poses"]["mean"][name]["value"] for name in ("ar_mssd", "ar_mspd")}
    found["add_or_s"] = scores["poses"]["mean"]["add_or_s"]["value"]
    return ", ".join(f"{name} {value:.3f}" for name, value in found.items())


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
