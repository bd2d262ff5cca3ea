"""Domains: the distribution of every factor of a scene, as data.

Factors are in groups. Each factor is sampled from its own random stream, named ``group/factor`` (``die/3/edge_m`` for
the fourth die). Adding a factor or resampling a group therefore changes no other value.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import GetCoreSchemaHandler, SerializationInfo, TypeAdapter, ValidationError
from pydantic_core import InitErrorDetails, core_schema

from sim2cam.errors import suggest_name
from sim2cam.objects.kind import ObjectKind, list_kinds
from sim2cam.randomize.distributions import Distribution
from sim2cam.randomize.factors import (
    MAX_INSTANCES,
    REPEATED_GROUPS,
    REQUIRED_GROUPS,
    SCENE_GROUPS,
    SURFACE_PARAMETERS,
)
from sim2cam.scene.parameters import Between, CategoryName, Parameter, list_parameters

FactorGroup = Mapping[str, Distribution]
"""Distribution of each factor; ``joints.elbow`` for a factor with a value per name."""

KIND_KEY = "object_kind"
"""Key of a group in a recipe with its kind, where the group is not named after it."""

_TABLES: TypeAdapter[dict[str, dict[str, Distribution]]] = TypeAdapter(
    dict[str, dict[str, Distribution]]
)


@dataclass(frozen=True)
class _LabelFactors:
    """Factors of every group of labelled objects.

    Attributes:
        count: Number of objects.
        category: Category, by default that of the kind. ``{ from = "rank", cases = {…} }`` derives it from another
            factor of the object, or from ``upward_face`` of a die.
    """

    count: Annotated[int, Between(1, MAX_INSTANCES)] = 0
    category: CategoryName | None = None


@dataclass(frozen=True)
class Domain:
    """Distributions of all factors.

    Attributes:
        groups: Groups by name. ``layout``, ``table`` and others of ``factors`` describe the scene. Each kind of
            object has a group of its own, with its further groups and its surface: ``die``, ``die_color``,
            ``die_surface``.
        kinds: Kind of the object groups that are not named after it.
    """

    groups: Mapping[str, FactorGroup]
    kinds: Mapping[str, str] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash(tuple(self.groups))

    @property
    def object_groups(self) -> Mapping[str, type[ObjectKind]]:
        """Kind of each group of built-in objects, sorted by name."""
        possible = self.possible_object_groups
        return {name: possible[name] for name in sorted(possible) if name in self.groups}

    @property
    def possible_object_groups(self) -> Mapping[str, type[ObjectKind]]:
        """Kind of each group of built-in objects that the domain has or could have."""
        return _list_object_groups(self._kinds_key)

    @property
    def parameters(self) -> Mapping[str, Mapping[str, Parameter]]:
        """Factors that each group can have."""
        return _list_group_parameters(self._kinds_key)

    @property
    def repeated_groups(self) -> Mapping[str, tuple[str, ...]]:
        """Groups sampled once per instance, by the factor with their number of instances."""
        return _list_repeated_groups(self.object_groups)

    @property
    def possible_repeated_groups(self) -> Mapping[str, tuple[str, ...]]:
        """Like ``repeated_groups``, with all groups of objects that a domain can have."""
        return _list_repeated_groups(self.possible_object_groups)

    def __contains__(self, path: str) -> bool:
        group, _, factor = path.partition("/")
        return group in self.groups and (not factor or factor in self.groups[group])

    def iterate_factors(self) -> Iterator[tuple[str, str, Distribution]]:
        """Yield group, factor and distribution of all factors."""
        for group, factors in self.groups.items():
            for factor, distribution in factors.items():
                yield group, factor, distribution

    def get_factor(self, path: str) -> Distribution:
        """Return the distribution at a path such as ``die/3/edge_m``."""
        group, *_, factor = path.split("/")
        return self.groups[group][factor]

    def get_parameter(self, path: str) -> Parameter:
        """Return the parameter at a path such as ``die/3/edge_m``."""
        group, *_, factor = path.split("/")
        return self.parameters[group][factor.partition(".")[0]]

    def find_derived(self, path: str) -> tuple[str, Any] | None:
        """Return the source path and the function of a derived factor; None for other paths."""
        group, *instance, name = path.split("/")
        kind = self.object_groups.get(group)
        if kind is None or name not in kind.derived_factors:
            return None
        factor, function = kind.derived_factors[name]
        return "/".join([group, *instance, factor]), function

    def replace_factors(self, distributions: Mapping[str, Distribution]) -> Domain:
        """Return a domain with other distributions of some factors, by path as ``light/warmth``."""
        groups = {name: dict(factors) for name, factors in self.groups.items()}
        for path, distribution in distributions.items():
            group, factor = path.split("/")
            groups.setdefault(group, {})[factor] = distribution
        return replace(self, groups=_sort_groups(groups, self.parameters))

    def replace_groups(self, groups: Mapping[str, FactorGroup | None]) -> Domain:
        """Return a domain with other groups; None removes a group."""
        merged: dict[str, FactorGroup | None] = {**self.groups, **groups}
        present = {name: group for name, group in merged.items() if group is not None}
        return replace(self, groups=_sort_groups(present, self.parameters))

    @property
    def _kinds_key(self) -> tuple[tuple[str, str], ...]:
        return tuple(self.kinds.items())

    @classmethod
    def __get_pydantic_core_schema__(
        cls, _source: Any, _handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            _parse_domain,
            serialization=core_schema.plain_serializer_function_ser_schema(
                _serialize_domain, info_arg=True
            ),
        )


def _list_repeated_groups(
    object_groups: Mapping[str, type[ObjectKind]],
) -> dict[str, tuple[str, ...]]:
    """Return the groups by count factor; for objects: their own, further groups of the kind, the surface."""
    objects = {
        f"layout/{name}_count": (
            name,
            *(f"{name}_{suffix}" for suffix in kind.group_types),
            f"{name}_surface",
        )
        for name, kind in object_groups.items()
    }
    return {**objects, **REPEATED_GROUPS}


def list_parameters_of_tables(
    tables: Mapping[str, Any],
) -> Mapping[str, Mapping[str, Parameter]]:
    """Return the factors that each group of a recipe's ``[domain]`` table can have.

    Raises:
        ValueError: If a group has an unknown kind.
    """
    return _list_group_parameters(tuple(_read_kinds(tables).items()))


@functools.cache
def _list_object_groups(kinds: tuple[tuple[str, str], ...]) -> Mapping[str, type[ObjectKind]]:
    available = list_kinds()
    for name, kind in kinds:
        if kind not in available:
            raise ValueError(
                f"'domain.{name}.{KIND_KEY}': no kind '{kind}'. {suggest_name(kind, available)}"
            )
        if name in SCENE_GROUPS or (name in available and name != kind):
            raise ValueError(
                f"'domain.{name}.{KIND_KEY}': '{name}' has another meaning. Choose another name for the group"
            )
    return {**available, **{name: available[kind] for name, kind in kinds}}


@functools.cache
def _list_group_parameters(
    kinds: tuple[tuple[str, str], ...],
) -> Mapping[str, Mapping[str, Parameter]]:
    groups = dict(SCENE_GROUPS)
    label = list_parameters(_LabelFactors)
    for name, kind in _list_object_groups(kinds).items():
        groups["layout"] = {
            **groups["layout"], f"{name}_count": replace(label["count"], name=f"{name}_count"),
        }  # fmt: skip
        groups[name] = {"category": label["category"], **list_parameters(kind.factors_type)}
        for suffix, group_type in kind.group_types.items():
            groups[f"{name}_{suffix}"] = list_parameters(group_type)
        groups[f"{name}_surface"] = SURFACE_PARAMETERS
    return groups


def _read_kinds(tables: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: str(table[KIND_KEY])
        for name, table in tables.items()
        if isinstance(table, Mapping) and KIND_KEY in table
    }


def _parse_domain(value: Any) -> Domain:
    """Return the domain of a recipe's ``[domain]`` table."""
    if isinstance(value, Domain):
        return value
    if not isinstance(value, Mapping):
        raise ValueError("domain must be a table of factor groups")
    kinds = _read_kinds(value)
    parameters = _list_group_parameters(tuple(kinds.items()))
    object_groups = _list_object_groups(tuple(kinds.items()))
    tables = {
        name: _expand_table(name, table, parameters.get(name, {}), object_groups.get(name))
        if isinstance(table, Mapping)
        else table
        for name, table in value.items()
    }
    for name in tables:
        if name not in parameters:
            raise ValueError(f"unknown group '{name}'. {suggest_name(name, parameters)}")
    groups = _TABLES.validate_python(tables)
    missing: list[tuple[str, ...]] = [(name,) for name in REQUIRED_GROUPS if name not in groups]
    missing += [
        (group, name)
        for group in groups
        for name, parameter in parameters[group].items()
        if parameter.is_required and name not in groups[group]
    ]
    if missing:
        errors = [InitErrorDetails(type="missing", loc=place, input={}) for place in missing]
        raise ValidationError.from_exception_data("domain", errors)
    return Domain(_sort_groups(groups, parameters), kinds)


def _expand_table(
    group: str,
    table: Mapping[str, Any],
    parameters: Mapping[str, Parameter],
    kind: type[ObjectKind] | None,
) -> dict[str, Any]:
    """Return the table of a group with a distribution for each factor.

    Raises:
        ValueError: If a category rule is incomplete.
    """
    expanded: dict[str, Any] = {}
    for name, value in table.items():
        if name == KIND_KEY:
            continue
        parameter = parameters.get(name)
        if parameter is not None and parameter.is_mapping and isinstance(value, Mapping):
            expanded.update({f"{name}.{key}": entry for key, entry in value.items()})
        elif name == "category" and isinstance(value, Mapping) and "from" in value:
            if kind is not None and value["from"] in kind.pose_properties:
                expanded.update(_expand_pose_rule(group, value, kind))
                continue
            source = f"{group}/*/{value['from']}"
            rest = {key: entry for key, entry in value.items() if key != "from"}
            rule = "given" if "cases" in value else "same"
            expanded[name] = {"kind": rule, "factor": source, **rest}
        else:
            expanded[name] = value
    return expanded


def _expand_pose_rule(
    group: str, rule: Mapping[str, Any], kind: type[ObjectKind]
) -> dict[str, Any]:
    """Return the factors with the category of each value of a property of the pose.

    Raises:
        ValueError: If a value has no case, or a case cannot occur.
    """
    source = rule["from"]
    factor, values = kind.pose_properties[source]
    cases = rule.get("cases", {value: value for value in values})
    location = f"'domain.{group}.category'"
    for case in cases:
        if case not in values:
            hint = suggest_name(case, values)
            raise ValueError(f"{location}: '{source}' is never '{case}'. {hint}")
    missing = [value for value in values if value not in cases]
    if missing and "otherwise" not in rule:
        raise ValueError(
            f"{location}: no case for '{source}' = {', '.join(missing)}. Add it, or set 'otherwise'"
        )
    return {f"{factor}.{value}": cases.get(value, rule.get("otherwise")) for value in values}


def _sort_groups(
    groups: Mapping[str, FactorGroup], parameters: Mapping[str, Mapping[str, Parameter]]
) -> dict[str, FactorGroup]:
    """Return groups and their factors in the order in which they are declared."""
    return {
        name: {
            factor: groups[name][factor]
            for declared in declared_factors
            for factor in groups[name]
            if factor.partition(".")[0] == declared
        }
        for name, declared_factors in parameters.items()
        if name in groups
    }


def _serialize_domain(domain: Domain, info: SerializationInfo) -> dict[str, Any]:
    mode: Literal["json", "python"] = "json" if info.mode_is_json() else "python"
    groups = {name: dict(group) for name, group in domain.groups.items()}
    tables: dict[str, Any] = _TABLES.dump_python(groups, mode=mode, exclude_none=info.exclude_none)
    for name, kind in domain.kinds.items():
        tables[name] = {KIND_KEY: kind, **tables[name]}
    return tables
