"""Conversion of Lensfun's lens profiles to the lens and the lens effects of a simulated camera.

The image is the largest part of the measured sensor, around its centre, that has the aspect ratio of the image. As in
Lensfun, the centres of the first and the last row of the sensor are at radius 1 (``legacy-modifier.cpp``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim2cam.data.camera_databases.lens_profiles import LensProfile, Terms, Vignetting
from sim2cam.geometry.lens import Rational
from sim2cam.scene.lens_effects import Falloff, LateralColor

Floats = NDArray[np.float64]

MAX_ERROR_PX = 0.05
"""Largest difference of a converted lens to its profile, on the image scaled to a shorter side of 480 pixels."""

_REFERENCE_SIDE_PX = 480
_FULL_FRAME_DIAGONAL_MM = math.hypot(36, 24)
_MARGIN = 1.1  # radius over that of the corners up to which lenses are converted
_N_RADII = 200
_FIT_ROUNDS = 8
_N_TERMS = 3  # of numerator and denominator
_LIGHT_RANGE = (0.02, 1.5)  # of vignetting in the image, relative to the centre


@dataclass(frozen=True)
class ConvertedLens:
    """Lens and lens effects of a simulated camera.

    Attributes:
        lens: Projection, with the principal point in the image centre.
        lateral_color: Colour fringes.
        falloff: Vignetting.
    """

    lens: Rational
    lateral_color: LateralColor
    falloff: Falloff


@dataclass(frozen=True)
class _Geometry:
    """Scale of a profile on an image.

    Attributes:
        unit_px: Pixels of half the shorter side of the sensor.
        corner: Radius of the image corners in this unit.
        focal: Focal length in this unit, of the image without distortion.
    """

    unit_px: float
    corner: float
    focal: float


def compute_focal_px(profile: LensProfile, width: int, height: int) -> float:
    """Return the focal length in the image centre."""
    geometry = _compute_geometry(profile, width, height)
    return geometry.focal * geometry.unit_px * _compute_central_scale(profile)


def convert_lens(
    profile: LensProfile, vignetting: Vignetting, width: int, height: int
) -> ConvertedLens | None:
    """Return the lens of an image; None if no lens of sim2cam is close enough to the profile.

    ``poly3`` and ``poly5`` are converted exactly. ``ptlens`` has odd powers of the radius, to which a rational lens is
    fitted. Colour fringes become one scale for each channel.
    """
    geometry = _compute_geometry(profile, width, height)
    scale = _compute_central_scale(profile)
    if scale <= 0:
        return None
    coefficients = _convert_distortion(profile, geometry)
    fringes = [_fit_scale(terms, geometry) for terms in (profile.red_terms, profile.blue_terms)]
    falloff = _convert_vignetting(vignetting, profile, geometry)
    if coefficients is None or falloff is None or None in fringes:
        return None
    focal_px = geometry.focal * geometry.unit_px * scale
    k1, k2, k3, k4, k5, k6 = coefficients
    center = (width - 1) / 2, (height - 1) / 2
    lens = Rational(focal_px, focal_px, *center, k1, k2, 0.0, 0.0, k3, k4, k5, k6)
    corner_px = np.array(center) * (1 - _MARGIN)
    if not lens.can_unproject(corner_px[None]).all():
        return None
    red, blue = (fringe or 0.0 for fringe in fringes)
    return ConvertedLens(lens, LateralColor(red, blue), falloff)


def distort_radii(profile: LensProfile, radii: Floats) -> Floats:
    """Return distorted radii (n,), over half the shorter side of the sensor."""
    terms = profile.distortion_terms
    if profile.distortion == "ptlens":
        a, b, c = terms
        return radii * (1 - a - b - c + radii * (c + radii * (b + radii * a)))
    if profile.distortion == "poly3":
        return radii * (1 - terms[0] + terms[0] * radii**2)
    return radii * (1 + terms[0] * radii**2 + terms[1] * radii**4)


def _compute_central_scale(profile: LensProfile) -> float:
    """Return distorted over undistorted radii in the centre, 1 for ``poly5``."""
    return 1.0 if profile.distortion == "poly5" else 1.0 - sum(profile.distortion_terms)


def _compute_geometry(profile: LensProfile, width: int, height: int) -> _Geometry:
    long, short = max(width, height) - 1, min(width, height) - 1
    unit_px = max(short, long / profile.aspect) / 2
    unit_mm = _FULL_FRAME_DIAGONAL_MM / profile.crop_factor / math.hypot(profile.aspect, 1) / 2
    return _Geometry(unit_px, math.hypot(long, short) / 2 / unit_px, profile.focal_mm / unit_mm)


def _convert_distortion(profile: LensProfile, geometry: _Geometry) -> Terms | None:
    """Return k1 to k6 of a rational lens in OpenCV's normalised coordinates."""
    scale, focal, terms = _compute_central_scale(profile), geometry.focal, profile.distortion_terms
    if profile.distortion == "poly3":
        return terms[0] * focal**2 / scale, 0.0, 0.0, 0.0, 0.0, 0.0
    if profile.distortion == "poly5":
        return terms[0] * focal**2, terms[1] * focal**4, 0.0, 0.0, 0.0, 0.0
    undistorted = _invert_distortion(profile, geometry.corner * _MARGIN)
    if undistorted is None:
        return None
    return _fit_rational(
        undistorted / focal,
        distort_radii(profile, undistorted) / undistorted / scale,
        focal * scale * _REFERENCE_SIDE_PX / 2,
    )


def _invert_distortion(profile: LensProfile, limit: float) -> Floats | None:
    """Return rising radii without distortion whose last one is distorted to a limit; None if it folds back before."""
    radii = np.linspace(0, 4 * limit, 4000)[1:]
    distorted = distort_radii(profile, radii)
    beyond = np.flatnonzero(distorted >= limit)
    if not len(beyond) or (np.diff(distorted[: beyond[0] + 1]) <= 0).any():
        return None
    return np.linspace(0, radii[beyond[0]], _N_RADII + 1)[1:]


def _fit_rational(radii: Floats, ratios: Floats, focal_px: float) -> Terms | None:
    """Fit (1 + k1 r^2 + k2 r^4 + k3 r^6) / (1 + k4 r^2 + k5 r^4 + k6 r^6) to ratios; None beyond ``MAX_ERROR_PX``.

    The linearised problem is solved repeatedly with weights from the previous denominator (Sanathanan and Koerner 1963,
    "Transfer function synthesis as a ratio of two complex polynomials").

    Args:
        radii: (n,) undistorted radii.
        ratios: (n,) distorted over undistorted radii, 1 in the centre.
        focal_px: Pixels of a radius of 1.
    """
    largest = radii[-1]
    powers = np.stack([(radii / largest) ** (2 * power) for power in range(1, _N_TERMS + 1)], 1)
    weights = radii * focal_px
    for _ in range(_FIT_ROUNDS):
        matrix = np.hstack([powers, -ratios[:, None] * powers]) * weights[:, None]
        solution = np.linalg.lstsq(matrix, (ratios - 1) * weights, rcond=1e-8)[0]
        numerator, denominator = 1 + powers @ solution[:_N_TERMS], 1 + powers @ solution[_N_TERMS:]
        if denominator.min() <= 0:
            return None
        weights = radii * focal_px / denominator
    errors_px = np.abs(numerator / denominator - ratios) * radii * focal_px
    if errors_px.max() > MAX_ERROR_PX:
        return None
    scales = largest ** (2.0 * np.tile(np.arange(1, _N_TERMS + 1), 2))
    return tuple((solution / scales).tolist())


def _fit_scale(terms: Terms, geometry: _Geometry) -> float | None:
    """Return the relative scale change of a channel with the least squared error over the image; None if too large."""
    v, c, b = terms
    radii = np.linspace(0, geometry.corner, _N_RADII)
    changes = v - 1 + radii * (c + radii * b)
    weights = radii**3  # area times squared displacement
    scale = float((changes * weights).sum() / weights.sum())
    errors_px = np.abs(changes - scale) * radii * _REFERENCE_SIDE_PX / 2
    return scale if errors_px.max() <= MAX_ERROR_PX else None


def _convert_vignetting(
    vignetting: Vignetting, profile: LensProfile, geometry: _Geometry
) -> Falloff | None:
    """Return the vignetting with radii over those of the image corners; None if it is no plausible light."""
    corner = geometry.corner / math.hypot(profile.aspect, 1)
    k1, k2, k3 = (
        term * corner ** (2 * power) for power, term in enumerate(vignetting.terms, start=1)
    )
    r2 = np.linspace(0, 1, _N_RADII) ** 2
    light = 1 + r2 * (k1 + r2 * (k2 + r2 * k3))
    low, high = _LIGHT_RANGE
    return Falloff(k1, k2, k3) if low <= light.min() and light.max() <= high else None
