"""Cases whose scores are known, and a plain computation of the density."""

import numpy as np
import pytest

from sim2cam.metrics import unsupervised
from sim2cam.metrics.unsupervised import score_probabilities


def test_sure_and_balanced_detections():
    found = score_probabilities(np.repeat(np.eye(4), 10, axis=0))
    assert found.n_detections == 40
    assert found.entropy == 0
    assert found.diversity == pytest.approx(1)
    nine_alike = pytest.approx(np.log(9), abs=1e-4)
    assert found.neighbourhood_density == nine_alike


def test_a_model_that_calls_all_the_same_is_sure_and_poor():
    found = score_probabilities(np.tile([1.0, 0, 0], (20, 1)))
    assert (found.entropy, found.diversity) == (0, 0)
    assert found.neighbourhood_density == pytest.approx(np.log(19))


def test_a_model_that_knows_nothing():
    found = score_probabilities(np.full((12, 3), 1 / 3))
    assert (found.entropy, found.diversity) == pytest.approx((1, 1))


def test_the_density_is_that_of_its_definition_in_pieces_too(monkeypatch):
    probabilities = np.random.default_rng(0).dirichlet(np.full(6, 0.3), 57)
    expected = []
    for i, one in enumerate(probabilities):
        others = np.delete(probabilities, i, axis=0)
        cosine = others @ one / np.linalg.norm(others, axis=1) / np.linalg.norm(one)
        weights = np.exp(cosine / 0.05)
        weights /= weights.sum()
        expected.append(-(weights * np.log(weights)).sum())
    for rows in (1000, 10):
        monkeypatch.setattr(unsupervised, "_CHUNK_ROWS", rows)
        found = score_probabilities(probabilities).neighbourhood_density
        assert found == pytest.approx(np.mean(expected))


def test_too_little_says_nothing():
    assert score_probabilities(np.ones((1, 3)) / 3) is None
    assert score_probabilities(np.ones((5, 1))) is None
