"""What is odd about the pictures of a training, told before it starts."""

from __future__ import annotations

from collections import defaultdict

from sim2cam.dataset.sample import Dataset
from sim2cam.images import digest_of, file_size, read_header

_GREY = ("1", "L", "LA", "I", "I;16", "I;16B", "F")  # modes of Pillow that hold no colour


def concerns(sim: Dataset, real: Dataset) -> tuple[str, ...]:
    """Returns what a translator would learn from captures that nobody wants of it, in words.

    Captures are compared with renders by content, and asked whether their files hold colour.

    Raises:
        InputError: a picture cannot be read.
    """
    total = len(real.samples)
    copies, grey = _copies(sim, real), _without_colour(real)
    found = []
    if copies:
        found.append(
            f"{copies} of {total} captures are files of --sim, from which nothing but --sim is learned. "
            "Check --real."
        )
    if 0 < grey < total:
        found.append(
            f"{grey} of {total} captures are grey, the others have colour: translations will lose some of "
            "theirs. Leave out either."
        )
    return tuple(found)


def _copies(sim: Dataset, real: Dataset) -> int:
    """Returns how many captures have the content of a render; only files of one size are compared."""
    renders = defaultdict(list)
    for sample in sim.samples:
        renders[file_size(sample.rgb)].append(sample.rgb)
    count = 0
    for sample in real.samples:
        alike = renders.get(file_size(sample.rgb), [])
        count += bool(alike) and digest_of(sample.rgb) in map(digest_of, alike)
    return count


def _without_colour(real: Dataset) -> int:
    return sum(read_header(sample.rgb).mode in _GREY for sample in real.samples)
