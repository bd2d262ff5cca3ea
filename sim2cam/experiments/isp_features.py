"""Imprints: what each step of a camera leaves in a picture, in numbers that hardly depend on what it shows.

Renders are told from photos by their dice and tables alone, whatever the camera does. So cameras are
compared by the traits by which their drift is told, and by what flat parts of a look show: falling off
and fringes by the lens, noise by the noise, and so on.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from sim2cam.adapt.calibration.camera_features import measure_image_statistics
from sim2cam.metrics.image_statistics import STATISTIC_NAMES, compute_image_statistics
from sim2cam.metrics.two_sample import MIN_IMAGES, TwoSampleDistance, measure_classifier_auc
from sim2cam.scene.image_formation import FormationStage
from sim2cam.seeds import derive_rng

Floats = NDArray[np.float64]

ISP_FEATURES: Mapping[FormationStage, tuple[str, ...]] = {
    "lens": ("sensor.vignetting", "glass.lateral_color.red", "glass.lateral_color.blue"),
    "exposure": ("sensor.exposure_ev", "sensor.red_gain", "sensor.blue_gain"),
    "tone": ("sensor.tone_contrast", "sensor.saturation", "glass.glare.veil"),
    "sharpness": ("sensor.blur_px", "sensor.sharpening"),
    "noise": ("detail/noise_middle", "detail/noise_color", "detail/noise_correlation"),
    "jpeg": ("detail/jpeg_blocking",),
}
"""The traits, and the numbers of a look, that each step moves most. Scenes and their light move those of
exposure and tone too."""

_COLUMNS = tuple(name for names in ISP_FEATURES.values() for name in names)


def extract_isp_features(rgb: NDArray[np.uint8]) -> Floats:
    """Return the numbers of all ``ISP_FEATURES``, in order, of a picture (h, w, 3); NaN where it tells none.

    Raises:
        UsageError: it is too small to have a look.
    """
    seen = dict(zip(STATISTIC_NAMES, compute_image_statistics(rgb).tolist(), strict=True))
    traits = measure_image_statistics(rgb)
    return np.array([seen[n] if n in seen else _compute_median(traits[n]) for n in _COLUMNS])


def compare_isp_features(first: Floats, second: Floats, seed: int) -> dict[str, TwoSampleDistance]:
    """Return how well a classifier tells two sets of pictures by what each step left in them.

    Pictures that do not tell all numbers of a step are left out of it, and so are steps that are told
    by fewer than ``LEAST_PICTURES`` of either set.

    Args:
        first, second: imprints (n, ...) and (m, ...).
        seed: parts, resamples and shuffles pictures.
    """
    found: dict[str, TwoSampleDistance] = {}
    for step, names in ISP_FEATURES.items():
        columns = [_COLUMNS.index(name) for name in names]
        wanted, shown = (
            side[np.isfinite(side[:, columns]).all(axis=1)][:, columns] for side in (first, second)
        )
        if min(len(wanted), len(shown)) >= MIN_IMAGES:
            found[step] = measure_classifier_auc(wanted, shown, derive_rng(seed, "gap/imprint"))
    return found


def _compute_median(numbers: Floats) -> float:
    """Return the median of the numbers that are told; NaN of none."""
    known = numbers[np.isfinite(numbers)]
    return float(np.median(known)) if len(known) else float("nan")
