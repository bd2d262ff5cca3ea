"""Whether a translated film flickers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.adapt.certificate.image_pair import FINE_PX, Floats, Pair, tone_curve
from sim2cam.data.channels import FLOW_SEEN

LEAST_SEEN = 0.1
"""Least share of a picture that has to be seen in the one before it too."""

_UNCHANGED = np.arange(256, dtype=np.float32)  # as a curve of tones


@dataclass(frozen=True, eq=False)
class Earlier:
    """The picture before one of a film.

    Attributes:
        pair: it, before and after its translation.
        flow: (h, w, 3), the ``flow_backward`` of the one that follows, which leads to it.
    """

    pair: Pair
    flow: NDArray[np.float32]


def warp_levels(earlier: Earlier, now: Pair) -> float | None:
    """Returns how far a translated picture is from the one before it beyond what its source explains.

    Both are compared where the renderer's flow says that they show the same point, the earlier one
    warped onto this one (the warp error of Lai et al., 2018, with a true flow and true occlusions).
    The same is done with the sources, as they were and with their tones changed as those of both
    pictures were on the whole: light and noise that do not move with what they lie on were there
    before. What is left is a root of mean squares of 255 levels, so an offset of one picture is told
    as it is. None where hardly anything is seen in both.
    """
    seen = earlier.flow[..., 2] == FLOW_SEEN
    if seen.mean() < LEAST_SEEN:
        return None
    height, width = seen.shape
    x, y = np.meshgrid(np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32))
    places = x + earlier.flow[..., 0], y + earlier.flow[..., 1]
    squares = 0.0
    for channel in range(3):
        sources = [pair.before[..., channel] for pair in (earlier.pair, now)]
        made = [pair.after[..., channel].astype(np.float32) for pair in (earlier.pair, now)]
        curve = tone_curve(np.stack(sources), np.stack(made))
        explained = max(  # a curve is smooth, so it may flatten what it leaves alone
            _warp_error([tones[source] for source in sources], places, seen)
            for tones in (_UNCHANGED, curve)
        )
        squares += max(_warp_error(made, places, seen) - explained, 0.0)
    return float(np.sqrt(squares / 3))


def _warp_error(
    pictures: Sequence[Floats], places: tuple[Floats, Floats], seen: NDArray[np.bool_]
) -> float:
    """Returns the mean square of what differs of two pictures, without noise, where both show the same."""
    earlier, now = (cv2.GaussianBlur(picture, (0, 0), FINE_PX) for picture in pictures)
    warped = cv2.remap(earlier, *places, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return float(np.square(now - warped)[seen].mean())
