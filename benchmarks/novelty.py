"""Out-of-distribution detection of the shipped dice weights: OOD rate and AUC on various image sets.

    python benchmarks/novelty.py [--work DIR] [--pictures N]

Thresholds for development photos are cross-validated: each fold uses the threshold fitted on the other
four. All other images use the threshold of the card. Images are read from ``$SIM2CAM_REAL`` or rendered
into ``--work``. Writes ``benchmarks/results/novelty.json``. ``shipped.json`` has the OOD rate of the test
photos.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import cv2
import numpy as np
import tyro
from numpy.typing import NDArray
from result_files import RESULTS, locate_real_dataset, write_results
from scipy.stats import mannwhitneyu

from sim2cam.adapt.certificate.certificate import estimate_proportion
from sim2cam.data.environment import collect_environment
from sim2cam.data.real_images import read_real_images
from sim2cam.data.sample import Dataset
from sim2cam.images import read_rgb
from sim2cam.learn.device import use_threads
from sim2cam.models.card import OodThreshold
from sim2cam.models.inference.detector import (
    SHIPPED_WEIGHTS,
    NativeDetector,
    load_detector,
    predict_image,
    predict_samples,
)
from sim2cam.models.reliability.measurement import fit_ood_threshold
from sim2cam.models.reliability.ood import OodStatistics
from sim2cam.pipeline.generation import generate
from sim2cam.pipeline.recipe import RECIPES_FOLDER, load_recipe
from sim2cam.progress import ignore_progress
from sim2cam.seeds import derive_rng

Rgb = NDArray[np.uint8]

SEED = 700
FOLDS = 5
SCORE_FLOOR = 0.5  # detections are not used; a high floor saves RoI crops
RENDERED = ("dice", "cubes", "groceries", "twisty")


@dataclass(frozen=True)
class Arguments:
    """Options of the benchmark."""

    work: Path = Path("runs/novelty")
    """Folder of the renders, which are resumed."""
    pictures: int = 40
    """Maximum number of images per set."""


def main(arguments: Arguments) -> None:
    """Measure all image sets; write and print the results."""
    use_threads(1)
    detector = load_detector(SHIPPED_WEIGHTS / "dice.safetensors")
    assert isinstance(detector, NativeDetector)
    threshold = detector.card.ood_threshold
    assert threshold is not None
    dev = read_real_images(locate_real_dataset("dice") / "dev.json")
    in_distribution = list(_cross_validate(detector, dev))
    rows = [_measure_set("photos of dice, development", in_distribution, in_distribution)]
    for name, photos in _list_ood_sets(arguments, dev):
        predictions = [
            (threshold, predict_image(detector, rgb, score_floor=SCORE_FLOOR).ood_statistics)
            for rgb in photos
        ]
        rows.append(
            _measure_set(
                name,
                [(threshold, s) for threshold, s in predictions if s is not None],
                in_distribution,
            )
        )
        print(rows[-1], flush=True)
    facts = {
        "environment": collect_environment(None, 1),
        "limit": asdict(threshold),
        "seed": SEED,
        "sets": rows,
    }
    write_results(RESULTS / "novelty.json", facts)


ThresholdedStatistics = tuple[OodThreshold, OodStatistics]


def _cross_validate(detector: NativeDetector, dev: Dataset) -> Iterator[ThresholdedStatistics]:
    """Yield each development photo's OOD statistics with the threshold fitted on the other folds."""
    order = derive_rng(SEED, "folds").permutation(len(dev.samples))
    predictions = predict_samples(detector, dev, score_floor=SCORE_FLOOR)
    for fold in np.array_split(order, FOLDS):
        fold_names = {dev.samples[i].name for i in fold}
        other_photos = dev.select_by_name(predictions.keys() - fold_names)
        threshold = fit_ood_threshold(
            other_photos,
            {s.name: predictions[s.name] for s in other_photos.samples},
            "validation images",
            detector.card,
        )
        assert threshold is not None
        for name in sorted(fold_names):
            statistics = predictions[name].ood_statistics
            assert statistics is not None
            yield threshold, statistics


def _list_ood_sets(arguments: Arguments, dev: Dataset) -> Iterator[tuple[str, list[Rgb]]]:
    """Yield the other image sets by name: dice, corrupted photos, other objects."""
    count = arguments.pictures
    for name in RENDERED:
        rendered = generate(
            load_recipe(name),
            arguments.work / name,
            count=count,
            seed=SEED,
            workers=1,
            resume=True,
            overwrite=False,
            progress=ignore_progress,
        )
        yield f"renders of {name}", _read_images(rendered, count)
        if name == "dice":
            yield (
                "dice before the stand-in camera",
                _read_images(read_real_images(RECIPES_FOLDER / "standin" / "test.json"), count),
            )
    photos = _read_images(dev, count)
    yield "photos of dice, in negative", [255 - rgb for rgb in photos]
    yield "photos of dice, 6 stops darker", [(rgb // 64).astype(np.uint8) for rgb in photos]
    yield "photos of dice, out of focus", [_blur(rgb) for rgb in photos]
    yield "noise", list(_make_noise(photos))
    yield (
        "household things (LM-O)",
        _read_images(read_real_images(locate_real_dataset("lmo")), count),
    )
    yield (
        "chessboards (GoPro)",
        _read_images(read_real_images(locate_real_dataset("gopro_chessboard")), count),
    )


def _read_images(dataset: Dataset, count: int) -> list[Rgb]:
    """Read images of a dataset, evenly spaced."""
    places = np.linspace(0, len(dataset.samples) - 1, min(count, len(dataset.samples))).astype(int)
    return [read_rgb(dataset.samples[place].rgb) for place in places]


def _make_noise(photos: list[Rgb]) -> Iterator[Rgb]:
    for number, rgb in enumerate(photos):
        rng = derive_rng(SEED, "noise", scene_index=number)
        yield rng.integers(0, 256, rgb.shape, dtype=np.uint8)


def _blur(rgb: Rgb) -> Rgb:
    return cv2.GaussianBlur(rgb, (0, 0), 12).astype(np.uint8)


def _measure_set(
    name: str, scored: list[ThresholdedStatistics], in_distribution: list[ThresholdedStatistics]
) -> dict[str, Any]:
    """Return the OOD rate of a set, and the AUC of each part of the OOD score against in-distribution images."""
    ood_rate = estimate_proportion(
        sum(threshold.compute_ood_score(s) > 1 for threshold, s in scored), len(scored)
    )
    auc = {
        part: _compute_auc(
            [getattr(s, part) for _, s in in_distribution], [getattr(s, part) for _, s in scored]
        )
        for part in ("distance", "uncertainty")
    }
    return {"name": name, "images": len(scored), "ood_rate": ood_rate.to_json(), "auc": auc}


def _compute_auc(low: list[float], high: list[float]) -> float:
    """Return the probability that a value of ``high`` exceeds one of ``low``; ties count half."""
    return float(mannwhitneyu(high, low).statistic) / (len(high) * len(low))


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
