"""Pages of the reference, generated from the code: command line, recipes, Python, channels and errors."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import inspect
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import sim2cam
from sim2cam import cli, commands, errors
from sim2cam.commands.options import FolderOptions, OutputOptions
from sim2cam.commands.parser import build_parser
from sim2cam.data import channels
from sim2cam.pipeline.recipe_reference import (
    KeyReference,
    TableReference,
    list_distributions,
    list_tables,
)

EXAMPLE = """import sim2cam

model = sim2cam.load("dice")  # shipped name or file
result = model.predict("photo.jpg")  # path, PIL, numpy, torch; one or many
result.boxes_xyxy, result.labels, result.scores

recipe = sim2cam.Recipe("dice").replace(render={"width": 320, "height": 320})
frame = recipe.sample(seed=0, index=7).render()  # frame.rgb, frame.depth_m, frame.objects
sim = recipe.render("sim", count=400)  # a sequence of frames; filter, to_torch, to_coco
adapted = sim2cam.adapt(sim, real="photos", out="adapted")
model = sim2cam.train([sim, adapted], recipe="mine.toml", out="run")
report = model.evaluate("test.json")  # report.ap50; report.save("scores.html")
"""
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
        name: Flag, or placeholder of an argument.
        usage: As typed, with the placeholder of the value.
        meaning: Help text.
        is_rare: Whether only ``--help-all`` lists it.
    """

    name: str
    usage: str
    meaning: str
    is_rare: bool


def list_commands() -> dict[str, type]:
    """Return the classes of all commands by name, such as ``adapt train``."""
    return dict(cli._COMMANDS)


def list_options(command: type) -> list[Option]:
    """Return the arguments and options of a command."""
    name = next(name for name, owner in list_commands().items() if owner is command)
    return [
        _describe_option(action, is_rare=group.title == "more options")
        for group in _build_parser(command, name)._action_groups
        for action in group._group_actions
    ]


def build_cli_page() -> str:
    """Return the page of all commands with their options."""
    shared = [_list_names(section) for section in (OutputOptions, FolderOptions)]
    render = list_options(list_commands()["render"])
    parts = [
        "# Command line\n\n"
        "`sim2cam COMMAND --help` shows the usual options of a command, `--help-all` all. Exit codes: 0 "
        "success, 1 the command ran and failed, 2 wrong usage, 130 interrupted. Results go to standard "
        "output, messages to standard error.\n\n"
        "## Options of all commands\n\n" + _format_options(render, shared[0]),
        "Commands that write a folder refuse one that is not empty, unless one of these options is "
        "given:\n\n" + _format_options(render, shared[1]),
    ]
    for group, names in cli._GROUPS.items():
        parts.append(f"## {group}")
        parts += [_format_command(name, command, shared) for name, command in names.items()]
    return "\n\n".join(parts) + "\n"


_build_parser = functools.cache(build_parser)


def _format_command(name: str, command: type, shared: list[set[str]]) -> str:
    options = list_options(command)
    names = {option.name for option in options}
    has_folder = shared[1] <= names
    own = names - shared[0] - (shared[1] if has_folder else set())
    usual = _format_options([o for o in options if not o.is_rare], own)
    rare = _format_options([o for o in options if o.is_rare], own)
    folder = "\n\nAlso `--resume` and `--overwrite`." if has_folder else ""
    text = _format_prose(inspect.getdoc(command) or "")
    more = f"\n\nMore options:\n\n{rare}" if rare else ""
    return f"### {name}\n\n{text}\n\n```text\n{_build_parser(command, name).usage}\n```\n\n{usual}{more}{folder}"


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
        f"[Commands in Python](commands.md).\n\n```python\n{EXAMPLE}```"
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


def _describe_option(action: argparse.Action, *, is_rare: bool) -> Option:
    flag = action.option_strings[-1] if action.option_strings else ""
    takes_value = action.nargs != 0
    value = str(action.metavar) if takes_value else ""
    several = f" [{value} ...]" if action.nargs == "+" else ""
    short = f"{action.option_strings[0]}, " if len(action.option_strings) > 1 else ""
    required = " Required." if action.required and flag else ""
    meaning = _format_prose(f"{action.help}{required}".replace("%%", "%"))
    return Option(flag or value, f"{short}{flag} {value}{several}".strip(), meaning, is_rare)


def _list_names(section: type) -> set[str]:
    return {f"--{field.name}" for field in dataclasses.fields(section)}


def _format_options(options: Iterable[Option], names: set[str]) -> str:
    """Return a table of the options with these names; empty without any."""
    rows = [
        f"| `{_escape(option.usage)}` | {_escape(option.meaning)} |"
        for option in options
        if option.name in names
    ]
    return _wrap_table("| option | meaning |\n|---|---|\n", rows) if rows else ""


def _format_table(heading: str, table: TableReference, note: str = "") -> str:
    rows = [
        f"| `{key.name}` | {_escape(key.meaning)} | {_escape(_format_values(key))} | {_escape(key.default)} |"
        for key in table.keys
    ]
    head = "| key | meaning | values | default |\n|---|---|---|---|\n"
    return f"{heading}\n\n{table.meaning}{note}\n\n{_wrap_table(head, rows)}"


def _format_values(key: KeyReference) -> str:
    """Return the allowed values with their unit."""
    if not key.unit:
        return key.values
    return f"{key.values} {key.unit}" if key.values[-1].isdigit() else f"{key.values}, {key.unit}"


def _wrap_table(head: str, rows: Iterable[str]) -> str:
    """Return a table in a block that the style sheet knows."""
    lines = "\n".join(rows)
    return f'<div class="keys" markdown="1">\n\n{head}{lines}\n\n</div>'


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
