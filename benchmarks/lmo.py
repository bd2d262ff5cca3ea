"""BOP's Linemod-Occluded from its meshes alone: boxes and poses of a detector that has seen no photo.

    python benchmarks/lmo.py [--work DIR] [--pictures N] [--workers N]

It runs the commands that people type: ``render lmo``, ``train lmo``, ``bench --poses``. Meshes and the
200 test photos, which choose nothing, are found in ``$SIM2CAM_REAL/lmo``. Data and training go to
``--work`` and are resumed; the scores go to ``benchmarks/results/lmo.json``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import tyro
from scoring_log import RESULTS, real_folder

from sim2cam.dataset.writer import write_json
from sim2cam.pipeline.environment import environment_facts
from sim2cam.training.weights import card_path, load_card

SEED = 1
"""Of the pictures."""


@dataclass(frozen=True)
class Arguments:
    """How much is made, and where."""

    work: Path = Path("runs/lmo")
    """Data set, training and poses."""
    pictures: int = 3000
    """Rendered."""
    workers: int = 2
    """Processes of the rendering, threads of the training."""


def main(arguments: Arguments) -> None:
    """Renders, trains, scores and writes."""
    work, workers = arguments.work, str(arguments.workers)
    data, run, poses = work / "sim", work / "run", work / "poses.csv"
    weights = run / "weights.safetensors"
    _command(
        "render", "lmo", "--out", data, "--count", arguments.pictures, "--seed", SEED,
        "--workers", workers, "--resume",
    )  # fmt: skip
    if not weights.is_file():
        _command("train", "lmo", "--data", data, "--out", run, "--workers", workers, "--resume")
    poses.unlink(missing_ok=True)
    told = _command(
        "bench", weights, "--captures", real_folder("lmo"), "--poses", poses,
        "--workers", workers, "--json", "-q",
    )  # fmt: skip
    card = load_card(weights)
    facts = {
        "environment": environment_facts(None, arguments.workers),
        "pictures": arguments.pictures,
        "weights_bytes": weights.stat().st_size + card_path(weights).stat().st_size,
        "training": card["config"],
        "scores": json.loads(told),
    }
    write_json(RESULTS / "lmo.json", facts, in_lines=False)
    print(_summary(facts["scores"]))


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
