"""Boxes and poses of BOP's Linemod-Occluded, from training on renders of its meshes only.

    python benchmarks/lmo.py [--work DIR] [--device cuda] [--workers N]

Runs the public commands: ``render lmo``, ``train lmo --backgrounds``, two further trainings from these
weights, ``tune`` on renders of their own, ``bench --poses`` without and with ``--refine``, and ``compare``
of both. Renders of other recipes are background images (docs/decisions/0018-augmentation.md). Meshes
and the 200 test photos, which select nothing, are read from ``$SIM2CAM_REAL/lmo``. Datasets and training
runs go to ``--work`` and are resumed; existing weights, such as those of another machine, are kept. Writes
``benchmarks/results/lmo.json`` and the shipped weights.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import tyro
from result_files import RESULTS, locate_real_dataset, write_results

from sim2cam.data.environment import collect_environment
from sim2cam.learn.weight_file import get_card_path, load_card
from sim2cam.models.inference.detector import SHIPPED_WEIGHTS

HERE = Path(__file__).parent
OTHER_RECIPES = ("cards", "cubes", "dice-rooms", "fasteners", "groceries", "twisty")


@dataclass(frozen=True)
class Renders:
    """Images of one recipe."""

    recipe: str
    count: int
    seed: int


def _list_backgrounds(count: int) -> tuple[Renders, ...]:
    """Return the background images: ``count`` of each other recipe, and three times as many of heaps."""
    others = tuple(Renders(recipe, count, seed=2) for recipe in OTHER_RECIPES)
    return (*others, Renders(str(HERE / "heap.toml"), 3 * count, seed=2))


@dataclass(frozen=True)
class Training:
    """A training run."""

    name: str
    recipe: str
    data: tuple[Renders, ...]
    backgrounds: tuple[Renders, ...]
    changes: tuple[str, ...] = ()


DEAD_LEAVES = str(HERE / "collages.toml")
SEPARATE_AND_CROWDED = (
    Renders("lmo", 1600, seed=21),
    Renders(str(HERE / "crowds.toml"), 784, seed=1),
)

TRAININGS = (
    Training("first", "lmo", (Renders("lmo", 2880, seed=1),), _list_backgrounds(64)),
    Training("second", DEAD_LEAVES, SEPARATE_AND_CROWDED, _list_backgrounds(32)),
    Training(
        "third",
        DEAD_LEAVES,
        SEPARATE_AND_CROWDED,
        _list_backgrounds(32),
        ("--steps", "2000", "--seed", "1"),
    ),
)
"""Each run starts from the weights of the previous one."""
TUNING_RENDERS = (Renders("lmo", 100, seed=31), Renders(str(HERE / "crowds.toml"), 50, seed=31))
"""Renders for tuning the final weights."""


@dataclass(frozen=True)
class Arguments:
    """Options of the benchmark."""

    work: Path = Path("runs/lmo")
    """Folder of datasets, training runs and poses."""
    device: str = "cpu"
    """Device of the training: cpu or cuda."""
    workers: int = 2
    """Worker processes of rendering and of GPU training; threads of CPU training."""


def main(arguments: Arguments) -> None:
    """Render, train and score; write results and weights."""
    work, workers = arguments.work, str(arguments.workers)
    trained: list[Path] = []
    for training in TRAININGS:
        trained.append(_train(training, trained[-1:], arguments))
    weights, tuned = _tune(trained[-1], arguments)
    real = locate_real_dataset("lmo")
    files = {"poses": (), "refined": ("--refine", real / "models")}
    outputs = {
        name: _bench(weights, work / f"{name}.csv", workers, *how) for name, how in files.items()
    }
    both = (work / f"{name}.csv" for name in ("refined", "poses"))
    difference = _run_command("compare", *both, "--captures", real, "--json", "-q")
    facts = {
        "environment": collect_environment(None, arguments.workers),
        "trainings": list(map(_describe_training, trained)),
        "tuned": tuned,
        "weights_bytes": weights.stat().st_size + get_card_path(weights).stat().st_size,
        "scores": outputs["poses"],
        "refined": outputs["refined"]["poses"],
        "difference": json.loads(difference),
    }
    write_results(RESULTS / "lmo.json", facts)
    shipped = SHIPPED_WEIGHTS / f"lmo{weights.suffix}"
    shutil.copyfile(weights, shipped)
    shutil.copyfile(get_card_path(weights), get_card_path(shipped))
    for name, scores in outputs.items():
        print(f"{name}: {_format_scores(scores)}")


def _train(training: Training, before: Sequence[Path], arguments: Arguments) -> Path:
    """Return the weights of a training; train if they are missing.

    Args:
        before: initial weights; empty for the first run.
    """
    weights = arguments.work / training.name / "run" / "weights.safetensors"
    if weights.is_file():
        return weights
    data, backgrounds = (
        _render(which, arguments) for which in (training.data, training.backgrounds)
    )
    start = ("--from", *before) if before else ()
    _run_command(
        "train", training.recipe, "--data", *data, "--backgrounds", *backgrounds, *start, *training.changes,
        "--out", weights.parent, "--device", arguments.device, "--workers", arguments.workers, "--resume",
    )  # fmt: skip
    return weights


def _tune(weights: Path, arguments: Arguments) -> tuple[Path, dict[str, Any]]:
    """Tune weights and return their path and the output of ``tune``."""
    out = arguments.work / "tuned"
    shutil.rmtree(out, ignore_errors=True)
    output = _run_command(
        "tune", weights, *_render(TUNING_RENDERS, arguments), "--out", out, "--workers", arguments.workers,
        "--json",
    )  # fmt: skip
    facts: dict[str, Any] = json.loads(output)
    return Path(facts.pop("weights")), facts


def _render(which: Sequence[Renders], arguments: Arguments) -> list[Path]:
    """Return the folders of renders; render missing ones."""
    folders = []
    for renders in which:
        folders.append(
            arguments.work / f"{Path(renders.recipe).stem}-{renders.count}-{renders.seed}"
        )
        _run_command(
            "render", renders.recipe, "--out", folders[-1], "--count", renders.count, "--seed", renders.seed,
            "--workers", arguments.workers, "--resume",
        )  # fmt: skip
    return folders


def _describe_training(weights: Path) -> dict[str, Any]:
    """Return data and configuration of a training."""
    card = load_card(weights)
    return {
        "images": sum(part["images"] for part in card["data"]),
        "background_images": card["background_images"]["images"],
        "config": card["config"],
    }


def _bench(weights: Path, poses: Path, workers: str, *how: object) -> dict[str, Any]:
    """Score weights and write their poses to a file."""
    poses.unlink(missing_ok=True)
    output = _run_command(
        "bench", weights, "--captures", locate_real_dataset("lmo"), "--poses", poses, *how,
        "--workers", workers, "--json", "-q",
    )  # fmt: skip
    scores: dict[str, Any] = json.loads(output)
    return scores


def _run_command(*words: object) -> str:
    """Run a sim2cam command and return its output.

    Raises:
        SystemExit: the command failed.
    """
    command = [sys.executable, "-m", "sim2cam", *map(str, words)]
    process = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if process.returncode:
        raise SystemExit(f"{' '.join(command[2:])} failed.")
    return process.stdout


def _format_scores(scores: dict[str, Any]) -> str:
    values = {name: scores[name]["value"] for name in ("ap", "ap50")}
    values |= {name: scores["poses"]["mean"][name]["value"] for name in ("ar_mssd", "ar_mspd")}
    values["add_or_s"] = scores["poses"]["mean"]["add_or_s"]["value"]
    return ", ".join(f"{name} {value:.3f}" for name, value in values.items())


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
