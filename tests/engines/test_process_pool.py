import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sim2cam.engines.process_pool import map_units, send_heartbeat
from sim2cam.errors import Sim2CamError


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


def count_slowly(items: int) -> int:
    for done in range(1, items + 1):
        time.sleep(0.4)
        send_heartbeat(done)
        send_heartbeat()  # changes no count
    return items


def count_nested(items: int) -> int:
    return sum(map_units(count_slowly, [items], 1))


def test_items_of_units_in_this_process_are_counted_one_by_one():
    counts = []
    results = [counts.append(f"unit of {n}") for n in map_units(count_slowly, [2, 1], 1, on_items=counts.append)]  # fmt: skip
    assert len(results) == 2
    assert counts == [1, 2, "unit of 2", 0, 1, "unit of 1", 0]
    send_heartbeat(7)  # outside of a unit
    assert counts[-1] == 0


@pytest.mark.parametrize("work", [count_slowly, count_nested])
def test_items_of_units_in_workers_are_counted(work):
    counts = []
    assert list(map_units(work, [4, 4], 2, on_items=counts.append)) == [4, 4]
    is_counted = work is count_slowly  # the items of inner units are not those of the unit
    assert any(counts) == is_counted
    assert 0 <= min(counts) <= max(counts) <= 8
    assert counts[-1] == 0


def test_a_worker_that_crashes_says_where(capfd):
    with pytest.raises(Sim2CamError, match=r"^a worker process died .*ended by SIGSEGV"):
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


def first_time(place: Path) -> bool:
    """Return whether this is the first call with a path."""
    if place.exists():
        return False
    place.touch()
    return True


def killed_once(place: Path) -> str:
    if place.name == "victim" and first_time(place):
        os.kill(os.getpid(), signal.SIGKILL)
    return place.name


def stopped_once(place: Path) -> str:
    if place.name == "victim" and first_time(place):
        os.kill(os.getpid(), signal.SIGSTOP)
    return place.name


def always_stopped(n: int) -> int:
    if n == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    return n


def starved_once(place: Path) -> str:
    if place.name == "victim" and first_time(place):
        raise MemoryError
    return place.name


def slow_with_beats(n: int) -> int:
    for _ in range(7):
        time.sleep(0.5)
        send_heartbeat()
    return n


def logged(place: Path) -> None:
    """Append when a unit begins and ends; the first one is killed."""
    with place.open("a") as log:
        log.write("begin\n")
    if first_time(place.with_suffix(".first")):
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.3)
    with place.open("a") as log:
        log.write("end\n")


NAMES = ["a", "victim", "b", "c"]


@pytest.mark.parametrize("work", [killed_once, starved_once])
def test_the_unit_of_a_killed_worker_is_tried_again(tmp_path, work):
    results = map_units(work, [tmp_path / name for name in NAMES], 2)
    assert sorted(results) == sorted(NAMES)


def test_a_stopped_worker_is_killed_and_its_unit_tried_again(tmp_path):
    results = map_units(stopped_once, [tmp_path / name for name in NAMES], 2, stall_s=3)
    assert sorted(results) == sorted(NAMES)
    assert not multiprocessing.active_children()


def test_a_unit_that_hangs_twice_is_given_up_after_all_others_are_done():
    done = []

    def collect():
        for result in map_units(always_stopped, [0, 1, 2, 3], 2, stall_s=3):
            done.append(result)

    with pytest.raises(Sim2CamError) as caught:
        collect()
    assert sorted(done) == [0, 2, 3]
    assert str(caught.value).startswith(
        "a worker process died or hung twice on 1 of 4 work units (unit 1: no progress for 3 s)."
    )
    assert "--resume" in str(caught.value)


def test_a_unit_that_reports_progress_is_not_hung():
    assert sorted(map_units(slow_with_beats, [1, 2], 2, stall_s=3)) == [1, 2]


def test_after_a_kill_fewer_workers_run_at_a_time(tmp_path):
    list(map_units(logged, [tmp_path / "log"] * 4, 2))
    log = (tmp_path / "log").read_text().split()
    assert log[-6:] == ["begin", "end"] * 3


def test_a_stopped_worker_does_not_keep_its_parent_from_ending():
    results = map_units(always_stopped, [0, 1], 2)
    assert next(results) == 0
    time.sleep(1)
    results.close()
    assert not multiprocessing.active_children()


def broken(n: int) -> int:
    return n // 0


@pytest.mark.parametrize("guard", ["", "if __name__ == '__main__':\n    "])
def test_a_script_that_starts_workers_on_import_is_told_what_to_write(tmp_path, guard):
    script = tmp_path / "script.py"
    script.write_text(
        f"from sim2cam.engines.process_pool import map_units\n{guard}print(list(map_units(abs, [-1, -2, -3], 2)))\n"
    )
    ended = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False
    )
    lines = ended.stderr.splitlines()
    assert (ended.returncode == 0) == (not lines) == bool(guard)
    assert guard or 'under if __name__ == "__main__":' in lines[-1]


def test_an_error_of_a_worker_names_its_place():
    with pytest.raises(RuntimeError, match=r"(?s)in broken.*ZeroDivisionError"):
        list(map_units(broken, [1, 2], 2))


_PARENT = """
import os, signal, sys
from pathlib import Path
from sim2cam.engines.process_pool import map_units
from tests.engines.test_process_pool import sign_in
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
