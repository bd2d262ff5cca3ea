from dataclasses import dataclass

import pytest
import torch

from sim2cam.errors import CheckpointError, InputError, OutputError
from sim2cam.learn.checkpoint import Checkpoint, save_checkpoint
from sim2cam.learn.run_folder import (
    CHECKPOINT,
    METRICS,
    RUN_FILES,
    WEIGHTS,
    MetricsLog,
    clear_run_folder,
    open_run,
    read_metrics_log,
)


@dataclass(frozen=True)
class Moment:
    step: int
    losses: dict[str, float]


def moments(*steps):
    return tuple(Moment(step, {"total": 0.5}) for step in steps)


def record(run_dir, *steps):
    run_dir.mkdir(exist_ok=True)
    for line in moments(*steps):
        MetricsLog(run_dir, "Lower learning_rate").write(line)


def test_means_are_those_since_the_last_ones(tmp_path):
    measured = MetricsLog(tmp_path, "Lower learning_rate")
    measured.add({"heat": torch.tensor(1.0), "box": torch.tensor(4.0)})
    measured.add({"heat": torch.tensor(2.0)}, wait_s=4.0)
    means, step_s, wait_s = measured.take_means(2)
    assert means == {"heat": 1.5, "box": 4.0}
    assert step_s > 0
    assert wait_s == 2.0
    measured.add({"heat": torch.tensor(7.0)})
    assert measured.take_means(3)[0] == {"heat": 7.0}


def test_a_line_that_was_begun_is_gone_on_with(tmp_path):
    whole, cut, resumed = (MetricsLog(tmp_path, "Lower it") for _ in range(3))
    for number in range(12):  # past 9, which sorts after 10
        scalars = {"a/b": torch.tensor(0.1 * number)} | (
            {"c": torch.tensor(2.0)} if number == 1 else {}
        )
        whole.add(scalars)
        (cut if number < 11 else resumed).add(scalars)
        if number == 10:
            resumed.resume(cut.pending)
    assert resumed.take_means(12)[0] == whole.take_means(12)[0]
    assert resumed.pending == {}


def test_a_record_comes_back_without_the_line_that_a_crash_cut(tmp_path):
    assert read_metrics_log(tmp_path / "elsewhere", Moment) == ()
    record(tmp_path, 1, 2)
    with (tmp_path / METRICS).open("ab") as file:
        file.write('{"step": 3, "unit": "\u00b5'.encode()[:-1])
    assert read_metrics_log(tmp_path, Moment) == moments(1, 2)


@pytest.mark.parametrize("text", ["no\n", "[1]\n", '{"step": 1}\n'])
def test_another_record_is_refused(tmp_path, text):
    path = tmp_path / METRICS
    path.write_text(text)
    for read in (read_metrics_log, lambda *given: open_run(given[0], {}, given[1], resume=True)):
        with pytest.raises(InputError) as caught:
            read(tmp_path, Moment)
        assert str(caught.value).startswith(f"{path}: not a metrics log of this kind of training (")
        assert str(caught.value).endswith("run with --resume; only earlier curves are lost.")
    assert path.read_text() == text


def test_the_record_ends_where_the_checkpoint_does(tmp_path):
    record(tmp_path, 1, 2, 3)
    save_checkpoint(tmp_path / CHECKPOINT, Checkpoint(2, {"seed": 0}, {}))
    checkpoint, lines = open_run(tmp_path, {"seed": 0}, Moment, resume=True)
    assert checkpoint.step == 2
    assert tuple(lines) == read_metrics_log(tmp_path, Moment) == moments(1, 2)
    with pytest.raises(CheckpointError, match="seed was 0 and is now 1"):
        open_run(tmp_path, {"seed": 1}, Moment, resume=True)


@pytest.mark.parametrize("resume", [False, True])
def test_without_a_checkpoint_it_starts(tmp_path, resume):
    record(tmp_path, 1)
    assert open_run(tmp_path, {}, Moment, resume=resume) == (None, [])
    assert read_metrics_log(tmp_path, Moment) == ()
    assert open_run(tmp_path / "new", {}, Moment, resume=resume) == (None, [])


@pytest.mark.parametrize("name", [CHECKPOINT, WEIGHTS])
def test_a_training_is_not_overwritten(tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(OutputError) as caught:
        open_run(tmp_path, {}, Moment, resume=False)
    assert str(caught.value) == (
        f"{tmp_path}: contains a training. Continue with --resume, replace it with --overwrite, or choose another --out."
    )
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [(name, "mine")]


def test_only_a_training_is_removed(tmp_path):
    clear_run_folder(tmp_path / "elsewhere")
    for name in RUN_FILES:
        (tmp_path / name).touch()
    (tmp_path / f"{WEIGHTS}.part").touch()
    (tmp_path / "notes.txt").touch()
    with pytest.raises(
        OutputError, match=r"contains 'notes\.txt', which is not part of a training"
    ):
        clear_run_folder(tmp_path)
    assert len(list(tmp_path.iterdir())) == len(RUN_FILES) + 2
    (tmp_path / "notes.txt").unlink()
    clear_run_folder(tmp_path)
    assert not any(tmp_path.iterdir())
