"""Command-line parser of a command: its arguments, options and help page."""

from __future__ import annotations

import argparse
import difflib
import functools
from dataclasses import MISSING, Field
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, NoReturn, get_args, get_origin, get_type_hints

from docstring_parser import parse_from_object

from sim2cam.commands.options import RARE, Argument, Option
from sim2cam.commands.results import Command, Result, build_command, iterate_options
from sim2cam.errors import UsageError

_WIDTH = 80
_HELP_COLUMN = 24
_MAX_METAVAR = 24
_METAVARS = {int: "INT", float: "FLOAT", str: "TEXT", Path: "PATH"}


def parse_command(
    command: type[Command[Result]], name: str, arguments: list[str]
) -> Command[Result]:
    """Parse the arguments of a command.

    Raises:
        UsageError: If an argument is missing, unknown or invalid.
    """
    parser = build_parser(command, name)
    values, unknown = parser.parse_known_intermixed_args(arguments)
    if unknown:
        parser.error(_describe_unknown(command, unknown[0]))
    return build_command(command, **vars(values))


def format_help(command: type[Command[Result]], name: str, *, with_rare: bool) -> str:
    """Return the help page of a command, with its rarer options if requested."""
    return build_parser(command, name, with_rare=with_rare).format_help()


def build_parser(
    command: type[Command[Result]], name: str, *, with_rare: bool = True
) -> argparse.ArgumentParser:
    """Return the parser of a command; options that are not given are absent from its result."""
    parser = _Parser(
        prog=f"sim2cam {name}",
        description=command.__doc__,
        formatter_class=_HelpFormatter,
        argument_default=argparse.SUPPRESS,
        add_help=False,
        allow_abbrev=False,
    )
    usage, has_rare = [parser.prog], False
    arguments = parser.add_argument_group("arguments")
    options = parser.add_argument_group("options")
    rare_options = parser.add_argument_group("more options")
    for owner, field in iterate_options(command):
        hint, option, notes = _read_hint(owner, field)
        settings = _make_settings(field, hint, option)
        settings["help"] = _format_text(owner, field, option, settings)
        if isinstance(option, Argument):
            action = arguments.add_argument(field.name, **settings)
            usage.append(_format_usage(action))
            continue
        is_rare = RARE in notes
        has_rare |= is_rare
        if is_rare and not with_rare:
            settings["help"] = argparse.SUPPRESS
        is_required = field.default is MISSING
        flags = _list_flags(field, option)
        action = (rare_options if is_rare else options).add_argument(
            *flags, dest=field.name, required=is_required, **settings
        )
        if is_required:
            usage.append(f"{flags[-1]} {_format_usage(action)}")
    parser.usage = " ".join([*usage, "[options]"])
    if has_rare and not with_rare:
        parser.epilog = f"More options: {parser.prog} --help-all"
    return parser


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        end = "" if message.endswith(("?", ".")) else "."
        raise UsageError(f"{message}{end} See {self.prog} --help.")


class _HelpFormatter(argparse.HelpFormatter):
    """Formatter of help pages at a fixed width, equal on all terminals."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=_HELP_COLUMN, width=_WIDTH)


def _read_hint(owner: Any, field: Field[Any]) -> tuple[Any, Option, tuple[Any, ...]]:
    """Return the type of an option, its spelling and all notes of its annotation."""
    hint = _read_types(owner)[field.name]
    notes = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    option = next((note for note in notes if isinstance(note, Option)), Option())
    return get_args(hint)[0] if notes else hint, option, notes


def _list_flags(field: Field[Any], option: Option) -> list[str]:
    """Return the flags of an option, the short one first."""
    long = f"--{(option.name or field.name).replace('_', '-')}"
    return [option.short, long] if option.short else [long]


def _make_settings(field: Field[Any], hint: Any, option: Option) -> dict[str, Any]:
    """Return the arguments of ``add_argument`` for a type."""
    if hint is bool:
        return {"action": "store_true"}
    kinds = [kind for kind in get_args(hint) if kind is not NoneType]
    if NoneType in get_args(hint):
        (hint,) = kinds
    settings: dict[str, Any] = {}
    if get_origin(hint) is tuple:
        settings["nargs"] = "+"
        hint = get_args(hint)[0]
        if get_origin(hint) is tuple:
            settings["action"] = "append"
            hint = get_args(hint)[0]
    if get_origin(hint) is Literal:
        settings["choices"] = get_args(hint)
        metavar = "|".join(get_args(hint))
        metavar = metavar if len(metavar) <= _MAX_METAVAR else field.name.upper()
    else:
        settings["type"] = {int: _parse_whole, float: _parse_number}.get(hint, hint)
        metavar = _METAVARS[hint]
    settings["metavar"] = option.metavar or metavar
    if isinstance(option, Argument) and field.default is not MISSING:
        settings["nargs"] = "?"
    return settings


def _format_text(owner: Any, field: Field[Any], option: Option, settings: dict[str, Any]) -> str:
    """Return the help text of an option, with its choices and its default if it names none."""
    text = " ".join((_read_texts(owner).get(field.name) or option.help or "").split())
    choices = settings.get("choices", ())
    if choices and settings["metavar"] != "|".join(choices):
        text = f"{text} One of {', '.join(choices)}."
    has_default = field.default not in (None, "", (), MISSING) and field.default is not False
    if has_default and "default:" not in text.lower():
        text = f"{text.removesuffix('.')}; default: {field.default}."
    return text.replace("%", "%%")


@functools.cache
def _read_types(owner: Any) -> dict[str, Any]:
    return get_type_hints(owner, include_extras=True)


@functools.cache
def _read_texts(owner: Any) -> dict[str, str | None]:
    """Return the docstrings of the fields of a class, which are read from its source."""
    return {entry.arg_name: entry.description for entry in parse_from_object(owner).params}


def _format_usage(action: argparse.Action) -> str:
    text = str(action.metavar)
    return {"+": f"{text} [{text} ...]", "?": f"[{text}]"}.get(str(action.nargs), text)


def _describe_unknown(command: type[Command[Result]], argument: str) -> str:
    """Return the message on an unknown argument, with the closest option."""
    if not argument.startswith("-"):
        return f"unknown argument {argument}"
    known = [
        flag
        for owner, field in iterate_options(command)
        for flag in _list_flags(field, _read_hint(owner, field)[1])
    ]
    close = difflib.get_close_matches(argument.partition("=")[0], known, n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    return f"unknown option {argument}.{hint}"


def _parse_whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, not '{text}'") from None


def _parse_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, not '{text}'") from None
