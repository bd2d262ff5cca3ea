"""Silhouettes: which pixels of a picture show which object, however its data set stores that."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sim2cam.data.channels import read_channel
from sim2cam.data.sample import ObjectLabel, Sample
from sim2cam.errors import InputError, UsageError


def read_visible_masks(sample: Sample) -> tuple[NDArray[np.bool_] | None, ...]:
    """Return the mask (h, w) of what is seen of each object, in their order; None where unknown.

    Raises:
        InputError: the ids or a mask cannot be read.
    """
    ids = read_channel("ids", sample.channels["ids"]) if "ids" in sample.channels else None
    found: list[NDArray[np.bool_] | None] = []
    for label in sample.objects or ():
        if label.mask is not None:
            try:
                found.append(label.mask.decode())
            except UsageError as error:
                raise InputError(sample.rgb, f"{error}. Label it again.") from error
        elif ids is not None and label.instance_id is not None:
            found.append(np.asarray(ids == label.instance_id))
        else:
            found.append(None)
    return tuple(found)


def rasterize_instance_ids(
    sample: Sample,
) -> tuple[tuple[ObjectLabel, ...] | None, NDArray[np.uint16] | None]:
    """Return labels with instance ids from 1, and the image of these (h, w) as their masks have it; the labels
    as they are, and None, where one that is no group has no mask.

    Of pixels that several masks claim, the last one has them.

    Raises:
        InputError: a mask cannot be read.
    """
    single = tuple(label for label in sample.objects or () if not label.is_crowd)
    masks = read_visible_masks(replace(sample, objects=single, channels={}))
    known = [mask for mask in masks if mask is not None]
    if not known or len(known) < len(single):
        return sample.objects, None
    ids = np.zeros((sample.height, sample.width), np.uint16)
    for number, mask in enumerate(known, 1):
        ids[mask] = number
    return tuple(replace(label, instance_id=n) for n, label in enumerate(single, 1)), ids
