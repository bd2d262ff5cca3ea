"""A detector that is asked of photos too, so that drift tells when it answers otherwise than it did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.adapt.calibration.camera_features import CONFIDENCE_STATISTIC, OOD_STATISTIC
from sim2cam.adapt.calibration.camera_fit import StatisticRows
from sim2cam.adapt.calibration.photo_measurements import PhotoFile, PhotoMeasurements


@dataclass(frozen=True)
class DetectorResponse:
    """What a detector says of a photo.

    Attributes:
        ood_score: how unlike what it was trained on it is, over its limit; None where not measured.
        mean_confidence: mean of its detections; None without any.
    """

    ood_score: float | None
    mean_confidence: float | None


@dataclass(frozen=True)
class DetectorMonitor:
    """A detector.

    Attributes:
        digest: of its weights.
        respond: gives its answer of a picture (h, w, 3).
    """

    digest: str
    respond: Callable[[NDArray[np.uint8]], DetectorResponse]

    def measure_statistics(
        self, photos: Sequence[PhotoMeasurements], captures: Sequence[PhotoFile]
    ) -> dict[str, StatisticRows]:
        """Return what it says of photos, as traits by name.

        Args:
            photos: that are looked at.
            captures: that they are of, and others.

        Raises:
            InputError: a photo cannot be read any more.
        """
        paths = {capture.name: capture.path for capture in captures}
        answers = [self.respond(images.read_rgb(paths[photo.name])) for photo in photos]
        return {
            OOD_STATISTIC.name: tuple((one.ood_score,) for one in answers),
            CONFIDENCE_STATISTIC.name: tuple((one.mean_confidence,) for one in answers),
        }
