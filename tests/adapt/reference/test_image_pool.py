import numpy as np
import torch

from sim2cam.adapt.reference.image_pool import POOL_SIZE, ImagePool


def make_images(*values):
    return torch.stack([torch.full((3, 2, 2), float(value)) for value in values])


def test_fills_first_then_returns_an_older_image_every_second_time_and_loses_none():
    pool, rng = ImagePool(2), np.random.default_rng(0)
    first = make_images(*range(POOL_SIZE)).requires_grad_()
    returned = pool.swap(first, rng)
    assert torch.equal(returned, first)
    assert not returned.requires_grad
    older, left = 0, set(range(POOL_SIZE))
    for number in range(POOL_SIZE, POOL_SIZE + 400):
        value = int(pool.swap(make_images(number), rng)[0, 0, 0, 0])
        left.add(number)
        left.remove(value)
        older += value != number
    assert left == {int(image[0, 0, 0]) for image in pool.images}
    assert 150 < older < 250
