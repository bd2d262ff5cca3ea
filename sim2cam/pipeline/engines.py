"""Engines: where work units run. Each maps units to results; the bytes do not depend on which."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from sim2cam.errors import Sim2CamError

Unit = TypeVar("Unit")
Result = TypeVar("Result")


def map_units(
    work: Callable[[Unit], Result], units: Sequence[Unit], workers: int
) -> Iterator[Result]:
    """Yields the result of each unit as it is done, in this process or in spawned workers.

    Args:
        work: a function that other processes can import.
        units: what it is called with.
        workers: number of processes; 1 stays in this one.

    Raises:
        Sim2CamError: a worker died (out of memory, or killed).
    """
    if workers == 1 or len(units) <= 1:
        yield from map(work, units)
        return
    # OpenGL contexts do not survive a fork.
    context = multiprocessing.get_context("spawn")
    size = min(workers, len(units))
    with ProcessPoolExecutor(size, mp_context=context, initializer=_use_one_thread) as pool:
        futures = [pool.submit(work, unit) for unit in units]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BrokenProcessPool as error:
            raise Sim2CamError(
                "a worker process died (killed, or out of memory). What was finished is kept: run "
                "again with --resume, perhaps with fewer --workers."
            ) from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _use_one_thread() -> None:
    """Keeps Mesa and OpenMP from starting a thread a core in each of several processes."""
    for variable in ("LP_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
