"""Point tracks of objects, one JSON file per image of a sequence.

All images of a scene list the same points in the same order. A file holds four lists of equal length, named
as in ``PointTracks``; the pixel of a point outside the lens's field of view is ``null``.
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
_REGENERATE_HINT = "Generate the dataset again"


@dataclass(frozen=True, eq=False)
class PointTracks:
    """Points of objects in one image.

    Attributes:
        instance_id: (n,) instance id of each point's object.
        point_m: (n, 3) position in the object frame.
        pixel: (n, 2) position in pixels, may be outside the image; NaN outside the lens's field of view.
        visible: (n,) whether the point is in the image and not occluded.
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
    """Return the points as the bytes of a JSON file."""
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
    """Read the points of a file.

    Raises:
        InputError: If the file is missing or does not hold four lists of equal length.
    """
    try:
        content = _TRACKS_FILE.validate_json(path.read_bytes())
    except FileNotFoundError as error:
        raise InputError(path, f"no such file. {_REGENERATE_HINT}.") from error
    except OSError as error:
        raise InputError(path, f"cannot be read ({error.strerror}).") from error
    except ValidationError as error:
        raise InputError(path, f"{format_validation_error(error)}. {_REGENERATE_HINT}.") from error
    lengths = {len(values) for values in vars(content).values()}
    if len(lengths) > 1:
        raise InputError(
            path, f"lists have different lengths: {sorted(lengths)}. {_REGENERATE_HINT}."
        )
    return PointTracks(
        np.array(content.instance_id, np.int64),
        np.array(content.point_m).reshape(-1, 3),
        np.array([pixel or (np.nan, np.nan) for pixel in content.pixel]).reshape(-1, 2),
        np.array(content.visible, np.bool_),
    )
