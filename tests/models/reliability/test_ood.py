"""Distances against scipy's, limits against the rate that they promise."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.spatial.distance import mahalanobis

from sim2cam.errors import CheckpointError
from sim2cam.models.card import OodThreshold
from sim2cam.models.network.detector import DetectorNetwork
from sim2cam.models.reliability.ood import (
    MAX_FALSE_POSITIVE_RATE,
    MIN_CALIBRATION_IMAGES,
    FeatureDistribution,
    OodStatistics,
    compute_conformal_threshold,
    compute_feature_distance,
    compute_uncertainty,
    extract_crop_features,
    fit_feature_distribution,
    split_feature_distribution,
)

CHANNELS = 5


@pytest.fixture
def crops():
    """Features of crops that hang together, one of which never fires."""
    rng = np.random.default_rng(0)
    mixed = rng.normal(1.0, 1.0, (600, CHANNELS)) @ rng.normal(0, 1, (CHANNELS, CHANNELS))
    mixed[:, -1] = 0
    return torch.tensor(mixed, dtype=torch.float32)


def even(feature, side=32):
    """A picture of one tile in which every cell has the same features."""
    return torch.tensor(feature, dtype=torch.float32)[None, :, None, None].expand(
        -1, -1, side, side
    )


def test_the_distance_is_that_of_mahalanobis(crops):
    spread = np.cov(crops.numpy().T, bias=True)
    spread += 0.01 * spread.diagonal().mean() * np.eye(CHANNELS)
    familiar, mean = fit_feature_distribution(crops), crops.numpy().mean(axis=0)
    for feature in np.random.default_rng(1).normal(0, 2, (5, CHANNELS)):
        expected = mahalanobis(feature, mean, np.linalg.inv(spread)) / np.sqrt(CHANNELS)
        assert compute_feature_distance(familiar, even(feature), 128) == pytest.approx(
            expected, rel=5e-3
        )


def test_crops_are_about_1_away_and_their_mean_0(crops):
    familiar = fit_feature_distribution(crops)
    away = [compute_feature_distance(familiar, even(feature), 128) for feature in crops.numpy()]
    # one of the channels never fires, and the ridge takes a little
    assert np.mean(np.square(away)) == pytest.approx((CHANNELS - 1) / CHANNELS, rel=0.05)
    assert compute_feature_distance(
        familiar, even(crops.numpy().mean(axis=0)), 128
    ) == pytest.approx(0, abs=2e-3)


def test_a_channel_that_never_fired_and_now_does_is_far_away(crops):
    feature = crops.numpy().mean(axis=0)
    feature[-1] = 2.0  # less than others vary by
    assert compute_feature_distance(fit_feature_distribution(crops), even(feature), 128) > 4


def test_tiles_are_judged_each_for_itself(crops):
    familiar = fit_feature_distribution(crops)
    first, second = crops[:2].numpy()
    both = torch.cat([even(first), even(second)], dim=3)  # 32 x 64 cells: two tiles of 128 px
    squares = [compute_feature_distance(familiar, even(f), 128) ** 2 for f in (first, second)]
    assert compute_feature_distance(familiar, both, 128) == pytest.approx(
        np.sqrt(np.mean(squares)), rel=1e-4
    )
    as_one = compute_feature_distance(familiar, even((first + second) / 2), 256)
    assert compute_feature_distance(familiar, both, 256) == pytest.approx(as_one, rel=1e-4)
    assert compute_feature_distance(familiar, even(first, side=3), 128) == pytest.approx(
        squares[0] ** 0.5, rel=1e-4
    )


@pytest.mark.parametrize("n", [MIN_CALIBRATION_IMAGES, 40, 100])
def test_the_limit_keeps_to_its_rate_of_false_alarms(n):
    rng, alarms = np.random.default_rng(n), []
    for _ in range(2000):
        drawn = rng.gamma(3.0, size=n + 1)
        limit, rate = compute_conformal_threshold(drawn[:-1])
        alarms.append(drawn[-1] > limit)
    assert np.mean(alarms) == pytest.approx(rate, abs=0.012)
    assert rate <= (MAX_FALSE_POSITIVE_RATE / 2 if n >= 39 else MAX_FALSE_POSITIVE_RATE)


def test_the_least_number_of_pictures_has_its_furthest_for_a_limit():
    assert MIN_CALIBRATION_IMAGES == 19
    assert compute_conformal_threshold(range(MIN_CALIBRATION_IMAGES)) == (
        MIN_CALIBRATION_IMAGES - 1,
        1 / 20,
    )
    assert compute_conformal_threshold(range(39)) == (38, 1 / 40)
    assert compute_conformal_threshold(range(79)) == (77, 2 / 80)


@pytest.mark.parametrize(("logits", "expected"), [([-30.0, 2.0], 0.1192), ([-30.0], 1.0), ([30.0], 0.0)])  # fmt: skip
def test_doubt_is_what_the_surest_cell_leaves(logits, expected):
    heat = torch.full((1, 4, 4), -30.0)
    heat[0, 1, : len(logits)] = torch.tensor(logits)
    assert compute_uncertainty(heat) == pytest.approx(expected, abs=1e-4)


def test_either_limit_makes_a_picture_unlike():
    limit = OodThreshold(2.0, 0.05, 40, "held-out images", 128, uncertainty=0.4)
    assert limit.compute_ood_score(OodStatistics(distance=3.0, uncertainty=0.1)) == 1.5
    assert limit.compute_ood_score(OodStatistics(distance=1.0, uncertainty=0.8)) == 2.0
    assert (
        replace(limit, uncertainty=None).compute_ood_score(
            OodStatistics(distance=1.0, uncertainty=0.8)
        )
        == 0.5
    )


def test_features_are_those_that_the_heads_read():
    network = DetectorNetwork("nano", 2, torch.Generator().manual_seed(0)).eval()
    rgb = np.random.default_rng(0).integers(0, 256, (3, 64, 64, 3), dtype=np.uint8)
    read = []
    network.class_head.register_forward_pre_hook(lambda _module, given: read.append(given[0]))
    with torch.inference_mode():
        network(torch.from_numpy(rgb).permute(0, 3, 1, 2))
    found = extract_crop_features(network, rgb)
    assert found.numpy() == pytest.approx(read[0].mean(dim=(2, 3)).numpy())


def test_tensors_go_into_a_file_and_come_back(crops, tmp_path):
    familiar = fit_feature_distribution(crops)
    rest, found = split_feature_distribution(
        tmp_path, {"x": torch.ones(1)} | familiar.to_tensors(), CHANNELS
    )
    assert list(rest) == ["x"]
    assert torch.equal(found.mean, familiar.mean)
    assert torch.equal(found.whitening, familiar.whitening)
    for value in familiar.to_tensors().values():
        assert torch.equal(value, value.half().float())  # as it is stored


BAD = [
    ("mean", None, "tensor feature_distribution.mean is missing, but the card requires it. Copy both files again."),
    ("whitening", None, "tensor feature_distribution.whitening is missing, but the card requires it. Copy both files again."),
    ("mean", torch.zeros(3), "tensor feature_distribution.mean has the shape (3,), but the card requires (5,). Copy both files again."),
    ("whitening", torch.zeros(5, 4),
     "tensor feature_distribution.whitening has the shape (5, 4), but the card requires (5, 5). Copy both files again."),
    ("mean", torch.full((5,), float("inf")),
     "tensor feature_distribution.mean holds values that are not finite. Train again."),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "problem"), BAD)
def test_tensors_that_do_not_fit_are_refused(name, value, problem, tmp_path):
    tensors = FeatureDistribution(torch.zeros(CHANNELS), torch.eye(CHANNELS)).to_tensors()
    tensors[f"feature_distribution.{name}"] = value
    given = {key: found for key, found in tensors.items() if found is not None}
    with pytest.raises(CheckpointError) as caught:
        split_feature_distribution(tmp_path / "w.safetensors", given, CHANNELS)
    assert str(caught.value) == f"{tmp_path / 'w.safetensors'}: {problem}"
