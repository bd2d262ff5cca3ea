import os

import pytest

from sim2cam.errors import Sim2CamError
from sim2cam.pipeline.engines import map_units


def square(n: int) -> int:
    return n * n


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
