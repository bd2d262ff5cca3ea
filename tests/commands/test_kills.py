"""Trainings that are killed by the system, in processes of their own."""

import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from sim2cam.files import write_bytes
from sim2cam.images import encode_png
from sim2cam.learn.run_folder import CHECKPOINT, METRICS, SAMPLES_PAGE, WEIGHTS

RECIPE = """
base = "dice"
[adapt.translator]
steps = 300
batch = 2
patch_px = 32
width = 4
blocks = 1
"""
OFTEN = """
from sim2cam.adapt.translator import training
from sim2cam.cli import main
training.train_translator.__kwdefaults__["checkpoint_s"] = 0.0
raise SystemExit(main())
"""
"""The command, which then writes a checkpoint after each step."""


@pytest.fixture(scope="module")
def flags(tmp_path_factory):
    """A training on two folders of pictures, some of which are kept aside."""
    root = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(0)
    for side, level in (("trainA", 90), ("trainB", 150)):
        for number in range(30):
            coarse = np.kron(rng.normal(level, 30, (17, 19, 3)), np.ones((4, 4, 1)))
            pixels = coarse.clip(0, 255).astype(np.uint8)
            write_bytes(root / side / f"{number:02d}.png", encode_png(pixels))
    (root / "tiny.toml").write_text(RECIPE)
    flags = ["adapt", "train", "--sim", root, "--real", root, "--recipe", root / "tiny.toml"]
    return [*map(str, flags), "--workers", "1", "-q"]


def started(program, flags, out, *more):
    command = [sys.executable, *program, *flags, "--out", str(out), *more]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def ended(child):
    _, told = child.communicate(timeout=300)
    return child.returncode, told


def stop(child, out, how, delay_s):
    """Waits for the first line of the record, and so long, then sends a signal."""
    path = out / METRICS
    while child.poll() is None and not (path.is_file() and path.stat().st_size):
        time.sleep(0.01)
    time.sleep(delay_s)
    child.send_signal(how)


@pytest.fixture(scope="module")
def whole(flags, tmp_path_factory):
    """The files of a training that nothing interrupts."""
    out = tmp_path_factory.mktemp("whole") / "run"
    assert ended(started(["-m", "sim2cam"], flags, out)) == (0, "")
    return files(out)


def files(out):
    """Returns what a training wrote, its record without the time that steps took."""
    record = re.sub(rb'"step_s": [^,}]*', b"", (out / METRICS).read_bytes())
    names = (WEIGHTS, "weights.json", CHECKPOINT, SAMPLES_PAGE)
    return {name: (out / name).read_bytes() for name in names} | {METRICS: record}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [time.time_ns() % 10**6])  # another each time, told where it fails
def test_killed_at_any_moment_it_goes_on_to_the_same_weights(flags, whole, tmp_path, seed):
    """Also amid the writing of a checkpoint."""
    chance, out, kills = np.random.default_rng(seed), tmp_path / "run", 0
    for _ in range(4):
        child = started(["-c", OFTEN], flags, out, "--resume")
        stop(child, out, signal.SIGKILL, chance.uniform(0, 2))
        kills += ended(child)[0] == -signal.SIGKILL
    assert kills
    assert ended(started(["-m", "sim2cam"], flags, out, "--resume")) == (0, "")
    assert files(out) == whole


@pytest.mark.slow
def test_asked_to_end_it_loses_next_to_nothing(flags, whole, tmp_path):
    """Its regular checkpoint would be written after half a minute."""
    out = tmp_path / "run"
    child = started(["-m", "sim2cam"], flags, out)
    stop(child, out, signal.SIGTERM, 1.5)
    code, told = ended(child)
    assert (code, told) == (
        130,
        "\nsim2cam: interrupted. Run the same command with --resume to continue.\n",
    )
    assert (out / CHECKPOINT).is_file()
    assert ended(started(["-m", "sim2cam"], flags, out, "--resume")) == (0, "")
    assert files(out) == whole
