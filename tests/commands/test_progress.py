"""Progress of commands: bars on a terminal, lines elsewhere, nothing if quiet."""

import io
import sys
import threading
import time

import pytest

from sim2cam.commands import progress
from sim2cam.commands.console import Console
from sim2cam.commands.progress import show_progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_lines_name_stage_count_rate_and_time_left(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_FIRST_LINE_S", 0.05)
    monkeypatch.setattr(progress, "_LINE_INTERVAL_S", 30.0)
    with show_progress(["render", "train"], is_quiet=False) as stages:
        update = stages("train")
        update(10, 40)  # units of an earlier run do not count for the rate
        time.sleep(0.01)
        update(20, 40)
        time.sleep(0.2)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("[2/2] train: 20 of 40, ")
    assert "/s, " in line
    assert line.endswith(" s left")


@pytest.mark.parametrize(
    ("done", "seconds", "line"),
    [
        ((0, 5), 10.0, "score: 5 of 20, 2 s each, 30 s left"),
        ((0, 20), 4.0, "score: 20 of 20, 5/s"),
        ((12, 16), 400.0, "score: 16 of 20, 1e+02 s each, 6 min 40 s left"),
        ((7, 1), 2.0, "score: 1 of 20"),  # a new count
        ((), 3.0, "score: 3 s"),
    ],
)
def test_line_of_a_stage(done, seconds, line, monkeypatch):
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    stage = progress._Stage("score", now)
    for number in done:
        stage.update(number, 20)
    now += seconds
    assert stage.format_line() == line


def test_the_first_losses_are_printed_at_once_and_then_with_every_line(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_FIRST_LINE_S", 30.0)
    with show_progress(["train"], is_quiet=False) as stages:
        update = stages("train")
        update(0, 40)
        assert capsys.readouterr().err == ""
        update(20, 40, detail="heatmap 2.5")
        update(21, 40, detail="heatmap 2.5")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("train: 20 of 40")
    assert line.endswith("left; heatmap 2.5")


def test_bars_of_a_terminal_show_every_stage(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with show_progress(["render", "train"], is_quiet=False) as stages:
        for name in ("render", "train"):
            update = stages(name)
            update(0, 3)
            update(3, 3)
    assert "[1/2] render" in terminal.getvalue()
    assert "[2/2] train" in terminal.getvalue()
    assert "3/3" in terminal.getvalue()


@pytest.mark.parametrize("terminal", [Terminal(), io.StringIO()])
def test_quiet_shows_nothing(terminal, monkeypatch):
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "_FIRST_LINE_S", 0.01)
    with Console(-1).show_progress("render") as stages:
        stages("render")(1, 2)
        time.sleep(0.05)
    assert terminal.getvalue() == ""


def test_thread_ends_with_the_command():
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt), show_progress(["render"], is_quiet=False):
        raise KeyboardInterrupt
    assert threading.active_count() == before
