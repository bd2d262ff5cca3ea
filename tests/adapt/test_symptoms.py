import pytest

from sim2cam.adapt.selection import Candidate
from sim2cam.adapt.symptoms import symptoms

UNDECIDED = "discriminator", 2.0
HEALTHY = [{"mean_change": 0.05, "discriminator": 1.2}] * 5

UNCHANGED = (
    "the output hardly differs from the input: by 0.5 of 255 levels on average. Train longer, and check "
    "that --real is not --sim."
)
WON = (
    "the discriminator has won: its loss is 5% of that of one which cannot tell, so it teaches nothing "
    "any more. It may tell by what is shown, not by how it looks: render what the captures show."
)
MEMORIZES = (
    "the discriminator memorizes: it tells captures that it was trained on from those kept aside (area "
    "under the ROC curve 0.90, p 0.001). Add captures, or train for fewer steps."
)


def candidate(auc, p_value):
    return Candidate(100, 10, (), 1.0, auc, p_value)


@pytest.mark.parametrize(
    ("recent", "last", "said"),
    [
        (HEALTHY, None, []),
        (HEALTHY, candidate(0.6, 0.2), []),
        (HEALTHY, candidate(0.9, 0.02), []),  # of few captures that may be chance
        (HEALTHY, candidate(0.7, 0.001), []),  # sure, but little
        (HEALTHY, candidate(0.9, 0.001), [MEMORIZES]),
        ([HEALTHY[0] | {"mean_change": 0.5 / 255}], None, [UNCHANGED]),
        ([HEALTHY[0] | {"mean_change": m / 255} for m in (0.5, 1.7)], None, []),
        ([HEALTHY[0] | {"discriminator": 0.1}], None, [WON]),
        (
            [{"mean_change": 0.5 / 255, "discriminator": 0.1}],
            candidate(0.9, 0.001),
            [UNCHANGED, WON, MEMORIZES],
        ),
    ],
)
def test_symptoms_are_told_by_their_numbers(recent, last, said):
    assert list(symptoms(recent, last, UNDECIDED)) == said


def test_an_undecided_discriminator_is_another_number_for_other_losses():
    recent = [{"mean_change": 0.05, "discriminator_real": 0.1}]
    assert list(symptoms(recent, None, ("discriminator_real", 0.25))) == []
    assert "5%" in next(iter(symptoms(recent, None, ("discriminator_real", 2.0))))
