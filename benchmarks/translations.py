"""What transfers make of renders of dice: what certificates and two judges say, and how near to photos it is.

    python benchmarks/translations.py [--work DIR] [--pictures N]

Takes the renders and transfers that ``benchmarks/dice.py`` left in ``--work``, and all transfers without a
network, fitted to the style photos; translates the first N renders with each, and certifies them with the weights that ship as judges. How far certified pictures are from photos
is told by their looks: the sliced Wasserstein distance, and how well a classifier tells both sets apart (0.5
if it cannot), from the style photos that transfers were fitted to, and from those of the development split,
which are other views. How far these are from the style photos is told too. No label of a photo is read. Writes
``translations.json`` to ``benchmarks/results`` after each transfer, and ``translations.jpg``: some renders beside what becomes of them.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import tyro
from dice import write_sheet
from numpy.typing import NDArray
from scoring_log import RESULTS, real_folder

from sim2cam.adapt.store import TRANSFER_TYPES
from sim2cam.data.environment import collect_environment
from sim2cam.data.reader import read_dataset
from sim2cam.data.real_images import read_real_images
from sim2cam.data.sample import Dataset
from sim2cam.data.writer import write_json
from sim2cam.images import read_rgb
from sim2cam.learn.device import use_threads
from sim2cam.metrics.image_statistics import compute_image_statistics
from sim2cam.metrics.two_sample import MIN_IMAGES, fit_feature_scaler, measure_domain_gap
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.pipeline.translation import Certification, apply_transfer, fit_parameter_free_transfer
from sim2cam.pipeline.verifiers import resolve_weights
from sim2cam.seeds import derive_rng

Looks = NDArray[np.float64]

SEED = 100
PHOTOS = ("style", "dev")
"""Splits: those that transfers were fitted to, and others."""
JUDGES = {"task": "dice", "verifier": "dice-verifier"}
AIMS = {"rejection_rate": 0.05, "detection_recall": 0.97}


@dataclass(frozen=True)
class Arguments:
    """What is translated."""

    work: Path = Path("runs/ladder")
    """Where ``benchmarks/dice.py`` left its data."""
    pictures: int = 200
    """Renders."""


def main(arguments: Arguments) -> None:
    """Translate, measures, writes and prints."""
    use_threads(1)
    renders = read_dataset(arguments.work / "randomized").take(arguments.pictures)
    captures = {name: read_real_images(real_folder("dice") / f"{name}.json") for name in PHOTOS}
    photos = {name: _looks(one) for name, one in captures.items()}
    before = _looks(renders)
    far = functools.partial(_gaps, photos, before)
    rows = [
        {"name": "development photos", **far(photos["dev"])},
        {"name": "renders", **far(before)},
    ]
    columns = {"render": renders}
    facts = {
        "environment": collect_environment(None, 1),
        "verifiers": JUDGES,
        "aims": AIMS,
        "images": len(renders.samples),
        "photos": {name: len(looks) for name, looks in photos.items()},
        "transfers": rows,
    }
    transfers = arguments.work / "transfers"
    for method in TRANSFER_TYPES:
        if not (transfers / method).is_dir():
            fit_parameter_free_transfer(
                captures["style"], method, transfers / method, overwrite=False
            )
    for run in sorted(transfers.iterdir()):
        out = arguments.work / "judged" / run.name
        rows.append(measure(run, renders, far, out))
        write_json(RESULTS / "translations.json", facts)
        print(rows[-1], flush=True)
        if rows[-1]["kept"]:
            columns[run.name] = read_dataset(out)
    write_sheet(columns, RESULTS / "translations.jpg")


def measure(
    run: Path, renders: Dataset, far: Callable[[Looks], dict[str, Any]], out: Path
) -> dict[str, Any]:
    """Return what a transfer makes of renders; how far that is from photos is None, with why, of too few."""
    weights = tuple((name, resolve_weights(Path(file))) for name, file in JUDGES.items())
    certificate = apply_transfer(
        run,
        renders,
        out,
        certification=Certification(load_recipe("dice").adapt.certificate, weights),
        seed=SEED,
        workers=1,
        device="cpu",
        resume=True,
        overwrite=False,
        progress=lambda _done, _total: None,
    )
    retention = {name: certificate.estimate_detection_recall(name) for name in JUDGES}
    measured = {
        "name": run.name,
        "decision": certificate.decision,
        "kept": certificate.accepted_count,
        "rejection_rate": certificate.rejection_rate.to_json(),
        "detection_recall": {name: one and one.to_json() for name, one in retention.items()},
    }
    if certificate.accepted_count < MIN_IMAGES:
        why = f"{certificate.accepted_count} pictures were kept, and {MIN_IMAGES} are needed"
        return {**measured, "from": None, "why": why}
    return {**measured, **far(_looks(read_dataset(out)))}


def _gaps(photos: Mapping[str, Looks], before: Looks, looks: Looks) -> dict[str, Any]:
    """Return how far looks are from those of each set of photos, but not from themselves."""
    found = {}
    for name, own in photos.items():
        if own is not looks:
            scale = fit_feature_scaler(own, before)
            gap = measure_domain_gap(
                scale.transform(looks), scale.transform(own), derive_rng(SEED, "translations")
            )
            found[name] = {
                "sliced_wasserstein": gap.sliced_wasserstein.to_json(),
                "auc": gap.auc.to_json(),
            }
    return {"from": found}


def _looks(dataset: Dataset) -> Looks:
    return np.array([compute_image_statistics(read_rgb(sample.rgb)) for sample in dataset.samples])


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
