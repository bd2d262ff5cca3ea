"""Judging candidates: planted transfers come out in the order of what they do."""

from dataclasses import replace

import numpy as np
import pytest

from sim2cam.adapt.certificate.limits import CertificateLimits
from sim2cam.adapt.training.candidates import CheckpointSelector
from sim2cam.adapt.training.checkpoint_selection import split_held_out
from sim2cam.adapt.translation import NO_VERIFIERS, Verification
from sim2cam.metrics.detection import Detection


class Planted:
    """A contestant that does what it is told."""

    def __init__(self, change):
        self.change = change

    def build_transfer(self):
        return self

    def apply(self, frame, rng):
        return self.change(frame.rgb.astype(np.float64), rng).round().clip(0, 255).astype(np.uint8)


def untouched(rgb, _rng):
    return rgb


def warmed(share):
    """Brings renders this far to the captures' light and grain."""

    def change(rgb, rng):
        grain = rng.normal(0, 8 * share, rgb.shape)
        return rgb + share * (np.array([170, 140, 100]) - 85) * 0.6 + grain

    return change


def shifted(rgb, _rng):
    return np.roll(rgb, 4, axis=1)


@pytest.fixture(scope="module")
def contest(many_sim, many_real):
    parts = split_held_out(
        many_sim, many_real, steps=3000, pixels=65536, log_interval_steps=10, verifier_count=0
    )
    return CheckpointSelector(parts, NO_VERIFIERS, 0)


def test_the_nearer_the_look_the_smaller_the_distance(contest):
    found = [contest.evaluate(1, Planted(warmed(share))).distance for share in (0.0, 0.3, 0.6, 1.0)]
    assert found == sorted(found, reverse=True)
    assert found[0] == contest.source_distance
    assert found[-1] < 0.8 * contest.source_distance


def test_a_candidate_is_judged_the_same_whenever_it_is(contest, many_sim, many_real):
    first = contest.evaluate(7, Planted(warmed(0.5)))
    contest.evaluate(8, Planted(shifted))
    again = CheckpointSelector(contest.split, NO_VERIFIERS, 0).evaluate(7, Planted(warmed(0.5)))
    assert first == again


def test_what_moves_objects_does_not_pass(contest):
    kept, moved = (contest.evaluate(1, Planted(change)) for change in (untouched, shifted))
    assert (kept.accepted, kept.violations) == (10, ())
    assert moved.accepted == 0
    assert moved.violations == ("100.0% of the images are rejected, more than 5.0%",)


def test_judges_have_a_say(contest):
    """A judge that finds the object only while its picture is dark."""

    def judge(rgb):
        is_dark = rgb[:10, :10].mean() < 110
        return [Detection("thing", (24, 20, 54, 50), 0.9)] if is_dark else []

    jury = Verification(CertificateLimits(), {"task": judge}, {"task": "0" * 64})
    bright = Planted(lambda rgb, _: 0.7 * rgb + 70)
    assert contest.evaluate(1, bright).violations == ()
    blamed = CheckpointSelector(contest.split, jury, 0).evaluate(1, bright)
    assert blamed.accepted < 10
    assert (
        "task detects 0.0% of the objects again, significantly fewer than 97.0%"
        in blamed.violations
    )


def test_other_limits_are_kept_to(contest):
    strict = Verification(replace(CertificateLimits(), added_structure_levels=0.0))
    assert (
        CheckpointSelector(contest.split, strict, 0).evaluate(1, Planted(warmed(1.0))).accepted == 0
    )
