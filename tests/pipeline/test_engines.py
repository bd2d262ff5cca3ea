import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sim2cam.errors import Sim2CamError
from sim2cam.pipeline.engines import map_units


def square(n: int) -> int:
    return n * n


def sleep(n: int) -> int:
    time.sleep(n)
    return n


def is_spared(n: int) -> bool:
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def die(n: int) -> int:
    os._exit(9)


def crash(n: int) -> int:
    os.kill(os.getpid(), signal.SIGSEGV)
    return n


def refuse(n: int) -> int:
    raise Sim2CamError(f"unit {n} is not for me")


@pytest.mark.parametrize("workers", [1, 2])
def test_every_unit_gives_its_result(workers):
    assert sorted(map_units(square, [1, 2, 3], workers)) == [1, 4, 9]


def test_a_worker_that_crashes_says_where(capfd):
    with pytest.raises(Sim2CamError, match=r"^a worker process died"):
        list(map_units(crash, [1, 2], 2))
    said = capfd.readouterr().err
    assert "Fatal Python error: Segmentation fault" in said
    assert re.search(r"line \d+ in crash\n", said)


def test_a_dead_worker_says_how_to_go_on():
    with pytest.raises(Sim2CamError, match=r"a worker process died.*--resume"):
        list(map_units(die, [1, 2], 2))


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_reaches_the_caller(workers):
    with pytest.raises(Sim2CamError, match=r"unit \d is not for me"):
        list(map_units(refuse, [1, 2], workers))


def test_workers_do_not_hear_of_interrupts():
    assert list(map_units(is_spared, [1, 2], 2)) == [True, True]
    assert not is_spared(0)


def test_units_at_work_are_not_waited_for():
    results = map_units(sleep, [0, 600, 600], 2)
    assert next(results) == 0
    results.close()
    assert not multiprocessing.active_children()


_PARENT = """
import os, signal, sys
from pathlib import Path
from sim2cam.pipeline.engines import map_units
from tests.pipeline.test_engines import sign_in
if __name__ == "__main__":
    list(map_units(sign_in, [sys.argv[1]] * 2, 2))
"""


def sign_in(folder: str) -> None:
    Path(folder, str(os.getpid())).touch()
    time.sleep(600)


def test_workers_end_with_a_parent_that_is_killed(tmp_path):
    (script := tmp_path / "parent.py").write_text(_PARENT)
    (book := tmp_path / "book").mkdir()
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    parent = subprocess.Popen([sys.executable, script, book], env=environment)
    assert _soon(lambda: len(list(book.iterdir())) == 2)
    parent.kill()
    parent.wait()
    workers = [Path("/proc", worker.name) for worker in book.iterdir()]
    assert _soon(lambda: not any(worker.exists() for worker in workers))


def _soon(is_so) -> bool:
    for _ in range(600):
        if is_so():
            return True
        time.sleep(0.1)
    return False
