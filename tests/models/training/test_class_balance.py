"""Balanced sampling: what few pictures hold comes up as often as what many do."""

from pathlib import Path

import pytest

from sim2cam.data.sample import ObjectLabel, Sample
from sim2cam.models.training.class_balance import compute_image_probabilities


def picture(*objects):
    return Sample("x", Path("x.png"), 640, 480, objects, "sim")


def thing(category="a", side=20.0, visible=None, **more):
    return ObjectLabel(
        category, (0.0, 0.0, side, 10.0), 10.0 * side, visible_fraction=visible, **more
    )


@pytest.mark.parametrize(
    ("by", "often", "rare"),
    [
        ("category", thing("a"), thing("b")),
        ("size", thing(side=20.0), thing(side=100.0)),
        ("visible", thing(visible=1.0), thing(visible=0.6)),
    ],
)
def test_what_is_rare_comes_up_as_often(by, often, rare):
    samples = [picture(often)] * 9 + [picture(rare)]
    assert compute_image_probabilities(samples, (by,), 0.25) == pytest.approx([0.5 / 9] * 9 + [0.5])
    others = tuple({"category", "size", "visible"} - {by})
    assert compute_image_probabilities(samples, others, 0.25) == pytest.approx([0.1] * 10)


def test_the_rarest_thing_in_a_picture_decides():
    samples = [picture(thing("a"))] * 2 + [picture(thing("a"), thing("b")), picture()]
    found = compute_image_probabilities(samples, ("category", "size"), 0.25)
    assert found == pytest.approx([4 / 23, 4 / 23, 12 / 23, 3 / 23])  # of 3, 3, 1 and 4 pictures


def test_what_is_not_learned_does_not_count():
    hidden, group = thing("b", visible=0.1), thing("b", is_crowd=True)
    samples = [picture(thing("a", visible=1.0)), picture(hidden), picture(group)]
    assert compute_image_probabilities(samples, ("category",), 0.25) == pytest.approx(
        [0.6, 0.2, 0.2]
    )
