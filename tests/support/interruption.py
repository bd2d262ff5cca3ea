"""Trainings that are killed and resumed."""

import pytest

from sim2cam.learn.trainer import Callbacks


class KilledError(Exception):
    """Stands for a process that is gone."""


def kill_at(step):
    """A progress callback that ends the training at a step."""

    def progress(line):
        if line.step == step:
            raise KilledError

    return progress


def assert_resumes_exactly(train, root, step=2):
    """Train once, and once more with a crash at a step: all files of both must be equal."""
    finished = train(root / "whole")
    with pytest.raises(KilledError):
        train(root / "cut", callbacks=Callbacks(log=kill_at(step)), checkpoint_interval_s=0)
    train(root / "cut", resume=True)
    for name in ("weights.safetensors", "weights.json", "checkpoint.safetensors"):
        assert (root / "whole" / name).read_bytes() == (root / "cut" / name).read_bytes(), name
    return finished
