"""Material families: factor distributions of paper, wood, metal and others."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path

from pydantic import TypeAdapter

from sim2cam.randomize.distributions import Constant, Distribution, Given
from sim2cam.randomize.domain import Domain, FactorGroup
from sim2cam.randomize.factors import SINGLETON_GROUPS
from sim2cam.randomize.references import compute_extremes

OWN_MATERIAL = "own"
"""Value of ``material`` that keeps the distributions of the recipe."""

TRANSPARENT_FAMILIES = ("glass", "translucent")

_FAMILIES_ADAPTER: TypeAdapter[dict[str, dict[str, Distribution]]] = TypeAdapter(
    dict[str, dict[str, Distribution]]
)


@functools.cache
def load_families() -> Mapping[str, Mapping[str, Distribution]]:
    """Return the factor distributions of each family, by name."""
    text = Path(__file__).with_name("material_families.toml").read_text(encoding="utf-8")
    return _FAMILIES_ADAPTER.validate_python(tomllib.loads(text))


def expand_families(domain: Domain) -> Domain:
    """Return a domain whose surfaces follow their ``material``, where given.

    Each factor of a family becomes a distribution conditional on the material. Other materials keep
    the distribution of the recipe, or 0 if the recipe omits the factor.

    Raises:
        ValueError: if a material has invalid references.
    """
    expanded = {
        name: _expand_surface(domain, name, group)
        for name, group in domain.groups.items()
        if "material" in group
    }
    return domain.replace_groups(expanded)


def _expand_surface(domain: Domain, name: str, surface: FactorGroup) -> FactorGroup:
    families = {
        material: load_families()[material]
        for material in map(
            str, compute_extremes(domain, surface["material"], f"domain.{name}.material")
        )
        if material in load_families()
    }
    path = f"{name}/material" if name in SINGLETON_GROUPS else f"{name}/*/material"
    factors = dict.fromkeys(factor for family in families.values() for factor in family)
    conditional: dict[str, Distribution] = {}
    for factor in factors:
        cases = {name: family[factor] for name, family in families.items() if factor in family}
        conditional[factor] = Given(path, cases, surface.get(factor, Constant(0)))
    return {**surface, **conditional}
