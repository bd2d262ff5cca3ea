"""The command ``sim2cam``: parses, runs, and turns errors into exit codes."""

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
from typing import Annotated, Any

import tyro

from sim2cam import __version__
from sim2cam.commands.ablate import Ablate
from sim2cam.commands.adapt import AdaptApply, AdaptTrain
from sim2cam.commands.assets import Assets, New
from sim2cam.commands.bench import Bench, Compare
from sim2cam.commands.calibrate import Calibrate, Drift
from sim2cam.commands.console import escape_controls, escape_unencodable, write
from sim2cam.commands.data import Check, Inspect, Render
from sim2cam.commands.demo import Demo
from sim2cam.commands.domain import DomainFit, DomainShow
from sim2cam.commands.export import Catalog, Export
from sim2cam.commands.fetch import Fetch
from sim2cam.commands.options import FolderOptions
from sim2cam.commands.predict import Predict, PseudoLabel
from sim2cam.commands.scenes import ScenesAdd, ScenesRun
from sim2cam.commands.show import Doctor, Report
from sim2cam.commands.train import Train
from sim2cam.commands.tune import Tune
from sim2cam.errors import InputError, RepairWarning, Sim2CamError, UsageError
from sim2cam.learn.launch import get_world_size

_Adapt = (
    Annotated[AdaptTrain, tyro.conf.subcommand("train")]
    | Annotated[AdaptApply, tyro.conf.subcommand("apply")]
)
_Domain = (
    Annotated[DomainShow, tyro.conf.subcommand("show")]
    | Annotated[DomainFit, tyro.conf.subcommand("fit")]
)
_Scenes = (
    Annotated[ScenesAdd, tyro.conf.subcommand("add")]
    | Annotated[ScenesRun, tyro.conf.subcommand("run")]
)
_Command = (
    Annotated[Demo, tyro.conf.subcommand("demo")]
    | Annotated[
        _Domain, tyro.conf.subcommand("domain", description="Show what a recipe draws, and fit it.")
    ]
    | Annotated[Render, tyro.conf.subcommand("render")]
    | Annotated[New, tyro.conf.subcommand("new")]
    | Annotated[Assets, tyro.conf.subcommand("assets")]
    | Annotated[Check, tyro.conf.subcommand("check")]
    | Annotated[Inspect, tyro.conf.subcommand("inspect")]
    | Annotated[Export, tyro.conf.subcommand("export")]
    | Annotated[Catalog, tyro.conf.subcommand("catalog")]
    | Annotated[Calibrate, tyro.conf.subcommand("calibrate")]
    | Annotated[Drift, tyro.conf.subcommand("drift")]
    | Annotated[_Adapt, tyro.conf.subcommand("adapt", description="Translate renders.")]
    | Annotated[Train, tyro.conf.subcommand("train")]
    | Annotated[Tune, tyro.conf.subcommand("tune")]
    | Annotated[Bench, tyro.conf.subcommand("bench")]
    | Annotated[Compare, tyro.conf.subcommand("compare")]
    | Annotated[Ablate, tyro.conf.subcommand("ablate")]
    | Annotated[Predict, tyro.conf.subcommand("predict")]
    | Annotated[PseudoLabel, tyro.conf.subcommand("pseudo-label")]
    | Annotated[
        _Scenes, tyro.conf.subcommand("scenes", description="Keep scenes, and render them again.")
    ]
    | Annotated[Fetch, tyro.conf.subcommand("fetch")]
    | Annotated[Report, tyro.conf.subcommand("report")]
    | Annotated[Doctor, tyro.conf.subcommand("doctor")]
)
_REPEATABLE_FLAG = "--set"
_RENAMED = {  # names of earlier releases, by which old scripts still call
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
    "render --no-pictures": "--no-images",
    "render --pictures": "--images",
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
_TYRO_CONFIG = (tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff)


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code: 0, 1 (ran and failed), 2 (usage), 130 (interrupted)."""
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    except BrokenPipeError:  # whoever reads has seen enough, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run(arguments: list[str]) -> int:
    # Threads that spin while they wait take the core from those that work; read when torch loads.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if sys.__stderr__ is not None:
        faulthandler.enable(sys.__stderr__)  # a driver that crashes leaves no other trace
    escape_unencodable()
    warnings.formatwarning = _format_warning
    if arguments == ["--version"]:
        sys.stdout.write(f"sim2cam {__version__}\n")
        return 0
    command: Any = None
    try:
        _check_renamed(arguments)
        command = tyro.cli(
            _Command,
            prog="sim2cam",
            description="Turn simulated scenes into perception models that work on your camera.",
            args=arguments,
            config=_TYRO_CONFIG,
        )
        _check_repeated_flags(arguments)
        _check_launch(command)
        with _preserve_interrupts():
            command.execute()
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
        hint = "Run the same command with --resume to go on." if can_resume else ""
        sys.stderr.write(f"\nsim2cam: interrupted. {hint}\n")
        return 130
    return 0


@contextmanager
def _preserve_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt when asked to end, also in place of the error that it became on its way.

    C code that calls Python, as ctypes does for each argument of OpenGL's functions, may report
    whatever that raised as an error of its own. Clusters and containers ask by SIGTERM, a terminal that
    is closed by SIGHUP.
    """
    if threading.current_thread() is not threading.main_thread():  # others may set no handler
        yield
        return
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    if hasattr(signal, "SIGHUP"):  # a closed terminal; Windows has none, and nohup ignores it
        usual[signal.SIGHUP] = signal.SIG_DFL
    ours = {
        number: handler for number, handler in usual.items() if signal.getsignal(number) is handler
    }
    interrupted = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True
        signal.default_int_handler(number, frame)

    for number in ours:
        signal.signal(number, interrupt)
    try:
        yield
    except Exception as error:
        if interrupted:
            raise KeyboardInterrupt from error
        raise
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)


def _check_repeated_flags(arguments: list[str]) -> None:
    """Refuse a flag that is given twice: the last one alone would count.

    Raises:
        UsageError: with the flag.
    """
    flags = _list_flags(arguments)
    for flag in flags:
        if flags.count(flag) > 1 and flag != _REPEATABLE_FLAG:
            raise UsageError(f"{flag} is given twice. Give it once, with all its values.")


def _check_renamed(arguments: list[str]) -> None:
    """Refuse commands and flags of earlier releases.

    Raises:
        UsageError: with their names of today.
    """
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
    """Return the long flags without their values, as help texts spell them."""
    return [text.partition("=")[0].replace("_", "-") for text in arguments if text.startswith("--")]


def _check_launch(command: object) -> None:
    """Refuse commands that several processes would all do alike, into one folder.

    Raises:
        UsageError: torchrun has started several.
    """
    if get_world_size() > 1 and not isinstance(command, AdaptTrain | Train):
        raise UsageError(
            f"torchrun has started {get_world_size()} processes, but only train and adapt train share their "
            "work among them. Run this command without torchrun."
        )


def _format_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    line: str | None = None,
) -> str:
    """Return what is printed of a warning: of a flaw of a user's file no line of our source."""
    if issubclass(category, RepairWarning):
        return escape_controls(f"sim2cam: {message}\n")
    return escape_controls(_PYTHON_FORMATWARNING(message, category, filename, lineno, line))


def _wrap_os_error(error: OSError) -> InputError:
    """Return the error of a file that the system refuses to open, find or write."""
    return InputError(
        str(error.filename),
        f"cannot be used ({error.strerror}). Check the path, the permissions and the free disk space.",
    )


def _print_error(error: Sim2CamError, exit_code: int) -> int:
    write(sys.stderr, f"sim2cam: {error}\n")
    return exit_code
