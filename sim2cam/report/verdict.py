"""Verdict of a page: conclusions in words and what to do next."""

from __future__ import annotations

import shlex
from dataclasses import dataclass


@dataclass(frozen=True)
class NextStep:
    """What to do next, with a command or a line of a recipe; an empty command shows none."""

    text: str
    command: str = ""


@dataclass(frozen=True)
class Verdict:
    """First section of a page.

    Attributes:
        headline: Conclusion in one sentence.
        details: Further sentences.
        next_steps: What to do next, the most important first.
    """

    headline: str
    details: tuple[str, ...] = ()
    next_steps: tuple[NextStep, ...] = ()


def format_command(*words: object) -> str:
    """Return a shell command, with paths quoted where needed."""
    return shlex.join(["sim2cam", *map(str, words)])
