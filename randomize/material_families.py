"""Families of materials: the distributions that a surface has when it is paper, wood or metal."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from sim2cam.randomize.distributions import Constant, Distribution, Given
from sim2cam.randomize.domain import SINGLETON_GROUPS, Domain, SurfaceFactors, iterate_factors
from sim2cam.randomize.references import compute_extremes

OWN_MATERIAL = "own"
"""What ``material`` is where the recipe's own distributions hold."""

TRANSPARENT_FAMILIES = ("glass", "translucent")

_FAMILIES_ADAPTER: TypeAdapter[dict[str, dict[str, Distribution]]] = TypeAdapter(
    dict[str, dict[str, Distribution]]
)


@functools.cache
def load_families() -> Mapping[str, Mapping[str, Distribution]]:
    """Return the distributions of each family's factors, by its name."""
    text = Path(__file__).with_name("material_families.toml").read_text(encoding="utf-8")
    return _FAMILIES_ADAPTER.validate_python(tomllib.loads(text))


def expand_families(domain: Domain) -> Domain:
    """Return a domain whose surfaces follow their ``material``, where they have one.

    Each factor that a family has becomes one distribution for each material; other materials keep
    the recipe's, and what a recipe leaves out is 0 there.

    Raises:
        ValueError: a material refers to what it cannot.
    """
    changed: dict[str, Any] = {
        group.name: _expand_surface(domain, group.name, surface)
        for group in fields(domain)
        if isinstance(surface := getattr(domain, group.name), SurfaceFactors) and surface.material
    }
    return replace(domain, **changed)


def _expand_surface(domain: Domain, name: str, surface: SurfaceFactors) -> SurfaceFactors:
    own = dict(iterate_factors(surface))
    drawn = {
        word: load_families()[word]
        for word in map(str, compute_extremes(domain, own["material"], f"domain.{name}.material"))
        if word in load_families()
    }
    path = f"{name}/material" if name in SINGLETON_GROUPS else f"{name}/*/material"
    factors = dict.fromkeys(factor for family in drawn.values() for factor in family)
    given = {}
    for factor in factors:
        cases = {word: family[factor] for word, family in drawn.items() if factor in family}
        given[factor] = Given(path, cases, own.get(factor, Constant(0)))
    return replace(surface, **given)
