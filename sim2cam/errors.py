"""Errors that say what was wrong, where, and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


class Sim2CamError(Exception):
    """Base of every error that sim2cam raises on purpose; the command line exits with 1."""


class UsageError(Sim2CamError):
    """The call itself cannot be carried out; the command line exits with 2."""


class InputError(Sim2CamError):
    """A file or folder that was given is not usable.

    Attributes:
        path: the offending file or folder.
    """

    def __init__(self, path: Path | str, problem: str) -> None:
        super().__init__(path, problem)  # as given, so that pickle brings it home from a worker
        self.path = Path(path)

    def __str__(self) -> str:
        path, problem = self.args
        return f"{path}: {problem}"


class RecipeError(InputError):
    """A recipe holds a wrong key, type or range."""


class CheckpointError(InputError):
    """A checkpoint or weights file does not belong to what it was given to."""


class OutputError(InputError):
    """An output folder cannot be written, or holds something else."""


class BackendError(Sim2CamError):
    """A renderer, driver or optional package is not there."""


class DivergenceError(Sim2CamError):
    """A training whose losses are no longer finite.

    Attributes:
        step: the first at which they were not, counted from 1.
    """

    def __init__(self, problem: str, step: int) -> None:
        super().__init__(problem, step)  # as given, so that pickle brings it home from a worker
        self.step = step

    def __str__(self) -> str:
        return str(self.args[0])


class SceneError(Sim2CamError):
    """A scene cannot be settled or drawn within its budget of attempts."""


class RepairWarning(UserWarning):
    """A file had a flaw that could be repaired; says which, and how."""


class SpecError(Sim2CamError, ValueError):
    """A value of a scene of which nothing can be made.

    A ValueError too, so that what reads a scene from a file says where in it the value stands.
    """


class LensError(Sim2CamError, ValueError):
    """A lens with impossible numbers, or asked for what it cannot see.

    A ValueError too, so that what reads a lens from a file says where in it the numbers stand.
    """


def suggest_name(name: str, allowed: Iterable[str]) -> str:
    """Return the allowed names, led by the closest one: ``Did you mean 'a'? Allowed: a, b``."""
    options = sorted(allowed)
    close = difflib.get_close_matches(name, options, n=1)
    hint = f"Did you mean '{close[0]}'? " if close else ""
    return f"{hint}Allowed: {', '.join(options)}"
