"""What pixels tell of the JPEG that they were: told where it was one, and nothing where it was none."""

import cv2
import numpy as np
import pytest
from PIL import Image

from sim2cam import images
from sim2cam.adapt.calibration.jpeg import (
    JpegEncoding,
    estimate_jpeg_encoding,
    estimate_jpeg_quality,
)
from sim2cam.adapt.calibration.photo_measurements import list_photo_files, measure_photos


def painted(color=1.0, seed=0):
    """A picture (256, 320, 3) of soft things of many sizes and colours, with a little noise."""
    rng = np.random.default_rng(seed)
    picture = np.full((256, 320, 3), 128.0)
    for sigma, strength in ((1.0, 40), (4, 120), (16, 300)):
        spots = rng.normal(0, strength, picture.shape)
        picture += cv2.GaussianBlur(spots, (0, 0), sigma)
    grey = picture.mean(axis=2, keepdims=True)
    picture = grey + color * (picture - grey) + rng.normal(0, 1, picture.shape)
    return np.clip(picture, 0, 255).astype(np.uint8)


def stored(rgb, quality, subsampling="420"):
    return images.decode_image(images.encode_jpeg(rgb, quality, subsampling))


@pytest.mark.parametrize("quality", [25, 50, 75, 90, 96])
@pytest.mark.parametrize("subsampling", ["444", "422", "420"])
def test_pixels_tell_the_jpeg_that_they_were(quality, subsampling):
    found = estimate_jpeg_encoding(stored(painted(), quality, subsampling))
    assert found == JpegEncoding(quality, subsampling, is_from_pixels=True)


def test_even_colours_do_not_tell_how_they_were_stored():
    assert estimate_jpeg_encoding(stored(painted(color=0.0), 75)) == JpegEncoding(
        75, None, is_from_pixels=True
    )


@pytest.mark.parametrize(
    "changed",
    [
        lambda rgb: rgb,
        lambda rgb: stored(rgb, 75)[3:, 5:],
        lambda rgb: cv2.resize(stored(rgb, 75), None, fx=0.9, fy=0.9),
        lambda rgb: stored(rgb, 100),
        lambda rgb: np.full_like(stored(rgb, 75), 130),
    ],
    ids=["never one", "cropped", "scaled", "too fine", "nothing in it"],
)
def test_other_pixels_tell_none(changed):
    assert estimate_jpeg_encoding(changed(painted())) is None


def test_tables_of_others_are_near(tmp_path):
    path = tmp_path / "a.jpg"
    path.write_bytes(images.encode_jpeg(painted(), 80))
    own = np.array(images.read_header(path).quantization[0])
    steps = np.round(own * np.random.default_rng(0).uniform(0.8, 1.25, 64)).astype(int).tolist()
    Image.fromarray(painted()).save(path, qtables=[steps] * 2)
    assert abs(estimate_jpeg_quality(images.read_header(path)) - 80) <= 3
    assert abs(estimate_jpeg_encoding(images.read_rgb(path)).quality - 80) <= 5


@pytest.mark.parametrize(("suffix", "is_past"), [("jpg", False), ("png", True)])
def test_photos_tell_of_their_file_or_of_their_pixels(tmp_path, suffix, is_past):
    data = images.encode_jpeg(painted(), 80, "422")
    (tmp_path / "a.jpg").write_bytes(data)
    if suffix == "png":
        Image.fromarray(images.decode_image(data)).save(tmp_path / "a.png")
        (tmp_path / "a.jpg").unlink()
    captures, _ = list_photo_files(tmp_path)
    (photo,), _ = measure_photos(captures, None, lambda done, total: None)
    assert photo.jpeg_encoding == JpegEncoding(80, "422", is_past)
