"""A data set as torch takes it, with targets in the form of torchvision's detection models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset as TorchDataset

from sim2cam.data.sample import Dataset, Sample
from sim2cam.data.silhouettes import read_visible_masks
from sim2cam.errors import InputError
from sim2cam.images import read_rgb

Item = tuple[Tensor, dict[str, Tensor]]


class TorchDetectionDataset(TorchDataset[Item]):
    """Labelled pictures by number; give ``collate`` to the DataLoader, with any number of workers.

    Args:
        dataset: from ``read_dataset`` or ``read_real_images``.
        with_masks: whether targets have masks, which needs those of the labels or the channel ``ids``.

    Raises:
        InputError: a picture without labels, or without masks where they are asked for.
    """

    def __init__(self, dataset: Dataset, *, with_masks: bool = False) -> None:
        for sample in dataset.samples:
            if sample.objects is None:
                raise InputError(dataset.root, f"image {sample.name} has no labels.")
            labels = (label for label in sample.objects if not label.is_crowd)
            if with_masks and "ids" not in sample.channels and any(o.mask is None for o in labels):
                raise InputError(dataset.root, f"image {sample.name} has no ids and no masks.")
        self._dataset = dataset
        self._with_masks = with_masks

    def __len__(self) -> int:
        """Return how many pictures there are."""
        return len(self._dataset.samples)

    def __getitem__(self, index: int) -> Item:
        """Return a picture and its target; groups (``is_crowd``) are left out.

        The picture is RGB, float32 (3, h, w) from 0 to 1. The target holds ``boxes`` float32 (n, 4),
        x0, y0, x1, y1 in pixels; ``labels`` int64 (n,), 1 for the first category, as 0 is the
        background; ``area`` float32 (n,), pixels; ``iscrowd`` int64 (n,), zeros; ``image_id`` int64
        (1,), the number; and where asked for ``masks`` uint8 (n, h, w).

        Raises:
            InputError: a file cannot be read.
        """
        sample = self._dataset.samples[index]
        objects = [label for label in sample.objects or () if not label.is_crowd]
        rgb = torch.tensor(read_rgb(sample.rgb)).permute(2, 0, 1).contiguous()
        numbers = [self._dataset.categories.index(label.category) + 1 for label in objects]
        target = {
            "boxes": torch.tensor([o.box_xyxy for o in objects], dtype=torch.float32).reshape(
                -1, 4
            ),
            "labels": torch.tensor(numbers, dtype=torch.int64),
            "area": torch.tensor([o.area_px for o in objects], dtype=torch.float32),
            "iscrowd": torch.zeros(len(objects), dtype=torch.int64),
            "image_id": torch.tensor([index]),
        }
        if self._with_masks:
            target["masks"] = _stack_masks(sample)
        return rgb.float() / 255, target


def collate(items: Sequence[Item]) -> tuple[list[Tensor], list[dict[str, Tensor]]]:
    """Return pictures and targets as two lists, which is how torchvision's models take them."""
    return [picture for picture, _ in items], [target for _, target in items]


def _stack_masks(sample: Sample) -> Tensor:
    """Return the masks (n, h, w) of all objects that are no groups; empty ones where unknown."""
    found = np.zeros((len(sample.objects or ()), sample.height, sample.width), np.uint8)
    for number, mask in enumerate(read_visible_masks(sample)):
        if mask is not None:
            found[number] = mask
    return torch.from_numpy(found[[not label.is_crowd for label in sample.objects or ()]])
