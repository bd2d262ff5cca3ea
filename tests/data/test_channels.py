import re

import cv2
import numpy as np
import pytest

from sim2cam.data.channels import CHANNELS, DEPTH_SCALE_M, encode_channel, read_channel
from sim2cam.errors import InputError
from sim2cam.files import write_bytes
from sim2cam.images import encode_png

RNG = np.random.default_rng(0)
NORMALS = RNG.normal(size=(6, 9, 3))
NORMALS /= np.linalg.norm(NORMALS, axis=-1, keepdims=True)
FLOW = RNG.uniform(-511, 511, (6, 9, 3)).astype(np.float32)
FLOW[..., 2] = RNG.integers(1, 3, (6, 9))
EXAMPLES = {
    "depth": (RNG.uniform(0.1, 6.5, (6, 9)).astype(np.float32), DEPTH_SCALE_M / 2),
    "ids": (RNG.integers(0, 65536, (6, 9)).astype(np.uint16), 0),
    "parts": (RNG.integers(0, 7, (6, 9)).astype(np.uint16), 0),
    "normals": (NORMALS.astype(np.float32), 0.5 / 32767),
    "coverage": (RNG.uniform(0, 1, (6, 9)).astype(np.float32), 0.5 / 65535),
    "flow_forward": (FLOW, 0.5 / 64),
    "flow_backward": (FLOW, 0.5 / 64),
    "coordinates": (RNG.uniform(0, 1, (6, 9, 3)).astype(np.float32), 0.5 / 65534),
    "sensor_depth": (RNG.integers(0, 65536, (6, 9)).astype(np.uint16), 0),
    "disparity": (RNG.uniform(1, 255, (6, 9)).astype(np.float32), 0.5 / 256),
    "shared": (RNG.integers(0, 2, (6, 9)).astype(np.uint16), 0),
    "raw": (RNG.integers(0, 65536, (6, 9)).astype(np.uint16), 0),
}


def stored(folder, name, values):
    write_bytes(folder / "a.png", encode_channel(name, values))
    return read_channel(name, folder / "a.png")


@pytest.mark.parametrize("name", CHANNELS)
def test_a_channel_comes_back_within_half_a_step(tmp_path, name):
    values, step = EXAMPLES[name]
    found = stored(tmp_path, name, values)
    assert found.dtype == values.dtype
    assert np.abs(found.astype(np.float64) - values).max() <= step * 1.01


@pytest.mark.parametrize("name", CHANNELS)
def test_nothing_stays_nothing(tmp_path, name):
    values = EXAMPLES[name][0].copy()
    nothing = np.nan if name == "coordinates" else 0
    values[2, 3] = nothing
    assert np.array_equal(stored(tmp_path, name, values)[2, 3], values[2, 3], equal_nan=True)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_planes_are_x_y_z_in_the_order_red_green_blue(tmp_path, axis):
    values = np.zeros((2, 2, 3), np.float32)
    values[..., axis] = 1
    assert np.array_equal(stored(tmp_path, "normals", values), values)


def test_a_disparity_beyond_16_bits_is_none(tmp_path):
    values = np.array([[0.0, 0.5, 255.99, 256.1, 400.0]], np.float32)
    found = stored(tmp_path, "disparity", values)
    assert np.allclose(found, [[0, 0.5, 255.99, 0, 0]], atol=0.5 / 256)


def test_the_ends_of_an_object_are_kept(tmp_path):
    values = np.array([[[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 0.5]]], np.float32)
    assert np.allclose(stored(tmp_path, "coordinates", values), values, atol=1e-5)


def test_a_flow_is_read_as_one_of_kitti_s(tmp_path):
    values = np.zeros((4, 5, 3), np.float32)
    values[1, 2] = (3.25, -7.5, 1)
    values[2, 2] = (-511.0, 0.0, 2)
    write_bytes(tmp_path / "a.png", encode_channel("flow_forward", values))
    stored = cv2.imdecode(np.fromfile(tmp_path / "a.png", np.uint8), cv2.IMREAD_UNCHANGED)[
        ..., ::-1
    ].astype(float)
    valid = stored[..., 2] > 0  # as the development kit of KITTI 2015 has it
    flow = np.where(valid[..., None], (stored[..., :2] - 2**15) / 64, 0)
    assert np.array_equal(flow, values[..., :2])
    assert valid.sum() == 2


@pytest.mark.parametrize("offset", [(512.0, 0.0), (0.0, -600.0), (np.nan, 0.0), (np.inf, 1.0)])
def test_a_flow_out_of_reach_is_none(tmp_path, offset):
    values = np.full((2, 2, 3), 1, np.float32)
    values[0, 0, :2] = offset
    found = stored(tmp_path, "flow_backward", values)
    assert not found[0, 0].any()
    assert np.array_equal(found[1], values[1])


@pytest.mark.parametrize(
    ("name", "pixels", "what"),
    [
        ("normals", np.zeros((4, 5), np.uint16), "of 3 channels, found mode I;16"),
        ("ids", np.zeros((4, 5, 3), np.uint16), "of one channel, found mode RGB"),
        ("depth", np.zeros((4, 5), np.uint8), "of one channel, found mode L"),
    ],
)
def test_a_file_of_another_kind_is_refused(tmp_path, name, pixels, what):
    path = tmp_path / "a.png"
    write_bytes(path, encode_png(pixels))
    with pytest.raises(
        InputError, match=f"^{re.escape(f'{path}: expected a 16-bit image {what}.')}$"
    ):
        read_channel(name, path)
