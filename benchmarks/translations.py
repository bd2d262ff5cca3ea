"""Certification and domain gap of all transfers on renders of dice.

    python benchmarks/translations.py [--work DIR] [--pictures N]

Uses the renders and transfers of ``benchmarks/dice.py`` in ``--work``, and all parameter-free transfers,
fitted to the style photos. Translates the first N renders with each transfer and certifies them with the
shipped detectors as verifiers. The gap between certified images and photos is measured on image
statistics: sliced Wasserstein distance, and AUC of a classifier of the two sets (0.5 if they are
indistinguishable). Reference sets are the style photos and the development photos, which show other
views; the gap between these two is reported too. No label of a photo is read. Writes
``translations.json`` to ``benchmarks/results`` after each transfer, and a contact sheet
``translations.jpg``.
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
from result_files import FIGURES, RESULTS, locate_real_dataset, write_results

from sim2cam.adapt.store import TRANSFER_TYPES
from sim2cam.data.environment import collect_environment
from sim2cam.data.reader import read_dataset
from sim2cam.data.real_images import read_real_images
from sim2cam.data.sample import Dataset
from sim2cam.images import read_rgb
from sim2cam.learn.device import use_threads
from sim2cam.metrics.image_statistics import compute_image_statistics
from sim2cam.metrics.two_sample import MIN_IMAGES, fit_feature_scaler, measure_domain_gap
from sim2cam.models.shipped_weights import resolve_weights
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.pipeline.translation import Certification, apply_transfer, fit_parameter_free_transfer
from sim2cam.progress import ignore_progress
from sim2cam.seeds import derive_rng

ImageStatistics = NDArray[np.float64]

SEED = 100
PHOTOS = ("style", "dev")
"""Splits of photos: the one that transfers are fitted to, and another."""
VERIFIERS = {"task": "dice", "verifier": "dice-verifier"}
AIMS = {"rejection_rate": 0.05, "detection_recall": 0.97}


@dataclass(frozen=True)
class Arguments:
    """Options of the benchmark."""

    work: Path = Path("runs/ladder")
    """Folder of the data of ``benchmarks/dice.py``."""
    pictures: int = 200
    """Number of renders."""


def main(arguments: Arguments) -> None:
    """Translate and measure renders; write and print the results."""
    use_threads(1)
    renders = read_dataset(arguments.work / "randomized").take(arguments.pictures)
    splits = {
        name: read_real_images(locate_real_dataset("dice") / f"{name}.json") for name in PHOTOS
    }
    photos = {name: _compute_statistics(dataset) for name, dataset in splits.items()}
    render_statistics = _compute_statistics(renders)
    measure_gaps = functools.partial(_measure_gaps, photos, render_statistics)
    rows = [
        {"name": "development photos", **measure_gaps(photos["dev"])},
        {"name": "renders", **measure_gaps(render_statistics)},
    ]
    columns = {"render": renders}
    facts = {
        "environment": collect_environment(None, 1),
        "verifiers": VERIFIERS,
        "aims": AIMS,
        "images": len(renders.samples),
        "photos": {name: len(rows) for name, rows in photos.items()},
        "transfers": rows,
    }
    transfers = arguments.work / "transfers"
    for method in TRANSFER_TYPES:
        if not (transfers / method).is_dir():
            fit_parameter_free_transfer(
                splits["style"], method, transfers / method, overwrite=False
            )
    for run in sorted(transfers.iterdir()):
        out = arguments.work / "judged" / run.name
        rows.append(measure(run, renders, measure_gaps, out))
        write_results(RESULTS / "translations.json", facts)
        print(rows[-1], flush=True)
        if rows[-1]["kept"]:
            columns[run.name] = read_dataset(out)
    write_sheet(columns, FIGURES / "translations.jpg")


def measure(
    run: Path,
    renders: Dataset,
    measure_gaps: Callable[[ImageStatistics], dict[str, Any]],
    out: Path,
) -> dict[str, Any]:
    """Return the certificate and the domain gap of a transfer; too few images give the reason instead of a gap."""
    weights = tuple((name, resolve_weights(Path(file))) for name, file in VERIFIERS.items())
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
        progress=ignore_progress,
    )
    retention = {name: certificate.estimate_detection_recall(name) for name in VERIFIERS}
    measured = {
        "name": run.name,
        "decision": certificate.decision,
        "kept": certificate.accepted_count,
        "rejection_rate": certificate.rejection_rate.to_json(),
        "detection_recall": {
            name: recall and recall.to_json() for name, recall in retention.items()
        },
    }
    if certificate.accepted_count < MIN_IMAGES:
        reason = f"{certificate.accepted_count} images passed; at least {MIN_IMAGES} are needed."
        return {**measured, "from": None, "why": reason}
    return {**measured, **measure_gaps(_compute_statistics(read_dataset(out)))}


def _measure_gaps(
    photos: Mapping[str, ImageStatistics],
    render_statistics: ImageStatistics,
    statistics: ImageStatistics,
) -> dict[str, Any]:
    """Return the domain gap to each set of photos, except to the set itself."""
    gaps = {}
    for name, reference in photos.items():
        if reference is not statistics:
            scale = fit_feature_scaler(reference, render_statistics)
            gap = measure_domain_gap(
                scale.transform(statistics),
                scale.transform(reference),
                derive_rng(SEED, "translations"),
            )
            gaps[name] = {
                "sliced_wasserstein": gap.sliced_wasserstein.to_json(),
                "auc": gap.auc.to_json(),
            }
    return {"from": gaps}


def _compute_statistics(dataset: Dataset) -> ImageStatistics:
    return np.array([compute_image_statistics(read_rgb(sample.rgb)) for sample in dataset.samples])


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
