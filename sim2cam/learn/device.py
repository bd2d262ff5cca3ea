"""Where a network runs, and with how many threads."""

from __future__ import annotations

import ctypes
import functools
import math
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import cv2
import torch

from sim2cam.errors import BackendError, UsageError

_CPU_QUOTA_FILE = Path("/sys/fs/cgroup/cpu.max")
_CPU_STAT_FILE = Path("/proc/stat")
_IDLE_LOAD_CORES = 0.5  # of a core, that a quiet machine uses by itself
_SAMPLING_S = 0.2


def find_device(name: str) -> torch.device:
    """Return the device ``cpu``, ``cuda`` or ``cuda:i``.

    Raises:
        UsageError: another name.
        BackendError: there is no such CUDA device.
    """
    parts = re.fullmatch(r"(cpu|cuda)|cuda:([0-9]+)", name)
    if parts is None:
        raise UsageError(f"--device {name} is not known. Allowed: cpu, cuda, cuda:0, cuda:1, ...")
    if name == "cpu":
        return torch.device("cpu")
    number = int(parts[2] or 0)
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if number >= count:
        raise BackendError(f"--device {name}: this machine shows {count} CUDA devices. Use cpu.")
    return torch.device("cuda", number)


def use_threads(count: int) -> None:
    """Let one operation of torch use this many cores, and OpenCV one beside them.

    Threads that wait for each other burn their cores unless ``OMP_WAIT_POLICY=PASSIVE`` was set
    before torch was loaded: on busy cores a step then takes five times as long.

    Raises:
        UsageError: fewer than one.
    """
    if count < 1:
        raise UsageError(f"--workers must be 1 or more, not {count}")
    torch.set_num_threads(count)
    cv2.setNumThreads(1)


def count_usable_cores() -> float:
    """Return how many cores this process may use: those of its affinity, or its container's share."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        return float(os.cpu_count() or 1)
    try:
        quota, period = _CPU_QUOTA_FILE.read_text().split()
        return min(cores, int(quota) / int(period))
    except (OSError, ValueError):  # no quota: another version of control groups, or "max"
        return float(cores)


def get_memory_bytes() -> float:
    """Return how much memory this machine has; infinite where it does not tell."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError):  # not on POSIX
        return math.inf


def release_memory() -> None:
    """Give what was freed back to the system, where the C library can.

    What threads freed stays with the process otherwise: after a training, most of what its pictures took.
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc
        if trim is not None:
            trim(0)


def describe_oversubscription(threads: int) -> str | None:
    """Return in words that threads will wait for one another, or for others; None where they fit."""
    cores = count_usable_cores()
    if threads > cores:
        return (
            f"{threads} threads on the {cores:g} cores that this process may use wait for one another. "
            f"Give --workers {max(1, int(cores))}."
        )
    busy = _measure_busy_cores()
    if busy + threads > (os.cpu_count() or 1) + _IDLE_LOAD_CORES:
        return (
            f"others keep {busy:.1f} of this machine's {os.cpu_count()} cores busy, for which what runs here "
            "waits. Give fewer --workers, or wait."
        )
    return None


def _measure_busy_cores() -> float:
    """Return how many cores work now, for what does not give way to others; 0 where that is not told."""
    try:
        idle, busy = _read_cpu_ticks()
        time.sleep(_SAMPLING_S)
        idle_then, busy_then = _read_cpu_ticks()
    except (OSError, ValueError):  # not Linux
        return 0.0
    passed = idle_then + busy_then - idle - busy
    return (os.cpu_count() or 1) * (busy_then - busy) / max(passed, 1)


def _read_cpu_ticks() -> tuple[int, int]:
    """Return what all cores together have been idle or given way, and busy, since the start."""
    user, nice, system, idle, wait, *others = map(
        int, _CPU_STAT_FILE.read_text().split("\n")[0].split()[1:9]
    )
    return idle + wait + nice, user + system + sum(others)


def check_torch_compile(device: torch.device) -> None:
    """Compile next to nothing, to see whether torch can.

    Raises:
        BackendError: it cannot, as without a compiler.
    """
    try:
        torch.compile(torch.neg)(torch.ones(8, device=device))
    except RuntimeError as error:
        why = str(error).strip().partition("\n")[0]
        raise BackendError(
            f"torch cannot compile here ({why}). Install a compiler of C++, or set compile = false."
        ) from error


@contextmanager
def explain_out_of_memory() -> Iterator[None]:
    """Say what to do when a GPU's memory is full, or the machine's; also a decorator.

    Raises:
        BackendError: it is.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        said = str(error)
        if isinstance(error, torch.OutOfMemoryError) or any(
            sign in said for sign in _GPU_OOM_SIGNS
        ):
            raise BackendError(
                f"the GPU's memory is full. {_FREE_MEMORY_HINT}; else name --device cpu or, to train, {_REDUCE_MEMORY_HINT}"
            ) from error
        if not isinstance(error, MemoryError) and _CPU_OOM_SIGN not in said:
            raise
        raise BackendError(
            f"this machine's memory is full. {_FREE_MEMORY_HINT}; else give fewer --workers or, to train, {_REDUCE_MEMORY_HINT}"
        ) from error


_CPU_OOM_SIGN = "DefaultCPUAllocator:"  # which torch names in a RuntimeError
_GPU_OOM_SIGNS = (  # where the driver and its libraries find no memory, as when other processes took it
    "CUDA error: out of memory", "CUDNN_STATUS_ALLOC_FAILED", "CUBLAS_STATUS_ALLOC_FAILED",
)  # fmt: skip
_FREE_MEMORY_HINT = (
    "Where others fill it, free it and go on with --resume, which keeps all that is whole"
)
_REDUCE_MEMORY_HINT = (
    "set a smaller batch, more parts of it, or smaller crops or patches in the recipe and train again with "
    "--overwrite."
)


def autocast(device: torch.device, *, on_cpu: bool = False) -> AbstractContextManager[object]:
    """Return a context of bfloat16 on CUDA, and of single precision on the CPU.

    Args:
        device: on which it is computed.
        on_cpu: whether it is bfloat16 on CPUs as well that multiply it themselves.
    """
    is_used = device.type == "cuda" or (on_cpu and _supports_bfloat16())
    return torch.autocast(_get_device_type(device), torch.bfloat16, enabled=is_used)


def disable_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Return a context of single precision, within one of bfloat16 too."""
    return torch.autocast(_get_device_type(device), enabled=False)


def _get_device_type(device: torch.device) -> str:
    return (
        "cuda" if device.type == "cuda" else "cpu"
    )  # of meta, where sizes are told, there is none


@functools.cache
def _supports_bfloat16() -> bool:
    """Return whether this CPU has such instructions, which do twice as much in the same time."""
    if not hasattr(torch.cpu, "get_capabilities"):  # before torch 2.12
        return False
    known = torch.cpu.get_capabilities()
    return bool(known.get("avx512_bf16") or known.get("amx_bf16"))
