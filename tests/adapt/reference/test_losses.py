import math

import numpy as np
import torch
from torch.nn import functional

from sim2cam.adapt.reference.losses import lsgan_loss, patch_nce_loss


def test_least_squares_is_the_mean_square_to_its_target():
    verdict = torch.tensor([[0.0, 1.0], [3.0, -1.0]])
    assert lsgan_loss(verdict, is_real=True) == (1 + 0 + 4 + 4) / 4
    assert lsgan_loss(verdict, is_real=False) == (0 + 1 + 9 + 1) / 4


def test_patch_nce_equals_numbers_worked_out_alone():
    rng = np.random.default_rng(0)
    after, before = (
        v / np.linalg.norm(v, axis=2, keepdims=True) for v in rng.normal(size=(2, 2, 5, 8))
    )
    expected = []
    for picture in range(2):
        for place in range(5):
            scores = [after[picture, place] @ before[picture, other] / 0.07 for other in range(5)]
            # the place's own similarity stands first; in its row among the others it is -10
            logits = [scores[place], *(-10 / 0.07 if o == place else scores[o] for o in range(5))]
            expected.append(math.log(sum(math.exp(s - logits[0]) for s in logits)))
    found = patch_nce_loss(torch.from_numpy(after), torch.from_numpy(before))
    assert np.isclose(float(found), np.mean(expected))


def test_patch_nce_is_small_where_every_place_finds_itself():
    places = functional.normalize(torch.eye(6), dim=1)[None]
    assert patch_nce_loss(places, places) < 1e-4
    assert patch_nce_loss(places, places.roll(1, dims=1)) > 10.0


def test_no_gradient_reaches_the_source():
    after, before = (torch.rand(1, 4, 3, requires_grad=True) for _ in range(2))
    patch_nce_loss(after, before).backward()
    assert after.grad is not None
    assert before.grad is None
