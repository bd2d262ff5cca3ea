"""What is drawn again to tell how sure a score is: images, or the scenes or sessions that they are of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from sim2cam.metrics.bootstrap import sample_bootstrap_counts

MIN_UNITS = 10
"""With fewer groups or images, resamples hardly differ and intervals are far too narrow: 95 % ones of means of
10 hold the truth in 89 % of the cases, of 5 in 84 %, of 2 in 51 %."""


class GroupedImage(Protocol):
    """What is needed of an image to tell which others belong to it; ``dataset.Sample`` has it."""

    @property
    def scene_index(self) -> int:
        """Images of one scene share it."""

    @property
    def session(self) -> str | None:
        """Images that were taken together share it; None where unknown."""


@dataclass(frozen=True, eq=False)
class ResamplingUnits:
    """What is drawn again: images of one unit look alike, so they are drawn together or not at all.

    Attributes:
        kind: what the units are.
        unit_indices: number of the unit of each image (n,), from 0, without gaps.
        n_sessions: how many sessions there are; 0 where they are unknown.
    """

    kind: Literal["images", "scenes", "sessions"]
    unit_indices: NDArray[np.int64]
    n_sessions: int = 0

    @property
    def n_images(self) -> int:
        """How many images there are."""
        return len(self.unit_indices)

    def sample_image_counts(self, n_resamples: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return how often each image is in each resample (draws, n).

        As many units as there are, are drawn with replacement, whole: the cluster bootstrap (Field and
        Welsh 2007, "Bootstrapping clustered data").
        """
        number = int(self.unit_indices.max()) + 1
        return sample_bootstrap_counts(number, n_resamples, rng)[:, self.unit_indices]

    def describe(self) -> str:
        """Return what intervals are over, and what is wrong with them: ``12 sessions of 240 images``."""
        if self.kind != "images":
            return f"{int(self.unit_indices.max()) + 1} {self.kind} of {self.n_images} images"
        images = f"{self.n_images} images"
        if self.n_images < MIN_UNITS:
            return (
                f"{images}, too few: intervals over fewer than {MIN_UNITS} are too narrow, and p-values "
                "too low"
            )
        if not self.n_sessions:
            return images
        return (
            f"{images}; how sessions differ is not in them, as {self.n_sessions} are fewer than "
            f"{MIN_UNITS}"
        )


def describe_units_and_runs(units: ResamplingUnits, n_runs: int) -> str:
    """Return what intervals of means of runs are over, in words.

    Args:
        units: of the images that all runs are scored on.
        n_runs: of the mean of the fewest, for instance one a seed.
    """
    if n_runs > 1:
        return f"the seeds and {units.describe()}"
    return f"{units.describe()}; how seeds differ is not in them, which takes two or more of each"


def make_image_units(count: int) -> ResamplingUnits:
    """Return images that have nothing to do with one another."""
    return ResamplingUnits("images", np.arange(count))


def group_images(images: Sequence[GroupedImage]) -> ResamplingUnits:
    """Return what images are drawn by: their sessions, or else their scenes, where these are enough.

    Args:
        images: all of them have a session, or none has.
    """
    sessions = [image.session for image in images if image.session is not None]
    if sessions:
        return make_group_units("sessions", sessions)
    return make_group_units("scenes", [image.scene_index for image in images])


def make_group_units(
    kind: Literal["scenes", "sessions"], group_names: Sequence[object]
) -> ResamplingUnits:
    """Return what images are drawn by: groups, or single images where groups are too few.

    Args:
        kind: of the groups.
        group_names: of the group of each image (n,).
    """
    numbers = {name: number for number, name in enumerate(dict.fromkeys(group_names))}
    if len(numbers) == len(group_names):
        return make_image_units(len(group_names))
    sessions = len(numbers) if kind == "sessions" else 0
    if len(numbers) < MIN_UNITS:
        return ResamplingUnits("images", np.arange(len(group_names)), sessions)
    return ResamplingUnits(kind, np.array([numbers[name] for name in group_names]), sessions)
