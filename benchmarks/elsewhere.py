"""The detector of dice that ships, elsewhere than its recipe draws: rooms, lenses, sensors, heaps, another renderer.

    python benchmarks/elsewhere.py [--work DIR] [--pictures N] [--workers N]

Renders go to ``--work``, from a seed of their own; those of the recipe that it was trained on are what the others
are held against. The stand-in camera's pictures are path traced. Boxes are as tight as renderers draw them, all
else is as it ships. Scores go to ``benchmarks/results/elsewhere.json``.
They choose nothing; that heaps are read badly was seen here, and is why dice seen from the side were learned.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import tyro
from scoring_log import RESULTS

from sim2cam.data.environment import collect_environment
from sim2cam.data.real_images import read_real_images
from sim2cam.data.sample import Dataset
from sim2cam.data.writer import write_json
from sim2cam.experiments.benchmark import bench
from sim2cam.learn.device import use_threads
from sim2cam.models.inference.detector import SHIPPED_WEIGHTS, load_detector
from sim2cam.pipeline.generation import generate
from sim2cam.pipeline.recipe import RECIPES_FOLDER, load_recipe

SEED = 900
RECIPES = {
    "as trained": "dice",
    "materials, windows, worn dice": "dice-rooms",
    "faults of cheap cameras": "dice-camera",
    "fisheye lenses": "dice-fisheye",
    "heaps from the side": str(Path(__file__).parent / "heaps.toml"),
}
STANDIN = "stand-in camera, path traced"


@dataclass(frozen=True)
class Arguments:
    """How much is looked at, and where renders go."""

    work: Path = Path("runs/elsewhere")
    """Renders; they are completed there."""
    pictures: int = 60
    """Of each recipe."""
    workers: int = 2
    """Processes of the rendering."""


def main(arguments: Arguments) -> None:
    """Render, scores, writes and prints."""
    use_threads(1)
    shipped = load_detector(SHIPPED_WEIGHTS / "dice.safetensors")
    detector = replace(shipped, card=replace(shipped.card, box_expansion=0.0))  # of people's boxes
    rows = []
    for name, pictures in _places(arguments):
        found = bench(detector, pictures)
        ood_rate = found.reliability.to_json()["ood_rate"]
        rows.append({"name": name, **found.score.to_json(), "ood_rate": ood_rate})
        scores = {key: round(rows[-1][key]["value"], 3) for key in ("ap", "ap50", "agnostic_ap50")}
        print(name, scores, flush=True)
    facts = {
        "environment": collect_environment(None, arguments.workers),
        "seed": SEED,
        "places": rows,
    }
    write_json(RESULTS / "elsewhere.json", facts)


def _places(arguments: Arguments) -> Iterator[tuple[str, Dataset]]:
    """Yield labelled pictures by what they are of."""
    for name, recipe in RECIPES.items():
        yield (
            name,
            generate(
                load_recipe(recipe),
                arguments.work / Path(recipe).stem,
                count=arguments.pictures,
                seed=SEED,
                workers=arguments.workers,
                resume=True,
                overwrite=False,
                progress=lambda _done, _total: None,
            ),
        )
    yield STANDIN, read_real_images(RECIPES_FOLDER / "standin" / "test.json", origin="stand-in")


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
