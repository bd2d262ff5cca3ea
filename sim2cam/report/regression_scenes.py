"""The page of regression scenes that moved: what was kept, what is seen now, and the difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sim2cam.report.page import encode_data_uri, encode_thumbnail, write_page
from sim2cam.report.values import Rgb

IMAGE_PX = 480
_DIFFERENCE_GAIN = 4


@dataclass(frozen=True, eq=False)
class ChangedScene:
    """A scene that is not what it was.

    Attributes:
        name: of the case.
        differences: what is further off than it may be, in words.
        expected, actual: both pictures (h, w, 3).
        note: why it is kept.
    """

    name: str
    differences: tuple[str, ...]
    expected: Rgb
    actual: Rgb
    note: str


def write_regression_page(scenes: Sequence[ChangedScene], checked_count: int, out: Path) -> Path:
    """Write a page of the scenes that moved and returns its path.

    Args:
        scenes: that moved.
        checked_count: how many were rendered again.
        out: the HTML file.

    Raises:
        OutputError: the file cannot be written.
    """
    return write_page(
        out,
        "regression_scenes.html",
        scenes=[(scene, _encode_images(scene)) for scene in scenes],
        checked_count=checked_count,
        difference_gain=_DIFFERENCE_GAIN,
    )


def _encode_images(scene: ChangedScene) -> dict[str, str]:
    difference = np.abs(scene.expected.astype(np.int16) - scene.actual) * _DIFFERENCE_GAIN
    images = {
        "expected": scene.expected,
        "actual": scene.actual,
        "difference": np.minimum(difference, 255).astype(np.uint8),
    }
    return {name: encode_data_uri(encode_thumbnail(rgb, IMAGE_PX)) for name, rgb in images.items()}
