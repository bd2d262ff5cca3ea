"""The ablation study on robocup: one plan per network, and scorings of single categories."""

from pathlib import Path

import pytest
from robocup import CATEGORIES, VARIANTS, Arguments, main, make_plan, select_categories

from sim2cam.data.real_images import RealImageSplits
from sim2cam.data.sample import Dataset, ObjectLabel, Sample
from sim2cam.experiments.ablation import locate_result


def make_splits():
    objects = tuple(
        ObjectLabel(category=name, box_xyxy=(0.0, 0.0, 9.0, 9.0), area_px=81.0)
        for name in ("ball", "robot", "robot")
    )
    sample = Sample("a", Path("a.jpg"), 64, 64, objects, "real")
    dataset = Dataset(Path("robocup"), CATEGORIES["all"], (sample,))
    return RealImageSplits(dataset, dataset, dataset, dataset)


@pytest.mark.parametrize(("name", "count"), [("ball", 1), ("all", 3)])
def test_scored_labels_are_those_of_the_selected_categories(name, count):
    splits = make_splits()
    selected = select_categories(splits, CATEGORIES[name])
    assert [len(sample.objects) for sample in selected.test.samples] == [count]
    assert selected.test.categories == CATEGORIES["all"]  # detections of all are allowed
    assert selected.train is splits.train


def test_networks_share_no_file_of_predictions():
    plan = make_plan("nano", Arguments())
    other = [variant.name.replace("nano", "lite0") for variant in plan.variants]
    assert len(plan.variants) == len(VARIANTS)
    assert not {variant.name for variant in plan.variants} & set(other)
    paths = [locate_result(Path(), variant, 0) for variant in plan.variants]
    assert len(set(paths)) == len(paths)
    assert plan.config.architecture == "nano"


@pytest.mark.parametrize(("option", "problem"), [("arms", "--arms"), ("networks", "--networks")])
def test_unknown_names_are_refused(option, problem):
    with pytest.raises(SystemExit, match=f"{problem}: unknown: nothing"):
        main(Arguments(**{option: ("nothing",)}))
