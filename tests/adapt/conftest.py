from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from sim2cam.dataset.sample import Dataset, Sample
from sim2cam.images import encode_png, write_bytes


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Threads that wait for each other cost more than they save on patches this small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def sim(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Six flat squares on flat ground, with depth and ids; one image is smaller than a patch."""
    root = tmp_path_factory.mktemp("sim")
    rng = np.random.default_rng(0)
    samples = []
    for index in range(6):
        side = 24 if index == 5 else 48
        rgb = np.full((side, side + 5, 3), rng.integers(60, 200, 3), np.uint8)
        ids = np.zeros(rgb.shape[:2], np.uint16)
        rgb[8:20, 6:18], ids[8:20, 6:18] = rng.integers(0, 255, 3), 1
        depth = np.where(ids > 0, 4000, 5000).astype(np.uint16)
        paths = [root / f"{name}{index}.png" for name in ("rgb", "depth", "ids")]
        for path, pixels in zip(paths, (rgb, depth, ids), strict=True):
            write_bytes(path, encode_png(pixels))
        sample = Sample(
            str(index), paths[0], side + 5, side, (), "sim", {"depth": paths[1], "ids": paths[2]}
        )
        samples.append(replace(sample, digest=f"sim{index}"))
    return Dataset(root, ("thing",), tuple(samples))


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Twenty unlabelled grainy images of warm ground."""
    root = tmp_path_factory.mktemp("real")
    rng = np.random.default_rng(1)
    samples = []
    for index in range(20):
        rgb = rng.normal((180, 150, 110), 12, (40, 44, 3)).clip(0, 255).astype(np.uint8)
        path = root / f"{index}.png"
        write_bytes(path, encode_png(rgb))
        samples.append(Sample(str(index), path, 44, 40, None, "real"))
    return Dataset(root, (), tuple(samples))
