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

from sim2cam.metrics.calibration import ScoredDetections

MIN_PER_OUTCOME = 20
"""Right and wrong detections that a scaling is measured on, at least."""

_SLOPE_BOUNDS = (0.05, 20.0)  # 1 / temperature, at least and at most
_OFFSET_BOUNDS = (-20.0, 20.0)
_SCORE_EPSILON = 1e-7  # to 0 and 1: what single precision tells from them

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ScoreCalibration:
    """What the logits of confidences are divided by, and what is added then.

    Attributes:
        temperature: of all categories.
        offsets: of each category.
    """

    temperature: float
    offsets: dict[str, float]


def fit_score_calibration(
    confidences: ScoredDetections, categories: Sequence[str]
) -> ScoreCalibration | None:
    """Return the scaling that makes what is known of detections likeliest.

    A category of which fewer than ``MIN_PER_OUTCOME`` are right, or wrong, has the offset of all together;
    None where all together are as few.

    Args:
        confidences: detections whose scores no scaling has changed.
        categories: names of all that the detector tells apart.
    """
    if not _has_enough_outcomes(confidences.is_true_positive):
        return None
    temperature, common = fit_platt_scaling(confidences.scores, confidences.is_true_positive)
    offsets = dict.fromkeys(categories, common)
    for name in categories:
        mine = confidences.categories == name
        if _has_enough_outcomes(confidences.is_true_positive[mine]):
            offsets[name] = _fit_offset(
                confidences.scores[mine], confidences.is_true_positive[mine], temperature
            )
    return ScoreCalibration(temperature, offsets)


def fit_platt_scaling(scores: Floats, is_correct: NDArray[np.bool_]) -> tuple[float, float]:
    """Return temperature and offset of the least negative log-likelihood, which has one minimum.

    Args:
        scores: confidences (n,), 0 to 1.
        is_correct: whether each detection is (n,).
    """
    logits, sign = _compute_logits(scores), np.where(is_correct, 1, -1)
    fit = minimize(
        lambda x: np.logaddexp(0, -sign * (x[0] * logits + x[1])).mean(),
        (1.0, 0.0),
        method="L-BFGS-B",
        bounds=(_SLOPE_BOUNDS, _OFFSET_BOUNDS),
    )
    return round(1 / float(fit.x[0]), 4), round(float(fit.x[1]), 4)


def stack_calibration(
    calibration: ScoreCalibration | None, categories: Sequence[str]
) -> Tensor | None:
    """Return what logits are multiplied by and what is added (c, 2), in the order of class indices.

    None without a scaling.
    """
    if calibration is None:
        return None
    rows = [(1 / calibration.temperature, calibration.offsets[name]) for name in categories]
    return torch.tensor(rows, dtype=torch.float32)


def calibrate_scores(scores: Tensor, slopes_offsets: Tensor) -> Tensor:
    """Return calibrated scores.

    Args:
        scores: 0 to 1, of any shape.
        slopes_offsets: slope and offset for each score, in one more axis.
    """
    return torch.sigmoid(torch.logit(scores) * slopes_offsets[..., 0] + slopes_offsets[..., 1])


def undo_calibration(
    confidences: ScoredDetections, calibration: ScoreCalibration
) -> ScoredDetections:
    """Return the same detections with the scores that they had before ``calibrated``."""
    offsets = np.array([calibration.offsets[name] for name in confidences.categories], np.float64)
    before = (_compute_logits(confidences.scores) - offsets) * calibration.temperature
    return replace(confidences, scores=expit(before))


def _fit_offset(scores: Floats, is_correct: NDArray[np.bool_], temperature: float) -> float:
    logits, sign = _compute_logits(scores) / temperature, np.where(is_correct, 1, -1)
    fit = minimize_scalar(
        lambda offset: np.logaddexp(0, -sign * (logits + offset)).mean(),
        bounds=_OFFSET_BOUNDS,
        method="bounded",
    )
    return round(float(fit.x), 4)


def _compute_logits(scores: Floats) -> Floats:
    return np.asarray(logit(scores.clip(_SCORE_EPSILON, 1 - _SCORE_EPSILON)), np.float64)


def _has_enough_outcomes(is_correct: NDArray[np.bool_]) -> bool:
    return min(int(is_correct.sum()), int((~is_correct).sum())) >= MIN_PER_OUTCOME
