"""Random state of one factor of one scene, with access to other factors."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sim2cam.seeds import derive_rng

Value = float | int | str | bool


def _refuse_lookup(path: str) -> Value:
    raise LookupError(f"factor '{path}' is not available")


@dataclass(frozen=True)
class SamplingContext:
    """Random stream of one factor, with the coordinates of the sample.

    Attributes:
        rng: stream of the factor.
        seed: seed of the dataset.
        path: path of the factor, as ``die/3/edge_m``.
        index: scene index.
        attempt: number of rejected scenes before this one, at the same index.
        resamples: number of times that the factor's group is resampled.
        lookup: function from the path of another factor to its value.
    """

    rng: np.random.Generator
    seed: int = 0
    path: str = ""
    index: int = 0
    attempt: int = 0
    resamples: int = 0
    lookup: Callable[[str], Value] = _refuse_lookup

    @cached_property
    def shared(self) -> SamplingContext:
        """Context with one stream for all instances of the group, in any order."""
        path = "/".join(part for part in self.path.split("/") if not part.isdecimal())
        rng = self._stream(f"shared/{path}", self.index, self.attempt + self.resamples)
        return replace(self, rng=rng, path=path)

    def clone(self) -> SamplingContext:
        """Return a copy with an independent random state."""
        copied = replace(self, rng=copy.deepcopy(self.rng))
        if "shared" in vars(self):
            vars(copied)["shared"] = self.shared.clone()
        return copied

    @property
    def instance(self) -> str | None:
        """Instance number in the path of the factor; None for a group without instances."""
        return next((part for part in self.path.split("/") if part.isdecimal()), None)

    def get_value(self, path: str) -> Value:
        """Return the value of another factor; ``*`` in its path is this instance number."""
        return self.lookup(path.replace("*", self.instance or "*"))

    def sample_row(self, table: str, count: int) -> int:
        """Sample one of ``count`` rows, the same for all factors of an instance."""
        path = "/".join(["table", table, *([self.instance] if self.instance else [])])
        return int(self._stream(path, self.index, self.attempt + self.resamples).integers(count))

    def assign_stratum(self, shares: Sequence[int]) -> int:
        """Return the stratum of the scene (``compute_stratum``), independent of the attempt."""
        return compute_stratum(self.seed, f"quota/{self.path}", self.index, shares, self.resamples)

    def _stream(self, path: str, index: int, attempt: int) -> np.random.Generator:
        return derive_rng(self.seed, path, scene_index=index, attempt=attempt)


def compute_stratum(
    seed: int, path: str, index: int, shares: Sequence[int], resamples: int = 0
) -> int:
    """Return the stratum of a scene, from 0.

    In each block of ``sum(shares)`` scenes every stratum has exactly its share, in a random order.
    The result depends only on the arguments.

    Args:
        seed: seed of the dataset.
        path: name of the stratification.
        index: scene index.
        shares: scenes of each stratum in a block.
        resamples: selects another order.
    """
    block, position = divmod(index, sum(shares))
    order = derive_rng(seed, path, scene_index=block, attempt=resamples).permutation(sum(shares))
    return int(np.repeat(np.arange(len(shares)), shares)[order[position]])
