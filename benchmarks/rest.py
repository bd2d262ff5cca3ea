"""Whether settled scenes lie still: thousands of them are let go again for a second, in another engine.

    python benchmarks/rest.py [--recipes NAME ...] [--scenes N] [--peers PYTHON] [--work DIR] [--workers N]

``--peers`` is an interpreter that has MuJoCo, whose contacts are not Bullet's: nothing may float or move
there. Blocks of scenes that were measured before are kept, so that a run that was stopped goes on. Writes
``rest.json`` to ``benchmarks/results``, in which recipes that are not measured now stay as they were.
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
from settled.rest import BLOCK, Block, measure_block, summary

from sim2cam.data.environment import collect_environment
from sim2cam.data.writer import write_json
from sim2cam.engines.process_pool import map_units

RESULTS = Path(__file__).parent / "results"
SEED = 11
SETTLED = (
    "dice", "cubes", "cards", "chessboard", "twisty", "groceries", "fasteners", "lmo", "bin", "shelf",
)  # fmt: skip
"""Recipes whose scenes are let go again, each as often as the others."""


@dataclass(frozen=True)
class Arguments:
    """How much is made."""

    recipes: tuple[str, ...] = SETTLED
    """Of which recipes."""
    scenes: int = 1000
    """Of each."""
    peers: str = sys.executable
    """Interpreter that has MuJoCo."""
    work: Path = Path("runs/rest")
    """Blocks of scenes."""
    workers: int = 2
    """Processes."""


def main(arguments: Arguments) -> None:
    """Make, measures and writes, one recipe after the other."""
    if strangers := set(arguments.recipes).difference(SETTLED):
        raise SystemExit(f"--recipes: there is no {', '.join(sorted(strangers))}")
    facts = collect_environment(None, arguments.workers)
    arguments.work.mkdir(parents=True, exist_ok=True)
    for name in arguments.recipes:
        blocks = [
            Block(name, SEED, number, arguments.peers, arguments.work)
            for number in range(-(-arguments.scenes // BLOCK))
        ]
        for done, _ in enumerate(map_units(measure_block, blocks, arguments.workers), 1):
            print(f"{name}: {done} of {len(blocks)} blocks", flush=True)
        made = summary([block.result for block in blocks])
        found = measured() | {name: {**made, "seed": SEED, "environment": facts}}
        ordered = {one: found[one] for one in SETTLED if one in found}
        write_json(RESULTS / "rest.json", {"recipes": ordered}, indented=False)


def measured() -> dict[str, Any]:
    """Return what is known of each recipe that was measured, by its name."""
    path = RESULTS / "rest.json"
    if not path.is_file():
        return {}
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["recipes"]
    return found


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
