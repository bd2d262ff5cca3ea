import cv2
import numpy as np
import pytest

from sim2cam.adapt.certificate.artefacts import (
    measure_added_structure,
    measure_clipped_fraction,
    measure_grid_artefact,
    measure_lost_structure,
    measure_seam_step,
)
from sim2cam.adapt.certificate.image_pair import ImagePair, ObjectRegion
from sim2cam.images import decode_image, encode_jpeg

CAMERA = {
    "identity": lambda rgb: rgb,
    "darker": lambda rgb: (255 * (rgb / 255 * 0.6) ** 1.1).astype(np.uint8),
    "blurred": lambda rgb: cv2.GaussianBlur(rgb, (0, 0), 1.1),
    "noisy": lambda rgb: (rgb + np.random.default_rng(1).normal(0, 6, rgb.shape)).clip(0, 255).astype(np.uint8),
    "JPEG": lambda rgb: decode_image(encode_jpeg(np.ascontiguousarray(rgb), 60)),
}  # fmt: skip


@pytest.mark.parametrize("change", CAMERA.values(), ids=CAMERA)
def test_a_camera_adds_nothing(pair, picture, change):
    made = pair(change(picture))
    assert measure_added_structure(made) < 6
    assert measure_grid_artefact(made) < 0.25
    assert measure_seam_step(made) < 2.5
    assert measure_clipped_fraction(made) < 0.1


def test_a_thing_that_was_not_there_is_structure(pair, picture, ids):
    after = picture.copy()
    thing = np.roll(ids == 1, (75, 75), (0, 1))
    after[thing] = np.roll(picture, (75, 75), (0, 1))[thing]
    assert measure_added_structure(pair(after)) > 15


@pytest.mark.parametrize("change", CAMERA.values(), ids=CAMERA)
def test_a_camera_loses_nothing_within_objects(pair, picture, change):
    assert all(lost < 3 for lost in measure_lost_structure(pair(change(picture))))


def test_what_is_wiped_off_an_object_is_lost_by_this_one_alone(pair, picture, ids):
    after = picture.copy()
    rows, columns = (slice(c - 9, c + 9) for c in (30, 40))
    after[rows, columns][ids[rows, columns] == 1] = (190, 60, 50)
    lost, *others = measure_lost_structure(pair(after))
    assert lost > 10
    assert max(others) < 1


def test_an_object_without_an_inside_loses_none(picture):
    thin = ObjectRegion((slice(10, 15), slice(10, 90)), np.ones((5, 80), np.bool_))
    assert measure_lost_structure(ImagePair(picture, 255 - picture, (thin,))) == [None]


@pytest.mark.parametrize("period", [2.5, 3, 5, 6, 8, 16, 20])
@pytest.mark.parametrize("height", [2.0, 6.0])
def test_a_wave_has_its_amplitude(picture, period, height):
    smooth = cv2.GaussianBlur(picture.clip(10, 245), (0, 0), 6)
    wave = height * np.sin(2 * np.pi * np.arange(picture.shape[1]) / period)
    after = np.rint(smooth + wave[:, None]).astype(np.uint8)
    assert measure_grid_artefact(ImagePair(smooth, after)) == pytest.approx(height, rel=0.25)


@pytest.mark.parametrize("period", [2, 4, 8])
def test_a_checkerboard_is_a_wave(pair, picture, period):
    rows, columns = np.indices(picture.shape[:2]) // (period // 2)
    middle = picture.clip(10, 245) + 3 * (1 - 2 * ((rows + columns) % 2))[:, :, None]
    assert measure_grid_artefact(pair(middle.astype(np.uint8))) > 2


@pytest.mark.parametrize("axis", [0, 1])
def test_a_seam_has_its_step(pair, picture, axis):
    after = picture.astype(int)
    after[(slice(None),) * axis + (slice(70, None),)] += 8
    assert measure_seam_step(pair(after.clip(0, 255).astype(np.uint8))) == pytest.approx(8, abs=2)


def test_clipped_objects_count_by_themselves(pair, picture, ids):
    after = picture.copy()
    after[ids == 1] = 255
    made = pair(after)
    assert measure_clipped_fraction(made) == pytest.approx((ids == 1).sum() / (ids > 0).sum())
    assert measure_clipped_fraction(pair(picture)) == 0


@pytest.mark.parametrize("shape", [(1, 1), (5, 9), (16, 300)])
def test_any_size_can_be_measured(shape):
    before = np.random.default_rng(0).integers(0, 256, (*shape, 3)).astype(np.uint8)
    made = ImagePair(before, before)
    assert np.isfinite((measure_added_structure(made), measure_clipped_fraction(made))).all()
    assert measure_grid_artefact(made) is None


def test_a_seam_needs_a_row_or_a_column_that_is_flat():
    cells = np.indices((120, 160)) // 4
    board = np.uint8(255 * (cells.sum(axis=0) % 2))[:, :, None].repeat(3, axis=2)
    assert measure_seam_step(ImagePair(board, board)) is None
    board[:, 40:80] = 128
    assert measure_seam_step(ImagePair(board, board)) == 0
