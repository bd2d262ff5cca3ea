"""The result: what is known of a camera, as a value and as ``camera.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from sim2cam.adapt.calibrate.lens import FittedLens
from sim2cam.dataset.parsing import first_problem, read_json
from sim2cam.dataset.writer import write_json
from sim2cam.errors import InputError

VERSION = 2

Rows = tuple[tuple[float | None, ...], ...]
"""A trait of photos: a row for each; None where the photo does not tell."""

_MOST_BYTES = 4_000_000


@dataclass(frozen=True)
class Finding:
    """One number of a camera.

    Attributes:
        name: path of the field in ``scene.camera.Camera``, as ``sensor.vignetting``.
        value: the estimate; None where the captures do not tell.
        ci95: its 95 % interval; None for words, for what is not told, and for what may lie beyond all that
            is tried.
        spread: standard deviation from photo to photo; None for what a camera has once.
        note: why it is not told and which captures would, or what the estimate stands on.
    """

    name: str
    value: float | str | None
    ci95: tuple[float, float] | None = None
    spread: float | None = None
    note: str = ""


@dataclass(frozen=True)
class CameraFit:
    """What captures tell of the camera that took them.

    Attributes:
        camera: what took them, as far as their files say.
        width, height: pixels of each.
        photos: how many were looked at.
        boards: in how many of them a board was found.
        findings: number by number.
        lens: all of the lens; None where there are no boards.
        border: dead pixels at the left, top, right and bottom.
        brightest: the highest level in any photo.
        others: how many captures other cameras took, by what took them.
        refused: files that were left out, and why.
        software: of the camera, as far as the files say.
        traits: of each photo what changes with its camera, by names of ``traits.TRAITS``; drift
            needs it.
        orientation: as EXIF has it, of the photos that the lens is fitted to; None where no lens is.
        turned: photos of a board that it is not fitted to, as the camera was held another way: their
            orientations, by name.
    """

    camera: str
    width: int
    height: int
    photos: int
    boards: int
    findings: tuple[Finding, ...]
    lens: FittedLens | None = None
    border: tuple[int, int, int, int] = (0, 0, 0, 0)
    brightest: int = 255
    others: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    software: str = ""
    traits: Mapping[str, Rows] = field(default_factory=dict)
    orientation: int | None = None
    turned: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, rows in self.traits.items():
            if len(rows) != self.photos or len(set(map(len, rows))) > 1:
                raise ValueError(f"traits: {name} has a row, as long as others, of each photo")

    def finding(self, name: str) -> Finding:
        """Returns what is known of a number; nothing where it was not asked for."""
        return next((f for f in self.findings if f.name == name), Finding(name, None))

    def to_json(self) -> dict[str, Any]:
        """Returns all of it as JSON values."""
        found: dict[str, Any] = json.loads(_ADAPTER.dump_json(self))
        return {"version": VERSION, **found}


_ADAPTER: TypeAdapter[CameraFit] = TypeAdapter(CameraFit)


def write_camera(path: Path, fit: CameraFit) -> None:
    """Writes ``camera.json``.

    Raises:
        OutputError: the file cannot be written.
    """
    write_json(path, fit.to_json())


def read_camera(path: Path) -> CameraFit:
    """Returns what ``write_camera`` wrote.

    Raises:
        InputError: it is missing, broken, or of another version.
    """
    found = read_json(path, _MOST_BYTES, "camera.json")
    version = found.pop("version", None) if isinstance(found, dict) else None
    if version != VERSION:
        raise InputError(
            path,
            f"not what sim2cam calibrate writes (version {version!r}, not {VERSION}). Calibrate again.",
        )
    try:
        return _ADAPTER.validate_python(found)
    except ValidationError as error:
        raise InputError(path, f"{first_problem(error)}. Calibrate again.") from error
