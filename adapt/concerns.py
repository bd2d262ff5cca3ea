"""What is odd about the pictures of a training, told before it starts."""

from __future__ import annotations

import numpy as np

from sim2cam import images
from sim2cam.dataset.duplicates import near_duplicates
from sim2cam.dataset.sample import Dataset, Sample

_COPY_BITS = 40
"""Of a fingerprint, in which copies differ at most: recompressed at quality 50 they differ in up to 8, and the
nearest of 384,000 pairs of a render and a photo of dice in 76."""
_GREY_LEVELS = 2  # that rounding lets the colours of a grey pixel differ by in a JPEG


def concerns(sim: Dataset, real: Dataset, *, paired: bool = False) -> tuple[str, ...]:
    """Returns what a translator would learn from captures that nobody wants of it, in words.

    Captures are compared with renders by what they show, and asked whether they hold colour.

    Args:
        sim: renders.
        real: captures.
        paired: whether captures are meant to show what the renders do.

    Raises:
        InputError: a picture cannot be read.
    """
    total = len(real.samples)
    near = () if paired else near_duplicates(sim.samples, real.samples)
    copies = sum(one.bits <= _COPY_BITS for one in near)
    grey = sum(map(_is_grey, real.samples))
    found = []
    if copies:
        found.append(
            f"{copies} of {total} captures show what a picture of --sim shows, as copies of it do: nothing but "
            "--sim is learned from them. Check --real."
        )
    if 0 < grey < total:
        found.append(
            f"{grey} of {total} captures are grey, the others have colour: translations will lose some of "
            "theirs. Leave out either."
        )
    return tuple(found)


def _is_grey(sample: Sample) -> bool:
    """Returns whether no pixel of a picture has colour, whatever its file could hold."""
    spread = np.ptp(images.read_rgb(sample.rgb), axis=2)
    return bool(spread.max() <= _GREY_LEVELS)
