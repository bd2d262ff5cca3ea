"""Tracks: where points of objects are in the pictures of a film, in one JSON file for each picture.

The points of all pictures of one scene are the same, in the same order: those of a film, put side by
side, are tracks. A file holds four lists of equal length, as ``PointTracks`` names them; a point that the
lens does not see has ``null`` for a pixel.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from sim2cam.data.parsing import format_validation_error
from sim2cam.errors import InputError
from sim2cam.geometry.poses import Vec3

_PIXEL_DIGITS, _POINT_DIGITS = 4, 9
_REGENERATE_HINT = "Generate the data set again"


@dataclass(frozen=True, eq=False)
class PointTracks:
    """Points of objects in one picture.

    Attributes:
        instance_id: (n,) whose points they are.
        point_m: (n, 3) where they are on it, in its frame.
        pixel: (n, 2) where they are in the picture, or beside it; NaN where the lens sees none.
        visible: (n,) whether they lie in the picture with nothing before them.
    """

    instance_id: NDArray[np.int64]
    point_m: NDArray[np.float64]
    pixel: NDArray[np.float64]
    visible: NDArray[np.bool_]


@dataclass(frozen=True)
class _TracksFile:
    instance_id: list[int]
    point_m: list[Vec3]
    pixel: list[tuple[float, float] | None]
    visible: list[bool]


_TRACKS_FILE: TypeAdapter[_TracksFile] = TypeAdapter(_TracksFile)


def encode_tracks(tracks: PointTracks) -> bytes:
    """Return the file of the points."""
    pixels = [
        None if np.isnan(pixel).any() else np.round(pixel, _PIXEL_DIGITS).tolist()
        for pixel in tracks.pixel
    ]
    table = {
        "instance_id": tracks.instance_id.tolist(),
        "point_m": np.round(tracks.point_m, _POINT_DIGITS).tolist(),
        "pixel": pixels,
        "visible": tracks.visible.tolist(),
    }
    return (json.dumps(table) + "\n").encode()


def read_tracks(path: Path) -> PointTracks:
    """Return the points of a file.

    Raises:
        InputError: it is missing, or does not hold four lists of equal length.
    """
    try:
        found = _TRACKS_FILE.validate_json(path.read_bytes())
    except FileNotFoundError as error:
        raise InputError(path, f"no such file. {_REGENERATE_HINT}.") from error
    except ValidationError as error:
        raise InputError(path, f"{format_validation_error(error)}. {_REGENERATE_HINT}.") from error
    lengths = {len(values) for values in vars(found).values()}
    if len(lengths) > 1:
        raise InputError(
            path, f"lists of {sorted(lengths)} points, not of one length. {_REGENERATE_HINT}."
        )
    return PointTracks(
        np.array(found.instance_id, np.int64),
        np.array(found.point_m).reshape(-1, 3),
        np.array([pixel or (np.nan, np.nan) for pixel in found.pixel]).reshape(-1, 2),
        np.array(found.visible, np.bool_),
    )
