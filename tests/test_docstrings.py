"""Docstrings name what exists: every Args name a parameter, every Attributes name a field."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("sim2cam", "render", "randomize", "adapt", "models", "benchmarks")
SOURCES = sorted(
    path
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*.py")
    if not any(parent.is_symlink() for parent in path.parents)
)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def section(docstring: str, title: str) -> list[str]:
    """Returns the names that a section of a docstring explains."""
    found = re.search(rf"^{title}:\n((?:[ ]+.*\n|\n)*)", docstring + "\n", re.M)
    lines = found.group(1).splitlines() if found else []
    heads = [re.match(r"    (\S.*?):(?: |$)", line) for line in lines]
    return [name.strip(" *") for head in heads if head for name in head.group(1).split(",")]


def parameters(function: Function) -> set[str]:
    named = function.args
    every = [*named.posonlyargs, *named.args, *named.kwonlyargs, named.vararg, named.kwarg]
    return {argument.arg for argument in every if argument}


def fields(cls: ast.ClassDef) -> set[str]:
    names = {
        node.target.id
        for node in cls.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    names |= {node.name for node in cls.body if isinstance(node, Function)}
    stores = (n for n in ast.walk(cls) if isinstance(n, ast.Attribute))
    return names | {n.attr for n in stores if isinstance(n.ctx, ast.Store)}


def wrong_names(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, Function):
            for name in section(ast.get_docstring(node) or "", "Args"):
                if name not in parameters(node):
                    yield f"{node.name} has no parameter {name}"
        if isinstance(node, ast.ClassDef):
            text = ast.get_docstring(node) or ""
            for name in section(text, "Attributes"):
                if name not in fields(node):
                    yield f"{node.name} has no field {name}"
            inits = [n for n in node.body if isinstance(n, Function) and n.name == "__init__"]
            allowed = set().union(fields(node), *(parameters(init) for init in inits))
            for name in section(text, "Args"):
                if name not in allowed:
                    yield f"{node.name} takes no {name}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_docstrings_name_what_exists(path):
    assert list(wrong_names(path.read_text(encoding="utf-8"))) == []


def test_the_sources_are_found():
    names = {str(path.relative_to(ROOT)) for path in SOURCES}
    assert {"sim2cam/seeds.py", "render/__init__.py", "models/__init__.py"} <= names
    assert not any(name.startswith("sim2cam/render") for name in names)


BAD = '''
def f(a, *, b):
    """Returns it.

    Args:
        a: one.
            c: not a name, but a second line.
        b, d: two.

    Raises:
        ValueError: never.
    """

class C:
    """A thing.

    Attributes:
        x: one.
        y: two, which is
            long.
    """

    x: int
'''


def test_a_wrong_name_is_found():
    assert list(wrong_names(BAD)) == ["f has no parameter d", "C has no field y"]
