"""What the shipped recipes make: samples of each that are checked, and thousands of scenes at rest.

    python benchmarks/worlds.py [--samples N] [--scenes N] [--peers PYTHON] [--work DIR]

``--peers`` is an interpreter that has MuJoCo, which lets every settled scene go again for a second:
another engine, with other contacts, must find nothing that moves. What was made and measured before
is kept, so that a run that was stopped goes on. Writes ``worlds.json`` and a contact sheet of each
recipe to ``benchmarks/results``.
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

import tyro
from settled.recipes import measure_recipe
from settled.rest import BLOCK, Block, measure_block, summary

from sim2cam.dataset.writer import write_json
from sim2cam.pipeline.engines import map_units
from sim2cam.pipeline.environment import environment_facts
from sim2cam.pipeline.recipe import SHIPPED
from sim2cam.render.rasterizer import rasterizer

RESULTS = Path(__file__).parent / "results"
SEED = 11
SETTLED = (
    "dice", "cubes", "cards", "chessboard", "twisty", "groceries", "fasteners", "lmo", "bin", "shelf",
)  # fmt: skip
"""Recipes whose scenes are let go again, each as often as the others."""
RECIPES = sorted(path.stem for path in SHIPPED.glob("*.toml"))


@dataclass(frozen=True)
class Arguments:
    """How much is made."""

    samples: int = 1000
    """Of each recipe."""
    scenes: int = 10_000
    """That are let go again, of all recipes together."""
    peers: str = sys.executable
    """Interpreter that has MuJoCo."""
    work: Path = Path("runs/worlds")
    """Data sets and blocks of scenes."""
    workers: int = 2
    """Processes."""


def main(arguments: Arguments) -> None:
    """Makes, measures and writes."""
    facts = environment_facts(rasterizer().name, arguments.workers)
    recipes = [_recipe(name, arguments) for name in RECIPES]
    at_rest = _at_rest(arguments)
    found = {"environment": facts, "seed": SEED, "recipes": recipes, "at_rest": at_rest}
    write_json(RESULTS / "worlds.json", found, in_lines=False)


def _recipe(name: str, arguments: Arguments) -> dict[str, object]:
    """Returns what a recipe made; an earlier measurement is kept."""
    found = arguments.work / f"{name}-{arguments.samples}.json"
    if not found.is_file():
        sheet = RESULTS / "worlds" / f"{name}.jpg"
        made = measure_recipe(name, arguments.samples, arguments.workers, arguments.work, sheet)
        write_json(found, made, in_lines=False)
        print(f"{name}: {len(made['problems'])} problems", flush=True)
    kept: dict[str, object] = json.loads(found.read_text(encoding="utf-8"))
    return kept


def _at_rest(arguments: Arguments) -> dict[str, object]:
    """Returns what became of the scenes that were let go again, by recipe and in all."""
    folder = arguments.work / "blocks"
    folder.mkdir(parents=True, exist_ok=True)
    each = -(-arguments.scenes // (BLOCK * len(SETTLED)))
    blocks = [
        Block(name, SEED, number, arguments.peers, folder)
        for number in range(each)
        for name in SETTLED
    ]
    for done, path in enumerate(map_units(measure_block, blocks, arguments.workers), 1):
        print(f"{done} of {len(blocks)} blocks: {path.stem}", flush=True)
    by_recipe = {
        name: summary([block.result for block in blocks if block.recipe == name])
        for name in SETTLED
    }
    return {"recipes": by_recipe, "all": summary([block.result for block in blocks])}


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
