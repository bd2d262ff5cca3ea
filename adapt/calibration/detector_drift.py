"""Monitor detector whose responses to photos are compared for drift."""

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
    """Response of a detector to one photo.

    Attributes:
        ood_score: OOD score over its threshold; None if not measured.
        mean_confidence: mean confidence of the detections; None without detections.
    """

    ood_score: float | None
    mean_confidence: float | None


@dataclass(frozen=True)
class DetectorMonitor:
    """Detector that monitors photos.

    Attributes:
        digest: digest of its weights.
        respond: function from an image (h, w, 3) to the response.
    """

    digest: str
    respond: Callable[[NDArray[np.uint8]], DetectorResponse]

    def measure_statistics(
        self, photos: Sequence[PhotoMeasurements], captures: Sequence[PhotoFile]
    ) -> dict[str, StatisticRows]:
        """Return the detector statistics of photos by name.

        Raises:
            InputError: if a photo cannot be read.
        """
        paths = {capture.name: capture.path for capture in captures}
        responses = [self.respond(images.read_rgb(paths[photo.name])) for photo in photos]
        return {
            OOD_STATISTIC.name: tuple((response.ood_score,) for response in responses),
            CONFIDENCE_STATISTIC.name: tuple((response.mean_confidence,) for response in responses),
        }
