"""Small labelled images of blue squares and red discs, with instance ids."""

import cv2
import numpy as np
import pytest

from sim2cam.dataset.sample import Dataset, ObjectLabel, Sample
from sim2cam.images import encode_png, write_bytes

CATEGORIES = ("square", "disc")
COLOURS = ((30, 60, 220), (230, 40, 40))


@pytest.fixture(scope="session")
def write_dataset():
    """A function that writes a data set of n images of 160x128 pixels with two objects each."""

    def write(root, *, n=6, seed=0, with_ids=True):
        rng = np.random.default_rng(seed)
        return Dataset(
            root, CATEGORIES, tuple(_write_sample(root, i, rng, with_ids) for i in range(n))
        )

    return write


@pytest.fixture
def make_dataset(write_dataset, tmp_path):
    """The same below the folder of a test, by name."""

    def make(name="set", **choice):
        return write_dataset(tmp_path / name, **choice)

    return make


def _write_sample(root, index, rng, with_ids):
    rgb = rng.integers(90, 130, (128, 160, 3)).astype(np.uint8)
    ids = np.zeros((128, 160), np.uint16)
    objects = []
    for number, (x, y) in enumerate(((40, 42), (120, 85)), 1):
        kind, half = int(rng.integers(2)), int(rng.integers(10, 18))
        mask = np.zeros((128, 160), np.uint8)
        if kind == 1:
            cv2.circle(mask, (x, y), half, 1, -1)
        else:
            mask[y - half : y + half, x - half : x + half] = 1
        rgb[mask > 0] = COLOURS[kind]
        ids[mask > 0] = number
        rows, columns = np.nonzero(mask)
        box = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
        objects.append(
            ObjectLabel(
                CATEGORIES[kind],
                tuple(float(edge) for edge in box),
                float(mask.sum()),
                visible_fraction=1.0,
                instance_id=number,
            )
        )
    rgb_path, ids_path = root / f"{index}.png", root / f"{index}-ids.png"
    write_bytes(rgb_path, encode_png(rgb))
    write_bytes(ids_path, encode_png(ids))
    channels = {"ids": ids_path} if with_ids else {}
    return Sample(str(index), rgb_path, 160, 128, tuple(objects), "sim", channels)
