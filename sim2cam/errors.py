"""Exceptions and warnings of sim2cam."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


class Sim2CamError(Exception):
    """Base class of sim2cam errors; the command line exits with 1."""


class UsageError(Sim2CamError):
    """Invalid arguments; the command line exits with 2."""


class InputError(Sim2CamError):
    """Unusable file or folder.

    Attributes:
        path: The file or folder.
    """

    def __init__(self, path: Path | str, problem: str) -> None:
        super().__init__(path, problem)  # pickle restores an error of a worker from these
        self.path = Path(path)

    def __str__(self) -> str:
        path, problem = self.args
        return f"{path}: {problem}"


class RecipeError(InputError):
    """Recipe with an invalid key, type or range."""


class CheckpointError(InputError):
    """Checkpoint or weights file that is damaged or does not match."""


class OutputError(InputError):
    """Output file or folder that cannot be written, exists or contains other files."""


class BackendError(Sim2CamError):
    """Missing renderer, driver or optional package, or exhausted memory."""


class DivergenceError(Sim2CamError):
    """Training with a non-finite loss.

    Attributes:
        step: First step with a non-finite loss, from 1.
    """

    def __init__(self, problem: str, step: int) -> None:
        super().__init__(problem, step)  # pickle restores an error of a worker from these
        self.step = step

    def __str__(self) -> str:
        return str(self.args[0])


class SceneError(Sim2CamError):
    """Scene that cannot be simulated or rendered within its number of attempts."""


class RepairWarning(UserWarning):
    """Flaw of an input file that was repaired."""


class SpecError(Sim2CamError, ValueError):
    """Invalid value of a scene.

    Derives from ValueError, so that the reader of a scene file adds the location of the value.
    """


class LensError(Sim2CamError, ValueError):
    """Lens with invalid parameters, or a point outside its field of view.

    Derives from ValueError, so that the reader of a lens file adds the location of the value.
    """


def suggest_name(name: str, allowed: Iterable[str]) -> str:
    """Return a hint with the closest and the allowed names: ``Did you mean 'a'? Allowed: a, b``."""
    options = sorted(allowed)
    listed = ", ".join(options[:_MAX_LISTED_NAMES])
    rest = len(options) - _MAX_LISTED_NAMES
    more = f" and {rest} more" if rest > 0 else ""
    return f"{suggest_closest(name, options)} Allowed: {listed}{more}".lstrip()


_MAX_LISTED_NAMES = 100  # folders of images and meshes hold thousands


def suggest_closest(name: str, allowed: Iterable[str]) -> str:
    """Return a hint with the closest name, ``Did you mean 'a'?``; empty if none is similar."""
    close = difflib.get_close_matches(name, sorted(allowed), n=1)
    return f"Did you mean '{close[0]}'?" if close else ""
