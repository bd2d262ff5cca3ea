"""The page of regression scenes that moved: what was kept, what is seen now, and the difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sim2cam.report.page import data_uri, shrunk_jpeg, write_page
from sim2cam.report.values import Rgb

PICTURE_PX = 480
_AMPLIFIED = 4


@dataclass(frozen=True, eq=False)
class MovedScene:
    """A scene that is not what it was.

    Attributes:
        name: of the case.
        moved: what is further off than it may be, in words.
        expected, found: both pictures (h, w, 3).
        note: why it is kept.
    """

    name: str
    moved: tuple[str, ...]
    expected: Rgb
    found: Rgb
    note: str


def write_regression_page(scenes: Sequence[MovedScene], checked: int, out: Path) -> Path:
    """Writes a page of the scenes that moved and returns its path.

    Args:
        scenes: that moved.
        checked: how many were rendered again.
        out: the HTML file.

    Raises:
        OutputError: the file cannot be written.
    """
    shown = [(scene, _pictures(scene)) for scene in scenes]
    return write_page(out, "regression.html", shown=shown, checked=checked, amplified=_AMPLIFIED)


def _pictures(scene: MovedScene) -> dict[str, str]:
    difference = np.abs(scene.expected.astype(np.int16) - scene.found) * _AMPLIFIED
    pictures = {
        "kept": scene.expected,
        "now": scene.found,
        "difference": np.minimum(difference, 255).astype(np.uint8),
    }
    return {name: data_uri(shrunk_jpeg(rgb, PICTURE_PX)) for name, rgb in pictures.items()}
