"""Diagnostics of adversarial training from its logged metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

MIN_MEAN_CHANGE = 1 / 255
"""Mean change of a render, on a scale of 0 to 1, below which it counts as unchanged: one 8-bit level."""

MIN_LOSS_RATIO = 0.1
"""Discriminator loss over its value at chance, below which the generator gets no useful gradient."""


def diagnose_training(
    recent_metrics: Sequence[Mapping[str, float]], chance_loss: tuple[str, float]
) -> Iterator[str]:
    """Yield warnings about a training, each with a remedy.

    Args:
        recent_metrics: logged scalars of the last part of the training.
        chance_loss: name of the discriminator loss, and its value if the discriminator guesses.
    """
    change = _average_metric(recent_metrics, "mean_change")
    if change < MIN_MEAN_CHANGE:
        yield (
            f"the translator hardly changes images: {255 * change:.1f} of 255 levels on average. "
            "Train with more --steps, and check that --real is not --sim."
        )
    name, loss = chance_loss
    ratio = _average_metric(recent_metrics, name) / loss
    if ratio < MIN_LOSS_RATIO:
        yield (
            f"the discriminator dominates: its loss is {ratio:.0%} of the loss at chance, so the generator no "
            "longer learns. It may separate the images by content: render what the real images show."
        )


def _average_metric(recent_metrics: Sequence[Mapping[str, float]], name: str) -> float:
    return sum(scalars[name] for scalars in recent_metrics) / len(recent_metrics)
