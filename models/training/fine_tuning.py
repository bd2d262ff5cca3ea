"""Fine-tuning from the weights of another training."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from sim2cam.data.known_objects import ObjectGeometry
from sim2cam.errors import CheckpointError
from sim2cam.models.card import DetectorCard, InitialWeightsRecord
from sim2cam.models.inference.detector import AnyDetector, load_detector
from sim2cam.models.network.detector import DetectorNetwork, list_residual_heads
from sim2cam.models.training.config import FineTuning, TrainConfig

_OTHER_DEPTHS = {
    "neck": 1,
    "upsampling": 1,
    "backbone.coarse": 2,
    "backbone.fine": 3,
    "model.backbone": 1,
}
"""Distance of layers from the heads, by name prefix; stem and stages of a backbone follow the neck."""


@dataclass(frozen=True)
class InitialWeights:
    """Initial weights of a training.

    Attributes:
        path: file of the weights.
        detector: detector with these weights.
        record: their record for the card.
    """

    path: Path
    detector: AnyDetector
    record: InitialWeightsRecord

    @property
    def card(self) -> DetectorCard:
        """Card of the weights."""
        return self.detector.card

    def check_objects(
        self, objects: Mapping[str, ObjectGeometry], keypoints: Mapping[str, tuple[str, ...]]
    ) -> None:
        """Raise ``CheckpointError`` if poses or keypoints are of other objects than those in the data.

        Args:
            objects: geometries in the data by category; empty without poses.
            keypoints: keypoint names in the data by category; empty without keypoints.
        """
        for category, geometry in objects.items():
            if not geometry.matches(self.card.objects[category]):
                raise CheckpointError(
                    self.path,
                    f"predicts poses of category '{category}' for objects of another size or symmetry than "
                    "those in the data. Choose other weights.",
                )
        for category, names in keypoints.items():
            trained_names = self.card.keypoints[category]
            if set(names) != set(trained_names):
                raise CheckpointError(
                    self.path,
                    f"predicts the keypoints {', '.join(trained_names) or 'none'} of category '{category}', but "
                    f"the data have {', '.join(names) or 'none'}. Choose other weights.",
                )


def load_initial_weights(
    path: Path, categories: tuple[str, ...], config: TrainConfig
) -> InitialWeights:
    """Load the initial weights of a training.

    Args:
        path: file of the weights.
        categories: categories of the data, in any order.
        config: settings of the training; the architecture is that of the weights.

    Raises:
        CheckpointError: if a file is missing or broken, or categories or tasks differ.
    """
    detector = load_detector(path)
    card = detector.card
    if set(card.categories) != set(categories):
        raise CheckpointError(
            path,
            f"predicts {', '.join(card.categories)}, but the data have {', '.join(categories)}. Rename them with "
            "--map, drop others with --ignore-unmatched, add categories without objects to the dataset's list, or "
            "choose other weights.",
        )
    trained_tasks = {
        "poses": bool(card.objects),
        "keypoints": bool(card.keypoints),
        "masks": card.masks,
        "amodal": card.is_amodal,
        "roi_classifier": card.roi_classifier,
    }
    for name, is_trained in trained_tasks.items():
        if is_trained != getattr(config, name):
            raise _make_mismatch_error(
                path, name, str(is_trained).lower(), str(not is_trained).lower()
            )
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    earlier_data = card.initial_weights.data if card.initial_weights else ()
    return InitialWeights(
        path, detector, InitialWeightsRecord(path.name, digest, (*earlier_data, *card.data))
    )


def compute_lr_scale(name: str, fine_tuning: FineTuning | None, n_stages: int) -> float:
    """Return the learning rate of a parameter relative to ``learning_rate``.

    Args:
        name: name of the parameter.
        fine_tuning: fine-tuning settings; None for training from scratch.
        n_stages: number of stages of the backbone.
    """
    if fine_tuning is None or fine_tuning.residual:
        return 1.0
    number = get_stage_number(name) if name.startswith("backbone.") else None
    depth = (
        next((d for layer, d in _OTHER_DEPTHS.items() if name.startswith(f"{layer}.")), 0)
        if number is None
        else n_stages + 2 - number
    )
    return fine_tuning.head_lr_scale * fine_tuning.layer_decay**depth


def get_stage_number(name: str) -> int | None:
    """Return 0 for a layer of a backbone's stem, i for one of its i-th stage, and None for others."""
    match = re.match(r"(?:roi_network\.)?backbone\.(?:stem|stages\.(\d+))\.", name)
    return None if match is None else int(match[1] or -1) + 1


def copy_weights(network: nn.Module, source_network: nn.Module) -> None:
    """Copy weights into a network; a residual head that the source lacks keeps its weights."""
    network.load_state_dict(network.state_dict() | source_network.state_dict())


def freeze_except_residual(network: DetectorNetwork) -> None:
    """Freeze all weights of a network except its residual heads."""
    network.requires_grad_(requires_grad=False)
    for head in list_residual_heads(network):
        head.requires_grad_(requires_grad=True)


def _make_mismatch_error(
    path: Path, name: str, trained_value: str, configured_value: str
) -> CheckpointError:
    return CheckpointError(
        path,
        f"was trained with {name} = {trained_value}, not {configured_value}. Set {name} = {trained_value} in "
        "the recipe's [train], or choose other weights.",
    )
