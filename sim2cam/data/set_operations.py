"""Data sets from data sets: parts of one, and one of several. Scenes are never torn apart."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import compress, count, islice

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from sim2cam.data.sample import PSEUDO_LABELLED, Dataset, Sample, SourceDataset
from sim2cam.errors import UsageError


def split_by_scene(
    dataset: Dataset, fractions: Mapping[str, float], rng: np.random.Generator
) -> dict[str, Dataset]:
    """Return parts of a data set by name; samples keep their order, scenes stay whole.

    Args:
        dataset: whole.
        fractions: of the scenes, for each part; they add up to 1.
        rng: decides which scenes.

    Raises:
        UsageError: shares that are none, or leave a part without scenes.
    """
    if (
        not all(share > 0 for share in fractions.values())
        or abs(sum(fractions.values()) - 1) > 1e-6
    ):
        given = ", ".join(f"{name}={share:g}" for name, share in fractions.items())
        raise UsageError(f"shares {given}: each must be above 0, and together they must be 1.")
    scenes = np.unique([sample.scene_index for sample in dataset.samples])
    ends = np.round(np.cumsum(list(fractions.values())) * len(scenes)).astype(int)
    drawn = np.split(rng.permutation(scenes), ends[:-1])
    found = {}
    for name, part in zip(fractions, drawn, strict=True):
        if not len(part):
            raise UsageError(
                f"{dataset.root} has {len(scenes)} scenes, too few for {name}={fractions[name]:g}."
            )
        chosen = set(part.tolist())
        samples = tuple(s for s in dataset.samples if s.scene_index in chosen)
        found[name] = replace(dataset, samples=samples)
    return found


def hold_out(datasets: Sequence[Dataset], fraction: float) -> tuple[tuple[Dataset, ...], Dataset]:
    """Return the data sets without a share of their scenes, and these scenes as one data set.

    A scene goes with its translations, so nothing of it stays behind. Of every data set a scene stays, were it
    the only one. Pictures that a detector labelled stay: nothing can be told from them. The names of its
    pictures decide whether a scene goes, so that of the same data sets the same ones go before every training, whether
    labelled pictures of that kind are added or not.

    Args:
        datasets: whole, at least one.
        fraction: of the scenes, 0 or more and below 1; rounded down to whole scenes.

    Raises:
        UsageError: there is no data set.
    """
    scenes = _number_scenes(datasets)
    order = _order_scenes_by_hash(datasets, scenes)
    drawn = set(order[: int(fraction * len(order))])
    owned = iter(scenes)
    for dataset in datasets:
        own = set(islice(owned, len(dataset.samples)))
        if own <= drawn:
            drawn -= {next((scene for scene in reversed(order) if scene in own), None)}
    whole = merge_datasets(datasets)
    is_aside = [
        scene in drawn and sample.origin != PSEUDO_LABELLED
        for scene, sample in zip(scenes, whole.samples, strict=True)
    ]
    leaves = iter(is_aside)
    kept = tuple(
        replace(dataset, samples=tuple(s for s in dataset.samples if not next(leaves)))
        for dataset in datasets
    )
    return kept, replace(whole, samples=tuple(compress(whole.samples, is_aside)))


def _order_scenes_by_hash(datasets: Sequence[Dataset], scenes: Sequence[int]) -> list[int]:
    """Return the scenes of pictures that no detector labelled, in an order as good as drawn: by the hashes of their
    pictures' names.
    """
    samples = (sample for dataset in datasets for sample in dataset.samples)
    least: dict[int, bytes] = {}
    for scene, sample in zip(scenes, samples, strict=True):
        if sample.origin != PSEUDO_LABELLED:
            key = hashlib.sha256(sample.name.encode()).digest()
            least[scene] = min(key, least.get(scene, key))
    return sorted(least, key=lambda scene: (least[scene], scene))


def use_amodal_boxes(dataset: Dataset) -> Dataset:
    """Return a data set with boxes of whole objects, also where something hides them, of those that
    have them.
    """
    samples = tuple(
        replace(
            sample,
            objects=None
            if sample.objects is None
            else tuple(o.use_amodal_box() for o in sample.objects),
        )
        for sample in dataset.samples
    )
    return replace(dataset, samples=samples)


def select_boxes(dataset: Dataset, *, amodal: bool) -> Dataset:
    """Return a data set with boxes of whole objects, or as it is: with those of what is seen of them."""
    return use_amodal_boxes(dataset) if amodal else dataset


def strip_annotations(dataset: Dataset) -> Dataset:
    """Return a data set without anything that anybody or any renderer said of its pictures."""
    bare = (replace(s, objects=None, channels={}, digest="") for s in dataset.samples)
    return replace(dataset, categories=(), samples=tuple(bare))


def merge_datasets(datasets: Sequence[Dataset]) -> Dataset:
    """Return several data sets as one, with the folder of the first for a root.

    Categories are united by name. Where there are several, samples take their data set's name for a
    prefix, and scenes new numbers; a scene and its translations are still one.

    Raises:
        UsageError: nothing to merge.
    """
    if not datasets:
        raise UsageError("no data set to merge. Name at least one.")
    if len(datasets) == 1:
        return datasets[0]
    categories = dict.fromkeys(name for dataset in datasets for name in dataset.categories)
    scenes = iter(_number_scenes(datasets))
    samples: list[Sample] = []
    sources: list[SourceDataset] = []
    for prefix, dataset in zip(_make_prefixes(datasets), datasets, strict=True):
        numbers: dict[int, int] = {}
        for sample in dataset.samples:
            number = numbers[sample.scene_index] = next(scenes)
            samples.append(replace(sample, name=f"{prefix}-{sample.name}", scene_index=number))
        for source in dataset.list_sources():
            known = {own: numbers[n] for own, n in source.merged_scenes.items() if n in numbers}
            sources.append(SourceDataset(source.root, known))
    return Dataset(datasets[0].root, tuple(categories), tuple(samples), tuple(sources))


def _make_prefixes(datasets: Sequence[Dataset]) -> list[str]:
    """Return the names of their folders, numbered where they are the same."""
    names = [dataset.root.name for dataset in datasets]
    return [
        name if names.count(name) == 1 else f"{name}-{number}"
        for number, name in enumerate(names, start=1)
    ]


def _number_scenes(datasets: Sequence[Dataset]) -> list[int]:
    """Return the number of each sample's scene among all data sets.

    Samples are tied to their scene, and to their own digest and their parent's: whatever hangs
    together is one scene.
    """
    samples = [(i, sample) for i, dataset in enumerate(datasets) for sample in dataset.samples]
    numbers: dict[object, int] = {}
    fresh = count()
    rows, columns = [], []
    for row, (dataset, sample) in enumerate(samples):
        for tie in _list_scene_keys(dataset, sample):
            rows.append(row)
            columns.append(numbers.setdefault(tie, next(fresh)))
    ties = coo_array((np.ones(len(rows)), (rows, np.array(columns) + len(samples))))
    side = len(samples) + next(fresh)
    graph = coo_array((ties.data, ties.coords), shape=(side, side))
    _, labels = connected_components(graph, directed=False)
    order = {label: number for number, label in enumerate(dict.fromkeys(labels[: len(samples)]))}
    return [order[label] for label in labels[: len(samples)]]


def _list_scene_keys(dataset_index: int, sample: Sample) -> list[object]:
    digests = [digest for digest in (sample.digest, sample.parent) if digest]
    return [(dataset_index, sample.scene_index), *digests]
