"""Whether a translated film flickers."""

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
"""Least share of a picture that has to be seen in the one before it too."""

_IDENTITY_CURVE = np.arange(256, dtype=np.float32)  # as a curve of tones


@dataclass(frozen=True, eq=False)
class PreviousFrame:
    """The picture before one of a film.

    Attributes:
        pair: it, before and after its translation.
        backward_flow: (h, w, 3), the ``flow_backward`` of the one that follows, which leads to it.
    """

    pair: ImagePair
    backward_flow: NDArray[np.float32]


def measure_warping_error(previous_frame: PreviousFrame, current: ImagePair) -> float | None:
    """Return how far a translated picture is from the one before it beyond what its source explains.

    Both are compared where the renderer's flow says that they show the same point, the earlier one
    warped onto this one (the warp error of Lai et al., 2018, with a true flow and true occlusions).
    The same is done with the sources, as they were and with their tones changed as those of both
    pictures were on the whole: light and noise that do not move with what they lie on were there
    before. What is left is a root of mean squares of 255 levels, so an offset of one picture is told
    as it is. None where hardly anything is seen in both.
    """
    seen = previous_frame.backward_flow[..., 2] == FLOW_VISIBLE
    if seen.mean() < MIN_COVISIBLE_FRACTION:
        return None
    height, width = seen.shape
    x, y = np.meshgrid(np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32))
    places = x + previous_frame.backward_flow[..., 0], y + previous_frame.backward_flow[..., 1]
    squares = 0.0
    for channel in range(3):
        sources = [pair.before[..., channel] for pair in (previous_frame.pair, current)]
        made = [
            pair.after[..., channel].astype(np.float32) for pair in (previous_frame.pair, current)
        ]
        curve = estimate_tone_curve(np.stack(sources), np.stack(made))
        explained = max(  # a curve is smooth, so it may flatten what it leaves alone
            _compute_warping_error([tones[source] for source in sources], places, seen)
            for tones in (_IDENTITY_CURVE, curve)
        )
        squares += max(_compute_warping_error(made, places, seen) - explained, 0.0)
    return float(np.sqrt(squares / 3))


def _compute_warping_error(
    images: Sequence[Floats], map_xy: tuple[Floats, Floats], covisible: NDArray[np.bool_]
) -> float:
    """Return the mean square of what differs of two pictures, without noise, where both show the same."""
    earlier, now = (cv2.GaussianBlur(picture, (0, 0), NOISE_SIGMA_PX) for picture in images)
    warped = cv2.remap(earlier, *map_xy, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return float(np.square(now - warped)[covisible].mean())
