"""Page of changed regression scenes: expected and actual images, and their difference."""

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
    """Changed regression scene."""

    name: str
    differences: tuple[str, ...]
    expected: Rgb
    actual: Rgb
    note: str


def write_regression_page(scenes: Sequence[ChangedScene], checked_count: int, out: Path) -> Path:
    """Write a self-contained page and return its path."""
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
