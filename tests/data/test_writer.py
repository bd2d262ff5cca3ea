import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sim2cam.data.channels import DEPTH_SCALE_M
from sim2cam.data.reader import read_dataset
from sim2cam.data.shards import read_shard_content
from sim2cam.data.writer import compute_digest, prepare_folder, write_json, write_shard
from sim2cam.errors import OutputError
from sim2cam.images import read_16bit
from tests.support.errors import error_text


def shard_size(root, number):
    content = read_shard_content(root, number)
    return 0 if content is None else content.samples


def content(root):
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in root.rglob("*")
        if path.is_file()
    }


def test_a_shard_holds_what_its_lines_say(native):
    lines = (native / "shards/000001/samples.jsonl").read_text().splitlines()
    assert len(lines) == shard_size(native, 1) == 2
    for line in map(json.loads, lines):
        assert line["digest"] == compute_digest(line)
        for place, digest in line["files"].items():
            data = (native / "shards/000001" / place).read_bytes()
            assert hashlib.sha256(data).hexdigest() == digest


def test_equal_input_gives_equal_bytes(tmp_path, native, tiny):
    assert content(native) == content(tiny.write_native(tmp_path / "again"))


def test_depth_is_stored_in_steps(native, tiny):
    depth = read_16bit(read_dataset(native).samples[0].channels["depth"])
    assert np.array_equal(depth * DEPTH_SCALE_M > 0, tiny.new_sample(0).channels["ids"] > 0)
    assert depth.max() * DEPTH_SCALE_M == pytest.approx(0.5)


def test_a_digest_sees_every_change(native):
    line = json.loads((native / "shards/000000/samples.jsonl").read_text().splitlines()[0])
    changed = [line | {"width": 49}, line | {"files": {}}, line | {"objects": []}]
    assert len({compute_digest(other) for other in [line, *changed]}) == 4


def test_a_full_folder_is_refused(native, tiny):
    before = content(native)
    message = error_text(
        lambda: prepare_folder(native, tiny.header(), resume=False, overwrite=False),
        error=OutputError,
    )
    assert message == (
        f"{native}: is not empty. Add --resume to continue or --overwrite to start again."
    )
    assert content(native) == before


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"seed": 1}, "seed is 0, not 1"),
        ({"recipe": {"name": "tiny", "render": {"views": 4}}}, "recipe.render.views is 2, not 4"),
        ({"backend": "egl"}, 'backend is null, not "egl"'),
        ({"categories": ["square"]}, 'categories is ["square", "disc"], not ["square"]'),
    ],
)
def test_resume_refuses_another_recipe_and_names_the_difference(native, tiny, changes, difference):
    before = content(native)
    message = error_text(
        lambda: prepare_folder(native, tiny.header(**changes), resume=True, overwrite=False),
        error=OutputError,
    )
    assert message == (
        f"{native}: holds another dataset: {difference}. Choose another --out or add --overwrite."
    )
    assert content(native) == before


def test_resume_keeps_whole_shards_and_removes_what_was_left(native, tiny):
    before = content(native)
    for name in ("000002.part", "000001.replaced.part"):
        (native / "shards" / name / "rgb").mkdir(parents=True)
        (native / "shards" / name / "rgb/000004.jpg").write_bytes(b"half")
    (native / "dataset.json.part").write_text("{")
    prepare_folder(native, tiny.header(), resume=True, overwrite=False)
    assert content(native) == before


def test_overwrite_starts_anew_in_the_same_folder(native, tiny, tmp_path):
    (native / "run.log").write_text("said")
    prepare_folder(native, tiny.header(seed=1), resume=False, overwrite=True)
    assert [path.name for path in native.iterdir()] == ["dataset.json"]
    assert json.loads((native / "dataset.json").read_text())["seed"] == 1
    link = tmp_path / "link"
    link.symlink_to(native)
    prepare_folder(link, tiny.header(seed=2), resume=False, overwrite=True)
    assert json.loads((native / "dataset.json").read_text())["seed"] == 2


@pytest.mark.parametrize("choice", [{"overwrite": True}, {"resume": True}])
@pytest.mark.parametrize("stranger", ["photo.jpg", "shards", "notes.log", "film.mp4.part", ".git"])
def test_a_folder_of_other_things_is_never_touched(tmp_path, tiny, choice, stranger):
    folder = tmp_path / "mine"
    (folder / stranger).mkdir(parents=True)
    (folder / stranger / "precious").write_text("mine")
    message = error_text(
        lambda: prepare_folder(
            folder, tiny.header(), **{"resume": False, "overwrite": False} | choice
        ),
        error=OutputError,
    )
    assert message == (
        f"{folder}: contains '{stranger}', which is not part of a dataset. Choose another --out."
    )
    assert content(folder) == {f"{stranger}/precious": hashlib.sha256(b"mine").hexdigest()}


def test_overwrite_refuses_a_stranger_inside_a_data_set(native, tiny):
    (native / "photo.jpg").write_bytes(b"mine")
    before = content(native)
    with pytest.raises(OutputError, match=r"contains 'photo\.jpg', which is not part of a dataset"):
        prepare_folder(native, tiny.header(), resume=False, overwrite=True)
    assert content(native) == before


def test_a_broken_header_is_told(native, tiny):
    (native / "dataset.json").write_text('{"seed": 0')
    with pytest.raises(OutputError, match=r"dataset\.json: not JSON \(.*\)\. Add --overwrite"):
        prepare_folder(native, tiny.header(), resume=True, overwrite=False)
    prepare_folder(native, tiny.header(), resume=False, overwrite=True)


KILLED_IN = {
    "a sample": "samples = interrupted(2)",
    "the rename": "Path.rename = lambda self, target: os.kill(os.getpid(), signal.SIGKILL)",
}
KILLED = """
import importlib.util, os, signal, sys
from pathlib import Path
from sim2cam.data.writer import write_shard
spec = importlib.util.spec_from_file_location("tiny", sys.argv[2])
tiny = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tiny)
def interrupted(first):
    yield tiny.new_sample(first)
    os.kill(os.getpid(), signal.SIGKILL)
samples = [tiny.new_sample(2), tiny.new_sample(3)]
{moment}
write_shard(Path(sys.argv[1]), 1, samples, [{{"scene_index": 1}}])
"""


@pytest.mark.parametrize("moment", KILLED_IN.values(), ids=KILLED_IN)
def test_a_killed_run_is_completed_by_resume(tmp_path, tiny, moment):
    whole = content(tiny.write_native(tmp_path / "whole"))
    root = tmp_path / "killed"
    prepare_folder(root, tiny.header(), resume=False, overwrite=False)
    scenes = [{"scene_index": 0}]
    write_shard(root, 0, [tiny.new_sample(0), tiny.new_sample(1)], scenes)
    conftest = Path(__file__).with_name("conftest.py")
    code = KILLED.format(moment=moment)
    run = subprocess.run([sys.executable, "-c", code, str(root), str(conftest)], check=False)
    assert run.returncode == -signal.SIGKILL
    assert len(list(root.glob("shards/000001.*.part"))) == 1
    assert shard_size(root, 1) == 0
    assert [sample.name for sample in read_dataset(root).samples] == ["000000", "000001"]

    prepare_folder(root, tiny.header(), resume=True, overwrite=False)
    assert not list(root.glob("shards/*.part"))
    write_shard(root, 1, [tiny.new_sample(2), tiny.new_sample(3)], [{"scene_index": 1}])
    assert content(root) == whole


def test_a_killed_overwrite_leaves_no_half_shard_that_counts(native, tiny, monkeypatch):
    def die(path):
        raise KeyboardInterrupt

    monkeypatch.setattr("sim2cam.files.remove_path", die)
    with pytest.raises(KeyboardInterrupt):
        prepare_folder(native, tiny.header(seed=1), resume=False, overwrite=True)
    assert shard_size(native, 0) == 0
    monkeypatch.undo()
    prepare_folder(native, tiny.header(), resume=True, overwrite=False)
    assert [path.name for path in native.iterdir()] == ["dataset.json"]


def test_a_failing_sample_leaves_nothing_behind(native, tiny):
    def failing():
        yield tiny.new_sample(4)
        raise RuntimeError("no scene")

    before = content(native)
    with pytest.raises(RuntimeError, match="no scene"):
        write_shard(native, 2, failing())
    assert content(native) == before


def test_a_longer_shard_takes_the_place_of_a_shorter(native, tiny):
    write_shard(native, 1, [tiny.new_sample(i) for i in (2, 3, 4)], [{"scene_index": 1}])
    assert shard_size(native, 1) == 3
    assert [path.name for path in sorted((native / "shards").iterdir())] == ["000000", "000001"]


def test_json_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "facts.json"
    write_json(path, {"b": 1, "a": (1, 2)})
    assert path.read_text() == '{\n "a": [\n  1,\n  2\n ],\n "b": 1\n}\n'

    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OutputError, match="No space left on device"):
        write_json(path, {"b": 2})
    assert [p.name for p in tmp_path.iterdir()] == ["facts.json"]
    assert json.loads(path.read_text())["b"] == 1


def test_what_is_no_json_is_refused(tmp_path):
    with pytest.raises(TypeError, match="set cannot be encoded as JSON"):
        write_json(tmp_path / "facts.json", {"a": {1}})
