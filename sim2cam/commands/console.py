"""Console output: results on stdout, messages and progress on stderr.

Messages contain names from untrusted files. All text goes through ``write``, which escapes control
characters.
"""

from __future__ import annotations

import io
import sys
from contextlib import AbstractContextManager

from sim2cam.commands.escape import write
from sim2cam.commands.progress import show_progress
from sim2cam.progress import Stages


def escape_unencodable() -> None:
    """Let stdout and stderr escape characters that their encoding lacks, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


class Console:
    """Printer of messages, results and progress.

    Args:
        verbosity: -1 for errors only, 0 for messages, 1 for details.
    """

    def __init__(self, verbosity: int) -> None:
        self._verbosity = verbosity

    def info(self, text: str) -> None:
        """Print a message."""
        if self._verbosity >= 0:
            write(sys.stderr, f"{text}\n")

    def debug(self, text: str) -> None:
        """Print a message with ``-v`` only."""
        if self._verbosity > 0:
            self.info(text)

    def print_result(self, text: str) -> None:
        """Print a result, at once: another program may read line by line."""
        write(sys.stdout, f"{text}\n")
        sys.stdout.flush()

    def show_progress(self, *stages: str) -> AbstractContextManager[Stages]:
        """Return a context that shows the progress of stages, given by their names in order."""
        return show_progress(stages, is_quiet=self._verbosity < 0)
