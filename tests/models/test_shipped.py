"""Weights that ship are small, learned from no label of a photo, and their cards say whose data they are of."""

import json

import pytest

from sim2cam.errors import CheckpointError
from sim2cam.learn.weight_file import get_card_path
from sim2cam.models.card import card_from_json
from sim2cam.models.inference.detector import SHIPPED_WEIGHTS, load_detector


@pytest.mark.parametrize(
    ("name", "most_mb", "licence"),
    [("dice", 10, "Apache-2.0"), ("dice-verifier", 10, "Apache-2.0"), ("lmo", 12, "CC-BY-SA-4.0")],
)
def test_weights_that_ship_are_small_and_say_whose_they_are(name, most_mb, licence):
    weights = SHIPPED_WEIGHTS / f"{name}.safetensors"
    assert (weights.stat().st_size + get_card_path(weights).stat().st_size) / 1e6 <= most_mb
    card = load_detector(weights).card
    assert card.licence == licence
    assert "real" not in {origin for part in card.data for origin in part.origins}


@pytest.mark.parametrize(
    ("old", "new"), [("magnification", "input_scale"), ("novelty", "ood_threshold")]
)
def test_a_card_of_an_earlier_version_is_refused(old, new):
    path = get_card_path(SHIPPED_WEIGHTS / "dice.safetensors")
    card = json.loads(path.read_text())
    card[old] = card.pop(new)
    with pytest.raises(CheckpointError, match=f"key '{old}' is of an earlier version .* '{new}'"):
        card_from_json(path, card)
