"""Data of the next step, made while a network learns from those of this one."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")


class Ahead(Generic[T]):
    """Returns what is made of a step, and has that of the next one made meanwhile.

    What a step is made of must depend on its number alone. What goes wrong in making it is raised when it is
    asked for.

    Args:
        make: makes it, in a thread of its own.
    """

    def __init__(self, make: Callable[[int], T]) -> None:
        self._make = make
        self._pool = ThreadPoolExecutor(1)
        self._next: dict[int, Future[T]] = {}

    def __call__(self, step: int) -> T:
        """Returns what is made of a step."""
        asked = self._next.pop(step, None) or self._pool.submit(self._make, step)
        self._next = {step + 1: self._pool.submit(self._make, step + 1)}
        return asked.result()
