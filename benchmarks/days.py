"""Benefit of camera fitting and translation on photos of another day, with equal training.

    python benchmarks/days.py [--work DIR] [--at-once N] [--minutes M] [--arms NAME ...]

The real dice were photographed on two days. Camera fit and transfers use the unlabelled style photos of
one day, whose development photos tune the detectors. All other photos of the other day are scored: 210
over both directions. Datasets, training runs and predictions (one file per direction, variant and seed)
go to ``--work`` and are resumed. Scores go to ``benchmarks/results/days.json``. Nothing is started after
``--minutes``. ``--arms`` selects variants. ``--minutes 0`` only scores existing results.
"""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import tyro
from dice import PLAN, read_splits
from result_files import RESULTS, log_scoring, write_results
from sites import ADAPTED, Site, run_variant

from sim2cam.data.environment import collect_environment
from sim2cam.data.formats.predictions import DETECTION_ROWS, DIGESTS
from sim2cam.data.real_images import RealImageSplits
from sim2cam.data.sample import Dataset
from sim2cam.data.writer import write_json
from sim2cam.experiments.ablation import AblationPlan, locate_result, read_job_result
from sim2cam.experiments.ablation_scores import BASELINE, score_ablation

DAYS = ("20191208", "20191209")
"""Dates in the names of the photos."""
BY_DAY = replace(
    PLAN, variants=tuple(variant for variant in PLAN.variants if variant.data in ADAPTED)
)


@dataclass(frozen=True)
class Arguments:
    """Options of the benchmark."""

    work: Path = Path("runs/days")
    """Folder of datasets and training runs."""
    at_once: int = 2
    """Images and training runs in parallel, one thread each."""
    minutes: float = 1e9
    """Start nothing after this many minutes."""
    arms: tuple[str, ...] = tuple(variant.name for variant in BY_DAY.variants)
    """Variants to train."""


def main(arguments: Arguments) -> None:
    """Run missing jobs, seed by seed, and write the scores of all results."""
    if unknown := set(arguments.arms).difference(variant.name for variant in BY_DAY.variants):
        raise SystemExit(f"--arms: unknown variants: {', '.join(sorted(unknown))}.")
    start = time.monotonic()
    sites = [get_site(day, read_splits(), arguments.work) for day in DAYS]
    for seed in BY_DAY.seeds:
        for variant in BY_DAY.variants:
            for site in sites:
                remaining_minutes = arguments.minutes - (time.monotonic() - start) / 60
                if variant.name in arguments.arms and remaining_minutes > 0:
                    seed_plan = replace(BY_DAY, seeds=(seed,))
                    run_variant(
                        seed_plan,
                        variant,
                        site,
                        at_once=arguments.at_once,
                        minutes=remaining_minutes,
                    )
    scores = score(BY_DAY, sites)
    write_results(
        RESULTS / "days.json",
        {"environment": collect_environment(None, arguments.at_once), **scores},
    )
    log_scoring("by day", scores)
    for variant in scores["variants"]:
        print(
            f"{variant['name']:<34} AP50 {variant['ap50']['value']:.3f}  seeds {len(variant['seeds'])}"
        )


def get_site(day: str, splits: RealImageSplits, work: Path) -> Site:
    """Return the site that adapts to photos of one day, without labels, and is scored on the other day."""

    def select_day(photos: Dataset, *, same: bool) -> Dataset:
        return photos.select_by_name(
            s.name for s in photos.samples if (f"_{day}_" in s.name) is same
        )

    assert splits.dev is not None
    photos, other = select_day(splits.style, same=False), select_day(splits.test, same=False)
    scored_on = replace(other, samples=(*photos.samples, *other.samples))
    splits_by_day = RealImageSplits(
        select_day(splits.style, same=True), scored_on, select_day(splits.dev, same=True)
    )
    return Site(splits_by_day, work / day, work / "shared", work / "predictions" / day)


def score(plan: AblationPlan, sites: list[Site]) -> dict[str, Any]:
    """Return the scores of variants over the test photos of all sites; skip runs that a site lacks.

    Args:
        sites: one for each direction; their test photos are disjoint.

    Raises:
        InputError: the baseline has no predictions yet.
    """
    first = sites[0].captures.test
    photos = tuple(sample for site in sites for sample in site.captures.test.samples)
    together = replace(sites[0].captures, test=replace(first, samples=photos))
    with tempfile.TemporaryDirectory() as folder:
        for variant in plan.variants:
            for seed in plan.seeds:
                results = [
                    read_job_result(
                        locate_result(site.predictions, variant, seed),
                        variant,
                        plan,
                        site.captures.test,
                    )
                    for site in sites
                ]
                complete = [result for result in results if result is not None]
                if len(complete) < len(sites):
                    continue
                detections = {
                    image: boxes
                    for result in complete
                    for image, boxes in result[DETECTION_ROWS].items()
                }
                data = [record for result in complete for record in result["data"]]
                facts = complete[0] | {DETECTION_ROWS: detections, "data": data}
                facts.pop(DIGESTS, None)  # valid for one direction only; already checked
                write_json(locate_result(Path(folder), variant, seed), facts)
        return score_ablation(plan, together, Path(folder), baseline=BASELINE)


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
