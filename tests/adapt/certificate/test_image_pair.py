from dataclasses import replace

import numpy as np
import pytest

from sim2cam.adapt.certificate.image_pair import ImagePair, extract_object_regions
from sim2cam.errors import Sim2CamError
from tests.adapt.certificate.conftest import SHAPE, labels_of


def test_regions_are_where_the_ids_are(ids):
    regions = extract_object_regions(labels_of(ids), ids, ids.shape)
    painted = np.zeros_like(ids)
    for number, region in enumerate(regions, 1):
        painted[region.window][region.mask] = number
    assert np.array_equal(painted, ids)


def test_without_ids_a_region_is_its_box_inside_the_picture(ids):
    label = replace(labels_of(ids)[0], box_xyxy=(-4.0, 3.4, 6.0, 500.0))
    (region,) = extract_object_regions([label], None, ids.shape)
    assert region.window == (slice(3, 120), slice(0, 6))
    assert region.mask.all()


def test_groups_and_objects_outside_have_no_region(ids):
    crowd = replace(labels_of(ids)[0], is_crowd=True)
    outside = replace(labels_of(ids)[1], box_xyxy=(500.0, 10.0, 520.0, 30.0))
    assert extract_object_regions([crowd, outside], None, ids.shape) == ()
    assert extract_object_regions(None, ids, ids.shape) is None


def test_margins_end_at_the_border(ids):
    region = extract_object_regions(labels_of(ids), ids, ids.shape)[0]
    assert region.pad_window(400, SHAPE) == (slice(0, 120), slice(0, 160))
    assert region.pad_window(400, SHAPE, border_px=6) == (slice(6, 114), slice(6, 154))


@pytest.mark.parametrize("tones", [lambda v: 255 * (v / 255) ** 0.6, lambda v: 0.5 * v + 40])
def test_a_change_of_tones_is_expected(pair, picture, tones):
    after = np.rint(tones(np.repeat(picture.mean(axis=2, keepdims=True), 3, 2))).astype(np.uint8)
    grey = np.repeat(picture.mean(axis=2, keepdims=True), 3, 2).round().astype(np.uint8)
    made = ImagePair(grey, after)
    assert np.abs(made.expected_luma - made.luma[1]).mean() < 1.0


def test_another_size_is_refused(picture):
    with pytest.raises(Sim2CamError, match="must have the size of its source: 160x120, not 80x120"):
        ImagePair(picture, picture[:, :80])
