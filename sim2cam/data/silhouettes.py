"""Visible masks of objects, from the ids channel or from labels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sim2cam.data.channels import read_channel
from sim2cam.data.sample import ObjectLabel, Sample
from sim2cam.errors import InputError, UsageError


def read_visible_masks(sample: Sample) -> tuple[NDArray[np.bool_] | None, ...]:
    """Return the visible mask (h, w) of each object, in order; None if unknown.

    Raises:
        InputError: If the ids channel or a mask cannot be read.
    """
    ids = read_channel("ids", sample.channels["ids"]) if "ids" in sample.channels else None
    masks: list[NDArray[np.bool_] | None] = []
    for label in sample.objects or ():
        if label.mask is not None:
            try:
                masks.append(label.mask.decode())
            except UsageError as error:
                raise InputError(sample.rgb, f"{error}. Label it again.") from error
        elif ids is not None and label.instance_id is not None:
            masks.append(np.asarray(ids == label.instance_id))
        else:
            masks.append(None)
    return tuple(masks)


def rasterize_instance_ids(
    sample: Sample,
) -> tuple[tuple[ObjectLabel, ...] | None, NDArray[np.uint16] | None]:
    """Return labels with instance ids from 1 and their id image (h, w), from the labels' masks.

    The last mask wins where masks overlap. If an object that is no crowd lacks a mask, the labels are returned
    unchanged, with None.

    Raises:
        InputError: If a mask cannot be read.
    """
    single = tuple(label for label in sample.objects or () if not label.is_crowd)
    masks = read_visible_masks(replace(sample, objects=single, channels={}))
    known_masks = [mask for mask in masks if mask is not None]
    if not known_masks or len(known_masks) < len(single):
        return sample.objects, None
    ids = np.zeros((sample.height, sample.width), np.uint16)
    for number, mask in enumerate(known_masks, 1):
        ids[mask] = number
    return tuple(replace(label, instance_id=number) for number, label in enumerate(single, 1)), ids
