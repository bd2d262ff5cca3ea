"""Parameters of values: their type, range, choices, default and documentation, each stated once.

A parameter is a field of a dataclass. ``Annotated`` states what the type does not: ``Annotated[float, Between(0, 1)]``.
The factors of a domain are derived from the same fields, so a scene and its domain cannot disagree.
"""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable, Hashable, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from types import NoneType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from docstring_parser import DocstringStyle, parse

from sim2cam.errors import SpecError

T = TypeVar("T")
Value = float | int | bool | str
ParameterType = Literal["number", "integer", "boolean", "text"]

MAX_TEXT_LENGTH = 40
"""Longest text in print."""


@dataclass(frozen=True)
class Between:
    """Smallest and largest value of a number."""

    low: float
    high: float = math.inf


@dataclass(frozen=True)
class OneOf:
    """Allowed texts, where ``Literal`` cannot list them."""

    choices: tuple[str, ...]


@dataclass(frozen=True)
class NameOf:
    """A text that must be a name in the recipe: of a category, an asset, an image, ..."""

    source: Literal[
        "category", "asset", "texture_image", "environment_map", "material", "decal_target"
    ]


@dataclass(frozen=True)
class Printable:
    """A text that must be one short line of printable ASCII, which OpenCV's fonts cover."""


Fraction = Annotated[float, Between(0.0, 1.0)]
Positive = Annotated[float, Between(1e-6)]
Seed = Annotated[int, Between(0, 2**63 - 1)]
CategoryName = Annotated[str, NameOf("category")]
PrintedCategory = Annotated[str, NameOf("category"), Printable()]


@dataclass(frozen=True)
class Parameter:
    """A parameter of a value.

    Attributes:
        name: Name of the field.
        type: Type of the value; numbers may be whole.
        low, high: Smallest and largest number.
        choices: Allowed texts; empty if any.
        source: What a text must name; None if any.
        is_printable: Whether a text must be printable.
        is_mapping: Whether the field maps names to such values.
        is_required: Whether there is no default.
        default: Default.
        documentation: Description from the docstring of the class.
    """

    name: str
    type: ParameterType
    low: float = -math.inf
    high: float = math.inf
    choices: tuple[str, ...] = ()
    source: str | None = None
    is_printable: bool = False
    is_mapping: bool = False
    is_required: bool = True
    default: Any = None
    documentation: str = ""

    def convert(self, value: Value) -> Value:
        """Return a sampled value in the type of the parameter."""
        return _CONVERTERS[self.type](value)


_CONVERTERS: Mapping[ParameterType, Callable[[Value], Value]] = {
    "number": float,
    "integer": int,
    "boolean": bool,
    "text": str,
}
_TYPES: Mapping[Any, ParameterType] = {
    float: "number",
    int: "integer",
    bool: "boolean",
    str: "text",
}


def list_parameters(owner: type[Any]) -> Mapping[str, Parameter]:
    """Return the parameters of a dataclass by name: its fields that are numbers, booleans or texts."""
    return _list_parameters(cast("Hashable", owner))


@functools.cache
def _list_parameters(owner: Any) -> Mapping[str, Parameter]:
    hints = get_type_hints(owner, include_extras=True)
    documentation = read_field_documentation(owner)
    parameters = {}
    for field in fields(owner):
        parameter = _make_parameter(field.name, hints[field.name])
        if parameter is not None:
            is_required = field.default is MISSING and field.default_factory is MISSING
            parameters[field.name] = replace(
                parameter,
                is_required=is_required,
                default=None if field.default is MISSING else field.default,
                documentation=documentation.get(field.name, ""),
            )
    return parameters


def check_ranges(owner: object, name: str) -> None:
    """Raise an error if a parameter of a value is out of range.

    Args:
        owner: A dataclass; fields that are None are skipped.
        name: Its name in the error.

    Raises:
        ValueError: With field, value and allowed range.
    """
    for parameter in list_parameters(type(owner)).values():
        value = getattr(owner, parameter.name)
        if parameter.type not in ("number", "integer") or value is None:
            continue
        if not parameter.low <= value <= parameter.high:
            raise ValueError(
                f"{name}: {parameter.name} must be {parameter.low:g} to {parameter.high:g}, not {value:g}"
            )


def check_sizes(owner: object, *names: str) -> None:
    """Raise an error if a size of a shape is not finite and positive.

    Args:
        owner: A dataclass.
        names: Fields with sizes or tuples of sizes.

    Raises:
        SpecError: With field and value.
    """
    for name in names:
        value = getattr(owner, name)
        sizes = value if isinstance(value, tuple) else (value,)
        if not all(0 < size < math.inf for size in sizes):
            raise SpecError(
                f"{name} of a {type(owner).__name__.lower()} is {value}. Sizes must be finite and above 0."
            )


def read_parameters(owner: type[T], values: Mapping[str, Value], path: str) -> T:
    """Return a dataclass with the sampled values of a group; others keep their defaults.

    Args:
        owner: The dataclass.
        values: Sampled values by path, as ``die/3/edge_m``.
        path: Path of the group, as ``die/3``.
    """
    arguments: dict[str, Any] = {}
    for name, parameter in list_parameters(owner).items():
        if parameter.is_mapping:
            prefix = f"{path}/{name}."
            arguments[name] = {
                key.removeprefix(prefix): parameter.convert(value)
                for key, value in values.items()
                if key.startswith(prefix)
            }
        elif f"{path}/{name}" in values:
            arguments[name] = parameter.convert(values[f"{path}/{name}"])
    return owner(**arguments)


def is_printable_text(text: str) -> bool:
    """Return whether a text is one short line of printable ASCII."""
    return text.isascii() and (not text or text.isprintable()) and len(text) <= MAX_TEXT_LENGTH


def _make_parameter(name: str, hint: Any) -> Parameter | None:
    """Return the parameter of a field; None if the field is no number, boolean or text."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        parameter = _make_parameter(name, parts[0])
        return None if parameter is None else functools.reduce(_apply_note, parts[1:], parameter)
    if origin in (Union, types.UnionType):
        present = [part for part in parts if part is not NoneType]
        return _make_parameter(name, present[0]) if len(present) == 1 else None
    if origin is Literal:
        return Parameter(name, "text", choices=parts)
    if origin is Mapping:
        parameter = _make_parameter(name, parts[1])
        return None if parameter is None else replace(parameter, is_mapping=True)
    return Parameter(name, _TYPES[hint]) if hint in _TYPES else None


def _apply_note(parameter: Parameter, note: object) -> Parameter:
    match note:
        case Between(low, high):
            return replace(parameter, low=low, high=high)
        case OneOf(choices):
            return replace(parameter, choices=choices)
        case NameOf(source):
            return replace(parameter, source=source)
        case Printable():
            return replace(parameter, is_printable=True)
        case _:
            return parameter


def read_field_documentation(owner: type) -> dict[str, str]:
    """Return the descriptions of fields in the docstrings of a class and its bases."""
    texts: dict[str, str] = {}
    for base in reversed(owner.__mro__):
        for entry in parse(base.__doc__ or "", style=DocstringStyle.GOOGLE).params:
            for name in entry.arg_name.split(","):
                texts[name.strip()] = " ".join((entry.description or "").split())
    return texts
