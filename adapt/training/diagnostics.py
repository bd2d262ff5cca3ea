"""Signs that a training of two adversaries goes wrong, in its record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sim2cam.adapt.training.checkpoint_selection import Candidate

LEAST_CHANGE = 1 / 255
"""Mean change of a render, of a range of 1, from which it counts as changed: one level of 8 bits."""

WON = 0.1
"""Loss of the discriminator below which it has won, over that of one which cannot tell."""

KNOWN_AUC = 0.75
KNOWN_P = 0.01
"""Captures that were trained on and others are told apart from this area and up to this p-value."""


def symptoms(
    recent: Sequence[Mapping[str, float]],
    candidate: Candidate | None,
    undecided: tuple[str, float],
) -> Iterator[str]:
    """Yields what goes wrong, in words with what to do about it.

    Args:
        recent: scalars of the record, of the last part of the training.
        candidate: the last one; None without any.
        undecided: the loss of the discriminator of captures, by its name, and its value when it cannot
            tell translations from captures.
    """
    change = _mean(recent, "mean_change")
    if change < LEAST_CHANGE:
        yield (
            f"the output hardly differs from the input: by {255 * change:.1f} of 255 levels on average. "
            "Train again with more --steps, and check that --real is not --sim."
        )
    name, loss = undecided
    share = _mean(recent, name) / loss
    if share < WON:
        yield (
            f"the discriminator has won: its loss is {share:.0%} of that of one which cannot tell, so "
            "it teaches nothing any more. It may tell by what is shown, not by how it looks: render what "
            "the captures show."
        )
    if candidate and candidate.known_auc >= KNOWN_AUC and candidate.known_p <= KNOWN_P:
        yield (
            "the discriminator memorizes: it tells captures that it was trained on from those kept aside "
            f"(area under the ROC curve {candidate.known_auc:.2f}, p {candidate.known_p:.2g}). Add "
            "captures, or train for fewer steps."
        )


def _mean(recent: Sequence[Mapping[str, float]], name: str) -> float:
    return sum(scalars[name] for scalars in recent) / len(recent)
