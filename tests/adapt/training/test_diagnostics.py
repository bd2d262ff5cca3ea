import pytest

from sim2cam.adapt.training.diagnostics import diagnose_training

UNDECIDED = "discriminator", 2.0
HEALTHY = [{"mean_change": 0.05, "discriminator": 1.2}] * 5

UNCHANGED = (
    "the translator hardly changes images: 0.5 of 255 levels on average. Train with more --steps, and check "
    "that --real is not --sim."
)
WON = (
    "the discriminator dominates: its loss is 5% of the loss at chance, so the generator no longer learns. It may "
    "separate the images by content: render what the real images show."
)


@pytest.mark.parametrize(
    ("recent", "warnings"),
    [
        (HEALTHY, []),
        ([HEALTHY[0] | {"mean_change": 0.5 / 255}], [UNCHANGED]),
        ([HEALTHY[0] | {"mean_change": m / 255} for m in (0.5, 1.7)], []),
        ([HEALTHY[0] | {"discriminator": 0.1}], [WON]),
        ([{"mean_change": 0.5 / 255, "discriminator": 0.1}], [UNCHANGED, WON]),
    ],
)
def test_symptoms_are_told_by_their_numbers(recent, warnings):
    assert list(diagnose_training(recent, UNDECIDED)) == warnings


def test_an_undecided_discriminator_is_another_number_for_other_losses():
    recent = [{"mean_change": 0.05, "discriminator_real": 0.1}]
    assert list(diagnose_training(recent, ("discriminator_real", 0.25))) == []
    assert "5%" in next(iter(diagnose_training(recent, ("discriminator_real", 2.0))))
