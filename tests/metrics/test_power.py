import numpy as np
import pytest

from sim2cam.metrics.power import DISCORDANT_FRACTION, compute_min_detectable_effect


def test_it_is_found_in_four_of_five_repetitions():
    """Pairs of detectors that disagree on a fifth of the objects, the first better by what is planned."""
    objects, rng = 300, np.random.default_rng(0)
    effect = compute_min_detectable_effect(objects)
    first = (DISCORDANT_FRACTION + effect) / 2
    tables = rng.multinomial(
        objects, [first, DISCORDANT_FRACTION - first, 1 - DISCORDANT_FRACTION], size=4000
    )
    better, worse = tables[:, 0], tables[:, 1]
    sure = np.abs(better - worse) > 1.96 * np.sqrt(better + worse)  # McNemar's test
    assert sure.mean() == pytest.approx(0.8, abs=0.03)


def test_it_shrinks_with_objects_and_grows_with_comparisons():
    effect = compute_min_detectable_effect
    assert effect(400) == pytest.approx(effect(100) / 2)
    assert effect(308) == pytest.approx(0.0714, abs=1e-4)
    assert effect(308, n_comparisons=10) > effect(308, n_comparisons=2)
    assert compute_min_detectable_effect(1) == 1
