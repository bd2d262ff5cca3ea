"""Lensfun's lens profiles (XML, version 1 of the format)."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from xml.etree.ElementTree import Element

from sim2cam.data.formats.xml_file import parse_number, parse_xml
from sim2cam.data.parsing import find_category_problem
from sim2cam.errors import InputError

_MAX_BYTES = 8 * 2**20
_DEFAULT_ASPECT = 1.5
_TERMS: dict[str, tuple[str, ...]] = {
    "ptlens": ("a", "b", "c"),
    "poly3": ("k1",),
    "poly5": ("k1", "k2"),
}
"""Attributes of each distortion model."""

Terms = tuple[float, ...]


@dataclass(frozen=True)
class Vignetting:
    """Light over that in the centre, 1 + k1 r^2 + k2 r^4 + k3 r^6; r is 1 in the corners of the sensor.

    Attributes:
        f_number: Aperture.
        distance_m: Focus distance.
        terms: k1, k2, k3.
    """

    f_number: float
    distance_m: float
    terms: Terms


@dataclass(frozen=True)
class LensProfile:
    """Rectilinear lens at one focal length, with measured distortion, colour fringes and vignetting.

    Radii r of distortion and fringes are over half the shorter side of the sensor.

    Attributes:
        model: Maker and model.
        crop_factor: Diagonal of a 36 x 24 mm sensor over that of the measured one.
        aspect: Longer side of the sensor over its shorter one.
        focal_mm: Nominal focal length, that of the image without distortion.
        distortion, distortion_terms: Model and its coefficients. Distorted radii are
            r (a r^3 + b r^2 + c r + 1 - a - b - c) for ``ptlens``, r (1 - k1 + k1 r^2) for ``poly3``,
            r (1 + k1 r^2 + k2 r^4) for ``poly5``.
        red_terms, blue_terms: Radii of a channel over those of green, v + c r + b r^2: (v, c, b).
        vignettings: Vignetting at each aperture and focus distance.
    """

    model: str
    crop_factor: float
    aspect: float
    focal_mm: float
    distortion: str
    distortion_terms: Terms
    red_terms: Terms
    blue_terms: Terms
    vignettings: tuple[Vignetting, ...]


@functools.lru_cache(maxsize=2)
def read_lens_profiles(files: tuple[Path, ...]) -> tuple[LensProfile, ...]:
    """Read the rectilinear lenses that have distortion, colour fringes and vignetting at the same focal length.

    Lenses whose optical axis misses the centre are left out.

    Raises:
        InputError: If a file is missing, too large, of another version or broken.
    """
    return tuple(profile for file in files for profile in _read_file(file))


def _read_file(path: Path) -> Iterator[LensProfile]:
    root = parse_xml(path, "lensdatabase", _MAX_BYTES, "lens profile")
    version = root.get("version", "1")
    if version != "1":
        raise InputError(path, f"version is '{version[:20]}'. Allowed: 1.")
    for lens in root.iter("lens"):
        kind = (lens.findtext("type") or "rectilinear").strip()
        if kind == "rectilinear" and lens.find("center") is None:
            yield from _parse_lens(lens, path)


def _parse_lens(lens: Element, path: Path) -> Iterator[LensProfile]:
    maker, model = ((lens.findtext(name) or "").strip() for name in ("maker", "model"))
    if not model.casefold().startswith(maker.casefold()):
        model = f"{maker} {model}"
    problem = find_category_problem(model)
    if problem is not None:
        raise InputError(path, problem)
    for calibration in lens.iter("calibration"):
        fringes = {_read(entry, "focal", path): entry for entry in calibration.iter("tca")}
        vignettings: dict[float, list[Vignetting]] = {}
        for entry in calibration.iter("vignetting"):
            vignettings.setdefault(_read(entry, "focal", path), []).append(
                _parse_vignetting(entry, path)
            )
        for entry in calibration.iter("distortion"):
            focal_mm, name = _read(entry, "focal", path), entry.get("model", "")
            if name in _TERMS and focal_mm > 0 and focal_mm in fringes and focal_mm in vignettings:
                yield LensProfile(
                    model,
                    _parse_crop_factor(lens, path),
                    _parse_aspect(lens, path),
                    focal_mm,
                    name,
                    tuple(_read(entry, term, path, 0.0) for term in _TERMS[name]),
                    _parse_fringe(fringes[focal_mm], "r", path),
                    _parse_fringe(fringes[focal_mm], "b", path),
                    tuple(vignettings[focal_mm]),
                )


def _parse_crop_factor(lens: Element, path: Path) -> float:
    factor = parse_number(path, "<cropfactor>", lens.findtext("cropfactor"))
    if factor <= 0:
        raise InputError(path, f"<cropfactor> is {factor:g}. It must be above 0.")
    return factor


def _parse_aspect(lens: Element, path: Path) -> float:
    """Return an aspect ratio such as ``4:3`` or ``1.5``."""
    text = lens.findtext("aspect-ratio")
    if text is None:
        return _DEFAULT_ASPECT
    long, _, short = text.partition(":")
    sides = [parse_number(path, "<aspect-ratio>", side) for side in (long, short or "1")]
    if min(sides) <= 0:
        raise InputError(path, f"<aspect-ratio> is '{text[:40]}'. Both sides must be above 0.")
    return max(sides) / min(sides)


def _parse_fringe(entry: Element, channel: Literal["r", "b"], path: Path) -> Terms:
    if entry.get("model") == "linear":
        return _read(entry, f"k{channel}", path, 1.0), 0.0, 0.0
    defaults = {"v": 1.0, "c": 0.0, "b": 0.0}
    return tuple(_read(entry, f"{term}{channel}", path, value) for term, value in defaults.items())


def _parse_vignetting(entry: Element, path: Path) -> Vignetting:
    return Vignetting(
        _read(entry, "aperture", path, 0.0),
        _read(entry, "distance", path, 0.0),
        tuple(_read(entry, name, path, 0.0) for name in ("k1", "k2", "k3")),
    )


def _read(entry: Element, name: str, path: Path, default: float | None = None) -> float:
    """Return a numeric attribute; without default it is required."""
    text = entry.get(name)
    if text is None and default is not None:
        return default
    return parse_number(path, f"{name} of <{entry.tag}>", text)
