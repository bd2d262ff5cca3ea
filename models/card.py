"""Model card of a detector, stored next to its weights."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from sim2cam.data.known_objects import ObjectGeometry
from sim2cam.data.parsing import find_category_problem
from sim2cam.errors import CheckpointError, UsageError, suggest_name
from sim2cam.learn.weight_file import parse_card
from sim2cam.models.network.architectures import ARCHITECTURES
from sim2cam.models.network.detector import MEAN_RGB, STD_RGB, STRIDE_PX
from sim2cam.models.network.roi_crops import RoiView, select_roi_views
from sim2cam.models.network.torchvision_models import list_torchvision_architectures
from sim2cam.models.reliability.confidence import ScoreCalibration
from sim2cam.models.reliability.domain_shift import TrainingDomain
from sim2cam.models.reliability.ood import OodStatistics
from sim2cam.models.training.config import (
    MIN_CROP_PX,
    OMITTED_WHEN_UNSET,
    TrainConfig,
    compute_trained_input_scale,
)
from sim2cam.models.training.datasets import DatasetRecord
from sim2cam.version import __version__

_MAX_ENLARGEMENT = 32
"""Largest allowed scale of images or boxes in a card."""

_RENAMED_KEYS = {
    "magnification": "input_scale",
    "box_margin": "box_padding",
    "box_expansion": "box_padding",
    "reader": "roi_classifier",
    "start": "initial_weights",
    "captures": "target_images",
    "backdrops": "background_images",
    "looks": "evaluations",
    "scaling": "score_calibration",
    "pictures": "image_digests",
    "sizes_px": "box_size_range_px",
    "novelty": "ood_threshold",
}
"""Renamed keys of cards from earlier versions. Tensor names changed with them."""


@dataclass(frozen=True)
class OodThreshold:
    """Thresholds of the statistics that mark an image as out-of-distribution.

    Attributes:
        distance: threshold of ``compute_feature_distance``.
        false_positive_rate: largest share of in-distribution images with an object that exceed a threshold.
        images: number of images that the thresholds were measured on.
        measured_on: kind of these images: held out from the training data, or a validation set.
        tile_px: side of the training crops.
        uncertainty: threshold of ``compute_uncertainty``; None if too few of the images show an object.
    """

    distance: float
    false_positive_rate: float
    images: int
    measured_on: Literal["held-out images", "validation images"]
    tile_px: int
    uncertainty: float | None = None

    def __post_init__(self) -> None:
        """Raise ``UsageError`` if a threshold is not positive."""
        for name in ("distance", "tile_px", "uncertainty"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise UsageError(f"ood_threshold.{name} must be above 0, not {value}")

    def compute_ood_score(self, statistics: OodStatistics) -> float:
        """Return the larger ratio of a statistic to its threshold; above 1 means out-of-distribution."""
        uncertainty = 0.0 if self.uncertainty is None else statistics.uncertainty / self.uncertainty
        return max(statistics.distance / self.distance, uncertainty)


@dataclass(frozen=True)
class InitialWeightsRecord:
    """Record of a training's initial weights in a card.

    Attributes:
        name: name of the file.
        digest: SHA-256 of the file.
        data: datasets of their training, after those of their own initial weights.
    """

    name: str
    digest: str
    data: tuple[DatasetRecord, ...]


@dataclass(frozen=True)
class DetectorCard:
    """Model card of a detector.

    Attributes:
        architecture: key of ``ARCHITECTURES``, or name of a torchvision model.
        categories: names in the order of class indices.
        steps: number of training steps.
        config: settings of the training.
        data: records of the training datasets.
        licence: SPDX expression of the licences of training photographs and assets in training scenes; empty if
            unknown.
        metrics: scores by test set, in the format of ``bench --json``.
        input_scale: scale of images before the network, tuned on a validation set.
        box_padding: padding of boxes on each side relative to the longer side of the image, tuned on a validation
            set because people draw boxes looser than masks.
        objects: geometry by category for poses; empty without poses.
        keypoints: keypoint names by category; empty without keypoints.
        masks: whether the detector predicts masks.
        residual: whether the detector has a residual head.
        roi_classifier: whether categories are predicted from RoI crops.
        initial_weights: record of the initial weights; None for training from scratch.
        target_images: record of the unlabelled images of domain adaptation; None without.
        background_images: record of the background images; None without.
        evaluations: steps and AP50 on the validation set, of which the best weights were kept; empty for
            training with a fixed number of steps.
        score_calibration: calibration of confidences; None if not calibrated.
        image_digests: lowest digests of the training images (``sketch_digests``); empty if unknown.
        box_size_range_px: 5th and 95th percentile of the longer box sides in training, in pixels at the
            network's scale; None if unknown.
        training_domain: distributions in the training data; None if unknown, as for earlier weights.
        ood_threshold: thresholds of OOD detection; None if not measured. The feature distribution is stored
            with the weights.
        kind, format: type and format version of the file.
        version: version of sim2cam.
        stored_as: type of the floating-point tensors in the file.
        stride_px: side of a cell of the maps.
        mean_rgb, std_rgb: normalization of 8-bit pixels, equal to the network's buffers.
    """

    architecture: str
    categories: tuple[str, ...]
    steps: int
    config: dict[str, Any]
    data: tuple[DatasetRecord, ...]
    licence: str = ""
    metrics: dict[str, Any] = field(default_factory=dict)
    input_scale: float = 1.0
    box_padding: float = 0.0
    objects: dict[str, ObjectGeometry] = field(default_factory=dict)
    keypoints: dict[str, tuple[str, ...]] = field(default_factory=dict)
    masks: bool = False
    residual: bool = False
    roi_classifier: bool = False
    initial_weights: InitialWeightsRecord | None = None
    target_images: DatasetRecord | None = None
    background_images: DatasetRecord | None = None
    evaluations: tuple[tuple[int, float], ...] = ()
    score_calibration: ScoreCalibration | None = None
    image_digests: tuple[str, ...] = ()
    box_size_range_px: tuple[float, float] | None = None
    training_domain: TrainingDomain | None = None
    ood_threshold: OodThreshold | None = None
    kind: Literal["sim2cam detector"] = "sim2cam detector"
    format: Literal[1] = 1
    version: str = __version__
    stored_as: Literal["float16"] = "float16"
    stride_px: int = STRIDE_PX
    mean_rgb: tuple[float, float, float] = MEAN_RGB
    std_rgb: tuple[float, float, float] = STD_RGB

    @property
    def trained_input_scale(self) -> float:
        """Input scale at which full images match the training crops."""
        return compute_trained_input_scale(self.config.get("scale_range", (1.0, 1.0)))

    @property
    def recipe(self) -> str:
        """Name of the recipe of most training renders; empty if unknown."""
        renders = [record for record in self.data if record.recipe]
        return max(renders, key=lambda record: record.weight).recipe if renders else ""

    @property
    def is_amodal(self) -> bool:
        """Whether boxes include hidden parts of objects."""
        return bool(self.config.get("amodal", TrainConfig.amodal))

    @property
    def roi_views(self) -> tuple[RoiView, ...]:
        """Views of each object for the RoI classifier."""
        flips = bool(self.config.get("flips", TrainConfig.flips))
        return select_roi_views(poses=bool(self.objects), flips=flips)

    def to_json(self) -> dict[str, Any]:
        """Return the card as JSON values, without recent keys that are not used."""
        return {
            name: value
            for name, value in asdict(self).items()
            if value or name not in OMITTED_WHEN_UNSET
        }


def card_from_json(path: Path, card: dict[str, Any]) -> DetectorCard:
    """Parse and check the card in a JSON file.

    Raises:
        CheckpointError: if it is not a detector's card, is of an earlier version, lacks a key or has one of the
            wrong type, names an unknown architecture, or has an invalid calibration or objects or keypoints of
            other categories.
    """
    _check_renamed_keys(path, card)
    parsed = parse_card(path, card, DetectorCard, "a detector")
    if parsed.architecture not in ARCHITECTURES:
        _check_torchvision_card(path, parsed)
    _check_numbers(path, parsed)
    if not parsed.categories or len(set(parsed.categories)) != len(parsed.categories):
        raise CheckpointError(path, f"categories must be different names, not {parsed.categories}.")
    for problem in filter(None, map(find_category_problem, parsed.categories)):
        raise CheckpointError(path, problem)
    for field_name in ("objects", "keypoints"):
        values = getattr(parsed, field_name)
        if values and set(values) != set(parsed.categories):
            raise CheckpointError(
                path,
                f"{field_name} are given for {', '.join(values)}, but categories are {', '.join(parsed.categories)}. "
                "Copy both files again.",
            )
    if parsed.score_calibration is not None:
        _check_score_calibration(path, parsed.score_calibration, parsed.categories)
    return parsed


def _check_renamed_keys(path: Path, card: dict[str, Any]) -> None:
    """Raise ``CheckpointError`` for keys of earlier versions, which would otherwise be ignored.

    Values that are empty or 0 are the defaults, and can be ignored.
    """
    old = next((key for key in _RENAMED_KEYS if card.get(key)), None)
    if old is not None:
        raise CheckpointError(
            path,
            f"key '{old}' is of an earlier version of sim2cam, now '{_RENAMED_KEYS[old]}'. Download or convert "
            "the weights again.",
        )


def _check_torchvision_card(path: Path, card: DetectorCard) -> None:
    known = list_torchvision_architectures()
    if card.architecture not in known:
        hint = suggest_name(card.architecture, known.union(ARCHITECTURES))
        raise CheckpointError(path, f"architecture '{card.architecture}' is not known. {hint}")
    crop_px = card.config.get("crop_px")
    if not isinstance(crop_px, int) or crop_px < MIN_CROP_PX:
        raise CheckpointError(
            path,
            f"config.crop_px must be the side of the training crops, not {crop_px}. Copy both files again.",
        )


def _check_numbers(path: Path, card: DetectorCard) -> None:
    """Raise ``CheckpointError`` if images or boxes would get impossible sizes."""
    bounds = {
        "input_scale": (1 / _MAX_ENLARGEMENT, _MAX_ENLARGEMENT),
        "box_padding": (-0.5, 0.5),
    }
    for name, (low, high) in bounds.items():
        if not low <= getattr(card, name) <= high:
            raise CheckpointError(
                path,
                f"{name} must be {low:g} to {high:g}, not {getattr(card, name)}. Copy both files again.",
            )


def _check_score_calibration(
    path: Path, calibration: ScoreCalibration, categories: tuple[str, ...]
) -> None:
    if not 0 < calibration.temperature < math.inf:
        raise CheckpointError(
            path, f"score_calibration.temperature must be above 0, not {calibration.temperature}."
        )
    if set(calibration.offsets) != set(categories):
        raise CheckpointError(
            path,
            f"score_calibration.offsets are given for {', '.join(calibration.offsets)}, but must be given for "
            f"{', '.join(categories)}.",
        )
    if not all(map(math.isfinite, calibration.offsets.values())):
        raise CheckpointError(
            path, f"score_calibration.offsets must be finite, not {calibration.offsets}."
        )
