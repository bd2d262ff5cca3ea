"""References: factors that look at other factors, by their paths, and never in a circle."""

from __future__ import annotations

from dataclasses import fields

from sim2cam.errors import did_you_mean
from sim2cam.randomize.distributions import (
    Column,
    Distribution,
    Each,
    Given,
    Quota,
    Same,
    Shared,
    Values,
    parts_of,
)
from sim2cam.randomize.domain import ONCE, Domain, factor_at, factors_of


def check_references(domain: Domain) -> None:
    """Refuses paths that lead nowhere, and tables and quotas that do not fit together.

    Raises:
        ValueError: naming the factor and what is wrong with it.
    """
    lengths: dict[str, tuple[str, int]] = {}
    for group in fields(domain):
        for factor, distribution in factors_of(getattr(domain, group.name)):
            place = f"domain.{group.name}.{factor}"
            check_parts(domain, distribution, place, numbered=group.name not in ONCE)
            for part in parts_of(distribution):
                if isinstance(part, Column):
                    _check_length(part, place, lengths)


def check_parts(domain: Domain, distribution: Distribution, place: str, *, numbered: bool) -> None:
    """Refuses a distribution that refers to what is not there, or has two quotas.

    Args:
        domain: which it belongs to.
        distribution: of a factor or beside them.
        place: of it, for errors.
        numbered: whether its group has instances.

    Raises:
        ValueError: naming the place and what is wrong there.
    """
    parts = list(parts_of(distribution))
    if sum(isinstance(part, Quota) for part in parts) > 1:
        raise ValueError(f"'{place}' has more than one quota, which would move together")
    shared = {id(part) for part in parts if isinstance(part, Shared) for part in parts_of(part)}
    for part in parts:
        if isinstance(part, Each) and (not numbered or id(part) in shared):
            raise ValueError(f"'{place}' is the same for all instances, so it cannot be of each")
        if isinstance(part, Same | Given):
            check_path(domain, part.factor, ValueError, place=place)
            if "*" in part.factor and (not numbered or id(part) in shared):
                why = "shared by all instances" if id(part) in shared else "of no instance"
                raise ValueError(f"'{place}' is {why}, so '{part.factor}' needs a number for *")


def check_path(
    domain: Domain, path: str, kind: type[Exception], *, place: str = "", whole: bool = True
) -> None:
    """Refuses a path that leads to no factor.

    Args:
        domain: in which it should lead to one.
        path: ``light/warmth``, ``die/3/edge_m``; ``die/*/edge_m`` and ``die/edge_m`` where these
            have a meaning.
        kind: of error.
        place: whose reference it is; empty for one that comes from outside the domain, which may
            leave out the number to mean all instances.
        whole: whether it must lead to a factor, not to a group.

    Raises:
        kind: naming the path and what is allowed.
    """
    head = f"'{place}': " if place else ""
    group, *rest = path.split("/")
    groups = [f.name for f in fields(domain) if getattr(domain, f.name) is not None]
    if group not in groups:
        raise kind(f"{head}unknown group '{group}'. {did_you_mean(group, groups)}")
    number = rest.pop(0) if rest and _is_number(rest[0], may_be_own=bool(place)) else None
    if number is not None and group in ONCE:
        raise kind(f"{head}'{path}': there is one {group}. Leave out the number")
    if number is None and group not in ONCE and place:
        raise kind(f"{head}'{path}' needs a number, as {group}/0/..., or {group}/*/... for its own")
    factors = [name for name, _ in factors_of(getattr(domain, group))]
    if (whole or rest) and (len(rest) != 1 or rest[0] not in factors):
        name = "/".join(rest)
        raise kind(f"{head}unknown factor '{name}' of {group}. {did_you_mean(name, factors)}")


def extremes_of(domain: Domain, distribution: Distribution, place: str) -> Values:
    """Returns the values between which, or among which, all draws of a distribution lie.

    Args:
        domain: with sound references.
        distribution: of one of its factors, or beside them.
        place: of it, as ``domain.light.warmth``.

    Raises:
        ValueError: it refers back to itself, or to what it cannot reckon with.
    """
    return _extremes(domain, distribution, place, (place,))


def check_cases(domain: Domain, distribution: Distribution, place: str) -> None:
    """Refuse cases of ``given`` that cannot occur.

    Args:
        domain, distribution, place: as ``extremes_of`` takes them.

    Raises:
        ValueError: naming the place and the case.
    """
    for part in parts_of(distribution):
        if isinstance(part, Given):
            group, *_, factor = part.factor.split("/")
            found = extremes_of(domain, factor_at(domain, part.factor), f"domain.{group}.{factor}")
            try:
                part.check_cases(found)
            except ValueError as error:
                raise ValueError(f"'{place}': {error}") from error


def _extremes(
    domain: Domain, distribution: Distribution, place: str, chain: tuple[str, ...]
) -> Values:
    def look(path: str) -> Values:
        group, *_, factor = path.split("/")
        there = f"domain.{group}.{factor}"
        if there in chain:
            circle = " -> ".join(step.removeprefix("domain.") for step in (*chain, there))
            raise ValueError(f"'{chain[0]}' depends on itself: {circle}")
        return _extremes(domain, factor_at(domain, path), there, (*chain, there))

    try:
        return distribution.extremes(look)
    except OverflowError as error:
        raise ValueError(f"'{place}' gives numbers that are too large to reckon with") from error
    except ValueError as error:
        named = str(error).startswith("'")
        raise error if named else ValueError(f"'{place}': {error}") from error


def _is_number(part: str, *, may_be_own: bool) -> bool:
    plain = part.isascii() and part.isdecimal() and (part == "0" or part[0] != "0")
    return plain or (may_be_own and part == "*")


def _check_length(column: Column, place: str, lengths: dict[str, tuple[str, int]]) -> None:
    first, length = lengths.setdefault(column.table, (place, len(column.values)))
    if len(column.values) != length:
        raise ValueError(
            f"'{place}' has {len(column.values)} values, and '{first}' of the same table "
            f"'{column.table}' has {length}"
        )
