"""PyTorch dataset with targets for torchvision detection models."""

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
    """Labelled images and targets, for a DataLoader with ``collate``.

    Args:
        dataset: Dataset of ``read_dataset`` or ``read_real_images``.
        with_masks: Include masks, which requires label masks or the channel ``ids``.

    Raises:
        InputError: If an image has no labels, or no masks although requested.
    """

    def __init__(self, dataset: Dataset, *, with_masks: bool = False) -> None:
        for sample in dataset.samples:
            if sample.objects is None:
                raise InputError(
                    dataset.root, f"image {sample.name} has no labels. Label it, or leave it out."
                )
            labels = (label for label in sample.objects if not label.is_crowd)
            if with_masks and "ids" not in sample.channels and any(o.mask is None for o in labels):
                raise InputError(
                    dataset.root,
                    f"image {sample.name} has no ids and no masks. Set with_masks=False.",
                )
        self._dataset = dataset
        self._with_masks = with_masks

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self._dataset.samples)

    def __getitem__(self, index: int) -> Item:
        """Return an image and its target, without crowd regions.

        Returns:
            RGB image float32 (3, H, W) in [0, 1], and a target with ``boxes`` float32 (N, 4), xyxy in
            pixels; ``labels`` int64 (N,), from 1, since 0 is background; ``area`` float32 (N,), pixels;
            ``iscrowd`` int64 (N,), zeros; ``image_id`` int64 (1,), the index; and optionally ``masks``
            uint8 (N, H, W).

        Raises:
            InputError: If a file cannot be read.
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
    """Collate items into lists of images and targets, as torchvision models expect."""
    return [image for image, _ in items], [target for _, target in items]


def _stack_masks(sample: Sample) -> Tensor:
    """Return the masks (N, H, W) of all objects except crowd regions; unknown masks are empty."""
    masks = np.zeros((len(sample.objects or ()), sample.height, sample.width), np.uint8)
    for number, mask in enumerate(read_visible_masks(sample)):
        if mask is not None:
            masks[number] = mask
    return torch.from_numpy(masks[[not label.is_crowd for label in sample.objects or ()]])
