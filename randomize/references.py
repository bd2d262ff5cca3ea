"""References: factors that look at other factors, by their paths, and never in a circle."""

from __future__ import annotations

from dataclasses import fields

from sim2cam.errors import suggest_name
from sim2cam.randomize.distributions import (
    Column,
    Distribution,
    Each,
    Given,
    Quota,
    Same,
    Shared,
    Values,
    iterate_parts,
)
from sim2cam.randomize.domain import SINGLETON_GROUPS, Domain, get_factor, iterate_factors


def check_references(domain: Domain) -> None:
    """Refuse paths that lead nowhere, and tables and quotas that do not fit together.

    Raises:
        ValueError: naming the factor and what is wrong with it.
    """
    lengths: dict[str, tuple[str, int]] = {}
    for group in fields(domain):
        for factor, distribution in iterate_factors(getattr(domain, group.name)):
            place = f"domain.{group.name}.{factor}"
            check_parts(
                domain, distribution, place, has_instances=group.name not in SINGLETON_GROUPS
            )
            for part in iterate_parts(distribution):
                if isinstance(part, Column):
                    _check_column_length(part, place, lengths)


def check_parts(
    domain: Domain, distribution: Distribution, location: str, *, has_instances: bool
) -> None:
    """Refuse a distribution that refers to what is not there, or has two quotas.

    Args:
        domain: which it belongs to.
        distribution: of a factor or beside them.
        location: of it, for errors.
        has_instances: whether its group has instances.

    Raises:
        ValueError: naming the place and what is wrong there.
    """
    parts = list(iterate_parts(distribution))
    if sum(isinstance(part, Quota) for part in parts) > 1:
        raise ValueError(f"'{location}' has more than one quota, which would move together")
    shared = {
        id(part) for part in parts if isinstance(part, Shared) for part in iterate_parts(part)
    }
    for part in parts:
        if isinstance(part, Each) and (not has_instances or id(part) in shared):
            raise ValueError(f"'{location}' is the same for all instances, so it cannot be of each")
        if isinstance(part, Same | Given):
            check_path(domain, part.factor, ValueError, location=location)
            if "*" in part.factor and (not has_instances or id(part) in shared):
                why = "shared by all instances" if id(part) in shared else "of no instance"
                raise ValueError(f"'{location}' is {why}, so '{part.factor}' needs a number for *")


def check_path(
    domain: Domain,
    path: str,
    error_type: type[Exception],
    *,
    location: str = "",
    require_factor: bool = True,
) -> None:
    """Refuse a path that leads to no factor.

    Args:
        domain: in which it should lead to one.
        path: ``light/warmth``, ``die/3/edge_m``; ``die/*/edge_m`` and ``die/edge_m`` where these
            have a meaning.
        error_type: of error.
        location: whose reference it is; empty for one that comes from outside the domain, which may
            leave out the number to mean all instances.
        require_factor: whether it must lead to a factor, not to a group.

    Raises:
        error_type: naming the path and what is allowed.
    """
    head = f"'{location}': " if location else ""
    group, *rest = path.split("/")
    groups = [f.name for f in fields(domain) if getattr(domain, f.name) is not None]
    if group not in groups:
        raise error_type(f"{head}unknown group '{group}'. {suggest_name(group, groups)}")
    number = (
        rest.pop(0)
        if rest and _is_instance_number(rest[0], allow_wildcard=bool(location))
        else None
    )
    if number is not None and group in SINGLETON_GROUPS:
        raise error_type(f"{head}'{path}': there is one {group}. Leave out the number")
    if number is None and group not in SINGLETON_GROUPS and location:
        raise error_type(
            f"{head}'{path}' needs a number, as {group}/0/..., or {group}/*/... for its own"
        )
    factors = [name for name, _ in iterate_factors(getattr(domain, group))]
    if (require_factor or rest) and (len(rest) != 1 or rest[0] not in factors):
        name = "/".join(rest)
        raise error_type(f"{head}unknown factor '{name}' of {group}. {suggest_name(name, factors)}")


def compute_extremes(domain: Domain, distribution: Distribution, location: str) -> Values:
    """Return the values between which, or among which, all draws of a distribution lie.

    Args:
        domain: with sound references.
        distribution: of one of its factors, or beside them.
        location: of it, as ``domain.light.warmth``.

    Raises:
        ValueError: it refers back to itself, or to what it cannot reckon with.
    """
    return _compute_extremes(domain, distribution, location, (location,))


def check_cases(domain: Domain, distribution: Distribution, location: str) -> None:
    """Refuse cases of ``given`` that cannot occur.

    Args:
        domain, distribution, location: as ``compute_extremes`` takes them.

    Raises:
        ValueError: naming the place and the case.
    """
    for part in iterate_parts(distribution):
        if isinstance(part, Given):
            group, *_, factor = part.factor.split("/")
            found = compute_extremes(
                domain, get_factor(domain, part.factor), f"domain.{group}.{factor}"
            )
            try:
                part.check_cases(found)
            except ValueError as error:
                raise ValueError(f"'{location}': {error}") from error


def _compute_extremes(
    domain: Domain, distribution: Distribution, location: str, chain: tuple[str, ...]
) -> Values:
    def lookup(path: str) -> Values:
        group, *_, factor = path.split("/")
        there = f"domain.{group}.{factor}"
        if there in chain:
            circle = " -> ".join(step.removeprefix("domain.") for step in (*chain, there))
            raise ValueError(f"'{chain[0]}' depends on itself: {circle}")
        return _compute_extremes(domain, get_factor(domain, path), there, (*chain, there))

    try:
        return distribution.compute_extremes(lookup)
    except OverflowError as error:
        raise ValueError(f"'{location}' gives numbers that are too large to reckon with") from error
    except ValueError as error:
        named = str(error).startswith("'")
        raise error if named else ValueError(f"'{location}': {error}") from error


def _is_instance_number(segment: str, *, allow_wildcard: bool) -> bool:
    plain = segment.isascii() and segment.isdecimal() and (segment == "0" or segment[0] != "0")
    return plain or (allow_wildcard and segment == "*")


def _check_column_length(
    column: Column, location: str, lengths: dict[str, tuple[str, int]]
) -> None:
    first, length = lengths.setdefault(column.table, (location, len(column.values)))
    if len(column.values) != length:
        raise ValueError(
            f"'{location}' has {len(column.values)} values, and '{first}' of the same table "
            f"'{column.table}' has {length}"
        )
