"""Bootstrap resampling units: images, scenes or capture sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from sim2cam.metrics.bootstrap import sample_bootstrap_counts

N_RESAMPLES = 1000
"""Number of resamples of an interval."""

MIN_UNITS = 10
"""Minimum number of units. With fewer, intervals are too narrow.

95 % intervals of means cover the truth in 89 % of cases with 10 units, 84 % with 5, 51 % with 2.
"""


class GroupedImage(Protocol):
    """Protocol of an image with scene and session, as ``data.sample.Sample``."""

    @property
    def scene_index(self) -> int:
        """Index shared by images of one scene."""

    @property
    def session(self) -> str | None:
        """Name shared by images of one capture session; None if unknown."""


@dataclass(frozen=True, eq=False)
class ResamplingUnits:
    """Units of the bootstrap. Images of one unit are similar and are resampled together.

    Attributes:
        unit_indices: index of the unit of each image (n,), without gaps.
        n_sessions: number of sessions; 0 if unknown.
    """

    kind: Literal["images", "scenes", "sessions"]
    unit_indices: NDArray[np.int64]
    n_sessions: int = 0

    @property
    def n_images(self) -> int:
        """Number of images."""
        return len(self.unit_indices)

    def sample_image_counts(self, n_resamples: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the count of each image in each resample (n_resamples, n).

        Whole units are sampled with replacement: the cluster bootstrap (Field and Welsh 2007,
        "Bootstrapping clustered data").
        """
        n_units = int(self.unit_indices.max()) + 1
        return sample_bootstrap_counts(n_units, n_resamples, rng)[:, self.unit_indices]

    def describe(self) -> str:
        """Return a description of the units, with warnings, e.g. ``12 sessions of 240 images``."""
        if self.kind != "images":
            return f"{int(self.unit_indices.max()) + 1} {self.kind} of {self.n_images} images"
        images = f"{self.n_images} images"
        if self.n_images < MIN_UNITS:
            return (
                f"{images} (fewer than {MIN_UNITS}: intervals are too narrow and p-values too low)"
            )
        if not self.n_sessions:
            return images
        return (
            f"{images}, without variation between sessions ({self.n_sessions} sessions, fewer than "
            f"{MIN_UNITS})"
        )


def describe_units_and_runs(units: ResamplingUnits, n_runs: int) -> str:
    """Return a description of what intervals of means over runs cover.

    Args:
        n_runs: smallest number of runs (e.g. seeds) of a mean.
    """
    if n_runs > 1:
        return f"the seeds and {units.describe()}"
    return f"{units.describe()}, without variation between seeds (needs two or more seeds)"


def make_image_units(count: int) -> ResamplingUnits:
    """Return units of independent images."""
    return ResamplingUnits("images", np.arange(count))


def group_images(images: Sequence[GroupedImage]) -> ResamplingUnits:
    """Return the resampling units of images: sessions, else scenes, else single images.

    Args:
        images: images, all with a session or none.
    """
    sessions = [image.session for image in images if image.session is not None]
    if sessions:
        return make_group_units("sessions", sessions)
    return make_group_units("scenes", [image.scene_index for image in images])


def make_group_units(
    kind: Literal["scenes", "sessions"], group_names: Sequence[object]
) -> ResamplingUnits:
    """Return groups as resampling units, or single images if there are fewer than ``MIN_UNITS`` groups."""
    indices = {name: index for index, name in enumerate(dict.fromkeys(group_names))}
    if len(indices) == len(group_names):
        return make_image_units(len(group_names))
    n_sessions = len(indices) if kind == "sessions" else 0
    if len(indices) < MIN_UNITS:
        return ResamplingUnits("images", np.arange(len(group_names)), n_sessions)
    return ResamplingUnits(kind, np.array([indices[name] for name in group_names]), n_sessions)
