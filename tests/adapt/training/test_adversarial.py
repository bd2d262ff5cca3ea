"""The loop with a game that is planted: which weights it ships, and what it says."""

import json
from dataclasses import asdict

import numpy as np
import pytest
import torch

from sim2cam.adapt.certificate.limits import CertificateLimits
from sim2cam.adapt.training.adversarial import LOG_INTERVAL_STEPS, read_metrics, train_adversarial
from sim2cam.adapt.training.candidates import CheckpointSelector
from sim2cam.adapt.training.checkpoint_selection import split_held_out
from sim2cam.adapt.translation import NO_VERIFIERS, Verification
from sim2cam.errors import CheckpointError
from sim2cam.learn.checkpoint import load_checkpoint
from sim2cam.learn.run_folder import CHECKPOINT, METRICS

STEPS = 400
IDENTITY = {"game": 1, "certificate": {"limits": asdict(CertificateLimits()), "verifiers": {}}}
DIGESTS = {"sim": {"0": "a"}, "real": {"0": "b"}}
SCALARS = {"mean_change": 0.05, "discriminator": 1.2}


class KilledError(Exception):
    pass


class Script:
    """A game whose translations at a step are those of a script; its weights say the step."""

    chance_loss = ("discriminator", 2.0)

    def __init__(self, script, scalars=lambda _step: SCALARS):
        self.script = script
        self.scalars = scalars
        self.step = 0

    def train_step(self, step):
        self.step = step + 1
        return {name: torch.tensor(value) for name, value in self.scalars(step).items()}

    def get_state(self):
        return {"game": {"step": torch.tensor(self.step)}}

    def load_state(self, groups):
        assert groups.keys() == {"game"}
        self.step = int(groups["game"]["step"])

    def get_weights(self):
        return {"step": torch.tensor(float(self.step))}

    def build_transfer(self):
        return self

    def apply(self, frame, _rng):
        rgb = frame.rgb.astype(np.float64) + self.script[self.step]
        if self.step == STEPS:
            rgb = np.roll(rgb, 4, axis=1)
        return rgb.round().clip(0, 255).astype(np.uint8)


CLOSER = np.array([60.0, 35.0, 10.0])
SABOTEUR_AT_LAST = {100: 0.3 * CLOSER, 200: 0.8 * CLOSER, 300: 0.5 * CLOSER, 400: 0.9 * CLOSER}


@pytest.fixture(scope="module")
def parts(many_sim, many_real):
    found = split_held_out(
        many_sim,
        many_real,
        steps=STEPS,
        pixels=65536,
        log_interval_steps=LOG_INTERVAL_STEPS,
        verifier_count=0,
    )
    assert found.candidate_steps == (100, 200, 300, 400)
    return found


def played(run, parts, *, script=SABOTEUR_AT_LAST, jury=NO_VERIFIERS, resume=False, **flags):
    game = Script(script, **{k: v for k, v in flags.items() if k == "scalars"})
    return train_adversarial(
        game, {"game": 1}, DIGESTS, STEPS, run, CheckpointSelector(parts, jury, 0), hint="Do", resume=resume,
        progress=flags.get("progress"), checkpoint_s=flags.get("checkpoint_s", 1e9),
    )  # fmt: skip


def kill_at(step):
    def kill(line):
        if line.step == step:
            raise KilledError

    return kill


def test_the_best_ships_and_not_the_last(parts, tmp_path):
    """The last one is nearest and moves objects; the one before is further away than the second."""
    ended = played(tmp_path, parts)
    assert float(ended.weights["step"]) == 200
    selection = ended.outcome.selection
    assert selection.step == 200
    assert [c.step for c in selection.candidates] == [100, 200, 300, 400]
    assert [c.accepted for c in selection.candidates] == [10, 10, 10, 0]
    near = [c.distance for c in selection.candidates]
    assert near[3] < near[1] < near[2] < near[0] < selection.source_distance
    assert ended.outcome.warnings == ()


def test_the_record_says_what_was_judged(parts, tmp_path):
    ended = played(tmp_path, parts)
    judged = {
        line.step: line.scalars
        for line in read_metrics(tmp_path)
        if "held_out_distance" in line.scalars
    }
    assert sorted(judged) == [100, 200, 300, 400]
    for candidate in ended.outcome.selection.candidates:
        scalars = judged[candidate.step]
        assert scalars["held_out_distance"] == candidate.distance
        assert scalars["held_out_accepted"] == candidate.accepted / 10


@pytest.mark.parametrize("step", [90, 200, 310, 400])
def test_killed_and_resumed_it_chooses_the_same(parts, tmp_path, step):
    whole = played(tmp_path / "whole", parts)
    with pytest.raises(KilledError):
        played(tmp_path / "cut", parts, progress=kill_at(step), checkpoint_s=0.0)
    resumed = played(tmp_path / "cut", parts, resume=True)
    assert resumed.outcome == whole.outcome
    assert torch.equal(resumed.weights["step"], whole.weights["step"])
    files = [(tmp_path / name / CHECKPOINT).read_bytes() for name in ("whole", "cut")]
    assert files[0] == files[1]
    records = [read_metrics(tmp_path / name) for name in ("whole", "cut")]
    assert [(line.scalars, line.warnings) for line in records[0]] == [
        (line.scalars, line.warnings) for line in records[1]
    ]


RANDOM = np.random.default_rng(11).integers(1, STEPS, 2).tolist()


@pytest.mark.parametrize("step", [*RANDOM, 200])
def test_interrupted_amid_a_step_it_goes_on_from_before_it(parts, tmp_path, monkeypatch, step):
    """Lines of the record are means over ten steps, of which some lie before and some after it."""
    monkeypatch.setattr("sim2cam.learn.checkpoint._SNAPSHOT_INTERVAL_S", 0.0)

    def scalars(at):
        return SCALARS | {"discriminator": 1 + np.sin(at)}

    def interrupting(at):
        if at == step:
            raise KeyboardInterrupt
        return scalars(at)

    whole = played(tmp_path / "whole", parts, scalars=scalars)
    with pytest.raises(KeyboardInterrupt):
        played(tmp_path / "cut", parts, scalars=interrupting)
    assert load_checkpoint(tmp_path / "cut" / CHECKPOINT, IDENTITY).step == step
    assert played(tmp_path / "cut", parts, scalars=scalars, resume=True) == whole
    files = [(tmp_path / name / CHECKPOINT).read_bytes() for name in ("whole", "cut")]
    assert files[0] == files[1]
    records = [read_metrics(tmp_path / name) for name in ("whole", "cut")]
    assert [(line.scalars, line.warnings) for line in records[0]] == [
        (line.scalars, line.warnings) for line in records[1]
    ]


def test_interrupted_while_a_candidate_is_judged_it_is_judged_once(parts, tmp_path, monkeypatch):
    monkeypatch.setattr("sim2cam.learn.checkpoint._SNAPSHOT_INTERVAL_S", 0.0)
    whole = played(tmp_path / "whole", parts)
    for moment in (
        "candidates.CheckpointSelector.evaluate",
        "adversarial._write_sample_images",
    ):  # before it is known, and after
        run = tmp_path / moment
        with monkeypatch.context() as patch:
            patch.setattr(f"sim2cam.adapt.training.{moment}", interrupt_at(200))
            with pytest.raises(KeyboardInterrupt):
                played(run, parts)
        assert load_checkpoint(run / CHECKPOINT, IDENTITY).step == 199
        assert played(run, parts, resume=True).outcome == whole.outcome


def interrupt_at(step):
    def interrupt(*given):
        if step in given:
            raise KeyboardInterrupt
        return judge(*given) if isinstance(given[0], CheckpointSelector) else None

    judge = CheckpointSelector.evaluate
    return interrupt


def test_curves_that_are_gone_do_not_change_what_ships(parts, tmp_path):
    whole = played(tmp_path / "whole", parts)
    with pytest.raises(KilledError):
        played(tmp_path / "cut", parts, progress=kill_at(310), checkpoint_s=0.0)
    (tmp_path / "cut" / METRICS).unlink()
    assert played(tmp_path / "cut", parts, resume=True).outcome == whole.outcome


def test_other_limits_or_judges_do_not_go_on(parts, tmp_path):
    played(tmp_path, parts)
    other = Verification(CertificateLimits(grid_artefact_levels=2.0))
    message = r"certificate\.limits\.grid_artefact_levels was 0\.5 and is now 2\.0"
    with pytest.raises(CheckpointError, match=message):
        played(tmp_path, parts, jury=other, resume=True)
    judged = Verification(CertificateLimits(), {"task": lambda _rgb: []}, {"task": "abc"})
    with pytest.raises(CheckpointError, match=r"certificate\.verifiers\.task was None and is now"):
        played(tmp_path, parts, jury=judged, resume=True)


def test_without_anything_kept_aside_the_last_ship_and_it_says_so(many_sim, many_real, tmp_path):
    few = split_held_out(
        many_sim, many_real.take(29), steps=STEPS, pixels=65536, log_interval_steps=LOG_INTERVAL_STEPS, verifier_count=0
    )  # fmt: skip
    ended = played(tmp_path, few)
    assert float(ended.weights["step"]) == STEPS
    assert ended.outcome.selection.step == STEPS
    assert ended.outcome.selection.reason == (
        "the last weights, as nothing is held out: 29 real images are fewer than 30"
    )
    played(
        tmp_path, few, jury=Verification(CertificateLimits(grid_artefact_levels=2.0)), resume=True
    )  # they decide nothing


def test_a_translation_that_brings_nothing_nearer_is_told(parts, tmp_path):
    away = dict.fromkeys((100, 200, 300, 400), -0.2 * CLOSER)
    (warning,) = played(tmp_path, parts, script=away).outcome.warnings
    assert warning == (
        "the selected weights bring renders no nearer to the held-out real images. Train with more --steps, or "
        "use the renders without translation."
    )


def test_warnings_are_of_late_steps_and_stand_in_the_record(parts, tmp_path):
    """A discriminator that wins at the end; one that starts surely is no news."""

    def scalars(step):
        return SCALARS | {"discriminator": 0.01 if step < 90 or step >= 340 else 1.0}

    ended = played(tmp_path, parts, scalars=scalars)
    assert len(ended.outcome.warnings) == 1
    assert "the discriminator dominates" in ended.outcome.warnings[0]
    warned = {line.step for line in read_metrics(tmp_path) if line.warnings}
    assert warned <= set(range(350, 401))
    assert STEPS in warned
    lines = (tmp_path / METRICS).read_text().splitlines()
    assert json.loads(lines[-1])["warnings"] == list(ended.outcome.warnings)
