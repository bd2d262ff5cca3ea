import pytest
import torch

from sim2cam.errors import BackendError, UsageError
from sim2cam.training.device import autocast, find_device, use_threads


def test_the_cpu_is_always_there():
    assert find_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cpu:0", "cuda:x", "cuda:-1", "", "meta"])
def test_other_names_are_refused(name):
    with pytest.raises(UsageError, match=r"is not known. Allowed: cpu, cuda, cuda:0"):
        find_device(name)


def test_a_device_that_is_not_there(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert find_device("cuda") == torch.device("cuda", 0)
    assert find_device("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(BackendError, match="--device cuda:2: this machine shows 2 CUDA devices"):
        find_device("cuda:2")


def test_threads_are_set_and_bounded():
    before = torch.get_num_threads()
    use_threads(1)
    assert torch.get_num_threads() == 1
    use_threads(before)
    with pytest.raises(UsageError, match="--workers must be 1 or more, not 0"):
        use_threads(0)


def test_the_cpu_computes_in_single_precision():
    with autocast(torch.device("cpu")):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32
