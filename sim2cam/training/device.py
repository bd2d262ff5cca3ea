"""Where a network runs, and with how many threads."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager

import cv2
import torch

from sim2cam.errors import BackendError, UsageError


def find_device(name: str) -> torch.device:
    """Returns the device ``cpu``, ``cuda`` or ``cuda:i``.

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
    """Lets one operation of torch use this many cores, and OpenCV one beside them.

    Threads that wait for each other burn their cores unless ``OMP_WAIT_POLICY=PASSIVE`` was set
    before torch was loaded: on busy cores a step then takes five times as long.

    Raises:
        UsageError: fewer than one.
    """
    if count < 1:
        raise UsageError(f"--workers must be 1 or more, not {count}")
    torch.set_num_threads(count)
    cv2.setNumThreads(1)


def autocast(device: torch.device) -> AbstractContextManager[object]:
    """Returns a context of bfloat16 on CUDA; on the CPU it changes nothing."""
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")
