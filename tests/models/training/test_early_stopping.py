"""Trainings that end when captures find nothing better, and resume as if they had never stopped."""

from dataclasses import replace

import pytest
import torch

from sim2cam.models.training import training
from sim2cam.models.training.config import TrainConfig
from sim2cam.models.training.early_stopping import (
    MAX_EVALUATIONS,
    EarlyStopping,
    compute_evaluation_interval,
)
from sim2cam.models.training.setup import AuxiliaryData
from sim2cam.models.training.training import train_detector

STEPS = TrainConfig(steps=8, batch=2, crop_px=64, seed=3, warmup_steps=2, patience=2)
FILES = ("weights.safetensors", "weights.json", "checkpoint.safetensors")


def test_looks_keep_the_best_and_lose_patience():
    looks, weight = EarlyStopping(2), torch.zeros(1)
    seen = []
    for step, score in enumerate((0.0, 0.0, 0.0, 0.3, 0.5, 0.5, 0.4), 1):
        weight += 1
        looks.update(step, score, {"weight": weight})
        seen.append(looks.should_stop)
    assert seen == [False] * 6 + [True]  # and never while nothing is found
    assert looks.best_step == 5
    assert looks.best_weights["weight"].item() == 5
    assert not EarlyStopping(2).should_stop


def test_there_are_so_many_looks():
    assert [compute_evaluation_interval(steps) for steps in (1, 19, 1200)] == [
        1,
        1,
        1200 // MAX_EVALUATIONS,
    ]


@pytest.fixture
def scores(monkeypatch):
    """A function that plans the scores of the looks of the next training, by the step."""

    def plan(*values):
        left = iter(values)
        monkeypatch.setattr(training, "compute_ap50", lambda *_: next(left))

    return plan


class KilledError(Exception):
    """Stands for a process that is gone."""


def kill(line):
    if line.step == 3:
        raise KilledError


def test_the_best_weights_are_the_result_whenever_it_was_killed(make_dataset, tmp_path, scores):
    parts, aids = (
        ((make_dataset(), 1.0),),
        AuxiliaryData(validation_set=make_dataset("dev", seed=1)),
    )
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    scores(0.1, 0.5, 0.3, 0.4)
    card = train_detector(parts, STEPS, whole, auxiliary_data=aids, log_interval_steps=3).card
    assert card.evaluations == ((1, 0.1), (2, 0.5), (3, 0.3), (4, 0.4))
    assert card.steps == 2
    scores(0.1, 0.5, 0.3)
    with pytest.raises(KilledError):
        train_detector(
            parts,
            STEPS,
            broken,
            auxiliary_data=aids,
            log_interval_steps=3,
            checkpoint_interval_s=0,
            progress=kill,
        )
    scores(0.4)
    train_detector(parts, STEPS, broken, auxiliary_data=aids, log_interval_steps=3, resume=True)
    for name in FILES:
        assert (whole / name).read_bytes() == (broken / name).read_bytes(), name
    scores()
    assert train_detector(parts, STEPS, whole, auxiliary_data=aids, resume=True).card == card


def test_captures_are_scored_and_without_any_all_steps_are_done(make_dataset, tmp_path):
    parts = ((make_dataset(), 1.0),)
    runs = []
    for dev in (None, make_dataset("dev", seed=1)):
        config = replace(STEPS, steps=2, patience=9)
        runs.append(
            train_detector(
                parts,
                config,
                tmp_path / f"{dev is None}",
                auxiliary_data=AuxiliaryData(validation_set=dev),
            )
        )
    assert runs[0].card.steps == 2
    assert [step for step, _ in runs[1].card.evaluations] == [1, 2]
    assert all(0 <= score <= 1 for _, score in runs[1].card.evaluations)
    assert runs[0].card.evaluations == ()
