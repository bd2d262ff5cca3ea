"""What every transfer without a network keeps to, and what each of them matches."""

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

from sim2cam.adapt.store import TRANSFER_TYPES
from sim2cam.adapt.transfers.histogram import HistogramTransfer
from sim2cam.adapt.transfers.mkl import MklTransfer, compute_transport_map
from sim2cam.adapt.transfers.reinhard import ReinhardTransfer, compute_style_statistics
from sim2cam.adapt.transfers.sliced import SlicedTransfer
from sim2cam.adapt.transfers.style_randomization import StyleRandomization
from sim2cam.adapt.transfers.transfer import GBufferFrame
from sim2cam.errors import Sim2CamError


def colours(seed, centre, spread, shape=(40, 50)):
    """An image of normally distributed colours whose channels go together."""
    rng = np.random.default_rng(seed)
    mixing = np.eye(3) + 0.6 * rng.random((3, 3))
    values = np.array(centre) + spread * rng.standard_normal((*shape, 3)) @ mixing
    return np.rint(values).clip(0, 255).astype(np.uint8)


STYLE = [colours(1, (150, 120, 90), 14), colours(2, (120, 130, 140), 20, (33, 47))]
IMAGE = colours(3, (90, 110, 130), 12)
EXACT = [HistogramTransfer, MklTransfer, SlicedTransfer, ReinhardTransfer]


@pytest.mark.parametrize("kind", TRANSFER_TYPES.values())
@pytest.mark.parametrize("shape", [(1, 1), (2, 9), (5, 3), (101, 64)])
def test_size_stays_and_equal_chance_gives_equal_images(kind, shape):
    transfer = kind.fit(STYLE)
    frame = GBufferFrame(np.random.default_rng(4).integers(0, 256, (*shape, 3)).astype(np.uint8))
    first, second = (transfer.apply(frame, np.random.default_rng(5)) for _ in range(2))
    assert first.dtype == np.uint8
    assert first.shape == frame.rgb.shape
    assert np.array_equal(first, second)


@pytest.mark.parametrize("kind", TRANSFER_TYPES.values())
def test_looks_vary(kind):
    transfer = kind.fit(STYLE)
    seen = {
        transfer.apply(GBufferFrame(IMAGE), np.random.default_rng(s)).tobytes() for s in range(8)
    }
    assert len(seen) > 1


@pytest.mark.parametrize("kind", TRANSFER_TYPES.values())
def test_without_style_there_is_no_transfer(kind):
    with pytest.raises(Sim2CamError, match="needs at least one style image"):
        kind.fit([])


@pytest.mark.parametrize("kind", EXACT)
def test_own_style_changes_hardly_anything(kind):
    moved = kind.fit([IMAGE]).apply(GBufferFrame(IMAGE), np.random.default_rng(0))
    apart = np.abs(moved.astype(int) - IMAGE)
    assert apart.mean() < 1.0
    assert np.quantile(apart, 0.99) <= 3


@pytest.mark.parametrize("kind", [HistogramTransfer, SlicedTransfer])
def test_each_channel_takes_the_distribution_of_the_style(kind):
    style = STYLE[0]
    moved = kind.fit([style]).apply(GBufferFrame(IMAGE), np.random.default_rng(0))
    for channel in range(3):
        before, after = (
            wasserstein_distance(rgb[:, :, channel].ravel(), style[:, :, channel].ravel())
            for rgb in (IMAGE, moved)
        )
        assert after < 0.1 * before


@pytest.mark.parametrize("kind", [MklTransfer, SlicedTransfer])
def test_mean_and_covariance_become_those_of_the_style(kind):
    style = STYLE[0].reshape(-1, 3).astype(float)
    moved = kind.fit([STYLE[0]]).apply(GBufferFrame(IMAGE), np.random.default_rng(0)).reshape(-1, 3)
    assert moved.mean(axis=0) == pytest.approx(style.mean(axis=0), abs=1.0)
    assert np.cov(moved.T) == pytest.approx(np.cov(style.T), rel=0.15, abs=20)


def test_histogram_matching_keeps_the_order_of_levels():
    moved = HistogramTransfer.fit(STYLE).apply(GBufferFrame(IMAGE), np.random.default_rng(0))
    for channel in range(3):
        order = np.argsort(IMAGE[:, :, channel].ravel(), kind="stable")
        assert (np.diff(moved[:, :, channel].ravel()[order].astype(int)) >= 0).all()


@pytest.mark.parametrize("kind", [HistogramTransfer, MklTransfer])
def test_without_variety_the_target_is_the_whole_set(kind):
    transfer = kind.fit(STYLE, variety=0.0)
    first, second = (transfer.apply(GBufferFrame(IMAGE), np.random.default_rng(s)) for s in (0, 1))
    assert np.array_equal(first, second)


def test_pooled_covariance_is_that_of_all_pixels():
    style = [STYLE[0], colours(2, (120, 130, 140), 20)]
    pixels = np.concatenate([rgb.reshape(-1, 3) for rgb in style])
    mean, covariance = MklTransfer.fit(style).pooled_statistics
    assert mean == pytest.approx(pixels.mean(axis=0))
    assert covariance == pytest.approx(np.cov(pixels.T, bias=True))


def test_transport_moves_one_covariance_to_the_other_and_is_symmetric():
    rng = np.random.default_rng(0)
    first, second = (60 * np.eye(3) + a @ a.T for a in rng.normal(0, 6, (2, 3, 3)))
    matrix = compute_transport_map(first, second)
    assert matrix == pytest.approx(matrix.T)
    eye = np.eye(3)  # one level squared on both sides keeps flat images from becoming noise
    assert matrix @ (first + eye) @ matrix == pytest.approx(second + eye)
    assert np.linalg.eigvalsh(matrix).min() > 0


def test_transport_stretches_a_flat_image_little():
    assert np.linalg.eigvalsh(
        compute_transport_map(np.zeros((3, 3)), 900 * np.eye(3))
    ) == pytest.approx(3.0)


def test_drawn_looks_vary_as_those_of_the_style_do():
    style = [colours(i, (80 + 8 * i, 100 + 3 * i, 140 - 5 * i), 10 + i, (12, 12)) for i in range(9)]
    transfer = StyleRandomization.fit(style, spread=1.0)
    means, deviations = compute_style_statistics(style)
    draws = [transfer.sample_statistics(np.random.default_rng(i)) for i in range(3000)]
    drawn = np.array([np.hstack([mean, np.log(deviation + 1e-3)]) for mean, deviation in draws])
    looks = np.hstack([means, np.log(deviations + 1e-3)])
    scale = looks.std(axis=0)
    assert (drawn.mean(axis=0) - looks.mean(axis=0)) / scale == pytest.approx(np.zeros(6), abs=0.08)
    correlation = np.cov((drawn / scale).T) - np.cov((looks / scale).T, bias=True)
    assert np.abs(correlation).max() < 0.12


def test_without_spread_every_look_is_the_middle_one():
    transfer = StyleRandomization.fit(STYLE, spread=0.0)
    first, second = (transfer.sample_statistics(np.random.default_rng(s)) for s in (0, 1))
    assert np.array_equal(first, second)
