"""Labels of captures, brought to what a detector says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sim2cam.data.sample import Dataset, Sample
from sim2cam.data.set_operations import select_boxes
from sim2cam.errors import InputError, UsageError, suggest_name


@dataclass(frozen=True)
class LabelMapping:
    """Which labels of captures are held against what a detector says.

    Attributes:
        categories: that the detector tells apart.
        renames: category of captures -> one of these, where the names differ.
        ignore_unmapped: whether objects of other categories are left out, instead of refused.
        amodal: whether boxes are of whole objects, where labels know them.
    """

    categories: tuple[str, ...]
    renames: Mapping[str, str] = field(default_factory=dict)
    ignore_unmapped: bool = False
    amodal: bool = False

    def apply(self, captures: Dataset) -> Dataset:
        """Return the captures with the detector's categories, matched by name, and such boxes as it finds.

        Raises:
            UsageError: ``renamed`` names a category that is not there.
            InputError: an object of a category that the detector does not know.
        """
        known = self.categories
        for real, sim in self.renames.items():
            if real not in captures.categories:
                raise UsageError(f"--map {real}={sim}: {suggest_name(real, captures.categories)}")
            if sim not in known:
                raise UsageError(f"--map {real}={sim}: {suggest_name(sim, known)}")
        names = self.map_categories(captures.categories)
        shown = captures.collect_label_categories()
        strangers = sorted(name for name in shown if names[name] is None)
        if strangers and not self.ignore_unmapped:
            raise InputError(
                captures.root,
                f"category '{strangers[0]}' is not one of those told apart: {', '.join(known)}. Add "
                f"--map {strangers[0]}=NAME, or --ignore-unmatched to leave such objects out.",
            )
        samples = tuple(_map_labels(sample, names) for sample in captures.samples)
        matched = replace(captures, categories=known, samples=samples)
        return select_boxes(matched, amodal=self.amodal)

    def restrict_to(self, datasets: Sequence[Dataset]) -> tuple[LabelMapping, ...]:
        """Return the same for each of several captures: what is renamed need be in one of them.

        Raises:
            UsageError: ``renamed`` names a category that is in none of them.
        """
        present = dict.fromkeys(name for one in datasets for name in one.categories)
        for real, sim in self.renames.items():
            if real not in present:
                raise UsageError(f"--map {real}={sim}: {suggest_name(real, present)}")
        own = ({r: s for r, s in self.renames.items() if r in one.categories} for one in datasets)
        return tuple(replace(self, renames=renamed) for renamed in own)

    def check_complete(self, captures: Dataset) -> None:
        """Refuse captures to be trained on that lack a category, whose objects would be learned as background.

        Raises:
            InputError: naming the category.
        """
        called = self.map_categories(captures.categories).values()
        for name in self.categories:
            if name not in called:
                raise InputError(
                    captures.root,
                    f"has no category '{name}', so such objects would be learned as background. Add --map "
                    f"REAL={name}, or label them; where no picture shows one, add '{name}' to the data's "
                    "list of categories.",
                )

    def map_categories(self, categories: Sequence[str]) -> dict[str, str | None]:
        """Return what categories of captures are called by the detector; None for those left out."""
        called = {name: self.renames.get(name, name) for name in categories}
        return {name: new if new in self.categories else None for name, new in called.items()}


def _map_labels(sample: Sample, names: Mapping[str, str | None]) -> Sample:
    if sample.objects is None:
        return sample
    called = [(label, names[label.category]) for label in sample.objects]
    kept = tuple(replace(label, category=name) for label, name in called if name is not None)
    return replace(sample, objects=kept)
