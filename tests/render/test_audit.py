"""The audit of labels passes what was rendered and finds every fault planted in it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sim2cam.dataset.audit import audit
from sim2cam.dataset.channels import CHANNELS, encode, read
from sim2cam.dataset.sample import Sample
from sim2cam.geometry.fisheye import KannalaBrandt
from sim2cam.geometry.perspective import BrownConrady
from sim2cam.geometry.poses import Pose
from sim2cam.images import write_bytes
from sim2cam.render.frame import shoot

LENSES = {
    "pinhole": BrownConrady(400.0, 400.0, 159.5, 119.5),
    "barrel": BrownConrady(300.0, 300.0, 159.5, 119.5, k1=-0.25, k2=0.05, p1=0.002, p2=-0.001),
    "fisheye": KannalaBrandt(250.0, 250.0, 159.5, 119.5, 0.02, -0.004, 0.0, 0.0),
}


@pytest.fixture(scope="module")
def rendered(egl, make, tmp_path_factory):
    """A function that gives a sample and its channels, as a data set on disk has them."""
    folder = tmp_path_factory.mktemp("channels")

    def render(lens):
        scene = make.thrown()
        of = replace(make.camera((0.05, -0.2, 0.35), (0.02, 0.0, 0.08)), lens=LENSES[lens])
        egl.load(scene)
        frame = shoot(scene, of, egl, CHANNELS)
        channels = {}
        for name, values in frame.channels.items():
            write_bytes(folder / f"{lens}-{name}.png", encode(name, values))
            channels[name] = read(name, folder / f"{lens}-{name}.png")
        sample = Sample(
            lens, Path("a.jpg"), of.width, of.height, frame.objects, "sim", lens=of.lens
        )
        return sample, channels

    return {lens: render(lens) for lens in LENSES}


@pytest.mark.parametrize("lens", LENSES)
def test_what_was_rendered_passes(rendered, lens):
    sample, channels = rendered[lens]
    assert len(sample.objects) == 5
    assert list(audit(sample, channels)) == []


@pytest.mark.parametrize("left_out", CHANNELS)
def test_less_is_audited_too(rendered, left_out):
    sample, channels = rendered["barrel"]
    fewer = {name: values for name, values in channels.items() if name != left_out}
    assert list(audit(sample, fewer)) == []


def with_objects(change):
    return lambda sample, channels: (
        replace(sample, objects=tuple(change(label) for label in sample.objects)),
        channels,
    )


def with_channel(name, change):
    return lambda sample, channels: (sample, {**channels, name: change(channels[name])})


def moved(by):
    return with_objects(lambda label: replace(label, pose=Pose(position_m=by) @ label.pose))


def larger(label):
    low, high = np.array(label.extent_m)
    return replace(label, extent_m=(tuple(low * 0.7), tuple(high * 0.7)))


def world_pose(label):
    away = Pose.looking_at((0.3, 0.2, 1.0), (0.0, 0.0, 0.0), 0.4)
    return replace(label, pose=away @ label.pose)


def other_lens(sample, channels):
    return replace(sample, lens=replace(sample.lens, k1=0.0)), channels


def along_the_ray(sample, channels):
    rows, columns = np.indices(channels["depth"].shape).reshape(2, -1)
    rays = sample.lens.unproject(np.stack([columns, rows], 1).astype(float))
    stretch = (1 / rays[:, 2]).reshape(channels["depth"].shape)
    return sample, {**channels, "depth": channels["depth"] * stretch.astype(np.float32)}


FAULTS = {
    "a pose 5 mm beside": (moved((0.005, 0.0, 0.0)), "leaves that of its pose and extent"),
    "a pose 3 mm deeper": (moved((0.0, 0.0, 0.003)), "coordinates and depth differ"),
    "a pose in another frame": (with_objects(world_pose), "leaves that of its pose"),
    "an extent of another unit": (with_objects(larger), "leaves that of its pose and extent"),
    "depth along the ray": (along_the_ray, "coordinates and depth differ"),
    "depth of another scale": (with_channel("depth", lambda d: d * 1.1), "outside"),
    "coordinates mirrored": (
        with_channel("coordinates", lambda c: np.stack([1 - c[..., 0], c[..., 1], c[..., 2]], -1)),
        "beside their pixels",
    ),
    "coordinates shifted": (with_channel("coordinates", lambda c: np.roll(c, 2, 1)), "coordinates"),
    "coordinates left out": (
        with_channel("coordinates", lambda c: np.where(c > 0.5, np.nan, c)),
        "of its pixels have no coordinates",
    ),
    "normals of the world": (
        with_channel("normals", lambda n: n[..., [1, 2, 0]]),
        "degrees off the surface that depth makes",
    ),
    "normals of another picture": (
        with_channel("normals", lambda n: n[:, ::-1]),
        "degrees off the surface that depth makes",
    ),
    "labels of another lens": (other_lens, "beside their pixels"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(rendered, fault):
    plant, words = FAULTS[fault]
    found = list(audit(*plant(*rendered["barrel"])))
    assert any(words in what for what in found), found
    assert all(what.startswith("object ") for what in found)


def test_captures_are_not_audited(rendered):
    sample, channels = rendered["pinhole"]
    assert list(audit(replace(sample, lens=None), channels)) == []
