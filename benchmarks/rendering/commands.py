"""Execution of commands with time, memory and errors."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[1]
"""Working directory of the commands: ``benchmarks``."""

ONE_THREAD = {
    "LP_NUM_THREADS": "1",  # Mesa's software rasterizer
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "OPENCV_FOR_THREADS_NUM": "1",
}
"""Environment variables for one thread, so that CPU time excludes waiting; Blender ignores them."""


@dataclass(frozen=True)
class Run:
    """A finished command.

    Attributes:
        code: exit code.
        wall_s: wall time.
        cpu_s: CPU time of the command and its child processes.
        peak_mb: peak memory of the largest of these processes.
        errors: standard error output.
    """

    code: int
    wall_s: float
    cpu_s: float
    peak_mb: float
    errors: str


def run(command: Sequence[str]) -> Run:
    """Run a command in ``FOLDER`` with the environment ``ONE_THREAD``."""
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
