"""Reference of recipes: each key with unit, allowed values, default and meaning, from the classes that declare it."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from sim2cam.adapt.certificate.limits import CertificateLimits
from sim2cam.adapt.reference.config import ReferenceConfig
from sim2cam.adapt.translator.config import PRESETS, TranslatorConfig
from sim2cam.errors import UsageError
from sim2cam.models.training.config import AdaptationConfig, BackboneTuning, FineTuning, TrainConfig
from sim2cam.objects.kind import ObjectKind, list_kinds
from sim2cam.pipeline.asset_folder import AssetFolder, ClutterFolder
from sim2cam.pipeline.database_cameras import LensDatabase, SensorDatabase
from sim2cam.pipeline.recipe import AdaptOptions, ImageFolder, RenderOptions, SequenceOptions
from sim2cam.pipeline.requirements import Requirement
from sim2cam.randomize.distributions import Constant, Distribution
from sim2cam.randomize.domain import Domain
from sim2cam.randomize.factors import (
    GROUP_TYPES,
    PER_VIEW_GROUPS,
    REQUIRED_GROUPS,
    SINGLETON_GROUPS,
    SurfaceFactors,
)
from sim2cam.render.physics.simulation import RestCriterion
from sim2cam.scene.parameters import Parameter, Value, list_parameters, read_field_documentation

_SECTION_TYPES: Mapping[str, type] = {
    "render": RenderOptions,
    "render.sequence": SequenceOptions,
    "render.rest": RestCriterion,
    "assets": AssetFolder,
    "assets.clutter": ClutterFolder,
    "skies": ImageFolder,
    "pictures": ImageFolder,
    "sensor": SensorDatabase,
    "lens": LensDatabase,
    "require.NAME": Requirement,
    "adapt": AdaptOptions,
    "adapt.translator": TranslatorConfig,
    "adapt.reference": ReferenceConfig,
    "adapt.certificate": CertificateLimits,
    "train": TrainConfig,
    "train.backbone": BackboneTuning,
    "train.fine_tuning": FineTuning,
    "train.adapt": AdaptationConfig,
}
_UNITS = {
    "kg_m3": "kg/m³",
    "rad_s": "rad/s",
    "m_s": "m/s",
    "per_m": "1/m",
    "rad": "rad",
    "px": "px",
    "hz": "Hz",
    "ev": "stops",
    "kg": "kg",
    "levels": "levels",
    "percent": "%",
    "bytes": "bytes",
    "m": "m",
    "s": "s",
    "k": "K",
    "e": "electrons",
}
"""Unit by the suffix of a key; longer suffixes first."""
_GROUP_MEANINGS = {
    "exposure": "Exposure and white balance.",
    "depth_camera": "Depth camera at the place of the camera, for the channel `sensor_depth`.",
}
"""Descriptions of groups without a class of their own."""
_SOURCES = {
    "category": "a category",
    "asset": "an asset",
    "texture_image": "an image in `[pictures]`",
    "environment_map": "an image in `[skies]`",
    "material": "a material",
    "decal_target": "a group of objects, `paper`, `mat` or `table`",
}
"""What a text must name, by the source of its parameter."""
_LISTED_CHOICES = 20


@dataclass(frozen=True)
class KeyReference:
    """A key of a recipe.

    Attributes:
        name: Name.
        unit: Unit; empty without one.
        values: Allowed values.
        default: Value where a recipe omits it; empty for required keys.
        meaning: Description.
    """

    name: str
    unit: str
    values: str
    default: str
    meaning: str


@dataclass(frozen=True)
class TableReference:
    """A table of a recipe, or a kind of distribution.

    Attributes:
        path: Path, such as ``domain.light`` or ``train``; empty for the top of the file.
        meaning: Description.
        keys: Its keys.
    """

    path: str
    meaning: str
    keys: tuple[KeyReference, ...]


@functools.cache
def list_tables() -> tuple[TableReference, ...]:
    """Return the tables of a recipe: its top, the groups of its domain, and the other sections."""
    sections = (
        TableReference(
            path, _read_summary(owner), (*_EXTRA_KEYS.get(path, ()), *_list_fields(owner))
        )
        for path, owner in _SECTION_TYPES.items()
    )
    groups = (
        TableReference(
            f"domain.{name}",
            _describe_group(name),
            tuple(_describe_parameter(parameter) for parameter in parameters.values()),
        )
        for name, parameters in Domain({}).parameters.items()
    )
    return (_TOP, *groups, *sections)


@functools.cache
def list_distributions() -> tuple[TableReference, ...]:
    """Return the kinds of distributions with their keys."""
    kinds = []
    for owner in get_args(get_args(Distribution)[0]):
        name = get_args(get_type_hints(owner)["kind"])[0]
        keys = tuple(key for key in _list_fields(owner) if key.name != "kind")
        kinds.append(TableReference(name, _read_summary(owner), keys))
    return tuple(kinds)


def find_entries(path: str) -> tuple[TableReference, ...]:
    """Return the table at a path with its subtables, or the table with the one key at the path.

    Args:
        path: Path of a table or key, such as ``train``, ``domain.light.warmth``, ``light/warmth`` or ``uniform``.

    Raises:
        UsageError: If no recipe has such a table or key.
    """
    dotted = path.replace("/", ".").strip(".")
    tables = {table.path: table for table in (*list_tables(), *list_distributions())}
    names = (dotted, f"domain.{dotted}")
    for name in names:
        found = [
            table
            for place, table in tables.items()
            if place == name or place.startswith(f"{name}.")
        ]
        if found:
            return tuple(found)
    for name in names:
        place, _, key = name.rpartition(".")
        keys = (
            tuple(entry for entry in tables[place].keys if entry.name.split(".")[0] == key)
            if place in tables
            else ()
        )
        if keys:
            return (dataclasses.replace(tables[place], keys=keys),)
    close = difflib.get_close_matches(dotted, _list_paths(tables), n=3)
    hint = f"Did you mean {' or '.join(close)}? " if close else ""
    top = ", ".join(dict.fromkeys(table.path.split(".")[0] for table in list_tables()[1:]))
    raise UsageError(f"no recipe has '{path}'. {hint}Tables: {top}.")


def _list_paths(tables: Mapping[str, TableReference]) -> Iterator[str]:
    for place, table in tables.items():
        yield place
        yield from (f"{place}.{key.name}".removeprefix(".") for key in table.keys)


_TOP = TableReference(
    "",
    "Keys above all tables.",
    (
        KeyReference(
            "name",
            "",
            "text without slashes",
            "",
            "Name of datasets and files; that of the base if it has one.",
        ),
        KeyReference(
            "base",
            "",
            "recipe or list of recipes",
            "none",
            "Shipped name or path of the recipe that this one changes. Of several, each changes the ones before it.",
        ),
        KeyReference(
            "camera",
            "",
            "path",
            "none",
            "File of `sim2cam calibrate`; cameras are sampled around this one.",
        ),
        KeyReference(
            "categories",
            "",
            "list of texts",
            "all that occur",
            "Category names in the order of the labels.",
        ),
    ),
)


_EXTRA_KEYS: Mapping[str, tuple[KeyReference, ...]] = {
    "adapt.translator": (
        KeyReference(
            "preset",
            "",
            ", ".join(f"`{name}`" for name in PRESETS),
            "none",
            "Settings to start from; other keys change single ones.",
        ),
    ),
}
"""Keys of files that no class declares."""


def _describe_group(name: str) -> str:
    kinds = list_kinds()
    if name in _GROUP_MEANINGS:
        meaning = _GROUP_MEANINGS[name]
    elif name in GROUP_TYPES:
        meaning = _read_summary(GROUP_TYPES[name])
    elif name in kinds:
        meaning = _read_summary(kinds[name])
    else:
        meaning = _read_summary(_find_group_type(name, kinds))
    return f"{meaning} {_describe_frequency(name, kinds)}"


def _find_group_type(name: str, kinds: Mapping[str, type[ObjectKind]]) -> type:
    """Return the class of a further group of an object kind, such as ``die_color``."""
    kind, _, suffix = name.partition("_")
    return kinds[kind].group_types.get(suffix, SurfaceFactors)


def _describe_frequency(name: str, kinds: Mapping[str, object]) -> str:
    required = " Required." if name in REQUIRED_GROUPS else ""
    if name in PER_VIEW_GROUPS:
        return f"Sampled for each camera.{required}"
    if name in SINGLETON_GROUPS:
        return f"Sampled once per scene.{required}"
    if name in kinds:
        return f"Sampled for each of `layout.{name}_count` objects."
    return f"Sampled for each instance.{required}"


def _describe_parameter(parameter: Parameter) -> KeyReference:
    default = "" if parameter.is_required else "none"
    if isinstance(parameter.default, bool | int | float | str) and parameter.default != "":
        default = _format_value(parameter.default)
    return KeyReference(
        f"{parameter.name}.NAME" if parameter.is_mapping else parameter.name,
        find_unit(parameter.name),
        _describe_values(parameter),
        default,
        _format_prose(parameter.documentation),
    )


def _describe_values(parameter: Parameter) -> str:
    if parameter.is_mapping:
        return f"table of {_describe_values(dataclasses.replace(parameter, is_mapping=False))}"
    if parameter.choices:
        return _list_choices(parameter.choices)
    if parameter.source is not None:
        return f"name of {_SOURCES[parameter.source]}"
    if parameter.type in ("text", "boolean"):
        return "text" if parameter.type == "text" else "true, false"
    kind = "whole, " if parameter.type == "integer" else ""
    if math.isinf(parameter.low):
        return "whole number" if kind else "number"
    high = " or more" if parameter.high in (math.inf, 2**63 - 1) else f" to {parameter.high:.6g}"
    return f"{kind}{parameter.low:g}{high}"


def _list_fields(owner: type) -> Iterator[KeyReference]:
    """Yield the keys of a dataclass."""
    documentation = read_field_documentation(owner)
    hints, parameters = get_type_hints(owner), list_parameters(owner)
    for field in dataclasses.fields(owner):
        is_required = field.default is MISSING and field.default_factory is MISSING
        default = "" if is_required else _format_default(field.default)
        yield KeyReference(
            field.name,
            find_unit(field.name),
            _describe_values(parameters[field.name])
            if field.name in parameters
            else _describe_type(hints[field.name]),
            default,
            _format_prose(documentation.get(field.name, "")) or _describe_table(hints[field.name]),
        )


def _describe_type(hint: Any) -> str:
    """Return the allowed values of a type."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _describe_union([part for part in parts if part is not NoneType])
    if origin is Literal:
        return _list_choices(list(_flatten_literals(hint)))
    if origin is tuple and Ellipsis in parts:
        return f"list of {_describe_type(parts[0])}"
    if origin is tuple:
        return f"[{', '.join(map(_describe_type, parts))}]"
    if origin is Mapping:
        return f"table of {_describe_type(parts[1])}"
    return _TYPE_NAMES.get(hint, "table")


def _describe_union(parts: Sequence[Any]) -> str:
    if Constant in parts:
        return "distribution"
    if set(parts) == set(get_args(Value)):
        return "value"
    return ", ".join(_describe_type(part) for part in parts)


_TYPE_NAMES = {int: "whole number", float: "number", bool: "true, false", str: "text"}


def _describe_table(hint: Any) -> str:
    """Return what a table is for; empty for other types."""
    parts = (hint, *get_args(hint))
    owners = [part for part in parts if isinstance(part, type) and dataclasses.is_dataclass(part)]
    return _read_summary(owners[0]) if len(owners) == 1 else ""


def _flatten_literals(hint: Any) -> Iterator[str]:
    for part in get_args(hint):
        yield from _flatten_literals(part) if get_origin(part) is Literal else (str(part),)


def _list_choices(choices: Any) -> str:
    names = [f"`{choice}`" for choice in choices]
    more = "" if len(names) <= _LISTED_CHOICES else ", …"
    return ", ".join(names[:_LISTED_CHOICES]) + more


def _format_default(value: object) -> str:
    if value is MISSING:  # a default table or an empty list
        return "defaults"
    return "none" if value in (None, (), "") else _format_value(value)


def _format_value(value: Any) -> str:
    """Return a value as in TOML."""
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else json.dumps(value)


def find_unit(name: str) -> str:
    """Return the unit of a key from its suffix, such as ``m`` of ``edge_m``; empty without one."""
    return next((unit for suffix, unit in _UNITS.items() if name.endswith(f"_{suffix}")), "")


def _read_summary(owner: type) -> str:
    """Return the first paragraph of a class's docstring, without references to other classes."""
    paragraph = (inspect.getdoc(owner) or "").partition("\n\n")[0]
    return _format_prose(
        re.sub(r";? see ``[\w.]+``(?= *\.)|; see ``[\w.]+``", "", " ".join(paragraph.split()))
    )


def _format_prose(text: str) -> str:
    """Return a description with a capital letter and Markdown's code marks."""
    marked = text.replace("``", "`")
    return marked[:1].upper() + marked[1:]
