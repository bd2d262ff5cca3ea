"""ISP features: traces of each image-formation stage that hardly depend on the content of an image.

Whole images of renders and photos differ by their objects, whatever the camera does. ISP features
therefore use camera measurements and flat image regions: vignetting and lateral colour for the
lens, noise levels for the noise stage, and so on.
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
"""Features that each stage changes most. Scene content and light also change exposure and tone."""

_COLUMNS = tuple(name for names in ISP_FEATURES.values() for name in names)


def extract_isp_features(rgb: NDArray[np.uint8]) -> Floats:
    """Return all ``ISP_FEATURES``, in order, of an image (h, w, 3); NaN where not measurable.

    Raises:
        UsageError: if the image is too small for image statistics.
    """
    statistics = dict(zip(STATISTIC_NAMES, compute_image_statistics(rgb).tolist(), strict=True))
    camera_features = measure_image_statistics(rgb)
    return np.array(
        [
            statistics[name] if name in statistics else _compute_median(camera_features[name])
            for name in _COLUMNS
        ]
    )


def compare_isp_features(first: Floats, second: Floats, seed: int) -> dict[str, TwoSampleDistance]:
    """Return the AUC of a classifier between two sets of images, by stage.

    Images with a missing feature are left out of its stage. Stages with fewer than ``MIN_IMAGES``
    images in a set are left out.

    Args:
        first, second: ISP features (n, features) and (m, features).
    """
    distances: dict[str, TwoSampleDistance] = {}
    for stage, names in ISP_FEATURES.items():
        columns = [_COLUMNS.index(name) for name in names]
        a, b = (
            features[np.isfinite(features[:, columns]).all(axis=1)][:, columns]
            for features in (first, second)
        )
        if min(len(a), len(b)) >= MIN_IMAGES:
            distances[stage] = measure_classifier_auc(a, b, derive_rng(seed, "gap/imprint"))
    return distances


def _compute_median(numbers: Floats) -> float:
    """Return the median of the finite numbers; NaN without any."""
    finite = numbers[np.isfinite(numbers)]
    return float(np.median(finite)) if len(finite) else float("nan")
