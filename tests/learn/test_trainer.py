"""The trainer with a small task: bit-exact resume, early stopping, errors."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from sim2cam.errors import BackendError, CheckpointError, DivergenceError, InputError, OutputError
from sim2cam.learn.ema import ExponentialMovingAverage
from sim2cam.learn.run_folder import BATCH_FILE, CHECKPOINT, METRICS, WEIGHTS, read_metrics_log
from sim2cam.learn.trainer import NO_CALLBACKS, Callbacks, Task, Trainable, train

STEPS = 7


@dataclass(frozen=True)
class Line:
    step: int
    losses: dict[str, float]
    step_s: float


@dataclass(frozen=True)
class Batch:
    inputs: np.ndarray
    parts: tuple[torch.Tensor, str]


class Regression(Task):
    """Two networks with one optimizer; the best weights are those of the lowest planned score."""

    steps, remedy = STEPS, "Lower the learning rate"

    def __init__(self, scores=(), fail=None):
        rng = torch.Generator().manual_seed(0)
        modules = [nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), nn.Linear(3, 1)]
        for parameter in (p for module in modules for p in module.parameters()):
            nn.init.normal_(parameter, generator=rng)
        optimizer = torch.optim.AdamW([p for m in modules for p in m.parameters()], 0.1)
        self.average = ExponentialMovingAverage(modules[0], 0.9)
        self.networks = {
            "body": Trainable(modules[0], optimizer, self.average),
            "head": Trainable(modules[1], optimizer),
        }
        self.scores, self.fail, self.evaluations = scores, fail, []

    def make_batch(self, step):
        inputs = np.random.default_rng(step).normal(size=(4, 3)).astype(np.float32)
        return Batch(inputs, (torch.tensor([step]), "name"))

    def train_step(self, step, batch):
        (body, optimizer), head = (
            (self.networks["body"].network, self.networks["body"].optimizer),
            self.networks["head"].network,
        )
        optimizer.zero_grad()
        loss = head(body(torch.from_numpy(batch.inputs))).square().mean()
        loss.backward()
        optimizer.step()
        if self.fail is not None and self.fail[0] == step:
            if isinstance(self.fail[1], BaseException):
                raise self.fail[1]
            loss = loss * self.fail[1]
        self.average.update(body, step)
        return {"loss": loss.detach()}

    def evaluate(self, step):
        if not self.scores:
            return {}
        self.evaluations.append(self.scores[step - 1])
        if min(self.evaluations) == self.evaluations[-1]:
            self.best_weights = {n: v.clone() for n, v in self.average.state.items()}
        return {"score": self.evaluations[-1]}

    def dump_evaluations(self):
        return self.evaluations

    def load_evaluations(self, values):
        self.evaluations = values

    @property
    def should_stop(self):
        return self.evaluations[-1:] == [9.0]

    def make_line(self, step, means, step_s, wait_s):
        assert 0 <= wait_s <= step_s
        return Line(step, means, step_s)

    def compute_weights(self):
        return self.best_weights or self.average.state

    def save(self, path, weights, step):
        path.write_bytes(b"".join(v.numpy().tobytes() for v in weights.values()) + bytes([step]))


def run(run_dir, *, resume=False, identity=None, callbacks=NO_CALLBACKS, interval_s=1e9, **task):
    return train(
        lambda _device: Regression(**task), identity or {"seed": 0}, Line, run_dir, device="cpu",
        resume=resume, callbacks=callbacks, checkpoint_interval_s=interval_s, log_interval_steps=3,
    )  # fmt: skip


def read_run(run_dir):
    lines = [replace(line, step_s=0.0) for line in read_metrics_log(run_dir, Line)]
    return *((run_dir / name).read_bytes() for name in (WEIGHTS, CHECKPOINT)), lines


@pytest.mark.parametrize("scores", [(), (3.0, 1.0, 2.0, 5.0, 2.0, 4.0, 3.0)])
@pytest.mark.parametrize("step", range(STEPS))
def test_interrupted_and_resumed_equals_uninterrupted(tmp_path, monkeypatch, scores, step):
    """The weights of the step are partly updated already."""
    monkeypatch.setattr("sim2cam.learn.checkpoint._SNAPSHOT_INTERVAL_S", 0.0)
    run(tmp_path / "whole", scores=scores)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", scores=scores, fail=(step, KeyboardInterrupt()))
    run(tmp_path / "cut", scores=scores, resume=True)
    assert read_run(tmp_path / "cut") == read_run(tmp_path / "whole")
    lines = read_run(tmp_path / "whole")[2]
    assert [line.step for line in lines] == [3, 6, 7]
    assert ["score" in line.losses for line in lines] == [bool(scores)] * 3


def test_a_finished_training_resumes_to_itself(tmp_path):
    run(tmp_path)
    before = read_run(tmp_path)
    run(tmp_path, resume=True, callbacks=Callbacks(log=pytest.fail))
    assert read_run(tmp_path) == before


def test_stops_early_and_keeps_the_best_weights(tmp_path):
    run(tmp_path / "stopped", scores=(3.0, 1.0, 2.0, 9.0))
    assert [line.step for line in read_run(tmp_path / "stopped")[2]] == [3, 4]
    before = read_run(tmp_path / "stopped")
    run(tmp_path / "stopped", scores=(), resume=True, callbacks=Callbacks(log=pytest.fail))
    assert read_run(tmp_path / "stopped") == before
    run(tmp_path / "best", scores=(3.0, 9.0))
    assert before[0] != read_run(tmp_path / "best")[0]


@pytest.mark.parametrize("factor", [float("nan"), float("inf")])
def test_divergence_keeps_the_batch_and_writes_no_checkpoint(tmp_path, factor):
    with pytest.raises(DivergenceError) as caught:
        run(tmp_path, fail=(1, factor))
    assert caught.value.step == 2
    message = str(caught.value)
    assert "not finite at step 2 (" in message
    assert "Lower the learning rate, then train again with --overwrite." in message
    assert message.endswith(f"The batch of that step is in {tmp_path / BATCH_FILE}.")
    batch, kept = Regression().make_batch(1), load_file(tmp_path / BATCH_FILE)
    assert kept.keys() == {"inputs", "parts/0"}
    assert np.array_equal(kept["inputs"].numpy(), batch.inputs)
    assert not (tmp_path / CHECKPOINT).exists()


def test_errors_name_a_remedy(tmp_path, full_record):
    with pytest.raises(BackendError, match="memory is full"):
        run(tmp_path / "memory", fail=(1, MemoryError()))
    with pytest.raises(InputError) as caught:
        run(tmp_path / "image", fail=(1, InputError("a.jpg", "damaged image.")))
    assert str(caught.value) == (
        "a.jpg: damaged image. Restore the file and continue with --resume; progress so far is kept."
    )
    with pytest.raises(OutputError, match=r"^a: full$"):
        run(tmp_path / "output", fail=(1, OutputError("a", "full")))
    with full_record(), pytest.raises(OutputError, match=r"No space left on device.*--resume"):
        run(tmp_path / "disk")
    run(tmp_path / "disk", resume=True)
    with pytest.raises(OutputError, match="contains a training"):
        run(tmp_path / "disk")
    with pytest.raises(CheckpointError, match="seed was 0 and is now 1"):
        run(tmp_path / "disk", resume=True, identity={"seed": 1})
    (tmp_path / "disk" / METRICS).unlink()
    run(tmp_path / "disk", resume=True)
