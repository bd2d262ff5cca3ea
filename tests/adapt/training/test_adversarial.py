"""Training of a planted model: which weights it ships, and what it reports."""

import json
from dataclasses import asdict

import numpy as np
import pytest
import torch

from sim2cam.adapt.certificate.limits import CertificateLimits
from sim2cam.adapt.training.adversarial import AdversarialTask, read_metrics, train_adversarial
from sim2cam.adapt.training.candidates import CheckpointSelector
from sim2cam.adapt.training.checkpoint_selection import split_held_out
from sim2cam.adapt.translation import NO_VERIFIERS, Verification
from sim2cam.errors import CheckpointError
from sim2cam.learn.checkpoint import load_checkpoint
from sim2cam.learn.run_folder import CHECKPOINT, METRICS
from sim2cam.learn.trainer import NO_CALLBACKS, Callbacks, Trainable

STEPS = 400
IDENTITY = {"model": 1, "certificate": {"limits": asdict(CertificateLimits()), "verifiers": {}}}
SCALARS = {"mean_change": 0.05, "discriminator": 1.2}
CLOSER = np.array([60.0, 35.0, 10.0])


class KilledError(Exception):
    pass


class Planted(torch.nn.Module):
    """A model whose weights are the step, and whose translations shift colours by a table.

    The last one is nearest and moves objects.
    """

    chance_loss = ("discriminator", 2.0)
    remedy = "Do"

    def __init__(self, shifts, scalars):
        super().__init__()
        self.shifts, self.scalars = shifts, scalars
        self.register_buffer("step", torch.tensor(0.0))
        self.networks = {"model": Trainable(self)}

    def make_batch(self, step):
        return step

    def train_step(self, step, batch):
        assert batch == step
        self.step.fill_(step + 1)
        return {name: torch.tensor(value) for name, value in self.scalars(step).items()}

    def get_weights(self):
        return self.state_dict()

    def build_transfer(self):
        return self

    def apply(self, frame, _rng):
        rgb = frame.rgb.astype(np.float64) + self.shifts[int(self.step)]
        if self.step == STEPS:
            rgb = np.roll(rgb, 4, axis=1)
        return rgb.round().clip(0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def split(many_sim, many_real):
    split = split_held_out(many_sim, many_real, STEPS)
    assert split.candidate_steps == (100, 200, 300, 400)
    return split


SHIFTS = {100: 0.3 * CLOSER, 200: 0.8 * CLOSER, 300: 0.5 * CLOSER, 400: 0.9 * CLOSER}


def train(run, split, *, shifts=SHIFTS, scalars=lambda _: SCALARS, verification=NO_VERIFIERS,
          resume=False, callbacks=NO_CALLBACKS, checkpoint_s=1e9):  # fmt: skip
    """Train and return the step whose weights ship, and the outcome."""
    saved = []
    train_adversarial(
        lambda _device: Planted(shifts, scalars), {"model": 1}, STEPS, run,
        CheckpointSelector(split, verification, 0),
        lambda _path, weights, outcome: saved.append((float(weights["step"]), outcome)),
        resume=resume, device="cpu", callbacks=callbacks, checkpoint_s=checkpoint_s,
    )  # fmt: skip
    return saved[0]


def assert_same_runs(run, other):
    assert (run / CHECKPOINT).read_bytes() == (other / CHECKPOINT).read_bytes()
    ours, theirs = (
        [(line.scalars, line.warnings) for line in read_metrics(r)] for r in (run, other)
    )
    assert ours == theirs


@pytest.fixture(scope="module")
def whole(split, tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "whole"
    return run, train(run, split)


def test_the_best_ships_and_not_the_last_and_the_log_has_all_scores(whole):
    """The last candidate violates the certificate; the one before is further away than the second."""
    run, (step, outcome) = whole
    selection = outcome.selection
    assert step == selection.step == 200
    assert [c.step for c in selection.candidates] == [100, 200, 300, 400]
    assert [c.accepted for c in selection.candidates] == [10, 10, 10, 0]
    near = [c.distance for c in selection.candidates]
    assert near[3] < near[1] < near[2] < near[0] < selection.source_distance
    assert outcome.warnings == ()
    lines = {n.step: n.scalars for n in read_metrics(run) if "held_out_distance" in n.scalars}
    assert lines.keys() == {100, 200, 300, 400}
    for candidate in selection.candidates:
        assert lines[candidate.step]["held_out_distance"] == candidate.distance
        assert lines[candidate.step]["held_out_accepted"] == candidate.accepted / 10


@pytest.mark.parametrize("step", [90, 200, 310, 400])
def test_killed_and_resumed_it_chooses_the_same(whole, split, tmp_path, step):
    def kill(line):
        if line.step == step:
            raise KilledError

    with pytest.raises(KilledError):
        train(tmp_path, split, callbacks=Callbacks(log=kill), checkpoint_s=0.0)
    assert train(tmp_path, split, resume=True) == whole[1]
    assert_same_runs(whole[0], tmp_path)
    if step == 310:  # lost curves do not change what ships
        (tmp_path / METRICS).unlink()
        assert train(tmp_path, split, resume=True) == whole[1]


RANDOM = np.random.default_rng(11).integers(1, STEPS, 2).tolist()


@pytest.mark.parametrize("step", [*RANDOM, 200])
def test_interrupted_amid_a_step_it_continues_from_before_it(split, tmp_path, monkeypatch, step):
    """A line of the log is a mean over ten steps, before and after the interruption."""
    monkeypatch.setattr("sim2cam.learn.checkpoint._SNAPSHOT_INTERVAL_S", 0.0)

    def scalars(at, interrupted=None):
        if at == interrupted:
            raise KeyboardInterrupt
        return SCALARS | {"discriminator": 1 + np.sin(at)}

    outcome = train(tmp_path / "whole", split, scalars=scalars)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "cut", split, scalars=lambda at: scalars(at, step))
    assert load_checkpoint(tmp_path / "cut" / CHECKPOINT, IDENTITY).step == step
    assert train(tmp_path / "cut", split, scalars=scalars, resume=True) == outcome
    assert_same_runs(tmp_path / "whole", tmp_path / "cut")


@pytest.mark.parametrize(
    ("owner", "method"),
    [(CheckpointSelector, "evaluate"), (AdversarialTask, "_write_sample_images")],
)  # before the scores are known, and after
def test_interrupted_while_a_candidate_is_evaluated(
    whole, split, tmp_path, monkeypatch, owner, method
):
    monkeypatch.setattr("sim2cam.learn.checkpoint._SNAPSHOT_INTERVAL_S", 0.0)
    original = getattr(owner, method)

    def interrupt(self, step, *arguments):
        if step == 200:
            raise KeyboardInterrupt
        return original(self, step, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(owner, method, interrupt)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path, split)
    assert load_checkpoint(tmp_path / CHECKPOINT, IDENTITY).step == 199
    assert train(tmp_path, split, resume=True) == whole[1]


def test_other_limits_or_verifiers_do_not_resume(whole, split):
    other = Verification(CertificateLimits(grid_artefact_levels=2.0))
    message = r"certificate\.limits\.grid_artefact_levels was 0\.5 and is now 2\.0"
    with pytest.raises(CheckpointError, match=message):
        train(whole[0], split, verification=other, resume=True)
    other = Verification(CertificateLimits(), {"task": lambda _rgb: []}, {"task": "abc"})
    with pytest.raises(CheckpointError, match=r"certificate\.verifiers\.task was None and is now"):
        train(whole[0], split, verification=other, resume=True)


def test_without_held_out_images_the_last_ships(many_sim, many_real, tmp_path):
    few = split_held_out(many_sim, many_real.take(29), STEPS)
    step, outcome = train(tmp_path, few)
    assert step == outcome.selection.step == STEPS
    assert outcome.selection.reason == (
        "the last weights, as nothing is held out: 29 real images are fewer than 30"
    )
    limits = CertificateLimits(grid_artefact_levels=2.0)  # they decide nothing
    train(tmp_path, few, verification=Verification(limits), resume=True)


def test_a_translation_that_brings_nothing_nearer_is_reported(split, tmp_path):
    away = dict.fromkeys((100, 200, 300, 400), -0.2 * CLOSER)
    _, outcome = train(tmp_path, split, shifts=away)
    assert outcome.warnings == (
        "the selected weights bring renders no nearer to the held-out real images. Train with more --steps, or "
        "use the renders without translation.",
    )


def test_warnings_are_of_late_steps_and_stand_in_the_log(split, tmp_path):
    """A discriminator that dominates at the end; one that does so at the start is no news."""

    def scalars(step):
        return SCALARS | {"discriminator": 0.01 if step < 90 or step >= 340 else 1.0}

    _, outcome = train(tmp_path, split, scalars=scalars)
    (warning,) = outcome.warnings
    assert "the discriminator dominates" in warning
    warned = {line.step for line in read_metrics(tmp_path) if line.warnings}
    assert {STEPS} <= warned <= set(range(350, 401))
    last = (tmp_path / METRICS).read_text().splitlines()[-1]
    assert json.loads(last)["warnings"] == [warning]
