import numpy as np
import torch

from sim2cam.adapt.reference.image_pool import POOL_SIZE, ImagePool


def pictures(*values):
    return torch.stack([torch.full((3, 2, 2), float(value)) for value in values])


def test_while_it_fills_everything_is_shown():
    pool = ImagePool(2, torch.device("cpu"))
    shown = pool.swap(pictures(1, 2), np.random.default_rng(0))
    assert torch.equal(shown, pictures(1, 2))
    assert torch.equal(pool.images, shown)


def test_full_it_shows_an_older_one_every_second_time_and_loses_none():
    pool, rng = ImagePool(2, torch.device("cpu")), np.random.default_rng(0)
    pool.swap(pictures(*range(POOL_SIZE)), rng)
    fresh, older, left = 0, 0, set(range(POOL_SIZE))
    for number in range(POOL_SIZE, POOL_SIZE + 400):
        value = int(pool.swap(pictures(number), rng)[0, 0, 0, 0])
        left.add(number)
        left.remove(value)
        fresh, older = fresh + (value == number), older + (value != number)
        assert len(pool.images) == POOL_SIZE
    assert left == {int(picture[0, 0, 0]) for picture in pool.images}
    assert 150 < older < 250
    assert fresh + older == 400


def test_pictures_come_back_without_gradients():
    pool = ImagePool(2, torch.device("cpu"))
    assert not pool.swap(pictures(1).requires_grad_(), np.random.default_rng(0)).requires_grad
