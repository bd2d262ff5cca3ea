import pytest
import torch
from torch import nn

from sim2cam.learn.ema import ExponentialMovingAverage


def test_follows_slowly_and_forgets_the_start():
    network = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        network.weight.fill_(-5.0)
    average = ExponentialMovingAverage(network, 0.9)
    with torch.no_grad():
        network.weight.fill_(1.0)
    seen = []
    for step in range(60):
        average.update(network, step)
        seen.append(float(average.state["weight"]))
    assert seen == sorted(seen)
    assert seen[0] == pytest.approx(0.1 * -5 + 0.9 * 1)  # (1 + 0) / (10 + 0) of the start
    assert seen[-1] == pytest.approx(1.0, abs=1e-3)


def test_leaves_the_network_alone_and_counts_are_copied():
    network = nn.BatchNorm2d(3)
    average = ExponentialMovingAverage(network, 0.5)
    network.train()(torch.randn(2, 3, 4, 4))
    before = {n: v.clone() for n, v in network.state_dict().items()}
    average.update(network, 10)
    assert all(torch.equal(before[n], v) for n, v in network.state_dict().items())
    assert average.state["num_batches_tracked"] == 1
    moved = average.state["running_mean"]
    assert torch.allclose(moved, before["running_mean"] / 2)


def test_goes_on_from_a_stored_state():
    network = nn.Linear(2, 2)
    one, other = (
        ExponentialMovingAverage(network, 0.9),
        ExponentialMovingAverage(nn.Linear(2, 2), 0.9),
    )
    other.load(one.state)
    one.state["weight"].zero_()
    assert torch.equal(other.state["weight"], network.weight)
