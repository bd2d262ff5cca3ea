"""Layers show every channel, in colours from which its values can be told."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from sim2cam.data.channels import CHANNELS, FLOW_OCCLUDED, FLOW_VISIBLE, encode_channel
from sim2cam.data.sample import RawFormat
from sim2cam.files import write_bytes
from sim2cam.images import encode_jpeg
from sim2cam.report.image_layers import (
    LAYERS,
    LayerName,
    get_instance_colour,
    list_layers,
    paint_layers,
)


@pytest.fixture
def paint(make_dataset, tmp_path):
    """A function that stores channels of one sample and paints its layers."""

    def painted(right=None, raw_format=None, **channels):
        files = {}
        for name, values in channels.items():
            files[name] = tmp_path / f"{name}.png"
            write_bytes(files[name], encode_channel(name, values))
        known = {"channels": files, "depth_unit_m": 0.001, "raw_format": raw_format}
        sample = replace(make_dataset([()]).samples[0], **known)
        if right is not None:
            write_bytes(tmp_path / "right.jpg", encode_jpeg(right, 95))
            sample = replace(sample, right_rgb=tmp_path / "right.jpg")
        layers = paint_layers(sample)
        assert list(layers) == list_layers(sample)
        return layers

    return painted


def test_every_channel_has_a_layer():
    assert set(LAYERS) == {*CHANNELS, "right"}
    assert set(CHANNELS) == set(get_args(get_args(LayerName)[0]))


def brightness(rgb):
    return rgb.astype(float) @ [0.2126, 0.7152, 0.0722]


def scale(painted):
    return painted.low, painted.high


def test_near_is_bright_and_nothing_is_black(paint):
    depth = np.linspace(0.2, 2.0, 64, dtype=np.float32).reshape(1, 64).repeat(4, 0)
    depth[:, :3] = 0
    painted = paint(depth=depth, disparity=np.where(depth > 0, 10 / np.maximum(depth, 0.1), 0))
    for name in ("depth", "disparity"):
        row = brightness(painted[name].rgb)[0]
        assert (row[:3] == 0).all()
        assert (np.diff(row[3:]) <= 0.5).all()
        assert row[3] > row[-1] + 100
    far, near = (float(text.removesuffix(" m")) for text in scale(painted["depth"]))
    assert (far, near) == (pytest.approx(2.0, abs=0.03), pytest.approx(0.28, abs=0.03))
    few, many = (float(text.removesuffix(" px")) for text in scale(painted["disparity"]))
    assert (few, many) == (pytest.approx(10 / far, abs=0.1), pytest.approx(10 / near, rel=0.1))


def test_readings_are_on_the_scale_of_depth_with_their_holes(paint):
    depth = np.linspace(0.2, 2.0, 64, dtype=np.float32).reshape(1, 64).repeat(4, 0)
    read = np.round(depth * 1000).astype(np.uint16)
    read[:, 40:50] = 0
    painted = paint(depth=depth, sensor_depth=read)
    assert painted["sensor_depth"].high == painted["depth"].high
    hole = np.zeros(64, bool)
    hole[40:50] = True
    rgb = painted["sensor_depth"].rgb
    assert not rgb[:, hole].any()
    off = np.abs(rgb[:, ~hole].astype(int) - painted["depth"].rgb[:, ~hole])
    assert off.max() <= 4  # half a millimetre


def test_readings_alone_have_a_scale_of_their_own(paint):
    painted = paint(sensor_depth=np.array([[0, 500, 1000]], np.uint16))
    assert painted["sensor_depth"].high == "0.51 m"


def test_nothing_at_all_is_black(paint):
    painted = paint(depth=np.zeros((4, 5), np.float32))["depth"]
    assert not painted.rgb.any()
    assert (painted.low, painted.high) == ("", "")


def test_instances_next_to_one_another_differ(paint):
    numbers = np.arange(64, dtype=np.uint16).reshape(1, 64)
    for name in ("ids", "parts"):
        row = paint(**{name: numbers})[name].rgb[0].astype(int)
        assert not row[0].any()
        assert tuple(row[5]) == get_instance_colour(5)
        for step in (1, 2, 3):
            assert np.abs(row[1 + step :] - row[1:-step]).max(axis=1).min() > 60


def test_normals_show_right_up_and_towards(paint):
    normals = np.array([[[1, 0, 0], [0, -1, 0], [0, 0, -1], [0, 0, 0]]], np.float32)
    row = paint(normals=normals)["normals"].rgb[0].tolist()
    assert row == [[255, 128, 128], [128, 255, 128], [128, 128, 255], [0, 0, 0]]


def test_coordinates_are_their_colours(paint):
    points = np.array([[[0, 0.5, 1], [np.nan] * 3]], np.float32)
    assert paint(coordinates=points)["coordinates"].rgb.tolist() == [[[0, 128, 255], [0, 0, 0]]]


def test_what_both_eyes_see_is_told_apart(paint):
    shared = np.array([[1, 0, 0]], np.uint16)
    disparity = np.array([[5, 5, 0]], np.float32)
    both, left, nothing = paint(shared=shared, disparity=disparity)["shared"].rgb[0].tolist()
    assert min(both) > 200
    assert left[0] > left[1] > left[2] > 0
    assert nothing == [0, 0, 0]


def test_flow_is_a_wheel_of_hues(paint):
    flow = np.zeros((1, 300, 3), np.float32)
    flow[..., :2] = [10.0, 0.0]
    flow[..., 2] = FLOW_VISIBLE
    flow[0, :6] = [
        [10, 0, FLOW_VISIBLE], [0, 10, FLOW_VISIBLE], [-10, 0, FLOW_VISIBLE], [0, 0, FLOW_VISIBLE],
        [10, 0, FLOW_OCCLUDED], [0, 0, 0],
    ]  # fmt: skip
    painted = paint(flow_forward=flow, flow_backward=flow[:, ::-1])
    right, down, left, still, hidden, nothing = painted["flow_forward"].rgb[0, :6].tolist()
    assert right == [255, 0, 0]
    assert np.allclose(down, [128, 255, 0], atol=1)
    assert left == [0, 255, 255]
    assert still == [255, 255, 255]
    assert hidden == [140, 0, 0]
    assert nothing == [0, 0, 0]
    assert scale(painted["flow_forward"]) == ("", "10.0 px")
    backward = painted["flow_backward"].rgb[:, ::-1]
    assert np.array_equal(backward, painted["flow_forward"].rgb)


def test_a_flow_of_nothing_is_black(paint):
    painted = paint(flow_forward=np.zeros((3, 4, 3), np.float32))["flow_forward"]
    assert not painted.rgb.any()


def test_coverage_is_its_share_of_white(paint):
    row = paint(coverage=np.array([[0, 0.5, 1]], np.float32))["coverage"].rgb[0].tolist()
    assert row == [[0] * 3, [128] * 3, [255] * 3]


def test_the_right_eye_s_picture_is_itself(paint):
    right = np.full((8, 8, 3), (200, 40, 90), np.uint8)
    assert np.abs(paint(right=right)["right"].rgb.astype(int) - right).max() < 6


def test_a_raw_picture_is_shown_in_the_colours_of_its_filters(paint):
    raw = np.array([[64, 1023], [304, 10]], np.uint16)
    rgb = paint(raw=raw, raw_format=RawFormat("GRBG", 64, 1023))["raw"].rgb
    assert rgb.tolist() == [[[0, 0, 0], [255, 0, 0]], [[0, 0, 128], [0, 0, 0]]]
