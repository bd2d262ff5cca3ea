"""What the command line says: results on stdout, talk on stderr, progress only on a terminal."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from typing import Any


class Console:
    """Talks, as much as was asked for.

    Args:
        verbosity: -1 only errors, 0 what is done, 1 details.
    """

    def __init__(self, verbosity: int) -> None:
        self._verbosity = verbosity
        self._live = sys.stderr.isatty() and verbosity >= 0
        self._shown = 0.0

    def say(self, text: str) -> None:
        """Tells a person something."""
        if self._verbosity >= 0:
            self._clear()
            sys.stderr.write(f"{text}\n")

    def detail(self, text: str) -> None:
        """Tells it only when asked for with -v."""
        if self._verbosity > 0:
            self.say(text)

    def result(self, value: Mapping[str, Any]) -> None:
        """Prints a result for a program."""
        sys.stdout.write(json.dumps(value, indent=1) + "\n")

    def table(self, text: str) -> None:
        """Prints a result for a person."""
        sys.stdout.write(f"{text}\n")

    def progress(self, what: str) -> Progress:
        """Returns a counter that shows how far, how fast and how long still."""
        return Progress(self, what)

    def show(self, line: str, *, last: bool) -> None:
        """Replaces the line at the bottom of the terminal."""
        now = time.monotonic()
        if not self._live or (now - self._shown < 0.1 and not last):
            return
        self._shown = now
        self._clear()
        sys.stderr.write(line + ("\n" if last else ""))
        sys.stderr.flush()

    def _clear(self) -> None:
        if self._live:
            sys.stderr.write("\r\x1b[K")


class Progress:
    """Counts units of work; called with done and total."""

    def __init__(self, console: Console, what: str) -> None:
        self._console = console
        self._what = what
        self._start = time.monotonic()
        self._first: int | None = None

    def __call__(self, done: int, total: int) -> None:
        """Shows the state; what was there before the start does not count for the rate."""
        if self._first is None:
            self._first = done
        seconds = time.monotonic() - self._start
        rate = (done - self._first) / seconds if seconds > 0 else 0.0
        left = f", {(total - done) / rate:.0f} s left" if rate > 0 and done < total else ""
        line = f"{self._what}: {done} of {total}, {rate:.2f} a second{left}"
        self._console.show(line, last=done >= total)
