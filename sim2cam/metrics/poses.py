"""How well estimated poses fit the true ones: average recalls of BOP, ADD and ADD-S, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim2cam.metrics.bootstrap import Estimate, bootstrap_estimate, estimates_to_json
from sim2cam.metrics.pose_errors import (
    Floats,
    compute_add,
    compute_add_s,
    compute_mspd,
    compute_mssd,
)
from sim2cam.metrics.resampling import ResamplingUnits
from sim2cam.metrics.surface_discrepancy import VSD_TAUS

N_RESAMPLES = 1000

MSSD_THRESHOLDS = np.arange(0.05, 0.51, 0.05)
"""Limits of the surface distance, over the diameter (BOP Challenge 2019)."""
MSPD_THRESHOLDS_PX = np.arange(5.0, 51.0, 5.0)
"""Limits of the projection distance, in pixels of a picture that is ``MSPD_REFERENCE_WIDTH_PX`` wide."""
MSPD_REFERENCE_WIDTH_PX = 640
VSD_THRESHOLDS = np.arange(0.05, 0.51, 0.05)
"""Limits of the visible surface discrepancy."""
ADD_THRESHOLD = 0.1
"""Limit of ADD and ADD-S, over the diameter (Hinterstoisser et al. 2012)."""
AUC_LIMIT_M = 0.1
"""Where the area under the recall of ADD and ADD-S ends (Xiang et al. 2018, "PoseCNN")."""


@dataclass(frozen=True, eq=False)
class PoseEvaluationModel:
    """What an object is, to tell how far off its pose is.

    Attributes:
        name: of the object.
        points_m: of its surface (n, 3).
        triangles: which of them are corners of one triangle (m, 3).
        diameter_m: the largest distance between two points.
        symmetries: of ``compute_symmetry_transforms`` (k, 4, 4).
    """

    name: str
    points_m: Floats
    triangles: NDArray[np.int64]
    diameter_m: float
    symmetries: Floats


class PoseTarget(NamedTuple):
    """The instances of one object that are to be found in one picture, and what was found.

    Attributes:
        image_index: number of the picture, from 0.
        model: of the object.
        camera_matrix: matrix (3, 3) of its pinhole.
        image_width_px: of the picture, pixels.
        true_poses: poses of the instances that count (m, 4, 4).
        estimated_poses: estimated poses (n, 4, 4), surest first; more than m of them are not looked at.
        vsd: VSD of each estimate to each instance for each tau (n, m, t); None without
            depth.
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
    """How well the instances of one object in one picture were found.

    Attributes:
        image_index: number of the picture, from 0.
        name: of the object.
        errors: of each instance (m,) the ``mssd_m``, ``mspd_px``, ``add_m`` and ``add_s_m`` of the estimate that
            it is paired with, and with depth its ``vsd``, the mean over taus; infinite where there is none.
        recalls: by the name of a number of ``PoseMetrics``, how much of each instance was found (m,), 0 to 1.
    """

    image_index: int
    name: str
    errors: Mapping[str, Floats]
    recalls: Mapping[str, Floats]

    @property
    def n_instances(self) -> int:
        """How many there are."""
        return len(next(iter(self.recalls.values())))


@dataclass(frozen=True)
class PoseMetrics:
    """How well estimated poses fit.

    The numbers are: ``ar_mssd``, ``ar_mspd`` and, with depth, ``ar_vsd``, the shares of instances
    found, averaged over limits, and ``ar``, the mean of these three; ``add``, ``compute_add_s`` and
    ``add_or_s`` (ADD-S for objects with symmetries, ADD for others), shares within ``ADD_THRESHOLD`` of
    the diameter; ``auc_add``, ``auc_add_s`` and ``auc_add_or_s``, areas under that share up to ``AUC_LIMIT_M``.

    Attributes:
        all: over all instances, as BOP has average recall.
        mean: of the objects' numbers, as papers on Linemod have ADD(-S).
        objects: by the object's name.
        instances: how many there are, by the object's name.
        images: how many pictures there are.
        intervals_over: what was drawn again for the intervals, in words.
    """

    all: Mapping[str, Estimate]
    mean: Mapping[str, Estimate]
    objects: Mapping[str, Mapping[str, Estimate]]
    instances: Mapping[str, int]
    images: int
    intervals_over: str

    def to_json(self) -> dict[str, Any]:
        """Return the numbers, each as ``{"value": v, "ci95": [low, high]}``, and the counts."""
        return {
            "all": estimates_to_json(self.all),
            "mean": estimates_to_json(self.mean),
            "objects": {name: estimates_to_json(row) for name, row in self.objects.items()},
            "instances": dict(self.instances),
            "images": self.images,
            "intervals_over": self.intervals_over,
        }


class PoseEvaluator:
    """Poses held against the truth once, ready to be scored on any resample of the pictures.

    Args:
        matches: of all that was to be found; with depth everywhere or nowhere, and not empty.
        units: of the pictures.
    """

    def __init__(self, matches: Sequence[PoseMatches], units: ResamplingUnits) -> None:
        self.units = units
        self.metric_names = tuple(matches[0].recalls)
        self.object_names = sorted({one.name for one in matches})
        self._n_instances = np.zeros((len(self.object_names), units.n_images))
        self._recalled = np.zeros((len(self.object_names), units.n_images, len(self.metric_names)))
        for one in matches:
            place = self.object_names.index(one.name), one.image_index
            self._n_instances[place] += one.n_instances
            self._recalled[place] += [one.recalls[metric].sum() for metric in self.metric_names]

    @property
    def instances(self) -> dict[str, int]:
        """How many instances are to be found, by the object's name."""
        return {
            n: int(row.sum()) for n, row in zip(self.object_names, self._n_instances, strict=True)
        }

    def compute_scores(self, image_counts: NDArray[np.int64]) -> dict[str, Floats]:
        """Return the numbers of ``PoseMetrics`` over all instances, (draws,); NaN where none was drawn.

        Args:
            image_counts: how often each picture is in each resample (draws, images).
        """
        with np.errstate(invalid="ignore"):
            whole = (
                image_counts
                @ self._recalled.sum(axis=0)
                / (image_counts @ self._n_instances.sum(axis=0))[:, None]
            )
        return dict(zip(self.metric_names, whole.T, strict=True))

    def compute_object_scores(self, image_counts: NDArray[np.int64]) -> Floats:
        """Return the numbers of each object (objects, draws, metrics); takes what ``scores`` does."""
        with np.errstate(invalid="ignore"):
            gained = np.einsum("di,oim->odm", image_counts, self._recalled)
            return np.asarray(gained / (self._n_instances @ image_counts.T)[..., None])


def evaluate_poses(
    matches: Sequence[PoseMatches],
    units: ResamplingUnits,
    *,
    rng: np.random.Generator,
    n_resamples: int = N_RESAMPLES,
) -> PoseMetrics:
    """Return how well poses fit, with 95 % bootstrap intervals.

    Args:
        matches, units: as ``PoseEvaluator`` takes them.
        rng: draws the resamples.
        n_resamples: how many.
    """
    run = PoseEvaluator(matches, units)
    drawn = units.sample_image_counts(n_resamples, rng)
    counts = np.concatenate([np.ones_like(drawn[:1]), drawn])
    objects, whole = run.compute_object_scores(counts), run.compute_scores(counts)
    is_drawn = np.isfinite(objects)
    mean = np.where(is_drawn, objects, 0).sum(axis=0) / np.maximum(is_drawn.sum(axis=0), 1)
    return PoseMetrics(
        all={
            name: bootstrap_estimate(float(column[0]), column[1:]) for name, column in whole.items()
        },
        mean=_bootstrap_estimates(run.metric_names, mean),
        objects={
            n: _bootstrap_estimates(run.metric_names, row)
            for n, row in zip(run.object_names, objects, strict=True)
        },
        instances=run.instances,
        images=units.n_images,
        intervals_over=units.describe(),
    )


def match_pose_target(target: PoseTarget) -> PoseMatches:
    """Return how well the instances of an object in a picture were found."""
    model, truths, found = (
        target.model,
        target.true_poses,
        target.estimated_poses[: len(target.true_poses)],
    )

    def errors(of: Any, *also: Any) -> Floats:
        table = [[of(f, t, model.points_m, *also) for t in truths] for f in found]
        return np.array(table, np.float64).reshape(len(found), len(truths))

    tables = {
        "mssd_m": errors(compute_mssd, model.symmetries),
        "mspd_px": errors(compute_mspd, model.symmetries, target.camera_matrix),
        "add_m": errors(compute_add),
        "add_s_m": errors(compute_add_s),
    }
    credit = {
        "ar_mssd": _compute_recall(tables["mssd_m"] / model.diameter_m, MSSD_THRESHOLDS),
        "ar_mspd": _compute_recall(
            tables["mspd_px"] * MSPD_REFERENCE_WIDTH_PX / target.image_width_px, MSPD_THRESHOLDS_PX
        ),
    }
    if target.vsd is not None:
        seen = target.vsd[: len(found)]
        tables["vsd"] = seen.mean(axis=2)
        by_tau = [_compute_recall(seen[..., tau], VSD_THRESHOLDS) for tau in range(len(VSD_TAUS))]
        credit["ar_vsd"] = np.mean(by_tau, axis=0)
        credit["ar"] = np.mean(list(credit.values()), axis=0)
    plain, nearest = tables["add_m"], tables["add_s_m"]
    chosen = nearest if len(model.symmetries) > 1 else plain
    for name, distances in (("add", plain), ("add_s", nearest), ("add_or_s", chosen)):
        credit[name] = _compute_recall(distances / model.diameter_m, np.array([ADD_THRESHOLD]))
        matched = match_poses(distances, AUC_LIMIT_M)
        credit[f"auc_{name}"] = 1 - np.minimum(matched, AUC_LIMIT_M) / AUC_LIMIT_M
    paired = {name: match_poses(table, np.inf) for name, table in tables.items()}
    return PoseMatches(target.image_index, model.name, paired, credit)


def match_poses(errors: Floats, threshold: float) -> Floats:
    """Return the error (m,) with which each instance was found; infinite where it was not.

    In their order, estimates take the instance that is still free to which their error is smallest, if
    it is below the limit, as in BOP's toolkit.

    Args:
        errors: of estimates, surest first, to instances (n, m).
        threshold: of the error.
    """
    taken = np.full(errors.shape[1], np.inf)
    for row in errors:
        open_errors = np.where(np.isinf(taken), row, np.inf)
        best = int(open_errors.argmin())
        if open_errors[best] < threshold:
            taken[best] = open_errors[best]
    return taken


def _compute_recall(errors: Floats, thresholds: Floats) -> Floats:
    """Return the share of limits (m,) within which each instance was found."""
    return np.asarray(np.mean([np.isfinite(match_poses(errors, li)) for li in thresholds], axis=0))


def _bootstrap_estimates(metric_names: Sequence[str], values: Floats) -> dict[str, Estimate]:
    """Return the numbers of which the first row (1 + draws, metrics) is of all images."""
    return {
        metric: bootstrap_estimate(float(column[0]), column[1:])
        for metric, column in zip(metric_names, values.T, strict=True)
    }
