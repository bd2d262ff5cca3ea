import os
import threading
from dataclasses import dataclass

import numpy as np
import pytest

from sim2cam.errors import InputError
from sim2cam.learn.prefetch import prefetch, prefetch_in_processes


def test_the_next_batch_is_made_in_a_thread_meanwhile_and_none_past_the_end():
    made, is_made = [], threading.Event()

    def make(step):
        made.append((step, threading.get_ident()))
        is_made.set() if step == 4 else None
        return f"batch {step}"

    batches = prefetch(make, range(3, 5))
    assert next(batches) == "batch 3"
    assert is_made.wait(10)  # before it is requested
    assert list(batches) == ["batch 4"]
    steps, threads = zip(*made, strict=True)
    assert steps == (3, 4)
    assert threading.get_ident() not in threads


@dataclass(frozen=True)
class Batch:
    step: int
    large: np.ndarray
    pair: tuple[np.ndarray, str]
    none: None = None


def make_batch(step):
    large = np.full((64, 256), step, np.float32)
    large.flags.writeable = step % 2 == 0
    return Batch(step, large, (np.arange(step), str(os.getpid())))


def test_processes_make_the_same_in_order():
    offsets = {"later": 0}  # read by processes that are forked afterwards

    def make(step):
        return make_batch(step + offsets["later"])

    offsets["later"] = 3
    batches = list(prefetch_in_processes(make, range(8), 2))
    for step, batch in enumerate(batches, 3):
        assert batch.step == step
        assert np.array_equal(batch.large, np.full((64, 256), step))
        assert np.array_equal(batch.pair[0], np.arange(step))
        assert batch.none is None
    processes = {batch.pair[1] for batch in batches}
    assert len(processes) == 2
    assert str(os.getpid()) not in processes


@pytest.mark.parametrize(
    "make_batches", [prefetch, lambda make, steps: prefetch_in_processes(make, steps, 2)]
)
def test_an_error_is_raised_in_place_of_its_batch(make_batches):
    def make(step):
        if step == 2:
            raise InputError("image.png", "cannot be read.")
        return step

    batches = make_batches(make, range(4))
    assert [next(batches), next(batches)] == [0, 1]
    with pytest.raises(InputError, match=r"^image\.png: cannot be read\.$"):
        next(batches)
