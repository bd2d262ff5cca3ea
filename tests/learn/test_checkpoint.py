import json
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from sim2cam.errors import CheckpointError, DivergenceError, OutputError
from sim2cam.learn.checkpoint import (
    Checkpoint,
    collect_optimizer_state,
    load_checkpoint,
    open_checkpointer,
    restore_optimizer,
    save_checkpoint,
)

IDENTITY = {"config": {"steps": 5, "range": (0.5, 2.0)}, "data": {"part 1": "abc"}}


def test_comes_back_whole(tmp_path):
    path = tmp_path / "run" / "checkpoint.safetensors"
    tensors = {"w": torch.randn(3, 4).T, "n": torch.tensor(7), "h": torch.ones(2).half()}
    facts = {"candidates": [{"step": 1, "distance": 0.1 + 0.2}], "a": 1}
    save_checkpoint(path, Checkpoint(3, IDENTITY, tensors, facts))
    loaded = load_checkpoint(path, IDENTITY)
    assert (loaded.step, list(loaded.extra_state.items())) == (3, list(facts.items()))
    assert list(loaded.tensors) == ["w", "n", "h"]
    assert all(torch.equal(loaded.tensors[n], v) for n, v in tensors.items())
    assert [p.name for p in path.parent.iterdir()] == ["checkpoint.safetensors"]


def test_tensors_that_share_memory_are_stored(tmp_path):
    one = torch.ones(4)
    with open_checkpointer(tmp_path / "c", 1e9) as keeper:
        keeper.update(lambda: Checkpoint(0, {}, {"a": one, "b": one[:2]}), is_last=True)
    assert load_checkpoint(tmp_path / "c", {}).tensors["b"].shape == (2,)


def test_other_trainings_are_refused_by_name(tmp_path):
    path = tmp_path / "c"
    save_checkpoint(path, Checkpoint(3, IDENTITY, {}))
    other = {"config": {"steps": 5, "range": (0.5, 1.0)}, "data": {"part 1": "abc"}}
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(path, other)
    assert str(caught.value) == (
        f"{path}: belongs to another training: config.range was [0.5, 2.0] and is now [0.5, 1.0]. "
        "Restore the old value, or run with --overwrite to start again."
    )
    with pytest.raises(CheckpointError, match=r"data\.part 2 was None and is now 'd'"):
        load_checkpoint(path, IDENTITY | {"data": {"part 1": "abc", "part 2": "d"}})


def test_broken_files_are_refused(tmp_path):
    path = tmp_path / "c"
    with pytest.raises(CheckpointError, match=r"no such checkpoint. Run without --resume"):
        load_checkpoint(path, {})
    save_checkpoint(path, Checkpoint(3, {}, {"w": torch.zeros(100)}))
    whole = path.read_bytes()
    headless = json.dumps({"w": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}).encode()
    for broken in (whole[:-1], whole[:40], b"", len(headless).to_bytes(8, "little") + headless):
        path.write_bytes(broken)
        with pytest.raises(CheckpointError, match=r"damaged checkpoint .* Run with --overwrite"):
            load_checkpoint(path, {})


def test_a_failed_write_keeps_the_last_one(tmp_path, monkeypatch):
    path = tmp_path / "c"
    save_checkpoint(path, Checkpoint(1, {}, {"w": torch.zeros(2)}))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OutputError, match="No space left on device"):
        save_checkpoint(path, Checkpoint(2, {}, {"w": torch.ones(2)}))
    assert load_checkpoint(path, {}).step == 1
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def test_a_restored_optimizer_takes_the_same_next_step():
    def net():
        made = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))
        made.to(memory_format=torch.channels_last)
        return made, torch.optim.AdamW(made.parameters(), lr=0.1, fused=True)

    def step(network, optimizer, seed):
        x = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(seed))
        network(x).pow(3).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    first, its = net()
    step(first, its, 0)
    second, other = net()
    second.load_state_dict(first.state_dict())
    restore_optimizer(second, other, collect_optimizer_state(first, its))
    step(first, its, 1)
    step(second, other, 1)
    for name, value in first.state_dict().items():
        assert torch.equal(value, second.state_dict()[name]), name


class Training:
    """One whose weights are the number of its steps, changed in their place."""

    def __init__(self, keeper, error, *, steps=4, breaks_at=None):
        self.weights, self.step = torch.zeros(2), 0
        while self.step < steps:
            self.weights += 1
            if breaks_at == self.step:
                self.weights[1] = float("nan")
            self.step += 1
            keeper.update(self.state, is_last=False)
        self.weights[0] += 1  # the next step is half done
        raise error

    def state(self):
        return Checkpoint(self.step, {}, {"w": self.weights})


@pytest.fixture
def every_step(monkeypatch):
    monkeypatch.setattr("sim2cam.learn.checkpoint._SNAPSHOT_INTERVAL_S", 0.0)


@pytest.mark.usefixtures("every_step")
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(), torch.OutOfMemoryError()])
def test_whatever_ends_a_training_its_last_whole_state_is_written(tmp_path, error):
    with pytest.raises(type(error)), open_checkpointer(tmp_path / "c", 1e9) as keeper:
        Training(keeper, error)
    found = load_checkpoint(tmp_path / "c", {})
    assert (found.step, found.tensors["w"].tolist()) == (4, [4.0, 4.0])


@pytest.mark.usefixtures("every_step")
def test_of_numbers_that_are_not_finite_nothing_is_written(tmp_path):
    save_checkpoint(tmp_path / "c", Checkpoint(1, {}, {"w": torch.ones(2)}))
    for every_s, breaks_at, error in ((1e9, 2, KeyboardInterrupt()), (0.0, 0, KeyboardInterrupt()),
                                      (1e9, None, DivergenceError("no longer finite", 5))):  # fmt: skip
        with pytest.raises(type(error)), open_checkpointer(tmp_path / "c", every_s) as keeper:
            Training(keeper, error, breaks_at=breaks_at)
        assert load_checkpoint(tmp_path / "c", {}).step == 1


@pytest.mark.usefixtures("every_step")
def test_where_nothing_can_be_written_the_first_error_is_told(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(KeyboardInterrupt),
        open_checkpointer(tmp_path / "file" / "c", 1e9) as keeper,
    ):
        Training(keeper, KeyboardInterrupt())


def test_states_are_copied_now_and_then_and_the_last_is_written(tmp_path, monkeypatch):
    """Of steps that take half a second each, every second, and every sixth of these is written."""
    clock, copied, written = [0.0], [], []
    passing = SimpleNamespace(monotonic=lambda: clock[0])
    monkeypatch.setattr("sim2cam.learn.checkpoint.time", passing)
    monkeypatch.setattr(
        "sim2cam.learn.checkpoint.save_checkpoint", lambda _, c: written.append(c.step)
    )

    def state():
        copied.append(2 * clock[0])
        return Checkpoint(int(copied[-1]), {}, {})

    with open_checkpointer(tmp_path / "c", 6.0) as keeper:
        for step in range(1, 28):
            clock[0] = step / 2
            keeper.update(state, is_last=step == 27)
    assert copied == [*range(2, 27, 2), 27]
    assert written == [12, 24, 27]
