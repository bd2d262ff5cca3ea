"""What the shipped recipes make: a thousand samples of each, which are checked.

    python benchmarks/worlds.py [--recipes NAME ...] [--samples N] [--work DIR] [--workers N]

Samples that were made before are kept, so that a run that was stopped goes on. Writes ``worlds.json``,
in which recipes that are not measured now stay as they were, to ``benchmarks/results``, and a contact sheet of
each to ``--work``; ``docs/gallery`` shows all recipes.
"""

from __future__ import annotations

import os

from rendering.commands import ONE_THREAD

if __name__ == "__main__":
    os.environ.update(ONE_THREAD)  # before any library counts cores

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro
from settled.recipes import measure_recipe

from sim2cam.data.environment import collect_environment
from sim2cam.data.writer import write_json
from sim2cam.pipeline.recipe import RECIPES_FOLDER
from sim2cam.render.rasterizer import get_rasterizer

RESULTS = Path(__file__).parent / "results"
RECIPES = sorted(path.stem for path in RECIPES_FOLDER.glob("*.toml"))


@dataclass(frozen=True)
class Arguments:
    """How much is made."""

    recipes: tuple[str, ...] = tuple(RECIPES)
    """Of which recipes."""
    samples: int = 1000
    """Of each."""
    work: Path = Path("runs/worlds")
    """Data sets and contact sheets."""
    workers: int = 2
    """Processes."""


def main(arguments: Arguments) -> None:
    """Make, measures and writes, one recipe after the other."""
    if strangers := set(arguments.recipes).difference(RECIPES):
        raise SystemExit(f"--recipes: there is no {', '.join(sorted(strangers))}")
    facts = collect_environment(get_rasterizer().name, arguments.workers)
    for name in arguments.recipes:
        sheet = arguments.work / f"{name}.jpg"
        made = measure_recipe(name, arguments.samples, arguments.workers, arguments.work, sheet)
        found = measured() | {name: {**made, "environment": facts}}
        write_json(
            RESULTS / "worlds.json",
            {"recipes": [found[one] for one in RECIPES if one in found]},
            indented=False,
        )
        print(f"{name}: {len(made['problems'])} problems", flush=True)


def measured() -> dict[str, dict[str, Any]]:
    """Return what is known of each recipe that was measured, by its name."""
    path = RESULTS / "worlds.json"
    if not path.is_file():
        return {}
    return {one["name"]: one for one in json.loads(path.read_text(encoding="utf-8"))["recipes"]}


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
