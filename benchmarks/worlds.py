"""Check of a thousand samples of each shipped recipe.

    python benchmarks/worlds.py [--recipes NAME ...] [--samples N] [--work DIR] [--workers N]

Existing samples are kept, so an interrupted run resumes. Writes ``worlds.json`` to ``benchmarks/results``,
which keeps the results of other recipes, and a contact sheet per recipe to ``--work``. ``docs/gallery``
shows all recipes.
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
from result_files import RESULTS, write_results
from settled.recipes import measure_recipe

from sim2cam.data.environment import collect_environment
from sim2cam.pipeline.recipe import RECIPES_FOLDER
from sim2cam.render.renderer import get_renderer

RECIPES = sorted(path.stem for path in RECIPES_FOLDER.glob("*.toml"))


@dataclass(frozen=True)
class Arguments:
    """Options of the benchmark."""

    recipes: tuple[str, ...] = tuple(RECIPES)
    """Recipes to check."""
    samples: int = 1000
    """Samples per recipe."""
    work: Path = Path("runs/worlds")
    """Folder of datasets and contact sheets."""
    workers: int = 2
    """Number of processes."""


def main(arguments: Arguments) -> None:
    """Generate and check the samples of each recipe; write the results."""
    if unknown := set(arguments.recipes).difference(RECIPES):
        raise SystemExit(f"--recipes: unknown recipes: {', '.join(sorted(unknown))}.")
    facts = collect_environment(get_renderer().name, arguments.workers)
    for name in arguments.recipes:
        sheet = arguments.work / f"{name}.jpg"
        row = measure_recipe(name, arguments.samples, arguments.workers, arguments.work, sheet)
        results = read_results() | {name: {**row, "environment": facts}}
        write_results(
            RESULTS / "worlds.json",
            {"recipes": [results[recipe] for recipe in RECIPES if recipe in results]},
        )
        print(f"{name}: {len(row['problems'])} problems", flush=True)


def read_results() -> dict[str, dict[str, Any]]:
    """Return earlier results by recipe."""
    path = RESULTS / "worlds.json"
    if not path.is_file():
        return {}
    return {row["name"]: row for row in json.loads(path.read_text(encoding="utf-8"))["recipes"]}


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
