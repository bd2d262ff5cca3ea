"""Data of the next steps, made while a network learns from those of this one."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")


class Ahead(Generic[T]):
    """Returns what is made of a step, and has that of the next ones made meanwhile.

    What a step is made of must depend on its number alone. What goes wrong in making it is raised when it is
    asked for.

    Args:
        make: makes it, in other threads.
        stop: the first step that nobody will ask for.
        threads: and steps made ahead.
    """

    def __init__(self, make: Callable[[int], T], stop: int, threads: int = 1) -> None:
        self._make = make
        self._stop = stop
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads)
        self._made: dict[int, Future[T]] = {}

    def __call__(self, step: int) -> T:
        """Returns what is made of a step."""
        wanted = (step, *range(step + 1, min(step + 1 + self._threads, self._stop)))
        self._made = {n: self._made.get(n) or self._pool.submit(self._make, n) for n in wanted}
        return self._made[step].result()
