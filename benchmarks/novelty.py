"""Which pictures the weights that ship call unlike what they know: the rate, and what tells them apart.

    python benchmarks/novelty.py [--work DIR] [--pictures N]

Photos of the development split are held against limits that the other four fifths of them tell, all others
against the limits of the card. Pictures are found in ``$SIM2CAM_REAL`` or rendered into ``--work``; scores go
to ``benchmarks/results/novelty.json``. Photos of the test split are told of in ``shipped.json``.
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
from scipy.stats import mannwhitneyu
from scoring_log import RESULTS, real_folder

from sim2cam.adapt.certificate.certificate import estimate_proportion
from sim2cam.data.environment import collect_environment
from sim2cam.data.real_images import read_real_images
from sim2cam.data.sample import Dataset
from sim2cam.data.writer import write_json
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
from sim2cam.seeds import derive_rng

Rgb = NDArray[np.uint8]

SEED = 700
FOLDS = 5
SURE = 0.5  # of detections, which are not told of: fewer close-ups are read
RENDERED = ("dice", "cubes", "groceries", "twisty")


@dataclass(frozen=True)
class Arguments:
    """How much is looked at, and where renders go."""

    work: Path = Path("runs/novelty")
    """Renders; they are completed there."""
    pictures: int = 40
    """Of each kind, at most."""


def main(arguments: Arguments) -> None:
    """Look, writes and prints."""
    use_threads(1)
    detector = load_detector(SHIPPED_WEIGHTS / "dice.safetensors")
    assert isinstance(detector, NativeDetector)
    limit = detector.card.ood_threshold
    assert limit is not None
    dev = read_real_images(real_folder("dice") / "dev.json")
    familiar = list(_by_folds(detector, dev))
    rows = [_row("photos of dice, development", familiar, familiar)]
    for name, pictures in _others(arguments, dev):
        seen = [
            (limit, predict_image(detector, rgb, score_floor=SURE).ood_statistics)
            for rgb in pictures
        ]
        rows.append(_row(name, [(of, one) for of, one in seen if one is not None], familiar))
        print(rows[-1], flush=True)
    facts = {
        "environment": collect_environment(None, 1),
        "limit": asdict(limit),
        "seed": SEED,
        "sets": rows,
    }
    write_json(RESULTS / "novelty.json", facts)


Judged = tuple[OodThreshold, OodStatistics]


def _by_folds(detector: NativeDetector, dev: Dataset) -> Iterator[Judged]:
    """Yield each development photo with the limits that those of the other folds tell."""
    order = derive_rng(SEED, "folds").permutation(len(dev.samples))
    seen = predict_samples(detector, dev, score_floor=SURE)
    for fold in np.array_split(order, FOLDS):
        mine = {dev.samples[i].name for i in fold}
        others = dev.select_by_name(seen.keys() - mine)
        limit = fit_ood_threshold(
            others,
            {s.name: seen[s.name] for s in others.samples},
            "validation images",
            detector.card,
        )
        assert limit is not None
        for name in sorted(mine):
            strangeness = seen[name].ood_statistics
            assert strangeness is not None
            yield limit, strangeness


def _others(arguments: Arguments, dev: Dataset) -> Iterator[tuple[str, list[Rgb]]]:
    """Yield the other kinds of pictures by their names: of dice first, then broken ones, then others."""
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
            progress=lambda _done, _total: None,
        )
        yield f"renders of {name}", _read(rendered, count)
        if name == "dice":
            yield (
                "dice before the stand-in camera",
                _read(read_real_images(RECIPES_FOLDER / "standin" / "test.json"), count),
            )
    photos = _read(dev, count)
    yield "photos of dice, in negative", [255 - rgb for rgb in photos]
    yield "photos of dice, 6 stops darker", [(rgb // 64).astype(np.uint8) for rgb in photos]
    yield "photos of dice, out of focus", [_blurred(rgb) for rgb in photos]
    yield "noise", list(_noise(photos))
    yield "household things (LM-O)", _read(read_real_images(real_folder("lmo")), count)
    yield "chessboards (GoPro)", _read(read_real_images(real_folder("gopro_chessboard")), count)


def _read(dataset: Dataset, count: int) -> list[Rgb]:
    """Return some pictures of a data set, evenly spread."""
    places = np.linspace(0, len(dataset.samples) - 1, min(count, len(dataset.samples))).astype(int)
    return [read_rgb(dataset.samples[place].rgb) for place in places]


def _noise(photos: list[Rgb]) -> Iterator[Rgb]:
    for number, rgb in enumerate(photos):
        rng = derive_rng(SEED, "noise", scene_index=number)
        yield rng.integers(0, 256, rgb.shape, dtype=np.uint8)


def _blurred(rgb: Rgb) -> Rgb:
    return cv2.GaussianBlur(rgb, (0, 0), 12).astype(np.uint8)


def _row(name: str, judged: list[Judged], familiar: list[Judged]) -> dict[str, Any]:
    """Return the share of pictures that are unlike, and how well each part tells them from familiar ones."""
    ood_rate = estimate_proportion(
        sum(limit.compute_ood_score(one) > 1 for limit, one in judged), len(judged)
    )
    beside = {
        part: _auc(
            [getattr(one, part) for _, one in familiar], [getattr(one, part) for _, one in judged]
        )
        for part in ("distance", "uncertainty")
    }
    return {"name": name, "images": len(judged), "ood_rate": ood_rate.to_json(), "auc": beside}


def _auc(low: list[float], high: list[float]) -> float:
    """Return the chance that one of ``high`` is above one of ``low``; ties count half."""
    return float(mannwhitneyu(high, low).statistic) / (len(high) * len(low))


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
