"""Whether settled scenes lie still: thousands of them are let go again for a second, in another engine.

    python benchmarks/rest.py [--scenes N] [--peers PYTHON] [--work DIR] [--workers N]

``--peers`` is an interpreter that has MuJoCo, whose contacts are not Bullet's: nothing may float or move
there. Blocks of scenes that were measured before are kept, so that a run that was stopped goes on.
Writes ``rest.json`` to ``benchmarks/results``.
"""

from __future__ import annotations

import os

from rendering.commands import ONE_THREAD

if __name__ == "__main__":
    os.environ.update(ONE_THREAD)  # before any library counts cores

import sys
from dataclasses import dataclass
from pathlib import Path

import tyro
from settled.rest import BLOCK, Block, measure_block, summary

from sim2cam.dataset.writer import write_json
from sim2cam.pipeline.engines import map_units
from sim2cam.pipeline.environment import environment_facts

RESULTS = Path(__file__).parent / "results"
SEED = 11
SETTLED = (
    "dice", "cubes", "cards", "chessboard", "twisty", "groceries", "fasteners", "lmo", "bin", "shelf",
)  # fmt: skip
"""Recipes whose scenes are let go again, each as often as the others."""


@dataclass(frozen=True)
class Arguments:
    """How much is made."""

    scenes: int = 10_000
    """Of all recipes together."""
    peers: str = sys.executable
    """Interpreter that has MuJoCo."""
    work: Path = Path("runs/rest")
    """Blocks of scenes."""
    workers: int = 2
    """Processes."""


def main(arguments: Arguments) -> None:
    """Makes, measures and writes."""
    facts = environment_facts(None, arguments.workers)
    arguments.work.mkdir(parents=True, exist_ok=True)
    each = -(-arguments.scenes // (BLOCK * len(SETTLED)))
    blocks = [
        Block(name, SEED, number, arguments.peers, arguments.work)
        for number in range(each)
        for name in SETTLED
    ]
    for done, path in enumerate(map_units(measure_block, blocks, arguments.workers), 1):
        print(f"{done} of {len(blocks)} blocks: {path.stem}", flush=True)
    by_recipe = {
        name: summary([block.result for block in blocks if block.recipe == name])
        for name in SETTLED
    }
    whole = summary([block.result for block in blocks])
    found = {"environment": facts, "seed": SEED, "recipes": by_recipe, "all": whole}
    write_json(RESULTS / "rest.json", found, in_lines=False)


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
