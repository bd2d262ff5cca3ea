"""Going on from the weights of another training, on other data."""

from __future__ import annotations

import hashlib
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

_LAYER_DEPTHS = {"neck": 1, "backbone.stages.2": 2, "backbone.stages.1": 3,
           "backbone.stages.0": 4, "backbone.stem": 5, "upsampling": 1, "backbone.coarse": 2, "backbone.fine": 3,
           "model.backbone": 1}  # fmt: skip
"""How many steps below the heads layers are, by the beginnings of their names."""


@dataclass(frozen=True)
class InitialWeights:
    """Weights that a training begins with.

    Attributes:
        path: of their file.
        detector: what they make.
        record: what the card says of them.
    """

    path: Path
    detector: AnyDetector
    record: InitialWeightsRecord

    @property
    def card(self) -> DetectorCard:
        """What is known of the weights."""
        return self.detector.card

    def check_objects(
        self, objects: Mapping[str, ObjectGeometry], keypoints: Mapping[str, tuple[str, ...]]
    ) -> None:
        """Refuse weights that find the poses or keypoints of other objects than the data have.

        Args:
            objects: of the data, by category; empty without poses.
            keypoints: of the data, by category; empty without keypoints.

        Raises:
            CheckpointError: naming the category.
        """
        for category, known in objects.items():
            if not known.matches(self.card.objects[category]):
                raise CheckpointError(
                    self.path,
                    f"finds poses of objects of category '{category}' that are of another size than "
                    "those of the data, or look the same after other turns. Name other weights.",
                )
        for category, names in keypoints.items():
            found = self.card.keypoints[category]
            if set(names) != set(found):
                raise CheckpointError(
                    self.path,
                    f"finds the keypoints {', '.join(found) or 'none'} of category '{category}', but "
                    f"the data have {', '.join(names) or 'none'}. Name other weights.",
                )


def load_initial_weights(
    path: Path, categories: tuple[str, ...], config: TrainConfig
) -> InitialWeights:
    """Return the weights that a training begins with.

    Args:
        path: of the weights.
        categories: of the data, in any order.
        config: of the training.

    Raises:
        CheckpointError: a file is missing or broken, or the weights are of another architecture, of
            other categories, or learned something else.
    """
    detector = load_detector(path)
    card = detector.card
    if card.architecture != config.architecture:
        raise _make_mismatch_error(
            path, "architecture", f'"{card.architecture}"', f'"{config.architecture}"'
        )
    if set(card.categories) != set(categories):
        raise CheckpointError(
            path,
            f"finds {', '.join(card.categories)}, but the data are of {', '.join(categories)}. Rename them with "
            "--map, leave out others with --ignore-unmatched, add those that no picture shows to the data's list of "
            "categories, or name weights of the same categories.",
        )
    learned = {
        "poses": bool(card.objects),
        "keypoints": bool(card.keypoints),
        "masks": card.masks,
        "amodal": card.is_amodal,
        "roi_classifier": card.roi_classifier,
    }
    for name, was in learned.items():
        if was != getattr(config, name):
            raise _make_mismatch_error(path, name, str(was).lower(), str(not was).lower())
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    before = card.initial_weights.data if card.initial_weights else ()
    return InitialWeights(
        path, detector, InitialWeightsRecord(path.name, digest, (*before, *card.data))
    )


def compute_lr_scale(name: str, fine_tuning: FineTuning | None) -> float:
    """Return the learning rate of a parameter of the detector, as a share of the training's.

    Args:
        name: of the parameter.
        fine_tuning: None of a training that begins anew.
    """
    if fine_tuning is None or fine_tuning.residual:
        return 1.0
    depth = next((d for layer, d in _LAYER_DEPTHS.items() if name.startswith(f"{layer}.")), 0)
    return fine_tuning.head_lr_scale * fine_tuning.layer_decay**depth


def copy_weights(network: nn.Module, source_network: nn.Module) -> None:
    """Give a network the weights of another one; a residual head that that does not have stays."""
    network.load_state_dict(network.state_dict() | source_network.state_dict())


def freeze_except_residual(network: DetectorNetwork) -> None:
    """Let nothing of a network learn but its residual heads."""
    network.requires_grad_(requires_grad=False)
    for head in list_residual_heads(network):
        head.requires_grad_(requires_grad=True)


def _make_mismatch_error(
    path: Path, name: str, trained_value: str, configured_value: str
) -> CheckpointError:
    return CheckpointError(
        path,
        f"was trained with {name} = {trained_value}, not {configured_value}. Set {name} = {trained_value} in the recipe's [train], or "
        "name other weights.",
    )
