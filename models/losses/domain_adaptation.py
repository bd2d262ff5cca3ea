"""Bringing what a detector sees in captures without labels to what it sees in labelled data."""

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

OBJECTS_PER_CROP = 8  # of each crop, that the critic judges
DISCRIMINATOR_CHANNELS = 32
ADABN_CROPS = 512  # on which statistics of batch normalization are measured, at least
CORAL_WEIGHT = 10.0
GRADIENT_REVERSAL_SCALE = (
    0.1  # of the critic's gradient that reaches the features, as Chen and others have it
)

MIN_TEACHER_SCORE = 0.6
"""Score from which on what the teacher finds is learned."""

MIN_TEACHER_IGNORE_SCORE = 0.1
"""Score from which on what it finds is not unlearned."""


class DomainDiscriminator(nn.Module):
    """Tells features of captures from those of labelled data, cell by cell and object by object.

    The image and the instance level of Chen and others (2018, "Domain Adaptive Faster R-CNN"), without
    their consistency.

    Args:
        channels: of the features.
        generator: source of the initial weights, on the CPU.
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
        """Return how badly domains are told, ``domain_image`` and ``domain_instance``: mean cross-entropies.

        The critic learns to tell them, and the features the opposite (Ganin and others 2016,
        "Domain-Adversarial Training of Neural Networks").

        Args:
            features: of images (n, c, h, w).
            heatmap: logits of objects' centres (n, h, w), whose highest peaks are taken for objects.
            n_labelled: how many of the images, at the front, are labelled; the others are captures.
            strength: of the gradient that reaches the features.
        """
        shown = reverse_gradient(features, strength)
        objects = gather_peak_features(shown, heatmap)
        judged = {
            "domain_image": self.image_head(shown),
            "domain_instance": self.instance_head(objects),
        }
        return {name: _domain_loss(logits, n_labelled) for name, logits in judged.items()}


def adaptation_losses(
    features: Tensor,
    maps: DetectionMaps,
    n_labelled: int,
    *,
    strength: float,
    discriminator: DomainDiscriminator | None,
    teacher_maps: DetectionMaps | None,
) -> dict[str, Tensor]:
    """Return what captures add to the loss of a step: ``domain_image`` and
    ``domain_instance``, ``teacher`` or ``coral``.

    Args:
        features: of images, of which the first are labelled and the others captures (n, c, h, w).
        maps: of the same.
        n_labelled: how many are.
        strength: of the adaptation.
        discriminator: of domain-adversarial training; None otherwise.
        teacher_maps: what the teacher says of the captures; None without one.
    """
    if discriminator is not None:
        return discriminator.losses(
            features, maps.heatmap.float(), n_labelled, GRADIENT_REVERSAL_SCALE * strength
        )
    if teacher_maps is not None:
        return {
            "teacher": strength * teacher_loss(maps.select(slice(n_labelled, None)), teacher_maps)
        }
    first, second = flatten_cells(features[:n_labelled]), flatten_cells(features[n_labelled:])
    return {"coral": CORAL_WEIGHT * strength * coral_loss(first, second)}


def compute_strength(step: int, steps: int) -> float:
    """Return how much of an adaptation's full weight a step has, 0 at first, nearly 1 from a third on:
    2 / (1 + exp(-10 p)) - 1 after a share p of the steps (Ganin and others 2016).
    """
    return 2 / (1 + math.exp(-10 * step / steps)) - 1


def coral_loss(source_features: Tensor, target_features: Tensor) -> Tensor:
    """Return the distance between the covariances of two sets of features (n, d) and (m, d).

    It is their squared Frobenius distance over 4 d² (Sun and Saenko 2016, "Deep CORAL", eq. 1).
    """
    apart = _compute_covariance(source_features) - _compute_covariance(target_features)
    return apart.square().sum() / (4 * source_features.shape[1] ** 2)


def flatten_cells(features: Tensor) -> Tensor:
    """Return the features (n h w, c) of all cells of images (n, c, h, w)."""
    return features.permute(0, 2, 3, 1).flatten(0, 2)


def reverse_gradient(values: Tensor, strength: float) -> Tensor:
    """Return equal values through which gradients go turned around, times ``strength``."""
    return (1 + strength) * values.detach() - strength * values


def gather_peak_features(features: Tensor, heatmap: Tensor) -> Tensor:
    """Return the features (n, c, ``OBJECTS_PER_CROP``, 1) of images (n, c, h, w) where heat (n, h, w) peaks
    highest.
    """
    heatmap = heatmap.detach()
    height = torch.where(is_peak(heatmap), heatmap, -torch.inf).flatten(1)
    where = height.topk(OBJECTS_PER_CROP).indices[:, None].expand(-1, features.shape[1], -1)
    return features.flatten(2).gather(2, where)[..., None]


def teacher_loss(student_maps: DetectionMaps, teacher_maps: DetectionMaps) -> Tensor:
    """Return how far maps are from what a teacher found in other views of the same crops.

    Boxes and categories of which it is sure are learned as labels are, what it is not sure of is not
    unlearned, and crops in which it is sure of nothing teach nothing: the mean teacher of Tarvainen
    and Valpola (2017) with pseudo-labels for detection, as in Deng and others (2021, "Unbiased Mean
    Teacher").

    Args:
        student_maps: of the student.
        teacher_maps: of the teacher; no gradient comes here.
    """
    count, height, width = student_maps.heatmap.shape
    size_px = (height * STRIDE_PX, width * STRIDE_PX)
    lessons = [
        make_teacher_targets(teacher_maps.select(slice(i, i + 1)), size_px) for i in range(count)
    ]
    targets = TargetTensors.from_targets(stack_targets(lessons), student_maps.heatmap.device)
    return total_loss(detector_losses(student_maps, targets))


@torch.no_grad()
def make_teacher_targets(maps: DetectionMaps, size_px: tuple[int, int]) -> DetectorTargets:
    """Return what a teacher's maps of one crop teach.

    Args:
        maps: of one image.
        size_px: height and width of the crop.
    """
    found = decode_maps(maps)
    edges = np.tile(size_px[::-1], 2)
    boxes = found.boxes.double().numpy().clip(0, edges)
    scores = found.scores.numpy()
    is_sure = scores >= MIN_TEACHER_SCORE
    ignored = boxes[~is_sure & (scores >= MIN_TEACHER_IGNORE_SCORE)]
    if not is_sure.any():
        ignored = np.array([[0, 0, *edges[:2]]], np.float64)
    return make_targets(boxes[is_sure], found.categories.numpy()[is_sure], ignored, size_px)


@torch.no_grad()
def adapt_batch_norm(
    network: DetectorNetwork, crops: Iterable[NDArray[np.uint8]]
) -> dict[str, Tensor]:
    """Return a network's state with statistics of batch normalization that are those of captures.

    That is AdaBN (Li and others 2016, "Revisiting Batch Normalization for Practical Domain
    Adaptation"), with means over batches; nothing else changes, the network itself neither.

    Args:
        network: the detector.
        crops: batches of captures (n, h, w, 3), RGB.
    """
    measured = copy.deepcopy(network).train()
    if measured.roi_network is not None:
        measured.roi_network.eval()  # it sees no crops
    for module in measured.modules():
        if isinstance(module, nn.BatchNorm2d) and module.training:
            module.reset_running_stats()
            module.momentum = None  # the mean of all batches
    for rgb in crops:
        measured(torch.from_numpy(rgb).to(network.mean.device).permute(0, 3, 1, 2))
    return measured.state_dict()


def _compute_covariance(features: Tensor) -> Tensor:
    """Return the covariance (d, d) of features (n, d), in all processes together."""
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
    """Return the mean cross-entropy of logits (n, ...) of captures, of which the first are none."""
    is_capture = torch.zeros_like(logits)
    is_capture[n_labelled:] = 1
    return functional.binary_cross_entropy_with_logits(logits, is_capture)
