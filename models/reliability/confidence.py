"""Calibration of a detector's confidences.

Platt scaling of the logits (1999, "Probabilistic outputs for support vector machines") with a common temperature and
an offset per category. Temperature alone (Guo et al. 2017, "On calibration of modern neural networks") cannot
calibrate detectors, since it keeps 0.5 fixed (Kuzucu et al. 2024, "On calibration of object detectors").
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
"""Smallest number of correct and of wrong detections for a fit."""

_SLOPE_BOUNDS = (0.05, 20.0)  # of 1 / temperature
_OFFSET_BOUNDS = (-20.0, 20.0)
_SCORE_EPSILON = 1e-7  # distance from 0 and 1 that single precision resolves

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ScoreCalibration:
    """Platt scaling of confidences: logits are divided by the temperature, then the offset is added.

    Attributes:
        temperature: temperature of all categories.
        offsets: offset of each category.
    """

    temperature: float
    offsets: dict[str, float]


def fit_score_calibration(
    confidences: ScoredDetections, categories: Sequence[str]
) -> ScoreCalibration | None:
    """Fit the calibration with the highest likelihood.

    A category with fewer than ``MIN_PER_OUTCOME`` correct or wrong detections gets the common offset. Return None if
    all categories together have too few.

    Args:
        confidences: detections with uncalibrated scores.
    """
    if not _has_enough_outcomes(confidences.is_true_positive):
        return None
    temperature, common_offset = fit_platt_scaling(confidences.scores, confidences.is_true_positive)
    offsets = dict.fromkeys(categories, common_offset)
    for name in categories:
        is_category = confidences.categories == name
        if _has_enough_outcomes(confidences.is_true_positive[is_category]):
            offsets[name] = _fit_offset(
                confidences.scores[is_category],
                confidences.is_true_positive[is_category],
                temperature,
            )
    return ScoreCalibration(temperature, offsets)


def fit_platt_scaling(scores: Floats, is_correct: NDArray[np.bool_]) -> tuple[float, float]:
    """Return temperature and offset with the lowest negative log-likelihood, a convex problem.

    Args:
        scores: confidences (n,), 0 to 1.
        is_correct: whether each detection is correct (n,).
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
    """Return slope and offset of the logits of each category (c, 2); None without a calibration."""
    if calibration is None:
        return None
    rows = [(1 / calibration.temperature, calibration.offsets[name]) for name in categories]
    return torch.tensor(rows, dtype=torch.float32)


def calibrate_scores(scores: Tensor, slopes_offsets: Tensor) -> Tensor:
    """Return calibrated scores.

    Args:
        scores: scores of any shape, 0 to 1.
        slopes_offsets: slope and offset for each score, in one additional axis.
    """
    return torch.sigmoid(torch.logit(scores) * slopes_offsets[..., 0] + slopes_offsets[..., 1])


def undo_calibration(
    confidences: ScoredDetections, calibration: ScoreCalibration
) -> ScoredDetections:
    """Return the detections with the scores before calibration."""
    offsets = np.array([calibration.offsets[name] for name in confidences.categories], np.float64)
    logits = (_compute_logits(confidences.scores) - offsets) * calibration.temperature
    return replace(confidences, scores=expit(logits))


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
