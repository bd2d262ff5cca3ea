"""Progress display of commands: bars on a terminal, else a line every 30 seconds."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sim2cam.commands.escape import escape_controls, write
from sim2cam.progress import Progress, Stages, ignore_progress

if TYPE_CHECKING:
    from rich import progress as rich_progress

_FIRST_LINE_S = 10.0
_LINE_INTERVAL_S = 30.0


@contextmanager
def show_progress(names: Sequence[str], *, is_quiet: bool) -> Iterator[Stages]:
    """Show the stages of a command on stderr until the context ends.

    Args:
        names: Names of all stages, in order.
        is_quiet: Show nothing.
    """
    if is_quiet:
        yield lambda _: ignore_progress
    elif sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        with _open_bars() as bars:
            yield _BarStages(names, bars)
    else:
        stages = _LineStages(names)
        stop = threading.Event()
        thread = threading.Thread(target=stages.print_lines, args=(stop,), daemon=True)
        thread.start()
        try:
            yield stages
        finally:
            stop.set()
            thread.join()


@dataclass
class _Stage:
    """Stage of a command; its rate counts only units finished after the first call."""

    title: str
    start_s: float
    first: int | None = None
    done: int = 0
    total: int = 0
    detail: str = ""

    def update(self, done: int, total: int, /, detail: str = "") -> None:
        if self.first is None or done < self.done:  # a new count, such as of a second dataset
            self.first, self.start_s = done, time.monotonic()
        self.done, self.total, self.detail = done, total, detail

    def format_line(self) -> str:
        if self.first is None:
            return f"{self.title}: {time.monotonic() - self.start_s:.0f} s"
        seconds = time.monotonic() - self.start_s
        rate = (self.done - self.first) / seconds if seconds else 0.0
        total = f" of {self.total}" if self.total else ""
        line = f"{self.title}: {self.done}{total}"
        line += f", {_format_rate(rate)}" if rate else ""
        if rate and self.done < self.total:
            line += f", {_format_seconds((self.total - self.done) / rate)} left"
        return f"{line}; {self.detail}" if self.detail else line


class _LineStages:
    """Printer of lines about the current stage."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._stage: _Stage | None = None

    def __call__(self, name: str) -> Progress:
        self._stage = stage = _Stage(_format_title(self._names, name), time.monotonic())

        def update(done: int, total: int, /, detail: str = "") -> None:
            is_first_detail = bool(detail) and not stage.detail
            stage.update(done, total, detail)
            if is_first_detail:
                _print_line(stage)

        return update

    def print_lines(self, stop: threading.Event) -> None:
        """Print a line after a few seconds and then every 30 seconds, until ``stop`` is set.

        The first line with details is printed at once.
        """
        interval_s = _FIRST_LINE_S
        while not stop.wait(interval_s):
            interval_s = _LINE_INTERVAL_S
            if self._stage is not None:
                _print_line(self._stage)


class _BarStages:
    """One bar for each stage that was started."""

    def __init__(self, names: Sequence[str], bars: rich_progress.Progress) -> None:
        self._names, self._bars = names, bars

    def __call__(self, name: str) -> Progress:
        title = escape_controls(_format_title(self._names, name))
        task = self._bars.add_task(title, total=None)

        def update(done: int, total: int, /, detail: str = "") -> None:
            text = f"{title}; {escape_controls(detail)}" if detail else title
            self._bars.update(task, description=text, completed=done, total=total or None)

        return update


def _open_bars() -> rich_progress.Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class RateColumn(ProgressColumn):
        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text(_format_rate(speed) if speed else "")

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        RateColumn(),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=Console(stderr=True),
        redirect_stdout=False,  # stdout is for results
        refresh_per_second=4,
    )


def _print_line(stage: _Stage) -> None:
    write(sys.stderr, f"{stage.format_line()}\n")
    sys.stderr.flush()


def _format_title(names: Sequence[str], name: str) -> str:
    """Return the name of a stage, with its number if there are several."""
    return name if len(names) < 2 else f"[{names.index(name) + 1}/{len(names)}] {name}"


def _format_rate(per_second: float) -> str:
    return f"{per_second:.2g}/s" if per_second >= 1 else f"{1 / per_second:.2g} s each"


def _format_seconds(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
