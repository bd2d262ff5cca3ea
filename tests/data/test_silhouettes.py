from dataclasses import replace
from pathlib import Path

import numpy as np

from sim2cam.data.sample import ObjectLabel, Sample
from sim2cam.data.silhouettes import rasterize_instance_ids
from sim2cam.geometry.run_length import RleMask


def label(left, *, is_crowd=False):
    """An object of 3x4 px in a picture of 4x8."""
    mask = np.zeros((4, 8), bool)
    mask[:3, left : left + 4] = True
    box = (float(left), 0.0, left + 4.0, 3.0)
    return ObjectLabel("thing", box, 12.0, is_crowd=is_crowd, mask=RleMask.from_mask(mask))


def sample(*labels):
    return Sample("a", Path("a.png"), 8, 4, labels, "real")


def test_masks_are_painted_one_over_the_other_and_groups_are_left_out():
    labels, ids = rasterize_instance_ids(sample(label(0), label(4, is_crowd=True), label(2)))
    assert [one.instance_id for one in labels] == [1, 2]
    assert ids.tolist() == [[1, 1, 2, 2, 2, 2, 0, 0]] * 3 + [[0] * 8]


def test_where_a_mask_is_not_known_labels_stay_as_they_are():
    bare = sample(label(0), replace(label(4), mask=None))
    assert rasterize_instance_ids(bare) == (bare.objects, None)
    assert rasterize_instance_ids(sample()) == ((), None)
    unlabelled = Sample("a", Path("a.png"), 8, 4, None, "real")
    assert rasterize_instance_ids(unlabelled) == (None, None)
