"""Evaluation of candidates: planted transfers come out in the order of what they do."""

from dataclasses import replace

import numpy as np
import pytest

from sim2cam.adapt.certificate.limits import CertificateLimits
from sim2cam.adapt.training.candidates import CheckpointSelector
from sim2cam.adapt.training.checkpoint_selection import split_held_out
from sim2cam.adapt.translation import NO_VERIFIERS, Verification
from sim2cam.metrics.detection import Detection


class Planted:
    """A model that changes images by a function."""

    def __init__(self, change):
        self.change = change

    def build_transfer(self):
        return self

    def apply(self, frame, rng):
        return self.change(frame.rgb.astype(np.float64), rng).round().clip(0, 255).astype(np.uint8)


def warmed(share):
    """Move renders this far toward the light and grain of the real images."""

    def change(rgb, rng):
        grain = rng.normal(0, 8 * share, rgb.shape)
        return rgb + share * (np.array([170, 140, 100]) - 85) * 0.6 + grain

    return Planted(change)


SHIFTED = Planted(lambda rgb, _rng: np.roll(rgb, 4, axis=1))


@pytest.fixture(scope="module")
def selector(many_sim, many_real):
    return CheckpointSelector(split_held_out(many_sim, many_real, 3000), NO_VERIFIERS, 0)


def test_the_more_similar_the_smaller_the_distance(selector):
    scores = [selector.evaluate(1, warmed(share)) for share in (0.0, 0.3, 0.6, 1.0)]
    distances = [candidate.distance for candidate in scores]
    assert distances == sorted(distances, reverse=True)
    assert distances[0] == selector.source_distance
    assert distances[-1] < 0.8 * selector.source_distance
    again = CheckpointSelector(selector.split, NO_VERIFIERS, 0).evaluate(1, warmed(0.6))
    assert again == scores[2]  # whatever was evaluated before


def test_moved_objects_violate_the_certificate(selector):
    kept, moved = (selector.evaluate(1, model) for model in (warmed(0.0), SHIFTED))
    assert (kept.accepted, kept.violations) == (10, ())
    assert moved.accepted == 0
    assert moved.violations == ("100.0% of the images are rejected, more than 5.0%",)


def test_verifiers_and_limits_decide(selector):
    """The verifier finds the object only in dark images."""

    def detect(rgb):
        return [Detection("thing", (24, 20, 54, 50), 0.9)] if rgb[:10, :10].mean() < 110 else []

    verification = Verification(CertificateLimits(), {"task": detect}, {"task": "0" * 64})
    bright = Planted(lambda rgb, _: 0.7 * rgb + 70)
    assert selector.evaluate(1, bright).violations == ()
    verified = CheckpointSelector(selector.split, verification, 0).evaluate(1, bright)
    assert verified.accepted < 10
    message = "task detects 0.0% of the objects again, significantly fewer than 97.0%"
    assert message in verified.violations
    strict = Verification(replace(CertificateLimits(), added_structure_levels=0.0))
    assert CheckpointSelector(selector.split, strict, 0).evaluate(1, warmed(1.0)).accepted == 0
