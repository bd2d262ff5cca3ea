"""Pictures of films that follow one another, to be changed alike."""

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
"""How soon a place whose own colour changes does not count, as Lai and others have it."""

_MAX_CACHED_FLOWS = 64  # decoded


class FramePairSource:
    """Cuts patches at the same places of two pictures of a film, the second right after the first.

    Args:
        dataset: renders, of which some are of films.
        patch_source: of their patches.

    Raises:
        InputError: there are no two such pictures with the flow between them.
    """

    def __init__(self, dataset: Dataset, patch_source: PatchSource) -> None:
        samples = dataset.samples
        self._later_indices = [
            number
            for number, (first, second) in enumerate(itertools.pairwise(samples), 1)
            if count_frames_between(first, second) == 1 and "flow_backward" in second.channels
        ]
        if not self._later_indices:
            raise InputError(
                dataset.root,
                "holds no two pictures of a film that follow one another, with the flow between them. "
                "Render with film and the channel flow_backward, or set flow_weight = 0.",
            )
        self._samples = samples
        self._patch_source = patch_source
        self._read_cached_flow = lru_cache(maxsize=_MAX_CACHED_FLOWS)(self._read_flow)

    def sample_frame_pairs(
        self, rng: np.random.Generator, side: int, count: int, channels: int
    ) -> FramePairPatches:
        """Return some pairs of square patches; the noise of a pair is the same, as in films.

        Args:
            rng: of the draws.
            side: of the patches, pixels.
            count: of the pairs.
            channels: of the generator's buffers.

        Raises:
            InputError: a picture or its flow cannot be read.
        """
        places = [self._sample_location(rng, side) for _ in range(count)]
        flows = [
            _crop_flow(self._read_cached_flow(place.image_index), place, side) for place in places
        ]
        noise = rng.standard_normal((count, 1, side, side), np.float32)
        earlier, later = (
            stack_patches(
                [
                    self._patch_source.crop(p._replace(image_index=p.image_index - back), side)
                    for p in places
                ],
                noise,
                channels,
            )
            for back in (1, 0)
        )
        return FramePairPatches(earlier, later, torch.from_numpy(np.stack(flows)))

    def _sample_location(self, rng: np.random.Generator, side: int) -> PatchLocation:
        number = self._later_indices[int(rng.integers(len(self._later_indices)))]
        sample = self._samples[number]
        top, left = (
            int(rng.integers(max(length - side, 0) + 1)) for length in (sample.height, sample.width)
        )
        return PatchLocation(number, top, left, is_flipped=False)

    def _read_flow(self, index: int) -> NDArray[np.float32]:
        sample = self._samples[index]
        flow = read_buffer(sample, "flow_backward", (sample.height, sample.width))
        assert flow is not None  # the channel is there
        return flow.astype(np.float32)


def flow_loss(frame_pairs: FramePairPatches, earlier: Tensor, later: Tensor) -> Tensor:
    """Return how far translations are from the ones before, where both show the same point.

    The mean distance of colours, the earlier ones brought to the later ones' places by the renderer's flow,
    where that is seen in both patches; what changes its own colour counts less, by exp(-50 d²) of its
    distance d in the renders (Lai et al. 2018, "Learning blind video temporal consistency", eq. 2).

    Args:
        frame_pairs: the renders.
        earlier, later: their translations (n, 3, side, side), 0 to 1.
    """
    moved = warp_by_flow(torch.cat([frame_pairs.earlier.rgb, earlier], 1), frame_pairs.flow[:, :2])
    source, made = moved[:, :3], moved[:, 3:]
    same = (frame_pairs.later.rgb - source).square().sum(1)
    weight = frame_pairs.covisible_mask * torch.exp(-SHARPNESS * same)
    return (weight * (later - made).abs().mean(1)).sum() / reduce_divisor(
        frame_pairs.covisible_mask.sum()
    )


def warp_by_flow(images: Tensor, flow_px: Tensor) -> Tensor:
    """Return pictures (n, c, h, w) as they are, at each pixel, where a flow leads from it.

    Args:
        images: what is looked up, between pixels linearly.
        flow_px: (n, 2, h, w), right and down.
    """
    height, width = images.shape[2:]
    down, right = torch.meshgrid(
        torch.arange(height, device=images.device, dtype=torch.float32),
        torch.arange(width, device=images.device, dtype=torch.float32),
        indexing="ij",
    )
    x, y = right + flow_px[:, 0], down + flow_px[:, 1]
    places = torch.stack([2 * x / (width - 1) - 1, 2 * y / (height - 1) - 1], -1)
    found: Tensor = functional.grid_sample(
        images, places, mode="bilinear", padding_mode="border", align_corners=True
    )
    return found


def _crop_flow(
    flow: NDArray[np.float32], location: PatchLocation, side: int
) -> NDArray[np.float32]:
    """Return the flow of a patch (3, side, side): right, down, and 1 where its end is in the patch too."""
    cut = np.zeros((side, side, 3), np.float32)
    found = flow[location.top : location.top + side, location.left : location.left + side]
    cut[: found.shape[0], : found.shape[1]] = found
    y, x = np.mgrid[:side, :side]
    ends = np.stack([x + cut[..., 0], y + cut[..., 1]])
    is_inside = ((ends >= 0) & (ends <= side - 1)).all(0)
    cut[..., 2] = (cut[..., 2] == FLOW_VISIBLE) & is_inside
    return np.ascontiguousarray(cut.transpose(2, 0, 1))
