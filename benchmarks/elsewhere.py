"""Scores of the shipped dice detector outside its training distribution.

    python benchmarks/elsewhere.py [--work DIR] [--pictures N] [--workers N]

The test sets are other rooms, lenses, sensors, heaps, and path-traced images of the stand-in camera.
Renders of the training recipe are the reference. Renders use their own seed and go to ``--work``. Box
padding is off, because rendered boxes are tight. Writes ``benchmarks/results/elsewhere.json``. The low
score on heaps led to the training with oblique renders.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import tyro
from result_files import RESULTS, write_results

from sim2cam.data.environment import collect_environment
from sim2cam.data.real_images import read_real_images
from sim2cam.data.sample import Dataset
from sim2cam.experiments.benchmark import bench
from sim2cam.learn.device import use_threads
from sim2cam.models.inference.detector import SHIPPED_WEIGHTS, load_detector
from sim2cam.pipeline.generation import generate
from sim2cam.pipeline.recipe import RECIPES_FOLDER, load_recipe
from sim2cam.progress import ignore_progress

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
    """Options of the benchmark."""

    work: Path = Path("runs/elsewhere")
    """Folder of the renders, which are resumed."""
    pictures: int = 60
    """Images per recipe."""
    workers: int = 2
    """Worker processes of rendering."""


def main(arguments: Arguments) -> None:
    """Render and score all test sets; write and print the results."""
    use_threads(1)
    loaded = load_detector(SHIPPED_WEIGHTS / "dice.safetensors")
    detector = replace(
        loaded, card=replace(loaded.card, box_padding=0.0)
    )  # padding fits human annotations
    rows = []
    for name, dataset in list_test_sets(arguments.work, arguments.pictures, arguments.workers):
        result = bench(detector, dataset)
        ood_rate = result.reliability.to_json()["ood_rate"]
        rows.append({"name": name, **result.score.to_json(), "ood_rate": ood_rate})
        scores = {key: round(rows[-1][key]["value"], 3) for key in ("ap", "ap50", "agnostic_ap50")}
        print(name, scores, flush=True)
    facts = {
        "environment": collect_environment(None, arguments.workers),
        "seed": SEED,
        "places": rows,
    }
    write_results(RESULTS / "elsewhere.json", facts)


def list_test_sets(work: Path, pictures: int, workers: int) -> Iterator[tuple[str, Dataset]]:
    """Yield labelled datasets by name; render missing ones."""
    for name, recipe in RECIPES.items():
        yield (
            name,
            generate(
                load_recipe(recipe),
                work / Path(recipe).stem,
                count=pictures,
                seed=SEED,
                workers=workers,
                resume=True,
                overwrite=False,
                progress=ignore_progress,
            ),
        )
    yield STANDIN, read_real_images(RECIPES_FOLDER / "standin" / "test.json", origin="stand-in")


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
