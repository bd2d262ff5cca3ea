"""Learning curves advise more of the same only where their intervals allow it."""

import numpy as np
import pytest

from sim2cam.experiments.ablation import REAL, AblationPlan, Variant
from sim2cam.experiments.learning_curve import (
    PHOTOS,
    RENDERS,
    STEPS,
    CurvePoint,
    fit_learning_curve,
    locate_points,
)
from sim2cam.models.training.config import TrainConfig

SIZES = (50, 100, 200, 400, 800)


def make_points(scores, *, noise=0.0, seeds=3, sizes=SIZES):
    rng = np.random.default_rng(0)
    resamples = noise * rng.standard_normal((len(sizes), 101))
    resamples[:, 0] = 0
    return {
        size: CurvePoint(seeds, score + offsets)
        for size, score, offsets in zip(sizes, scores, resamples, strict=True)
    }


def power_law(a, b, c):
    return [1 - a * size**-b - c for size in SIZES]


def test_steep_curve_advises_more():
    curve = fit_learning_curve(RENDERS, "ap50", make_points(power_law(4, 0.6, 0.1)))
    assert curve.describe() == (
        "Twice the renders (1,600): AP50 +0.025 (95 % interval 0.025 to 0.025); "
        "the floor c is 0.10 (0.10 to 0.10): render more."
    )
    record = curve.to_json()
    score = pytest.approx(1 - 4 * 50**-0.6 - 0.1)
    assert record["points"][0] == {"size": 50, "seeds": 3, "value": score, "ci95": [score] * 2}
    assert record["fit"]["law"] == {
        "a": pytest.approx(4, rel=0.01), "b": pytest.approx(0.6, rel=0.01), "c": pytest.approx(0.1, rel=0.01),
    }  # fmt: skip
    assert record["last_gain"]["value"] == pytest.approx(4 * (400**-0.6 - 800**-0.6))
    assert record["summary"] == curve.describe()


@pytest.mark.parametrize(
    ("resource", "advice"),
    [
        (RENDERS, "render differently rather than more."),
        (STEPS, "change data or detector rather than train longer."),
        (PHOTOS, "label other photos rather than more of the same."),
    ],
)
def test_plateau_advises_against_more(resource, advice):
    points = make_points([0.80, 0.94, 0.95, 0.95, 0.95], noise=0.003)
    text = fit_learning_curve(resource, "ap", points).describe()
    assert text.startswith(f"Twice the {resource.name} (1,600): AP +0.0")
    assert "the floor c is 0.05 (0.0" in text
    assert text.endswith(f": {advice}")


def test_wide_interval_advises_nothing():
    points = make_points(power_law(2, 0.5, 0.3), noise=0.03)
    text = fit_learning_curve(STEPS, "ap50", points).describe()
    assert "the points do not determine the floor c (0.00 to 0.41)" in text
    assert text.endswith("seeds and images are too few to show whether more steps help.")


@pytest.mark.parametrize(
    ("points", "reason"),
    [
        (make_points([0.5, 0.6, 0.7], sizes=SIZES[:3]), "3 points are too few for a power law, which needs at least 4"),
        (make_points(power_law(4, 0.6, 0.1), seeds=2), "a fit needs 3 seeds at each point, not 2"),
        (make_points([0.7, 0.5, 0.4, 0.5, 0.7], noise=0.01), "the points do not follow a power law"),
        (make_points([0.0, 0.01, 0.3, 0.5, 0.7]), "3 points are too few for a power law, which needs at least 4 (sizes with a score below 0.05 are left out)"),
    ],
    ids=["few points", "few seeds", "no power law", "late start"],
)  # fmt: skip
def test_undetermined_fits_are_refused(points, reason):
    curve = fit_learning_curve(RENDERS, "ap50", points)
    before, last = list(points)[-2:]
    start = f"More renders: no prediction of AP50, because {reason}. From {before} to {last}, AP50 changed by +"
    assert curve.describe().startswith(start)
    assert curve.to_json()["fit"] is None


def test_points_are_variants_that_differ_in_one_resource():
    variants = (
        Variant("randomized", ("randomized",)),
        Variant("few renders", ("randomized-30",)),
        Variant("few steps", ("randomized",), steps=5),
        Variant("+ coral", ("randomized",), alignment="coral"),
        Variant("fine-tuned", ("randomized",), (f"{REAL}-5",)),
        Variant("mixed", ("randomized", f"{REAL}-5")),
        Variant("fixed", ("fixed",)),
        Variant("real", (REAL,)),
        Variant("few photos", (f"{REAL}-5",)),
    )
    plan = AblationPlan(variants, (0,), TrainConfig(steps=20), 60, 0, "dice", None)
    points = locate_points(variants, plan, photo_count=12)
    names = {
        resource.name: [(size, variant.name) for size, variant in by_size.items()]
        for resource, by_size in points.items()
    }
    assert names == {
        "renders": [(30, "few renders"), (60, "randomized")],
        "steps": [(5, "few steps"), (20, "randomized")],
        "labelled photos": [(5, "few photos"), (12, "real")],
    }
