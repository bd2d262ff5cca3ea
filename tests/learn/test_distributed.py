"""Trainings in two processes, against the same in one."""

import itertools
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from sim2cam.cli import main
from sim2cam.errors import BackendError, UsageError
from sim2cam.files import write_bytes
from sim2cam.images import encode_png
from sim2cam.learn.checkpoint import save_checkpoint
from sim2cam.learn.distributed import (
    SynchronizedBatchNorm2d,
    all_reduce_mean,
    join_process_group,
    reduce_divisor,
    slice_batch,
    synchronize_batch_norms,
)
from sim2cam.learn.run_folder import CHECKPOINT, METRICS

DETECTOR = """
base = "dice"
[train]
steps = 4
batch = 4
crop_px = 64
warmup_steps = 2
learning_rate = 1e-4
bfloat16 = false
{more}
"""
TRANSLATORS = """
base = "dice"
[adapt.translator]
steps = 11
batch = 4
patch_px = 32
width = 4
blocks = 1
gradient_penalty_every = 3
bfloat16 = false
[adapt.reference]
steps = 11
batch = 2
patch_px = 32
width = 8
blocks = 5
"""


class StoppedError(Exception):
    """Stands for a process that is gone."""


def save_and_stop(path, checkpoint):
    """Stops before the last step: rounding grows with those that two processes share."""
    if checkpoint.step == 10:
        save_checkpoint(path, checkpoint)
        raise StoppedError


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Twenty-four coarse pictures with a labelled square in each, and the COCO file of it."""
    root = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    images, boxes = [], []
    for number in range(24):
        rgb = rng.normal(120, 30, (24, 32, 3)).clip(0, 255).astype(np.uint8)
        rgb = cv2.resize(rgb, (128, 96), interpolation=cv2.INTER_NEAREST)
        x, y = (int(n) for n in rng.integers(10, 50, 2))
        rgb[y : y + 24, x : x + 24] = (220, 30, 30)
        name = f"{number:02d}.png"
        write_bytes(root / name, encode_png(rgb))
        images.append({"id": number, "file_name": name, "width": 128, "height": 96})
        boxes.append(
            {"id": number, "image_id": number, "category_id": 1, "bbox": [x, y, 24, 24], "area": 576}
        )  # fmt: skip
    categories = [{"id": 1, "name": "square"}]
    tables = {"images": images, "annotations": boxes, "categories": categories}
    (root / "photos.json").write_text(json.dumps(tables))
    return root


LATE = """
import sys, time
from sim2cam.cli import main
from sim2cam.learn import run_folder

clear = run_folder.clear_run_folder
run_folder.clear_run_folder = lambda folder: (time.sleep(4), clear(folder))
sys.exit(main())
"""


def in_two(*arguments, program=("-m", "sim2cam")):
    """What a command says that torchrun starts twice; it has to end well."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [*launch, *map(str, (*program, *arguments))]
    done = subprocess.run(
        command, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


def in_one(*arguments):
    assert main([*map(str, arguments), "-q"]) == 0


def assert_same_gradients(run, other):
    """Of two runs' optimizers; weights say less, as Adam makes steps of what is left of rounding."""
    ours, theirs = (load_file(folder / CHECKPOINT) for folder in (run, other))
    assert ours.keys() == theirs.keys()
    moments = [name for name in ours if name.endswith("/exp_avg")]
    for group in {name.split(":")[0] for name in moments}:
        found = [
            torch.cat([file[n].flatten() for n in moments if n.startswith(f"{group}:")])
            for file in (ours, theirs)
        ]
        assert found[0].abs().max() > 0
        torch.testing.assert_close(
            found[1], found[0], rtol=0, atol=3e-3 * float(found[0].abs().max())
        )


@pytest.mark.slow
@pytest.mark.parametrize("method", ["", "coral", "adabn"])
def test_a_detector_is_that_of_one_process(photos, tmp_path, method):
    recipe = tmp_path / "tiny.toml"
    adapt = f'adapt = {{method = "{method}"}}\n' if method else ""
    recipe.write_text(DETECTOR.format(more=adapt))
    flags = ["train", recipe, "--data", photos / "photos.json", "--held-out", 0, "--workers", 1]
    flags += ["--captures", photos] if method else []
    in_one(*flags, "--out", tmp_path / "one")
    said = in_two(*flags, "--out", tmp_path / "two")
    assert said.stderr.count("weights:") == 1
    assert_same_gradients(tmp_path / "one", tmp_path / "two")
    records = [(tmp_path / n / METRICS).read_text().splitlines() for n in ("one", "two")]
    (one,), (two,) = ([json.loads(line) for line in lines] for lines in records)
    assert two["losses"] == pytest.approx(one["losses"], rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["translator", "cyclegan", "cut"])
def test_a_translator_is_that_of_one_process(photos, tmp_path, method):
    """And goes on in two processes from where one was stopped."""
    recipe = tmp_path / "tiny.toml"
    recipe.write_text(TRANSLATORS)
    flags = ["--sim", photos, "--real", photos, "--method", method, "--recipe", recipe]
    flags += ["--workers", 1]
    one, two = tmp_path / "one", tmp_path / "two"
    in_one("adapt", "train", *flags, "--out", one)
    with pytest.MonkeyPatch.context() as patch:
        passing = SimpleNamespace(monotonic=itertools.count(0, 1000).__next__)
        patch.setattr("sim2cam.learn.checkpoint.time", passing)
        patch.setattr("sim2cam.learn.checkpoint.save_checkpoint", save_and_stop)
        with pytest.raises(StoppedError):
            in_one("adapt", "train", *flags, "--out", two)
    in_two("adapt", "train", *flags, "--out", two, "--resume")
    assert_same_gradients(one, two)
    (line,) = (json.loads(line) for line in (two / METRICS).read_text().splitlines()[-1:])
    assert line["step"] == 11


@pytest.mark.slow
def test_an_earlier_run_is_removed_before_any_process_looks_at_it(photos, tmp_path):
    """However late the first one does so."""
    recipe, late, out = tmp_path / "tiny.toml", tmp_path / "late.py", tmp_path / "run"
    recipe.write_text(TRANSLATORS)
    late.write_text(LATE)
    flags = ["adapt", "train", "--sim", photos, "--real", photos, "--recipe", recipe, "--out", out]
    flags += ["--workers", 1]
    in_one(*flags, "--method", "mkl")
    anew = [*flags, "--method", "translator", "--steps", 1, "--overwrite"]
    in_two(*anew, program=[late])
    assert not (out / "transfer.json").exists()
    in_two(*anew, program=[late])  # now a training is there
    assert len((out / METRICS).read_text().splitlines()) == 1


def test_norms_to_be_shared_do_as_torch_has_it():
    """Of the same batches: outputs, gradients, statistics; and by statistics of the past."""
    rng = torch.Generator().manual_seed(0)
    for momentum in (0.1, None):
        theirs, ours = (
            nn.BatchNorm2d(5, momentum=momentum),
            SynchronizedBatchNorm2d(5, momentum=momentum),
        )
        for norm in (theirs, ours):
            nn.init.constant_(norm.weight, 1.7)
            nn.init.constant_(norm.bias, -0.3)
        for _ in range(3):
            features = 4 + 2 * torch.randn(2, 5, 6, 7, generator=rng)
            found = []
            for norm in (theirs, ours):
                seen = features.clone().requires_grad_(True)
                out = norm(seen)
                (out**3).sum().backward()
                found.append([out, seen.grad, norm.weight.grad, norm.bias.grad])
            for one, other in zip(*found, strict=True):
                torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-4)
        for (name, one), other in zip(
            theirs.state_dict().items(), ours.state_dict().values(), strict=True
        ):
            torch.testing.assert_close(other, one, msg=name)
        torch.testing.assert_close(ours.eval()(features), theirs.eval()(features))


def test_one_process_changes_nothing():
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    synchronize_batch_norms(network)
    assert type(network[1]) is nn.BatchNorm2d
    assert slice_batch(5) == slice(0, 5)
    assert [float(reduce_divisor(torch.tensor(n))) for n in (0, 7)] == [1.0, 7.0]
    scalars = {"loss": torch.tensor(2.0)}
    assert all_reduce_mean(scalars) is scalars
    with join_process_group("cpu") as place:
        assert place == torch.device("cpu")


@pytest.fixture
def two(monkeypatch):
    """As the second of two processes that torchrun has started."""
    for name, value in {"WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2, "RANK": 1, "LOCAL_RANK": 1}.items():
        monkeypatch.setenv(name, str(value))


@pytest.mark.parametrize(
    ("device", "kind", "message"),
    [
        ("cuda:1", UsageError, "--device cuda:1: each of 2 processes uses its own GPU. Use --device "
         "cuda."),
        ("cuda", BackendError, "torchrun started 2 processes on this machine, which has 1 CUDA "
         "devices. Set --nproc-per-node to their number, or use --device cpu."),
        ("gpu", UsageError, "--device gpu is unknown. Allowed: cpu, cuda, cuda:0, cuda:1, ..."),
    ],
)  # fmt: skip
def test_devices_that_processes_cannot_have(two, monkeypatch, device, kind, message):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(kind) as caught, join_process_group(device):
        pass
    assert str(caught.value) == message


def test_a_batch_is_divided_evenly_or_not_at_all(monkeypatch):
    monkeypatch.setattr("sim2cam.learn.distributed.get_group_size", lambda: 3)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 2)
    assert slice_batch(6) == slice(4, 6)
    with pytest.raises(UsageError) as caught:
        slice_batch(4)
    assert str(caught.value) == (
        "batch 4 cannot be divided among 3 processes. Set batch in the recipe to a multiple of 3, or "
        "change --nproc-per-node of torchrun."
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "data"], "torchrun started 2 processes, but only train and adapt train are "
         "distributed. Run this command without torchrun."),
        (["adapt", "train", "--sim", "PHOTOS", "--real", "PHOTOS", "--out", "run", "--method", "mkl"],
         "mkl is fitted by one process. Run it without torchrun."),
    ],
)  # fmt: skip
def test_commands_that_cannot_be_shared(two, photos, capsys, arguments, message):
    assert main([str(photos) if part == "PHOTOS" else part for part in arguments]) == 2
    assert capsys.readouterr().err == f"sim2cam: {message}\n"
