"""Tone curves: what large parts lose, what stays."""

import numpy as np
import pytest

from sim2cam.render.sensor.tone import compress_local_tone


@pytest.fixture(scope="module")
def halves():
    """A dark and a bright half, with a fine texture on both."""
    rng = np.random.default_rng(0)
    light = np.full((120, 160, 3), 0.05, np.float32)
    light[:, 80:] = 0.8
    return light * rng.uniform(0.9, 1.1, (120, 160, 1)).astype(np.float32)


def stops_between(light):
    sides = light[:, 10:50].mean(), light[:, 110:150].mean()
    return np.log2(sides[1] / sides[0])


@pytest.mark.parametrize("strength", [0.25, 0.5])
def test_the_difference_of_large_parts_shrinks_by_the_strength(halves, strength):
    found = stops_between(compress_local_tone(halves, strength)) / stops_between(halves)
    assert found == pytest.approx(1 - strength, abs=0.15)


def test_texture_stays(halves):
    def contrast(light):
        part = light[10:110, 10:50]
        return part.std() / part.mean()

    assert contrast(compress_local_tone(halves, 0.5)) > 0.9 * contrast(halves)


def test_colours_stay():
    light = np.random.default_rng(1).uniform(0.05, 1, (48, 64, 3)).astype(np.float32)
    found = compress_local_tone(light, 0.6)
    assert np.allclose(
        found / found.sum(axis=-1, keepdims=True), light / light.sum(-1, keepdims=True), atol=1e-5
    )


def test_an_even_image_stays_and_so_does_any_at_no_strength(halves):
    assert np.allclose(
        compress_local_tone(np.full((32, 48, 3), 0.3, np.float32), 1.0), 0.3, atol=1e-5
    )
    assert compress_local_tone(halves, 0.0) is halves


def test_brightness_in_stops_stays_on_the_mean(halves):
    before, after = (
        np.log2(x.mean(axis=-1)).mean() for x in (halves, compress_local_tone(halves, 0.7))
    )
    assert after == pytest.approx(before, abs=0.1)


@pytest.mark.parametrize("size", [(1, 1), (3, 50), (17, 16)])
def test_images_of_any_size_are_evened(size):
    assert compress_local_tone(np.full((*size, 3), 0.2, np.float32), 0.5).shape == (*size, 3)
