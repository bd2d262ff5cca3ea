from dataclasses import replace

import cv2
import numpy as np
import pytest
from scipy.stats import f

from sim2cam.adapt.calibration.bundle_adjustment import (
    LENS_MODELS,
    compute_held_out_residuals,
    fit_bundle,
)
from sim2cam.adapt.calibration.lens import _select_model, fit_lens
from sim2cam.errors import LensError
from tests.adapt.calibration.conftest import LENSES, SIZE, see_boards

BY_NAME = {model.name: model for model in LENS_MODELS}
STARTS = {"kannala_brandt": ["pinhole"], "brown_conrady": ["pinhole"],
          "rational": ["pinhole", "brown_conrady"],
          "thin_prism": ["pinhole", "brown_conrady"]}  # fmt: skip


def fitted(name, seen):
    bundle = None
    for step in [*STARTS.get(name, []), name]:
        bundle = fit_bundle(seen, SIZE, BY_NAME[step], bundle)
    return bundle


@pytest.mark.parametrize("name", LENSES)
def test_corners_without_noise_give_the_lens_itself(name):
    lens = LENSES[name]
    seen = see_boards(lens, 6, np.random.default_rng(1), noise_px=0.0)
    bundle = fitted(name, seen)
    assert bundle.rms_px < 1e-3
    found = bundle.lens.project(np.array([[0.2, 0.1, 1.0], [-0.3, 0.25, 1.0]]))
    assert found == pytest.approx(
        lens.project(np.array([[0.2, 0.1, 1.0], [-0.3, 0.25, 1.0]])), abs=0.05
    )


def test_it_agrees_with_opencv():
    seen = see_boards(LENSES["brown_conrady"], 12, np.random.default_rng(2))
    bundle = fitted("brown_conrady", seen)
    points = [s.points_m.astype(np.float32) for s in seen]
    pixels = [s.corners_px.astype(np.float32) for s in seen]
    rms, matrix, bends, *_ = cv2.calibrateCamera(points, pixels, SIZE, None, None)
    assert bundle.rms_px == pytest.approx(rms, rel=2e-3)
    assert bundle.lens.matrix() == pytest.approx(matrix, abs=0.05)
    assert bundle.lens.coefficients() == pytest.approx(bends.ravel(), abs=2e-3)


def test_variances_are_those_of_repetitions():
    lens, off = LENSES["brown_conrady"], []
    for seed in range(6):
        bundle = fitted("brown_conrady", see_boards(lens, 8, np.random.default_rng(100 + seed)))
        truth = np.array([getattr(lens, name) for name in bundle.model.free_parameters])
        found = np.array([getattr(bundle.lens, name) for name in bundle.model.free_parameters])
        off.append((found - truth) / np.sqrt(np.diag(bundle.covariance)))
    assert 0.6 < np.sqrt(np.mean(np.square(off))) < 1.3


def bent_boards(lens, count, rng):
    """Returns boards of which each photo bends its own in its own way."""
    seen = see_boards(lens, count, rng, noise_px=0.02)
    for one in seen:
        middle = one.corners_px - one.corners_px.mean(axis=0)
        one.corners_px[:] += middle * (middle[:, :1] / 100) * rng.normal(0, 0.02)
    return seen


def test_boards_that_are_off_as_a_whole_make_the_lens_less_sure():
    lens, off = LENSES["pinhole"], []
    for seed in range(8):
        bundle = fitted("pinhole", bent_boards(lens, 8, np.random.default_rng(200 + seed)))
        truth = np.array([getattr(lens, name) for name in bundle.model.free_parameters])
        found = np.array([getattr(bundle.lens, name) for name in bundle.model.free_parameters])
        off.append((found - truth) / np.sqrt(np.diag(bundle.covariance)))
    assert np.mean(np.abs(off) < 1.96) > 0.85


@pytest.mark.parametrize("seed", [0, 1, 8, 19])
def test_boards_that_are_off_as_a_whole_do_not_make_two_lenses_of_one(seed):
    """Hotelling's statistic of all numbers together, which corners alone make far too sure."""
    rng, lens = np.random.default_rng(seed), LENSES["kannala_brandt"]
    one, other = (fitted("kannala_brandt", bent_boards(lens, 16, rng)) for _ in range(2))
    off = [getattr(one.lens, n) - getattr(other.lens, n) for n in one.model.free_parameters]
    spread = one.covariance + other.covariance
    unit = np.sqrt(np.diag(spread))
    statistic = off / unit @ np.linalg.solve(spread / unit / unit[:, None], off / unit)
    free = 32 - 1 - len(off)
    assert f.sf(statistic * free / len(off) / 30, len(off), free) > 0.05


def test_a_fisheye_is_not_chosen_for_its_few_numbers():
    same = np.full(6, 0.01)
    hardly = same + 1e-3 * np.array([1.0, -1.2, 1.0, -1.1, 0.9, -0.8])
    far = {"pinhole": same + 0.1}
    assert (
        _select_model(far | {"brown_conrady": same, "kannala_brandt": same + 1e-5})
        == "brown_conrady"
    )
    assert _select_model(far | {"brown_conrady": same, "kannala_brandt": hardly}) == "brown_conrady"
    assert (
        _select_model(far | {"brown_conrady": same, "kannala_brandt": same / 2}) == "kannala_brandt"
    )
    assert _select_model({"pinhole": same, "rational": hardly}) == "pinhole"


def test_one_corner_far_off_hardly_moves_the_lens():
    lens = LENSES["pinhole"]
    seen = see_boards(lens, 8, np.random.default_rng(3))
    seen[0].corners_px[0] += 40
    assert fitted("pinhole", seen).lens.fx_px == pytest.approx(lens.fx_px, rel=5e-3)


def test_a_board_is_placed_under_a_known_lens():
    for lens in LENSES.values():
        (seen,) = see_boards(lens, 1, np.random.default_rng(4), noise_px=0.0)
        assert np.abs(compute_held_out_residuals(seen, lens)).max() < 1e-3


def test_photos_left_out_choose_the_simplest_model_that_serves():
    seen = see_boards(LENSES["pinhole"], 6, np.random.default_rng(5))
    fit = fit_lens(seen, SIZE, np.random.default_rng(0))
    assert fit.kind == "brown_conrady"
    assert list(fit.parameter_names) == ["fx_px", "fy_px", "cx_px", "cy_px"]


def test_a_fisheye_is_told_and_a_wrong_board_named():
    seen = see_boards(LENSES["kannala_brandt"], 11, np.random.default_rng(6))
    seen[3].corners_px[:] += np.random.default_rng(7).normal(0, 8, seen[3].corners_px.shape)
    fit = fit_lens(seen, SIZE, np.random.default_rng(0))
    assert fit.kind == "kannala_brandt"
    assert list(fit.outliers) == ["03.jpg"]
    assert fit.held_out_rms_px["kannala_brandt"] < 0.7 < fit.held_out_rms_px["pinhole"]
    drawn = [fit.sample(np.random.default_rng(seed), SIZE) for seed in range(20)]
    spread = np.std([lens.fx_px for lens in drawn])
    assert spread == pytest.approx(np.sqrt(fit.covariance[0][0]), rel=0.5)


@pytest.mark.parametrize("noise_px", [0.0, 0.1])
def test_boards_that_stand_alike_tell_no_lens(noise_px):
    """As in a burst from a tripod, or copies of a photo."""
    rng = np.random.default_rng(6)
    (one,) = see_boards(LENSES["brown_conrady"], 1, rng)
    seen = [
        replace(
            one,
            photo=f"{i}.jpg",
            corners_px=one.corners_px + rng.normal(0, noise_px, one.corners_px.shape),
        )
        for i in range(8)
    ]
    with pytest.raises(LensError, match="the board poses are too similar to determine a lens"):
        fit_lens(seen, SIZE, rng)


def test_boards_of_two_cameras_tell_no_lens():
    rng = np.random.default_rng(7)
    wide, long = (
        LENSES["pinhole"],
        replace(LENSES["pinhole"], fx_px=720.0, fy_px=725.0, cx_px=350.0),
    )
    seen = [*see_boards(wide, 6, rng), *see_boards(long, 6, rng)]
    with pytest.raises(
        LensError, match="no single lens fits the boards: the RMS error of their corners is"
    ):
        fit_lens(seen, SIZE, rng)


def test_models_that_do_not_see_the_whole_picture_are_named():
    """Boards near the middle let a lens bend back on itself beyond them."""
    rng = np.random.default_rng(8)
    near = [
        replace(s, corners_px=(s.corners_px - [320, 240]) * 0.45 + [320, 240])
        for s in see_boards(LENSES["brown_conrady"], 8, rng)
    ]
    found = fit_lens(near, SIZE, rng)
    assert not set(found.partial_view_models) & set(found.held_out_rms_px)
    assert set(found.partial_view_models) | set(found.held_out_rms_px) >= {
        "pinhole",
        "kannala_brandt",
        "brown_conrady",
    }
