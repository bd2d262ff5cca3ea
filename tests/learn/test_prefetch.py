import os
import threading
from dataclasses import dataclass

import numpy as np
import pytest

from sim2cam.errors import InputError
from sim2cam.learn.prefetch import Prefetcher, prefetch_in_processes


def test_the_next_step_is_made_meanwhile_and_once():
    made, is_last = [], threading.Event()

    def make(step):
        made.append((step, threading.get_ident()))
        if step == 3:
            is_last.set()
        return f"of {step}"

    ahead = Prefetcher(make, 10)
    assert [ahead(step) for step in range(3)] == ["of 0", "of 1", "of 2"]
    assert is_last.wait(10)  # nobody has asked for it
    assert ahead(3) == "of 3"
    steps, threads = zip(*made[:4], strict=True)
    assert steps == (0, 1, 2, 3)
    assert threading.get_ident() not in threads


def test_nothing_is_made_past_the_end():
    made = []
    ahead = Prefetcher(made.append, 3)
    for step in range(3):
        ahead(step)
    assert made == [0, 1, 2]


def test_another_step_than_the_next_may_be_asked_for():
    ahead = Prefetcher(lambda step: step * 10, 9)
    assert [ahead(5), ahead(2), ahead(2), ahead(3)] == [50, 20, 20, 30]


def test_what_goes_wrong_is_raised_when_it_is_asked_for():
    def make(step):
        if step == 2:
            raise OSError("no such picture")
        return step

    ahead = Prefetcher(make, 9)
    assert [ahead(0), ahead(1)] == [0, 1]
    with pytest.raises(OSError, match="no such picture"):
        ahead(2)
    assert ahead(3) == 3


@dataclass(frozen=True)
class Made:
    step: int
    large: np.ndarray
    pair: tuple[np.ndarray, str]
    none: None = None


def made_of(step):
    large = np.full((64, 256), step, np.float32)
    large.flags.writeable = step % 2 == 0
    return Made(step, large, (np.arange(step), str(os.getpid())))


def test_processes_make_the_same_in_order():
    made = list(prefetch_in_processes(made_of, range(3, 11), 2))
    for step, one in enumerate(made, 3):
        assert one.step == step
        assert np.array_equal(one.large, np.full((64, 256), step))
        assert np.array_equal(one.pair[0], np.arange(step))
        assert one.none is None
    processes = {one.pair[1] for one in made}
    assert len(processes) == 2
    assert str(os.getpid()) not in processes


def test_processes_share_what_was_there_before_them():
    there = {}

    def make(step):
        return there[step]

    there.update({step: step * 10 for step in range(4)})
    assert list(prefetch_in_processes(make, range(4), 2)) == [0, 10, 20, 30]


def test_what_goes_wrong_in_a_process_is_raised_in_its_place():
    def make(step):
        if step == 2:
            raise InputError("picture.png", "cannot be read.")
        return step

    made = prefetch_in_processes(make, range(4), 2)
    assert [next(made), next(made)] == [0, 1]
    with pytest.raises(InputError, match=r"^picture\.png: cannot be read\.$"):
        next(made)
