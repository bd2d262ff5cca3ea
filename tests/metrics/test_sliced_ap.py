"""AP50 by size and visible fraction follows COCO's area ranges."""

from pathlib import Path

import numpy as np
import pytest

from sim2cam.data.sample import Dataset, ObjectLabel, Sample
from sim2cam.metrics.detection import Detection
from sim2cam.metrics.sliced_ap import compute_sliced_ap50

SMALL, LARGE, FAR_SMALL = (0.0, 0.0, 10.0, 10.0), (20.0, 0.0, 70.0, 50.0), (90.0, 90.0, 99.0, 99.0)


def slice_ap(objects, detections):
    sample = Sample("x", Path("x.jpg"), 100, 100, tuple(objects), "real")
    dataset = Dataset(Path(), ("a",), (sample,))
    sliced = compute_sliced_ap50(dataset, {"x": detections}, np.random.default_rng(0))
    return {
        name: {k: round(v.value, 6) for k, v in values.items()} for name, values in sliced.items()
    }


def test_size():
    objects = [ObjectLabel("a", SMALL, 100.0), ObjectLabel("a", LARGE, 2500.0)]
    both = [Detection("a", SMALL, 0.5), Detection("a", LARGE, 0.6)]
    assert slice_ap(objects, both) == {"size, px": {"below 16": 1, "32 to 64": 1}}
    false = Detection("a", FAR_SMALL, 0.9)  # counts as small only
    assert slice_ap(objects, [*both, false]) == {
        "size, px": {"below 16": pytest.approx(0.5), "32 to 64": 1}
    }
    assert slice_ap(objects, both[1:]) == {"size, px": {"below 16": 0, "32 to 64": 1}}


def test_visible_fraction():
    objects = [
        ObjectLabel("a", (0.0, y, 10.0, y + 10), 100.0, visible_fraction=v)
        for y, v in ((0.0, 0.3), (30.0, 1.0), (60.0, 0.05))
    ]
    found = [Detection("a", objects[1].box_xyxy, 0.5), Detection("a", objects[2].box_xyxy, 0.9)]
    assert slice_ap(objects, found) == {"visible fraction": {"below 0.5": 0, "0.99 or more": 1}}
