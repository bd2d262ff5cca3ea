import json
from dataclasses import replace

import numpy as np
import pytest

from sim2cam.adapt.reference.config import ReferenceConfig
from sim2cam.adapt.reference.training import train_reference
from sim2cam.adapt.store import load_transfer
from sim2cam.adapt.training.adversarial import read_metrics
from sim2cam.adapt.training.checkpoint_selection import read_training_outcome
from sim2cam.adapt.transfers.transfer import GBufferFrame, read_frame
from sim2cam.errors import CheckpointError, UsageError
from sim2cam.learn.run_folder import CHECKPOINT, WEIGHTS
from sim2cam.learn.trainer import Callbacks

METHODS = ("cyclegan", "cut", "fastcut")


class KilledError(Exception):
    pass


def kill(_line: object) -> None:
    raise KilledError


@pytest.mark.parametrize("method", METHODS)
def test_killed_and_resumed_equals_uninterrupted_to_the_bit(
    method, many_sim, many_real, tiny, tmp_path, monkeypatch
):
    monkeypatch.setattr("sim2cam.adapt.training.checkpoint_selection.MIN_INTERVAL_STEPS", 10)
    train_reference(method, many_sim, many_real, tiny, tmp_path / "whole")
    with pytest.raises(KilledError):
        train_reference(
            method, many_sim, many_real, tiny, tmp_path / "cut", callbacks=Callbacks(log=kill), checkpoint_s=0.0
        )  # fmt: skip
    assert not (tmp_path / "cut" / WEIGHTS).exists()
    train_reference(method, many_sim, many_real, tiny, tmp_path / "cut", resume=True)
    for name in (WEIGHTS, CHECKPOINT, "weights.json"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "cut" / name).read_bytes()
    records = [read_metrics(tmp_path / name) for name in ("whole", "cut")]
    assert [line.scalars for line in records[0]] == [line.scalars for line in records[1]]
    selection = read_training_outcome(tmp_path / "whole").selection
    assert [candidate.step for candidate in selection.candidates] == [10, 20]


@pytest.mark.parametrize("method", METHODS)
def test_a_trained_one_is_a_transfer_of_any_size(method, sim, real, tiny, tmp_path):
    trained = train_reference(method, sim, real, replace(tiny, steps=1), tmp_path)
    transfer = load_transfer(tmp_path)
    rng = np.random.default_rng(0)
    for height, width in ((48, 53), (33, 30), (32, 32), (1, 1), (9, 4), (3, 40)):
        frame = GBufferFrame(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))
        found = transfer.apply(frame, rng)
        assert found.shape == frame.rgb.shape
        assert found.dtype == np.uint8
        assert np.array_equal(found, trained.apply(frame, rng))


def test_training_moves_renders_towards_the_captures(sim, real, tmp_path):
    """Captures are warm and all alike; the colours of what is made have to follow."""
    captured = np.mean([read_frame(s).rgb.mean(axis=(0, 1)) for s in real.samples], axis=0)
    frames = [read_frame(sample) for sample in sim.samples]
    far = []
    for steps in (1, 60):
        config = ReferenceConfig(steps=steps, patch_px=32, width=4, blocks=5)
        trained = train_reference("cut", sim, real, config, tmp_path / str(steps))
        made = [trained.apply(f, np.random.default_rng(0)).mean(axis=(0, 1)) for f in frames]
        far.append(np.abs(np.mean(made, axis=0) - captured).mean())
    assert far[1] < 0.85 * far[0], far


def test_another_method_or_configuration_does_not_go_on(sim, real, tiny, tmp_path):
    config = replace(tiny, steps=1)
    train_reference("cut", sim, real, config, tmp_path)
    with pytest.raises(CheckpointError, match="method was 'cut' and is now 'fastcut'"):
        train_reference("fastcut", sim, real, config, tmp_path, resume=True)
    with pytest.raises(CheckpointError, match=r"config\.width was 2 and is now 3"):
        train_reference("cut", sim, real, replace(config, width=3), tmp_path, resume=True)


def test_a_broken_card_is_told(sim, real, tiny, tmp_path):
    train_reference("cut", sim, real, replace(tiny, steps=1), tmp_path)
    path = tmp_path / "weights.json"
    card = json.loads(path.read_text())
    path.write_text(json.dumps(card | {"method": "pix2pix"}))
    with pytest.raises(CheckpointError, match="not a card of a reference translator: method"):
        load_transfer(tmp_path)
    path.write_text(json.dumps(card | {"config": card["config"] | {"blocks": 6}}))
    with pytest.raises(CheckpointError, match="of the card is missing"):
        load_transfer(tmp_path)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"patch_px": 30}, "patch_px must be a multiple of 4 and at least 32, not 30"),
        ({"patch_px": 16}, "patch_px must be a multiple of 4 and at least 32, not 16"),
        ({"blocks": 4}, "blocks must be 5 or more, not 4"),
        ({"steps": 0}, "steps must be 1 or more, not 0"),
        ({"batch": 0}, "batch must be 1 or more, not 0"),
        ({"width": 0}, "width must be 1 or more, not 0"),
        ({"seed": -1}, "seed must be 0 or more, not -1"),
    ],
)
def test_impossible_configurations_are_refused(values, message):
    with pytest.raises(UsageError) as error:
        ReferenceConfig(**values)
    assert str(error.value) == message
