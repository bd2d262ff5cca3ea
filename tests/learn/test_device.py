import ctypes
import subprocess
import sys

import pytest
import torch

from sim2cam.errors import BackendError, UsageError
from sim2cam.learn import device
from sim2cam.learn.device import (
    autocast,
    count_usable_cores,
    describe_oversubscription,
    explain_out_of_memory,
    find_device,
    use_threads,
)


def test_the_cpu_is_always_there():
    assert find_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cpu:0", "cuda:x", "cuda:-1", "", "meta"])
def test_other_names_are_refused(name):
    with pytest.raises(UsageError, match=r"is unknown. Allowed: cpu, cuda, cuda:0"):
        find_device(name)


def test_a_device_that_is_not_there(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert find_device("cuda") == torch.device("cuda", 0)
    assert find_device("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(BackendError, match="--device cuda:2: this machine has 2 CUDA devices"):
        find_device("cuda:2")


def test_threads_are_set_and_bounded():
    before = torch.get_num_threads()
    use_threads(1)
    assert torch.get_num_threads() == 1
    use_threads(before)
    with pytest.raises(UsageError, match="--workers must be 1 or more, not 0"):
        use_threads(0)


@pytest.mark.parametrize("multiplies", [False, True])
@pytest.mark.parametrize("on_cpu", [False, True])
def test_cpus_compute_in_single_precision_unless_told_and_able(on_cpu, multiplies, monkeypatch):
    monkeypatch.setattr("sim2cam.learn.device._supports_bfloat16", lambda: multiplies)
    with autocast(torch.device("cpu"), on_cpu=on_cpu):
        found = torch.ones(2, 2) @ torch.ones(2, 2)
    assert (found.dtype == torch.bfloat16) == (on_cpu and multiplies)


@pytest.mark.parametrize(
    ("quota", "cores"),
    [("50000 100000\n", 0.5), ("800000 100000", 3), ("max 100000", 3), (None, 3)],
)
def test_cores_are_those_that_this_process_may_use(tmp_path, monkeypatch, quota, cores):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 5})
    monkeypatch.setattr("sim2cam.learn.device._CPU_QUOTA_FILE", tmp_path / "cpu.max")
    if quota is not None:
        (tmp_path / "cpu.max").write_text(quota)
    assert count_usable_cores() == cores


def test_threads_that_would_wait_are_told(monkeypatch):
    monkeypatch.setattr("sim2cam.learn.device.count_usable_cores", lambda: 2.0)
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    monkeypatch.setattr("sim2cam.learn.device._measure_busy_cores", lambda: 0.2)
    assert describe_oversubscription(2) is None
    assert describe_oversubscription(3) == (
        "3 threads exceed the 2 cores that this process may use. Use --workers 2."
    )
    monkeypatch.setattr("sim2cam.learn.device._measure_busy_cores", lambda: 3.1)
    assert describe_oversubscription(2) == (
        "other processes use 3.1 of the 4 cores of this machine. Use fewer --workers, or wait."
    )


def test_busy_cores_are_those_that_do_not_give_way(tmp_path, monkeypatch):
    """Of four cores, within a second: one and a half work, half of one gives way."""
    file = tmp_path / "stat"
    monkeypatch.setattr("sim2cam.learn.device._CPU_STAT_FILE", file)
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    monkeypatch.setattr(
        "time.sleep", lambda _: file.write_text("cpu 1120 350 530 5195 5 0 0 0 0 0\ncpu0 1\n")
    )
    assert device._measure_busy_cores() == 0.0
    file.write_text("cpu 1000 300 500 5000 0 0 0 0 0 0\ncpu0 1\n")
    assert device._measure_busy_cores() == pytest.approx(1.5)


def full_by_numpy():
    raise MemoryError("Unable to allocate 3.6 TiB for an array")


@pytest.mark.parametrize("fill", [lambda: torch.empty(1 << 60, dtype=torch.uint8), full_by_numpy])
def test_the_machines_full_memory_is_told(fill):
    with pytest.raises(BackendError) as caught, explain_out_of_memory():
        fill()
    assert str(caught.value) == (
        "memory is full. If other processes use it, free it and run again with --resume, which keeps "
        "finished work. Otherwise use fewer --workers or, for training, set a smaller batch, more batch parts, "
        "or smaller crops or patches in the recipe and train again with --overwrite."
    )


@pytest.mark.parametrize(
    "said",
    [
        "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    ],
)
def test_a_gpu_that_others_have_filled_is_told_like_one_that_is_full(said):
    with (
        pytest.raises(BackendError, match=r"^GPU memory is full\. "),
        explain_out_of_memory(),
    ):
        raise RuntimeError(said)


def test_other_errors_of_torch_stay_what_they_are():
    with pytest.raises(RuntimeError, match="size of tensor"), explain_out_of_memory():
        torch.zeros(2) + torch.zeros(3)


def test_that_torch_cannot_compile_is_told(monkeypatch):
    def compiled(_function):
        def call(_value):
            raise RuntimeError("No working C++ compiler found\nin a long trace")

        return call

    monkeypatch.setattr(torch, "compile", compiled)
    with pytest.raises(BackendError) as caught:
        device.check_torch_compile(torch.device("cpu"))
    assert str(caught.value) == (
        "torch.compile fails (No working C++ compiler found). Install a C++ compiler, or set "
        "compile = false."
    )


FREED_BY_THREADS = """
import threading
import time
from pathlib import Path

import numpy as np

from sim2cam.images import decode_image, encode_jpeg
from sim2cam.learn.device import release_memory

def resident_mb():
    status = Path("/proc/self/status").read_text()  # without pages of library files
    return int(status.partition("RssAnon:")[2].split()[0]) / 2**10

def decode():
    pictures.extend(decode_image(jpeg).copy() for _ in range(300))

jpeg = encode_jpeg(np.random.default_rng(0).integers(0, 256, (512, 512, 3), np.uint8), 90)
def decode_in_thread():
    thread = threading.Thread(target=decode)
    thread.start()
    thread.join()
    time.sleep(0.1)  # join returns before the thread gives its arena to the next one

pictures = []
decode_in_thread()  # what libraries allocate once
pictures.clear()
release_memory()
before = resident_mb()
for _ in range(4):
    decode_in_thread()
    print(resident_mb() - before)
    pictures.clear()
for _ in range(3):
    decode_in_thread()
    pictures.clear()
    release_memory()
    print(resident_mb() - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="another C library")
def test_what_threads_freed_goes_back_to_the_system():
    own = [sys.executable, "-c", FREED_BY_THREADS]  # of a process in which nothing else was freed
    said = subprocess.run(own, check=True, capture_output=True, text=True).stdout
    *held, first, second, third = map(float, said.split())
    assert min(held) > 200
    assert sorted((first, second, third))[1] < 60  # glibc may keep the last heap of a thread once
