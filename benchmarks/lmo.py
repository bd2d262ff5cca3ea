"""BOP's Linemod-Occluded from its meshes alone: boxes and poses of a detector that has seen no photo.

    python benchmarks/lmo.py [--work DIR] [--device cuda] [--workers N]

It runs the commands that people type: ``render lmo``, ``train lmo --backgrounds``, both once more for two trainings that
go on from there, ``tune`` by renders that no training saw, ``bench --poses``, once more with ``--refine``, and ``compare``
for what that is worth. Objects are also seen before renders of other recipes (docs/decisions/0058-other-backdrops.md). Meshes and the 200 test
photos, which choose nothing, are found in ``$SIM2CAM_REAL/lmo``. Data and trainings go to ``--work`` and are
resumed; a training whose weights are there, as of another machine, is not done again. The scores go to
``benchmarks/results/lmo.json``, and the weights to those that ship.
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
from scoring_log import RESULTS, real_folder

from sim2cam.data.environment import collect_environment
from sim2cam.data.writer import write_json
from sim2cam.learn.weight_file import get_card_path, load_card
from sim2cam.models.inference.detector import SHIPPED_WEIGHTS

HERE = Path(__file__).parent
OTHERS = ("cards", "cubes", "dice-rooms", "fasteners", "groceries", "twisty")


@dataclass(frozen=True)
class Renders:
    """Pictures of one recipe."""

    recipe: str
    count: int
    seed: int


def _behind(count: int) -> tuple[Renders, ...]:
    """Return the pictures behind objects: of each other recipe so many, and of heaps three times as many."""
    others = tuple(Renders(recipe, count, seed=2) for recipe in OTHERS)
    return (*others, Renders(str(HERE / "heap.toml"), 3 * count, seed=2))


@dataclass(frozen=True)
class Training:
    """What is learned, from what, and before what."""

    name: str
    recipe: str
    data: tuple[Renders, ...]
    behind: tuple[Renders, ...]
    changes: tuple[str, ...] = ()
    """Arguments by which it differs from the recipe."""


COLLAGES = str(HERE / "collages.toml")
APART_AND_CROWDED = (
    Renders("lmo", 1600, seed=21),
    Renders(str(HERE / "crowds.toml"), 784, seed=1),
)

TRAININGS = (
    Training("first", "lmo", (Renders("lmo", 2880, seed=1),), _behind(64)),
    Training("second", COLLAGES, APART_AND_CROWDED, _behind(32)),
    Training("third", COLLAGES, APART_AND_CROWDED, _behind(32), ("--steps", "2000", "--seed", "1")),
)
"""Each goes on from the weights of the one before."""
UNSEEN = (Renders("lmo", 100, seed=31), Renders(str(HERE / "crowds.toml"), 50, seed=31))
"""By which the last weights are tuned."""


@dataclass(frozen=True)
class Arguments:
    """Where it is made, and by what."""

    work: Path = Path("runs/lmo")
    """Data sets, trainings and poses."""
    device: str = "cpu"
    """Of the trainings, cpu or cuda."""
    workers: int = 2
    """Processes of the rendering and, beside a GPU, of the trainings; without one their threads."""


def main(arguments: Arguments) -> None:
    """Render, trains, scores and writes."""
    work, workers = arguments.work, str(arguments.workers)
    trained: list[Path] = []
    for training in TRAININGS:
        trained.append(_trained(training, trained[-1:], arguments))
    weights, tuned = _tuned(trained[-1], arguments)
    real = real_folder("lmo")
    files = {"poses": (), "refined": ("--refine", real / "models")}
    told = {
        name: _bench(weights, work / f"{name}.csv", workers, *how) for name, how in files.items()
    }
    both = (work / f"{name}.csv" for name in ("refined", "poses"))
    difference = _command("compare", *both, "--captures", real, "--json", "-q")
    facts = {
        "environment": collect_environment(None, arguments.workers),
        "trainings": list(map(_learned, trained)),
        "tuned": tuned,
        "weights_bytes": weights.stat().st_size + get_card_path(weights).stat().st_size,
        "scores": told["poses"],
        "refined": told["refined"]["poses"],
        "difference": json.loads(difference),
    }
    write_json(RESULTS / "lmo.json", facts, indented=False)
    shipped = SHIPPED_WEIGHTS / f"lmo{weights.suffix}"
    shutil.copyfile(weights, shipped)
    shutil.copyfile(get_card_path(weights), get_card_path(shipped))
    for name, scores in told.items():
        print(f"{name}: {_summary(scores)}")


def _trained(training: Training, before: Sequence[Path], arguments: Arguments) -> Path:
    """Return the weights of a training, which is done where they are missing.

    Args:
        training: what is learned.
        before: the weights it goes on from; none for the first.
        arguments: where, and by what.
    """
    weights = arguments.work / training.name / "run" / "weights.safetensors"
    if weights.is_file():
        return weights
    data, behind = (_rendered(which, arguments) for which in (training.data, training.behind))
    start = ("--from", *before) if before else ()
    _command(
        "train", training.recipe, "--data", *data, "--backgrounds", *behind, *start, *training.changes,
        "--out", weights.parent, "--device", arguments.device, "--workers", arguments.workers, "--resume",
    )  # fmt: skip
    return weights


def _tuned(weights: Path, arguments: Arguments) -> tuple[Path, dict[str, Any]]:
    """Return tuned weights, and what ``tune`` says of them."""
    out = arguments.work / "tuned"
    shutil.rmtree(out, ignore_errors=True)
    told = _command(
        "tune", weights, *_rendered(UNSEEN, arguments), "--out", out, "--workers", arguments.workers,
        "--json",
    )  # fmt: skip
    facts: dict[str, Any] = json.loads(told)
    return Path(facts.pop("weights")), facts


def _rendered(which: Sequence[Renders], arguments: Arguments) -> list[Path]:
    """Return the folders of pictures, which are rendered where they are missing."""
    made = []
    for one in which:
        made.append(arguments.work / f"{Path(one.recipe).stem}-{one.count}-{one.seed}")
        _command(
            "render", one.recipe, "--out", made[-1], "--count", one.count, "--seed", one.seed,
            "--workers", arguments.workers, "--resume",
        )  # fmt: skip
    return made


def _learned(weights: Path) -> dict[str, Any]:
    """Return what a training learned from, and how."""
    card = load_card(weights)
    return {
        "images": sum(part["images"] for part in card["data"]),
        "background_images": card["background_images"]["images"],
        "config": card["config"],
    }


def _bench(weights: Path, poses: Path, workers: str, *how: object) -> dict[str, Any]:
    """Return the scores of weights, whose poses are written to a file."""
    poses.unlink(missing_ok=True)
    told = _command(
        "bench", weights, "--captures", real_folder("lmo"), "--poses", poses, *how,
        "--workers", workers, "--json", "-q",
    )  # fmt: skip
    scores: dict[str, Any] = json.loads(told)
    return scores


def _command(*words: object) -> str:
    """Return what a command says to a program.

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
