"""Progress of long operations: callbacks that commands hand down."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Called with the numbers of finished and of all units, such as images or steps; 0 if unknown."""

Stages = Callable[[str], Progress]
"""Starts the stage of a name and returns its callback."""


def ignore_progress(done: int, total: int) -> None:
    """Do nothing with the progress."""
