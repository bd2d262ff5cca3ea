"""Mapping of the labels of real images to the categories of a detector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sim2cam.data.sample import Dataset, Sample
from sim2cam.data.set_operations import select_boxes
from sim2cam.errors import InputError, UsageError, suggest_name


@dataclass(frozen=True)
class LabelMapping:
    """Mapping of the labels of real images to the categories and boxes of a detector.

    Attributes:
        renames: Detector category by real category, where the names differ.
        ignore_unmapped: Whether objects of other categories are dropped instead of refused.
        amodal: Whether amodal boxes are used where labels have them.
    """

    categories: tuple[str, ...]
    renames: Mapping[str, str] = field(default_factory=dict)
    ignore_unmapped: bool = False
    amodal: bool = False

    def apply(self, captures: Dataset) -> Dataset:
        """Return the real images with the detector's categories and type of boxes.

        Raises:
            UsageError: If ``renames`` names an unknown category.
            InputError: If an object has a category that the detector lacks.
        """
        categories = self.categories
        for real, sim in self.renames.items():
            if real not in captures.categories:
                raise UsageError(f"--map {real}={sim}: {suggest_name(real, captures.categories)}")
            if sim not in categories:
                raise UsageError(f"--map {real}={sim}: {suggest_name(sim, categories)}")
        names = self.map_categories(captures.categories)
        present = captures.collect_label_categories()
        unmapped = sorted(name for name in present if names[name] is None)
        if unmapped and not self.ignore_unmapped:
            raise InputError(
                captures.root,
                f"the detector has no category '{unmapped[0]}', only {', '.join(categories)}. Add "
                f"--map {unmapped[0]}=NAME, or --ignore-unmatched to drop such objects.",
            )
        samples = tuple(_map_labels(sample, names) for sample in captures.samples)
        matched = replace(captures, categories=categories, samples=samples)
        return select_boxes(matched, amodal=self.amodal)

    def restrict_to(self, datasets: Sequence[Dataset]) -> tuple[LabelMapping, ...]:
        """Return one mapping for each dataset, with the renames that apply to it.

        Raises:
            UsageError: If ``renames`` names a category that no dataset has.
        """
        present = dict.fromkeys(name for dataset in datasets for name in dataset.categories)
        for real, sim in self.renames.items():
            if real not in present:
                raise UsageError(f"--map {real}={sim}: {suggest_name(real, present)}")
        renames_per_dataset = (
            {real: sim for real, sim in self.renames.items() if real in dataset.categories}
            for dataset in datasets
        )
        return tuple(replace(self, renames=renames) for renames in renames_per_dataset)

    def check_complete(self, captures: Dataset) -> None:
        """Raise InputError if the training images lack a category of the detector.

        Objects of that category would be trained as background.
        """
        mapped = self.map_categories(captures.categories).values()
        for name in self.categories:
            if name not in mapped:
                raise InputError(
                    captures.root,
                    f"has no category '{name}', so such objects would be trained as background. Add --map "
                    f"REAL={name}, or label them. If no image shows one, add '{name}' to the list of "
                    "categories.",
                )

    def map_categories(self, categories: Sequence[str]) -> dict[str, str | None]:
        """Return the detector category of each real category; None for dropped ones."""
        renamed = {name: self.renames.get(name, name) for name in categories}
        return {name: new if new in self.categories else None for name, new in renamed.items()}


def _map_labels(sample: Sample, names: Mapping[str, str | None]) -> Sample:
    if sample.objects is None:
        return sample
    mapped = [(label, names[label.category]) for label in sample.objects]
    kept = tuple(replace(label, category=name) for label, name in mapped if name is not None)
    return replace(sample, objects=kept)
