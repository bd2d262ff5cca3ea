"""Whatever names hold, a terminal acts on none of it, and every encoding will do."""

import os
import subprocess
import sys
import warnings

import pytest

from sim2cam.cli import main
from sim2cam.commands.console import Console
from sim2cam.commands.escape import escape_controls
from sim2cam.errors import RepairWarning

HOSTILE = "a\x1b]0;owned\x07\x1b[2J\rb\x9b1m\u202e"
SHOWN = r"a\x1b]0;owned\x07\x1b[2J\rb\x9b1m\u202e"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (HOSTILE, SHOWN),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("Würfel 骰子 🎲 نرد", "Würfel 骰子 🎲 نرد"),
        ("\x00\x7f\u2028\u2066", r"\x00\x7f\u2028\u2066"),
    ],
)
def test_what_a_terminal_acts_on_is_escaped(text, shown):
    assert escape_controls(text) == shown


def test_all_that_is_said_is_escaped(capsys):
    console = Console(1)
    for say in (console.info, console.debug, console.print_result):
        say(HOSTILE)
    out, err = capsys.readouterr()
    assert err.count(SHOWN) == 2
    assert out.count(SHOWN) == 1
    assert not {"\x1b", "\x07", "\x9b"} & {*out, *err}


def test_errors_and_warnings_are_escaped(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    folder = tmp_path / HOSTILE
    folder.mkdir()
    assert main(["bench", "dice", "--captures", str(folder)]) == 1
    err = capsys.readouterr().err
    for category in (RepairWarning, UserWarning):
        err += warnings.formatwarning(f"{folder}: mended", category, "f.py", 1, "")
    assert err.count(SHOWN) == 3
    assert not {"\x1b", "\r"} & {*err}


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_any_encoding_of_the_output_will_do(tmp_path, encoding):
    name = "骰子🎲"
    command = [sys.executable, "-m", "sim2cam", "bench", "dice", "--captures", str(tmp_path / name)]
    env = os.environ | {"PYTHONIOENCODING": encoding}
    found = subprocess.run(command, capture_output=True, check=False, env=env)
    assert found.returncode == 1
    assert found.stderr.decode(encoding).endswith(": no such file or folder. Check the path.\n"), (
        found.stderr.decode(encoding)
    )
    assert (r"\u9ab0" if encoding != "utf-8" else name) in found.stderr.decode(encoding)


@pytest.mark.parametrize(
    "arguments",
    [
        ("bench", "dice", "--captures", "NAME"),
        ("inspect", "NAME"),
        ("check", "NAME"),
        ("export", "NAME", "--format", "coco", "--out", "o"),
        ("assets", "NAME"),
        ("train", "dice", "--data", "NAME", "--out", "o"),
        ("render", "dice", "--out", "NAME", "--count", "1"),
    ],
    ids=" ".join,
)
def test_a_name_that_no_file_can_have_is_no_traceback(arguments, capsys):
    name = "n" * 300
    code = main([name if argument == "NAME" else argument for argument in arguments])
    err = capsys.readouterr().err
    assert code in (1, 2)
    assert err.splitlines()[-1].startswith("sim2cam: ")
    assert "Traceback" not in err
    assert name in err
