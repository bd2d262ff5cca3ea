from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sim2cam.adapt.translator.perceptual_consistency import perception_consistency_loss
from sim2cam.errors import UsageError
from sim2cam.images import compute_digest
from sim2cam.models.card import DetectorCard
from sim2cam.models.inference.detector import SHIPPED_WEIGHTS, save_detector
from sim2cam.models.network.detector import DetectorNetwork
from sim2cam.models.shipped_weights import resolve_weights
from sim2cam.pipeline import verifiers
from sim2cam.pipeline.verifiers import check_verifiers, load_perception, load_verifiers


@pytest.fixture
def weights(tmp_path):
    """Return weights of an untrained detector of an architecture and categories."""

    def made(architecture="nano", categories="123456"):
        path = tmp_path / f"{architecture}{len(categories)}.safetensors"
        rng = torch.Generator().manual_seed(0)
        network = DetectorNetwork(architecture, len(categories), rng)
        card = DetectorCard(architecture, tuple(categories), 0, {}, ())
        save_detector(path, network.state_dict(), card)
        return path

    return made


def test_inaccurate_detector_is_refused_for_perception(sim, weights):
    few = sim.take(3)
    assert load_perception(weights(), few, "cpu") == "its AP50 on 3 renders is 0.00, less than 0.8"
    assert load_perception(weights(categories="123"), few, "cpu") == "it lacks the category 4"
    bare = replace(few, samples=tuple(replace(s, objects=None) for s in few.samples))
    assert load_perception(weights(), bare, "cpu") == "renders have no labels"


def test_accurate_detector_is_loaded_unchanged(sim, weights, monkeypatch):
    asked = []
    monkeypatch.setattr(verifiers, "MAX_RENDERS", 5)
    monkeypatch.setattr(
        verifiers, "compute_ap50", lambda _, dev: asked.append(len(dev.samples)) or 0.93
    )
    found = load_perception(weights("scout"), sim, "cpu")
    assert asked == [5]
    assert (found.record.ap50, found.record.renders) == (0.93, 5)
    assert found.record.digest == compute_digest(weights("scout"))
    rng = torch.Generator().manual_seed(0)
    rgb = torch.rand((2, 3, 44, 60), generator=rng, requires_grad=True)
    said = found.predict_maps(rgb)
    assert said.heatmap.shape == (2, 11, 15)
    perception_consistency_loss(found.predict_maps(rgb.detach().flip(3)), said).backward()
    assert rgb.grad.isfinite().all()
    assert rgb.grad.abs().max() > 0
    network = found.predict_maps.args[0].network
    assert not any(parameter.requires_grad for parameter in network.parameters())


@pytest.mark.parametrize("count", [1, 3, 5, 6, 9, 10, 11, 24])
def test_evaluated_renders_are_evenly_spaced(sim, weights, monkeypatch, count):
    asked = []
    monkeypatch.setattr(verifiers, "MAX_RENDERS", 5)
    monkeypatch.setattr(verifiers, "compute_ap50", lambda _, dev: asked.extend(dev.samples) or 0.0)
    few = sim.take(count)
    assert all(sample.objects for sample in few.samples)
    load_perception(weights("scout"), few, "cpu")
    places = [few.samples.index(sample) for sample in asked]
    assert len(places) == min(count, 5)
    assert (places[0], places[-1]) == (0, count - 1)
    steps = np.diff(places)
    assert count == 1 or steps.max() - steps.min() <= 1


def test_verifier_is_cached_until_weights_change(weights):
    (before,), (same,) = (load_verifiers((("task", weights()),), "cpu").values() for _ in range(2))
    assert before.args[0] is same.args[0]
    others = weights(categories="654321")  # in the same file
    (after,) = load_verifiers((("task", others),), "cpu").values()
    assert after.args[0].card.categories == tuple("654321")
    assert before.args[0].card.categories == tuple("123456")


def test_weights_are_resolved_by_file_or_shipped_name(tmp_path):
    assert resolve_weights(Path("dice")) == SHIPPED_WEIGHTS / "dice.safetensors"
    assert resolve_weights(Path("dice-verifier")) == SHIPPED_WEIGHTS / "dice-verifier.safetensors"
    for given in (Path("mine.safetensors"), Path("runs/dice"), tmp_path):
        assert resolve_weights(given) == given
    with pytest.raises(UsageError) as caught:
        resolve_weights(Path("dice-verifer"))
    assert str(caught.value) == (
        "no file or shipped weights 'dice-verifer'. Did you mean 'dice-verifier'? Allowed: "
        "dice, dice-verifier, lmo"
    )


def test_scout_is_an_independent_verifier(weights):
    check_verifiers((("task", weights("nano")), ("verifier", weights("scout"))))
