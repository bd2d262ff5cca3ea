"""References between factors by path: validation and extremes."""

from __future__ import annotations

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
from sim2cam.randomize.domain import Domain
from sim2cam.randomize.factors import SINGLETON_GROUPS


def check_references(domain: Domain) -> None:
    """Raise ``ValueError`` for invalid references, tables or quotas.

    Raises:
        ValueError: with the factor and the problem.
    """
    lengths: dict[str, tuple[str, int]] = {}
    for group, factor, distribution in domain.iterate_factors():
        location = f"domain.{group}.{factor}"
        check_parts(domain, distribution, location, has_instances=group not in SINGLETON_GROUPS)
        for part in iterate_parts(distribution):
            if isinstance(part, Column):
                _check_column_length(part, location, lengths)


def check_parts(
    domain: Domain, distribution: Distribution, location: str, *, has_instances: bool
) -> None:
    """Raise ``ValueError`` if a distribution has invalid references or several quotas.

    Args:
        domain: domain of the distribution.
        distribution: distribution of a factor, or one that refers to factors.
        location: location of the distribution, for messages.
        has_instances: whether its group has instances.

    Raises:
        ValueError: with the location and the problem.
    """
    parts = list(iterate_parts(distribution))
    if sum(isinstance(part, Quota) for part in parts) > 1:
        raise ValueError(f"'{location}' has more than one quota, and their strata would coincide")
    shared = {
        id(part) for part in parts if isinstance(part, Shared) for part in iterate_parts(part)
    }
    for part in parts:
        if isinstance(part, Each) and (not has_instances or id(part) in shared):
            raise ValueError(f"'{location}' is the same for all instances, so it cannot use 'each'")
        if isinstance(part, Same | Given):
            check_path(domain, part.factor, ValueError, location=location)
            if "*" in part.factor and (not has_instances or id(part) in shared):
                reason = "is shared by all" if id(part) in shared else "has no"
                raise ValueError(
                    f"'{location}' {reason} instances, so '{part.factor}' needs a number for *"
                )


def check_path(
    domain: Domain,
    path: str,
    error_type: type[Exception],
    *,
    location: str = "",
    require_factor: bool = True,
) -> None:
    """Raise an error if a path leads to no factor.

    Args:
        domain: domain with the factors.
        path: path as ``light/warmth`` or ``die/3/edge_m``; ``die/*/edge_m`` and ``die/edge_m``
            where allowed.
        error_type: type of the error.
        location: location of the reference; empty for paths from outside the domain, which may omit
            the number to address all instances.
        require_factor: whether the path must lead to a factor, not only to a group.

    Raises:
        error_type: with the path and what is allowed.
    """
    prefix = f"'{location}': " if location else ""
    group, *rest = path.split("/")
    if group not in domain.groups:
        raise error_type(f"{prefix}unknown group '{group}'. {suggest_name(group, domain.groups)}")
    number = (
        rest.pop(0)
        if rest and _is_instance_number(rest[0], allow_wildcard=bool(location))
        else None
    )
    if number is not None and group in SINGLETON_GROUPS:
        raise error_type(f"{prefix}'{path}': {group} has no instances. Remove the number")
    if number is None and group not in SINGLETON_GROUPS and location:
        raise error_type(
            f"{prefix}'{path}' needs an instance: {group}/0/..., or {group}/*/... for the same one"
        )
    factors = list(domain.groups[group])
    if location and group in domain.object_groups:  # only distributions can refer to these
        factors += domain.object_groups[group].derived_factors
        if rest and rest[0] in domain.object_groups[group].pose_properties:
            raise error_type(
                f"{prefix}'{rest[0]}' of {group} is known only after the simulation. Only a category can follow "
                f'from it: category = {{ from = "{rest[0]}", cases = ... }}'
            )
        if location.endswith(".category"):
            factors += domain.object_groups[group].pose_properties
    if (require_factor or rest) and (len(rest) != 1 or rest[0] not in factors):
        name = "/".join(rest)
        raise error_type(
            f"{prefix}unknown factor '{name}' of {group}. {suggest_name(name, factors)}"
        )


def compute_extremes(domain: Domain, distribution: Distribution, location: str) -> Values:
    """Return the values between which, or among which, all samples of a distribution lie.

    Args:
        domain: domain with valid references.
        distribution: distribution of a factor, or one that refers to factors.
        location: location of the distribution, as ``domain.light.warmth``.

    Raises:
        ValueError: if it depends on itself or has operands of an invalid type or range.
    """
    return _compute_extremes(domain, distribution, location, (location,))


def check_cases(domain: Domain, distribution: Distribution, location: str) -> None:
    """Raise ``ValueError`` if a case of ``given`` cannot occur.

    Args:
        domain, distribution, location: as in ``compute_extremes``.

    Raises:
        ValueError: with the location and the case.
    """
    for part in iterate_parts(distribution):
        if isinstance(part, Given):
            extremes = _look_up_extremes(domain, part.factor, ())
            try:
                part.check_cases(extremes)
            except ValueError as error:
                raise ValueError(f"'{location}': {error}") from error


def _compute_extremes(
    domain: Domain, distribution: Distribution, location: str, chain: tuple[str, ...]
) -> Values:
    def lookup(path: str) -> Values:
        return _look_up_extremes(domain, path, chain)

    try:
        return distribution.compute_extremes(lookup)
    except OverflowError as error:
        raise ValueError(f"'{location}' has values that overflow") from error
    except ValueError as error:
        has_location = str(error).startswith("'")
        raise error if has_location else ValueError(f"'{location}': {error}") from error


def _look_up_extremes(domain: Domain, path: str, chain: tuple[str, ...]) -> Values:
    """Return the extremes of the factor at a path, which may be a derived one."""
    derived = domain.find_derived(path)
    if derived is not None:
        source, function = derived
        values = _look_up_extremes(domain, source, chain)
        return tuple(dict.fromkeys(function(str(value)) for value in values))
    group, *_, factor = path.split("/")
    location = f"domain.{group}.{factor}"
    if location in chain:
        cycle = " -> ".join(step.removeprefix("domain.") for step in (*chain, location))
        raise ValueError(f"'{chain[0]}' depends on itself: {cycle}")
    return _compute_extremes(domain, domain.get_factor(path), location, (*chain, location))


def _is_instance_number(segment: str, *, allow_wildcard: bool) -> bool:
    is_number = segment.isascii() and segment.isdecimal() and (segment == "0" or segment[0] != "0")
    return is_number or (allow_wildcard and segment == "*")


def _check_column_length(
    column: Column, location: str, lengths: dict[str, tuple[str, int]]
) -> None:
    first, length = lengths.setdefault(column.table, (location, len(column.values)))
    if len(column.values) != length:
        raise ValueError(
            f"'{location}' has {len(column.values)} values, and '{first}' of the same table "
            f"'{column.table}' has {length}"
        )
