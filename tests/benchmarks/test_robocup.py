"""The ablation study on robocup: its variants, and scorings of single categories."""

from dataclasses import replace
from pathlib import Path

import pytest
from robocup import (
    BASELINE,
    CATEGORIES,
    VARIANTS,
    Arguments,
    main,
    make_plan,
    select_categories,
    split_by_weights,
)

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


def test_only_one_variant_starts_from_random_weights():
    plan = make_plan(Arguments())
    pretrained, from_scratch = split_by_weights(plan, [variant.name for variant in VARIANTS])
    assert {len(pretrained.variants), len(from_scratch.variants)} == {len(VARIANTS) - 1, 1}
    assert (pretrained.config.pretrained, from_scratch.config.pretrained) == ("auto", "")
    assert replace(from_scratch.config, pretrained="auto") == pretrained.config == plan.config
    paths = {locate_result(Path(), variant, 0) for variant in plan.variants}
    assert len(paths) == len(VARIANTS)
    selected, rest = split_by_weights(plan, [BASELINE])
    assert [variant.name for variant in selected.variants] == [BASELINE]
    assert rest.variants == ()


def test_unknown_names_are_refused():
    with pytest.raises(SystemExit, match="--arms: unknown: nothing"):
        main(Arguments(arms=("nothing",)))
