"""Pictures as they are written: depth and transparency stay."""

import cv2
import numpy as np
import pytest

from sim2cam.adapt.translation import NO_JUDGES, translate
from sim2cam.dataset.sample import Sample
from sim2cam.images import read_layers, read_rgb, write_bytes


class Warmer:
    def apply(self, frame, _rng):
        return (frame.rgb + np.array([30, 0, -10])).clip(0, 255).astype(np.uint8)


@pytest.fixture
def stored(tmp_path):
    """Stores pixels as OpenCV has them, and makes a sample of them."""

    def store(pixels, name):
        path = tmp_path / name
        write_bytes(path, cv2.imencode(path.suffix, pixels)[1].tobytes())
        return Sample(name, path, pixels.shape[1], pixels.shape[0], None, "real")

    return store


def translated(sample, tmp_path):
    """Returns the translation, and what its file holds."""
    made = translate(Warmer(), sample, "0", np.random.default_rng(0), NO_JUDGES)
    path = tmp_path / f"out{made.suffix}"
    write_bytes(path, made.file)
    assert np.array_equal(read_rgb(path), made.rgb) or made.suffix == ".jpg"
    return made, read_layers(path)


def ramp(dtype, channels):
    """A slope so gentle that eight bits show steps; from 20 % to 80 % of the range."""
    top = np.iinfo(dtype).max
    slope = np.linspace(0.2, 0.8, 64 * 48 * channels).reshape(48, 64, channels) * top
    return slope.astype(dtype)


@pytest.mark.parametrize("name", ["a.png", "a.tif"])
def test_sixteen_bits_stay_sixteen(stored, tmp_path, name):
    pixels = ramp(np.uint16, 3)
    made, layers = translated(stored(pixels, name), tmp_path)
    assert made.suffix == ".png"
    assert layers.rgb.dtype == np.uint16
    assert layers.alpha is None
    change = layers.rgb.astype(int) - pixels[..., ::-1]
    assert (change == np.array([30, 0, -10]) * 257).all()  # nothing of the slope is lost


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("name", ["a.png", "a.tif"])
def test_transparency_is_not_touched(stored, tmp_path, dtype, name):
    pixels = ramp(dtype, 4)
    pixels[..., 3] = np.random.default_rng(0).integers(0, np.iinfo(dtype).max, (48, 64))
    sample = stored(pixels, name)
    made, layers = translated(sample, tmp_path)
    assert layers.rgb.dtype == layers.alpha.dtype == dtype
    assert np.array_equal(layers.alpha, pixels[..., 3])
    assert made.certificate.verdict == "appearance only"
    assert np.array_equal(read_layers(sample.rgb).alpha, pixels[..., 3])


def test_deep_greys_become_colours_of_the_same_depth(stored, tmp_path):
    pixels = ramp(np.uint16, 1)[..., 0]
    _, layers = translated(stored(pixels, "grey.png"), tmp_path)
    assert np.array_equal(layers.rgb[..., 1], pixels)
    assert (layers.rgb[..., 0].astype(int) - pixels == 30 * 257).all()


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.bmp"])
def test_others_are_written_as_before(stored, tmp_path, name):
    made, layers = translated(stored(ramp(np.uint8, 3), name), tmp_path)
    assert (made.suffix, made.file[:2], layers) == (".jpg", b"\xff\xd8", None)


def test_colours_end_at_the_ends_of_their_range(stored, tmp_path):
    pixels = np.full((48, 64, 3), 65535, np.uint16)
    pixels[..., 0] = 0  # blue
    _, layers = translated(stored(pixels, "a.png"), tmp_path)
    assert (layers.rgb == [65535, 65535, 0]).all()
