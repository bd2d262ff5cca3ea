"""Help pages: one screen each, in words that a user understands."""

import re

import pytest

from sim2cam.cli import _COMMANDS, main
from sim2cam.commands.parser import build_parser
from sim2cam.commands.results import iterate_options

LINES, COLUMNS = 40, 80
INTERNAL = re.compile(r"\{None\}|<class|PosixPath|lambda|\bNone\b|\bTrue\b|\bFalse\b|``|MISSING")


def read_help(capsys, *arguments):
    assert main([*arguments]) == 0
    return capsys.readouterr().out


def test_overview_lists_every_command_on_one_screen(capsys):
    lines = read_help(capsys, "--help").splitlines()
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= COLUMNS
    for group in ("Start", "Data", "Camera", "Adapt", "Train", "Evaluate", "Explain"):
        assert sum(line.startswith(group) for line in lines) == 1
    for name in _COMMANDS:
        assert sum(line[10:].startswith(f"{name} ") for line in lines) == 1


def test_overview_of_a_family_lists_its_commands_only(capsys):
    rows = [line for line in read_help(capsys, "adapt", "--help").splitlines() if "   " in line]
    assert [line.split()[:3] for line in rows] == [
        ["Adapt", "adapt", "train"],
        ["adapt", "apply", "Translate"],
    ]


@pytest.mark.parametrize("name", _COMMANDS)
def test_help_is_one_screen_without_internals(name, capsys):
    page = read_help(capsys, *name.split(), "--help")
    full = read_help(capsys, *name.split(), "--help-all")
    for text in (page, full):
        assert not INTERNAL.search(text)
        assert max(map(len, text.splitlines())) <= COLUMNS
    lines = page.splitlines()
    assert len(lines) <= LINES
    has_more = "more options:" in full
    assert (lines[-1] == f"More options: sim2cam {name} --help-all") == has_more


@pytest.mark.parametrize("name", _COMMANDS)
def test_full_help_explains_every_option(name, capsys):
    full = " ".join(read_help(capsys, *name.split(), "--help-all").split())
    actions = build_parser(_COMMANDS[name], name)._actions
    assert {action.dest for action in actions} == {
        field.name for _, field in iterate_options(_COMMANDS[name])
    }
    for action in actions:
        assert action.help, action.dest
        assert all(flag in full for flag in action.option_strings)
        assert not any(flag.startswith("--no-") for flag in action.option_strings)


def test_options_may_stand_between_and_before_arguments(tmp_path, capsys):
    (tmp_path / "a").mkdir()
    out = str(tmp_path / "coco")
    for arguments in (["--out", out, "a", "b"], ["a", "--out", out, "b"]):
        assert main(["export", *arguments]) == 1
        assert "a: no such file" in capsys.readouterr().err
