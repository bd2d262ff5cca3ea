"""Stability of settled scenes: thousands are simulated for another second in MuJoCo.

    python benchmarks/rest.py [--recipes NAME ...] [--scenes N] [--peers PYTHON] [--work DIR] [--workers N]

``--peers`` is an interpreter with MuJoCo, whose contact model differs from Bullet's. No body may float or
move there. Finished blocks of scenes are kept, so an interrupted run resumes. Writes ``rest.json`` to
``benchmarks/results``, which keeps the results of other recipes.
"""

from __future__ import annotations

import os

from rendering.commands import ONE_THREAD

if __name__ == "__main__":
    os.environ.update(ONE_THREAD)  # before any library counts cores

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro
from result_files import RESULTS, write_results
from settled.rest import BLOCK, Block, measure_block, summarize

from sim2cam.data.environment import collect_environment
from sim2cam.engines.process_pool import map_units

SEED = 11
RECIPES = (
    "dice", "cubes", "cards", "chessboard", "twisty", "groceries", "fasteners", "lmo", "bin", "shelf",
)  # fmt: skip
"""Tested recipes, with equal numbers of scenes."""


@dataclass(frozen=True)
class Arguments:
    """Options of the benchmark."""

    recipes: tuple[str, ...] = RECIPES
    """Recipes to test."""
    scenes: int = 1000
    """Scenes per recipe."""
    peers: str = sys.executable
    """Python interpreter with MuJoCo."""
    work: Path = Path("runs/rest")
    """Folder of the blocks of scenes."""
    workers: int = 2
    """Number of processes."""


def main(arguments: Arguments) -> None:
    """Measure the scenes of each recipe and write the results."""
    if unknown := set(arguments.recipes).difference(RECIPES):
        raise SystemExit(f"--recipes: unknown recipes: {', '.join(sorted(unknown))}.")
    facts = collect_environment(None, arguments.workers)
    arguments.work.mkdir(parents=True, exist_ok=True)
    for name in arguments.recipes:
        blocks = [
            Block(name, SEED, number, arguments.peers, arguments.work)
            for number in range(-(-arguments.scenes // BLOCK))
        ]
        for done, _ in enumerate(map_units(measure_block, blocks, arguments.workers), 1):
            print(f"{name}: {done} of {len(blocks)} blocks", flush=True)
        summary = summarize([block.result for block in blocks])
        results = read_results() | {name: {**summary, "seed": SEED, "environment": facts}}
        ordered = {recipe: results[recipe] for recipe in RECIPES if recipe in results}
        write_results(RESULTS / "rest.json", {"recipes": ordered})


def read_results() -> dict[str, Any]:
    """Return earlier results by recipe."""
    path = RESULTS / "rest.json"
    if not path.is_file():
        return {}
    results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["recipes"]
    return results


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
