"""Rule by which new dice weights replace the shipped ones."""

import pytest
from ship import decide


def score(dev, elsewhere):
    return {"dev": {"ap50": {"value": dev}}, "mean_ap50": elsewhere}


@pytest.mark.parametrize(
    ("dev", "elsewhere", "ships"),
    [
        (0.80, 0.71, True),
        (0.795, 0.71, True),
        (0.78, 0.90, False),
        (0.95, 0.70, False),
        (0.95, 0.69, False),
    ],
)
def test_weights_ship_if_they_are_better_elsewhere_and_as_good_on_dice(dev, elsewhere, ships):
    assert decide(score(0.80, 0.70), score(dev, elsewhere)) is ships
