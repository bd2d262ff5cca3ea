"""Splitting and merging of datasets; scenes stay whole."""

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
    """Split a dataset by scene; samples keep their order.

    Args:
        fractions: Fraction of the scenes by split name; they add up to 1.

    Raises:
        UsageError: If the fractions are invalid or leave a split without scenes.
    """
    if (
        not all(fraction > 0 for fraction in fractions.values())
        or abs(sum(fractions.values()) - 1) > 1e-6
    ):
        listing = ", ".join(f"{name}={fraction:g}" for name, fraction in fractions.items())
        raise UsageError(f"fractions {listing} are invalid. Each must be above 0, and their sum 1.")
    scenes = np.unique([sample.scene_index for sample in dataset.samples])
    ends = np.round(np.cumsum(list(fractions.values())) * len(scenes)).astype(int)
    scene_groups = np.split(rng.permutation(scenes), ends[:-1])
    splits = {}
    for name, group in zip(fractions, scene_groups, strict=True):
        if not len(group):
            raise UsageError(
                f"{dataset.root} has {len(scenes)} scenes, too few for {name}={fractions[name]:g}."
            )
        scene_indices = set(group.tolist())
        samples = tuple(s for s in dataset.samples if s.scene_index in scene_indices)
        splits[name] = replace(dataset, samples=samples)
    return splits


def hold_out(datasets: Sequence[Dataset], fraction: float) -> tuple[tuple[Dataset, ...], Dataset]:
    """Return the datasets without a fraction of their scenes, and these scenes as one dataset.

    A scene and its translations are held out together. Each dataset keeps at least one scene, and pseudo-labelled
    images are never held out. The hashes of image names decide, so the selection is the same for every training
    with the same datasets, whether pseudo-labelled images are added or not.

    Args:
        datasets: At least one dataset.
        fraction: Fraction of the scenes, 0 or more and below 1; rounded down to whole scenes.

    Raises:
        UsageError: If there is no dataset.
    """
    merged = merge_datasets(datasets)
    scenes = _number_scenes(datasets)
    order = _order_scenes_by_hash(datasets, scenes)
    held_out_scenes = set(order[: int(fraction * len(order))])
    remaining_scenes = iter(scenes)
    for dataset in datasets:
        dataset_scenes = set(islice(remaining_scenes, len(dataset.samples)))
        if dataset_scenes <= held_out_scenes:
            held_out_scenes -= {
                next((scene for scene in reversed(order) if scene in dataset_scenes), None)
            }
    is_held_out = [
        scene in held_out_scenes and sample.origin != PSEUDO_LABELLED
        for scene, sample in zip(scenes, merged.samples, strict=True)
    ]
    flags = iter(is_held_out)
    kept_datasets = tuple(
        replace(dataset, samples=tuple(s for s in dataset.samples if not next(flags)))
        for dataset in datasets
    )
    return kept_datasets, replace(merged, samples=tuple(compress(merged.samples, is_held_out)))


def _order_scenes_by_hash(datasets: Sequence[Dataset], scenes: Sequence[int]) -> list[int]:
    """Return the scenes, except pseudo-labelled images, ordered by the hashes of their image names."""
    samples = (sample for dataset in datasets for sample in dataset.samples)
    lowest_hashes: dict[int, bytes] = {}
    for scene, sample in zip(scenes, samples, strict=True):
        if sample.origin != PSEUDO_LABELLED:
            key = hashlib.sha256(sample.name.encode()).digest()
            lowest_hashes[scene] = min(key, lowest_hashes.get(scene, key))
    return sorted(lowest_hashes, key=lambda scene: (lowest_hashes[scene], scene))


def use_amodal_boxes(dataset: Dataset) -> Dataset:
    """Return a dataset with amodal boxes where labels have them."""
    samples = tuple(
        replace(
            sample,
            objects=None
            if sample.objects is None
            else tuple(label.use_amodal_box() for label in sample.objects),
        )
        for sample in dataset.samples
    )
    return replace(dataset, samples=samples)


def select_boxes(dataset: Dataset, *, amodal: bool) -> Dataset:
    """Return a dataset with amodal boxes, or unchanged with boxes of the visible parts."""
    return use_amodal_boxes(dataset) if amodal else dataset


def strip_annotations(dataset: Dataset) -> Dataset:
    """Return a dataset without categories, labels and channels."""
    bare = (replace(sample, objects=None, channels={}, digest="") for sample in dataset.samples)
    return replace(dataset, categories=(), samples=tuple(bare))


def merge_datasets(datasets: Sequence[Dataset]) -> Dataset:
    """Merge datasets into one with the root of the first.

    Categories are united by name. Sample names get their dataset's name as a prefix and scenes new indices. A
    scene and its translations stay one scene.

    Raises:
        UsageError: If there is no dataset.
    """
    if not datasets:
        raise UsageError("no dataset to merge. Give at least one.")
    if len(datasets) == 1:
        return datasets[0]
    categories = dict.fromkeys(name for dataset in datasets for name in dataset.categories)
    scenes = iter(_number_scenes(datasets))
    samples: list[Sample] = []
    sources: list[SourceDataset] = []
    for prefix, dataset in zip(_make_prefixes(datasets), datasets, strict=True):
        merged_indices: dict[int, int] = {}
        for sample in dataset.samples:
            merged_index = merged_indices[sample.scene_index] = next(scenes)
            samples.append(
                replace(sample, name=f"{prefix}-{sample.name}", scene_index=merged_index)
            )
        for source in dataset.list_sources():
            merged_scenes = {
                index: merged_indices[i]
                for index, i in source.merged_scenes.items()
                if i in merged_indices
            }
            sources.append(SourceDataset(source.root, merged_scenes))
    return Dataset(datasets[0].root, tuple(categories), tuple(samples), tuple(sources))


def _make_prefixes(datasets: Sequence[Dataset]) -> list[str]:
    names = [dataset.root.name for dataset in datasets]
    return [
        name if names.count(name) == 1 else f"{name}-{number}"
        for number, name in enumerate(names, start=1)
    ]


def _number_scenes(datasets: Sequence[Dataset]) -> list[int]:
    """Return the scene index of each sample among all datasets.

    Samples are connected by their scene, their digest and their parent's digest; each connected component is one
    scene.
    """
    samples = [(i, sample) for i, dataset in enumerate(datasets) for sample in dataset.samples]
    node_indices: dict[object, int] = {}
    next_index = count()
    rows, columns = [], []
    for row, (dataset, sample) in enumerate(samples):
        for key in _list_scene_keys(dataset, sample):
            rows.append(row)
            columns.append(node_indices.setdefault(key, next(next_index)))
    edges = coo_array((np.ones(len(rows)), (rows, np.array(columns) + len(samples))))
    node_count = len(samples) + next(next_index)
    graph = coo_array((edges.data, edges.coords), shape=(node_count, node_count))
    _, labels = connected_components(graph, directed=False)
    order = {label: number for number, label in enumerate(dict.fromkeys(labels[: len(samples)]))}
    return [order[label] for label in labels[: len(samples)]]


def _list_scene_keys(dataset_index: int, sample: Sample) -> list[object]:
    digests = [digest for digest in (sample.digest, sample.parent) if digest]
    return [(dataset_index, sample.scene_index), *digests]
