import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sim2cam.adapt.transfers.transfer import read_frame
from sim2cam.data.sample import Sample
from sim2cam.errors import InputError
from sim2cam.files import write_bytes
from sim2cam.images import encode_png


@pytest.fixture
def sample(tmp_path: Path) -> Sample:
    write_bytes(tmp_path / "a.png", encode_png(np.full((6, 9, 3), 77, np.uint8)))
    write_bytes(tmp_path / "depth.png", encode_png(np.full((6, 9), 12345, np.uint16)))
    write_bytes(tmp_path / "ids.png", encode_png(np.full((6, 9), 3, np.uint16)))
    write_bytes(tmp_path / "small.png", encode_png(np.zeros((5, 9), np.uint16)))
    return Sample("a", tmp_path / "a.png", 9, 6, None, "sim")


def test_image_alone(sample):
    frame = read_frame(sample)
    assert frame.rgb.shape == (6, 9, 3)
    assert frame.depth_m is None
    assert frame.ids is None


def test_buffers_come_in_metres_and_ids(sample):
    folder = sample.rgb.parent
    frame = read_frame(
        replace(sample, channels={"depth": folder / "depth.png", "ids": folder / "ids.png"})
    )
    assert frame.depth_m is not None
    assert frame.depth_m == pytest.approx(1.2345, abs=1e-6)
    assert frame.ids is not None
    assert np.all(frame.ids == 3)


def test_buffer_of_another_size_is_refused(sample):
    small = sample.rgb.parent / "small.png"
    message = (
        f"{small}: has 9x5 pixels, but its image a.png has 9x6. "
        "Render both again, or remove the buffer."
    )
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        read_frame(replace(sample, channels={"ids": small}))
