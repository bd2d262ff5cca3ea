"""Running commands: how long they took, what they used, how they failed."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[1]
"""Where commands run: ``benchmarks``."""

ONE_THREAD = {
    "LP_NUM_THREADS": "1",  # Mesa's software rasterizer
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "OPENCV_FOR_THREADS_NUM": "1",
}
"""Environment in which CPU time is work, not waiting; Blender is not bound by it."""


@dataclass(frozen=True)
class Run:
    """A command that ended.

    Attributes:
        code: it exited with.
        wall_s: on the clock.
        cpu_s: of the command and everything that it started and waited for.
        peak_mb: memory of the largest of these processes.
        errors: what it wrote on standard error.
    """

    code: int
    wall_s: float
    cpu_s: float
    peak_mb: float
    errors: str


def run(command: Sequence[str]) -> Run:
    """Return how a command ended that ran in ``FOLDER``, in the environment of ``ONE_THREAD``."""
    with tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        process = subprocess.Popen(
            command,
            cwd=FOLDER,
            env={**os.environ, **ONE_THREAD},
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        _, status, used = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        text = errors.read().decode(errors="replace")
    cpu_s = used.ru_utime + used.ru_stime
    return Run(process.returncode, wall_s, cpu_s, used.ru_maxrss * 1024 / 1e6, text)
