import numpy as np
import torch

from sim2cam.adapt.reference.schedule import build_adam, compute_learning_rate, step_optimisers


def test_the_rate_is_constant_then_falls_in_a_line_and_never_is_zero():
    rates = [compute_learning_rate(step, 100, constant_fraction=0.5) for step in range(100)]
    assert rates[:51] == [2e-4] * 51
    assert np.allclose(np.diff(rates[50:]), -2e-4 / 50)
    assert np.isclose(rates[-1], 2e-4 / 50)
    assert (
        compute_learning_rate(0, 1, constant_fraction=0.5) == 2e-4
    )  # one step is a step at full rate
    assert compute_learning_rate(9, 10, constant_fraction=1.0) == 2e-4


def test_a_descent_moves_each_weight_by_the_rate_it_was_given():
    first, second = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
    step_optimisers([build_adam([first]), build_adam([second])], (first - second * 2).sum(), 0.125)
    assert torch.allclose(first, torch.full((2,), 0.875))  # Adam's first step has the rate's size
    assert torch.allclose(second, torch.full((2,), 1.125))
