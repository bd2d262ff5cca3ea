"""Text on a terminal: control characters of untrusted names are escaped."""

from __future__ import annotations

import re
from typing import TextIO

_CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Control characters except tab and line feed, line separators, and bidirectional controls."""


def escape_controls(text: str) -> str:
    r"""Escape control characters as ``\x1b``, except tabs and line feeds."""
    return _CONTROL_CHARACTERS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def write(stream: TextIO, text: str) -> None:
    """Write text to a stream with control characters escaped."""
    stream.write(escape_controls(text))
