"""A whole ladder on very small data: pieces, choice on dev, scores of every arm."""

import json

import pytest

from sim2cam.errors import InputError
from sim2cam.models.config import TrainConfig
from sim2cam.pipeline import ladder
from sim2cam.pipeline.ladder import (
    Arm,
    Captures,
    Plan,
    choose_on_dev,
    pieces,
    run_piece,
    score_ladder,
)

PLAN = Plan(
    arms=(
        Arm("randomized", ("randomized",)),
        Arm("Reinhard", ("randomized", "reinhard"), is_candidate=True),
        Arm("Fourier", ("randomized", "fourier"), is_candidate=True),
        Arm("real only", ("real",)),
    ),
    seeds=(0, 1),
    config=TrainConfig(steps=2, batch=2, crop_px=64),
    pictures=4,
    data_seed=0,
)


@pytest.fixture
def captures(coco):
    return Captures(train=coco, style=coco, dev=coco, test=coco)


@pytest.fixture
def work(sim, tmp_path, monkeypatch):
    monkeypatch.setattr(ladder, "_render", lambda *_: None)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "randomized").symlink_to(sim.root)
    return tmp_path / "work"


def test_every_arm_leaves_a_file_and_a_score(work, captures, tmp_path):
    results = tmp_path / "results"
    ladder.prepare_data(PLAN, captures, work, workers=1)
    planned = pieces(PLAN, captures, work, results, threads=1)
    assert [(p.arm.name, p.seed) for p in planned] == [
        ("randomized", 0), ("Reinhard", 0), ("Fourier", 0), ("real only", 0),
        ("randomized", 1), ("real only", 1),
    ]  # fmt: skip
    assert choose_on_dev(PLAN, captures, results) is None
    for piece in planned:
        run_piece(piece)
    assert pieces(PLAN, captures, work, results, threads=1) == []
    assert choose_on_dev(PLAN, captures, results) in ("Reinhard", "Fourier")
    candidate = json.loads((results / "reinhard-0.json").read_text())
    assert "test" not in candidate["found"]  # a candidate is chosen without the test split
    scores = score_ladder(PLAN, captures, results, baseline="randomized")
    assert {arm["name"]: len(arm["seeds"]) for arm in scores["arms"]} == {
        "randomized": 2,
        "real only": 2,
    }
    assert [c["first"] for c in scores["comparisons"]] == ["real only"]


def test_without_the_baseline_there_is_nothing_to_compare(captures, tmp_path):
    with pytest.raises(InputError, match="no predictions of the arm 'randomized' yet"):
        score_ladder(PLAN, captures, tmp_path, baseline="randomized")
