import multiprocessing
import os
import signal
import time

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


def refuse(n: int) -> int:
    raise Sim2CamError(f"unit {n} is not for me")


@pytest.mark.parametrize("workers", [1, 2])
def test_every_unit_gives_its_result(workers):
    assert sorted(map_units(square, [1, 2, 3], workers)) == [1, 4, 9]


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
