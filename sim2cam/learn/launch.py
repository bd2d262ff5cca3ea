"""Rank and world size of torchrun, without importing torch."""

from __future__ import annotations

import os


def get_world_size() -> int:
    """Return the number of processes on all machines; 1 without torchrun."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def get_local_world_size() -> int:
    """Return the number of processes on this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def get_local_rank() -> int:
    """Return the rank of this process on this machine, from 0."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def is_main_process() -> bool:
    """Return whether this process has rank 0, which writes files and messages."""
    return int(os.environ.get("RANK", "0")) == 0
