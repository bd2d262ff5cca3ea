import numpy as np
import pytest

from sim2cam.adapt.transfers.fourier import FourierTransfer
from sim2cam.adapt.transfers.transfer import GBufferFrame
from sim2cam.errors import Sim2CamError

RNG = np.random.default_rng(0)
STYLE = [RNG.integers(0, 120, (40, 50, 3)).astype(np.uint8) for _ in range(2)]
IMAGE = RNG.integers(60, 200, (37, 52, 3)).astype(np.uint8)


def test_radius_zero_is_the_identity():
    moved = FourierTransfer.fit(STYLE, radius=0).apply(
        GBufferFrame(IMAGE), np.random.default_rng(0)
    )
    assert np.array_equal(moved, IMAGE)


def test_change_is_what_a_whole_transform_gives():
    radius = 3
    transfer = FourierTransfer.fit(STYLE[:1], radius=radius)
    spectrum = np.fft.fft2(IMAGE / 255.0, axes=(0, 1))
    style = np.abs(np.fft.fft2(STYLE[0] / 255.0, axes=(0, 1))) / STYLE[0][:, :, 0].size
    own = np.abs(spectrum) / IMAGE[:, :, 0].size
    for down in range(-radius, radius + 1):
        for right in range(-radius, radius + 1):
            weight = 0.5 + 0.5 * np.cos(np.pi * min(np.hypot(down, right) / radius, 1.0))
            ratio = style[down, right] / own[down, right]
            spectrum[down, right] *= 1.0 + weight * (ratio - 1.0)
    expected = np.fft.ifft2(spectrum, axes=(0, 1)).real.clip(0, 1) * 255.0
    moved = transfer.apply(GBufferFrame(IMAGE), np.random.default_rng(0))
    assert np.abs(moved - expected).max() <= 0.501


def test_mean_becomes_that_of_the_style():
    transfer = FourierTransfer.fit(STYLE[:1], radius=1)
    image = (100 + IMAGE // 8).astype(np.uint8)
    moved = transfer.apply(GBufferFrame(image), np.random.default_rng(0))
    assert moved.mean(axis=(0, 1)) == pytest.approx(STYLE[0].mean(axis=(0, 1)), abs=0.5)


def test_fine_detail_is_untouched():
    transfer = FourierTransfer.fit(STYLE, radius=2)
    image = np.full((64, 64, 3), 120, np.uint8)
    image[24:40, 24:40] = 140
    moved = transfer.apply(GBufferFrame(image), np.random.default_rng(0)).astype(int)
    step = np.diff(moved, axis=1)[32] - np.diff(image.astype(int), axis=1)[32]
    assert np.abs(step).max() <= 3


def test_black_image_stays_finite():
    black = GBufferFrame(np.zeros((20, 20, 3), np.uint8))
    moved = FourierTransfer.fit(STYLE).apply(black, np.random.default_rng(0))
    assert np.array_equal(moved, black.rgb)


def test_style_is_drawn():
    transfer = FourierTransfer.fit([STYLE[0], STYLE[1] // 4])
    images = {
        transfer.apply(GBufferFrame(IMAGE), np.random.default_rng(seed)).tobytes()
        for seed in range(12)
    }
    assert len(images) == 2


@pytest.mark.parametrize(
    ("style", "radius", "message"),
    [
        (STYLE, -1, "must be 0 or more, not -1"),
        ([np.zeros((40, 6, 3), np.uint8)], 3, "6x40 pixels is too small for the radius 3"),
    ],
)
def test_bad_styles_are_refused(style, radius, message):
    with pytest.raises(Sim2CamError, match=message):
        FourierTransfer.fit(style, radius=radius)
