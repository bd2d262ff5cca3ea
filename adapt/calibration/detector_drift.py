"""A detector that is asked of photos too, so that drift tells when it answers otherwise than it did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.adapt.calibration.camera_features import CONFIDENCE, NOVELTY
from sim2cam.adapt.calibration.camera_fit import Rows
from sim2cam.adapt.calibration.photo_measurements import Capture, Photo


@dataclass(frozen=True)
class Answer:
    """What a detector says of a photo.

    Attributes:
        novelty: how unlike what it was trained on it is, over its limit; None where not measured.
        confidence: mean of its detections; None without any.
    """

    novelty: float | None
    confidence: float | None


@dataclass(frozen=True)
class Witness:
    """A detector.

    Attributes:
        digest: of its weights.
        ask: gives its answer of a picture (h, w, 3).
    """

    digest: str
    ask: Callable[[NDArray[np.uint8]], Answer]

    def traits(self, photos: Sequence[Photo], captures: Sequence[Capture]) -> dict[str, Rows]:
        """Returns what it says of photos, as traits by name.

        Args:
            photos: that are looked at.
            captures: that they are of, and others.

        Raises:
            InputError: a photo cannot be read any more.
        """
        paths = {capture.name: capture.path for capture in captures}
        answers = [self.ask(images.read_rgb(paths[photo.name])) for photo in photos]
        return {
            NOVELTY.name: tuple((one.novelty,) for one in answers),
            CONFIDENCE.name: tuple((one.confidence,) for one in answers),
        }
