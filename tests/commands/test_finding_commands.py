"""Commands that findings recommend are valid."""

import ast
import re
from pathlib import Path

import pytest

import sim2cam
from sim2cam.errors import UsageError
from tests.support.command_lines import parse_command_line

PACKAGE = Path(sim2cam.__file__).parent


def list_command_lines():
    """Return the command lines in all modules that build findings, with 1 for inserted values."""
    lines = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_text()
        if "Finding(" not in source:
            continue
        tree = ast.parse(source)
        parts = {id(v) for n in ast.walk(tree) if isinstance(n, ast.JoinedStr) for v in n.values}
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                text = "".join(v.value if isinstance(v, ast.Constant) else "1" for v in node.values)
            elif isinstance(node, ast.Constant) and id(node) not in parts:
                text = str(node.value).replace("{}", "1")
            else:
                continue
            if re.match("sim2cam [a-z-]+ ", text):
                lines[f"{path.relative_to(PACKAGE)}: {text}"] = text
    return lines


LINES = list_command_lines()


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_recommended_commands_are_valid(line):
    parse_command_line(line)


@pytest.mark.parametrize(
    "file",
    [
        "commands/pages.py", "experiments/verdict.py", "report/calibration.py",
        "report/certificate.py", "report/drift.py",
    ],
)  # fmt: skip
def test_every_verdict_recommends_a_command(file):
    assert any(name.startswith(file) for name in LINES)


def test_a_missing_flag_is_found():
    with pytest.raises(UsageError, match="--data"):
        parse_command_line("sim2cam train RECIPE DATA --out run")
