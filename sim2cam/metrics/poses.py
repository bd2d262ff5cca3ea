"""How well estimated poses fit the true ones: average recalls of BOP, ADD and ADD-S, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim2cam.metrics.bootstrap import Estimate, estimate, estimates_json
from sim2cam.metrics.pose_errors import Floats, add, add_s, mspd, mssd
from sim2cam.metrics.resampling import Units
from sim2cam.metrics.surface_discrepancy import TAUS

DRAWS = 1000

MSSD_SHARES = np.arange(0.05, 0.51, 0.05)
"""Limits of the surface distance, over the diameter (BOP Challenge 2019)."""
MSPD_PX = np.arange(5.0, 51.0, 5.0)
"""Limits of the projection distance, in pixels of a picture that is ``MSPD_WIDTH`` wide."""
MSPD_WIDTH = 640
VSD_SHARES = np.arange(0.05, 0.51, 0.05)
"""Limits of the visible surface discrepancy."""
ADD_SHARE = 0.1
"""Limit of ADD and ADD-S, over the diameter (Hinterstoisser et al. 2012)."""
AUC_M = 0.1
"""Where the area under the recall of ADD and ADD-S ends (Xiang et al. 2018, "PoseCNN")."""


@dataclass(frozen=True, eq=False)
class PoseModel:
    """What an object is, to tell how far off its pose is.

    Attributes:
        name: of the object.
        points_m: of its surface (n, 3).
        triangles: which of them are corners of one triangle (m, 3).
        diameter_m: the largest distance between two points.
        symmetries: of ``symmetry_transforms`` (k, 4, 4).
    """

    name: str
    points_m: Floats
    triangles: NDArray[np.int64]
    diameter_m: float
    symmetries: Floats


class Sought(NamedTuple):
    """The instances of one object that are to be found in one picture, and what was found.

    Attributes:
        image: number of the picture, from 0.
        model: of the object.
        camera: matrix (3, 3) of its pinhole.
        width: of the picture, pixels.
        truths: poses of the instances that count (m, 4, 4).
        found: estimated poses (n, 4, 4), surest first; more than m of them are not looked at.
        discrepancies: VSD of each estimate to each instance for each tau (n, m, t); None without
            depth.
    """

    image: int
    model: PoseModel
    camera: Floats
    width: int
    truths: Floats
    found: Floats
    discrepancies: Floats | None = None


@dataclass(frozen=True, eq=False)
class Placings:
    """How well the instances of one object in one picture were found.

    Attributes:
        image: number of the picture, from 0.
        name: of the object.
        errors: of each instance (m,) the ``mssd_m``, ``mspd_px``, ``add_m`` and ``add_s_m`` of the estimate that
            it is paired with, and with depth its ``vsd``, the mean over taus; infinite where there is none.
        credit: by the name of a number of ``PoseScore``, how much of each instance was found (m,), 0 to 1.
    """

    image: int
    name: str
    errors: Mapping[str, Floats]
    credit: Mapping[str, Floats]

    @property
    def instances(self) -> int:
        """How many there are."""
        return len(next(iter(self.credit.values())))


@dataclass(frozen=True)
class PoseScore:
    """How well estimated poses fit.

    The numbers are: ``ar_mssd``, ``ar_mspd`` and, with depth, ``ar_vsd``, the shares of instances
    found, averaged over limits, and ``ar``, the mean of these three; ``add``, ``add_s`` and
    ``add_or_s`` (ADD-S for objects with symmetries, ADD for others), shares within ``ADD_SHARE`` of
    the diameter; ``auc_add``, ``auc_add_s`` and ``auc_add_or_s``, areas under that share up to ``AUC_M``.

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
        """Returns the numbers, each as ``{"value": v, "ci95": [low, high]}``, and the counts."""
        return {
            "all": estimates_json(self.all),
            "mean": estimates_json(self.mean),
            "objects": {name: estimates_json(row) for name, row in self.objects.items()},
            "instances": dict(self.instances),
            "images": self.images,
            "intervals_over": self.intervals_over,
        }


class PoseRun:
    """Poses held against the truth once, ready to be scored on any resample of the pictures.

    Args:
        placings: of all that was to be found; with depth everywhere or nowhere, and not empty.
        units: of the pictures.
    """

    def __init__(self, placings: Sequence[Placings], units: Units) -> None:
        self.units = units
        self.metrics = tuple(placings[0].credit)
        self.names = sorted({one.name for one in placings})
        self._totals = np.zeros((len(self.names), units.n_images))
        self._gained = np.zeros((len(self.names), units.n_images, len(self.metrics)))
        for one in placings:
            place = self.names.index(one.name), one.image
            self._totals[place] += one.instances
            self._gained[place] += [one.credit[metric].sum() for metric in self.metrics]

    @property
    def instances(self) -> dict[str, int]:
        """How many instances are to be found, by the object's name."""
        return {n: int(row.sum()) for n, row in zip(self.names, self._totals, strict=True)}

    def scores(self, counts: NDArray[np.int64]) -> dict[str, Floats]:
        """Returns the numbers of ``PoseScore`` over all instances, (draws,); NaN where none was drawn.

        Args:
            counts: how often each picture is in each resample (draws, images).
        """
        with np.errstate(invalid="ignore"):
            whole = counts @ self._gained.sum(axis=0) / (counts @ self._totals.sum(axis=0))[:, None]
        return dict(zip(self.metrics, whole.T, strict=True))

    def object_scores(self, counts: NDArray[np.int64]) -> Floats:
        """Returns the numbers of each object (objects, draws, metrics); takes what ``scores`` does."""
        with np.errstate(invalid="ignore"):
            gained = np.einsum("di,oim->odm", counts, self._gained)
            return np.asarray(gained / (self._totals @ counts.T)[..., None])


def evaluate_poses(
    placings: Sequence[Placings], units: Units, *, rng: np.random.Generator, draws: int = DRAWS
) -> PoseScore:
    """Returns how well poses fit, with 95 % bootstrap intervals.

    Args:
        placings, units: as ``PoseRun`` takes them.
        rng: draws the resamples.
        draws: how many.
    """
    run = PoseRun(placings, units)
    drawn = units.resampled(draws, rng)
    counts = np.concatenate([np.ones_like(drawn[:1]), drawn])
    objects, whole = run.object_scores(counts), run.scores(counts)
    is_drawn = np.isfinite(objects)
    mean = np.where(is_drawn, objects, 0).sum(axis=0) / np.maximum(is_drawn.sum(axis=0), 1)
    return PoseScore(
        all={name: estimate(float(column[0]), column[1:]) for name, column in whole.items()},
        mean=_estimates(run.metrics, mean),
        objects={
            n: _estimates(run.metrics, row) for n, row in zip(run.names, objects, strict=True)
        },
        instances=run.instances,
        images=units.n_images,
        intervals_over=units.words(),
    )


def judge_poses(one: Sought) -> Placings:
    """Returns how well the instances of an object in a picture were found."""
    model, truths, found = one.model, one.truths, one.found[: len(one.truths)]

    def errors(of: Any, *also: Any) -> Floats:
        table = [[of(f, t, model.points_m, *also) for t in truths] for f in found]
        return np.array(table, np.float64).reshape(len(found), len(truths))

    tables = {
        "mssd_m": errors(mssd, model.symmetries),
        "mspd_px": errors(mspd, model.symmetries, one.camera),
        "add_m": errors(add),
        "add_s_m": errors(add_s),
    }
    credit = {
        "ar_mssd": _recall(tables["mssd_m"] / model.diameter_m, MSSD_SHARES),
        "ar_mspd": _recall(tables["mspd_px"] * MSPD_WIDTH / one.width, MSPD_PX),
    }
    if one.discrepancies is not None:
        seen = one.discrepancies[: len(found)]
        tables["vsd"] = seen.mean(axis=2)
        by_tau = [_recall(seen[..., tau], VSD_SHARES) for tau in range(len(TAUS))]
        credit["ar_vsd"] = np.mean(by_tau, axis=0)
        credit["ar"] = np.mean(list(credit.values()), axis=0)
    plain, nearest = tables["add_m"], tables["add_s_m"]
    chosen = nearest if len(model.symmetries) > 1 else plain
    for name, distances in (("add", plain), ("add_s", nearest), ("add_or_s", chosen)):
        credit[name] = _recall(distances / model.diameter_m, np.array([ADD_SHARE]))
        matched = match_poses(distances, AUC_M)
        credit[f"auc_{name}"] = 1 - np.minimum(matched, AUC_M) / AUC_M
    paired = {name: match_poses(table, np.inf) for name, table in tables.items()}
    return Placings(one.image, model.name, paired, credit)


def match_poses(errors: Floats, limit: float) -> Floats:
    """Returns the error (m,) with which each instance was found; infinite where it was not.

    In their order, estimates take the instance that is still free to which their error is smallest, if
    it is below the limit, as in BOP's toolkit.

    Args:
        errors: of estimates, surest first, to instances (n, m).
        limit: of the error.
    """
    taken = np.full(errors.shape[1], np.inf)
    for row in errors:
        open_errors = np.where(np.isinf(taken), row, np.inf)
        best = int(open_errors.argmin())
        if open_errors[best] < limit:
            taken[best] = open_errors[best]
    return taken


def _recall(errors: Floats, limits: Floats) -> Floats:
    """Returns the share of limits (m,) within which each instance was found."""
    return np.asarray(np.mean([np.isfinite(match_poses(errors, li)) for li in limits], axis=0))


def _estimates(metrics: Sequence[str], values: Floats) -> dict[str, Estimate]:
    """Returns the numbers of which the first row (1 + draws, metrics) is of all images."""
    return {
        metric: estimate(float(column[0]), column[1:])
        for metric, column in zip(metrics, values.T, strict=True)
    }
