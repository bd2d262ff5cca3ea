"""Pictures as they are written: depth and transparency stay."""

from dataclasses import replace

import cv2
import numpy as np
import pytest
from PIL import Image

from sim2cam.adapt.translation import (
    NO_VERIFIERS,
    index_samples,
    translate_sample,
    translate_samples,
)
from sim2cam.data.channels import FLOW_VISIBLE, encode_channel
from sim2cam.data.sample import FrameInfo, Sample
from sim2cam.errors import InputError
from sim2cam.files import write_bytes
from sim2cam.geometry.poses import Pose
from sim2cam.images import detect_suffix, read_full_depth, read_rgb


class Warmer:
    def apply(self, frame, _rng):
        return (frame.rgb + np.array([30, 0, -10])).clip(0, 255).astype(np.uint8)


class Same:
    def apply(self, frame, _rng):
        return frame.rgb


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
    made = translate_sample(Warmer(), sample, "0", np.random.default_rng(0), NO_VERIFIERS)
    path = tmp_path / f"out{detect_suffix(made.encoded_image)}"
    write_bytes(path, made.encoded_image)
    assert np.array_equal(read_rgb(path), made.pair.after) or path.suffix == ".jpg"
    return made, read_full_depth(path)


def ramp(dtype, channels):
    """A slope so gentle that eight bits show steps; from 20 % to 80 % of the range."""
    top = np.iinfo(dtype).max
    slope = np.linspace(0.2, 0.8, 64 * 48 * channels).reshape(48, 64, channels) * top
    return slope.astype(dtype)


@pytest.mark.parametrize("name", ["a.png", "a.tif"])
def test_sixteen_bits_stay_sixteen(stored, tmp_path, name):
    pixels = ramp(np.uint16, 3)
    made, layers = translated(stored(pixels, name), tmp_path)
    assert detect_suffix(made.encoded_image) == ".png"
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
    assert made.certificate.decision == "appearance only"
    assert np.array_equal(read_full_depth(sample.rgb).alpha, pixels[..., 3])


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *((name, np.uint8) for name in ("a.png", "a.tif", "a.bmp", "a.jpg")),
        *((name, np.uint16) for name in ("a.png", "a.tif")),
    ],
)
def test_greys_stay_grey_at_the_brightness_of_what_is_made(stored, tmp_path, name, dtype):
    pixels = ramp(dtype, 1)[..., 0]
    made, _ = translated(stored(pixels, name), tmp_path)
    kept = cv2.imdecode(np.frombuffer(made.encoded_image, np.uint8), cv2.IMREAD_UNCHANGED)
    assert (kept.dtype, kept.shape) == (dtype, pixels.shape)
    added = (kept.astype(int) - pixels) / (np.iinfo(dtype).max // 255)
    brighter = 0.299 * 30 - 0.114 * 10  # of the light of BT.601
    assert np.abs(added - brighter).max() <= (3 if name == "a.jpg" else 0.6)
    assert np.ptp(made.pair.after, axis=2).max() == 0  # what is judged is what is written


@pytest.mark.parametrize("name", ["a.png", "a.jpg"])
def test_what_leaves_greys_as_they_are_leaves_their_files_so(stored, tmp_path, name):
    sample = stored(ramp(np.uint8, 1)[..., 0], name)
    made = translate_sample(Same(), sample, "0", np.random.default_rng(0), NO_VERIFIERS)
    assert np.abs(made.pair.after.astype(int) - read_rgb(sample.rgb)).max() <= (name == "a.jpg")


def test_transparent_greys_keep_their_transparency(tmp_path):
    path = tmp_path / "a.png"
    opacity = np.linspace(0, 255, 48 * 64).reshape(48, 64).astype(np.uint8)
    Image.fromarray(np.dstack([ramp(np.uint8, 1), opacity])).save(path)
    _, layers = translated(Sample("a", path, 64, 48, None, "real"), tmp_path)
    assert np.array_equal(layers.alpha, opacity)
    assert np.ptp(layers.rgb, axis=2).max() == 0


@pytest.mark.parametrize("name", ["a.png", "a.bmp", "a.TIF"])
def test_eight_bits_lose_nothing_where_none_was_lost(stored, tmp_path, name):
    pixels = ramp(np.uint8, 3)
    made, layers = translated(stored(pixels, name), tmp_path)
    assert (made.encoded_image[:4], layers) == (b"\x89PNG", None)
    assert (made.pair.after.astype(int) - pixels[..., ::-1] == [30, 0, -10]).all()


def test_of_a_jpeg_comes_a_jpeg(stored, tmp_path):
    made, layers = translated(stored(ramp(np.uint8, 3), "a.jpg"), tmp_path)
    assert (made.encoded_image[:2], layers) == (b"\xff\xd8", None)


def test_colours_end_at_the_ends_of_their_range(stored, tmp_path):
    pixels = np.full((48, 64, 3), 65535, np.uint16)
    pixels[..., 0] = 0  # blue
    _, layers = translated(stored(pixels, "a.png"), tmp_path)
    assert (layers.rgb == [65535, 65535, 0]).all()


class Painter:
    """Adds what it draws."""

    def apply(self, frame, rng):
        return (frame.rgb // 2 + rng.integers(0, 90, 3)).astype(np.uint8)


@pytest.fixture
def films(stored, tmp_path):
    """Two films of three pictures, of one scene, and a still; the second film without flow."""
    flow = np.zeros((48, 64, 3), np.float32)
    flow[..., 2] = FLOW_VISIBLE
    write_bytes(tmp_path / "flow.png", encode_channel("flow_backward", flow))
    samples = []
    for name, frame in (("a", 0), ("b", 1), ("c", 2), ("d", 0), ("e", 1), ("f", 2)):
        moment = FrameInfo(frame, 0.1 * frame, 0.0, 0.0, Pose())
        channels = {"flow_backward": tmp_path / "flow.png"} if name in "abc" and frame else {}
        sample = stored(ramp(np.uint8, 3), f"{name}.png")
        samples.append(replace(sample, frame_info=moment, channels=channels))
    return [*samples, stored(ramp(np.uint8, 3), "g.png")]


def test_pictures_of_a_film_share_their_draw_and_are_held_against_each_other(films):
    found = index_samples(films)
    assert [one.sequence_index for one in found] == [0, 0, 0, 3, 3, 3, 6]
    made = list(translate_samples(Painter(), found, 0, "adapt", NO_VERIFIERS))
    files = [one.encoded_image for one in made]
    assert files[0] == files[1] == files[2]
    assert files[3] == files[4] == files[5]
    assert len(set(files)) == 3
    findings = [one.certificate.checks["warping_error_levels"] for one in made]
    assert [(one.value, one.reason) for one in findings] == [
        (None, "first frame of its sequence"),
        (0.0, None),
        (0.0, None),
        (None, "first frame of its sequence"),
        (None, "no flow: render with flow_backward"),
        (None, "no flow: render with flow_backward"),
        (None, "not a frame of a sequence"),
    ]


def test_a_picture_that_is_missing_is_not_compared_across(films):
    made = translate_samples(
        Painter(), index_samples([films[0], films[2]]), 0, "adapt", NO_VERIFIERS
    )
    last = list(made)[-1].certificate.checks["warping_error_levels"]
    assert last.reason == "the previous frame is missing"


def test_a_flow_of_another_size_is_told(films, stored):
    small = replace(stored(ramp(np.uint8, 3)[:40], "h.png"), frame_info=films[1].frame_info)
    small = replace(small, channels=films[1].channels)
    first = replace(stored(ramp(np.uint8, 3)[:40], "i.png"), frame_info=films[0].frame_info)
    with pytest.raises(InputError, match=r"64x48 pixels, but its image h\.png has 64x40"):
        list(translate_samples(Painter(), index_samples([first, small]), 0, "adapt", NO_VERIFIERS))
