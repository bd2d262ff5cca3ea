"""Command-line entry point ``sim2cam``: parsing, execution and exit codes."""

from __future__ import annotations

import faulthandler
import itertools
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from sim2cam.commands.ablate import Ablate
from sim2cam.commands.adapt import AdaptApply, AdaptTrain
from sim2cam.commands.assets import Assets, New
from sim2cam.commands.bench import Bench
from sim2cam.commands.calibrate import Calibrate, Drift
from sim2cam.commands.compare import Compare
from sim2cam.commands.console import escape_unencodable
from sim2cam.commands.data import Check, Inspect, Render
from sim2cam.commands.demo import Demo
from sim2cam.commands.domain import DomainFit, DomainShow
from sim2cam.commands.escape import escape_controls, write
from sim2cam.commands.export import Catalog, Export
from sim2cam.commands.fetch import Fetch
from sim2cam.commands.options import FolderOptions
from sim2cam.commands.parser import format_help, parse_command
from sim2cam.commands.predict import Predict
from sim2cam.commands.pseudo_label import PseudoLabel
from sim2cam.commands.recipe import Recipe
from sim2cam.commands.results import Command, Result
from sim2cam.commands.scenes import ScenesAdd, ScenesRun
from sim2cam.commands.show import Doctor, Report
from sim2cam.commands.train import Train
from sim2cam.commands.tune import Tune
from sim2cam.errors import (
    InputError,
    RepairWarning,
    Sim2CamError,
    UsageError,
    suggest_closest,
    suggest_name,
)
from sim2cam.learn.launch import get_world_size, is_main_process
from sim2cam.version import __version__

_GROUPS: dict[str, dict[str, type[Command[Any]]]] = {
    "Start": {"demo": Demo, "predict": Predict, "new": New, "fetch": Fetch, "doctor": Doctor},
    "Data": {
        "render": Render,
        "assets": Assets,
        "inspect": Inspect,
        "check": Check,
        "catalog": Catalog,
        "export": Export,
        "scenes add": ScenesAdd,
        "scenes run": ScenesRun,
    },
    "Camera": {"calibrate": Calibrate, "drift": Drift},
    "Adapt": {"adapt train": AdaptTrain, "adapt apply": AdaptApply, "domain fit": DomainFit},
    "Train": {"train": Train, "pseudo-label": PseudoLabel, "tune": Tune},
    "Evaluate": {"bench": Bench, "compare": Compare, "ablate": Ablate},
    "Explain": {"recipe": Recipe, "domain show": DomainShow, "report": Report},
}
_COMMANDS = {name: command for group in _GROUPS.values() for name, command in group.items()}
_REPEATABLE_FLAG = "--set"
_RENAMED = {  # commands and flags of earlier releases, with their current names
    "ladder": "ablate",
    "label": "pseudo-label",
    "ablate --arms": "--variants",
    "ablate --ignore": "--ignore-unmatched",
    "ablate --pictures": "--count",
    "adapt apply --judge": "--verifier",
    "adapt train --judge": "--verifier",
    "bench --ignore": "--ignore-unmatched",
    "calibrate --run": "--monitor",
    "domain show --pictures": "--images",
    "drift --run": "--monitor",
    "predict --score": "--min-score",
    "pseudo-label --score": "--min-score",
    "render --no-images": "--skip-render",
    "render --no-pictures": "--skip-render",
    "render --redraw": "--resample",
    "scenes run --renew": "--update",
    "train --backdrops": "--backgrounds",
    "train --dev": "--validation",
    "train --first-weights": "--initial-mix",
    "train --ignore": "--ignore-unmatched",
    "train --weights": "--mix",
    "tune --ignore": "--ignore-unmatched",
}
_PYTHON_FORMATWARNING = warnings.formatwarning
_HELP_FLAGS, _ALL_FLAG = ("-h", "--help"), "--help-all"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: Command and flags; by default those of the process.

    Returns:
        Exit code: 0 (success), 1 (ran and failed), 2 (usage error), 130 (interrupted).
    """
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    except BrokenPipeError:  # the reader closed the pipe, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run(arguments: list[str]) -> int:
    if sys.__stderr__ is not None:
        faulthandler.enable(sys.__stderr__)  # a crashing GPU driver leaves no other trace
    escape_unencodable()
    warnings.formatwarning = _format_warning
    command: Any = None
    try:
        _check_renamed(arguments)
        if page := _format_page(arguments):
            sys.stdout.write(page)
            return 0
        name, rest = _split_command(arguments)
        _check_repeated_flags(rest)
        command = parse_command(_COMMANDS[name], name, rest)
        _check_launch(command)
        with _preserve_interrupts():
            _print_result(command)
    except UsageError as error:
        return _print_error(error, 2)
    except Sim2CamError as error:
        return _print_error(error, 1)
    except OSError as error:
        if error.filename is None:
            raise
        return _print_error(_wrap_os_error(error), 1)
    except KeyboardInterrupt:
        can_resume = isinstance(getattr(command, "folder", None), FolderOptions)
        hint = "Run the same command with --resume to continue." if can_resume else ""
        sys.stderr.write(f"\nsim2cam: interrupted. {hint}\n")
        return 130
    return 0


def _split_command(arguments: list[str]) -> tuple[str, list[str]]:
    """Return the name of the command and its arguments, with flags spelled as in the help.

    The name is empty or that of a family, such as ``adapt``, if only its help is requested.

    Raises:
        UsageError: If there is no such command.
    """
    words = list(itertools.takewhile(lambda text: not text.startswith("-"), arguments[:2]))
    rest = [_spell_flag(text) for text in arguments]
    for count in range(len(words), 0, -1):
        if (name := " ".join(words[:count])) in _COMMANDS:
            return name, rest[count:]
    family = [name for name in _COMMANDS if name.split()[:1] == words[:1]]
    if len(words) < 2 and (family or not words) and {*_HELP_FLAGS, _ALL_FLAG} & {*rest}:
        return " ".join(words), rest
    if not words:
        raise UsageError("give a command. See sim2cam --help.")
    if family:
        raise UsageError(f"give a command of {words[0]}: {', '.join(family)}.")
    hint = suggest_closest(words[0], _COMMANDS) or f"{suggest_name(words[0], _COMMANDS)}."
    raise UsageError(f"unknown command '{words[0]}'. {hint}")


def _format_page(arguments: list[str]) -> str:
    """Return the requested page: version, help of a command or list of commands; empty if none."""
    if arguments == ["--version"]:
        return f"sim2cam {__version__}\n"
    name, rest = _split_command(arguments)
    if name not in _COMMANDS:
        return _format_overview(name)
    if _ALL_FLAG in rest or not {*_HELP_FLAGS}.isdisjoint(rest):
        return format_help(_COMMANDS[name], name, with_rare=_ALL_FLAG in rest)
    return ""


def _format_overview(family: str) -> str:
    """Return the list of all commands, or of a family such as ``adapt``."""
    lines = [
        "usage: sim2cam COMMAND [options]",
        "Turn simulated scenes into perception models that work on your camera.",
    ]
    for heading, group in _GROUPS.items():
        titles = itertools.chain(["", heading], itertools.repeat(""))
        lines += [next(titles)] if any(key.startswith(family) for key in group) else []
        lines += [
            f"{next(titles):<9} {key:<13} {(command.__doc__ or '').splitlines()[0]}"
            for key, command in group.items()
            if key.startswith(family)
        ]
    return "\n".join([*lines, "", "Options of a command: sim2cam COMMAND --help", ""])


def _print_result(command: Command[Result]) -> None:
    """Run a command and print its result; raise Sim2CamError if it failed."""
    console, result = command.output.make_console(), command.run()
    for text in result.iterate_output(as_json=command.output.json) if is_main_process() else ():
        console.print_result(text)
    if summary := result.summary():
        console.info(summary)
    if result.next_step and not result.failure and not command.output.json:
        console.info(f"next: {result.next_step}")
    if result.failure:
        raise Sim2CamError(result.failure)


@contextmanager
def _preserve_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGINT, SIGTERM and SIGHUP.

    C code that calls Python (ctypes, for OpenGL arguments) may replace the KeyboardInterrupt by an
    error of its own; that error is converted back.
    """
    if threading.current_thread() is not threading.main_thread():  # only it may set handlers
        yield
        return
    default_handlers = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    if hasattr(signal, "SIGHUP"):  # not on Windows; ignored under nohup
        default_handlers[signal.SIGHUP] = signal.SIG_DFL
    replaced = {
        number: handler
        for number, handler in default_handlers.items()
        if signal.getsignal(number) is handler
    }
    interrupted = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True
        signal.default_int_handler(number, frame)

    for number in replaced:
        signal.signal(number, interrupt)
    try:
        yield
    except Exception as error:
        if interrupted:
            raise KeyboardInterrupt from error
        raise
    finally:
        for number, handler in replaced.items():
            signal.signal(number, handler)


def _check_repeated_flags(arguments: list[str]) -> None:
    """Raise UsageError if a flag occurs twice; tyro would silently use the last one."""
    flags = _list_flags(arguments)
    for flag in flags:
        if flags.count(flag) > 1 and flag != _REPEATABLE_FLAG:
            raise UsageError(f"{flag} is given twice. Give it once with all its values.")


def _check_renamed(arguments: list[str]) -> None:
    """Raise UsageError for commands and flags of earlier releases, with the current names."""
    words = list(itertools.takewhile(lambda text: not text.startswith("-"), arguments[:2]))
    sentences = []
    if words and words[0] in _RENAMED:
        sentences.append(f"The command {words[0]} is now {_RENAMED[words[0]]}.")
        words[0] = _RENAMED[words[0]]
    for flag in dict.fromkeys(_list_flags(arguments)):
        for command in (" ".join(words[:1]), " ".join(words)):
            if f"{command} {flag}" in _RENAMED:
                sentences.append(f"{flag} is now {_RENAMED[f'{command} {flag}']}.")
                break
    if sentences:
        raise UsageError(" ".join(sentences))


def _list_flags(arguments: list[str]) -> list[str]:
    """Return the long flags without values, spelled as in the help."""
    return [text.partition("=")[0] for text in map(_spell_flag, arguments) if text.startswith("--")]


def _spell_flag(text: str) -> str:
    """Return a long flag with hyphens instead of underscores; other texts are unchanged."""
    flag, equals, value = text.partition("=")
    return f"{flag.replace('_', '-')}{equals}{value}" if text.startswith("--") else text


def _check_launch(command: object) -> None:
    """Raise UsageError if torchrun started several processes of a command that is not distributed."""
    if get_world_size() > 1 and not isinstance(command, AdaptTrain | Train):
        raise UsageError(
            f"torchrun started {get_world_size()} processes, but only train and adapt train are "
            "distributed. Run this command without torchrun."
        )


def _format_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    line: str | None = None,
) -> str:
    """Format a warning; warnings about user files omit the source line."""
    if issubclass(category, RepairWarning):
        return escape_controls(f"sim2cam: {message}\n")
    return escape_controls(_PYTHON_FORMATWARNING(message, category, filename, lineno, line))


def _wrap_os_error(error: OSError) -> InputError:
    """Return an InputError for a file that the operating system cannot open, find or write."""
    return InputError(
        str(error.filename),
        f"cannot be used ({error.strerror}). Check the path, the permissions and the free disk space.",
    )


def _print_error(error: Sim2CamError, exit_code: int) -> int:
    write(sys.stderr, f"sim2cam: {error}\n")
    return exit_code
