"""The audit of coverage passes what was rendered and finds every fault planted in it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sim2cam.data.channels import encode_channel, read_channel
from sim2cam.data.checks.exposure_coverage import audit_coverage
from sim2cam.data.sample import FrameInfo, Sample
from sim2cam.files import write_bytes
from sim2cam.geometry.motion import Twist
from sim2cam.geometry.perspective import BrownConrady
from sim2cam.render.renderer import Stage
from sim2cam.scene.camera import Shutter

BARREL = BrownConrady(300.0, 300.0, 159.5, 119.5, k1=-0.25, k2=0.05)
STILL = (0.0, 0.0, 0.0)
CAMERAS = {
    "still dice": (STILL, Twist(), Shutter(0.03, 0.0)),
    "thrown dice": ((0.3, -0.2, 0.0), Twist(), Shutter(0.03, 0.0)),
    "thrown dice, rolling": ((0.3, -0.2, 0.0), Twist(), Shutter(0.02, 0.02)),
    "a camera that moves": (STILL, Twist((0.2, 0.1, 0.0), (0.0, 0.3, 1.0)), Shutter(0.03, 0.0)),
}


@pytest.fixture(scope="module")
def taken(egl, make, tmp_path_factory):
    """A function that gives a sample with channels, stored and read, by the name of the camera."""
    folder = tmp_path_factory.mktemp("exposed")

    def stored(name, values):
        write_bytes(folder / f"{name}.png", encode_channel(name, values))
        return read_channel(name, folder / f"{name}.png")

    def take(name):
        speed, twist, shutter = CAMERAS[name]
        scene = make.thrown()
        moving = (
            replace(body, velocity_m_s=speed, spin_rad_s=(0.0, 0.0, 0.0))
            if body.is_target
            else body
            for body in scene.bodies
        )
        scene = replace(scene, bodies=tuple(moving))
        of = make.camera((0.05, -0.2, 0.35), (0.02, 0.0, 0.08))
        of = replace(of, lens=BARREL, shutter=shutter, twist=twist)
        stage = Stage(scene, egl)
        frame = stage.shoot(of, ("depth", "ids", "coverage"))
        seen_from = of.twist.express_in(of.pose)
        moment = FrameInfo(0, 0.0, of.get_row_delay_s(), shutter.exposure_s, of.pose, seen_from)
        sample = Sample(
            name, Path("a.jpg"), of.width, of.height, frame.objects, "sim", lens=of.lens,
            frame_info=moment,
        )  # fmt: skip
        return sample, {key: stored(key, values) for key, values in frame.channels.items()}

    return {name: take(name) for name in CAMERAS}


@pytest.mark.parametrize("name", CAMERAS)
def test_what_was_rendered_passes(taken, name):
    sample, channels = taken[name]
    on_dice = channels["coverage"][channels["ids"] > 0]
    assert (on_dice.min() < 0.9) == (name != "still dice")
    assert list(audit_coverage(sample, channels)) == []


FAULTS = {
    "full everywhere": (np.ones_like, "is full along its whole edge, which moves by"),
    "its complement": (lambda c: 1 - c, "is not full, although no edge passes them"),
    "of a picture beside": (lambda c: np.roll(c, 25, 1), "is full along its whole edge"),
    "one grey": (lambda c: np.full_like(c, 0.6), "is not full, although no edge passes them"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(taken, fault):
    plant, words = FAULTS[fault]
    sample, channels = taken["thrown dice"]
    found = list(audit_coverage(sample, {**channels, "coverage": plant(channels["coverage"])}))
    assert any(words in what for what in found), found


def test_another_exposure_is_found(taken):
    sample, channels = taken["thrown dice"]
    short = replace(sample, frame_info=replace(sample.frame_info, exposure_s=0.0))
    assert any("is not full" in what for what in audit_coverage(short, channels))


def test_an_instant_and_captures_are_not_audited(taken):
    sample, channels = taken["thrown dice"]
    wrong = {**channels, "coverage": 1 - channels["coverage"]}
    assert list(audit_coverage(replace(sample, lens=None), wrong)) == []
    for moment in (None, FrameInfo(0), replace(sample.frame_info, exposure_s=None)):
        assert list(audit_coverage(replace(sample, frame_info=moment), wrong)) == []
