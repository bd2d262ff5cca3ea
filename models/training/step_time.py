"""Time of a training step, the options that cost most of it, and the number of steps for a time budget."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sim2cam.learn.device import find_device, release_memory
from sim2cam.models.card import DetectorCard
from sim2cam.models.training.config import TrainConfig
from sim2cam.models.training.setup import TrainingSetup
from sim2cam.models.training.task import NativeTask, TorchvisionTask

_HEADS = ("roi_classifier", "masks")
COSTLY_OPTIONS = (*_HEADS, "copy_paste", "dead_leaves", "instance_colour_jitter")
"""Options of ``TrainConfig`` that are timed, the most expensive first."""

MIN_OPTION_SHARE = 0.1
"""Smallest share of a step's time that counts as the cost of an option."""

MIN_TIMED_STEPS = 200
"""Fewest steps of a training without a time budget that is timed; shorter ones are over soon."""

SHORT_MINUTES = 15
"""Time budget that is suggested for trainings that take longer."""

_WARM_UP_STEPS = 2  # allocate memory and decode the first images
_TIMED_STEPS = 5
_TIMED_S = 3.0  # seconds after which no further step is timed
_OPTIONS_S = 5.0  # seconds for all options


@dataclass(frozen=True)
class StepTime:
    """Time of a training step.

    Attributes:
        step_s: seconds of a step, including the wait for its batch.
        option_s: seconds of a step that each costly option takes.
    """

    step_s: float
    option_s: Mapping[str, float]

    def describe(self, steps: int, *, is_budget: bool) -> str:
        """Return a sentence with the time of a step, of costly options and of all steps, and how to shorten it.

        Args:
            steps: number of steps.
            is_budget: whether the number was chosen for a time budget.
        """
        options = "".join(f"; {name} takes {s:.2g} s of it" for name, s in self.option_s.items())
        total_s = steps * self.step_s
        text = f"step {self.step_s:.2g} s{options}; {steps} steps: {_format_time(total_s)}."
        remedies = [f"{name} = false in [train] of the recipe" for name in self.option_s]
        if not is_budget and total_s > 60 * SHORT_MINUTES:
            remedies.insert(0, f"--minutes {SHORT_MINUTES}")
        return f"{text} Shorter: {', or '.join(remedies)}." if remedies and not is_budget else text


def measure_step_time(setup: TrainingSetup, device: str, *, with_options: bool) -> StepTime:
    """Time a few steps of a training, and of the same training without each costly option.

    Trains copies, so the training itself does not change.

    Args:
        setup: the training.
        device: ``cpu``, ``cuda`` or ``cuda:i``.
        with_options: time options, in a few seconds; options for which these do not suffice are left out.

    Raises:
        InputError: if an image cannot be read.
        UsageError, BackendError: if the device is invalid, missing or out of memory.
    """
    card = setup.make_card()
    step_s = _time_steps(setup, card, device)
    option_s = {}
    end_s = time.perf_counter() + _OPTIONS_S
    options = COSTLY_OPTIONS if with_options else ()
    for name in options:
        if name in _HEADS and setup.initial_weights is not None:
            continue  # initial weights fix the heads
        steps_left = (end_s - time.perf_counter()) / step_s
        if getattr(setup.config, name) and steps_left > _WARM_UP_STEPS + 1:
            cost_s = step_s - _time_steps(_drop_option(setup, name), card, device)
            if cost_s >= MIN_OPTION_SHARE * step_s:
                option_s[name] = cost_s
    release_memory()
    return StepTime(step_s, option_s)


def count_steps(budget_s: float, step_s: float) -> int:
    """Return the number of steps for a time budget, at least 1."""
    return max(1, int(budget_s / step_s))


def set_steps(config: TrainConfig, steps: int) -> TrainConfig:
    """Return the settings with a number of steps.

    The change of the mix keeps its share of the training if it gets shorter, and its length if it gets longer.
    """
    share = min(1.0, steps / config.steps)
    return replace(
        config,
        steps=steps,
        mix_steps=max(1, round(share * config.mix_steps)) if config.mix_steps else 0,
    )


def _time_steps(setup: TrainingSetup, card: DetectorCard, device: str) -> float:
    """Return the median time of a step in seconds, without those of the warm-up."""
    task_type = TorchvisionTask if setup.config.is_torchvision else NativeTask
    task = task_type(setup, card, find_device(device))
    times_s: list[float] = []
    start_s = time.perf_counter()
    for step, batch in enumerate(task.iterate_batches(range(_WARM_UP_STEPS + _TIMED_STEPS))):
        losses = task.train_step(step, batch)
        float(losses["total"])  # waits for a GPU
        now_s = time.perf_counter()
        if step >= _WARM_UP_STEPS:
            times_s.append(now_s - start_s)
        start_s = now_s
        if sum(times_s) > _TIMED_S:
            break
    return statistics.median(times_s)


def _drop_option(setup: TrainingSetup, name: str) -> TrainingSetup:
    tasks = replace(setup.tasks, masks=False) if name == "masks" else setup.tasks
    change: dict[str, Any] = {name: False}
    return replace(setup, config=replace(setup.config, **change), tasks=tasks)


def _format_time(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
