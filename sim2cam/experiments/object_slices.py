"""Errors of a detector by object size, visibility, distance and image brightness."""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping, Sequence
from typing import get_args

from sim2cam import images
from sim2cam.data.sample import Dataset, ObjectLabel, Origin, Sample
from sim2cam.metrics.detection import Detection
from sim2cam.metrics.error_analysis import classify_detections, classify_objects
from sim2cam.metrics.resampling import group_images
from sim2cam.metrics.slices import (
    SIZE_EDGES_PX,
    VISIBILITY_EDGES,
    AttributeValue,
    EvaluatedObject,
    Slice,
    compute_slices,
)
from sim2cam.seeds import derive_rng

_BRIGHTNESS_EDGES = (64, 128, 192)
_OCCLUSION_LEVELS = ("fully visible", "partly occluded", "largely occluded")


def slice_errors(
    captures: Dataset, predictions: Mapping[str, Sequence[Detection]], threshold: float
) -> list[Slice]:
    """Return the error rates of objects by attribute.

    Object attributes are size, visible fraction or occlusion, and distance; image attributes are
    brightness, origin and session.

    Raises:
        InputError: if an image cannot be read.
    """
    objects = [
        EvaluatedObject(
            number,
            result,
            image_attributes | _describe_object((sample.objects or ())[index]),
        )
        for number, sample in enumerate(captures.samples)
        for image_attributes in [_describe_image(sample)]
        for index, result in classify_objects(
            classify_detections(sample.objects or (), predictions[sample.name], threshold)
        ).items()
    ]
    return compute_slices(objects, group_images(captures.samples), derive_rng(0, "slices"))


def _describe_image(sample: Sample) -> dict[str, AttributeValue]:
    brightness = float(images.read_rgb(sample.rgb).mean())
    origin = AttributeValue(get_args(Origin).index(sample.origin), sample.origin)
    attributes = {
        "brightness": _assign_bin(brightness, _BRIGHTNESS_EDGES, " of 255"),
        "origin": origin,
    }
    return attributes | (
        {} if sample.session is None else {"session": AttributeValue(0, sample.session)}
    )


def _describe_object(label: ObjectLabel) -> dict[str, AttributeValue]:
    x0, y0, x1, y1 = label.box_xyxy
    attributes = {"size": _assign_bin(max(x1 - x0, y1 - y0), SIZE_EDGES_PX, " px")}
    if label.visible_fraction is not None:
        attributes["visible"] = _assign_bin(label.visible_fraction, VISIBILITY_EDGES, "")
    if label.occlusion is not None:
        attributes["occlusion"] = AttributeValue(
            label.occlusion, _OCCLUSION_LEVELS[label.occlusion]
        )
    if label.pose is not None:
        low = 2.0 ** math.floor(math.log2(max(label.pose.position_m[2], 1e-3)))
        attributes["distance"] = AttributeValue(low, f"{low:g} to {2 * low:g} m")
    return attributes


def _assign_bin(value: float, edges: Sequence[float], unit: str) -> AttributeValue:
    """Return the bin of a value between edges."""
    i = bisect.bisect_right(edges, value)
    if i == 0:
        return AttributeValue(i, f"below {edges[0]:g}{unit}")
    if i == len(edges):
        return AttributeValue(i, f"{edges[-1]:g}{unit} or more")
    return AttributeValue(i, f"{edges[i - 1]:g} to {edges[i]:g}{unit}")
