"""The chance of one factor of one scene: its own stream, and what else it may look at."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sim2cam.seeds import stream

Value = float | int | str | bool


def _alone(path: str) -> Value:
    raise LookupError(f"there is no '{path}' to look at")


@dataclass(frozen=True)
class Chance:
    """What a distribution is drawn with.

    Attributes:
        rng: the stream of the factor.
        seed: of the data set.
        path: of the factor, as ``die/3/edge_m``.
        index: scene index.
        attempt: counts redraws of the whole scene.
        redraws: counts those of the factor's group alone.
        look: gives the value of another factor by its path.
    """

    rng: np.random.Generator
    seed: int = 0
    path: str = ""
    index: int = 0
    attempt: int = 0
    redraws: int = 0
    look: Callable[[str], Value] = _alone

    @cached_property
    def shared(self) -> Chance:
        """The chance that all instances of a group have in common, whoever asks first."""
        path = "/".join(part for part in self.path.split("/") if not part.isdecimal())
        rng = self._stream(f"shared/{path}", self.index, self.attempt + self.redraws)
        return replace(self, rng=rng, path=path)

    def twin(self) -> Chance:
        """Returns one that gives what this one is going to give, and leaves this one as it is."""
        other = replace(self, rng=copy.deepcopy(self.rng))
        if "shared" in vars(self):
            vars(other)["shared"] = self.shared.twin()
        return other

    @property
    def number(self) -> str | None:
        """Which instance of its group it belongs to, as its path has it; None for a group without."""
        return next((part for part in self.path.split("/") if part.isdecimal()), None)

    def value(self, path: str) -> Value:
        """Returns the value of another factor; ``*`` in its path is this one's own number."""
        return self.look(path.replace("*", self.number or "*"))

    def row(self, table: str, count: int) -> int:
        """Returns one of ``count`` rows, the same for all factors of an instance that ask for it."""
        path = "/".join(["table", table, *([self.number] if self.number else [])])
        return int(self._stream(path, self.index, self.attempt + self.redraws).integers(count))

    def stratum(self, shares: Sequence[int]) -> int:
        """Returns which stratum the scene belongs to; see ``stratum_of``. No attempt changes it."""
        return stratum_of(self.seed, f"quota/{self.path}", self.index, shares, self.redraws)

    def _stream(self, path: str, index: int, attempt: int) -> np.random.Generator:
        return stream(self.seed, path, scene_index=index, attempt=attempt)


def stratum_of(seed: int, path: str, index: int, shares: Sequence[int], redraws: int = 0) -> int:
    """Returns which stratum a scene belongs to, from 0.

    Scenes come in blocks of ``sum(shares)``; in each of them every stratum has exactly its share,
    in an order of the block's own. It depends on the arguments alone: nothing is counted.

    Args:
        seed: of the data set.
        path: what the strata are of.
        index: scene index.
        shares: scenes of each stratum in a block.
        redraws: counts other orders.
    """
    block, place = divmod(index, sum(shares))
    order = stream(seed, path, scene_index=block, attempt=redraws).permutation(sum(shares))
    return int(np.repeat(np.arange(len(shares)), shares)[order[place]])
