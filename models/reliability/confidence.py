"""Bringing a detector's confidences to the share of detections that are right.

Platt's scaling of the logits (1999, "Probabilistic outputs for support vector machines"), with one
temperature for all and an offset for each category. A temperature alone (Guo and others 2017, "On
calibration of modern neural networks") does not do for detectors: it leaves 0.5 where it is (Kuzucu
and others 2024, "On calibration of object detectors").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, logit
from torch import Tensor

from sim2cam.metrics.calibration import Confidences

MIN_EACH = 20
"""Right and wrong detections that a scaling is measured on, at least."""

_SLOPES = (0.05, 20.0)  # 1 / temperature, at least and at most
_OFFSETS = (-20.0, 20.0)
_NEAREST = 1e-7  # to 0 and 1: what single precision tells from them

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Scaling:
    """What the logits of confidences are divided by, and what is added then.

    Attributes:
        temperature: of all categories.
        offsets: of each category.
    """

    temperature: float
    offsets: dict[str, float]


def fitted_scaling(found: Confidences, categories: Sequence[str]) -> Scaling | None:
    """Returns the scaling that makes what is known of detections likeliest.

    A category of which fewer than ``MIN_EACH`` are right, or wrong, has the offset of all together;
    None where all together are as few.

    Args:
        found: detections whose scores no scaling has changed.
        categories: names of all that the detector tells apart.
    """
    if not _is_enough(found.right):
        return None
    temperature, common = platt(found.scores, found.right)
    offsets = dict.fromkeys(categories, common)
    for name in categories:
        mine = found.categories == name
        if _is_enough(found.right[mine]):
            offsets[name] = _offset(found.scores[mine], found.right[mine], temperature)
    return Scaling(temperature, offsets)


def platt(scores: Floats, right: NDArray[np.bool_]) -> tuple[float, float]:
    """Returns temperature and offset of the least negative log-likelihood, which has one minimum.

    Args:
        scores: confidences (n,), 0 to 1.
        right: whether each detection is (n,).
    """
    logits, sign = _logits(scores), np.where(right, 1, -1)
    fit = minimize(
        lambda x: np.logaddexp(0, -sign * (x[0] * logits + x[1])).mean(),
        (1.0, 0.0),
        method="L-BFGS-B",
        bounds=(_SLOPES, _OFFSETS),
    )
    return round(1 / float(fit.x[0]), 4), round(float(fit.x[1]), 4)


def slopes_and_offsets(scaling: Scaling | None, categories: Sequence[str]) -> Tensor | None:
    """Returns what logits are multiplied by and what is added (c, 2), in the order of class indices.

    None without a scaling.
    """
    if scaling is None:
        return None
    rows = [(1 / scaling.temperature, scaling.offsets[name]) for name in categories]
    return torch.tensor(rows, dtype=torch.float32)


def calibrated(scores: Tensor, rows: Tensor) -> Tensor:
    """Returns calibrated scores.

    Args:
        scores: 0 to 1, of any shape.
        rows: slope and offset for each score, in one more axis.
    """
    return torch.sigmoid(torch.logit(scores) * rows[..., 0] + rows[..., 1])


def before_calibration(found: Confidences, scaling: Scaling) -> Confidences:
    """Returns the same detections with the scores that they had before ``calibrated``."""
    offsets = np.array([scaling.offsets[name] for name in found.categories], np.float64)
    before = (_logits(found.scores) - offsets) * scaling.temperature
    return replace(found, scores=expit(before))


def _offset(scores: Floats, right: NDArray[np.bool_], temperature: float) -> float:
    logits, sign = _logits(scores) / temperature, np.where(right, 1, -1)
    fit = minimize_scalar(
        lambda offset: np.logaddexp(0, -sign * (logits + offset)).mean(),
        bounds=_OFFSETS,
        method="bounded",
    )
    return round(float(fit.x), 4)


def _logits(scores: Floats) -> Floats:
    return np.asarray(logit(scores.clip(_NEAREST, 1 - _NEAREST)), np.float64)


def _is_enough(right: NDArray[np.bool_]) -> bool:
    return min(int(right.sum()), int((~right).sum())) >= MIN_EACH
