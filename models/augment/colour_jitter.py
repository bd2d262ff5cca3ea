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

from sim2cam.images import LUMA_WEIGHTS
from sim2cam.models.augment.overlay import composite
from sim2cam.models.training.images import AnnotatedImage, get_complete_instance_map

JITTER_PROBABILITY = 0.75  # of the objects

_CHROMA_RANGE = (0.5, 2.5)  # how far colours lie from grey, as a share of how far they lay
_GAIN_RANGE = (0.8, 1.25)  # of each channel
_GAMMA_RANGE = (0.7, 1.5)  # power of all values, dark to light


def jitter_instance_colours(image: AnnotatedImage, rng: np.random.Generator) -> AnnotatedImage:
    """Return a picture with some of its objects in other shades, each in its own.

    One of which it is not known which pixels show objects is returned as it is.

    Args:
        image: as it was rendered.
        rng: source of chance.
    """
    owners = get_complete_instance_map(image)
    if owners is None:
        return image
    count = len(image.outlines)
    is_changed = np.concatenate([[False], rng.random(count) < JITTER_PROBABILITY])
    chroma, gamma = (
        _sample_log_uniform(rng, around, (count, 1)) for around in (_CHROMA_RANGE, _GAMMA_RANGE)
    )
    gains = _sample_log_uniform(rng, _GAIN_RANGE, (count, 3))
    where = is_changed[owners]
    of = owners[where] - 1
    values = image.rgb[where].astype(np.float32) / 255
    grey = values @ np.array(LUMA_WEIGHTS, np.float32)[:, None]
    shaded = (grey + chroma[of] * (values - grey)) * gains[of]
    changed = image.rgb.copy()
    changed[where] = np.round(255 * shaded.clip(0, 1) ** gamma[of])
    return replace(image, rgb=composite(image.rgb, changed, where))


def _sample_log_uniform(
    rng: np.random.Generator, bounds: tuple[float, float], shape: tuple[int, int]
) -> NDArray[np.float32]:
    """Return draws whose logarithm is uniform."""
    return np.exp(rng.uniform(log(bounds[0]), log(bounds[1]), shape)).astype(np.float32)
