"""Progress of long operations: callbacks that commands hand down."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Progress(Protocol):
    """Callback with the numbers of finished and of all units, such as images or steps; 0 if unknown."""

    def __call__(self, done: int, total: int, /, detail: str = "") -> None:
        """Take the numbers, and a text about the state such as the losses of a training."""


Stages = Callable[[str], Progress]
"""Starts the stage of a name and returns its callback."""


def ignore_progress(done: int, total: int, /, detail: str = "") -> None:
    """Do nothing with the progress."""
