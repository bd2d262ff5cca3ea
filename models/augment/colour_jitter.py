"""Objects in other shades of their colours.

The colours of a scan are what its camera made of them, under its light and with its idea of grey: as a rule they are
duller than what another camera sees. Shades of all pictures together (``augment``) leave objects as dull beside what
surrounds them as they were.
"""

from __future__ import annotations

from dataclasses import replace
from math import log

import numpy as np
from numpy.typing import NDArray

from sim2cam.images import LUMA
from sim2cam.models.augment.overlay import laid
from sim2cam.models.training.images import Picture, known_owners

RECOLOURED_SHARE = 0.75  # of the objects

_CHROMA = (0.5, 2.5)  # how far colours lie from grey, as a share of how far they lay
_GAIN = (0.8, 1.25)  # of each channel
_GAMMA = (0.7, 1.5)  # power of all values, dark to light


def recoloured(picture: Picture, rng: np.random.Generator) -> Picture:
    """Returns a picture with some of its objects in other shades, each in its own.

    One of which it is not known which pixels show objects is returned as it is.

    Args:
        picture: as it was rendered.
        rng: source of chance.
    """
    owners = known_owners(picture)
    if owners is None:
        return picture
    count = len(picture.outlines)
    is_changed = np.concatenate([[False], rng.random(count) < RECOLOURED_SHARE])
    chroma, gamma = (_draw(rng, around, (count, 1)) for around in (_CHROMA, _GAMMA))
    gains = _draw(rng, _GAIN, (count, 3))
    where = is_changed[owners]
    of = owners[where] - 1
    values = picture.rgb[where].astype(np.float32) / 255
    grey = values @ np.array(LUMA, np.float32)[:, None]
    shaded = (grey + chroma[of] * (values - grey)) * gains[of]
    changed = picture.rgb.copy()
    changed[where] = np.round(255 * shaded.clip(0, 1) ** gamma[of])
    return replace(picture, rgb=laid(picture.rgb, changed, where))


def _draw(
    rng: np.random.Generator, around: tuple[float, float], shape: tuple[int, int]
) -> NDArray[np.float32]:
    """Returns draws whose logarithm is uniform."""
    return np.exp(rng.uniform(log(around[0]), log(around[1]), shape)).astype(np.float32)
