import json
import os
import signal
import subprocess
import sys

import pytest

from sim2cam import files
from sim2cam.errors import OutputError
from sim2cam.files import (
    LOCK_NAME,
    lock_folder,
    make_temporary_path,
    prepare_folder,
    sync_tree,
    write_atomic,
)
from tests.support.errors import error_text

HOLD = """
import sys, time
from pathlib import Path
from sim2cam.files import lock_folder
with lock_folder(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path):
    """A process that holds the lock of a folder."""
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "run")], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "held\n"
    yield child
    child.kill()
    child.wait()
    child.stdout.close()


def enter(folder):
    with lock_folder(folder):
        return sorted(path.name for path in folder.iterdir())


def test_a_second_process_is_refused_by_name(tmp_path, holder):
    message = error_text(enter, tmp_path / "run", error=OutputError)
    assert f"is in use by process {holder.pid} on '{os.uname().nodename}'" in message


def test_the_lock_of_a_killed_process_is_taken_over(tmp_path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (tmp_path / "run" / LOCK_NAME).exists()
    assert enter(tmp_path / "run") == [LOCK_NAME]


def test_a_lock_leaves_nothing_behind(tmp_path):
    assert enter(tmp_path / "run") == [LOCK_NAME]
    assert list((tmp_path / "run").iterdir()) == []


def test_a_lock_ends_with_an_error(tmp_path):
    with pytest.raises(ValueError, match="x"), lock_folder(tmp_path / "run"):
        raise ValueError("x")
    assert enter(tmp_path / "run") == [LOCK_NAME]


def test_threads_of_one_process_exclude_each_other_too(tmp_path):
    with lock_folder(tmp_path / "run"), pytest.raises(OutputError, match=f"process {os.getpid()}"):
        enter(tmp_path / "run")


def test_a_file_has_no_lock(tmp_path):
    (tmp_path / "run").write_text("mine")
    with pytest.raises(OutputError, match="is a file, not a folder"):
        enter(tmp_path / "run")


def test_temporary_names_are_never_the_same(tmp_path):
    assert make_temporary_path(tmp_path / "a") != make_temporary_path(tmp_path / "a")


def test_a_file_is_flushed_before_it_takes_its_name(tmp_path, monkeypatch):
    events = []
    fsync, replace = os.fsync, type(tmp_path).replace
    monkeypatch.setattr(os, "fsync", lambda handle: events.append("flush") or fsync(handle))
    monkeypatch.setattr(
        type(tmp_path), "replace", lambda a, b: events.append("rename") or replace(a, b)
    )
    write_atomic(tmp_path / "a.json", b"1")
    assert events == ["flush", "rename", "flush"]


def test_all_files_of_a_tree_are_flushed(tmp_path, monkeypatch):
    for name in ("a", "b/c", "b/d/e"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    flushed = []
    fsync = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda handle: flushed.append(os.fstat(handle).st_ino) or fsync(handle)
    )
    sync_tree(tmp_path)
    assert set(flushed) == {path.stat().st_ino for path in [tmp_path, *tmp_path.rglob("*")]}


CHOICES = [{"resume": False, "overwrite": False}, {"resume": True, "overwrite": False},
           {"resume": False, "overwrite": True}]  # fmt: skip


@pytest.mark.parametrize("choice", CHOICES)
def test_a_folder_of_other_things_is_refused(tmp_path, choice):
    for name in ("plan.json", "photo.jpg"):
        (tmp_path / name).write_text("mine")
    with pytest.raises(OutputError, match=r"contains 'photo\.jpg', which is not part of a fit\."):
        prepare_folder(tmp_path, ["plan.json"], "a fit", **choice)
    assert len(list(tmp_path.iterdir())) == 2


def test_an_earlier_run_is_refused_kept_or_removed(tmp_path):
    (tmp_path / "plan.json").write_text("{}")
    (tmp_path / "sim").mkdir()
    parts = ["plan.json", "sim"]
    with pytest.raises(OutputError, match=r"not empty\. Add --resume to continue or --overwrite"):
        prepare_folder(tmp_path, parts, "a fit", resume=False, overwrite=False)
    (tmp_path / "plan.json.123.part").write_text("{")
    prepare_folder(tmp_path, parts, "a fit", resume=True, overwrite=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == parts
    prepare_folder(tmp_path, parts, "a fit", resume=False, overwrite=True)
    assert list(tmp_path.iterdir()) == []


def test_overwriting_keeps_the_lock_of_this_run(tmp_path):
    (tmp_path / "plan.json").write_text("{}")
    with lock_folder(tmp_path):
        prepare_folder(tmp_path, ["plan.json"], "a fit", resume=False, overwrite=True)
        assert json.loads((tmp_path / LOCK_NAME).read_text())["process"] == os.getpid()


def test_a_link_is_removed_without_what_it_names(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    files.remove_path(tmp_path / "link")
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
