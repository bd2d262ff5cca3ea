"""A whole ladder on very small data: pieces, predictions, scores of every arm."""

import json

import pytest

from sim2cam.errors import InputError
from sim2cam.models.config import TrainConfig
from sim2cam.pipeline import ladder
from sim2cam.pipeline.ladder import (
    REAL,
    Arm,
    Captures,
    Plan,
    pieces,
    run_piece,
    score_ladder,
)

PLAN = Plan(
    arms=(
        Arm("randomized", ("randomized",)),
        Arm("+ transfer", ("randomized", "reinhard")),
        Arm("real only", (REAL,)),
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


@pytest.fixture
def tuned_arms(monkeypatch):
    """The names of the data sets of detectors that were tuned on the development split."""
    names = []

    def tuned(detector, _):
        names.append(tuple(part.name for part in detector.card.data))
        return detector

    monkeypatch.setattr(ladder, "tuned", tuned)
    return names


def test_every_arm_leaves_a_file_and_a_score(work, captures, tmp_path, tuned_arms):
    results = tmp_path / "results"
    ladder.prepare_data(PLAN, captures, work, workers=1)
    planned = pieces(PLAN, captures, work, results, threads=1)
    assert [(p.arm.name, p.seed) for p in planned] == [
        ("randomized", 0), ("+ transfer", 0), ("real only", 0),
        ("randomized", 1), ("+ transfer", 1), ("real only", 1),
    ]  # fmt: skip
    for piece in planned:
        run_piece(piece)
    assert pieces(PLAN, captures, work, results, threads=1) == []
    assert len(tuned_arms) == 4  # the arm with real labels trains on the development split
    scores = score_ladder(PLAN, captures, results, baseline="randomized")
    assert {arm["name"]: len(arm["seeds"]) for arm in scores["arms"]} == {
        "randomized": 2,
        "+ transfer": 2,
        "real only": 2,
    }
    assert [c["first"] for c in scores["comparisons"]] == ["+ transfer", "real only"]

    path = results / "randomized-1.json"
    facts = json.loads(path.read_text())
    facts["data"][0]["digest"] = "of other renders"
    path.write_text(json.dumps(facts))
    with pytest.raises(InputError, match="the seeds of arm 'randomized' were trained on different"):
        score_ladder(PLAN, captures, results, baseline="randomized")
    path.write_text(json.dumps(facts | {"config": {"steps": 3}}))
    with pytest.raises(InputError, match="Remove it to run it again"):
        score_ladder(PLAN, captures, results, baseline="randomized")


def test_without_the_baseline_there_is_nothing_to_compare(captures, tmp_path):
    with pytest.raises(InputError, match="no predictions of the arm 'randomized' yet"):
        score_ladder(PLAN, captures, tmp_path, baseline="randomized")
