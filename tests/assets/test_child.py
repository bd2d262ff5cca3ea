"""The process that reads files of users: it ends with its parent, and keeps to its limits."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import trimesh

from sim2cam.assets import import_process

PARENT = """
import json, sys, time
from pathlib import Path
from sim2cam.assets import import_process
children = import_process.ImportWorker()
started = children._start()
children._process = started
{before}
print(json.dumps(started.pid), flush=True)
{then}
"""


def parent(folder, before="", then="time.sleep(60)"):
    """A process with a child, and the number of the child."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    code = PARENT.format(before=before, then=then)
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd=folder
    )  # fmt: skip
    return process, json.loads(process.stdout.readline())


def is_there(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def ends(pid, seconds=10.0):
    """Whether a process ends within some seconds."""
    deadline = time.monotonic() + seconds
    while is_there(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not is_there(pid)


BUSY = "import threading; threading.Thread(target=children.measure, args=(Path('ring.stl'), Path('.')), daemon=True).start(); time.sleep(3)"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("before", ["", BUSY], ids=["waiting", "busy"])
def test_child_ends_with_killed_parent(tmp_path, before):
    ring = trimesh.creation.torus(30, 10, major_sections=300, minor_sections=200)
    ring.vertices += np.sin(ring.vertices)  # which takes long to take apart
    ring.export(tmp_path / "ring.stl")
    process, child = parent(tmp_path, before)
    assert is_there(child)
    process.kill()
    process.communicate()
    assert ends(child)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_child_ends_at_end_of_input(tmp_path):
    process, child = parent(tmp_path, then="started.stdin.close(); time.sleep(60)")
    assert ends(child)
    process.kill()
    process.communicate()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_interrupt_is_handled_by_parent(tmp_path):
    process, child = parent(tmp_path, "time.sleep(3)")
    os.kill(child, signal.SIGINT)
    time.sleep(0.3)
    assert is_there(child)
    assert os.getpgid(child) != os.getpgid(process.pid)  # Ctrl-C reaches a whole group
    process.kill()
    _, said = process.communicate()
    assert said == b""


def test_endless_work_hits_cpu_limit(tmp_path):
    code = (
        "from sim2cam.assets import import_process as i\n"
        "i.MAX_SECONDS = i._START_SECONDS = 0.0\n"
        "i._DECOMPOSITION_SECONDS = {'vhacd': 0.0, 'coacd': 0.0}\n"
        "i._set_limits()\n"
        "while True: pass"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, timeout=60, check=False, capture_output=True
    )
    assert done.returncode == -signal.SIGXCPU


def test_unexpected_exception_is_error_of_file(tmp_path, monkeypatch):
    (tmp_path / "a.obj").touch()

    def breaks(*_):
        raise ZeroDivisionError("float division by zero")

    monkeypatch.setattr(import_process, "parse_file", breaks)
    found = import_process._respond(tmp_path / "a.obj", tmp_path, lambda: None)
    assert found.error == (
        f"{tmp_path / 'a.obj'}: cannot be measured. Repair the mesh or export it again."
    )
