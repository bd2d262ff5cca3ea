"""Boxes of a gallery carry what the page needs to filter them at any confidence."""

import numpy as np
import pytest

from sim2cam.metrics.detection import Detection
from sim2cam.metrics.error_analysis import classify_detections
from sim2cam.report.gallery import build_gallery
from sim2cam.report.values import Example

BOX, FAR, AWAY = (0.0, 0.0, 10.0, 10.0), (20.0, 0.0, 30.0, 10.0), (35.0, 20.0, 40.0, 30.0)


def build(objects, detections, threshold=0.5):
    rgb = np.full((30, 40, 3), 128, np.uint8)
    (image,) = build_gallery([Example("x", rgb, tuple(objects), tuple(detections))], threshold)
    return image


def test_an_image_by_hand(label):
    objects = [label("a", BOX), label("b", FAR)]
    found = [Detection("a", BOX, 0.4), Detection("a", FAR, 0.9), Detection("b", AWAY, 0.01)]
    image = build(objects, found)
    assert [(b.kind, b.text, b.score, b.covered_score, b.is_shown) for b in image.boxes] == [
        ("missed", "a missed", None, 0.4, True),
        ("missed", "b missed", None, 0.9, False),
        ("confusion", "a .90, label b", 0.9, None, True),
        ("true positive", "a .40", 0.4, None, False),
    ]
    assert image.boxes[2].other_category == "b"
    assert image.summary == "confusion (1), missed (1)"
    assert (image.width, image.height, image.object_count) == (40, 30, 2)
    assert build([], []).summary == "no objects or detections"


@pytest.mark.parametrize("seed", range(10))
def test_boxes_shown_at_a_confidence_are_the_outcomes_at_it(label, seed):
    rng = np.random.default_rng(seed)

    def box():
        x, y = rng.integers(0, 25, 2)
        return float(x), float(y), float(x + rng.integers(4, 15)), float(y + rng.integers(4, 15))

    objects = [label(str(rng.choice(["a", "b"])), box()) for _ in range(5)]
    found = [
        Detection(str(rng.choice(["a", "b"])), b, float(rng.uniform(0.1, 1)))
        for b in [box() for _ in range(5)] + [o.box_xyxy for o in objects[:3]]
    ]
    boxes = build(objects, found, 0.1).boxes
    for confidence in (0.2, 0.5, 0.8):
        shown = [
            (b.kind, b.box_xyxy)
            for b in boxes
            if (b.score is not None and b.score >= confidence)
            or (b.score is None and (b.covered_score is None or b.covered_score < confidence))
        ]
        outcomes = classify_detections(objects, found, confidence)
        assert sorted(shown) == sorted((o.kind, o.box_xyxy) for o in outcomes)
