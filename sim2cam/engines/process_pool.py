"""Pool of spawned worker processes, robust to crashes and hangs."""

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
"""Default time without progress in seconds after which a worker counts as hung."""

_MAX_ATTEMPTS = 2  # per unit
_GRACE_S = 2.0  # after SIGTERM
_HEARTBEAT_S = 1.0  # minimum interval of heartbeats
_MAX_SHOWN = 3  # failures in an error
_START_FAILURE = (
    "a worker process ended before its first work unit; its error is printed above. Worker processes import the "
    'script that starts them: call sim2cam in it under if __name__ == "__main__":, or with workers=1.'
)

_heartbeat_sender: Callable[[int | None], None] | None = None  # set while a unit runs


def map_units(
    function: Callable[[Unit], Result],
    units: Sequence[Unit],
    workers: int,
    *,
    stall_s: float | None = None,
    on_items: Callable[[int], None] = lambda _: None,
) -> Iterator[Result]:
    """Yield results of work units in order of completion.

    A unit whose worker dies or hangs is retried once by another worker. After SIGKILL or a memory
    error, the pool is reduced by one worker. Units that fail twice are reported after all other units
    have finished. Closing the iterator stops the workers.

    Args:
        function: Picklable function that processes one unit.
        units: Picklable work units.
        workers: Number of processes; 1 runs in this process, without retries.
        stall_s: Time in seconds without heartbeat or result after which a worker is killed; None
            waits indefinitely.
        on_items: Called with the number of finished items, such as images, of the units that are not
            finished yet: after each item that ``send_heartbeat`` reports, and after each result.

    Raises:
        Sim2CamError: If units failed twice, or if a worker ends before its first unit, as in a script that
            starts workers whenever it is imported. Errors of ``function`` are raised as they are.
    """
    if workers == 1 or len(units) <= 1:
        for unit in units:
            with _count_items(on_items):
                result = function(unit)
            yield result
            on_items(0)
        return
    pool = _Pool(function, units, min(workers, len(units)), stall_s, on_items)
    try:
        yield from pool.iterate_results()
        pool.close()
    finally:
        pool.kill()
    if pool.failures:
        shown = "; ".join(pool.failures[:_MAX_SHOWN])
        raise Sim2CamError(
            f"a worker process died or hung twice on {len(pool.failures)} of {len(units)} work units ({shown}). "
            "Finished units are kept. Run again with --resume, and fewer --workers if memory is short."
        )


def send_heartbeat(items: int | None = None) -> None:
    """Report progress within a unit, so that its worker does not count as hung.

    Args:
        items: Number of finished items of the unit so far; None if it is unchanged.
    """
    if _heartbeat_sender is not None:
        _heartbeat_sender(items)


@contextmanager
def _count_items(on_items: Callable[[int], None]) -> Iterator[None]:
    """Count the items of a unit that runs in this process, which may be a worker itself."""
    global _heartbeat_sender  # noqa: PLW0603 - one unit at a time per process
    outer = _heartbeat_sender

    def send(items: int | None) -> None:
        if outer is not None:
            outer(None)
        if items is not None:
            on_items(items)

    _heartbeat_sender = send
    try:
        yield
    finally:
        _heartbeat_sender = outer


@dataclass(eq=False)
class _Worker:
    process: BaseProcess
    pipe: Connection
    unit: int
    has_started: bool = False
    items: int = 0
    last_progress: float = field(default_factory=time.monotonic)


class _Pool(Generic[Unit, Result]):
    """Pool of workers with one unit each.

    Uses one pipe per worker instead of queues, so that a killed worker holds no shared lock and leaks
    no semaphore.
    """

    def __init__(
        self,
        function: Callable[[Unit], Result],
        units: Sequence[Unit],
        size: int,
        stall_s: float | None,
        on_items: Callable[[int], None],
    ) -> None:
        self._function, self._units, self._stall_s = function, units, stall_s
        self._on_items = on_items
        self._size = size
        self._pending = deque(range(len(units)))
        self._attempts = [0] * len(units)
        self._busy: list[_Worker] = []
        self._idle: list[_Worker] = []
        self.failures: list[str] = []

    def iterate_results(self) -> Iterator[Result]:
        """Yield results until all units are done."""
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
        """Let idle workers exit."""
        for worker in self._idle:
            worker.pipe.close()
        for worker in self._idle:
            worker.process.join(_GRACE_S)

    def kill(self) -> None:
        """Kill all workers, also stopped ones and those that hang in a driver."""
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
        worker.unit, worker.items, worker.last_progress = unit, 0, time.monotonic()
        self._busy.append(worker)
        with suppress(OSError):  # a dead worker is detected by its pipe
            worker.pipe.send(self._units[unit])

    def _start(self) -> _Worker:
        context = multiprocessing.get_context("spawn")  # OpenGL contexts do not survive a fork
        pipe, worker_pipe = context.Pipe()
        process = context.Process(target=_serve, args=(self._function, worker_pipe))
        with _block_interrupts():
            process.start()
        worker_pipe.close()  # only the worker holds it: its death closes the pipe
        return _Worker(process, pipe, -1)

    def _receive(self, worker: _Worker) -> Iterator[Result]:
        """Handle a message of a worker, and yield its result if it contains one."""
        worker.last_progress = time.monotonic()
        try:
            kind, value = worker.pipe.recv()
        except (EOFError, OSError):
            worker.process.join(_GRACE_S)
            code = worker.process.exitcode
            self._stop_worker(worker)
            if not worker.has_started and code is not None and code >= 0:
                raise Sim2CamError(_START_FAILURE) from None
            self._handle_failure(worker, _describe_exit(code), is_memory=code == -signal.SIGKILL)
            return
        worker.has_started = True
        if kind == "started":
            return
        if kind == "beat":
            if value is not None:
                worker.items = value
                self._count_items()
            return
        self._busy.remove(worker)
        self._idle.append(worker)
        if kind == "memory":
            self._handle_failure(worker, "memory was full", is_memory=True)
        elif kind == "error":
            raise value
        else:
            yield value
            self._count_items()

    def _count_items(self) -> None:
        self._on_items(sum(worker.items for worker in self._busy))

    def _stop_worker(self, worker: _Worker) -> None:
        self._busy.remove(worker)
        worker.process.kill()
        worker.process.join()
        worker.pipe.close()

    def _handle_failure(self, worker: _Worker, cause: str, *, is_memory: bool = False) -> None:
        """Retry the unit of a failed worker, with fewer workers if memory was full, or give it up."""
        if is_memory:
            self._size = max(1, self._size - 1)
        if self._attempts[worker.unit] < _MAX_ATTEMPTS:
            self._pending.append(worker.unit)
        else:
            self.failures.append(f"unit {worker.unit}: {cause}")

    def _compute_timeout(self) -> float | None:
        """Return the time in seconds until the first worker can count as hung."""
        if self._stall_s is None:
            return None
        oldest = min(worker.last_progress for worker in self._busy)
        return max(0.0, oldest + self._stall_s - time.monotonic())

    def _is_hung(self, worker: _Worker) -> bool:
        return (
            self._stall_s is not None and time.monotonic() - worker.last_progress >= self._stall_s
        )


def _describe_exit(code: int | None) -> str:
    if code is None or code >= 0:
        return f"ended with exit code {code}"
    if code == -signal.SIGKILL:
        return "killed, possibly for lack of memory"
    return f"ended by {signal.Signals(-code).name}"


def _serve(function: Callable[[Any], Any], pipe: Connection) -> None:
    """Run units received through a pipe until it is closed."""
    _prepare_worker(pipe)
    with suppress(EOFError, BrokenPipeError):
        pipe.send(("started", None))
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
            except Exception:  # noqa: BLE001 - raised in the parent, which may lack its class
                pipe.send(
                    ("error", RuntimeError(f"in a worker process:\n{traceback.format_exc()}"))
                )


@contextmanager
def _block_interrupts() -> Iterator[None]:
    """Block SIGINT for processes that start in this context.

    Children inherit the signal mask, so Ctrl-C reaches only this process, which stops them.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)


def _prepare_worker(pipe: Connection) -> None:
    """Limit Mesa and OpenMP to one thread, exit with the parent, and enable heartbeats."""
    global _heartbeat_sender  # noqa: PLW0603 - one worker per process
    if sys.__stderr__ is not None:
        faulthandler.enable(sys.__stderr__)
    for variable in ("LP_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_exit_with_parent, args=(parent,), daemon=True).start()
    last = 0.0

    def send_throttled(items: int | None) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _HEARTBEAT_S:
            last = now
            pipe.send(("beat", items))

    _heartbeat_sender = send_throttled


def _exit_with_parent(parent: BaseProcess) -> None:
    parent.join()  # a killed parent does not stop its children
    os._exit(1)
