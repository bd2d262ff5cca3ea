"""Signs that a training of two adversaries goes wrong, in its record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

MIN_MEAN_CHANGE = 1 / 255
"""Mean change of a render, of a range of 1, from which it counts as changed: one level of 8 bits."""

MIN_LOSS_RATIO = 0.1
"""Loss of the discriminator below which it has won, over that of one which cannot tell."""


def diagnose_training(
    recent_metrics: Sequence[Mapping[str, float]],
    chance_loss: tuple[str, float],
) -> Iterator[str]:
    """Yield what goes wrong, in words with what to do about it.

    Args:
        recent_metrics: scalars of the record, of the last part of the training.
        chance_loss: the loss of the discriminator of captures, by its name, and its value when it cannot
            tell translations from captures.
    """
    change = _average_metric(recent_metrics, "mean_change")
    if change < MIN_MEAN_CHANGE:
        yield (
            f"the output hardly differs from the input: by {255 * change:.1f} of 255 levels on average. "
            "Train again with more --steps, and check that --real is not --sim."
        )
    name, loss = chance_loss
    share = _average_metric(recent_metrics, name) / loss
    if share < MIN_LOSS_RATIO:
        yield (
            f"the discriminator has won: its loss is {share:.0%} of that of one which cannot tell, so "
            "it teaches nothing any more. It may tell by what is shown, not by how it looks: render what "
            "the captures show."
        )


def _average_metric(recent_metrics: Sequence[Mapping[str, float]], name: str) -> float:
    return sum(scalars[name] for scalars in recent_metrics) / len(recent_metrics)
