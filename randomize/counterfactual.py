"""What a counterfactual has otherwise than its scene: groups drawn anew, factors set to values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sim2cam.randomize.sampling_context import Value


@dataclass(frozen=True)
class Intervention:
    """An intervention: what it does not name stays as it is, bit by bit.

    Attributes:
        resamples: how often a group (``light``), one instance of it (``die/3``) or one factor
            (``light/warmth``) is drawn again.
        settings: values of factors, ``light/warmth`` or ``die/3/edge_m``, or of a factor of all
            instances, ``die/edge_m``.
    """

    resamples: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, Value] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.settings) or any(self.resamples.values())

    def count_resamples(self, path: str) -> int:
        """Return how often a factor is drawn again."""
        return sum(
            times
            for name, times in self.resamples.items()
            if f"{path}/".startswith(f"{name}/") or _strip_instance(path) == name
        )

    def get_setting(self, path: str) -> Value | None:
        """Return what a factor is set to; None when it is not."""
        if not self.settings:  # as in nearly every scene; this is asked of every factor
            return None
        return self.settings.get(path, self.settings.get(_strip_instance(path)))

    def list_instances(self) -> tuple[str, ...]:
        """Return what it names of a single instance of a group: ``die/3``, ``die/3/edge_m``."""
        return tuple(n for n in (*self.resamples, *self.settings) if _strip_instance(n) != n)

    def resample_again(self) -> Intervention:
        """Return the change with each of its groups drawn once more."""
        return replace(self, resamples={name: times + 1 for name, times in self.resamples.items()})


NO_INTERVENTION = Intervention()


def _strip_instance(path: str) -> str:
    return "/".join(part for part in path.split("/") if not part.isdecimal())
