"""The chance of one factor of one scene: its own stream, and what else it may look at."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sim2cam.seeds import derive_rng

Value = float | int | str | bool


def _refuse_lookup(path: str) -> Value:
    raise LookupError(f"there is no '{path}' to look at")


@dataclass(frozen=True)
class SamplingContext:
    """What a distribution is drawn with.

    Attributes:
        rng: the stream of the factor.
        seed: of the data set.
        path: of the factor, as ``die/3/edge_m``.
        index: scene index.
        attempt: counts redraws of the whole scene.
        resamples: counts those of the factor's group alone.
        lookup: gives the value of another factor by its path.
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
        """The chance that all instances of a group have in common, whoever asks first."""
        path = "/".join(part for part in self.path.split("/") if not part.isdecimal())
        rng = self._stream(f"shared/{path}", self.index, self.attempt + self.resamples)
        return replace(self, rng=rng, path=path)

    def clone(self) -> SamplingContext:
        """Return one that gives what this one is going to give, and leaves this one as it is."""
        other = replace(self, rng=copy.deepcopy(self.rng))
        if "shared" in vars(self):
            vars(other)["shared"] = self.shared.clone()
        return other

    @property
    def instance(self) -> str | None:
        """Which instance of its group it belongs to, as its path has it; None for a group without."""
        return next((part for part in self.path.split("/") if part.isdecimal()), None)

    def get_value(self, path: str) -> Value:
        """Return the value of another factor; ``*`` in its path is this one's own number."""
        return self.lookup(path.replace("*", self.instance or "*"))

    def sample_row(self, table: str, count: int) -> int:
        """Return one of ``count`` rows, the same for all factors of an instance that ask for it."""
        path = "/".join(["table", table, *([self.instance] if self.instance else [])])
        return int(self._stream(path, self.index, self.attempt + self.resamples).integers(count))

    def assign_stratum(self, shares: Sequence[int]) -> int:
        """Return which stratum the scene belongs to; see ``compute_stratum``. No attempt changes it."""
        return compute_stratum(self.seed, f"quota/{self.path}", self.index, shares, self.resamples)

    def _stream(self, path: str, index: int, attempt: int) -> np.random.Generator:
        return derive_rng(self.seed, path, scene_index=index, attempt=attempt)


def compute_stratum(
    seed: int, path: str, index: int, shares: Sequence[int], resamples: int = 0
) -> int:
    """Return which stratum a scene belongs to, from 0.

    Scenes come in blocks of ``sum(shares)``; in each of them every stratum has exactly its share,
    in an order of the block's own. It depends on the arguments alone: nothing is counted.

    Args:
        seed: of the data set.
        path: what the strata are of.
        index: scene index.
        shares: scenes of each stratum in a block.
        resamples: counts other orders.
    """
    block, place = divmod(index, sum(shares))
    order = derive_rng(seed, path, scene_index=block, attempt=resamples).permutation(sum(shares))
    return int(np.repeat(np.arange(len(shares)), shares)[order[place]])
