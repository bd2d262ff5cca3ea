"""The range of sizes by simulation."""

from dataclasses import replace

import numpy as np
import pytest

from sim2cam.data.sample import Dataset
from sim2cam.models.reliability.object_sizes import (
    SizeComparison,
    compare_sizes,
    compute_box_size_range,
    compute_longer_side,
)
from sim2cam.models.training.config import TrainConfig

CONFIG = TrainConfig(scale_range=(0.5, 2.0), crop_px=256)


def boxed(dataset, *sides, **changes):
    """The data set's first sample with objects of these sides alone."""
    sample = dataset.samples[0]
    objects = tuple(
        replace(sample.objects[0], box_xyxy=(5.0, 5.0, 5.0 + side, 5.0 + side / 2), **changes)
        for side in sides
    )
    return Dataset(dataset.root, dataset.categories, (replace(sample, objects=objects),))


def test_the_range_is_that_of_objects_seen_whole_in_random_crops(make_dataset):
    dataset = boxed(make_dataset(), 10, 20, 40, 60, 120)
    rng = np.random.default_rng(0)
    sides = [compute_longer_side(o.box_xyxy) for s in dataset.samples for o in s.objects]
    drawn = rng.choice(sides, 100_000) * np.exp(rng.uniform(np.log(0.5), np.log(2), 100_000))
    middles = rng.uniform(0, CONFIG.crop_px, 100_000)
    is_whole = (middles >= drawn / 2) & (middles <= CONFIG.crop_px - drawn / 2)
    expected = np.quantile(drawn[is_whole], [0.05, 0.95])
    assert expected[1] < np.quantile(drawn, 0.95) * 0.9
    assert compute_box_size_range(((dataset, 1.0),), CONFIG) == pytest.approx(expected, rel=0.05)


def test_parts_count_by_their_weight(make_dataset):
    small, large = boxed(make_dataset("a"), 10), boxed(make_dataset("b"), 1000)
    fixed = replace(CONFIG, scale_range=(1.0, 1.0), crop_px=10_016)  # nearly all are whole
    assert compute_box_size_range(((small, 0.97), (large, 0.03)), fixed) == (10, 10)
    assert compute_box_size_range(((small, 0.9), (large, 0.1)), fixed) == (10, 1000)


def test_what_no_crop_shows_whole_does_not_count(make_dataset):
    fixed = replace(CONFIG, scale_range=(1.0, 1.0))
    assert compute_box_size_range(((boxed(make_dataset("a"), 20, 300), 1.0),), fixed) == (20, 20)
    assert compute_box_size_range(((boxed(make_dataset("b"), 300), 1.0),), fixed) is None


def test_what_is_not_learned_does_not_count(make_dataset):
    dataset = make_dataset()
    for changes in ({"is_crowd": True}, {"visible_fraction": 0.4}):
        assert compute_box_size_range(((boxed(dataset, 20, **changes), 1.0),), CONFIG) is None
    assert (
        compute_box_size_range(((boxed(dataset, 20, visible_fraction=None), 1.0),), CONFIG)
        is not None
    )


def test_the_longer_side_counts():
    assert compute_longer_side((1, 2, 5, 20)) == 18
    assert compute_longer_side((1, 2, 50, 20)) == 49


def test_sizes_are_smaller_larger_or_within():
    fit = compare_sizes([10, 20, 30, 40, 50], (20, 40))
    assert fit == SizeComparison(5, 0.2, 0.2, (20, 40))
    assert compare_sizes([], (20, 40)) is None
    assert compare_sizes([10.0], None) is None
