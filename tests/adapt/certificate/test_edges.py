import cv2
import numpy as np
import pytest

from sim2cam.adapt.certificate.edges import measure_edge_recalls


def test_an_outline_that_stays_is_seen_whole(pair, picture):
    assert measure_edge_recalls(pair(picture)) == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("contrast", [0.25, 0.5, 2.0])
def test_contrast_of_the_whole_picture_does_not_matter(pair, picture, contrast):
    after = (128 + contrast * (picture.astype(float) - 128)).clip(0, 255).astype(np.uint8)
    assert min(measure_edge_recalls(pair(after))) > 0.95


def test_an_erased_object_has_none_left(pair, picture, ids):
    hole = cv2.dilate((ids == 2).astype(np.uint8), np.ones((9, 9), np.uint8))
    recalls = measure_edge_recalls(pair(cv2.inpaint(picture, hole, 3, cv2.INPAINT_TELEA)))
    assert recalls[1] < 0.3
    assert recalls[0] == recalls[2] == 1.0


def test_an_edge_turned_round_is_not_the_same(pair, picture):
    assert max(measure_edge_recalls(pair(255 - picture))) < 0.4


def test_an_edge_of_colour_alone_counts(ids):
    from sim2cam.adapt.certificate.image_pair import ImagePair, extract_object_regions
    from tests.adapt.certificate.conftest import labels_of

    before = np.full((*ids.shape, 3), (130, 100, 100), np.uint8)
    before[ids == 1] = (100, 116, 100)  # about as bright
    regions = extract_object_regions(labels_of(ids), ids, ids.shape)
    grey = np.full_like(before, 110)
    assert measure_edge_recalls(ImagePair(before, before, regions, ids)) == [1.0, None, None]
    assert measure_edge_recalls(ImagePair(before, grey, regions, ids))[0] == 0.0


def test_without_ids_nothing_is_known(pair, picture):
    assert measure_edge_recalls(pair(picture, has_ids=False)) == []
