"""Consecutive frames of sequences and the temporal consistency loss."""

from __future__ import annotations

import itertools
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from sim2cam.adapt.transfers.transfer import read_buffer
from sim2cam.adapt.translation import count_frames_between
from sim2cam.adapt.translator.patches import (
    FramePairPatches,
    PatchLocation,
    PatchSource,
    stack_patches,
)
from sim2cam.data.channels import FLOW_VISIBLE
from sim2cam.data.sample import Dataset
from sim2cam.errors import InputError
from sim2cam.learn.distributed import reduce_divisor

SHARPNESS = 50.0
"""Sharpness of the weight by colour change in the source (Lai et al., 2018)."""

_MAX_CACHED_FLOWS = 64  # decoded flows


class FramePairSource:
    """Source of patches at the same location of two consecutive frames.

    Args:
        dataset: renders, some of them frames of sequences.
        patch_source: source of their patches.

    Raises:
        InputError: no two consecutive frames have flow between them.
    """

    def __init__(self, dataset: Dataset, patch_source: PatchSource) -> None:
        samples = dataset.samples
        self._later_indices = [
            index
            for index, (first, second) in enumerate(itertools.pairwise(samples), 1)
            if count_frames_between(first, second) == 1 and "flow_backward" in second.channels
        ]
        if not self._later_indices:
            raise InputError(
                dataset.root,
                "has no two consecutive frames of a sequence with flow between them. Render sequences with the "
                "channel flow_backward, or set flow_weight = 0.",
            )
        self._samples = samples
        self._patch_source = patch_source
        self._read_cached_flow = lru_cache(maxsize=_MAX_CACHED_FLOWS)(self._read_flow)

    def sample_frame_pairs(
        self, rng: np.random.Generator, side: int, count: int, channels: int
    ) -> FramePairPatches:
        """Sample pairs of square patches; both patches of a pair get the same noise.

        Args:
            channels: channels of the generator's buffers.

        Raises:
            InputError: an image or its flow cannot be read.
        """
        locations = [self._sample_location(rng, side) for _ in range(count)]
        flows = [
            _crop_flow(self._read_cached_flow(location.image_index), location, side)
            for location in locations
        ]
        noise = rng.standard_normal((count, 1, side, side), np.float32)
        earlier, later = (
            stack_patches(
                [
                    self._patch_source.crop(
                        location._replace(image_index=location.image_index - offset), side
                    )
                    for location in locations
                ],
                noise,
                channels,
            )
            for offset in (1, 0)
        )
        return FramePairPatches(earlier, later, torch.from_numpy(np.stack(flows)))

    def _sample_location(self, rng: np.random.Generator, side: int) -> PatchLocation:
        index = self._later_indices[int(rng.integers(len(self._later_indices)))]
        sample = self._samples[index]
        top, left = (
            int(rng.integers(max(length - side, 0) + 1)) for length in (sample.height, sample.width)
        )
        return PatchLocation(index, top, left, is_flipped=False)

    def _read_flow(self, index: int) -> NDArray[np.float32]:
        sample = self._samples[index]
        flow = read_buffer(sample, "flow_backward", (sample.height, sample.width))
        assert flow is not None  # later indices have the channel
        return flow.astype(np.float32)


def flow_loss(frame_pairs: FramePairPatches, earlier: Tensor, later: Tensor) -> Tensor:
    """Return the temporal consistency loss of translated frame pairs.

    It is the mean colour distance between the later translation and the earlier one warped by the renderer's flow,
    over pixels that both patches show. Pixels whose colour changes in the renders are weighted by exp(-50 d²) of
    their colour distance d (Lai et al., 2018, "Learning blind video temporal consistency", eq. 2).

    Args:
        earlier, later: their translations (n, 3, side, side), 0 to 1.
    """
    warped = warp_by_flow(torch.cat([frame_pairs.earlier.rgb, earlier], 1), frame_pairs.flow[:, :2])
    warped_source, warped_translation = warped[:, :3], warped[:, 3:]
    squared_distance = (frame_pairs.later.rgb - warped_source).square().sum(1)
    weight = frame_pairs.covisible_mask * torch.exp(-SHARPNESS * squared_distance)
    return (weight * (later - warped_translation).abs().mean(1)).sum() / reduce_divisor(
        frame_pairs.covisible_mask.sum()
    )


def warp_by_flow(images: Tensor, flow_px: Tensor) -> Tensor:
    """Warp images (n, c, h, w) by backward flow, with bilinear interpolation.

    Args:
        images: images to sample from.
        flow_px: (n, 2, h, w), right and down.
    """
    height, width = images.shape[2:]
    rows, columns = torch.meshgrid(
        torch.arange(height, device=images.device, dtype=torch.float32),
        torch.arange(width, device=images.device, dtype=torch.float32),
        indexing="ij",
    )
    x, y = columns + flow_px[:, 0], rows + flow_px[:, 1]
    grid = torch.stack([2 * x / (width - 1) - 1, 2 * y / (height - 1) - 1], -1)
    warped: Tensor = functional.grid_sample(
        images, grid, mode="bilinear", padding_mode="border", align_corners=True
    )
    return warped


def _crop_flow(
    flow: NDArray[np.float32], location: PatchLocation, side: int
) -> NDArray[np.float32]:
    """Return the flow of a patch (3, side, side): right, down, and 1 if its target is visible in the patch."""
    crop = np.zeros((side, side, 3), np.float32)
    visible_flow = flow[location.top : location.top + side, location.left : location.left + side]
    crop[: visible_flow.shape[0], : visible_flow.shape[1]] = visible_flow
    y, x = np.mgrid[:side, :side]
    targets = np.stack([x + crop[..., 0], y + crop[..., 1]])
    is_inside = ((targets >= 0) & (targets <= side - 1)).all(0)
    crop[..., 2] = (crop[..., 2] == FLOW_VISIBLE) & is_inside
    return np.ascontiguousarray(crop.transpose(2, 0, 1))
