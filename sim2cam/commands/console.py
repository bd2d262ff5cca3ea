"""Console output: results on stdout, messages on stderr, progress only on a terminal.

Messages contain names from untrusted files. All text goes through ``write``, which escapes control
characters.
"""

from __future__ import annotations

import io
import re
import sys
import time
from typing import TextIO

_CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Control characters except tab and line feed, line separators, and bidirectional controls."""


def escape_controls(text: str) -> str:
    r"""Escape control characters as ``\x1b``, except tabs and line feeds."""
    return _CONTROL_CHARACTERS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def write(stream: TextIO, text: str) -> None:
    """Write text to a stream with control characters escaped."""
    stream.write(escape_controls(text))


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
        self._is_terminal = sys.stderr.isatty() and verbosity >= 0
        self._last_update_s = 0.0

    def info(self, text: str) -> None:
        """Print a message."""
        if self._verbosity >= 0:
            self._clear()
            write(sys.stderr, f"{text}\n")

    def debug(self, text: str) -> None:
        """Print a message with ``-v`` only."""
        if self._verbosity > 0:
            self.info(text)

    def print_result(self, text: str) -> None:
        """Print a result, at once: another program may read line by line."""
        write(sys.stdout, f"{text}\n")
        sys.stdout.flush()

    def start_progress(self, label: str) -> Progress:
        """Return a progress line with rate and remaining time."""
        return Progress(self, label)

    def update_status_line(self, line: str, *, is_last: bool) -> None:
        """Replace the status line of the terminal, at most ten times a second."""
        now = time.monotonic()
        if not self._is_terminal or (now - self._last_update_s < 0.1 and not is_last):
            return
        self._last_update_s = now
        self._clear()
        write(sys.stderr, line + ("\n" if is_last else ""))
        sys.stderr.flush()

    def _clear(self) -> None:
        if self._is_terminal:
            sys.stderr.write("\r\x1b[K")


class Progress:
    """Progress line, called with the number of finished units and the total."""

    def __init__(self, console: Console, label: str) -> None:
        self._console = console
        self._label = label
        self._start_s = time.monotonic()
        self._first_done: int | None = None

    def __call__(self, done: int, total: int) -> None:
        """Show the progress; units finished before the first call do not count for the rate."""
        if self._first_done is None:
            self._first_done = done
        seconds = time.monotonic() - self._start_s
        rate = (done - self._first_done) / seconds if seconds > 0 else 0.0
        left = f", {(total - done) / rate:.0f} s left" if rate > 0 and done < total else ""
        line = f"{self._label}: {done} of {total}, {rate:.2f} a second{left}"
        self._console.update_status_line(line, is_last=done >= total)
