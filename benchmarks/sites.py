"""Sites of cameras, and equal training adapted to each from its own images."""

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
"""Datasets of the variants that are adapted to sites."""


@dataclass(frozen=True)
class Site:
    """A camera at its place of use.

    Attributes:
        captures: unlabelled images for adaptation, and labelled test images.
        root: folder of the site's own datasets and training runs; its name is the site's.
        shared: folder of datasets and training runs that do not depend on a site.
        predictions: folder of the predictions on the test images.
    """

    captures: RealImageSplits
    root: Path
    shared: Path
    predictions: Path

    def get_folder(self, variant: Variant) -> Path:
        """Return the folder of a variant's datasets and training runs."""
        return self.shared if variant.all_data == (RANDOMIZED,) else self.root


def run_variant(
    plan: AblationPlan, variant: Variant, site: Site, *, at_once: int, minutes: float
) -> None:
    """Train a variant, if it is missing, and write its predictions on a site's test images.

    Args:
        at_once: training runs and images in parallel, one thread each.
    """
    variant_plan, work = replace(plan, variants=(variant,)), site.get_folder(variant)
    if work == site.root:
        renders = site.root / RANDOMIZED
        if not renders.exists():  # shared renders are generated once
            renders.parent.mkdir(parents=True, exist_ok=True)
            renders.symlink_to((site.shared / RANDOMIZED).absolute(), target_is_directory=True)
    skipped = prepare_data(variant_plan, site.captures, work, workers=at_once)
    for reason in skipped.values():
        print(f"{site.root.name}: skipping {variant.name}: {reason}", flush=True)
    if skipped:
        return
    for job in run_jobs(
        variant_plan, site.captures, work, site.predictions, workers=at_once, minutes=minutes
    ):
        print(f"{site.root.name}: {job.name}", flush=True)
