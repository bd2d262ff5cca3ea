"""Sites: where a camera is at work, and equal trainings brought to each from its own captures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from sim2cam.data.real_images import RealImageSplits
from sim2cam.experiments.ablation import (
    CAMERA,
    CAMERA_TRANSLATED,
    RANDOMIZED,
    TRANSLATED,
    AblationPlan,
    Variant,
    prepare_data,
    run_jobs,
)

ADAPTED = (
    (RANDOMIZED,),
    (CAMERA,),
    (CAMERA, CAMERA_TRANSLATED),
    (RANDOMIZED, "reinhard"),
    (RANDOMIZED, TRANSLATED),
)
"""Data sets of the arms that are brought to sites."""


@dataclass(frozen=True)
class Site:
    """A camera in its place.

    Attributes:
        captures: without labels, to be brought to, and labelled ones that are scored.
        root: folder of the data and trainings of its own; its name is the site's.
        shared: folder of those in which no site has a part, which are made once.
        predictions: folder of what is found in its captures.
    """

    captures: RealImageSplits
    root: Path
    shared: Path
    predictions: Path

    def folder_of(self, arm: Variant) -> Path:
        """Return where data and trainings of an arm are."""
        return self.shared if arm.all_data == (RANDOMIZED,) else self.root


def run_arm(plan: AblationPlan, arm: Variant, site: Site, *, at_once: int, minutes: float) -> None:
    """Train an arm, unless it was, and writes what it finds in the captures of a site.

    Args:
        plan: of the trainings.
        arm: one of its arms.
        site: whose captures it is brought to and scored on.
        at_once: trainings and pictures side by side, one thread each.
        minutes: after which no training is started.
    """
    own, work = replace(plan, variants=(arm,)), site.folder_of(arm)
    if work == site.root:
        renders = site.root / RANDOMIZED
        if not renders.exists():  # what no site changes is made once
            renders.parent.mkdir(parents=True, exist_ok=True)
            renders.symlink_to((site.shared / RANDOMIZED).absolute(), target_is_directory=True)
    empty = prepare_data(own, site.captures, work, workers=at_once)
    for reason in empty.values():
        print(f"{site.root.name}: {arm.name} is not run: {reason}", flush=True)
    if empty:
        return
    for done in run_jobs(
        own, site.captures, work, site.predictions, workers=at_once, minutes=minutes
    ):
        print(f"{site.root.name}: {done.name}", flush=True)
