"""The ablation study on robocup: its variants, and scorings of single categories."""

from pathlib import Path

import pytest
import robocup
from robocup import (
    BASELINE,
    CATEGORIES,
    VARIANTS,
    Arguments,
    main,
    make_plan,
    score_sizes,
    select_categories,
)

from sim2cam.data.formats.predictions import DETECTION_ROWS
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
    assert plan.config.pretrained == "auto"
    assert [v.name for v in plan.variants if v.from_scratch] == ["randomized, from scratch"]
    paths = {locate_result(Path(), variant, 0) for variant in plan.variants}
    assert len(paths) == len(VARIANTS)


def test_small_balls_that_are_missed_lower_the_score_of_their_size_alone(monkeypatch):
    boxes = [(0.0, 0.0, 9.0, 9.0), (20.0, 20.0, 60.0, 60.0)]
    objects = tuple(ObjectLabel(category="ball", box_xyxy=box, area_px=9.0) for box in boxes)
    samples = tuple(Sample(n, Path(n), 64, 64, objects, "real") for n in ("a", "b"))
    test = Dataset(Path("robocup"), CATEGORIES["all"], samples)
    rows = {DETECTION_ROWS: {name: [["ball", *boxes[1], 0.9]] for name in ("a", "b")}}
    monkeypatch.setattr(
        robocup, "read_job_result", lambda _, variant, *__: rows if variant.name == BASELINE else {}
    )
    sizes = score_sizes(make_plan(Arguments()), test, Path())
    assert sizes.keys() == {BASELINE}
    values = {name: score["value"] for name, score in sizes[BASELINE].items()}
    assert values == {"below 16": 0.0, "32 to 64": 1.0}


def test_unknown_names_are_refused():
    with pytest.raises(SystemExit, match="--arms: unknown: nothing"):
        main(Arguments(arms=("nothing",)))
