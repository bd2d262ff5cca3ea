"""Engines: map work units to results, in this process or in spawned workers, with the same bytes."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, TypeVar

from sim2cam.errors import Sim2CamError

Unit = TypeVar("Unit")
Result = TypeVar("Result")

STALL_S = 600.0
"""Seconds without progress after which a worker counts as hung."""

_MAX_ATTEMPTS = 2  # of a unit whose worker dies or hangs
_GRACE_S = 2.0  # for a worker to end after SIGTERM
_HEARTBEAT_S = 1.0  # least time between two messages about progress
_MAX_SHOWN = 3

_heartbeat_sender: Callable[[], None] | None = None  # of the worker that this process is


def map_units(
    function: Callable[[Unit], Result],
    units: Sequence[Unit],
    workers: int,
    *,
    stall_s: float | None = None,
) -> Iterator[Result]:
    """Yield the result of each unit as it is done, in this process or in spawned workers.

    A unit whose worker dies or hangs is tried once more, by another worker; after a kill, as by a
    system that is out of memory, with one worker less. Units that fail twice are given up: the other
    units are finished first. Interrupted or closed before the end, it stops the workers at once.

    Args:
        function: a function that other processes can import.
        units: its arguments.
        workers: number of processes; 1 stays in this one, without protection.
        stall_s: seconds without a ``beat`` or a result after which a worker is killed as hung; None waits
            for ever.

    Raises:
        Sim2CamError: units were given up; or whatever ``function`` raises.
    """
    if workers == 1 or len(units) <= 1:
        yield from map(function, units)
        return
    pool = _Pool(function, units, min(workers, len(units)), stall_s)
    try:
        yield from pool.iterate_results()
        pool.close()
    finally:
        pool.kill()
    if pool.failures:
        shown = "; ".join(pool.failures[:_MAX_SHOWN])
        raise Sim2CamError(
            f"a worker process died or hung twice on {len(pool.failures)} of {len(units)} work units ({shown}). "
            "What was finished is kept: run again with --resume, perhaps with fewer --workers."
        )


def send_heartbeat() -> None:
    """Report progress within a unit, so that a long unit does not count as hung."""
    if _heartbeat_sender is not None:
        _heartbeat_sender()


@dataclass(eq=False)
class _Worker:
    """A worker process and the unit that it has."""

    process: BaseProcess
    pipe: Connection
    unit: int
    last_progress: float = field(default_factory=time.monotonic)


class _Pool(Generic[Unit, Result]):
    """Workers, each of which has one unit at a time.

    Pipes instead of queues: nothing is shared between workers, so that one that is killed takes no lock
    with it and leaves no semaphore behind.
    """

    def __init__(
        self,
        function: Callable[[Unit], Result],
        units: Sequence[Unit],
        size: int,
        stall_s: float | None,
    ) -> None:
        self._function, self._units, self._stall_s = function, units, stall_s
        self._size = size
        self._pending = deque(range(len(units)))
        self._attempts = [0] * len(units)
        self._busy: list[_Worker] = []
        self._idle: list[_Worker] = []
        self.failures: list[str] = []

    def iterate_results(self) -> Iterator[Result]:
        """Yield results until no unit is left."""
        while self._pending or self._busy:
            while self._pending and len(self._busy) < self._size:
                self._assign(self._pending.popleft())
            ready = wait([worker.pipe for worker in self._busy], self._compute_timeout())
            for worker in [worker for worker in self._busy if worker.pipe in ready]:
                yield from self._receive(worker)
            for worker in [worker for worker in self._busy if self._is_hung(worker)]:
                self._stop_worker(worker)
                self._handle_failure(worker, f"no progress for {self._stall_s:g} s")

    def close(self) -> None:
        """Let idle workers end by themselves."""
        for worker in self._idle:
            worker.pipe.close()
        for worker in self._idle:
            worker.process.join(_GRACE_S)

    def kill(self) -> None:
        """End all workers, also those that are stopped or hang in a driver."""
        workers, self._busy, self._idle = [*self._busy, *self._idle], [], []
        for worker in workers:
            worker.process.terminate()
        until = time.monotonic() + _GRACE_S
        for worker in workers:
            worker.process.join(max(0.0, until - time.monotonic()))
            worker.process.kill()
            worker.process.join()
            worker.pipe.close()

    def _assign(self, unit: int) -> None:
        self._attempts[unit] += 1
        worker = self._idle.pop() if self._idle else self._start()
        worker.unit, worker.last_progress = unit, time.monotonic()
        self._busy.append(worker)
        with suppress(OSError):  # the worker has died; its pipe reports it next
            worker.pipe.send(self._units[unit])

    def _start(self) -> _Worker:
        context = multiprocessing.get_context("spawn")  # OpenGL contexts do not survive a fork
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(self._function, theirs))
        with _block_interrupts():
            process.start()
        theirs.close()  # so that the pipe ends with the worker
        return _Worker(process, ours, -1)

    def _receive(self, worker: _Worker) -> Iterator[Result]:
        """Yield the result that a worker has sent, if it is one."""
        worker.last_progress = time.monotonic()
        try:
            kind, value = worker.pipe.recv()
        except (EOFError, OSError):
            worker.process.join(_GRACE_S)
            code = worker.process.exitcode
            self._stop_worker(worker)
            self._handle_failure(worker, _describe_exit(code), is_memory=code == -signal.SIGKILL)
            return
        if kind == "beat":
            return
        self._busy.remove(worker)
        self._idle.append(worker)
        if kind == "memory":
            self._handle_failure(worker, "memory was full", is_memory=True)
        elif kind == "error":
            raise value
        else:
            yield value

    def _stop_worker(self, worker: _Worker) -> None:
        self._busy.remove(worker)
        worker.process.kill()
        worker.process.join()
        worker.pipe.close()

    def _handle_failure(self, worker: _Worker, cause: str, *, is_memory: bool = False) -> None:
        """Try the unit of a lost worker again, with fewer at a time where memory was full; or give it up."""
        if is_memory:
            self._size = max(1, self._size - 1)
        if self._attempts[worker.unit] < _MAX_ATTEMPTS:
            self._pending.append(worker.unit)
        else:
            self.failures.append(f"unit {worker.unit}: {cause}")

    def _compute_timeout(self) -> float | None:
        """Return for how many seconds no worker can have hung."""
        if self._stall_s is None:
            return None
        first = min(worker.last_progress for worker in self._busy)
        return max(0.0, first + self._stall_s - time.monotonic())

    def _is_hung(self, worker: _Worker) -> bool:
        return (
            self._stall_s is not None and time.monotonic() - worker.last_progress >= self._stall_s
        )


def _describe_exit(code: int | None) -> str:
    if code is None or code >= 0:
        return f"ended with exit code {code}"
    if code == -signal.SIGKILL:
        return "killed, perhaps because memory was full"
    return f"ended by {signal.Signals(-code).name}"


def _serve(function: Callable[[Any], Any], pipe: Connection) -> None:
    """Run units that arrive through a pipe until it is closed."""
    _prepare_worker(pipe)
    with suppress(EOFError, BrokenPipeError):
        while True:
            unit = pipe.recv()
            try:
                pipe.send(("result", function(unit)))
            except BrokenPipeError:
                return
            except MemoryError:
                pipe.send(("memory", None))
            except Sim2CamError as error:
                pipe.send(("error", error))
            except Exception:  # noqa: BLE001 - raised again in the parent, where its class may be unknown
                pipe.send(
                    ("error", RuntimeError(f"in a worker process:\n{traceback.format_exc()}"))
                )


@contextmanager
def _block_interrupts() -> Iterator[None]:
    """Let processes that start in it never receive Ctrl-C, which a terminal sends to all of them.

    They inherit the mask, so that none is interrupted amid its imports either; the interrupt of this
    process, which stops them, waits for the end of the context.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _prepare_worker(pipe: Connection) -> None:
    """Prepare a worker: one thread for Mesa and OpenMP, an end with its parent, and progress reports.

    A driver that crashes prints in which call.
    """
    global _heartbeat_sender  # noqa: PLW0603 - one worker is one process
    if sys.__stderr__ is not None:
        faulthandler.enable(sys.__stderr__)
    for variable in ("LP_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_exit_with_parent, args=(parent,), daemon=True).start()
    last = 0.0

    def send_throttled() -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _HEARTBEAT_S:
            last = now
            pipe.send(("beat", None))

    _heartbeat_sender = send_throttled


def _exit_with_parent(parent: BaseProcess) -> None:
    parent.join()  # a parent that is killed stops nobody
    os._exit(1)
