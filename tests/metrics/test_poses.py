"""Recalls of poses: cases done by hand, and a computation written out by BOP's rules."""

import math

import numpy as np
import pytest

from sim2cam.metrics.pose_errors import compute_add, compute_add_s, compute_mspd, compute_mssd
from sim2cam.metrics.poses import (
    PoseEvaluationModel,
    PoseTarget,
    evaluate_poses,
    match_pose_target,
    match_poses,
)
from sim2cam.metrics.resampling import make_image_units

CAMERA = np.array([[500.0, 0, 320], [0, 500, 240], [0, 0, 1]])
HALF_TURN = np.diag([-1.0, -1, 1, 1])
NOTHING = np.zeros((0, 4, 4))


def at(x, y=0.0, z=1.0):
    matrix = np.eye(4)
    matrix[:3, 3] = x, y, z
    return matrix


def model(name="a", symmetric=False, seed=0):
    """Points that are 0.1 m apart at most."""
    points = np.random.default_rng(seed).normal(size=(20, 3))
    points *= 0.05 / np.linalg.norm(points, axis=1, keepdims=True)
    points = np.concatenate([points, -points])
    symmetries = np.stack([np.eye(4), HALF_TURN]) if symmetric else np.eye(4)[None]
    return PoseEvaluationModel(name, points, np.zeros((0, 3), np.int64), 0.1, symmetries)


def sought(truths, found, *, image=0, of=None, width=640, **more):
    truths, found = (np.array(poses).reshape(-1, 4, 4) for poses in (truths, found))
    return PoseTarget(image, of or model(), CAMERA, width, truths, found, **more)


def evaluate(*cases, images=1, draws=1000, rng=None):
    placings = [match_pose_target(case) for case in cases]
    rng = rng or np.random.default_rng(0)
    return evaluate_poses(placings, make_image_units(images), rng=rng, n_resamples=draws)


def credit_of(case):
    return match_pose_target(case).recalls


@pytest.mark.parametrize(
    ("shift", "mssd_share", "add_share"),
    [(0.004, 1.0, 1), (0.006, 0.9, 1), (0.011, 0.8, 0), (0.0449, 0.2, 0), (0.051, 0.0, 0)],
)
def test_a_translation_passes_the_limits_above_it(shift, mssd_share, add_share):
    credit = credit_of(sought([at(0)], [at(0, z=1 + shift)]))
    assert credit["ar_mssd"][0] == pytest.approx(mssd_share)
    assert credit["add"][0] == add_share
    assert credit["auc_add"][0] == pytest.approx(1 - shift / 0.1)


def test_a_limit_itself_is_not_passed():
    assert np.isinf(match_poses(np.array([[0.5]]), 0.5))
    assert match_poses(np.array([[0.5 - 1e-9]]), 0.5)[0] < 0.5


def test_limits_in_pixels_grow_with_the_picture():
    flat = PoseEvaluationModel(
        "a", np.zeros((1, 3)), np.zeros((0, 3), np.int64), 0.1, np.eye(4)[None]
    )
    shares = {
        width: credit_of(sought([at(0)], [at(0.0244)], of=flat, width=width))["ar_mspd"][0]
        for width in (320, 640, 1280)
    }  # 12.2 px apart
    assert shares == pytest.approx({320: 0.6, 640: 0.8, 1280: 0.9})


def test_a_symmetric_object_may_be_turned():
    turned = at(0) @ HALF_TURN
    plain, same = (sought([at(0)], [turned], of=model(symmetric=s)) for s in (False, True))
    assert credit_of(plain)["ar_mssd"] == 0
    assert credit_of(same)["ar_mssd"] == 1
    assert credit_of(same)["ar_mspd"] == 1
    assert credit_of(same)["add"] == 0
    assert credit_of(same)["add_or_s"] == credit_of(same)["add_s"]
    assert credit_of(plain)["add_or_s"] == credit_of(plain)["add"]


def test_a_second_estimate_of_an_instance_finds_nothing_and_takes_the_place_of_another():
    credit = credit_of(sought([at(0), at(0.3)], [at(0), at(0.001), at(0.3)]))
    assert credit["ar_mssd"].tolist() == [1, 0]  # only the two surest are looked at
    one = credit_of(sought([at(0)], [at(0.3), at(0)]))
    assert one["ar_mssd"] == 0


def test_the_surer_estimate_chooses_first_though_it_is_worse():
    surer_first = credit_of(sought([at(0), at(0.021)], [at(0.009), at(0)]))
    # from the second limit on 0.009 takes 0, and what is at 0 is 0.21 of the diameter from the other
    assert surer_first["ar_mssd"].tolist() == pytest.approx([1, 0.6])


def test_missing_estimates_and_other_objects_count_as_not_found():
    score = evaluate(
        sought([at(0)], [at(0)]),
        sought([at(0), at(0.1)], NOTHING, of=model("b"), image=1),
        images=2,
    )
    assert score.objects["a"]["ar_mssd"].value == 1
    assert score.objects["b"]["ar_mssd"].value == 0
    assert score.all["ar_mssd"].value == pytest.approx(1 / 3)
    assert score.mean["ar_mssd"].value == 0.5
    assert score.instances == {"a": 1, "b": 2}
    assert score.to_json()["all"]["add_or_s"]["value"] == pytest.approx(1 / 3)


def test_discrepancies_average_over_taus_and_limits():
    vsd = np.tile(np.linspace(0, 0.9, 10), (1, 1, 1))  # 0, 0.1, ... 0.9 for the ten taus
    case = sought([at(0)], [at(0)], vsd=vsd)
    passed = sum(v < share for v in vsd.ravel() for share in np.arange(0.05, 0.51, 0.05))
    credit = credit_of(case)
    assert credit["ar_vsd"][0] == pytest.approx(passed / 100)
    assert credit["ar"][0] == pytest.approx((2 + passed / 100) / 3)
    assert "ar" not in credit_of(sought([at(0)], [at(0)]))


def test_errors_are_of_the_estimate_that_an_instance_is_paired_with():
    taus = np.tile(np.arange(10) / 10, (2, 3, 1))
    case = sought([at(0), at(0.3), at(0.6)], [at(0.301), at(0.01)], vsd=taus)
    errors = match_pose_target(case).errors
    for name, scale in (("mssd_m", 1), ("add_m", 1), ("mspd_px", 500)):
        close = pytest.approx([0.01 * scale, 0.001 * scale, np.inf], rel=0.1)
        assert errors[name].tolist() == close, name
    assert (errors["add_s_m"] <= errors["add_m"]).all()
    assert sorted(errors["vsd"]) == pytest.approx([0.45, 0.45, np.inf])
    assert all(
        np.isinf(of).all() for of in match_pose_target(sought([at(0)], NOTHING)).errors.values()
    )


def written_out(cases, kinds):
    """Average recalls by BOP's rules, limit by limit, with the toolkit's order of things."""
    found = {}
    for kind, limits in kinds.items():
        recalls = []
        for limit in limits:
            right = total = 0
            for case in cases:
                ranked = list(case.estimated_poses)[: len(case.true_poses)]
                free = list(range(len(case.true_poses)))
                total += len(free)
                for estimate in ranked:
                    best, best_error = None, limit
                    for j in free:
                        error = error_of(kind, estimate, case, j)
                        if error < best_error:
                            best, best_error = j, error
                    if best is not None:
                        free.remove(best)
                        right += 1
            recalls.append(right / total)
        found[kind] = sum(recalls) / len(recalls)
    return found


def error_of(kind, estimate, case, j):
    m, truth = case.model, case.true_poses[j]
    if kind == "ar_mssd":
        return compute_mssd(estimate, truth, m.points_m, m.symmetries) / m.diameter_m
    if kind == "ar_mspd":
        error = compute_mspd(estimate, truth, m.points_m, m.symmetries, case.camera_matrix)
        return error * 640 / case.image_width_px
    return {"add": compute_add, "add_s": compute_add_s}[kind](
        estimate, truth, m.points_m
    ) / m.diameter_m


@pytest.mark.parametrize("seed", range(4))
def test_against_a_computation_written_out(seed):
    rng = np.random.default_rng(seed)
    cases = []
    for image in range(8):
        for of in (model("a"), model("b", symmetric=True, seed=1)):
            truths = [at(*rng.uniform(-0.05, 0.05, 2), 1) for _ in range(rng.integers(1, 4))]
            found = [t @ at(*rng.normal(size=3) * 0.01) for t in truths if rng.random() < 0.9]
            found += [at(0.01)] * int(rng.integers(0, 2))
            width = int(rng.choice([320, 720]))
            cases.append(sought(truths, found, image=image, of=of, width=width))
    limits = np.arange(1, 11)
    kinds = {"ar_mssd": 0.05 * limits, "ar_mspd": 5 * limits, "add": [0.1], "add_s": [0.1]}
    score = evaluate(*cases, images=8)
    for kind, value in written_out(cases, kinds).items():
        assert 0.05 < value < 0.95
        assert score.all[kind].value == pytest.approx(value), kind
        for name, row in score.objects.items():
            own = [case for case in cases if case.model.name == name]
            assert row[kind].value == pytest.approx(written_out(own, kinds)[kind])


def test_intervals_are_over_images_and_hold_the_truth():
    rng = np.random.default_rng(2)
    held = 0
    for _ in range(40):
        cases = []
        for image in range(20):
            share = rng.beta(3, 1)  # instances of an image are found or missed together; 0.75
            truths = [at(0.3 * k) for k in range(3)]
            found = [t for t in truths if rng.random() < share]
            cases.append(sought(truths, found, image=image))
        low, high = evaluate(*cases, images=20, draws=200, rng=rng).all["ar_mssd"].ci95
        held += low <= 0.75 <= high
    assert held >= 34


def test_nothing_found_has_no_spread():
    score = evaluate(sought([at(0)], NOTHING), images=1)
    assert score.all["ar_mspd"].value == 0
    assert score.all["ar_mspd"].ci95 == (0, 0)
    assert not math.isnan(score.mean["auc_add"].value)
