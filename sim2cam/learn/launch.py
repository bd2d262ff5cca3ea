"""Whether torchrun has started this process alone or with others; told without loading torch."""

from __future__ import annotations

import os


def get_world_size() -> int:
    """Return how many processes were started together, on all machines; 1 without torchrun."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def get_local_world_size() -> int:
    """Return how many of them are on this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def get_local_rank() -> int:
    """Return which of those on this machine this one is, from 0."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def is_main_process() -> bool:
    """Return whether this is the one process that writes and talks."""
    return int(os.environ.get("RANK", "0")) == 0
