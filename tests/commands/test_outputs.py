"""Outputs: no command replaces a file, or fills a folder, that it did not make, unless it is asked to."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import sim2cam
from sim2cam.cli import main
from sim2cam.files import lock_folder, write_bytes
from sim2cam.images import encode_png
from tests.support.small_recipes import TWO_DICE_TOML

WEIGHTS = Path(sim2cam.__file__).parent / "models/weights/dice.safetensors"
CUBE = """\
v 0 0 0
v 1 0 0
v 0 1 0
v 0 0 1
f 1 3 2
f 1 2 4
f 2 3 4
f 3 1 4
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder with a user's recipe, photo, mesh, weights and notes, in which commands run."""
    (tmp_path / "small.toml").write_text(TWO_DICE_TOML)
    photo = encode_png(np.zeros((32, 48, 3), np.uint8))
    for name in ["a", *map(str, range(20))]:
        write_bytes(tmp_path / f"photos/{name}.png", photo)
    (tmp_path / "meshes").mkdir()
    (tmp_path / "meshes/cube.obj").write_text(CUBE)
    for suffix in (".safetensors", ".json"):
        shutil.copy(WEIGHTS.with_suffix(suffix), tmp_path / f"w{suffix}")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/notes.txt").write_text("mine")
    (tmp_path / "notes.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def content(root):
    return {p: hashlib.sha256(p.read_bytes()).hexdigest() for p in root.rglob("*") if p.is_file()}


FILES = {
    "inspect": "inspect photos --out notes.json",
    "assets": "assets meshes --out notes.json",
    "domain show": "domain show small.toml --out notes.json",
    "preview": "render small.toml --preview --out notes.json",
    "onnx": "export w.safetensors --format onnx --out notes.json",
    "bench": "bench w.safetensors --captures photos --out notes.json",
    "calibrate": "calibrate photos --out notes.json",
}
INPUTS = {
    "inspect": "inspect photos/a.png --out photos/a.png --overwrite",
    "assets": "assets meshes --out meshes/cube.obj --overwrite",
    "domain show": "domain show small.toml --out small.toml --overwrite",
    "preview": "render small.toml --preview --out small.toml --overwrite",
    "onnx": "export w.safetensors --format onnx --out w.safetensors --overwrite",
    "onnx over the card": "export w.safetensors --format onnx --out w.json --overwrite",
    "bench": "bench w.json --captures photos --out w.json --overwrite",
}
FOLDERS = {
    "export": "export photos --out full",
    "predict": "predict w.safetensors photos --out full",
    "pseudo-label": "pseudo-label w.safetensors photos --out full",
    "tune": "tune w.safetensors photos --out full",
    "render": "render small.toml --count 2 --out full",
    "adapt train": "adapt train --sim photos --real photos --method reinhard --out full",
    "demo": "demo --out full",
}
OTHERS = {
    "render": "render small.toml --count 2 --out full --overwrite",
    "resumed": "render small.toml --count 2 --out full --resume",
    "export": "export photos --out full --overwrite",
    "pseudo-label": "pseudo-label w.safetensors photos --out full --overwrite",
    "demo": "demo --out full --overwrite",
}


def refused(home, capsys, command):
    before = content(home)
    assert main(command.split()) == 1
    assert content(home) == before
    return capsys.readouterr().err


@pytest.mark.parametrize("command", FILES.values(), ids=FILES)
def test_a_file_that_exists_is_not_replaced(home, capsys, command):
    words = refused(home, capsys, command)
    assert words.endswith("sim2cam: notes.json: exists. Choose another name, or add --overwrite.\n")


@pytest.mark.parametrize("command", INPUTS.values(), ids=INPUTS)
def test_an_input_is_never_replaced(home, capsys, command):
    assert "is an input of this command. Choose another --out." in refused(home, capsys, command)


@pytest.mark.parametrize("command", FOLDERS.values(), ids=FOLDERS)
def test_a_folder_that_holds_something_is_not_filled(home, capsys, command):
    words = refused(home, capsys, command)
    assert "full: is not empty" in words or "full: contains 'notes.txt', which is not part" in words


@pytest.mark.parametrize("command", OTHERS.values(), ids=OTHERS)
def test_a_folder_of_other_things_is_not_removed(home, capsys, command):
    words = refused(home, capsys, command)
    assert "and not an export" in words or "contains 'notes.txt', which is not part of" in words


def test_a_checkpoint_is_not_written_into_a_data_set(home, capsys):
    assert main(["render", "small.toml", "--count", "4", "--out", "data", "-q"]) == 0
    words = refused(home, capsys, "train small.toml --data data --out data --steps 1 --tensorboard")
    assert (
        "data: contains 'card.md', which is not part of a training. Choose another --out." in words
    )


LOCKED = {
    "render": "render small.toml --count 2 --out out --resume",
    "adapt train": "adapt train --sim photos --real photos --method reinhard --out out",
    "demo": "demo --out out --overwrite",
}


@pytest.mark.parametrize("command", LOCKED.values(), ids=LOCKED)
def test_a_folder_that_another_process_fills_is_refused(home, capsys, command):
    with lock_folder(home / "out"):
        assert main(command.split()) == 1
    assert f"is in use by process {os.getpid()} on" in capsys.readouterr().err


def test_a_page_is_replaced_on_request(home):
    assert main(["inspect", "photos", "--out", "page.html"]) == 0
    assert main(["inspect", "photos", "--out", "page.html"]) == 1
    assert main(["inspect", "photos", "--out", "page.html", "--overwrite"]) == 0
