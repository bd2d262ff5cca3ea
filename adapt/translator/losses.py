"""What the translator is trained by; every loss is a scalar to be made small."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from sim2cam.adapt.translator.discriminator import MultiScaleDiscriminator
from sim2cam.images import LUMA_WEIGHTS
from sim2cam.learn.distributed import reduce_divisor

CHANCE_HINGE_LOSS = 2.0
"""``discriminator_hinge_loss`` of verdicts that are all 0."""

WINDOW_PX = 9
"""Side of the windows of ``structure_loss``."""

_MIN_CONTRAST = 0.02  # standard deviation of a channel from which a window counts
_CONTRAST_TOLERANCE = (
    3 / 255
)  # contrast that a picture may have alone: half of what certificates allow objects
_SMOOTHING_PX = 3  # side of the squares that are averaged before, so that noise is free
_EPSILON = 1 / 255  # a difference up to which the penalty is a parabola: one level of 8 bits


def discriminator_hinge_loss(real: Sequence[Tensor], fake: Sequence[Tensor]) -> Tensor:
    """Return the hinge loss of verdicts (n, 1, h, w) about captures and translations, the mean of scales."""
    of_scales = [
        functional.relu(1.0 - captured).mean() + functional.relu(1.0 + made).mean()
        for captured, made in zip(real, fake, strict=True)
    ]
    return torch.stack(of_scales).mean()


def generator_hinge_loss(fake: Sequence[Tensor]) -> Tensor:
    """Return how little the translations pass as captures, by their verdicts (n, 1, h, w) at each scale."""
    return -torch.stack([made.mean() for made in fake]).mean()


def gradient_penalty(discriminator: MultiScaleDiscriminator, real: Tensor) -> Tensor:
    """Return R1 (Mescheder et al., 2018): the squared gradient at captures (n, 3, h, w), of the mean
    verdict of all scales.
    """
    watched = real.detach().requires_grad_(True)
    # not as it may be compiled: what is, is not differentiated twice
    verdicts = [one.mean(dim=(1, 2, 3)).sum() for one in discriminator.forward(watched)]
    (gradient,) = torch.autograd.grad(torch.stack(verdicts).mean(), watched, create_graph=True)
    return gradient.square().sum(dim=(1, 2, 3)).mean()


def structure_loss(before: Tensor, after: Tensor, *, window_px: int = WINDOW_PX) -> Tensor:
    """Return 1 minus the local correlation of each channel, where ``before`` has contrast.

    Zero for any change of brightness and positive change of contrast of a channel; grows when
    edges move, vanish, turn round or get a halo. Flat regions are free: texture and noise may
    appear there.

    Args:
        before, after: (n, 3, h, w), 0 to 1.
        window_px: side of the windows that are compared, odd.
    """
    x, y = before, after
    mean_x, variance_x = _compute_window_moments(x, window_px)
    mean_y, variance_y = _compute_window_moments(y, window_px)
    covariance = _box_filter(x * y, window_px) - mean_x * mean_y
    correlation = covariance / (variance_x * variance_y + 1e-10).sqrt()
    counts = _mask_contrast(variance_x)
    return ((1.0 - correlation) * counts).sum() / reduce_divisor(counts.sum())


def structure_residual_loss(before: Tensor, after: Tensor) -> Tensor:
    """Return the contrast of the strongest structure that one picture has and the other lacks, beyond what is free.

    Of brightness, without what is as fine as noise, much as a certificate tells ``added_structure_levels`` and
    ``lost_structure_levels``: the standard deviation in a window, times the share of it that the other's window does not
    explain. The worst window of each picture counts, either way, since it is by that one that pictures are
    rejected; ``structure_loss`` is a mean.

    Args:
        before, after: (n, 3, h, w), 0 to 1.
    """
    weights = before.new_tensor(LUMA_WEIGHTS).view(3, 1, 1)
    x, y = (
        _box_filter((rgb * weights).sum(1, keepdim=True), _SMOOTHING_PX) for rgb in (before, after)
    )
    (mean_x, variance_x), (mean_y, variance_y) = (
        _compute_window_moments(luma, WINDOW_PX) for luma in (x, y)
    )
    covariance = (_box_filter(x * y, WINDOW_PX) - mean_x * mean_y).clamp(min=0.0)
    explained = covariance.square() / (variance_x * variance_y + _EPSILON**4)
    unshared = [
        ((variance + 1e-8).sqrt() * (1.0 - explained)).amax(dim=(1, 2, 3))
        for variance in (variance_x, variance_y)
    ]
    return functional.relu(torch.stack(unshared) - _CONTRAST_TOLERANCE).mean()


def count_contrast_windows(before: Tensor) -> Tensor:
    """Return of how many windows ``structure_loss`` of pictures (n, 3, h, w) is the mean."""
    return _mask_contrast(_compute_window_moments(before, WINDOW_PX)[1]).sum()


def range_loss(unclamped: Tensor) -> Tensor:
    """Return the mean distance of values (n, 3, h, w) from the range 0 to 1."""
    return (functional.relu(unclamped - 1.0) + functional.relu(-unclamped)).mean()


def paired_loss(unclamped: Tensor, real: Tensor, registration_mask: Tensor) -> Tensor:
    """Return how far translations are from their captures, as the mean of Charbonnier's penalty.

    It grows as the distance, not as its square, so that what only one of a pair shows, as a shadow
    or a speck, does not outweigh the rest (Charbonnier et al., 1994).

    Args:
        unclamped: translations (n, 3, h, w), before they are cut to 0 to 1.
        real: (n, 3, h, w), 0 to 1.
        registration_mask: (n, 1, h, w), weights of the pixels; where all are 0, so is the loss.
    """
    penalty = ((unclamped - real).square() + _EPSILON**2).sqrt() - _EPSILON
    return (penalty.mean(dim=1, keepdim=True) * registration_mask).sum() / reduce_divisor(
        registration_mask.sum()
    )


def _compute_window_moments(values: Tensor, window_px: int) -> tuple[Tensor, Tensor]:
    """Return the means and the variances (n, c, h', w') of all windows."""
    mean = _box_filter(values, window_px)
    return mean, (_box_filter(values * values, window_px) - mean**2).clamp(min=0.0)


def _mask_contrast(variance: Tensor) -> Tensor:
    """Return 1 where a window of such variance counts, else 0."""
    return (variance > _MIN_CONTRAST**2).to(variance.dtype)


def _box_filter(values: Tensor, window_px: int) -> Tensor:
    """Return the means (n, c, h', w') of all windows; ``avg_pool2d`` took a third of a step for them."""
    rows = _sliding_sum(values, 2, window_px)
    return _sliding_sum(rows, 3, window_px) / window_px**2


def _sliding_sum(values: Tensor, dim: int, count: int) -> Tensor:
    """Return the sums of so many neighbours along a dimension, each from those of half as many."""
    if count == 1:
        return values
    half, places = _sliding_sum(values, dim, count // 2), values.shape[dim] - count + 1
    both = half.narrow(dim, 0, places) + half.narrow(dim, count // 2, places)
    return both + values.narrow(dim, count - 1, places) if count % 2 else both
