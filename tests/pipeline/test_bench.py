import json
from dataclasses import replace

import pytest

from sim2cam.cli.main import main
from sim2cam.dataset.captures import read_captures
from sim2cam.errors import InputError, UsageError
from sim2cam.models.config import TrainConfig
from sim2cam.models.training import train_detector
from sim2cam.pipeline.bench import bench, match_categories
from sim2cam.training.run import WEIGHTS


@pytest.fixture(scope="module")
def run(sim, tmp_path_factory):
    folder = tmp_path_factory.mktemp("detector")
    train_detector(((sim, 1.0),), TrainConfig(steps=2, batch=2, crop_px=64), folder)
    return folder


def test_the_command_prints_scores_with_intervals(run, coco, capsys):
    assert main(["bench", str(run / WEIGHTS), "--captures", str(coco), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["images"] == 24
    for metric in ("ap", "ap50", "ap75", "agnostic_ap50"):
        low, high = printed[metric]["ci95"]
        assert 0 <= low <= printed[metric]["value"] <= high <= 1


def test_the_command_prints_a_table(run, coco, capsys):
    assert main(["bench", str(run / WEIGHTS), "--captures", str(coco)]) == 0
    assert "AP50" in capsys.readouterr().out


def test_a_limit_caps_what_is_read(run, coco, capsys):
    arguments = ["bench", str(run / WEIGHTS), "--captures", str(coco), "--limit", "3", "--json"]
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["images"] == 3


def test_categories_match_by_name(coco):
    captures = read_captures(coco)
    named = replace(
        captures,
        categories=("one", *captures.categories[1:]),
        samples=tuple(
            replace(s, objects=tuple(replace(o, category="one") if o.category == "1" else o for o in s.objects))
            for s in captures.samples
        ),
    )  # fmt: skip
    with pytest.raises(InputError, match=r"category 'one' is not one of the detector's: 1, 2"):
        match_categories(named, captures.categories, {}, ignore_unmatched=False)
    mapped = match_categories(named, captures.categories, {"one": "1"}, ignore_unmatched=False)
    assert mapped.samples == captures.samples
    ignored = match_categories(named, captures.categories, {}, ignore_unmatched=True)
    assert not any(o.category == "1" for s in ignored.samples for o in s.objects)
    with pytest.raises(UsageError, match=r"--map oen=1: Did you mean 'one'\?"):
        match_categories(named, captures.categories, {"oen": "1"}, ignore_unmatched=False)


def test_unlabelled_captures_are_refused(run, coco):
    from sim2cam.models.prediction import load_detector

    captures = read_captures(coco).take(1)
    bare = replace(captures, samples=(replace(captures.samples[0], objects=None),))
    with pytest.raises(InputError, match="has no labels to score against"):
        bench(load_detector(run / WEIGHTS), bare)
