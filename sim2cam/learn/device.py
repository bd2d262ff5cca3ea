"""Devices, threads, memory and mixed precision."""

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
_IDLE_LOAD_CORES = 0.5  # background load of an idle machine
_SAMPLING_S = 0.2


def find_device(name: str) -> torch.device:
    """Return the device ``cpu``, ``cuda`` or ``cuda:i``.

    Raises:
        UsageError: If the name is invalid.
        BackendError: If the CUDA device does not exist.
    """
    parts = re.fullmatch(r"(cpu|cuda)|cuda:([0-9]+)", name)
    if parts is None:
        raise UsageError(f"--device {name} is unknown. Allowed: cpu, cuda, cuda:0, cuda:1, ...")
    if name == "cpu":
        return torch.device("cpu")
    number = int(parts[2] or 0)
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if number >= count:
        others = ", ".join(("cpu", *(f"cuda:{other}" for other in range(count))))
        raise BackendError(f"--device {name}: this machine has {count} CUDA devices. Use {others}.")
    return torch.device("cuda", number)


def use_threads(count: int) -> None:
    """Set the number of threads of torch; OpenCV uses one.

    Waiting threads spin unless ``OMP_WAIT_POLICY=PASSIVE`` was set before torch was imported, which
    makes steps up to five times slower on busy cores.

    Raises:
        UsageError: If the count is less than one.
    """
    if count < 1:
        raise UsageError(f"--workers must be 1 or more, not {count}")
    torch.set_num_threads(count)
    cv2.setNumThreads(1)


def count_usable_cores() -> float:
    """Return the number of cores that affinity and cgroup quota allow."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        return float(os.cpu_count() or 1)
    try:
        quota, period = _CPU_QUOTA_FILE.read_text().split()
        return min(cores, int(quota) / int(period))
    except (OSError, ValueError):  # no cgroup v2, or quota "max"
        return float(cores)


def get_memory_bytes() -> float:
    """Return the physical memory in bytes; infinite if unknown."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError):  # not on POSIX
        return math.inf


def release_memory() -> None:
    """Return freed memory to the operating system (glibc only).

    Otherwise memory freed by threads, such as the images of a training, stays with the process.
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def describe_oversubscription(threads: int) -> str | None:
    """Return a warning if threads exceed the free cores; None otherwise."""
    cores = count_usable_cores()
    if threads > cores:
        return (
            f"{threads} threads exceed the {cores:g} cores that this process may use. "
            f"Use --workers {max(1, int(cores))}."
        )
    busy = _measure_busy_cores()
    if busy + threads > (os.cpu_count() or 1) + _IDLE_LOAD_CORES:
        return (
            f"other processes use {busy:.1f} of the {os.cpu_count()} cores of this machine. Use fewer "
            "--workers, or wait."
        )
    return None


def _measure_busy_cores() -> float:
    """Return the number of busy cores, without niced processes; 0 if unknown."""
    try:
        idle, busy = _read_cpu_ticks()
        time.sleep(_SAMPLING_S)
        idle_after, busy_after = _read_cpu_ticks()
    except (OSError, ValueError):  # not Linux
        return 0.0
    elapsed = idle_after + busy_after - idle - busy
    return (os.cpu_count() or 1) * (busy_after - busy) / max(elapsed, 1)


def _read_cpu_ticks() -> tuple[int, int]:
    """Return idle (with niced) and busy ticks of all cores since boot."""
    user, nice, system, idle, wait, *others = map(
        int, _CPU_STAT_FILE.read_text().split("\n")[0].split()[1:9]
    )
    return idle + wait + nice, user + system + sum(others)


def check_torch_compile(device: torch.device) -> None:
    """Compile a trivial function.

    Raises:
        BackendError: If ``torch.compile`` fails, for example without a C++ compiler.
    """
    try:
        torch.compile(torch.neg)(torch.ones(8, device=device))
    except RuntimeError as error:
        reason = str(error).strip().partition("\n")[0]
        raise BackendError(
            f"torch.compile fails ({reason}). Install a C++ compiler, or set compile = false."
        ) from error


@contextmanager
def explain_out_of_memory() -> Iterator[None]:
    """Convert out-of-memory errors of CPU and GPU to BackendError with a remedy; also a decorator."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        message = str(error)
        if isinstance(error, torch.OutOfMemoryError) or any(
            sign in message for sign in _GPU_OOM_SIGNS
        ):
            raise BackendError(
                f"GPU memory is full. {_FREE_MEMORY_HINT} Otherwise use --device cpu or, for training, {_REDUCE_MEMORY_HINT}"
            ) from error
        if not isinstance(error, MemoryError) and _CPU_OOM_SIGN not in message:
            raise
        raise BackendError(
            f"memory is full. {_FREE_MEMORY_HINT} Otherwise use fewer --workers or, for training, {_REDUCE_MEMORY_HINT}"
        ) from error


_CPU_OOM_SIGN = "DefaultCPUAllocator:"  # in a RuntimeError of torch
_GPU_OOM_SIGNS = (  # in errors of the CUDA driver and libraries
    "CUDA error: out of memory", "CUDNN_STATUS_ALLOC_FAILED", "CUBLAS_STATUS_ALLOC_FAILED",
)  # fmt: skip
_FREE_MEMORY_HINT = (
    "If other processes use it, free it and run again with --resume, which keeps finished work."
)
_REDUCE_MEMORY_HINT = (
    "set a smaller batch, more batch parts, or smaller crops or patches in the recipe and train again "
    "with --overwrite."
)


def autocast(device: torch.device, *, on_cpu: bool = False) -> AbstractContextManager[object]:
    """Return a context of bfloat16 on CUDA and of single precision on the CPU.

    Args:
        device: Device of the computation.
        on_cpu: Use bfloat16 also on CPUs with native support.
    """
    is_used = device.type == "cuda" or (on_cpu and _supports_bfloat16())
    return torch.autocast(_get_device_type(device), torch.bfloat16, enabled=is_used)


def disable_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Return a context of single precision, also within a bfloat16 context."""
    return torch.autocast(_get_device_type(device), enabled=False)


def _get_device_type(device: torch.device) -> str:
    return "cuda" if device.type == "cuda" else "cpu"  # autocast does not support meta


@functools.cache
def _supports_bfloat16() -> bool:
    """Return whether this CPU has bfloat16 instructions, which double the throughput."""
    if not hasattr(torch.cpu, "get_capabilities"):  # before torch 2.12
        return False
    capabilities = torch.cpu.get_capabilities()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))
