"""Prefetch of training batches in a thread or in forked processes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils import data

from sim2cam.errors import Sim2CamError

T = TypeVar("T")

_MIN_SHARED_BYTES = 1 << 15


def prefetch(make: Callable[[int], T], steps: Iterable[int]) -> Iterator[T]:
    """Yield the batches of steps in order, each made in a background thread during the previous step.

    Errors are raised in place of their batch.

    Args:
        make: Returns the batch of a step; must depend on the step only.
        steps: Step numbers.
    """
    futures: deque[Future[T]] = deque()
    with ThreadPoolExecutor(1) as pool:
        for step in steps:
            futures.append(pool.submit(make, step))
            if len(futures) > 1:
                yield futures.popleft().result()
        while futures:
            yield futures.popleft().result()


def prefetch_in_processes(
    make: Callable[[int], T], steps: Sequence[int], process_count: int
) -> Iterator[T]:
    """Yield the batches of steps in order, made by forked processes.

    Forked processes share the memory of decoded images with this one. Threads would compete with the
    training loop for the GIL. Errors are raised in place of their batch.

    Args:
        make: Returns the batch of a step; must depend on the step only. Arrays may be nested in tuples
            and frozen dataclasses.
        steps: Step numbers.
        process_count: Number of processes; twice as many batches are made ahead.
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
    """Batches by step, converted for transfer between processes."""

    def __init__(self, make: Callable[[int], object]) -> None:
        self._make = make

    def __getitem__(self, step: int) -> Any:
        torch.set_num_threads(1)
        try:
            return _map_values(self._make(step), np.ndarray, _to_shared)
        except Sim2CamError as error:
            return error


def _to_shared(array: NDArray[Any]) -> Any:
    """Convert a large array to a tensor in shared memory; a small one is sent through a pipe."""
    if array.nbytes < _MIN_SHARED_BYTES:
        return array
    return torch.from_numpy(np.require(array, requirements="W"))


def _from_shared(value: Any) -> Any:
    if isinstance(value, Sim2CamError):
        raise value
    return _map_values(value, torch.Tensor, torch.Tensor.numpy)


def _map_values(value: object, kind: type, convert: Callable[[Any], object]) -> object:
    """Convert all values of a type, also within tuples and dataclasses."""
    if isinstance(value, kind):
        return convert(value)
    if isinstance(value, tuple):
        return tuple(_map_values(item, kind, convert) for item in value)
    if is_dataclass(value):
        parts = {f.name: _map_values(getattr(value, f.name), kind, convert) for f in fields(value)}
        return replace(cast("Any", value), **parts)
    return value


def _identity(value: T) -> T:
    return value
