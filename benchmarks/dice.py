"""The core ladder on real dice: what each part of the pipeline is worth without a real label.

    python benchmarks/dice.py [--work DIR] [--at-once N] [--minutes M] [--arms NAME ...]

Captures are found in ``$SIM2CAM_REAL/dice``. Data and trainings go to ``--work`` and are resumed;
predictions, one file for each arm and seed, go to ``benchmarks/results/dice/`` with a sheet of renders
and what transfers make of them, and the scores to ``benchmarks/results/dice.json``. With ``--minutes`` no training is started after that time, with
``--arms`` none of another arm; with ``--minutes 0`` nothing is made, and what there is is scored.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import tyro
from numpy.typing import NDArray
from rendering.sheet import write_contact_sheet
from scoring_log import RESULTS, log_scoring, real_folder

from sim2cam import images
from sim2cam.data.environment import collect_environment
from sim2cam.data.reader import read_dataset
from sim2cam.data.real_images import RealImageSplits, read_real_images
from sim2cam.data.sample import Dataset
from sim2cam.data.writer import CARD, write_json
from sim2cam.experiments.ablation import (
    CAMERA,
    CAMERA_TRANSLATED,
    FIXED,
    PAGE_FILE,
    PSEUDO_LABELLED,
    RANDOMIZED,
    REAL,
    RETRANSLATED,
    TRANSLATED,
    AblationPlan,
    Variant,
    is_published,
    prepare_data,
    run_jobs,
)
from sim2cam.experiments.ablation_scores import BASELINE, collect_notes, score_ablation
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.report.ablation import read_ablation, write_ablation_page

SAME_TIME = 390
"""Steps of CycleGAN (2.0 CPU-s each) that take the time of the default translator's 3,000 (0.26 CPU-s),
both on one thread of one busy machine."""

PLAN = AblationPlan(
    variants=(
        Variant("randomized", (RANDOMIZED,)),
        Variant("randomized + camera fit", (CAMERA,)),
        Variant("randomized + camera fit, translated", (CAMERA, CAMERA_TRANSLATED)),
        Variant("+ transfer", (RANDOMIZED, "reinhard")),  # not the best one, which ladders choose
        Variant("+ self-labelled photos", (RANDOMIZED,), (RANDOMIZED, PSEUDO_LABELLED)),
        Variant("+ translated", (RANDOMIZED, TRANSLATED)),
        Variant("+ translated, next seed", (RANDOMIZED, RETRANSLATED)),
        Variant(
            "+ CycleGAN in the time of ours, under-trained", (RANDOMIZED, f"cyclegan-{SAME_TIME}")
        ),
        Variant("+ CycleGAN, 5,000 steps", (RANDOMIZED, "cyclegan-5000")),
        Variant("real only (5 labelled photos)", (f"{REAL}-5",)),
        Variant("real only (10 labelled photos)", (f"{REAL}-10",)),
        Variant("real only (25 labelled photos)", (f"{REAL}-25",)),
        Variant("real only (50 labelled photos)", (f"{REAL}-50",)),
        Variant("real only (100 labelled photos)", (f"{REAL}-100",)),
        Variant("real only (200 labelled photos)", (REAL,)),
        Variant("sim without randomization", (FIXED,)),
    ),
    seeds=(0, 1, 2),
    config=replace(load_recipe("dice").train, steps=1200, cache_bytes=9 << 30),
    image_count=2400,
    data_seed=100,
    recipe="dice",
    fixed_recipe="dice-fixed",
)

SHOWN = (RANDOMIZED, "reinhard", TRANSLATED, f"cyclegan-{SAME_TIME}")
"""Data sets in columns of the sheet, those that are there."""
ROWS, SIDE_PX = 4, 240


@dataclass(frozen=True)
class Arguments:
    """What of the ladder is run now."""

    work: Path = Path("runs/ladder")
    """Data sets and trainings."""
    at_once: int = 2
    """Trainings side by side, one thread each."""
    minutes: float = 1e9
    """Start no training after so many minutes."""
    arms: tuple[str, ...] = tuple(arm.name for arm in PLAN.variants)
    """Train these alone."""


def main(arguments: Arguments) -> None:
    """Run what is missing and writes the scores of what is there."""
    start = time.monotonic()
    captures = splits()
    if strangers := set(arguments.arms).difference(arm.name for arm in PLAN.variants):
        raise SystemExit(f"--arms: there is no {', '.join(sorted(strangers))}")
    plan = replace(PLAN, variants=tuple(arm for arm in PLAN.variants if arm.name in arguments.arms))
    if arguments.minutes > 0:
        empty = prepare_data(plan, captures, arguments.work, workers=arguments.at_once)
        for name, reason in empty.items():
            print(f"no arm with '{name}' is run: {reason}", flush=True)
        plan = replace(
            plan, variants=tuple(a for a in plan.variants if empty.keys().isdisjoint(a.data))
        )
    print("\n".join(collect_notes(captures, variant_count=len(plan.variants))), flush=True)
    left = arguments.minutes - (time.monotonic() - start) / 60
    for done in run_jobs(
        plan, captures, arguments.work, RESULTS / "dice", workers=arguments.at_once, minutes=left
    ):
        print(f"{(time.monotonic() - start) / 60:6.1f} min  {done.name}", flush=True)
    scores = score_ablation(PLAN, captures, RESULTS / "dice", baseline=BASELINE)
    facts = {
        "environment": collect_environment(None, arguments.at_once),
        "planned": [arm.name for arm in PLAN.variants],
        "notes": list(collect_notes(captures, variant_count=len(scores["variants"]))),
        **scores,
    }
    write_json(RESULTS / "dice.json", facts)
    log_scoring("core ladder", scores)
    there = [name for name in SHOWN if (arguments.work / name / CARD).is_file()]
    columns = {
        name: read_dataset(arguments.work / name, with_rejected=is_published(name))
        for name in there
    }
    write_sheet(columns, RESULTS / "dice" / "translations.jpg")
    page = write_ablation_page(
        read_ablation(RESULTS / "dice.json"),
        arguments.work / PAGE_FILE,
        title="What each part of the pipeline is worth on real dice",
    )
    for arm in scores["variants"]:
        print(f"{arm['name']:<34} AP50 {arm['ap50']['value']:.3f}  seeds {len(arm['seeds'])}")
    print(f"page: {page}")


def write_sheet(columns: Mapping[str, Dataset], path: Path) -> None:
    """Write some renders, each beside what transfers make of it, where there are any of both.

    Args:
        columns: the data sets, by what is written above their pictures; samples have the renders' names.
        path: of the picture.
    """
    files = [{s.name: s.rgb for s in dataset.samples} for dataset in columns.values()]
    passed = sorted(set.intersection(*map(set, files))) if len(columns) > 1 else []
    if not passed:
        return
    chosen = [passed[i] for i in np.linspace(0, len(passed) - 1, ROWS).astype(int)]
    tiles = [
        (f"{of} {name}", middle(images.read_rgb(named[name])))
        for name in chosen
        for of, named in zip(columns, files, strict=True)
    ]
    write_contact_sheet(path, tiles, columns=len(columns))


def middle(rgb: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the middle square (``WIDTH_PX``, ``WIDTH_PX``, 3) of a picture."""
    top, left = ((side - SIDE_PX) // 2 for side in rgb.shape[:2])
    return np.ascontiguousarray(rgb[top : top + SIDE_PX, left : left + SIDE_PX])


def splits() -> RealImageSplits:
    """Return the splits of the real dice."""
    names = ("style", "test", "dev", "train")
    style, test, dev, train = (read_real_images(real_folder("dice") / f"{n}.json") for n in names)
    return RealImageSplits(style, test, dev, train)


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
