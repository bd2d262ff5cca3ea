"""Weights that ship are small, learned from no label of a photo, and their cards say whose data they are of."""

import pytest

from sim2cam.learn.weight_file import get_card_path
from sim2cam.models.inference.detector import SHIPPED_WEIGHTS, load_detector


@pytest.mark.parametrize(
    ("name", "most_mb", "licence"),
    [("dice", 10, "Apache-2.0"), ("dice-judge", 10, "Apache-2.0"), ("lmo", 12, "CC-BY-SA-4.0")],
)
def test_weights_that_ship_are_small_and_say_whose_they_are(name, most_mb, licence):
    weights = SHIPPED_WEIGHTS / f"{name}.safetensors"
    assert (weights.stat().st_size + get_card_path(weights).stat().st_size) / 1e6 <= most_mb
    card = load_detector(weights).card
    assert card.licence == licence
    assert "real" not in {origin for part in card.data for origin in part.origins}
