"""What objects of labelled captures are like: how large, how hidden, how far, under how much light."""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping, Sequence
from typing import get_args

from sim2cam import images
from sim2cam.data.sample import Dataset, ObjectLabel, Origin, Sample
from sim2cam.metrics.detection import Detection
from sim2cam.metrics.error_analysis import judge
from sim2cam.metrics.resampling import units_of
from sim2cam.metrics.slices import SIDES_PX, VISIBLE, Judged, Slice, Trait, slices_of
from sim2cam.seeds import stream

_GREYS = (64, 128, 192)
_OCCLUSIONS = ("next to none", "a part", "most")


def slice_errors(
    captures: Dataset, predictions: Mapping[str, Sequence[Detection]], threshold: float
) -> list[Slice]:
    """Return the shares of objects that are right or not, by size, visible share or occlusion, distance, and their images by
    brightness, origin and session.

    Args:
        captures: labelled images.
        predictions: by the image's name.
        threshold: score from which on they count.

    Raises:
        InputError: an image cannot be read.
    """
    judged = [
        Judged(number, verdict, of_image | _traits((sample.objects or ())[verdict.number]))
        for number, sample in enumerate(captures.samples)
        for of_image in [_image_traits(sample)]
        for verdict in judge(sample.objects or (), predictions[sample.name], threshold)
        if verdict.number is not None
    ]
    return slices_of(judged, units_of(captures.samples), stream(0, "slices"))


def _image_traits(sample: Sample) -> dict[str, Trait]:
    grey = float(images.read_rgb(sample.rgb).mean())
    origin = Trait(get_args(Origin).index(sample.origin), sample.origin)
    traits = {"brightness": _bin(grey, _GREYS, " of 255"), "origin": origin}
    return traits | ({} if sample.session is None else {"session": Trait(0, sample.session)})


def _traits(label: ObjectLabel) -> dict[str, Trait]:
    x0, y0, x1, y1 = label.box_xyxy
    traits = {"size": _bin(max(x1 - x0, y1 - y0), SIDES_PX, " px")}
    if label.visible_fraction is not None:
        traits["visible"] = _bin(label.visible_fraction, VISIBLE, "")
    if label.occlusion is not None:
        traits["occlusion"] = Trait(label.occlusion, _OCCLUSIONS[label.occlusion])
    if label.pose is not None:
        low = 2.0 ** math.floor(math.log2(max(label.pose.position_m[2], 1e-3)))
        traits["distance"] = Trait(low, f"{low:g} to {2 * low:g} m")
    return traits


def _bin(value: float, edges: Sequence[float], unit: str) -> Trait:
    """Returns between which edges a value lies."""
    i = bisect.bisect_right(edges, value)
    if i == 0:
        return Trait(i, f"below {edges[0]:g}{unit}")
    if i == len(edges):
        return Trait(i, f"{edges[-1]:g}{unit} or more")
    return Trait(i, f"{edges[i - 1]:g} to {edges[i]:g}{unit}")
