"""Results of commands, and functions that call commands from Python."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from html import escape
from inspect import Parameter
from pathlib import Path
from typing import Any, Protocol, TypeVar, get_type_hints

from sim2cam.commands.options import OutputOptions
from sim2cam.errors import UsageError

C = TypeVar("C", bound="Command[Any]")
R_co = TypeVar("R_co", bound="Result", covariant=True)


class Result:
    """Result of a command; subclasses are dataclasses."""

    def to_json(self) -> dict[str, Any]:
        """Return what ``--json`` prints: by default the fields."""
        return {n: str(v) if isinstance(v, Path) else v for n, v in vars(self).items()}

    def to_text(self) -> str:
        """Return the tables that are printed without ``--json``; empty without any."""
        return ""

    def summary(self) -> str:
        """Return the messages of the command line at the end; empty without any."""
        return ""

    @property
    def next_step(self) -> str:
        """Command that usually follows; empty without any."""
        return ""

    @property
    def failure(self) -> str | None:
        """Why the command line exits with 1; None after success."""
        return None

    def iterate_output(self, *, as_json: bool) -> Iterator[str]:
        """Yield what the command line prints on stdout."""
        text = json.dumps(self.to_json(), indent=1) if as_json else self.to_text()
        if text:
            yield text

    def _repr_html_(self) -> str:
        lines = filter(None, (self.to_text(), self.summary(), self.failure))
        return f"<pre>{escape(chr(10).join(lines))}</pre>"


@dataclass(frozen=True)
class PageResult(Result):
    """HTML page."""

    page: Path

    def summary(self) -> str:
        """Return the path of the page."""
        return f"page: {self.page}"


class Command(Protocol[R_co]):
    """A dataclass of options that runs a command."""

    @property
    def output(self) -> OutputOptions:
        """Options of messages."""

    def run(self) -> R_co:
        """Run the command."""


def make_function(command: type[Command[R_co]]) -> Callable[..., R_co]:
    """Return a function with the options of a command; paths may be strings, tuples lists.

    Options without a default may be given by position. Invalid values raise UsageError.
    """
    signature = _flatten_signature(command)

    def call(*values: Any, **options: Any) -> R_co:
        return build_command(command, *values, **options).run()

    call.__name__, call.__doc__ = command.__name__, command.__doc__
    call.__dict__["__signature__"] = signature
    return call


def build_command(command: type[C], *values: Any, **options: Any) -> C:
    """Return a command with its options, as ``make_function``."""
    from pydantic import TypeAdapter, ValidationError

    from sim2cam.data.parsing import format_validation_error

    given = _flatten_signature(command).bind(*values, **options).arguments
    table = {n: os.fspath(v) if isinstance(v, os.PathLike) else v for n, v in given.items()}
    for section, names in _list_sections(command).items():
        table[section] = {name: table.pop(name) for name in names if name in table}
    try:
        return TypeAdapter(command).validate_python(table)
    except ValidationError as error:
        raise UsageError(f"{format_validation_error(error)}.") from error


def _flatten_signature(command: Any) -> inspect.Signature:
    """Return the signature with the options of sections, such as ``resume`` of ``folder``."""
    parameters = []
    for owner, option in iterate_options(command):
        is_required = option.default is MISSING
        parameters.append(
            Parameter(
                option.name,
                Parameter.POSITIONAL_OR_KEYWORD if is_required else Parameter.KEYWORD_ONLY,
                default=Parameter.empty if is_required else option.default,
                annotation=get_type_hints(owner)[option.name],
            )
        )
    return inspect.Signature(parameters)


def iterate_options(command: Any) -> Iterator[tuple[Any, Field[Any]]]:
    """Yield the options of a command and of its sections, each with the class that declares it."""
    sections = _list_sections(command)
    for field in fields(command):
        owner: Any = field.default_factory if field.name in sections else command
        for option in fields(owner) if field.name in sections else [field]:
            yield owner, option


def _list_sections(command: Any) -> dict[str, list[str]]:
    """Return the names of the options in each section of a command."""
    factories: dict[str, Any] = {f.name: f.default_factory for f in fields(command)}
    return {
        name: [option.name for option in fields(factory)]
        for name, factory in factories.items()
        if is_dataclass(factory)
    }
