"""Silhouettes: which pixels of a picture show which object, however its data set stores that."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sim2cam.dataset.channels import read
from sim2cam.dataset.sample import Sample
from sim2cam.errors import InputError, UsageError


def seen_masks(sample: Sample) -> tuple[NDArray[np.bool_] | None, ...]:
    """Returns the mask (h, w) of what is seen of each object, in their order; None where unknown.

    Raises:
        InputError: the ids or a mask cannot be read.
    """
    ids = read("ids", sample.channels["ids"]) if "ids" in sample.channels else None
    found: list[NDArray[np.bool_] | None] = []
    for label in sample.objects or ():
        if label.mask is not None:
            try:
                found.append(label.mask.mask())
            except UsageError as error:
                raise InputError(sample.rgb, f"{error}. Label it again.") from error
        elif ids is not None and label.instance_id is not None:
            found.append(np.asarray(ids == label.instance_id))
        else:
            found.append(None)
    return tuple(found)
