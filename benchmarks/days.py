"""What fitting a camera and moving looks are worth on photos of another day: equal trainings, both ways.

    python benchmarks/days.py [--work DIR] [--at-once N] [--minutes M] [--arms NAME ...]

The real dice were photographed on two days. The camera is told and looks are learned from the style photos
of one day, without their labels, and its development photos tune what was trained, which is scored on all
other photos of the other day: 210, both ways together. Data, trainings and predictions, one file for each
way, arm and seed, go to ``--work`` and are resumed, and the scores to ``benchmarks/results/days.json``. With
``--minutes`` no data set or training is started after that time, with ``--arms`` none of another arm; with
``--minutes 0`` nothing is made, and what there is is scored.
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
from dice import PLAN, splits
from scoring_log import RESULTS, log_scoring
from sites import ADAPTED, Site, run_arm

from sim2cam.data.environment import collect_environment
from sim2cam.data.formats.predictions import DETECTION_ROWS, DIGESTS
from sim2cam.data.real_images import RealImageSplits
from sim2cam.data.sample import Dataset
from sim2cam.data.writer import write_json
from sim2cam.experiments.ablation import AblationPlan, locate_result, read_job_result
from sim2cam.experiments.ablation_scores import BASELINE, score_ablation

DAYS = ("20191208", "20191209")
"""As the names of photos have them."""
BY_DAY = replace(PLAN, variants=tuple(arm for arm in PLAN.variants if arm.data in ADAPTED))


@dataclass(frozen=True)
class Arguments:
    """What is made now."""

    work: Path = Path("runs/days")
    """Data sets and trainings."""
    at_once: int = 2
    """Pictures and trainings side by side, one thread each."""
    minutes: float = 1e9
    """Start nothing after so many minutes."""
    arms: tuple[str, ...] = tuple(arm.name for arm in BY_DAY.variants)
    """What is trained, by names in the table."""


def main(arguments: Arguments) -> None:
    """Make what is missing, seed by seed, and writes the scores of what there is both ways."""
    if unknown := set(arguments.arms).difference(arm.name for arm in BY_DAY.variants):
        raise SystemExit(f"--arms: there is no {', '.join(sorted(unknown))}")
    start = time.monotonic()
    sites = [site_of(day, splits(), arguments.work) for day in DAYS]
    for seed in BY_DAY.seeds:
        for arm in BY_DAY.variants:
            for site in sites:
                left = arguments.minutes - (time.monotonic() - start) / 60
                if arm.name in arguments.arms and left > 0:
                    one = replace(BY_DAY, seeds=(seed,))
                    run_arm(one, arm, site, at_once=arguments.at_once, minutes=left)
    scores = scored(BY_DAY, sites)
    write_json(
        RESULTS / "days.json",
        {"environment": collect_environment(None, arguments.at_once), **scores},
    )
    log_scoring("by day", scores)
    for arm in scores["variants"]:
        print(f"{arm['name']:<34} AP50 {arm['ap50']['value']:.3f}  seeds {len(arm['seeds'])}")


def site_of(day: str, captures: RealImageSplits, work: Path) -> Site:
    """Return the site of a way: to learn on a day, without labels, and be scored on the other.

    Args:
        day: one of ``DAYS``.
        captures: all splits.
        work: folder of all data sets and trainings.
    """

    def apart(photos: Dataset, *, same: bool) -> Dataset:
        return photos.select_by_name(
            s.name for s in photos.samples if (f"_{day}_" in s.name) is same
        )

    assert captures.dev is not None
    photos, other = apart(captures.style, same=False), apart(captures.test, same=False)
    scored_on = replace(other, samples=(*photos.samples, *other.samples))
    own = RealImageSplits(
        apart(captures.style, same=True), scored_on, apart(captures.dev, same=True)
    )
    return Site(own, work / day, work / "shared", work / "predictions" / day)


def scored(plan: AblationPlan, sites: list[Site]) -> dict[str, Any]:
    """Return the scores of arms on what all sites are scored on, of trainings that are there for each.

    Args:
        plan: of the trainings.
        sites: of the ways; no photo is scored in two of them.

    Raises:
        InputError: the baseline has no predictions yet.
    """
    first = sites[0].captures.test
    photos = tuple(sample for site in sites for sample in site.captures.test.samples)
    together = replace(sites[0].captures, test=replace(first, samples=photos))
    with tempfile.TemporaryDirectory() as folder:
        for arm in plan.variants:
            for seed in plan.seeds:
                ways = [
                    read_job_result(
                        locate_result(site.predictions, arm, seed), arm, plan, site.captures.test
                    )
                    for site in sites
                ]
                whole = [way for way in ways if way is not None]
                if len(whole) < len(sites):
                    continue
                found = {
                    image: boxes for way in whole for image, boxes in way[DETECTION_ROWS].items()
                }
                data = [record for way in whole for record in way["data"]]
                facts = whole[0] | {DETECTION_ROWS: found, "data": data}
                facts.pop(DIGESTS, None)  # of one way alone, and held against its photos already
                write_json(locate_result(Path(folder), arm, seed), facts)
        return score_ablation(plan, together, Path(folder), baseline=BASELINE)


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
