import math

import numpy as np
import pytest
import torch

from sim2cam.geometry.boxes import pairwise_iou
from sim2cam.models.detector import Maps
from sim2cam.models.losses import TargetTensors, detector_losses, generalized_iou, heat_loss
from sim2cam.models.targets import targets_of


def tensors_of(boxes, categories, ignored=()):
    made = targets_of(
        np.array(boxes, np.float64).reshape(-1, 4),
        np.array(categories, np.int64),
        np.array(ignored, np.float64).reshape(-1, 4),
        (64, 64),
    )
    return TargetTensors(**{n: torch.from_numpy(v)[None] for n, v in vars(made).items()})


def perfect_maps(targets):
    heat = torch.where(targets.heat == 1, 12.0, -12.0)
    classes = torch.zeros(1, 2, 16, 16)
    for category in (0, 1):
        classes[:, category] = torch.where(targets.categories == category, 9.0, -9.0)
    return Maps(heat, targets.log_sides.clone(), classes)


def test_saying_the_truth_costs_next_to_nothing():
    targets = tensors_of([(8, 8, 40, 44), (40, 30, 60, 56)], [0, 1])
    losses = detector_losses(perfect_maps(targets), targets)
    assert losses["heat"] < 1e-3
    assert losses["box"] < 1e-5
    assert losses["category"] < 0.3  # smoothed labels are never reached


@pytest.mark.parametrize("name", ["heat", "box", "category"])
def test_each_error_costs_in_its_own_term(name):
    targets = tensors_of([(8, 8, 40, 44)], [0])
    maps = perfect_maps(targets)
    before = detector_losses(maps, targets)
    {"heat": maps.heat, "box": maps.log_sides, "category": maps.classes}[name].mul_(-1)
    after = detector_losses(maps, targets)
    for term, value in after.items():
        assert (value > before[term] + 0.1) == (term == name), term


def test_focal_loss_by_hand():
    logits = torch.tensor([0.0, math.log(3.0)])
    heat, weight = torch.tensor([1.0, 0.5]), torch.ones(2)
    expected = 0.25 * math.log(2) + 0.5**4 * 0.75**2 * math.log(4)
    assert heat_loss(logits, heat, weight) == pytest.approx(expected, rel=1e-5)


def test_ignored_cells_get_no_gradient():
    targets = tensors_of([], [], ignored=[(0, 0, 32, 64)])
    heat = torch.zeros(1, 16, 16, requires_grad=True)
    maps = Maps(heat, torch.zeros(1, 4, 16, 16), torch.zeros(1, 2, 16, 16))
    detector_losses(maps, targets)["heat"].backward()
    assert heat.grad[..., :8].abs().max() == 0
    assert heat.grad[..., 8:].abs().min() > 0


def test_without_objects_all_terms_are_defined():
    losses = detector_losses(
        Maps(torch.zeros(1, 16, 16), torch.zeros(1, 4, 16, 16), torch.zeros(1, 2, 16, 16)),
        tensors_of([], []),
    )
    assert losses["box"] == losses["category"] == 0
    assert torch.isfinite(losses["heat"])


def test_generalized_iou_is_iou_less_the_empty_part_of_the_hull():
    rng = np.random.default_rng(0)
    a, b = rng.uniform(1, 9, (50, 4)), rng.uniform(1, 9, (50, 4))
    ours = generalized_iou(torch.from_numpy(a), torch.from_numpy(b)).numpy()
    signs = np.array([-1, -1, 1, 1])
    for index in range(50):
        box_a, box_b = a[index] * signs, b[index] * signs
        iou = pairwise_iou(box_a[None], box_b[None])[0, 0]
        areas = [(v[0] + v[2]) * (v[1] + v[3]) for v in (a[index], b[index])]
        union = sum(areas) / (1 + iou)
        far = np.maximum(a[index], b[index])
        hull = (far[0] + far[2]) * (far[1] + far[3])
        assert ours[index] == pytest.approx(iou - (hull - union) / hull)
