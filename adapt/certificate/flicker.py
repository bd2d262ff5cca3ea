"""Flicker of translated sequences, measured as warping error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.adapt.certificate.image_pair import (
    NOISE_SIGMA_PX,
    Floats,
    ImagePair,
    estimate_tone_curve,
)
from sim2cam.data.channels import FLOW_VISIBLE

MIN_COVISIBLE_FRACTION = 0.1
"""Least fraction of covisible pixels for a measurement."""

_IDENTITY_CURVE = np.arange(256, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class PreviousFrame:
    """Previous frame of a sequence.

    Attributes:
        pair: its source and translation.
        backward_flow: (h, w, 3), ``flow_backward`` from the current frame to it.
    """

    pair: ImagePair
    backward_flow: NDArray[np.float32]


def measure_warping_error(previous_frame: PreviousFrame, current: ImagePair) -> float | None:
    """Measure the warping error of a translated frame beyond the error of its source, in levels.

    The previous frame is warped to the current one by the renderer's flow and compared where both show the same
    point (Lai et al., 2018, with true flow and occlusions). The error of the sources is subtracted, with and
    without the mean tone curve of the translation, because shading and noise of the sources do not move with
    the surfaces. The result is a root mean square, so it equals the offset of a uniformly brighter frame. None if
    too few pixels are covisible.
    """
    covisible = previous_frame.backward_flow[..., 2] == FLOW_VISIBLE
    if covisible.mean() < MIN_COVISIBLE_FRACTION:
        return None
    height, width = covisible.shape
    x, y = np.meshgrid(np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32))
    map_xy = x + previous_frame.backward_flow[..., 0], y + previous_frame.backward_flow[..., 1]
    squares = 0.0
    for channel in range(3):
        sources = [pair.before[..., channel] for pair in (previous_frame.pair, current)]
        translated = [
            pair.after[..., channel].astype(np.float32) for pair in (previous_frame.pair, current)
        ]
        curve = estimate_tone_curve(np.stack(sources), np.stack(translated))
        explained = (
            max(  # the smoothed tone curve may reduce contrast, so the identity is also tried
                _compute_warping_error([tones[source] for source in sources], map_xy, covisible)
                for tones in (_IDENTITY_CURVE, curve)
            )
        )
        squares += max(_compute_warping_error(translated, map_xy, covisible) - explained, 0.0)
    return float(np.sqrt(squares / 3))


def _compute_warping_error(
    images: Sequence[Floats], map_xy: tuple[Floats, Floats], covisible: NDArray[np.bool_]
) -> float:
    """Return the mean square difference of two smoothed images (h, w) on covisible pixels."""
    previous, current = (cv2.GaussianBlur(image, (0, 0), NOISE_SIGMA_PX) for image in images)
    warped = cv2.remap(previous, *map_xy, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return float(np.square(current - warped)[covisible].mean())
