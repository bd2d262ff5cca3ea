import os
from pathlib import Path

import cv2
import numpy as np
import pytest

from sim2cam import images
from sim2cam.data.checks.duplicates import describe_near_duplicates, find_near_duplicates
from sim2cam.data.real_images import read_real_images, split_real_images
from sim2cam.files import write_bytes
from sim2cam.metrics.perceptual_hash import (
    N_HASH_BITS,
    NEAR_DUPLICATE_BITS,
    compute_hamming_distances,
    compute_perceptual_hash,
)

STANDIN = Path(__file__).parents[3] / "sim2cam" / "recipes" / "standin"
REAL = os.environ.get("SIM2CAM_REAL")
CHANGES = {
    "recompressed": lambda rgb: images.decode_image(images.encode_jpeg(rgb, 30)),
    "halved": lambda rgb: cv2.resize(rgb, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA),
    "brighter": lambda rgb: np.clip(rgb * 1.25, 0, 255).astype(np.uint8),
    "shifted": lambda rgb: np.ascontiguousarray(rgb[5:, 5:]),
    "cut": lambda rgb: np.ascontiguousarray(rgb[8:-8, 8:-8]),
    "noisy": lambda rgb: np.clip(rgb + np.random.default_rng(0).normal(0, 8, rgb.shape), 0,
     255).astype(np.uint8),
}  # fmt: skip


@pytest.fixture(scope="module")
def photos():
    return split_real_images(STANDIN, origin="stand-in").test.samples[:12]


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_copy_is_found(photos, change, tmp_path):
    copies = tmp_path / "copies"
    for number, sample in enumerate(photos):
        rgb = change(images.read_rgb(sample.rgb))
        write_bytes(copies / f"{number:02d}.png", images.encode_png(rgb))
    tested = read_real_images(copies).samples
    found = find_near_duplicates(photos, tested)
    assert {(d.test_name, d.training_name) for d in found} == {
        (f"{number:02d}.png", sample.name) for number, sample in enumerate(photos)
    }
    assert [d.hamming_distance for d in found] == sorted(d.hamming_distance for d in found)


def test_pictures_of_other_scenes_are_not(photos):
    sets = split_real_images(STANDIN, origin="stand-in")
    assert find_near_duplicates(sets.style.samples, sets.test.samples) == ()
    assert find_near_duplicates((), photos) == ()
    assert find_near_duplicates(photos, ()) == ()
    assert describe_near_duplicates((), 12) == ""


def test_bits_are_counted_as_by_hand(monkeypatch):
    monkeypatch.setattr("sim2cam.metrics.perceptual_hash._CHUNK_ROWS", 2)
    rng = np.random.default_rng(0)
    a, b = rng.random((3, N_HASH_BITS)) < 0.5, rng.random((4, N_HASH_BITS)) < 0.5
    b[0] = ~a[0]
    assert (compute_hamming_distances(a, b) == (a[:, None] != b[None]).sum(axis=2)).all()
    assert compute_perceptual_hash(np.zeros((5, 4, 3), np.uint8)).shape == (N_HASH_BITS,)


@pytest.mark.real
@pytest.mark.skipif(REAL is None, reason="needs the real captures in $SIM2CAM_REAL")
def test_dice_of_one_burst_are_told():
    sets = split_real_images(Path(REAL) / "dice")
    found = find_near_duplicates(sets.style.samples, sets.test.samples)
    assert 10 < len(found) < 40
    assert found[0].hamming_distance <= NEAR_DUPLICATE_BITS
    note = describe_near_duplicates(found, len(sets.test.samples))
    assert note.startswith(
        f"{len(found)} of 50 test images nearly equal an image used for training"
    )
    assert f"test/IMG_20191208_112843.jpg and train/IMG_20191208_112847.jpg ({found[0].hamming_distance} of 255 bits" in note  # fmt: skip
