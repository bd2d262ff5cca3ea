"""Losses of unsupervised domain adaptation, and AdaBN."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from sim2cam.learn.distributed import all_reduce_sum, get_group_size
from sim2cam.models.losses.detection import TargetTensors, detector_losses, total_loss
from sim2cam.models.network.decoding import decode_maps
from sim2cam.models.network.detector import STRIDE_PX, DetectionMaps, DetectorNetwork, is_peak
from sim2cam.models.network.targets import DetectorTargets, make_targets, stack_targets

OBJECTS_PER_CROP = 8  # for the instance-level discriminator
DISCRIMINATOR_CHANNELS = 32
ADABN_CROPS = 512  # at least, for batch-norm statistics
CORAL_WEIGHT = 10.0
GRADIENT_REVERSAL_SCALE = 0.1  # as in Chen et al. 2018

MIN_TEACHER_SCORE = 0.6
"""Score from which a teacher's detection becomes a label."""

MIN_TEACHER_IGNORE_SCORE = 0.1
"""Score from which a teacher's detection becomes an ignored region."""


class DomainDiscriminator(nn.Module):
    """Discriminator of target and labelled images, per cell and per object.

    Image and instance level of Chen et al. (2018, "Domain Adaptive Faster R-CNN") without consistency
    regularization.

    Args:
        channels: channels of the features.
        generator: random generator of the initial weights, on the CPU.
    """

    def __init__(self, channels: int, generator: torch.Generator) -> None:
        super().__init__()
        self.image_head = _build_discriminator_head(channels)
        self.instance_head = _build_discriminator_head(channels)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu", generator=generator)
                assert module.bias is not None
                nn.init.zeros_(module.bias)

    def losses(
        self, features: Tensor, heatmap: Tensor, n_labelled: int, strength: float
    ) -> dict[str, Tensor]:
        """Return the mean cross-entropies ``domain_image`` and ``domain_instance`` of the discriminator.

        The gradient is reversed for the features (Ganin et al. 2016, "Domain-Adversarial Training of Neural
        Networks").

        Args:
            features: features of images (n, c, h, w).
            heatmap: heatmap logits (n, h, w), whose highest peaks count as objects.
            n_labelled: number of labelled images, which come first; the others are target images.
            strength: scale of the reversed gradient.
        """
        reversed_features = reverse_gradient(features, strength)
        objects = gather_peak_features(reversed_features, heatmap)
        logits_by_name = {
            "domain_image": self.image_head(reversed_features),
            "domain_instance": self.instance_head(objects),
        }
        return {name: _domain_loss(logits, n_labelled) for name, logits in logits_by_name.items()}


def adaptation_losses(
    features: Tensor,
    maps: DetectionMaps,
    n_labelled: int,
    *,
    strength: float,
    discriminator: DomainDiscriminator | None,
    teacher_maps: DetectionMaps | None,
) -> dict[str, Tensor]:
    """Return the adaptation losses of a step.

    These are ``domain_image`` and ``domain_instance``, or ``teacher``, or ``coral``.

    Args:
        features: features of labelled images, then of target images (n, c, h, w).
        discriminator: discriminator of domain-adversarial training; None without.
        teacher_maps: output maps of the mean teacher for the target images; None without.
    """
    if discriminator is not None:
        return discriminator.losses(
            features, maps.heatmap.float(), n_labelled, GRADIENT_REVERSAL_SCALE * strength
        )
    if teacher_maps is not None:
        return {
            "teacher": strength * teacher_loss(maps.select(slice(n_labelled, None)), teacher_maps)
        }
    source, target = flatten_cells(features[:n_labelled]), flatten_cells(features[n_labelled:])
    return {"coral": CORAL_WEIGHT * strength * coral_loss(source, target)}


def compute_strength(step: int, steps: int) -> float:
    """Return the weight of the adaptation at a step, rising from 0 to nearly 1 in the first half.

    It is 2 / (1 + exp(-10 p)) - 1 at progress p (Ganin et al. 2016).
    """
    return 2 / (1 + math.exp(-10 * step / steps)) - 1


def coral_loss(source_features: Tensor, target_features: Tensor) -> Tensor:
    """Return the distance between the covariances of two sets of features (n, d) and (m, d).

    It is the squared Frobenius distance divided by 4 d² (Sun and Saenko 2016, "Deep CORAL", equation 1).
    """
    difference = _compute_covariance(source_features) - _compute_covariance(target_features)
    return difference.square().sum() / (4 * source_features.shape[1] ** 2)


def flatten_cells(features: Tensor) -> Tensor:
    """Flatten the features of images (n, c, h, w) to those of cells (n h w, c)."""
    return features.permute(0, 2, 3, 1).flatten(0, 2)


def reverse_gradient(values: Tensor, strength: float) -> Tensor:
    """Return the same values with gradients multiplied by ``-strength``."""
    return (1 + strength) * values.detach() - strength * values


def gather_peak_features(features: Tensor, heatmap: Tensor) -> Tensor:
    """Return the features at the highest heatmap peaks of each image, (n, c, ``OBJECTS_PER_CROP``, 1).

    Args:
        features: features of images (n, c, h, w).
        heatmap: heatmap logits (n, h, w).
    """
    heatmap = heatmap.detach()
    peak_values = torch.where(is_peak(heatmap), heatmap, -torch.inf).flatten(1)
    indices = peak_values.topk(OBJECTS_PER_CROP).indices[:, None].expand(-1, features.shape[1], -1)
    return features.flatten(2).gather(2, indices)[..., None]


def teacher_loss(student_maps: DetectionMaps, teacher_maps: DetectionMaps) -> Tensor:
    """Return the loss of a student's maps against a teacher's detections in other views of the same crops.

    Confident boxes and categories are labels, uncertain ones are ignored, and crops without a confident detection
    have no loss. Mean teacher (Tarvainen and Valpola 2017) with pseudo-labels for detection (Deng et al. 2021,
    "Unbiased Mean Teacher").

    Args:
        teacher_maps: output maps of the teacher; they get no gradient.
    """
    count, height, width = student_maps.heatmap.shape
    size_px = (height * STRIDE_PX, width * STRIDE_PX)
    crop_targets = [
        make_teacher_targets(teacher_maps.select(slice(i, i + 1)), size_px) for i in range(count)
    ]
    targets = TargetTensors.from_targets(stack_targets(crop_targets), student_maps.heatmap.device)
    return total_loss(detector_losses(student_maps, targets))


@torch.no_grad()
def make_teacher_targets(maps: DetectionMaps, size_px: tuple[int, int]) -> DetectorTargets:
    """Return the targets for one crop from a teacher's maps.

    Args:
        size_px: height and width of the crop.
    """
    detections = decode_maps(maps)
    limits = np.tile(size_px[::-1], 2)
    boxes = detections.boxes.double().numpy().clip(0, limits)
    scores = detections.scores.numpy()
    is_confident = scores >= MIN_TEACHER_SCORE
    ignored = boxes[~is_confident & (scores >= MIN_TEACHER_IGNORE_SCORE)]
    if not is_confident.any():
        ignored = np.array([[0, 0, *limits[:2]]], np.float64)
    return make_targets(
        boxes[is_confident], detections.categories.numpy()[is_confident], ignored, size_px
    )


@torch.no_grad()
def adapt_batch_norm(
    network: DetectorNetwork, crops: Iterable[NDArray[np.uint8]]
) -> dict[str, Tensor]:
    """Return the state dict of a network with batch-norm statistics of target images.

    AdaBN (Li et al. 2016, "Revisiting Batch Normalization for Practical Domain Adaptation") with means over
    batches. The network itself does not change.

    Args:
        crops: batches of target crops (n, h, w, 3), RGB.
    """
    adapted = copy.deepcopy(network).train()
    if adapted.roi_network is not None:
        adapted.roi_network.eval()  # not applied here
    for module in adapted.modules():
        if isinstance(module, nn.BatchNorm2d) and module.training:
            module.reset_running_stats()
            module.momentum = None  # cumulative mean over batches
    for rgb in crops:
        adapted(torch.from_numpy(rgb).to(network.mean.device).permute(0, 3, 1, 2))
    return adapted.state_dict()


def _compute_covariance(features: Tensor) -> Tensor:
    """Return the covariance (d, d) of features (n, d) over all processes."""
    if get_group_size() == 1:
        return torch.cov(features.T)
    count = len(features) * get_group_size()
    centred = features - all_reduce_sum(features.sum(0)) / count
    return all_reduce_sum(centred.T @ centred) / (count - 1)


def _build_discriminator_head(channels: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, DISCRIMINATOR_CHANNELS, 1),
        nn.ReLU(inplace=True),
        nn.Conv2d(DISCRIMINATOR_CHANNELS, 1, 1),
    )


def _domain_loss(logits: Tensor, n_labelled: int) -> Tensor:
    """Return the mean cross-entropy of domain logits (n, ...), labelled images first."""
    is_target = torch.zeros_like(logits)
    is_target[n_labelled:] = 1
    return functional.binary_cross_entropy_with_logits(logits, is_target)
