"""Ablation study on real dice: the contribution of each pipeline stage without real labels.

    python benchmarks/dice.py [--work DIR] [--at-once N] [--minutes M] [--arms NAME ...]

Reads real images from ``$SIM2CAM_REAL/dice``. Datasets and training runs go to ``--work`` and are
resumed; so do the predictions, one file per variant and seed. Writes scores to ``benchmarks/results/dice.json``,
and a contact sheet of renders and translations to the documentation. No training starts after ``--minutes``. ``--arms`` selects variants. ``--minutes 0`` only scores existing results.
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
from result_files import FIGURES, RESULTS, locate_real_dataset, log_scoring, write_results

from sim2cam import images
from sim2cam.data.environment import collect_environment
from sim2cam.data.reader import read_dataset
from sim2cam.data.real_images import RealImageSplits, read_real_images
from sim2cam.data.sample import Dataset
from sim2cam.data.writer import CARD
from sim2cam.experiments.ablation import (
    CAMERA,
    CAMERA_TRANSLATED,
    FIXED,
    PAGE_FILE,
    PREDICTIONS_FOLDER,
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
"""CycleGAN steps (2.0 CPU-s each) that take as long as 3,000 steps of the default translator (0.26 CPU-s each).

Measured with one thread on the same busy machine.
"""

PLAN = AblationPlan(
    variants=(
        Variant("randomized", (RANDOMIZED,)),
        Variant("randomized + camera fit", (CAMERA,)),
        Variant("randomized + camera fit, translated", (CAMERA, CAMERA_TRANSLATED)),
        Variant(
            "+ transfer", (RANDOMIZED, "reinhard")
        ),  # not the best transfer, which other ablation studies select
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
    # the network of the committed scores
    config=replace(
        load_recipe("dice").train,
        steps=1200,
        architecture="nano",
        pretrained="",
        bfloat16=True,
        cache_bytes=9 << 30,
    ),
    image_count=2400,
    data_seed=100,
    recipe="dice",
    fixed_recipe="dice-fixed",
)

SHOWN = (RANDOMIZED, "reinhard", TRANSLATED, f"cyclegan-{SAME_TIME}")
"""Datasets that are columns of the contact sheet, if they exist."""
ROWS, SIDE_PX = 4, 240


@dataclass(frozen=True)
class Arguments:
    """Options of the ablation study."""

    work: Path = Path("runs/ladder")
    """Folder of datasets and training runs."""
    at_once: int = 2
    """Parallel training runs, one thread each."""
    minutes: float = 1e9
    """Start no training after this many minutes."""
    arms: tuple[str, ...] = tuple(variant.name for variant in PLAN.variants)
    """Variants to train."""


def main(arguments: Arguments) -> None:
    """Run missing training jobs and write the scores of all results."""
    start = time.monotonic()
    splits = read_splits()
    if unknown := set(arguments.arms).difference(variant.name for variant in PLAN.variants):
        raise SystemExit(f"--arms: unknown variants: {', '.join(sorted(unknown))}.")
    plan = replace(
        PLAN, variants=tuple(variant for variant in PLAN.variants if variant.name in arguments.arms)
    )
    if arguments.minutes > 0:
        skipped = prepare_data(plan, splits, arguments.work, workers=arguments.at_once)
        for name, reason in skipped.items():
            print(f"Skipping variants with '{name}': {reason}", flush=True)
        plan = replace(
            plan,
            variants=tuple(
                variant for variant in plan.variants if skipped.keys().isdisjoint(variant.data)
            ),
        )
    print("\n".join(collect_notes(splits, variant_count=len(plan.variants))), flush=True)
    remaining_minutes = arguments.minutes - (time.monotonic() - start) / 60
    for job in run_jobs(
        plan,
        splits,
        arguments.work,
        arguments.work / PREDICTIONS_FOLDER,
        workers=arguments.at_once,
        minutes=remaining_minutes,
    ):
        print(f"{(time.monotonic() - start) / 60:6.1f} min  {job.name}", flush=True)
    scores = score_ablation(PLAN, splits, arguments.work / PREDICTIONS_FOLDER, baseline=BASELINE)
    facts = {
        "environment": collect_environment(None, arguments.at_once),
        "planned": [variant.name for variant in PLAN.variants],
        "notes": list(collect_notes(splits, variant_count=len(scores["variants"]))),
        **scores,
    }
    write_results(RESULTS / "dice.json", facts)
    log_scoring("core ablation", scores)
    shown = [name for name in SHOWN if (arguments.work / name / CARD).is_file()]
    columns = {
        name: read_dataset(arguments.work / name, with_rejected=is_published(name))
        for name in shown
    }
    write_sheet(columns, FIGURES / "ablation-translations.jpg")
    page = write_ablation_page(
        read_ablation(RESULTS / "dice.json"),
        arguments.work / PAGE_FILE,
        title="Contribution of each pipeline stage on real dice",
    )
    for variant in scores["variants"]:
        print(
            f"{variant['name']:<34} AP50 {variant['ap50']['value']:.3f}  seeds {len(variant['seeds'])}"
        )
    print(f"page: {page}")


def write_sheet(columns: Mapping[str, Dataset], path: Path) -> None:
    """Write a contact sheet of renders beside their translations; write nothing if no image is in all columns.

    Args:
        columns: datasets by column title; their samples have the names of the renders.
    """
    files = [{s.name: s.rgb for s in dataset.samples} for dataset in columns.values()]
    common = sorted(set.intersection(*map(set, files))) if len(columns) > 1 else []
    if not common:
        return
    selected = [common[i] for i in np.linspace(0, len(common) - 1, ROWS).astype(int)]
    tiles = [
        (f"{title} {name}", crop_center(images.read_rgb(paths[name])))
        for name in selected
        for title, paths in zip(columns, files, strict=True)
    ]
    write_contact_sheet(path, tiles, columns=len(columns))


def crop_center(rgb: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the central square (``SIDE_PX``, ``SIDE_PX``, 3) of an image."""
    top, left = ((side - SIDE_PX) // 2 for side in rgb.shape[:2])
    return np.ascontiguousarray(rgb[top : top + SIDE_PX, left : left + SIDE_PX])


def read_splits() -> RealImageSplits:
    """Return the splits of the real dice dataset."""
    names = ("style", "test", "dev", "train")
    style, test, dev, train = (
        read_real_images(locate_real_dataset("dice") / f"{n}.json") for n in names
    )
    return RealImageSplits(style, test, dev, train)


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
