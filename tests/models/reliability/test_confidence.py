"""Known miscalibration is recovered, and the fit is that of a search over all scalings."""

import numpy as np
import pytest
import torch
from scipy.special import expit, logit

from sim2cam.metrics.calibration import ScoredDetections, measure_calibration
from sim2cam.metrics.resampling import make_image_units
from sim2cam.models.reliability.confidence import (
    MIN_PER_OUTCOME,
    ScoreCalibration,
    calibrate_scores,
    fit_platt_scaling,
    fit_score_calibration,
    stack_calibration,
    undo_calibration,
)


def planted(temperature, offset=0.0, n=4000, seed=0):
    """Detections that are right as often as sure, said with logits that were moved and stretched."""
    rng = np.random.default_rng(seed)
    truth = rng.beta(1.2, 0.8, n).clip(0.01, 0.99)
    return expit((logit(truth) - offset) * temperature), rng.random(n) < truth


def confidences(*parts):
    """Detections of several categories: (name, scores, right) each."""
    names = np.concatenate([np.full(len(scores), name) for name, scores, _ in parts])
    scores = np.concatenate([scores for _, scores, _ in parts])
    right = np.concatenate([right for *_, right in parts])
    return ScoredDetections(scores, right, names, np.arange(len(names)) % 50, make_image_units(50))


@pytest.mark.parametrize(("temperature", "offset"), [(0.4, 0.0), (1.0, -1.0), (3.0, 0.5)])
def test_a_planted_scaling_is_recovered(temperature, offset):
    found = fit_platt_scaling(*planted(temperature, offset))
    assert found[0] == pytest.approx(temperature, rel=0.08)
    assert found[1] == pytest.approx(offset, abs=0.1)


def test_the_fit_is_the_best_of_all_scalings():
    scores, right = planted(2.2, -0.7, n=300, seed=5)
    slopes, offsets = np.meshgrid(np.geomspace(0.1, 1.5, 301), np.linspace(-3, 3, 301))
    p = expit(slopes[..., None] * logit(scores) + offsets[..., None])
    likelihood = np.where(right, np.log(p), np.log1p(-p)).sum(axis=-1)
    best = np.unravel_index(likelihood.argmax(), likelihood.shape)
    temperature, offset = fit_platt_scaling(scores, right)
    assert temperature == pytest.approx(1 / slopes[best], rel=0.03)
    assert offset == pytest.approx(offsets[best], abs=0.04)


def test_scores_of_0_and_1_can_be_fitted():
    scores = np.array([0.0, 1.0] * 100)
    right = np.arange(200) % 10 < 5
    temperature, offset = fit_platt_scaling(scores, right)
    assert temperature == pytest.approx(20, rel=0.01)  # worthless: towards 0.5
    assert offset == pytest.approx(0, abs=0.1)


def test_each_category_has_its_own_offset_and_few_have_that_of_all():
    few_scores, _ = planted(1.0, n=2 * MIN_PER_OUTCOME - 1)
    few_right = np.arange(len(few_scores)) % 2 == 0
    low, high = planted(2.0, -1.5), planted(2.0, 1.5, seed=1)
    found = confidences(("low", *low), ("high", *high), ("few", few_scores, few_right))
    fitted = fit_score_calibration(found, ("low", "high", "few", "never seen"))
    temperature, common = fit_platt_scaling(found.scores, found.is_true_positive)
    assert fitted.temperature == temperature
    assert fitted.offsets["few"] == fitted.offsets["never seen"] == common
    assert fitted.offsets["low"] < common - 0.4
    assert fitted.offsets["high"] > common + 0.4


def test_an_offset_is_right_on_average():
    low, high = planted(2.0, -1.5), planted(2.0, 1.5, seed=1)
    found = confidences(("low", *low), ("high", *high))
    scaling = fit_score_calibration(found, ("low", "high"))
    rows = stack_calibration(scaling, ("low", "high"))
    for number, (scores, right) in enumerate((low, high)):
        after = calibrate_scores(torch.tensor(scores, dtype=torch.float32), rows[number])
        assert float(after.mean()) == pytest.approx(right.mean(), abs=1e-3)


def test_where_all_is_right_or_there_is_little_nothing_is_fitted():
    scores, right = planted(3.0, n=2000)
    assert (
        fit_score_calibration(confidences(("a", scores, np.ones(2000, np.bool_))), ("a",)) is None
    )
    few = confidences(("a", scores[:MIN_PER_OUTCOME], right[:MIN_PER_OUTCOME]))
    assert fit_score_calibration(few, ("a",)) is None


def test_scaling_mends_detections_that_it_was_not_fitted_on():
    scaling = fit_score_calibration(confidences(("a", *planted(3.0, -0.5))), ("a",))
    scores, right = planted(3.0, -0.5, seed=7)
    rows = stack_calibration(scaling, ("a",))[0]
    after = calibrate_scores(torch.tensor(scores), rows).numpy()
    rng = np.random.default_rng(0)
    before, mended = (
        measure_calibration(confidences(("a", s, right)), rng) for s in (scores, after)
    )
    assert before.ece.value > 0.1 > before.chance_ece
    assert mended.ece.value < mended.chance_ece


def test_scaling_keeps_the_order_and_can_be_undone():
    scores = torch.linspace(0, 1, 101)
    rows = stack_calibration(ScoreCalibration(2.5, {"a": 0.7}), ("a",))[0]
    after = calibrate_scores(scores, rows)
    assert (after.diff() > 0).all()
    assert after[[0, 50, 100]].tolist() == pytest.approx([0, expit(0.7), 1])
    same = calibrate_scores(scores, stack_calibration(ScoreCalibration(1.0, {"a": 0.0}), ("a",))[0])
    assert same.numpy() == pytest.approx(scores.numpy(), abs=1e-6)
    scaling = ScoreCalibration(2.5, {"a": 0.7, "b": -1.0})
    names = np.array(["a", "b"] * 50 + ["a"])
    every = stack_calibration(scaling, ("a", "b"))[torch.arange(101) % 2]
    mixed = calibrate_scores(scores, every).double().numpy()
    found = ScoredDetections(mixed, mixed > 0.5, names, np.zeros(101, np.int64), 1)
    assert undo_calibration(found, scaling).scores == pytest.approx(scores.numpy(), abs=1e-3)


def test_rows_stand_in_the_order_of_the_categories():
    assert stack_calibration(None, ("a", "b")) is None
    rows = stack_calibration(ScoreCalibration(2.0, {"b": 3.0, "a": -1.0}), ("a", "b"))
    assert rows.tolist() == [[0.5, -1.0], [0.5, 3.0]]
