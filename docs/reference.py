"""Pages of the reference, generated from the code: command line, recipes, Python, channels and errors."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import docstring_parser

import sim2cam
from sim2cam import cli, commands, errors
from sim2cam.commands.options import FolderOptions, OutputOptions
from sim2cam.data import channels
from sim2cam.pipeline.recipe_reference import (
    KeyReference,
    TableReference,
    list_distributions,
    list_tables,
)

SECTIONS = (FolderOptions, OutputOptions)
VALUE_TYPES = {
    "ObjectLabel": "sim2cam.data.sample.ObjectLabel",
    "Detection": "sim2cam.metrics.detection.Detection",
    "Pose": "sim2cam.geometry.poses.Pose",
}
"""Types of values that the public API returns."""


def build_pages() -> dict[str, str]:
    """Return the generated pages as Markdown, by file name."""
    return {
        "cli.md": build_cli_page(),
        "recipe.md": build_recipe_page(),
        "factors.md": build_factors_page(),
        "python.md": build_python_page(),
        "commands.md": build_commands_page(),
        "channels.md": build_channels_page(),
        "errors.md": build_errors_page(),
    }


@dataclass(frozen=True)
class Option:
    """Option or argument of a command.

    Attributes:
        name: Name as typed: ``--count``, or the placeholder of a positional argument.
        values: Placeholder or allowed values; empty for switches.
        default: Default; empty if required.
        meaning: Help text.
    """

    name: str
    values: str
    default: str
    meaning: str


def list_commands() -> dict[str, type]:
    """Return the classes of all commands by name, such as ``adapt train``."""
    return dict(_walk_commands(cli._Command, ""))


def list_options(command: type) -> Iterator[Option]:
    """Yield the options of a command, without those that many commands share."""
    hints = get_type_hints(command, include_extras=True)
    texts = _read_attribute_docstrings(command)
    for field in dataclasses.fields(command):
        if field.default_factory not in SECTIONS:
            yield _describe_option(field, hints[field.name], texts.get(field.name, ""))


def build_cli_page() -> str:
    """Return the page of all commands with their options."""
    parts = [
        "# Command line\n\n"
        "Every command prints its help with `--help`. Exit codes: 0 success, 1 the command ran and failed, "
        "2 wrong usage, 130 interrupted. Results go to standard output, messages to standard error.\n\n"
        "## Options of all commands\n\n" + _format_options(_list_section_options(OutputOptions)),
        "Commands that write a folder refuse one that is not empty, unless one of these options is given:\n\n"
        + _format_options(_list_section_options(FolderOptions)),
    ]
    for name, command in sorted(list_commands().items()):
        usage = f"```text\nsim2cam {name} {_format_usage(command)}\n```"
        options = list(list_options(command))
        folder = any(
            field.default_factory is FolderOptions for field in dataclasses.fields(command)
        )
        extra = "\n\nAlso `--resume` and `--overwrite`." if folder else ""
        text = _format_prose(inspect.getdoc(command) or "")
        parts.append(f"## {name}\n\n{text}\n\n{usage}\n\n{_format_options(options)}{extra}")
    return "\n\n".join(parts) + "\n"


def build_recipe_page() -> str:
    """Return the page of the sections of a recipe and of its distributions."""
    parts = [
        "# Recipe schema\n\n"
        "All tables and keys of a recipe, except the factors of `[domain]`, which have "
        "[a page of their own](factors.md). A key without a default is required where its table is used. "
        "[Recipes](../guides/recipes.md) explains how recipes work."
    ]
    for table in list_tables():
        if not table.path.startswith("domain."):
            heading = f"[{table.path}]" if table.path else "Top of the file"
            parts.append(_format_table(f"## {heading}", table))
    parts.append(
        "## Distributions\n\nA factor is a number, text or boolean, or a table with the `kind` of its "
        'distribution: `{ kind = "uniform", low = 0.0, high = 1.0 }`.'
    )
    parts += [_format_table(f"### {table.path}", table) for table in list_distributions()]
    return "\n\n".join(parts) + "\n"


def build_factors_page() -> str:
    """Return the page of all factors of the domain; groups with equal factors share a table."""
    by_keys: dict[tuple[KeyReference, ...], list[TableReference]] = {}
    for table in list_tables():
        if table.path.startswith("domain."):
            by_keys.setdefault(table.keys, []).append(table)
    parts = [
        "# Factors of scenes and cameras\n\n"
        "All groups and factors of `[domain]`. Each factor takes a "
        "[distribution](recipe.md#distributions); a factor without a default is required where its group is "
        "used. Suffixes give units: `_m` metres, `_rad` radians, `_px` pixels, `_e` electrons."
    ]
    for tables in by_keys.values():
        names = ", ".join(f"`{table.path.removeprefix('domain.')}`" for table in tables[1:])
        same = f"\n\nThe same factors: {names}." if names else ""
        parts.append(_format_table(f"## {tables[0].path.removeprefix('domain.')}", tables[0], same))
    return "\n\n".join(parts) + "\n"


def build_python_page() -> str:
    """Return the page of the exports of ``sim2cam``."""
    modules = {**sim2cam._MODULES, "adapt": "sim2cam.api.training"}
    parts = [
        "# Python\n\n"
        "Everything that `import sim2cam` offers. All commands are functions too: see "
        "[Commands in Python](commands.md)."
    ]
    names = sorted(set(sim2cam.__all__) - {"__version__", "commands"}, key=str.lower)
    parts += [_format_directive(f"{modules[name]}.{name}", f"sim2cam.{name}") for name in names]
    parts.append("## Values\n\nTypes of the values that frames and predictions hold.")
    parts += [_format_directive(path, name, level=3) for name, path in VALUE_TYPES.items()]
    return "\n\n".join(parts) + "\n"


def build_commands_page() -> str:
    """Return the page of the functions of ``sim2cam.commands`` and of their results."""
    classes = {
        name.replace(" ", "_").replace("-", "_"): (name, c) for name, c in list_commands().items()
    }
    parts = [
        "# Commands in Python\n\n"
        "`sim2cam.commands` has a function for each command, with the same options: "
        '`commands.bench("dice", captures="test.json")` is `sim2cam bench dice --captures test.json`. Options '
        "without a default may be given by position. Paths may be texts. Wrong values raise `UsageError`. A "
        "function returns a value whose `to_json()` is what `--json` prints."
    ]
    results: dict[str, type] = {}
    for function, (name, command) in sorted(classes.items()):
        signature = inspect.signature(getattr(commands, function))
        required = [p.name for p in signature.parameters.values() if p.default is p.empty]
        text = _format_prose((inspect.getdoc(command) or "").partition("\n\n")[0])
        returned = _list_results(command)
        results |= returned
        links = " or ".join(
            f"[`{result}`][{owner.__module__}.{owner.__name__}]"
            for result, owner in returned.items()
        )
        anchor = name.replace(" ", "-")
        parts.append(
            f"## commands.{function} {{ #{function.replace('_', '-')} }}\n\n{text}\n\n"
            f"```python\ncommands.{function}({', '.join([*required, '...'])})\n```\n\n"
            f"Options: those of [`sim2cam {name}`](cli.md#{anchor}). Returns {links}."
        )
    parts.append("## Results\n\nValues that the functions return.")
    for result, owner in sorted(results.items()):
        directive = _format_directive(f"{owner.__module__}.{result}", result, level=3)
        parts.append(f"{directive}\n      filters: ['!^_', '!^summary$', '!^iterate_output$']")
    return "\n\n".join(parts) + "\n"


def build_channels_page() -> str:
    """Return the page of the channels and labels that can be requested."""
    source = Path(channels.__file__).read_text(encoding="utf-8")
    parts = [
        "# Label channels\n\n"
        "Every image has boxes (visible, amodal and 3D), visible fractions, 6D poses and categories. "
        "`channels` in a recipe's `[render]`, or `sim2cam render --channels depth,ids`, asks for more. "
        "`sim2cam check` compares them with each other; `sim2cam inspect` shows them.\n\n"
        "Per-pixel channels are 16-bit PNG files, in which 0 means no value. "
        "`Frame.read_channel` returns the values in the units below."
    ]
    for heading, alias in (("Per-pixel channels", "ChannelName"), ("Further outputs", "ExtraName")):
        rows = [f"| {names} | {text} |" for names, text in read_definitions(source, alias)]
        parts.append(f"## {heading}\n\n| name | content |\n|---|---|\n" + "\n".join(rows))
    return "\n\n".join(parts) + "\n"


def read_definitions(source: str, alias: str) -> Iterator[tuple[str, str]]:
    """Yield names and description of each entry in the docstring of a type alias."""
    match = re.search(rf'^{alias} = .*?^"""(.*?)"""', source, re.MULTILINE | re.DOTALL)
    assert match is not None, alias
    for name, text in re.findall(r"^(``.*?)\n((?:    .*\n)+)", match[1], re.MULTILINE):
        yield _format_prose(name), _format_prose(" ".join(text.split()))


def build_errors_page() -> str:
    """Return the page of all errors."""
    rows = []
    for error in _list_subclasses(errors.Sim2CamError):
        code = 2 if issubclass(error, errors.UsageError) else 1
        summary = (inspect.getdoc(error) or "").partition("\n\n")[0]
        base = error.__bases__[0].__name__
        text = _format_prose(" ".join(summary.split()))
        rows.append(f"| `{error.__name__}` | `{base}` | {code} | {text} |")
    return (
        "# Errors\n\n"
        "All errors that sim2cam raises on purpose derive from `sim2cam.errors.Sim2CamError`. Each message "
        "says what is wrong, in which file, what is allowed and what to do. Errors about files have the "
        "attribute `path`. The command line prints the message and exits with the code below; a traceback "
        "is a bug.\n\n| error | derives from | exit code | raised for |\n|---|---|---|---|\n"
        + "\n".join(rows)
        + "\n\n`RepairWarning` warns about a flaw of an input file that was repaired.\n"
    )


def _walk_commands(union: Any, prefix: str) -> Iterator[tuple[str, type]]:
    for member in get_args(union):
        owner, config = get_args(member)[0], get_args(member)[1]
        name = f"{prefix} {config.name}".strip()
        if isinstance(owner, type):
            yield name, owner
        else:
            yield from _walk_commands(owner, name)


def _describe_option(field: dataclasses.Field[Any], hint: Any, text: str) -> Option:
    notes = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    kind = get_args(hint)[0] if notes else hint
    settings = {
        key: getattr(note, key)
        for note in notes
        for key in ("name", "metavar", "help")
        if getattr(note, key, None)
    }
    name = (settings.get("name") or field.name).replace("_", "-")
    values = settings.get("metavar") or _describe_values(kind)
    is_positional = any("Positional" in repr(note) for note in notes)
    default = _format_default(field)
    if kind is bool:
        values, name = "", f"no-{name}" if field.default is True else name
    shown = values if is_positional else f"--{name}"
    return Option(
        shown, "" if is_positional else values, default, _format_prose(settings.get("help") or text)
    )


def _list_section_options(section: type) -> list[Option]:
    return list(list_options(section))


def _format_default(field: dataclasses.Field[Any]) -> str:
    if field.default is MISSING and field.default_factory is MISSING:
        return "required"
    if isinstance(field.default, bool) or field.default in (None, (), ""):
        return ""
    if field.name == "workers":
        return "number of cores" if field.default != 1 else "1"
    return f"`{field.default}`"


def _describe_values(kind: Any) -> str:
    origin, parts = get_origin(kind), [p for p in get_args(kind) if p is not NoneType]
    if origin in (Union, UnionType):
        return _describe_values(parts[0])
    if origin is Literal:
        return "|".join(map(str, parts))
    if origin is tuple:
        return f"{_describe_values(parts[0])} ..."
    if origin is Annotated:
        return _describe_values(parts[0])
    return {int: "INT", float: "NUMBER", str: "TEXT", Path: "PATH", bool: ""}.get(kind, "VALUE")


def _read_attribute_docstrings(owner: type) -> dict[str, str]:
    parsed = docstring_parser.parse_from_object(owner)
    return {p.arg_name: " ".join((p.description or "").split()) for p in parsed.params}


def _format_usage(command: type) -> str:
    words = []
    for option in list_options(command):
        if option.default == "required":
            words.append(f"{option.name} {option.values}".strip())
    return " ".join([*words, "[OPTIONS]"])


def _format_options(options: Iterable[Option]) -> str:
    rows = []
    for option in options:
        code = f"`{option.name} {option.values}".rstrip() + "`"
        default = "" if option.default == "required" else option.default
        required = " Required." if option.default == "required" else ""
        rows.append(f"| {_escape(code)} | {_escape(option.meaning)}{required} | {default} |")
    return "| option | meaning | default |\n|---|---|---|\n" + "\n".join(rows)


def _format_table(heading: str, table: TableReference, note: str = "") -> str:
    rows = [
        f"| `{key.name}` | {key.unit} | {_escape(key.values)} | {_escape(key.default)} | {_escape(key.meaning)} |"
        for key in table.keys
    ]
    head = "| key | unit | values | default | meaning |\n|---|---|---|---|---|\n"
    return f"{heading}\n\n{table.meaning}{note}\n\n{head}" + "\n".join(rows)


def _format_directive(path: str, heading: str, level: int = 2) -> str:
    return (
        f"::: {path}\n    options:\n      heading: {heading}\n      toc_label: {heading}\n"
        f"      heading_level: {level}"
    )


def _list_results(command: type) -> dict[str, type]:
    """Return the result classes of a command by name."""
    returned = inspect.signature(command.run).return_annotation
    module = inspect.getmodule(command)
    names = [name.strip() for name in str(returned).split("|")]
    return {name: getattr(module, name) for name in names}


def _list_subclasses(owner: type) -> Iterator[type]:
    yield owner
    for child in owner.__subclasses__():
        yield from _list_subclasses(child)


def _format_prose(text: str) -> str:
    return text.replace("``", "`")


def _escape(text: str) -> str:
    return text.replace("|", "\\|")
