"""The tiny data set of two squares, as the formats' tests take it."""

from dataclasses import replace

import pytest

from sim2cam.data.formats.export import export_dataset
from sim2cam.data.reader import read_dataset
from sim2cam.data.set_operations import split_by_scene
from sim2cam.seeds import derive_rng


@pytest.fixture
def dataset(native):
    """Four samples of two scenes."""
    return read_dataset(native)


@pytest.fixture
def exported(tmp_path, dataset):
    """Exports the data set in two parts of one scene each, and returns the folder and the parts."""

    def make(to, change=lambda dataset: dataset):
        parts = split_by_scene(change(dataset), {"train": 0.5, "test": 0.5}, derive_rng(0, "split"))
        export_dataset(parts, tmp_path / to, to)
        return tmp_path / to, parts

    return make


@pytest.fixture
def with_crowd(dataset):
    """The data set with a first object that stands for a group."""
    first, *others = dataset.samples
    one, two = first.objects
    crowded = replace(first, objects=(replace(one, is_crowd=True), two))
    return replace(dataset, samples=(crowded, *others))
