from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from sim2cam.data.sample import Dataset, ObjectLabel, Sample
from sim2cam.files import write_bytes
from sim2cam.images import encode_png


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


@pytest.fixture(scope="session")
def many_sim(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Forty renders of a textured square on textured ground, large enough to be looked at."""
    root = tmp_path_factory.mktemp("many_sim")
    rng = np.random.default_rng(2)
    samples = []
    for index in range(40):
        ids = np.zeros((72, 80), np.uint16)
        ids[20:50, 24:54] = 1
        rgb = np.where(ids[..., None] > 0, rng.integers(120, 200, 3), rng.integers(60, 110, 3))
        coarse = np.kron(rng.normal(0, 12, (18, 20, 1)), np.ones((4, 4, 1)))
        paths = root / f"rgb{index}.png", root / f"ids{index}.png"
        write_bytes(paths[0], encode_png((rgb + coarse).clip(0, 255).astype(np.uint8)))
        write_bytes(paths[1], encode_png(ids))
        label = ObjectLabel("thing", (24.0, 20.0, 54.0, 50.0), 900.0, instance_id=1)
        sample = Sample(f"{index}", paths[0], 80, 72, (label,), "sim", {"ids": paths[1]})
        samples.append(replace(sample, digest=f"{index:064x}", scene_index=index))
    return Dataset(root, ("thing",), tuple(samples))


@pytest.fixture(scope="session")
def many_real(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Thirty unlabelled captures: textured ground under warm light, with grain."""
    root = tmp_path_factory.mktemp("many_real")
    rng = np.random.default_rng(3)
    samples = []
    for index in range(30):
        coarse = np.kron(rng.normal(0, 12, (18, 22, 1)), np.ones((4, 4, 1)))
        rgb = rng.normal((170, 140, 100), 8, (72, 88, 3)) + coarse
        path = root / f"{index}.png"
        write_bytes(path, encode_png(rgb.clip(0, 255).astype(np.uint8)))
        samples.append(Sample(f"{index}", path, 88, 72, None, "real"))
    return Dataset(root, (), tuple(samples))
