"""What goes wrong while a translator is trained costs none of what was done before."""

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open

from sim2cam.adapt.training.adversarial import read_metrics
from sim2cam.adapt.translator import training
from sim2cam.adapt.translator.step import update_generator
from sim2cam.adapt.translator.training import train_translator
from sim2cam.data.real_images import read_real_images
from sim2cam.errors import BackendError, CheckpointError, InputError, OutputError
from sim2cam.files import write_bytes
from sim2cam.images import compute_digest, encode_jpeg, encode_png
from sim2cam.learn.run_folder import CHECKPOINT, WEIGHTS
from sim2cam.learn.trainer import Callbacks


@pytest.fixture
def captures(tmp_path):
    """Three sizes, two kinds of files, grey ones of 8 and 16 bits among coloured ones; 21 in all."""
    rng = np.random.default_rng(4)
    for number in range(21):
        height, width = ((24, 30), (40, 44), (90, 60))[number % 3]
        rgb = rng.normal((180, 150, 110), 12, (height, width, 3)).clip(0, 255).astype(np.uint8)
        if number < 15:
            write_bytes(tmp_path / "photos" / f"{number}.jpg", encode_jpeg(rgb, 90))
        else:
            pixels = (
                rgb if number < 17 else rgb[..., 0] if number < 19 else rgb[..., 0] * np.uint16(257)
            )
            kind = np.uint16 if number >= 19 else np.uint8
            write_bytes(tmp_path / "photos" / f"{number}.png", encode_png(pixels.astype(kind)))
    return read_real_images(tmp_path / "photos")


def test_broken_files_full_disks_and_full_gpus_lose_nothing(
    sim, captures, tiny, tmp_path, monkeypatch
):
    monkeypatch.setattr("sim2cam.adapt.training.adversarial.LOG_INTERVAL_STEPS", 2)
    config = replace(tiny, steps=8, cache_bytes=5)  # so that files are read at every step
    train_translator(sim, captures, config, tmp_path / "whole")
    run = tmp_path / "run"
    whole = {sample.rgb: sample.rgb.read_bytes() for sample in captures.samples}

    def cut_files(_line):
        for path, content in whole.items():
            path.write_bytes(content[: len(content) // 2])

    with pytest.raises(InputError, match="damaged image") as broken:
        train_translator(
            sim, captures, config, run, callbacks=Callbacks(log=cut_files), checkpoint_s=0.0
        )
    assert broken.value.path in whole
    assert str(broken.value).endswith(
        " Restore the file and continue with --resume; progress so far is kept."
    )
    assert [line.step for line in read_metrics(run)] == [2]
    for path, content in whole.items():
        path.write_bytes(content)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full_at_checkpoints)
        with pytest.raises(OutputError) as full:
            train_translator(sim, captures, config, run, resume=True, checkpoint_s=0.0)
    assert str(full.value) == (
        f"{run / CHECKPOINT}: cannot be written (No space left on device). Free some disk space, then run "
        "again with --resume."
    )

    with monkeypatch.context() as patch:
        patch.setattr(training, "update_networks", out_of_memory)
        with pytest.raises(BackendError) as told:
            train_translator(sim, captures, config, run, resume=True)
    assert str(told.value) == (
        "GPU memory is full. If other processes use it, free it and run again with --resume, which keeps "
        "finished work. Otherwise use --device cpu or, for training, set a smaller batch, more batch parts, or "
        "smaller crops or patches in the recipe and train again with --overwrite."
    )

    train_translator(sim, captures, config, run, resume=True)
    for name in (WEIGHTS, CHECKPOINT, "weights.json"):
        assert (run / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def full_at_checkpoints(path, data):
    with path.open("wb") as file:
        file.write(data if CHECKPOINT not in path.name else data[:40])
    if CHECKPOINT in path.name:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def out_of_memory(*_given):
    raise torch.OutOfMemoryError


@pytest.mark.parametrize("step", np.random.default_rng(7).integers(1, 23, 1).tolist())
def test_memory_that_is_full_amid_a_step_undoes_what_it_began(
    sim, real, tiny, tmp_path, monkeypatch, step
):
    """The discriminator has learned of the step, the generator has not."""
    monkeypatch.setattr("sim2cam.learn.checkpoint._SNAPSHOT_INTERVAL_S", 0.0)
    config = replace(tiny, steps=23)
    train_translator(sim, real, config, tmp_path / "whole")
    updates = iter(range(step))

    def full(*given):
        if next(updates, None) is None:
            raise torch.OutOfMemoryError
        return update_generator(*given)

    with monkeypatch.context() as patch:
        patch.setattr("sim2cam.adapt.translator.step.update_generator", full)
        with pytest.raises(BackendError):
            train_translator(sim, real, config, tmp_path / "run")
    with safe_open(tmp_path / "run" / CHECKPOINT, framework="pt") as file:
        assert json.loads(file.metadata()["state"])["step"] == step
    train_translator(sim, real, config, tmp_path / "run", resume=True)
    for name in (WEIGHTS, CHECKPOINT, "weights.json"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    records = [read_metrics(tmp_path / name) for name in ("whole", "run")]
    assert [line.scalars for line in records[0]] == [line.scalars for line in records[1]]


def test_a_capture_that_is_gone_is_named_and_put_back_nothing_is_lost(
    sim, captures, tiny, tmp_path
):
    config, run = replace(tiny, steps=2), tmp_path / "run"
    train_translator(sim, captures, config, run)
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    with pytest.raises(CheckpointError) as caught:
        train_translator(
            sim, replace(captures, samples=captures.samples[1:]), config, run, resume=True
        )
    assert str(caught.value) == (
        f"{run / CHECKPOINT}: belongs to another training: images.real.0.jpg was "
        f"'{compute_digest(captures.samples[0].rgb)}' and is now None. Restore the old value, or run with "
        "--overwrite to start again."
    )
    train_translator(sim, captures, config, run, resume=True)
    assert before == {path.name: path.read_bytes() for path in run.iterdir()}
