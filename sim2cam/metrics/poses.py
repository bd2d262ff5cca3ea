"""Recall of estimated object poses: average recalls of BOP, ADD and ADD-S, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim2cam.metrics.bootstrap import Estimate, bootstrap_estimate, fields_to_json
from sim2cam.metrics.pose_errors import (
    Floats,
    compute_add,
    compute_add_s,
    compute_mspd,
    compute_mssd,
)
from sim2cam.metrics.resampling import N_RESAMPLES, ResamplingUnits
from sim2cam.metrics.surface_discrepancy import VSD_TAUS

MSSD_THRESHOLDS = np.arange(0.05, 0.51, 0.05)
"""Thresholds of MSSD over the diameter (BOP Challenge 2019)."""
MSPD_THRESHOLDS_PX = np.arange(5.0, 51.0, 5.0)
"""Thresholds of MSPD in pixels of an image of width ``MSPD_REFERENCE_WIDTH_PX``."""
MSPD_REFERENCE_WIDTH_PX = 640
VSD_THRESHOLDS = np.arange(0.05, 0.51, 0.05)
"""Thresholds of the visible surface discrepancy."""
ADD_THRESHOLD = 0.1
"""Threshold of ADD and ADD-S over the diameter (Hinterstoisser et al. 2012)."""
AUC_LIMIT_M = 0.1
"""Upper limit of the area under the recall curve of ADD and ADD-S (Xiang et al. 2018, "PoseCNN")."""


@dataclass(frozen=True, eq=False)
class PoseEvaluationModel:
    """Object model for pose evaluation.

    Attributes:
        points_m: surface points (n, 3).
        triangles: indices of triangle corners (m, 3).
        diameter_m: largest distance between two points.
        symmetries: result of ``compute_symmetry_transforms`` (k, 4, 4).
    """

    name: str
    points_m: Floats
    triangles: NDArray[np.int64]
    diameter_m: float
    symmetries: Floats


class PoseTarget(NamedTuple):
    """True and estimated poses of one object in one image.

    Attributes:
        camera_matrix: pinhole camera matrix (3, 3).
        true_poses: poses of the scored instances (m, 4, 4).
        estimated_poses: estimated poses (n, 4, 4), by falling score; only the first m count.
        vsd: VSD of each estimate to each instance for each tau (n, m, t); None without depth.
    """

    image_index: int
    model: PoseEvaluationModel
    camera_matrix: Floats
    image_width_px: int
    true_poses: Floats
    estimated_poses: Floats
    vsd: Floats | None = None


@dataclass(frozen=True, eq=False)
class PoseMatches:
    """Matched instances of one object in one image.

    Attributes:
        errors: for each instance (m,), ``mssd_m``, ``mspd_px``, ``add_m`` and ``add_s_m`` of the
            matched estimate, and with depth ``vsd``, the mean over taus; infinite without a match.
        recalls: recall of each instance (m,), 0 to 1, by the name of the metric in ``PoseMetrics``.
    """

    image_index: int
    name: str
    errors: Mapping[str, Floats]
    recalls: Mapping[str, Floats]

    @property
    def n_instances(self) -> int:
        """Number of instances."""
        return len(next(iter(self.recalls.values())))


@dataclass(frozen=True)
class PoseMetrics:
    """Recall of estimated poses.

    Metrics are ``ar_mssd``, ``ar_mspd`` and, with depth, ``ar_vsd``: recall averaged over
    thresholds; ``ar``, their mean; ``add``, ``add_s`` and ``add_or_s`` (ADD-S for objects with
    symmetries, else ADD): recall at ``ADD_THRESHOLD`` of the diameter; ``auc_add``, ``auc_add_s``
    and ``auc_add_or_s``: area under the recall curve up to ``AUC_LIMIT_M``.

    Attributes:
        all: over all instances, as BOP's average recall.
        mean: mean over objects, as ADD(-S) on Linemod.
    """

    all: Mapping[str, Estimate]
    mean: Mapping[str, Estimate]
    objects: Mapping[str, Mapping[str, Estimate]]
    instances: Mapping[str, int]
    images: int
    intervals_over: str

    def to_json(self) -> dict[str, Any]:
        """Return estimates as ``{"value": v, "ci95": [low, high]}``, and the counts."""
        return fields_to_json(self)


class PoseEvaluator:
    """Matched poses that can be scored on any resample of the images.

    Args:
        matches: matches of all targets; with depth for all or none, not empty.
    """

    def __init__(self, matches: Sequence[PoseMatches], units: ResamplingUnits) -> None:
        self.units = units
        self.metric_names = tuple(matches[0].recalls)
        self.object_names = sorted({match.name for match in matches})
        self._n_instances = np.zeros((len(self.object_names), units.n_images))
        self._recalled = np.zeros((len(self.object_names), units.n_images, len(self.metric_names)))
        for match in matches:
            cell = self.object_names.index(match.name), match.image_index
            self._n_instances[cell] += match.n_instances
            self._recalled[cell] += [match.recalls[metric].sum() for metric in self.metric_names]

    @property
    def instances(self) -> dict[str, int]:
        """Number of instances by object name."""
        return {
            n: int(row.sum()) for n, row in zip(self.object_names, self._n_instances, strict=True)
        }

    def compute_scores(self, image_counts: NDArray[np.int64]) -> dict[str, Floats]:
        """Return the metrics over all instances (n_resamples,) by name; NaN without instances."""
        with np.errstate(invalid="ignore"):
            n_instances = image_counts @ self._n_instances.sum(axis=0)
            recalls = image_counts @ self._recalled.sum(axis=0) / n_instances[:, None]
        return dict(zip(self.metric_names, recalls.T, strict=True))

    def compute_object_scores(self, image_counts: NDArray[np.int64]) -> Floats:
        """Return the metrics of each object (objects, n_resamples, metrics)."""
        with np.errstate(invalid="ignore"):
            recalled = np.einsum("di,oim->odm", image_counts, self._recalled)
            return np.asarray(recalled / (self._n_instances @ image_counts.T)[..., None])


def evaluate_poses(
    matches: Sequence[PoseMatches],
    units: ResamplingUnits,
    *,
    rng: np.random.Generator,
    n_resamples: int = N_RESAMPLES,
) -> PoseMetrics:
    """Return pose metrics with 95 % bootstrap intervals."""
    evaluator = PoseEvaluator(matches, units)
    resampled = units.sample_image_counts(n_resamples, rng)
    counts = np.concatenate([np.ones_like(resampled[:1]), resampled])
    object_scores = evaluator.compute_object_scores(counts)
    is_defined = np.isfinite(object_scores)
    mean = np.where(is_defined, object_scores, 0).sum(axis=0)
    mean /= np.maximum(is_defined.sum(axis=0), 1)
    names = evaluator.metric_names
    objects = zip(evaluator.object_names, object_scores, strict=True)
    return PoseMetrics(
        all=_bootstrap_estimates(evaluator.compute_scores(counts)),
        mean=_bootstrap_estimates(dict(zip(names, mean.T, strict=True))),
        objects={n: _bootstrap_estimates(dict(zip(names, o.T, strict=True))) for n, o in objects},
        instances=evaluator.instances,
        images=units.n_images,
        intervals_over=units.describe(),
    )


def match_pose_target(target: PoseTarget) -> PoseMatches:
    """Return the matches and recalls of an object's instances in an image."""
    model, true_poses = target.model, target.true_poses
    estimates = target.estimated_poses[: len(true_poses)]

    def compute_errors(compute_error: Any, *arguments: Any) -> Floats:
        table = [
            [compute_error(estimate, truth, model.points_m, *arguments) for truth in true_poses]
            for estimate in estimates
        ]
        return np.array(table, np.float64).reshape(len(estimates), len(true_poses))

    errors = {
        "mssd_m": compute_errors(compute_mssd, model.symmetries),
        "mspd_px": compute_errors(compute_mspd, model.symmetries, target.camera_matrix),
        "add_m": compute_errors(compute_add),
        "add_s_m": compute_errors(compute_add_s),
    }
    recalls = {
        "ar_mssd": _compute_recall(errors["mssd_m"] / model.diameter_m, MSSD_THRESHOLDS),
        "ar_mspd": _compute_recall(
            errors["mspd_px"] * MSPD_REFERENCE_WIDTH_PX / target.image_width_px, MSPD_THRESHOLDS_PX
        ),
    }
    if target.vsd is not None:
        vsd = target.vsd[: len(estimates)]
        errors["vsd"] = vsd.mean(axis=2)
        by_tau = [_compute_recall(vsd[..., tau], VSD_THRESHOLDS) for tau in range(len(VSD_TAUS))]
        recalls["ar_vsd"] = np.mean(by_tau, axis=0)
        recalls["ar"] = np.mean(list(recalls.values()), axis=0)
    add, add_s = errors["add_m"], errors["add_s_m"]
    add_or_s = add_s if len(model.symmetries) > 1 else add
    for name, distances in (("add", add), ("add_s", add_s), ("add_or_s", add_or_s)):
        recalls[name] = _compute_recall(distances / model.diameter_m, np.array([ADD_THRESHOLD]))
        matched = match_poses(distances, AUC_LIMIT_M)
        recalls[f"auc_{name}"] = 1 - np.minimum(matched, AUC_LIMIT_M) / AUC_LIMIT_M
    matched_errors = {name: match_poses(table, np.inf) for name, table in errors.items()}
    return PoseMatches(target.image_index, model.name, matched_errors, recalls)


def match_poses(errors: Floats, threshold: float) -> Floats:
    """Return the error (m,) of the estimate matched to each instance; infinite without a match.

    Each estimate in turn takes the free instance with the smallest error, if below the threshold,
    as in BOP's toolkit.

    Args:
        errors: errors of estimates, by falling score, to instances (n, m).
    """
    matched = np.full(errors.shape[1], np.inf)
    for row in errors:
        free_errors = np.where(np.isinf(matched), row, np.inf)
        best = int(free_errors.argmin())
        if free_errors[best] < threshold:
            matched[best] = free_errors[best]
    return matched


def _compute_recall(errors: Floats, thresholds: Floats) -> Floats:
    """Return the fraction of thresholds (m,) that each instance's error stays below."""
    is_recalled = [np.isfinite(match_poses(errors, limit)) for limit in thresholds]
    return np.asarray(np.mean(is_recalled, axis=0))


def _bootstrap_estimates(scores: Mapping[str, Floats]) -> dict[str, Estimate]:
    """Return estimates of scores (1 + n_resamples,), the first one over all images."""
    return {n: bootstrap_estimate(float(values[0]), values[1:]) for n, values in scores.items()}
