"""The promises of sim2cam.seeds: named streams, independent of order and of each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim2cam.seeds import derive_rng, derive_seed

whole = st.integers(0, 2**40)
paths = st.text("abcdefgh/_", min_size=1, max_size=20)


@given(seed=whole, path=paths, scene_index=whole, attempt=st.integers(0, 100))
def test_a_stream_depends_on_its_arguments_alone(seed, path, scene_index, attempt):
    derive_rng(1, "another").random(7)
    first = derive_rng(seed, path, scene_index=scene_index, attempt=attempt).random(5)
    again = derive_rng(seed, path, scene_index=scene_index, attempt=attempt).random(5)
    assert np.array_equal(first, again)


def test_each_argument_gives_another_stream():
    calls = [
        derive_rng(0, "light"),
        derive_rng(1, "light"),
        derive_rng(0, "layout"),
        derive_rng(0, "light", scene_index=1),
        derive_rng(0, "light", attempt=1),
    ]
    assert len({generator.integers(2**63) for generator in calls}) == len(calls)


def test_neighbouring_scenes_are_uncorrelated():
    draws = np.stack([derive_rng(0, "light", scene_index=i).normal(size=2000) for i in range(8)])
    correlation = np.corrcoef(draws) - np.eye(8)
    assert np.abs(correlation).max() < 0.1


def test_streams_do_not_change_between_releases():
    draws = derive_rng(0, "light/elevation_rad", scene_index=3).integers(1000, size=3)
    assert draws.tolist() == [211, 819, 608]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": -1}, "seed must be 0 or more, not -1"),
        ({"seed": 0, "scene_index": -2}, "scene_index must be 0 or more, not -2"),
        ({"seed": 0, "attempt": -3}, "attempt must be 0 or more, not -3"),
    ],
)
def test_negative_numbers_are_refused(arguments, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        derive_rng(path="light", **arguments)


@given(seed=whole, path=paths)
def test_integer_seeds_fit_63_bits_and_repeat(seed, path):
    value = derive_seed(seed, path)
    assert 0 <= value < 2**63
    assert value == derive_seed(seed, path)
