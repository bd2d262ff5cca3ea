"""Interventions of counterfactual scenes: groups to resample and factors to set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sim2cam.randomize.sampling_context import Value


@dataclass(frozen=True)
class Intervention:
    """Intervention on a scene; all values outside it stay bit-identical.

    Attributes:
        resamples: number of resamples of a group (``light``), an instance (``die/3``) or a factor
            (``light/warmth``).
        settings: values of factors, ``light/warmth`` or ``die/3/edge_m``, or of a factor of all
            instances, ``die/edge_m``.
    """

    resamples: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, Value] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.settings) or any(self.resamples.values())

    def count_resamples(self, path: str) -> int:
        """Return the number of resamples of a factor."""
        return sum(
            times
            for name, times in self.resamples.items()
            if f"{path}/".startswith(f"{name}/") or _strip_instance(path) == name
        )

    def get_setting(self, path: str) -> Value | None:
        """Return the value to which a factor is set; None if it is not set."""
        if not self.settings:  # fast path: called for every factor
            return None
        return self.settings.get(path, self.settings.get(_strip_instance(path)))

    def list_instances(self) -> tuple[str, ...]:
        """Return the names that address a single instance: ``die/3``, ``die/3/edge_m``."""
        names = (*self.resamples, *self.settings)
        return tuple(name for name in names if _strip_instance(name) != name)

    def resample_again(self) -> Intervention:
        """Return the intervention with each of its groups resampled once more."""
        return replace(self, resamples={name: times + 1 for name, times in self.resamples.items()})


NO_INTERVENTION = Intervention()


def _strip_instance(path: str) -> str:
    return "/".join(part for part in path.split("/") if not part.isdecimal())
