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

_MIN_SHARED_BYTES = 1 << 15


class Prefetcher(Generic[T]):
    """Returns what is made of a step, and has that of the next one made meanwhile, in another thread.

    What a step is made of must depend on its number alone. What goes wrong in making it is raised when it is
    asked for.

    Args:
        make: makes it.
        end_step: the first step that nobody will ask for.
    """

    def __init__(self, make: Callable[[int], T], end_step: int) -> None:
        self._make = make
        self._end_step = end_step
        self._pool = ThreadPoolExecutor(1)
        self._futures: dict[int, Future[T]] = {}

    def __call__(self, step: int) -> T:
        """Return what is made of a step."""
        wanted = (step, *range(step + 1, min(step + 2, self._end_step)))
        self._futures = {
            n: self._futures.get(n) or self._pool.submit(self._make, n) for n in wanted
        }
        return self._futures[step].result()


def prefetch_in_processes(
    make: Callable[[int], T], steps: Sequence[int], process_count: int
) -> Iterator[T]:
    """Yield what is made of steps, in their order, by processes that are forked from this one.

    What they hold when this is called, such as decoded pictures, they share. Python runs one thread at a time, so
    that threads that make data would keep the one waiting that has a GPU to feed. What a step is made of must depend
    on its number alone. What goes wrong in making it is raised in its place.

    Args:
        make: makes it of a step; large arrays may stand in tuples and in frozen dataclasses.
        steps: their numbers.
        process_count: and twice as many steps are made ahead.
    """
    loader: data.DataLoader[Any] = data.DataLoader(
        _StepDataset(make),
        batch_size=None,
        sampler=steps,
        num_workers=process_count,
        collate_fn=_identity,
        multiprocessing_context="fork",
    )
    return map(_from_shared, loader)


class _StepDataset(data.Dataset[Any]):
    """What is made of each step, ready to be sent."""

    def __init__(self, make: Callable[[int], object]) -> None:
        self._make = make

    def __getitem__(self, step: int) -> Any:
        torch.set_num_threads(1)
        try:
            return _map_values(self._make(step), np.ndarray, _to_shared)
        except Sim2CamError as error:
            return error


def _to_shared(array: NDArray[Any]) -> Any:
    """Return an array as it is sent: through a pipe or, as a tensor, through memory that both processes see, which
    takes an open file.
    """
    if array.nbytes < _MIN_SHARED_BYTES:
        return array
    return torch.from_numpy(np.require(array, requirements="W"))


def _from_shared(value: Any) -> Any:
    if isinstance(value, Sim2CamError):
        raise value
    return _map_values(value, torch.Tensor, torch.Tensor.numpy)


def _map_values(value: object, kind: type, convert: Callable[[Any], object]) -> object:
    """Return a value in which all of a kind are changed, also those in tuples and dataclasses."""
    if isinstance(value, kind):
        return convert(value)
    if isinstance(value, tuple):
        return tuple(_map_values(one, kind, convert) for one in value)
    if is_dataclass(value):
        parts = {f.name: _map_values(getattr(value, f.name), kind, convert) for f in fields(value)}
        return replace(cast("Any", value), **parts)
    return value


def _identity(value: T) -> T:
    return value
