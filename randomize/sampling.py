"""Drawing: from a domain, a seed and an index to every value that chance decides."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field

from sim2cam.errors import UsageError
from sim2cam.randomize.counterfactual import NO_INTERVENTION, Intervention
from sim2cam.randomize.distributions import Distribution
from sim2cam.randomize.domain import SINGLETON_GROUPS, Domain, get_factor, iterate_factors
from sim2cam.randomize.references import check_path, compute_extremes
from sim2cam.randomize.sampling_context import SamplingContext, Value
from sim2cam.scene.image_facts import TextureImageInfo
from sim2cam.seeds import derive_rng

PER_VIEW_GROUPS = (
    "view", "lens", "fisheye", "exposure", "sensor", "shutter", "motion", "stereo", "depth_camera",
    "mosaic", "processing", "automatics",
    "defocus", "lateral_color", "field_blur", "glare", "dirt", "droplets",
)  # fmt: skip
GROUPS_BY_COUNT = {
    "layout/die_count": ("die", "die_color", "die_surface"),
    "layout/object_count": ("object", "object_surface"),
    "layout/fixture_count": ("fixture", "fixture_surface"),
    "layout/block_count": ("block", "block_surface"),
    "layout/board_count": ("board", "board_surface"),
    "layout/card_count": ("card", "card_surface"),
    "layout/twisty_count": ("twisty", "twisty_color", "twisty_surface"),
    "layout/tin_count": ("tin", "tin_label", "tin_surface"),
    "layout/carton_count": ("carton", "carton_label", "carton_surface"),
    "layout/bolt_count": ("bolt", "bolt_surface"),
    "layout/nut_count": ("nut", "nut_surface"),
    "layout/cable_count": ("cable", "cable_surface"),
    "layout/paper_count": ("paper", "paper_label", "paper_surface"),
    "layout/hand_count": ("hand", "hand_surface"),
    "layout/distractor_count": ("distractor", "distractor_surface"),
    "layout/decal_count": ("decal",),
    "light/lamp_count": ("lamp",),
    "light/near_count": ("near_light",),
}
"""Groups of which a scene has as many instances as a factor says; of all others one for each view."""


@dataclass(frozen=True)
class FactorValues:
    """What was drawn for one scene.

    Attributes:
        values: value of each factor by its path, as ``die/3/edge_m``.
        views: number of cameras.
        surface_images: what is known of the pictures of surfaces that were drawn from, by name.
    """

    values: Mapping[str, Value]
    views: int
    surface_images: Mapping[str, TextureImageInfo] = field(default_factory=dict)

    def get_float(self, path: str) -> float:
        """Return a drawn number."""
        return float(self.values[path])

    def get_int(self, path: str) -> int:
        """Return a drawn whole number."""
        return int(self.values[path])

    def get_str(self, path: str) -> str:
        """Return a drawn word."""
        return str(self.values[path])

    def get_float_or(self, path: str, default: float) -> float:
        """Return a drawn number, or another one where its factor is left out."""
        return float(self.values.get(path, default))

    def has_group(self, group: str) -> bool:
        """Return whether the domain has a group, of which one instance is named: ``motion/0``."""
        return group in self._group_paths

    @functools.cached_property
    def _group_paths(self) -> frozenset[str]:
        """Groups and their instances: of ``motion/0/speed`` both ``motion/0`` and ``motion``."""
        above = {path.rpartition("/")[0] for path in self.values}
        return frozenset(above | {group.partition("/")[0] for group in above})

    def get_named(self, path: str) -> dict[str, float]:
        """Return the drawn numbers of a factor that has one for each of several names."""
        head = f"{path}."
        return {
            key.removeprefix(head): float(value)
            for key, value in self.values.items()
            if key.startswith(head)
        }

    def get_bool(self, path: str) -> bool:
        """Return a drawn yes or no."""
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
    """Return everything chance decides for scene ``index``.

    Args:
        domain: the distributions.
        seed: seed of the data set.
        index: scene index.
        views: number of cameras.
        attempt: counts redraws of the whole scene.
        intervention: what is otherwise than in the scene of these arguments; every value outside it
            stays as it is, bit by bit, also one that refers to a value inside.

    Raises:
        UsageError: a change of what the domain does not have.
    """
    for name in (*intervention.resamples, *intervention.settings):
        check_path(domain, name, UsageError, require_factor=name in intervention.settings)
    drawing = _make_sampler(domain, seed, index, attempt, intervention)
    values: dict[str, Value] = {}

    def sample_group(group: str, instance_path: str = "") -> None:
        for factor, _ in iterate_factors(getattr(domain, group)):
            path = f"{group}{instance_path}/{factor}"
            values[path] = drawing.get_value(path)

    for name in SINGLETON_GROUPS:
        sample_group(name)
    repeats = [(names, values.get(count, 0)) for count, names in GROUPS_BY_COUNT.items()]
    for names, count in (*repeats, (PER_VIEW_GROUPS, views)):
        for name in names:
            for i in range(int(count)):
                sample_group(name, f"/{i}")
    return FactorValues(values, views)


def check_instances(domain: Domain, intervention: Intervention, views: int) -> None:
    """Refuse a change of an instance that no scene can have.

    Args:
        domain: the distributions.
        intervention: of what there is.
        views: number of cameras.

    Raises:
        UsageError: naming it and how many there are at most.
    """
    for name in intervention.list_instances():
        group, number, *_ = name.split("/")
        count = next((path for path, names in GROUPS_BY_COUNT.items() if group in names), None)
        most = views if count is None else _compute_max_count(domain, count, intervention)
        if int(number) >= most:
            known = f"{group}/0 to {group}/{most - 1} at most" if most else f"no {group}"
            raise UsageError(f"there is no '{name}': scenes have {known}.")


def _compute_max_count(domain: Domain, path: str, intervention: Intervention) -> int:
    """Return the most that a count can be."""
    if path in intervention.settings:
        return int(intervention.settings[path])
    distribution = get_factor(domain, path)
    place = f"domain.{path.replace('/', '.')}"
    return max(map(int, compute_extremes(domain, distribution, place))) if distribution else 0


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
    """Return a draw of a distribution that is no factor but may refer to factors.

    Args:
        domain: the distributions of the factors.
        distribution: what is drawn.
        path: name of its stream.
        seed: seed of the data set.
        index: scene index.
        attempt: counts redraws of the whole scene.
        intervention: as ``draw`` has it.
    """
    return _make_sampler(domain, seed, index, attempt, intervention).sample(path, distribution)


@dataclass
class _FactorSampler:
    """Draws the factors of one scene when they are asked for, each once.

    Attributes:
        original: the scene without its change; None without one.
    """

    domain: Domain
    seed: int
    index: int
    attempt: int
    intervention: Intervention
    original: _FactorSampler | None
    values: dict[str, Value] = field(default_factory=dict)

    def get_value(self, path: str) -> Value:
        """Return the value of a factor, whether the scene has that many of its group or not."""
        if path not in self.values:
            self.values[path] = self._sample_value(path)
        return self.values[path]

    def sample(self, path: str, distribution: Distribution) -> Value:
        """Return a draw of a distribution from the stream of a path."""
        redraws = self.intervention.count_resamples(path)
        rng = derive_rng(self.seed, path, scene_index=self.index, attempt=self.attempt + redraws)
        return distribution.sample(
            SamplingContext(rng, self.seed, path, self.index, self.attempt, redraws, self.get_value)
        )

    def _sample_value(self, path: str) -> Value:
        setting = self.intervention.get_setting(path)
        if setting is not None:
            return setting
        if self.original is not None and not self.intervention.count_resamples(path):
            return self.original.get_value(path)
        return self.sample(path, get_factor(self.domain, path))


def _make_sampler(
    domain: Domain, seed: int, index: int, attempt: int, intervention: Intervention
) -> _FactorSampler:
    original = (
        _FactorSampler(domain, seed, index, attempt, NO_INTERVENTION, None)
        if intervention
        else None
    )
    return _FactorSampler(domain, seed, index, attempt, intervention, original)
