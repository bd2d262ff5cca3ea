"""Instance colour jitter.

Textures of scans carry the colours of their camera, light and white balance, usually duller than those of another
camera. Photometric augmentation of whole images keeps objects dull relative to their surroundings.
"""

from __future__ import annotations

from dataclasses import replace
from math import log

import numpy as np
from numpy.typing import NDArray

from sim2cam.images import LUMA_WEIGHTS
from sim2cam.models.augment.overlay import composite
from sim2cam.models.training.images import AnnotatedImage, get_complete_instance_map

JITTER_PROBABILITY = 0.75  # per object

_CHROMA_RANGE = (0.5, 2.5)  # factor on the distance from grey
_GAIN_RANGE = (0.8, 1.25)  # per channel
_GAMMA_RANGE = (0.7, 1.5)


def jitter_instance_colours(image: AnnotatedImage, rng: np.random.Generator) -> AnnotatedImage:
    """Return an image with the colours of some objects changed, each independently.

    An image without a complete instance map is returned unchanged.
    """
    instance_map = get_complete_instance_map(image)
    if instance_map is None:
        return image
    count = len(image.outlines)
    is_changed = np.concatenate([[False], rng.random(count) < JITTER_PROBABILITY])
    chroma, gamma = (
        _sample_log_uniform(rng, bounds, (count, 1)) for bounds in (_CHROMA_RANGE, _GAMMA_RANGE)
    )
    gains = _sample_log_uniform(rng, _GAIN_RANGE, (count, 3))
    mask = is_changed[instance_map]
    indices = instance_map[mask] - 1
    values = image.rgb[mask].astype(np.float32) / 255
    grey = values @ np.array(LUMA_WEIGHTS, np.float32)[:, None]
    jittered = (grey + chroma[indices] * (values - grey)) * gains[indices]
    rgb = image.rgb.copy()
    rgb[mask] = np.round(255 * jittered.clip(0, 1) ** gamma[indices])
    return replace(image, rgb=composite(image.rgb, rgb, mask))


def _sample_log_uniform(
    rng: np.random.Generator, bounds: tuple[float, float], shape: tuple[int, int]
) -> NDArray[np.float32]:
    """Return log-uniform samples."""
    return np.exp(rng.uniform(log(bounds[0]), log(bounds[1]), shape)).astype(np.float32)
