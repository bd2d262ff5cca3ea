"""Labels of captures, brought to what a detector says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sim2cam.data.sample import Dataset, Sample
from sim2cam.data.set_operations import with_boxes
from sim2cam.errors import InputError, UsageError, did_you_mean


@dataclass(frozen=True)
class Matching:
    """Which labels of captures are held against what a detector says.

    Attributes:
        categories: that the detector tells apart.
        renamed: category of captures -> one of these, where the names differ.
        ignores_others: whether objects of other categories are left out, instead of refused.
        amodal: whether boxes are of whole objects, where labels know them.
    """

    categories: tuple[str, ...]
    renamed: Mapping[str, str] = field(default_factory=dict)
    ignores_others: bool = False
    amodal: bool = False

    def of(self, captures: Dataset) -> Dataset:
        """Returns the captures with the detector's categories, matched by name, and such boxes as it finds.

        Raises:
            UsageError: ``renamed`` names a category that is not there.
            InputError: an object of a category that the detector does not know.
        """
        known = self.categories
        for real, sim in self.renamed.items():
            if real not in captures.categories:
                raise UsageError(f"--map {real}={sim}: {did_you_mean(real, captures.categories)}")
            if sim not in known:
                raise UsageError(f"--map {real}={sim}: {did_you_mean(sim, known)}")
        names = self.names(captures.categories)
        shown = captures.shown_categories()
        strangers = sorted(name for name in shown if names[name] is None)
        if strangers and not self.ignores_others:
            raise InputError(
                captures.root,
                f"category '{strangers[0]}' is not one of those told apart: {', '.join(known)}. Add "
                f"--map {strangers[0]}=NAME, or --ignore to leave such objects out.",
            )
        samples = tuple(_matched(sample, names) for sample in captures.samples)
        matched = replace(captures, categories=known, samples=samples)
        return with_boxes(matched, amodal=self.amodal)

    def among(self, sets: Sequence[Dataset]) -> tuple[Matching, ...]:
        """Returns the same for each of several captures: what is renamed need be in one of them.

        Raises:
            UsageError: ``renamed`` names a category that is in none of them.
        """
        present = dict.fromkeys(name for one in sets for name in one.categories)
        for real, sim in self.renamed.items():
            if real not in present:
                raise UsageError(f"--map {real}={sim}: {did_you_mean(real, present)}")
        own = ({r: s for r, s in self.renamed.items() if r in one.categories} for one in sets)
        return tuple(replace(self, renamed=renamed) for renamed in own)

    def check_complete(self, captures: Dataset) -> None:
        """Refuses captures to be trained on that lack a category, whose objects would be learned as background.

        Raises:
            InputError: naming the category.
        """
        called = self.names(captures.categories).values()
        for name in self.categories:
            if name not in called:
                raise InputError(
                    captures.root,
                    f"has no category '{name}', so such objects would be learned as background. Add --map "
                    f"REAL={name}, or label them; where no picture shows one, add '{name}' to the data's "
                    "list of categories.",
                )

    def names(self, categories: Sequence[str]) -> dict[str, str | None]:
        """Returns what categories of captures are called by the detector; None for those left out."""
        called = {name: self.renamed.get(name, name) for name in categories}
        return {name: new if new in self.categories else None for name, new in called.items()}


def _matched(sample: Sample, names: Mapping[str, str | None]) -> Sample:
    if sample.objects is None:
        return sample
    called = [(label, names[label.category]) for label in sample.objects]
    kept = tuple(replace(label, category=name) for label, name in called if name is not None)
    return replace(sample, objects=kept)
