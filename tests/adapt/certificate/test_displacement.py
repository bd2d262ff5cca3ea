import cv2
import numpy as np
import pytest

from sim2cam.adapt.certificate.displacement import match_objects, measure_image_correlation
from sim2cam.adapt.certificate.image_pair import ImagePair
from sim2cam.images import decode_image, encode_jpeg


def moved(rgb, right, down):
    matrix = np.array([[1, 0, right], [0, 1, down]], np.float64)
    return cv2.warpAffine(rgb, matrix, rgb.shape[1::-1], borderMode=cv2.BORDER_REFLECT)


@pytest.mark.parametrize(("right", "down"), [(0, 0), (0.5, 0), (-1.3, 0.7), (3, 0), (-2, -4)])
def test_displacement_is_told_below_a_pixel(pair, picture, right, down):
    for place in match_objects(pair(moved(picture, right, down))):
        assert place.shift_px == pytest.approx(np.hypot(right, down), abs=0.2)


def test_one_object_that_moved_is_told_from_those_that_did_not(pair):
    from tests.adapt.certificate.conftest import draw

    after, _ = draw(((30, 44), (80, 50), (60, 120)))
    first, *others = (place.shift_px for place in match_objects(pair(after)))
    assert first == pytest.approx(4, abs=0.3)
    assert max(others) < 0.1


CAMERA = {
    "dark": lambda rgb: rgb // 3,
    "blurred": lambda rgb: cv2.GaussianBlur(rgb, (0, 0), 1.1),
    "JPEG": lambda rgb: decode_image(encode_jpeg(np.ascontiguousarray(rgb), 55)),
    "noisy": lambda rgb: (rgb + np.random.default_rng(0).normal(0, 8, rgb.shape)).clip(0, 255).astype(np.uint8),
}  # fmt: skip


@pytest.mark.parametrize("change", CAMERA.values(), ids=CAMERA)
def test_a_camera_moves_nothing(pair, picture, change):
    for place in match_objects(pair(change(picture))):
        assert place.shift_px < 0.3
        assert place.correlation > 0.9


def test_a_negative_correlates_negatively(pair, picture):
    assert all(place.correlation < -0.99 for place in match_objects(pair(255 - picture)))
    assert measure_image_correlation(pair(255 - picture)) < -0.99


@pytest.mark.parametrize(
    "change",
    [
        *CAMERA.values(),
        lambda rgb: rgb * [1.2, 1.0, 0.7],
        lambda rgb: rgb * np.linspace(0.3, 1.0, rgb.shape[1])[:, None],
    ],
    ids=[*CAMERA, "warm", "shaded"],
)
def test_a_camera_turns_no_light_round(picture, change):
    after = change(picture).clip(0, 255).astype(np.uint8)
    assert measure_image_correlation(ImagePair(picture, after)) > 0.8


def test_small_things_on_a_plain_ground_are_enough_for_a_negative():
    before = np.full((400, 400, 3), 200, np.uint8)
    before[180:190, 100:110] = 60
    assert measure_image_correlation(ImagePair(before, 255 - before)) == pytest.approx(-1)


def test_a_picture_that_becomes_flat_correlates_with_nothing(picture):
    assert measure_image_correlation(
        ImagePair(picture, np.full_like(picture, 90))
    ) == pytest.approx(0)


def test_a_picture_without_contrast_has_no_correlation(picture):
    faint = 128 + np.random.default_rng(0).integers(0, 3, picture.shape)
    assert measure_image_correlation(ImagePair(faint.astype(np.uint8), picture)) is None


def test_what_becomes_flat_correlates_with_nothing(pair, picture):
    for place in match_objects(pair(np.full_like(picture, 90))):
        assert place.correlation == pytest.approx(0, abs=0.01)


def test_an_object_without_contrast_has_no_place(picture, ids):
    from sim2cam.adapt.certificate.image_pair import extract_object_regions
    from tests.adapt.certificate.conftest import labels_of

    flat = np.full_like(picture, 90)
    assert (
        match_objects(
            ImagePair(flat, picture, extract_object_regions(labels_of(ids), ids, ids.shape))
        )
        == [None] * 3
    )


def test_an_object_at_the_edge_has_no_place(picture):
    from sim2cam.adapt.certificate.image_pair import ObjectRegion

    corner = ObjectRegion((slice(0, 9), slice(0, 9)), np.ones((9, 9), bool))
    assert match_objects(ImagePair(picture, picture, (corner,))) == [None]
