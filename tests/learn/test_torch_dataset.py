"""Data sets for torch: targets as torchvision documents them, through a DataLoader with workers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from sim2cam.data.channels import encode_channel
from sim2cam.data.sample import Dataset, ObjectLabel, Sample
from sim2cam.errors import InputError
from sim2cam.files import write_bytes
from sim2cam.images import encode_png
from sim2cam.learn.torch_dataset import TorchDetectionDataset, collate


@pytest.fixture
def dataset(tmp_path):
    """Three pictures with two objects, a group, and none."""
    rgb = np.random.default_rng(0).integers(0, 256, (12, 16, 3), dtype=np.uint8)
    ids = np.zeros((12, 16), np.uint16)
    ids[2:6, 3:9], ids[5:9, 8:12] = 4, 7
    write_bytes(tmp_path / "a.png", encode_png(rgb))
    write_bytes(tmp_path / "ids.png", encode_channel("ids", ids))
    one = ObjectLabel("disc", (3.0, 2.0, 9.0, 6.0), 23.0, instance_id=4)
    two = ObjectLabel("square", (8.0, 5.0, 12.0, 9.0), 16.0, instance_id=7)
    objects = ((one, two), (replace(one, is_crowd=True), two), ())
    samples = tuple(
        Sample(f"{n}", tmp_path / "a.png", 16, 12, found, "sim", {"ids": tmp_path / "ids.png"})
        for n, found in enumerate(objects)
    )
    return Dataset(tmp_path, ("square", "disc"), samples), rgb, ids


def test_targets_are_those_of_torchvision(dataset):
    values, rgb, ids = dataset
    pictures = TorchDetectionDataset(values, with_masks=True)
    picture, target = pictures[0]
    assert picture.dtype == torch.float32
    assert np.array_equal((picture * 255).round().byte().permute(1, 2, 0).numpy(), rgb)
    assert target["boxes"].tolist() == [[3, 2, 9, 6], [8, 5, 12, 9]]
    assert target["labels"].tolist() == [2, 1]
    assert target["area"].tolist() == [23, 16]
    assert target["image_id"].tolist() == [0]
    assert np.array_equal(target["masks"].numpy(), np.stack([ids == 4, ids == 7]))
    kinds = {name: value.dtype for name, value in target.items()}
    assert kinds == {
        "boxes": torch.float32, "labels": torch.int64, "area": torch.float32,
        "iscrowd": torch.int64, "image_id": torch.int64, "masks": torch.uint8,
    }  # fmt: skip


def test_groups_are_left_out_and_empty_pictures_keep_their_shapes(dataset):
    pictures = TorchDetectionDataset(dataset[0], with_masks=True)
    assert pictures[1][1]["labels"].tolist() == [1]
    target = pictures[2][1]
    shapes = [tuple(target[name].shape) for name in ("boxes", "labels", "masks")]
    assert shapes == [(0, 4), (0,), (0, 12, 16)]


def test_a_loader_with_workers_gives_the_same(dataset):
    pictures = TorchDetectionDataset(dataset[0])
    loader = DataLoader(pictures, batch_size=2, collate_fn=collate, num_workers=1)
    batches = list(loader)
    assert [len(images) for images, _ in batches] == [2, 1]
    for number, target in enumerate(target for _, targets in batches for target in targets):
        for name, value in pictures[number][1].items():
            assert torch.equal(value, target[name])


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"objects": None}, "image 0 has no labels. Label it, or leave it out."),
        ({"channels": {}}, "image 0 has no ids and no masks. Set with_masks=False."),
    ],
)
def test_what_cannot_be_learned_from_is_refused(dataset, change, problem):
    values = dataset[0]
    broken = replace(values, samples=(replace(values.samples[0], **change),))
    with pytest.raises(InputError) as caught:
        TorchDetectionDataset(broken, with_masks=True)
    assert str(caught.value) == f"{values.root}: {problem}"
