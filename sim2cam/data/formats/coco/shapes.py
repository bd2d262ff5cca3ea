"""COCO masks (polygons and run lengths) and keypoints."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sim2cam.data.sample import Keypoint
from sim2cam.geometry.run_length import RleMask

_VISIBILITIES: tuple[Literal[0], Literal[1], Literal[2]] = (0, 1, 2)
_MAX_RUN_CHARACTERS = 7  # per run
_MAX_SHOWN = 60  # characters of an invalid value


def parse_segmentation(segmentation: Any, size: tuple[int, int]) -> RleMask | None:
    """Return the mask of a ``segmentation``; None if missing or without corners.

    Args:
        segmentation: list of polygons, or table of ``size`` and ``counts``, compressed (text) or
            not (list).
        size: height and width of the image.

    Raises:
        ValueError: the segmentation is invalid, or does not fit the image.
    """
    if segmentation is None or segmentation in ([], {}):
        return None
    if isinstance(segmentation, dict):
        return _parse_run_lengths(segmentation, size)
    if not isinstance(segmentation, list):
        raise _make_error(segmentation, "must be a list of polygons or a table of size and counts")
    height, width = size
    polygons = [_parse_polygon(polygon) for polygon in segmentation if polygon != []]
    for corners in polygons:
        low, high = corners.min(axis=0), corners.max(axis=0)
        sides = np.array([width, height])
        if (low < -sides).any() or (high > 2 * sides).any():  # slow to rasterize
            raise ValueError(
                f"a polygon of segmentation reaches from ({low[0]:g}, {low[1]:g}) to ({high[0]:g}, "
                f"{high[1]:g}), far outside the image of {width}x{height} pixels."
            )
    if not polygons:
        return None
    return RleMask.from_polygons([corners.ravel().tolist() for corners in polygons], size)


def _parse_polygon(polygon: Any) -> NDArray[np.float64]:
    """Return the corners (n, 2) of a polygon."""
    numbers = _parse_numbers(polygon)
    if numbers is None:
        raise _make_error(polygon, "of segmentation must be a list of numbers")
    if numbers.ndim != 1:
        raise _make_error(
            polygon, "of segmentation must be a list of numbers, in a list of polygons"
        )
    if len(numbers) < 6 or len(numbers) % 2 or not np.isfinite(numbers).all():
        raise _make_error(
            polygon, "of segmentation must be 6 or more finite numbers, x and y alternating"
        )
    return numbers.reshape(-1, 2)


def _parse_numbers(values: Any) -> NDArray[np.float64] | None:
    """Return numbers as an array; None if a value is not a number."""
    try:
        array = np.array(values)
    except ValueError:  # lists of different lengths
        return None
    return array.astype(np.float64) if array.dtype.kind in "iuf" else None


def _parse_run_lengths(table: dict[str, Any], size: tuple[int, int]) -> RleMask:
    if table.get("size") != list(size):
        raise ValueError(
            f"segmentation: size is {_format_value(table.get('size'))}, not the image's {list(size)} "
            "(height, width)."
        )
    counts = table.get("counts")
    max_runs = 2 * math.prod(size) + 2  # runs may be empty
    if isinstance(counts, str | list) and len(counts) > max_runs * (
        _MAX_RUN_CHARACTERS if isinstance(counts, str) else 1
    ):
        raise ValueError(
            f"segmentation: counts has {len(counts)} entries, too many for {list(size)} (height, width)."
        )
    if isinstance(counts, list):
        is_valid = all(type(run) is int and run >= 0 for run in counts)
        if not is_valid or sum(counts) != math.prod(size):
            raise ValueError(
                f"segmentation: counts {_format_value(counts)} must be numbers of pixels with the sum "
                f"{math.prod(size)}."
            )
        return RleMask.from_runs(counts, size)
    if not isinstance(counts, str):
        raise ValueError(f"segmentation: counts {_format_value(counts)} must be a list or a text.")
    mask = RleMask(size, counts)
    if not mask.is_valid():
        raise ValueError(
            f"segmentation: counts {_format_value(counts)} are not a valid mask of {list(size)}."
        )
    return mask


def parse_keypoints(numbers: Any, names: Sequence[str]) -> tuple[Keypoint, ...] | None:
    """Return the keypoints of an annotation; None if it has none.

    Args:
        numbers: x, y and visibility (0 not labelled, 1 hidden, 2 visible) of each keypoint.

    Raises:
        ValueError: the numbers are invalid, or do not match the names.
    """
    if numbers is None or numbers == []:
        return None
    if not names:
        raise ValueError(
            "has keypoints, but its category has no list 'keypoints' with their names."
        )
    values = _parse_numbers(numbers)
    if values is None or values.shape != (3 * len(names),) or not np.isfinite(values).all():
        raise ValueError(
            f"keypoints {_format_value(numbers)} must be {3 * len(names)} finite numbers: x, y and "
            f"visibility of {', '.join(names)}."
        )
    keypoints = []
    for name, (x, y, visibility) in zip(names, values.reshape(-1, 3).tolist(), strict=True):
        if visibility not in (0, 1, 2):
            raise ValueError(
                f"keypoint {name} has the visibility {visibility:g}. Allowed: 0, 1, 2."
            )
        xy = (x, y) if visibility else (0.0, 0.0)
        keypoints.append(Keypoint(name, xy, _VISIBILITIES[int(visibility)]))
    return tuple(keypoints)


def _make_error(value: Any, requirement: str) -> ValueError:
    return ValueError(f"{_format_value(value)} {requirement}.")


def _format_value(value: Any) -> str:
    if isinstance(value, list | str):
        value = value[: _MAX_SHOWN + 1]  # it may be very long
    try:
        text = json.dumps(value, default=str)
    except RecursionError:
        text = "[[..."
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
