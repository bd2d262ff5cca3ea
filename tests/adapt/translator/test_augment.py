from dataclasses import replace

import numpy as np
import pytest
import torch

from sim2cam.adapt.translator.augment import Augmentation, augment, sample_augmentation

NOTHING = Augmentation(
    np.zeros(1, np.float32),
    np.ones(1, np.float32),
    np.ones(1, np.float32),
    np.zeros((1, 2), np.int64),
    np.array([[24, 24]]),
)


@pytest.fixture
def image() -> torch.Tensor:
    return torch.rand((1, 3, 32, 32), generator=torch.Generator().manual_seed(0))


def test_hole_alone(image):
    changed = augment(image, NOTHING)
    assert torch.all(changed[:, :, 24:, 24:] == 0.5)
    assert torch.allclose(changed[:, :, :24], image[:, :, :24], atol=1e-6)


def test_shift_moves_down_and_right(image):
    changed = augment(image, replace(NOTHING, shift_px=np.array([[3, -2]])))
    assert torch.allclose(changed[:, :, 3:20, :20], image[:, :, :17, 2:22], atol=1e-6)
    assert torch.all(changed[:, :, :3, :20] == 0)


def test_colour(image):
    draw = replace(NOTHING, brightness=np.array([0.1], np.float32))
    assert torch.allclose(augment(image, draw)[:, :, :24], image[:, :, :24] + 0.1, atol=1e-6)
    grey = augment(image, replace(NOTHING, saturation=np.zeros(1, np.float32)))
    assert torch.allclose(grey[:, 0], grey[:, 2], atol=1e-6)
    flat = augment(image, replace(NOTHING, contrast=np.zeros(1, np.float32)))
    assert float(flat[:, :, :24].std()) < 1e-6


def test_gradient_flows_everywhere_but_in_the_hole(image):
    image.requires_grad_(True)
    augment(image, NOTHING).sum().backward()
    assert image.grad is not None
    assert torch.all(image.grad[:, :, :24, :24].abs() > 0)


def test_draws_are_within_reach():
    draw = sample_augmentation(np.random.default_rng(0), 500, 64)
    assert np.abs(draw.shift_px).max() == 8
    assert draw.cutout_px.min() == 0
    assert draw.cutout_px.max() == 48
    assert np.abs(draw.brightness).max() <= 0.1
    assert draw.contrast.shape == (500,)
