"""Sampling of all factors of a scene from a domain, a seed and a scene index."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from sim2cam.errors import UsageError
from sim2cam.randomize.counterfactual import NO_INTERVENTION, Intervention
from sim2cam.randomize.distributions import Distribution
from sim2cam.randomize.domain import Domain
from sim2cam.randomize.factors import PER_VIEW_GROUPS, SINGLETON_GROUPS
from sim2cam.randomize.references import check_path, compute_extremes
from sim2cam.randomize.sampling_context import SamplingContext, Value
from sim2cam.scene.image_facts import TextureImageInfo
from sim2cam.scene.parameters import read_parameters
from sim2cam.seeds import derive_rng

T = TypeVar("T")


@dataclass(frozen=True)
class FactorValues:
    """Sampled values of one scene.

    Attributes:
        values: value of each factor by its path, as ``die/3/edge_m``.
        views: number of cameras.
        surface_images: available texture images by name.
    """

    values: Mapping[str, Value]
    views: int
    surface_images: Mapping[str, TextureImageInfo] = field(default_factory=dict)

    def get_float(self, path: str) -> float:
        """Return a number."""
        return float(self.values[path])

    def get_int(self, path: str) -> int:
        """Return a whole number."""
        return int(self.values[path])

    def get_str(self, path: str) -> str:
        """Return a string."""
        return str(self.values[path])

    def get_float_or(self, path: str, default: float) -> float:
        """Return a number, or the default if its factor is omitted."""
        return float(self.values.get(path, default))

    def read(self, owner: type[T], path: str) -> T:
        """Return the values of a group instance as a dataclass; omitted factors have its defaults."""
        return read_parameters(owner, self.values, path)

    def has_group(self, group: str) -> bool:
        """Return whether the scene has a group or group instance, as ``motion/0``."""
        return group in self._group_paths

    @functools.cached_property
    def _group_paths(self) -> frozenset[str]:
        """Groups and their instances: both ``motion/0`` and ``motion`` for ``motion/0/speed``."""
        instances = {path.rpartition("/")[0] for path in self.values}
        return frozenset(instances | {group.partition("/")[0] for group in instances})

    def get_bool(self, path: str) -> bool:
        """Return a boolean."""
        return bool(self.values[path])


def sample_factors(
    domain: Domain,
    seed: int,
    index: int,
    *,
    views: int,
    attempt: int = 0,
    intervention: Intervention = NO_INTERVENTION,
) -> FactorValues:
    """Sample all factors of scene ``index``.

    Args:
        domain: distributions of the factors.
        seed: seed of the dataset.
        index: scene index.
        views: number of cameras.
        attempt: number of rejected scenes before this one, at the same index.
        intervention: groups to resample and factors to set. All other values stay bit-identical,
            also those that refer to a changed value.

    Raises:
        UsageError: if the intervention names a group or factor that the domain lacks.
    """
    for name in (*intervention.resamples, *intervention.settings):
        check_path(domain, name, UsageError, require_factor=name in intervention.settings)
    sampler = _make_sampler(domain, seed, index, attempt, intervention)
    values: dict[str, Value] = {}

    def sample_group(group: str, instance_path: str = "") -> None:
        for factor in domain.groups.get(group, ()):
            path = f"{group}{instance_path}/{factor}"
            values[path] = sampler.get_value(path)

    for name in SINGLETON_GROUPS:
        sample_group(name)
    repeats = [(names, values.get(count, 0)) for count, names in domain.repeated_groups.items()]
    for names, count in (*repeats, (PER_VIEW_GROUPS, views)):
        for name in names:
            for i in range(int(count)):
                sample_group(name, f"/{i}")
    return FactorValues(values, views)


def check_instances(domain: Domain, intervention: Intervention, views: int) -> None:
    """Raise ``UsageError`` if an intervention names an instance that no scene can have.

    Args:
        domain: distributions of the factors.
        intervention: intervention to check.
        views: number of cameras.

    Raises:
        UsageError: with the instance and the highest possible one.
    """
    for name in intervention.list_instances():
        group, number, *_ = name.split("/")
        counts = domain.repeated_groups.items()
        count = next((path for path, names in counts if group in names), None)
        limit = views if count is None else _compute_max_count(domain, count, intervention)
        if int(number) >= limit:
            allowed = f"{group}/0 to {group}/{limit - 1} at most" if limit else f"no {group}"
            raise UsageError(f"there is no '{name}': scenes have {allowed}.")


def _compute_max_count(domain: Domain, path: str, intervention: Intervention) -> int:
    """Return the largest possible value of a count."""
    if path in intervention.settings:
        return int(intervention.settings[path])
    if path not in domain:
        return 0
    location = f"domain.{path.replace('/', '.')}"
    return max(map(int, compute_extremes(domain, domain.get_factor(path), location)))


def sample_distribution(
    domain: Domain,
    distribution: Distribution,
    path: str,
    seed: int,
    index: int,
    *,
    attempt: int = 0,
    intervention: Intervention = NO_INTERVENTION,
) -> Value:
    """Sample a distribution that is not a factor but may refer to factors.

    Args:
        domain: distributions of the factors.
        distribution: distribution to sample.
        path: name of its random stream.
        seed: seed of the dataset.
        index: scene index.
        attempt: number of rejected scenes before this one, at the same index.
        intervention: as in ``sample_factors``.
    """
    return _make_sampler(domain, seed, index, attempt, intervention).sample(path, distribution)


@dataclass
class _FactorSampler:
    """Lazy sampler of the factors of one scene; each factor is sampled once.

    Attributes:
        original: sampler without the intervention; None if there is none.
    """

    domain: Domain
    seed: int
    index: int
    attempt: int
    intervention: Intervention
    original: _FactorSampler | None
    values: dict[str, Value] = field(default_factory=dict)

    def get_value(self, path: str) -> Value:
        """Return the value of a factor, also of an instance beyond the count of its group."""
        if path not in self.values:
            self.values[path] = self._sample_value(path)
        return self.values[path]

    def sample(self, path: str, distribution: Distribution) -> Value:
        """Sample a distribution from the random stream of a path."""
        resamples = self.intervention.count_resamples(path)
        rng = derive_rng(self.seed, path, scene_index=self.index, attempt=self.attempt + resamples)
        return distribution.sample(
            SamplingContext(
                rng, self.seed, path, self.index, self.attempt, resamples, self.get_value
            )
        )

    def _sample_value(self, path: str) -> Value:
        setting = self.intervention.get_setting(path)
        if setting is not None:
            return setting
        derived = self.domain.find_derived(path)
        if derived is not None:
            source, function = derived
            value: Value = function(str(self.get_value(source)))
            return value
        group, *_, name = path.split("/")
        is_category = name == "category" and group in self.domain.object_groups
        is_kept = not self.intervention.count_resamples(path) and not is_category
        if self.original is not None and is_kept:  # a category follows from the factors it names
            return self.original.get_value(path)
        return self.sample(path, self.domain.get_factor(path))


def _make_sampler(
    domain: Domain, seed: int, index: int, attempt: int, intervention: Intervention
) -> _FactorSampler:
    original = (
        _FactorSampler(domain, seed, index, attempt, NO_INTERVENTION, None)
        if intervention
        else None
    )
    return _FactorSampler(domain, seed, index, attempt, intervention, original)
