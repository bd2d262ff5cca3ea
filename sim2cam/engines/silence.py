"""Suppression of output of C libraries, since stdout is reserved for results."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def silent_output() -> Iterator[None]:
    """Discard what C code prints to stdout and stderr."""
    sys.stdout.flush()
    sys.stderr.flush()
    copies = [(fd, os.dup(fd)) for fd in (1, 2)]
    devnull = os.open(os.devnull, os.O_WRONLY)
    try:
        for fd, _ in copies:
            os.dup2(devnull, fd)
        yield
    finally:
        ctypes.CDLL(None).fflush(None)  # C buffers output that is not a terminal
        for fd, copy in copies:
            os.dup2(copy, fd)
            os.close(copy)
        os.close(devnull)
