"""Losses of the residual translator."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from sim2cam.adapt.translator.discriminator import MultiScaleDiscriminator
from sim2cam.images import LUMA_WEIGHTS
from sim2cam.learn.distributed import reduce_divisor

CHANCE_HINGE_LOSS = 2.0
"""``discriminator_hinge_loss`` if all scores are 0."""

WINDOW_PX = 9
"""Side of the windows of the structure losses."""

_MIN_CONTRAST = 0.02  # least standard deviation of a channel in a window that counts
_CONTRAST_TOLERANCE = (
    3 / 255
)  # of added or lost structure; half of what certificates allow for objects
_SMOOTHING_PX = 3  # box filter before the comparison, so that noise is free
_EPSILON = 1 / 255  # of the Charbonnier penalty: one 8-bit level


def discriminator_hinge_loss(real: Sequence[Tensor], fake: Sequence[Tensor]) -> Tensor:
    """Return the hinge loss of scores (n, 1, h, w) of real images and translations, averaged over scales."""
    scale_losses = [
        functional.relu(1.0 - real_scores).mean() + functional.relu(1.0 + fake_scores).mean()
        for real_scores, fake_scores in zip(real, fake, strict=True)
    ]
    return torch.stack(scale_losses).mean()


def generator_hinge_loss(fake: Sequence[Tensor]) -> Tensor:
    """Return the adversarial loss of the scores (n, 1, h, w) of translations, averaged over scales."""
    return -torch.stack([scores.mean() for scores in fake]).mean()


def gradient_penalty(discriminator: MultiScaleDiscriminator, real: Tensor) -> Tensor:
    """Return the R1 penalty (Mescheder et al., 2018): squared gradient of the mean score at real images."""
    images = real.detach().requires_grad_(True)
    # .forward, because a compiled module cannot be differentiated twice
    scores = [
        scores_of_scale.mean(dim=(1, 2, 3)).sum()
        for scores_of_scale in discriminator.forward(images)
    ]
    (gradient,) = torch.autograd.grad(torch.stack(scores).mean(), images, create_graph=True)
    return gradient.square().sum(dim=(1, 2, 3)).mean()


def structure_loss(before: Tensor, after: Tensor, *, window_px: int = WINDOW_PX) -> Tensor:
    """Return 1 minus the local correlation of each channel, averaged over windows with contrast in ``before``.

    It is zero for changes of brightness and positive changes of contrast. It grows if edges move, vanish, invert or
    get a halo. Flat regions do not count, so texture and noise may appear there.

    Args:
        before, after: (n, 3, h, w), 0 to 1.
        window_px: side of the windows, odd.
    """
    x, y = before, after
    mean_x, variance_x = _compute_window_moments(x, window_px)
    mean_y, variance_y = _compute_window_moments(y, window_px)
    covariance = _box_filter(x * y, window_px) - mean_x * mean_y
    correlation = covariance / (variance_x * variance_y + 1e-10).sqrt()
    mask = _mask_contrast(variance_x)
    return ((1.0 - correlation) * mask).sum() / reduce_divisor(mask.sum())


def structure_residual_loss(before: Tensor, after: Tensor) -> Tensor:
    """Return the contrast of the strongest added or lost structure beyond ``_CONTRAST_TOLERANCE``.

    It corresponds to ``added_structure_levels`` and ``lost_structure_levels`` of a certificate: the standard deviation
    of smoothed luma in a window, times the fraction not explained by the other image's window. The worst window of
    each image counts, since it decides about rejection; ``structure_loss`` is a mean.

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
    """Return the number of windows over which ``structure_loss`` of images (n, 3, h, w) averages."""
    return _mask_contrast(_compute_window_moments(before, WINDOW_PX)[1]).sum()


def range_loss(unclamped: Tensor) -> Tensor:
    """Return the mean distance of values (n, 3, h, w) from the range 0 to 1."""
    return (functional.relu(unclamped - 1.0) + functional.relu(-unclamped)).mean()


def paired_loss(unclamped: Tensor, real: Tensor, registration_mask: Tensor) -> Tensor:
    """Return the mean Charbonnier penalty between translations and their paired real images.

    The penalty (Charbonnier et al., 1994) grows linearly, so that differences in content, such as shadows and
    specks, do not dominate.

    Args:
        unclamped: translations (n, 3, h, w) before clamping.
        real: (n, 3, h, w), 0 to 1.
        registration_mask: (n, 1, h, w), weights of the pixels; the loss is 0 if all are 0.
    """
    penalty = ((unclamped - real).square() + _EPSILON**2).sqrt() - _EPSILON
    return (penalty.mean(dim=1, keepdim=True) * registration_mask).sum() / reduce_divisor(
        registration_mask.sum()
    )


def _compute_window_moments(values: Tensor, window_px: int) -> tuple[Tensor, Tensor]:
    """Return the means and variances (n, c, h', w') of all windows."""
    mean = _box_filter(values, window_px)
    return mean, (_box_filter(values * values, window_px) - mean**2).clamp(min=0.0)


def _mask_contrast(variance: Tensor) -> Tensor:
    """Return 1 for windows with contrast, else 0."""
    return (variance > _MIN_CONTRAST**2).to(variance.dtype)


def _box_filter(values: Tensor, window_px: int) -> Tensor:
    """Return the means (n, c, h', w') of all windows; faster than ``avg_pool2d``."""
    rows = _sliding_sum(values, 2, window_px)
    return _sliding_sum(rows, 3, window_px) / window_px**2


def _sliding_sum(values: Tensor, dim: int, count: int) -> Tensor:
    """Return sliding sums of ``count`` neighbours along a dimension, by recursive halving."""
    if count == 1:
        return values
    half_sums, length = _sliding_sum(values, dim, count // 2), values.shape[dim] - count + 1
    sums = half_sums.narrow(dim, 0, length) + half_sums.narrow(dim, count // 2, length)
    return sums + values.narrow(dim, count - 1, length) if count % 2 else sums
