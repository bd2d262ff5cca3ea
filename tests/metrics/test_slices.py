import numpy as np
import pytest

from sim2cam.metrics.error_analysis import DetectionOutcome
from sim2cam.metrics.resampling import make_image_units
from sim2cam.metrics.slices import AttributeValue, EvaluatedObject, compute_slices

SMALL, LARGE = AttributeValue(0, "small"), AttributeValue(1, "large")


def judged(image, kind, **traits):
    return EvaluatedObject(image, DetectionOutcome(kind, (0, 0, 1, 1), "a", "a", 0.9, 0), traits)


def slices(objects, n_images):
    return compute_slices(objects, make_image_units(n_images), np.random.default_rng(0))


def test_shares_are_of_the_objects_of_a_trait():
    objects = [judged(0, "true positive", size=SMALL), judged(0, "missed", size=SMALL)]
    objects += [judged(1, "true positive", size=LARGE), judged(1, "confusion", size=SMALL)]
    objects += [judged(1, "true positive", size=SMALL), judged(1, "localisation", size=SMALL)]
    small, large = slices(objects, 2)
    assert (small.attribute, small.value, small.objects) == ("size", "small", 5)
    assert small.recall.value == 0.4
    assert (small.confusion_rate, small.localisation_rate, small.miss_rate) == (0.2, 0.2, 0.2)
    assert (large.value, large.objects, large.recall.value) == ("large", 1, 1)
    assert small.to_json()["recall"] == {"value": 0.4, "ci95": [pytest.approx(1 / 3), 0.5]}


def test_values_come_in_their_order_and_not_in_that_of_their_names():
    objects = [
        judged(0, "true positive", size=AttributeValue(i, name)) for i, name in enumerate("zay")
    ]
    assert [s.value for s in slices(objects, 1)] == ["z", "a", "y"]


def test_a_trait_that_all_share_or_nobody_knows_says_nothing():
    alike = [judged(0, "true positive", size=SMALL), judged(1, "missed", size=SMALL)]
    assert slices(alike, 2) == []
    some = [judged(0, "true positive", size=SMALL, far=LARGE), judged(1, "missed", size=LARGE)]
    assert [s.value for s in slices(some, 2)] == ["small", "large"]


def test_intervals_are_over_images_and_hold_the_truth():
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(100):
        objects = []
        for image in range(40):
            share = rng.beta(3, 1)  # objects of an image succeed or fail together; 0.75 on average
            kinds = np.where(rng.random(5) < share, "true positive", "missed")
            objects += [judged(image, kind, size=SMALL) for kind in kinds]
        low, high = slices([*objects, judged(0, "true positive", size=LARGE)], 40)[0].recall.ci95
        held += low <= 0.75 <= high
    assert held >= 88


def test_intervals_of_a_trait_in_one_image_of_many_leave_out_resamples_without_it():
    objects = [judged(0, "missed", size=SMALL)]
    objects += [judged(i, "true positive", size=LARGE) for i in range(30)]
    small = slices(objects, 30)[0]
    assert small.recall.value == 0
    assert small.recall.ci95 == pytest.approx((0, 0))
