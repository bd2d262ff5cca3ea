"""Data of the next steps, made while a network learns from those of this one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import fields, is_dataclass, replace
from typing import Any, Generic, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils import data

from sim2cam.errors import Sim2CamError

T = TypeVar("T")

_LEAST_SHARED_BYTES = 1 << 15


class Ahead(Generic[T]):
    """Returns what is made of a step, and has that of the next one made meanwhile, in another thread.

    What a step is made of must depend on its number alone. What goes wrong in making it is raised when it is
    asked for.

    Args:
        make: makes it.
        stop: the first step that nobody will ask for.
    """

    def __init__(self, make: Callable[[int], T], stop: int) -> None:
        self._make = make
        self._stop = stop
        self._pool = ThreadPoolExecutor(1)
        self._made: dict[int, Future[T]] = {}

    def __call__(self, step: int) -> T:
        """Returns what is made of a step."""
        wanted = (step, *range(step + 1, min(step + 2, self._stop)))
        self._made = {n: self._made.get(n) or self._pool.submit(self._make, n) for n in wanted}
        return self._made[step].result()


def made_by_processes(
    make: Callable[[int], T], steps: Sequence[int], processes: int
) -> Iterator[T]:
    """Yields what is made of steps, in their order, by processes that are forked from this one.

    What they hold when this is called, such as decoded pictures, they share. Python runs one thread at a time, so
    that threads that make data would keep the one waiting that has a GPU to feed. What a step is made of must depend
    on its number alone. What goes wrong in making it is raised in its place.

    Args:
        make: makes it of a step; large arrays may stand in tuples and in frozen dataclasses.
        steps: their numbers.
        processes: and twice as many steps are made ahead.
    """
    loader: data.DataLoader[Any] = data.DataLoader(
        _Made(make),
        batch_size=None,
        sampler=steps,
        num_workers=processes,
        collate_fn=_as_it_is,
        multiprocessing_context="fork",
    )
    return map(_received, loader)


class _Made(data.Dataset[Any]):
    """What is made of each step, ready to be sent."""

    def __init__(self, make: Callable[[int], object]) -> None:
        self._make = make

    def __getitem__(self, step: int) -> Any:
        torch.set_num_threads(1)
        try:
            return _changed(self._make(step), np.ndarray, _sent)
        except Sim2CamError as error:
            return error


def _sent(values: NDArray[Any]) -> Any:
    """Returns an array as it is sent: through a pipe or, as a tensor, through memory that both processes see, which
    takes an open file.
    """
    if values.nbytes < _LEAST_SHARED_BYTES:
        return values
    return torch.from_numpy(np.require(values, requirements="W"))


def _received(sent: Any) -> Any:
    if isinstance(sent, Sim2CamError):
        raise sent
    return _changed(sent, torch.Tensor, torch.Tensor.numpy)


def _changed(value: object, kind: type, change: Callable[[Any], object]) -> object:
    """Returns a value in which all of a kind are changed, also those in tuples and dataclasses."""
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, tuple):
        return tuple(_changed(one, kind, change) for one in value)
    if is_dataclass(value):
        parts = {f.name: _changed(getattr(value, f.name), kind, change) for f in fields(value)}
        return replace(cast("Any", value), **parts)
    return value


def _as_it_is(made: T) -> T:
    return made
