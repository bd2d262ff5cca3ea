"""Numbers as text, pictures as addresses."""

import base64

import numpy as np
import pytest

from sim2cam import images
from sim2cam.metrics.bootstrap import Estimate
from sim2cam.report.page import (
    encode_data_uri,
    encode_thumbnail,
    format_duration,
    format_interval,
    format_number,
    format_signed,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.0 s"), (59.94, "59.9 s"), (59.96, "1 min 00 s"), (65.4, "1 min 05 s"),
        (7380, "2 h 03 min"),
    ],
)  # fmt: skip
def test_durations(seconds, text):
    assert format_duration(seconds) == text


def test_numbers():
    nan = float("nan")
    assert (format_number(0.8421), format_number(nan)) == ("0.842", "–")
    assert [format_signed(v) for v in (0.1, -0.1, nan)] == ["+0.100", "-0.100", "–"]
    assert format_interval(Estimate(0.5, (0.4, 0.6))) == "0.400–0.600"
    assert format_interval(Estimate(0.5, (nan, nan))) == "–"


@pytest.mark.parametrize(
    ("shape", "size"), [((50, 200), (25, 100)), ((50, 80), (50, 80)), ((4000, 3), (100, 1))]
)
def test_pictures_shrink_but_do_not_grow(shape, size):
    rgb = np.full((*shape, 3), (200, 30, 30), np.uint8)
    jpeg = encode_thumbnail(rgb, 100)
    small = images.decode_image(jpeg)
    assert small.shape == (*size, 3)
    assert np.abs(small.astype(int).mean(axis=(0, 1)) - (200, 30, 30)).max() < 4
    assert base64.b64decode(encode_data_uri(jpeg).split(",")[1]) == jpeg
