"""What is told of a detector beside its weights."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from sim2cam import __version__
from sim2cam.data.known_objects import ObjectGeometry
from sim2cam.data.parsing import find_category_problem
from sim2cam.errors import CheckpointError, UsageError, suggest_name
from sim2cam.learn.weight_file import parse_card
from sim2cam.models.network.detector import MEAN_RGB, STD_RGB, STRIDE_PX
from sim2cam.models.network.roi_crops import RoiView, select_roi_views
from sim2cam.models.network.torchvision_models import list_torchvision_architectures
from sim2cam.models.reliability.confidence import ScoreCalibration
from sim2cam.models.reliability.ood import OodStatistics
from sim2cam.models.training.config import (
    ARCHITECTURES,
    MIN_CROP_PX,
    OMITTED_WHEN_UNSET,
    TrainConfig,
    compute_trained_input_scale,
)
from sim2cam.models.training.datasets import DatasetRecord

_MAX_ENLARGEMENT = 32
"""Times by which a card may have images or boxes enlarged."""

_RENAMED_KEYS = {
    "magnification": "input_scale",
    "box_margin": "box_expansion",
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
"""Keys of cards of earlier versions, and what they are called now. Tensors were renamed with them."""


@dataclass(frozen=True)
class OodThreshold:
    """From where on a picture is called unlike what was trained on.

    Attributes:
        distance: of ``novelty.distance``; further pictures are unlike.
        false_positive_rate: share of familiar pictures that show an object, at most, that lie beyond one of the
            limits.
        images: how many it was measured on.
        measured_on: what these are: of the data trained on, but held out, or development captures.
        tile_px: side of the training crops.
        uncertainty: of ``novelty.doubt``; pictures whose surest object is less sure are unlike. None where too
            few of the pictures show an object.
    """

    distance: float
    false_positive_rate: float
    images: int
    measured_on: Literal["held-out images", "validation images"]
    tile_px: int
    uncertainty: float | None = None

    def __post_init__(self) -> None:
        """Refuse limits that pictures cannot be held against.

        Raises:
            UsageError: naming the value.
        """
        for name in ("distance", "tile_px", "uncertainty"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise UsageError(f"ood_threshold.{name} must be above 0, not {value}")

    def compute_ood_score(self, statistics: OodStatistics) -> float:
        """Return how unlike a picture is: the larger of what it has over the limit of that."""
        of_doubt = 0.0 if self.uncertainty is None else statistics.uncertainty / self.uncertainty
        return max(statistics.distance / self.distance, of_doubt)


@dataclass(frozen=True)
class InitialWeightsRecord:
    """What a card says of the weights that a training began with.

    Attributes:
        name: of their file.
        digest: SHA-256 of that file.
        data: what they were trained on, and before that the weights with which that began.
    """

    name: str
    digest: str
    data: tuple[DatasetRecord, ...]


@dataclass(frozen=True)
class DetectorCard:
    """A detector in words.

    Attributes:
        architecture: a key of ``ARCHITECTURES``, or one of torchvision's models.
        categories: names in the order of class indices.
        steps: training steps done.
        config: the training's configuration.
        data: what it was trained on.
        licence: of what the scenes that it learned from are made of, as an SPDX expression; empty where none is
            known.
        metrics: scores by what was scored, in the form of ``bench --json``.
        input_scale: images are enlarged by this before the network, chosen on development images.
        box_expansion: boxes are widened on each side by this share of their own side, because people
            draw boxes looser than masks are; measured on development images.
        objects: by category, those whose poses it finds; empty of one that finds none.
        keypoints: by category, the names of those it finds; empty of one that finds none.
        masks: whether it finds masks.
        residual: whether a small head corrects what the others say.
        roi_classifier: whether categories are read again from close-ups.
        initial_weights: weights that its training began with; None where it began anew.
        target_images: what its features were brought to, without labels; None without.
        background_images: pictures that its objects were also seen before; None without.
        evaluations: steps, and the AP50 of the weights after them on development captures, of which the best
            are here; empty of a training with a fixed number of steps.
        score_calibration: what calibrates confidences, measured on development images or held-out pictures; None
            where it was not.
        image_digests: the lowest digests of those trained on, as ``parts.lowest_digests`` has them; empty where
            unknown.
        box_size_range_px: longer sides of the boxes trained on, at the network's scale, from the 5 % smallest
            to the 5 % largest; None where unknown.
        ood_threshold: from where on a picture is unlike what was trained on; None where not measured. What
            it is held against stands beside the weights.
        kind, format: what the file is.
        version: of sim2cam.
        stored_as: type of the floating-point tensors in the file.
        stride_px: side of a cell of its maps.
        mean_rgb, std_rgb: normalisation of 8-bit pixels; buffers of the network hold the same.
    """

    architecture: str
    categories: tuple[str, ...]
    steps: int
    config: dict[str, Any]
    data: tuple[DatasetRecord, ...]
    licence: str = ""
    metrics: dict[str, Any] = field(default_factory=dict)
    input_scale: float = 1.0
    box_expansion: float = 0.0
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
        """At which images are as the crops of its training were."""
        return compute_trained_input_scale(self.config.get("scale_range", (1.0, 1.0)))

    @property
    def is_amodal(self) -> bool:
        """Whether its boxes are of whole objects, with what is hidden of them."""
        return bool(self.config.get("amodal", TrainConfig.amodal))

    @property
    def roi_views(self) -> tuple[RoiView, ...]:
        """How each object is looked at that is read."""
        flips = bool(self.config.get("flips", TrainConfig.flips))
        return select_roi_views(poses=bool(self.objects), flips=flips)

    def to_json(self) -> dict[str, Any]:
        """Return the card as JSON values, without later keys that it does not use."""
        return {n: v for n, v in asdict(self).items() if v or n not in OMITTED_WHEN_UNSET}


def card_from_json(path: Path, card: dict[str, Any]) -> DetectorCard:
    """Return the card that a JSON file holds.

    Args:
        path: the file, for the errors.
        card: its content.

    Raises:
        CheckpointError: not a detector's card, a card of an earlier version, a key missing or of the wrong
            type, an unknown architecture, a scaling that cannot be, or objects or keypoints that are not those of
            the categories.
    """
    _check_renamed_keys(path, card)
    read = parse_card(path, card, DetectorCard, "a detector")
    if read.architecture not in ARCHITECTURES:
        _check_torchvision_card(path, read)
    _check_numbers(path, read)
    if not read.categories or len(set(read.categories)) != len(read.categories):
        raise CheckpointError(path, f"categories must be different names, not {read.categories}.")
    for problem in filter(None, map(find_category_problem, read.categories)):
        raise CheckpointError(path, problem)
    for what in ("objects", "keypoints"):
        found = getattr(read, what)
        if found and set(found) != set(read.categories):
            raise CheckpointError(
                path,
                f"{what} are {', '.join(found)}, but categories {', '.join(read.categories)}. "
                "Copy both files again.",
            )
    if read.score_calibration is not None:
        _check_score_calibration(path, read.score_calibration, read.categories)
    return read


def _check_renamed_keys(path: Path, card: dict[str, Any]) -> None:
    """Refuse the card of an earlier version, whose old keys would otherwise be ignored."""
    old = next((key for key in _RENAMED_KEYS if key in card), None)
    if old is not None:
        raise CheckpointError(
            path,
            f"key '{old}' is of an earlier version of sim2cam, which now has '{_RENAMED_KEYS[old]}': download "
            "or convert the weights again.",
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
            f"config.crop_px must be the side of the crops trained on, not {crop_px}. Copy both files again.",
        )


def _check_numbers(path: Path, card: DetectorCard) -> None:
    """Refuse numbers with which images or boxes would have impossible sizes."""
    bounds = {
        "input_scale": (1 / _MAX_ENLARGEMENT, _MAX_ENLARGEMENT),
        "box_expansion": (-0.5, _MAX_ENLARGEMENT),
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
            f"score_calibration.offsets are of {', '.join(calibration.offsets)}, but must be of each category: "
            f"{', '.join(categories)}.",
        )
    if not all(map(math.isfinite, calibration.offsets.values())):
        raise CheckpointError(
            path, f"score_calibration.offsets must be finite, not {calibration.offsets}."
        )
