"""KITTI: every column of its label files, as its development kit documents them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sim2cam.dataset.formats.export import export
from sim2cam.errors import InputError
from sim2cam.images import read_rgb


def columns(path):
    return [line.split() for line in path.read_text().splitlines()]


def test_what_is_exported_holds_boxes_and_pictures(exported):
    root, parts = exported("kitti")
    for name, part in parts.items():
        for number, sample in enumerate(part.samples):
            picture = read_rgb(root / f"{name}/image_2/{number:06d}.png")
            assert np.array_equal(picture, read_rgb(sample.rgb))
            rows = columns(root / f"{name}/label_2/{number:06d}.txt")
            assert {len(row) for row in rows} == {15}
            assert [row[0] for row in rows] == [o.category for o in sample.objects]
            for row, label in zip(rows, sample.objects, strict=True):
                first, last = np.array(row[4:8], float).reshape(2, 2)
                assert (*first, *(last + 1)) == label.box_xyxy
        names = columns(root / f"{name}/samples.txt")
        assert names == [[f"{n:06d}", s.name] for n, s in enumerate(part.samples)]


def test_what_it_cannot_hold_is_marked_as_unknown(exported):
    root, _ = exported("kitti")
    (row, *_) = columns(root / "train/label_2/000000.txt")
    assert [row[3], *row[8:]] == ["-10", "-1", "-1", "-1", "-1000", "-1000", "-1000", "-10"]


@pytest.mark.parametrize(
    ("fraction", "level"), [(1.0, 0), (0.95, 0), (0.94, 1), (0.5, 1), (0.49, 2), (None, 3)]
)
def test_occlusion_follows_what_is_seen(tmp_path, dataset, fraction, level):
    sample = dataset.samples[0]
    label = replace(sample.objects[0], visible_fraction=fraction)
    one = replace(dataset, samples=(replace(sample, objects=(label,)),))
    export({"train": one}, tmp_path / "kitti", "kitti")
    assert columns(tmp_path / "kitti/train/label_2/000000.txt")[0][2] == str(level)


@pytest.mark.parametrize(
    ("whole", "known"),
    [((1, 1, 47, 31), "0"), ((0, 1, 47, 31), "-1"), ((1, 1, 48, 31), "-1"), (None, "-1")],
)
def test_truncation_is_known_of_what_lies_inside(tmp_path, dataset, whole, known):
    sample = dataset.samples[0]
    label = replace(sample.objects[0], box_amodal_xyxy=whole)
    one = replace(dataset, samples=(replace(sample, objects=(label,)),))
    export({"train": one}, tmp_path / "kitti", "kitti")
    assert columns(tmp_path / "kitti/train/label_2/000000.txt")[0][1] == known


def test_groups_are_regions_not_to_care_about(tmp_path, with_crowd):
    export({"train": with_crowd}, tmp_path / "kitti", "kitti")
    rows = columns(tmp_path / "kitti/train/label_2/000000.txt")
    assert [row[0] for row in rows] == ["DontCare", "disc"]


def test_a_category_of_two_words_is_refused(tmp_path, dataset):
    named = replace(dataset, categories=("square", "flat disc"))
    with pytest.raises(InputError) as caught:
        export({"train": named}, tmp_path / "kitti", "kitti")
    problem = "category 'flat disc': KITTI takes one word. Rename it."
    assert str(caught.value) == f"{dataset.root}: {problem}"
