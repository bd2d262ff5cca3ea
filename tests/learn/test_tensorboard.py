import sys
from dataclasses import dataclass, field

import pytest

from sim2cam.errors import UsageError
from sim2cam.learn.run_folder import EVENTS_PATTERN, clear_run_folder
from sim2cam.learn.tensorboard import TensorBoardLogger


@dataclass(frozen=True)
class Moment:
    step: int
    losses: dict[str, float]
    step_s: float = 0.5
    warnings: list[str] = field(default_factory=list)


@pytest.fixture
def curves():
    """Reads TensorBoard's own way what lies in a folder: steps and values by name."""
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def read(folder):
        found = EventAccumulator(str(folder))
        found.Reload()
        return {
            name: [(event.step, event.value) for event in found.Scalars(name)]
            for name in found.Tags()["scalars"]
        }

    return read


def test_numbers_of_lines_become_curves(tmp_path, curves):
    board = TensorBoardLogger(tmp_path)
    for step in (10, 20):
        board.log(Moment(step, {"heat": 1 / step}, warnings=["slow"]))
    found = curves(tmp_path)
    assert set(found) == {"losses/heat", "step_s"}
    assert dict(found["losses/heat"]) == pytest.approx({10: 0.1, 20: 0.05})


def test_what_a_stopped_training_told_beyond_its_checkpoint_is_void(tmp_path, curves):
    first = TensorBoardLogger(tmp_path)
    for step in (10, 20, 30):
        first.log(Moment(step, {"heat": 1.0}))
    TensorBoardLogger(tmp_path).log(Moment(20, {"heat": 2.0}))
    assert curves(tmp_path)["losses/heat"] == [(10, 1.0), (20, 2.0)]


def test_its_files_go_with_the_run(tmp_path):
    (tmp_path / EVENTS_PATTERN.replace("*", "1763.host.1.0")).touch()
    clear_run_folder(tmp_path)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["torch.utils.tensorboard", "tensorboard"])
def test_without_the_extra_it_says_how_to_get_it(tmp_path, monkeypatch, name):
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError) as caught:
        TensorBoardLogger(tmp_path)
    assert str(caught.value) == (
        '--tensorboard requires an extra. Run: pip install "sim2cam[tensorboard]".'
    )
