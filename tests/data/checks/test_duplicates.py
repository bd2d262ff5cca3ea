"""Copies are found however they were changed a little; other pictures are not."""

import os
from pathlib import Path

import cv2
import numpy as np
import pytest

from sim2cam import images
from sim2cam.data.checks.duplicates import duplicates_note, near_duplicates
from sim2cam.data.real_images import read_captures, split_captures
from sim2cam.files import write_bytes
from sim2cam.metrics.perceptual_hash import BITS, NEAR_BITS, differing_bits, fingerprint

STANDIN = Path(__file__).parents[3] / "sim2cam" / "recipes" / "standin"
REAL = os.environ.get("SIM2CAM_REAL")
CHANGES = {
    "recompressed": lambda rgb: images.decode_picture(images.encode_jpeg(rgb, 30)),
    "halved": lambda rgb: cv2.resize(rgb, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA),
    "brighter": lambda rgb: np.clip(rgb * 1.25, 0, 255).astype(np.uint8),
    "shifted": lambda rgb: np.ascontiguousarray(rgb[5:, 5:]),
    "cut": lambda rgb: np.ascontiguousarray(rgb[8:-8, 8:-8]),
    "noisy": lambda rgb: np.clip(
        rgb + np.random.default_rng(0).normal(0, 8, rgb.shape), 0, 255
    ).astype(np.uint8),
}


@pytest.fixture(scope="module")
def photos():
    return split_captures(STANDIN, origin="stand-in").test.samples[:12]


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_copy_is_found(photos, change, tmp_path):
    copies = tmp_path / "copies"
    for number, sample in enumerate(photos):
        rgb = change(images.read_rgb(sample.rgb))
        write_bytes(copies / f"{number:02d}.png", images.encode_png(rgb))
    tested = read_captures(copies).samples
    found = near_duplicates(photos, tested)
    assert {(d.tested, d.learned) for d in found} == {
        (f"{number:02d}.png", sample.name) for number, sample in enumerate(photos)
    }
    assert [d.bits for d in found] == sorted(d.bits for d in found)


def test_pictures_of_other_scenes_are_not(photos):
    sets = split_captures(STANDIN, origin="stand-in")
    assert near_duplicates(sets.style.samples, sets.test.samples) == ()
    assert near_duplicates((), photos) == ()
    assert near_duplicates(photos, ()) == ()
    assert duplicates_note((), 12) == ""


def test_bits_are_counted_as_by_hand(monkeypatch):
    monkeypatch.setattr("sim2cam.metrics.perceptual_hash._BLOCK", 2)
    rng = np.random.default_rng(0)
    a, b = rng.random((3, BITS)) < 0.5, rng.random((4, BITS)) < 0.5
    b[0] = ~a[0]
    assert (differing_bits(a, b) == (a[:, None] != b[None]).sum(axis=2)).all()
    assert fingerprint(np.zeros((5, 4, 3), np.uint8)).shape == (BITS,)


@pytest.mark.real
@pytest.mark.skipif(REAL is None, reason="needs the real captures in $SIM2CAM_REAL")
def test_dice_of_one_burst_are_told():
    sets = split_captures(Path(REAL) / "dice")
    found = near_duplicates(sets.style.samples, sets.test.samples)
    assert 10 < len(found) < 40
    assert found[0].bits <= NEAR_BITS
    note = duplicates_note(found, len(sets.test.samples))
    assert note.startswith(f"{len(found)} of 50 test images look nearly like one that was learned")
    assert f"test/IMG_20191208_112843.jpg and train/IMG_20191208_112847.jpg ({found[0].bits} of 255 bits" in note  # fmt: skip
