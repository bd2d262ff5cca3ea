"""The time of a step, what options take of it, and the steps of a time budget."""

from dataclasses import replace

import pytest

from sim2cam.models.training import step_time
from sim2cam.models.training.config import TrainConfig
from sim2cam.models.training.setup import NO_AUXILIARY_DATA, make_training_setup
from sim2cam.models.training.step_time import StepTime, count_steps, measure_step_time, set_steps

CONFIG = TrainConfig(
    steps=3000, batch=1, crop_px=32, roi_classifier=True, masks=True, mix_steps=1500, initial_mix=(1.0,)
)  # fmt: skip


def test_the_warm_up_does_not_count_and_options_are_timed_alone(make_dataset, monkeypatch):
    """Each step takes a given time, and the first two ten times as long."""
    clock_s = 0.0

    class Steps:
        def __init__(self, setup, card, device):
            self.step_s = 0.01 + 0.02 * setup.config.roi_classifier + 0.001 * setup.tasks.masks

        def iterate_batches(self, steps):
            yield from steps

        def train_step(self, step, batch):
            nonlocal clock_s
            clock_s += self.step_s * (10 if step < 2 else 1)
            return {"total": 0.0}

    monkeypatch.setattr(step_time, "NativeTask", Steps)
    monkeypatch.setattr(step_time.time, "perf_counter", lambda: clock_s)
    setup = make_training_setup(((make_dataset(), 1.0),), CONFIG, NO_AUXILIARY_DATA)
    measured = measure_step_time(setup, "cpu", with_options=True)
    assert measured.step_s == pytest.approx(0.031)
    assert list(measured.option_s) == ["roi_classifier"]  # masks take less than a tenth
    assert measured.option_s["roi_classifier"] == pytest.approx(0.02)
    assert measure_step_time(setup, "cpu", with_options=False).option_s == {}


def test_a_real_step_is_timed_with_and_without_its_options(make_dataset, monkeypatch):
    monkeypatch.setattr(step_time, "MIN_OPTION_SHARE", -1e9)
    monkeypatch.setattr(step_time, "_OPTIONS_S", 1e9)
    config = replace(CONFIG, mix_steps=0, initial_mix=())
    setup = make_training_setup(((make_dataset(), 1.0),), config, NO_AUXILIARY_DATA)
    measured = measure_step_time(setup, "cpu", with_options=True)
    assert measured.step_s > 0
    assert list(measured.option_s) == ["roi_classifier", "masks"]


def test_the_cost_and_what_is_shorter_stand_in_a_sentence():
    slow = StepTime(1.9, {"roi_classifier": 1.5})
    assert slow.describe(3000, is_budget=False) == (
        "step 1.9 s; roi_classifier takes 1.5 s of it; 3000 steps: 95 min. Shorter: --minutes 15, or "
        "roi_classifier = false in [train] of the recipe."
    )
    assert slow.describe(400, is_budget=True) == (
        "step 1.9 s; roi_classifier takes 1.5 s of it; 400 steps: 13 min."
    )
    assert StepTime(0.1, {}).describe(300, is_budget=False) == "step 0.1 s; 300 steps: 30 s."


@pytest.mark.parametrize(
    ("budget_s", "step_s", "steps"), [(900, 2.0, 450), (0.1, 2.0, 1), (-5, 1, 1)]
)
def test_steps_fit_the_budget(budget_s, step_s, steps):
    assert count_steps(budget_s, step_s) == steps


def test_the_schedule_keeps_its_shape_in_shorter_trainings():
    shorter = set_steps(CONFIG, 300)
    assert (shorter.steps, shorter.limited_warmup_steps, shorter.mix_steps) == (300, 30, 150)
    longer = set_steps(CONFIG, 6000)
    assert (longer.steps, longer.limited_warmup_steps, longer.mix_steps) == (6000, 100, 1500)
