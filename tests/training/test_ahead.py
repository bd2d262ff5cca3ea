import threading

import pytest

from sim2cam.training.ahead import Ahead


def test_the_next_step_is_made_meanwhile_and_once():
    made, is_third = [], threading.Event()

    def make(step):
        made.append(step)
        if step == 3:
            is_third.set()
        return f"of {step}"

    ahead = Ahead(make)
    assert [ahead(0), ahead(1), ahead(2)] == ["of 0", "of 1", "of 2"]
    assert is_third.wait(10)  # nobody has asked for it
    assert ahead(3) == "of 3"
    assert made[:4] == [0, 1, 2, 3]


def test_another_step_than_the_next_may_be_asked_for():
    ahead = Ahead(lambda step: step * 10)
    assert [ahead(5), ahead(2), ahead(2), ahead(3)] == [50, 20, 20, 30]


def test_what_goes_wrong_is_raised_when_it_is_asked_for():
    def make(step):
        if step == 2:
            raise OSError("no such picture")
        return step

    ahead = Ahead(make)
    assert [ahead(0), ahead(1)] == [0, 1]
    with pytest.raises(OSError, match="no such picture"):
        ahead(2)
    assert ahead(3) == 3
