"""Flicker of films that are made here: a picture and the same one moved, with the flow between them."""

import cv2
import numpy as np
import pytest

from sim2cam.adapt.certificate.certificate import certify
from sim2cam.adapt.certificate.flicker import PreviousFrame, measure_warping_error
from sim2cam.adapt.certificate.image_pair import ImagePair
from sim2cam.adapt.certificate.limits import CertificateLimits
from sim2cam.data.channels import FLOW_OCCLUDED, FLOW_VISIBLE
from sim2cam.images import decode_image, encode_jpeg

RIGHT, DOWN = 3, 2  # pixels from the earlier picture to this one


@pytest.fixture(scope="module")
def film(picture):
    """An earlier picture, the one after it with grain of its own, and its flow to the earlier one."""
    matrix = np.array([[1, 0, RIGHT], [0, 1, DOWN]], np.float64)
    moved = cv2.warpAffine(picture, matrix, picture.shape[1::-1], borderMode=cv2.BORDER_REFLECT)
    grainy = [
        (rgb + np.random.default_rng(seed).normal(0, 3, rgb.shape)).clip(0, 255).astype(np.uint8)
        for seed, rgb in enumerate((picture, moved))
    ]
    flow = np.zeros((*picture.shape[:2], 3), np.float32)
    flow[...] = -RIGHT, -DOWN, FLOW_VISIBLE
    flow[:DOWN, :, 2] = flow[:, :RIGHT, 2] = FLOW_OCCLUDED
    return *grainy, flow


def flicker(film, first, second):
    """Returns the flicker of a film of which both pictures are changed."""
    earlier, now, flow = film
    return measure_warping_error(
        PreviousFrame(ImagePair(earlier, first(earlier)), flow), ImagePair(now, second(now))
    )


def warm(rgb):
    return (rgb * [1.25, 1.0, 0.8] + 10).clip(0, 255).astype(np.uint8)


def curved(rgb):
    return (255 * (rgb / 255.0) ** 0.6).astype(np.uint8)


def compressed(rgb):
    return decode_image(encode_jpeg(np.ascontiguousarray(rgb), 90))


def soft(rgb):
    return cv2.GaussianBlur(rgb, (0, 0), 1.2)


@pytest.mark.parametrize("change", [np.copy, warm, curved, compressed, soft])
def test_what_is_changed_alike_does_not_flicker(film, change):
    assert flicker(film, change, change) < 1.5


@pytest.mark.parametrize("levels", [4, 10, 20])
def test_an_offset_of_one_picture_is_told_as_it_is(film, levels):
    assert flicker(film, np.copy, lambda rgb: rgb + np.uint8(levels)) == pytest.approx(
        levels, rel=0.1
    )


def test_what_is_painted_onto_the_screen_does_not_move_with_the_film(film):
    rng = np.random.default_rng(0)
    marks = 40 * cv2.GaussianBlur(rng.normal(0, 1, (*film[0].shape[:2], 1)), (0, 0), 2.0)[..., None]

    def painted(rgb):
        return (rgb + marks).clip(0, 255).astype(np.uint8)

    assert flicker(film, painted, painted) > 4


def test_another_look_each_time_flickers(film):
    assert flicker(film, warm, curved) > 20


def test_a_wrong_flow_is_blamed_on_nobody(film):
    """The source does not fit it either."""
    earlier, now, flow = film
    wrong = flow + np.array([5, 5, 0], np.float32)
    assert (
        measure_warping_error(
            PreviousFrame(ImagePair(earlier, earlier), wrong), ImagePair(now, now)
        )
        == 0.0
    )


def test_it_is_not_measured_where_hardly_anything_is_seen_twice(film):
    earlier, now, flow = film
    hidden = flow.copy()
    hidden[8:, :, 2] = FLOW_OCCLUDED
    assert (
        measure_warping_error(
            PreviousFrame(ImagePair(earlier, earlier), hidden), ImagePair(now, now)
        )
        is None
    )
    found = certify("a", ImagePair(now, now), CertificateLimits(), verifiers={}, previous_frame=PreviousFrame(ImagePair(earlier, earlier), hidden))  # fmt: skip
    assert (
        found.checks["warping_error_levels"].reason
        == "too few pixels are visible in the previous frame"
    )


def test_the_certificate_holds_it_against_its_limit(film):
    earlier, now, flow = film
    before = PreviousFrame(ImagePair(earlier, earlier), flow)
    for added, verdict in ((0, "pass"), (9, "fail")):
        found = certify(
            "a",
            ImagePair(now, now + np.uint8(added)),
            CertificateLimits(),
            verifiers={},
            previous_frame=before,
        )
        assert found.checks["warping_error_levels"].status == verdict
