"""Scores and OOD rate of the shipped dice weights on real dice: development and test split.

    python benchmarks/shipped.py

The test split is also scored with input scale and box padding tuned on the development split. Writes ``benchmarks/results/shipped.json``. The scoring of the test split is logged.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from result_files import RESULTS, locate_real_dataset, log_scoring, write_results

from sim2cam.data.environment import collect_environment
from sim2cam.data.real_images import read_real_images
from sim2cam.experiments.benchmark import bench, bench_tuned
from sim2cam.models.inference.detector import SHIPPED_WEIGHTS, load_detector


def main() -> None:
    """Score both splits; write and print the results."""
    detector = load_detector(SHIPPED_WEIGHTS / "dice.safetensors")
    folder = locate_real_dataset("dice")
    dev, test = (read_real_images(folder / f"{split}.json") for split in ("dev", "test"))
    results = {"dev": bench(detector, dev), "test": bench(detector, test)}
    tuned = bench_tuned(detector, dev, test).to_json()
    scores = {
        split: {**result.score.to_json(), "ood_rate": result.reliability.to_json()["ood_rate"]}
        for split, result in results.items()
    }
    facts = {
        "environment": collect_environment(None, 1),
        "training": [f"{p.name}: {p.images} images" for p in detector.card.data],
        "steps": detector.card.steps,
        **scores,
        "tuned": tuned,
    }
    write_results(RESULTS / "shipped.json", facts)
    log_scoring("weights that ship", scores["test"])
    log_scoring("weights that ship, tuned on the development photos", tuned)
    for split, score in {**scores, "tuned": tuned}.items():
        print(split, {m: round(score[m]["value"], 3) for m in ("ap", "ap50", "agnostic_ap50")})


if __name__ == "__main__":
    main()
