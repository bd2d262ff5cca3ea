import numpy as np
import pytest

from sim2cam.adapt.transfers.reinhard import ReinhardTransfer, rgb_to_ruderman_lab
from sim2cam.adapt.transfers.transfer import GBufferFrame


def noise_image(seed: int, low: int, high: int, shape: tuple[int, int] = (60, 81)) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high, (*shape, 3)).astype(np.uint8)


STYLE = [noise_image(1, 60, 140), noise_image(2, 90, 190, (33, 47))]


def test_pooled_target_is_reached():
    transfer = ReinhardTransfer.fit(STYLE, variety=0.0)
    mean, deviation = transfer.pooled_statistics
    moved = rgb_to_ruderman_lab(
        transfer.apply(GBufferFrame(noise_image(3, 50, 120)), np.random.default_rng(0))
    )
    assert moved.mean(axis=(0, 1)) == pytest.approx(mean, abs=3e-3)
    assert moved.std(axis=(0, 1)) == pytest.approx(deviation, rel=0.03)


def test_pooled_statistics_are_those_of_all_pixels():
    style = [STYLE[0], noise_image(2, 90, 190)]
    pixels = np.concatenate([rgb_to_ruderman_lab(rgb).reshape(-1, 3) for rgb in style])
    mean, deviation = ReinhardTransfer.fit(style).pooled_statistics
    assert mean == pytest.approx(pixels.mean(axis=0))
    assert deviation == pytest.approx(pixels.std(axis=0))


def test_full_variety_aims_at_the_drawn_image():
    transfer = ReinhardTransfer.fit(STYLE, variety=1.0)
    frame = GBufferFrame(noise_image(3, 50, 120))
    means = [
        rgb_to_ruderman_lab(transfer.apply(frame, np.random.default_rng(seed))).mean(axis=(0, 1))
        for seed in range(12)
    ]
    for mean in means:
        distance = np.abs(transfer.means - mean).max(axis=1)
        assert distance.min() < 3e-3
    assert len({round(float(mean[0]), 2) for mean in means}) == 2


def test_own_style_changes_nothing_but_rounding():
    image = STYLE[0]
    moved = ReinhardTransfer.fit([image]).apply(GBufferFrame(image), np.random.default_rng(0))
    assert np.abs(moved.astype(int) - image).max() <= 1


@pytest.mark.parametrize("level", [0, 255])
def test_flat_image_takes_the_mean_and_stays_flat(level):
    transfer = ReinhardTransfer.fit(STYLE, variety=0.0)
    moved = transfer.apply(
        GBufferFrame(np.full((8, 8, 3), level, np.uint8)), np.random.default_rng(0)
    )
    assert np.all(moved == moved[0, 0])
    assert 70 < moved.mean() < 150


def test_nearly_flat_image_does_not_become_noise():
    image = np.full((8, 8, 3), 100, np.uint8)
    image[0, 0] = 101
    moved = ReinhardTransfer.fit(STYLE).apply(GBufferFrame(image), np.random.default_rng(0))
    assert np.ptp(moved) < 40
