"""Engines: where work units run. Each maps units to results; the bytes do not depend on which."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from typing import TypeVar

from sim2cam.errors import Sim2CamError

Unit = TypeVar("Unit")
Result = TypeVar("Result")


def map_units(
    work: Callable[[Unit], Result], units: Sequence[Unit], workers: int
) -> Iterator[Result]:
    """Yields the result of each unit as it is done, in this process or in spawned workers.

    Interrupted or closed before the end, it stops the workers amid their units.

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
    others = multiprocessing.active_children()
    with ProcessPoolExecutor(size, mp_context=context, initializer=_prepare_worker) as pool:
        try:
            with _interrupts_blocked():  # the pool starts its processes as units come in
                futures = [pool.submit(work, unit) for unit in units]
            for future in as_completed(futures):
                yield future.result()
        except BrokenProcessPool as error:
            raise Sim2CamError(
                "a worker process died (killed, or out of memory). What was finished is kept: run "
                "again with --resume, perhaps with fewer --workers."
            ) from error
        except (KeyboardInterrupt, GeneratorExit):
            # The units at work may take minutes, and nobody waits for them any more.
            for worker in set(multiprocessing.active_children()) - set(others):
                worker.terminate()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Lets processes that start in it never hear of Ctrl-C, which a terminal sends to all of them.

    They inherit it, so that none is interrupted amid its imports either; the interrupt of this
    process, which stops them, only waits for the end of the context.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _prepare_worker() -> None:
    """Keeps Mesa and OpenMP from starting a thread a core, and ends the process with its parent.

    Where a driver crashes, it says in which call.
    """
    if sys.__stderr__ is not None:
        faulthandler.enable(sys.__stderr__)
    for variable in ("LP_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: BaseProcess) -> None:
    parent.join()  # a parent that is killed stops nobody
    os._exit(1)
