"""What is told of a detector beside its weights."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from sim2cam import __version__
from sim2cam.data.known_objects import KnownObject
from sim2cam.data.parsing import category_problem
from sim2cam.errors import CheckpointError, UsageError, did_you_mean
from sim2cam.learn.weight_file import read_card
from sim2cam.models.network.detector import MEAN_RGB, STD_RGB, STRIDE_PX
from sim2cam.models.network.roi_crops import View, read_views
from sim2cam.models.network.torchvision_models import named_architectures
from sim2cam.models.reliability.confidence import Scaling
from sim2cam.models.reliability.ood import Strangeness
from sim2cam.models.training.config import (
    ARCHITECTURES,
    LATER,
    MIN_CROP_PX,
    TrainConfig,
    trained_magnification,
)
from sim2cam.models.training.datasets import PartRecord

_MOST_TIMES = 32
"""Times by which a card may have images or boxes enlarged."""


@dataclass(frozen=True)
class NoveltyLimit:
    """From where on a picture is called unlike what was trained on.

    Attributes:
        distance: of ``novelty.distance``; further pictures are unlike.
        false_alarms: share of familiar pictures that show an object, at most, that lie beyond one of the
            limits.
        pictures: how many it was measured on.
        measured_on: what these are: of the data trained on, but held out, or development captures.
        tile_px: side of the training crops.
        doubt: of ``novelty.doubt``; pictures whose surest object is less sure are unlike. None where too
            few of the pictures show an object.
    """

    distance: float
    false_alarms: float
    pictures: int
    measured_on: Literal["held-out pictures", "development captures"]
    tile_px: int
    doubt: float | None = None

    def __post_init__(self) -> None:
        """Refuses limits that pictures cannot be held against.

        Raises:
            UsageError: naming the value.
        """
        for name in ("distance", "tile_px", "doubt"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise UsageError(f"novelty.{name} must be above 0, not {value}")

    def novelty(self, strangeness: Strangeness) -> float:
        """Returns how unlike a picture is: the larger of what it has over the limit of that."""
        of_doubt = 0.0 if self.doubt is None else strangeness.doubt / self.doubt
        return max(strangeness.distance / self.distance, of_doubt)


@dataclass(frozen=True)
class StartRecord:
    """What a card says of the weights that a training began with.

    Attributes:
        name: of their file.
        digest: SHA-256 of that file.
        data: what they were trained on, and before that the weights with which that began.
    """

    name: str
    digest: str
    data: tuple[PartRecord, ...]


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
        magnification: images are enlarged by this before the network, chosen on development images.
        box_margin: boxes are widened on each side by this share of their own side, because people
            draw boxes looser than masks are; measured on development images.
        objects: by category, those whose poses it finds; empty of one that finds none.
        keypoints: by category, the names of those it finds; empty of one that finds none.
        masks: whether it finds masks.
        residual: whether a small head corrects what the others say.
        reader: whether categories are read again from close-ups.
        start: weights that its training began with; None where it began anew.
        captures: what its features were brought to, without labels; None without.
        backdrops: pictures that its objects were also seen before; None without.
        looks: steps, and the AP50 of the weights after them on development captures, of which the best
            are here; empty of a training with a fixed number of steps.
        scaling: what calibrates confidences, measured on development images or held-out pictures; None
            where it was not.
        pictures: the lowest digests of those trained on, as ``parts.lowest_digests`` has them; empty where
            unknown.
        sizes_px: longer sides of the boxes trained on, at the network's scale, from the 5 % smallest
            to the 5 % largest; None where unknown.
        novelty: from where on a picture is unlike what was trained on; None where not measured. What
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
    data: tuple[PartRecord, ...]
    licence: str = ""
    metrics: dict[str, Any] = field(default_factory=dict)
    magnification: float = 1.0
    box_margin: float = 0.0
    objects: dict[str, KnownObject] = field(default_factory=dict)
    keypoints: dict[str, tuple[str, ...]] = field(default_factory=dict)
    masks: bool = False
    residual: bool = False
    reader: bool = False
    start: StartRecord | None = None
    captures: PartRecord | None = None
    backdrops: PartRecord | None = None
    looks: tuple[tuple[int, float], ...] = ()
    scaling: Scaling | None = None
    pictures: tuple[str, ...] = ()
    sizes_px: tuple[float, float] | None = None
    novelty: NoveltyLimit | None = None
    kind: Literal["sim2cam detector"] = "sim2cam detector"
    format: Literal[1] = 1
    version: str = __version__
    stored_as: Literal["float16"] = "float16"
    stride_px: int = STRIDE_PX
    mean_rgb: tuple[float, float, float] = MEAN_RGB
    std_rgb: tuple[float, float, float] = STD_RGB

    @property
    def trained_magnification(self) -> float:
        """At which images are as the crops of its training were."""
        return trained_magnification(self.config.get("scale_range", (1.0, 1.0)))

    @property
    def is_amodal(self) -> bool:
        """Whether its boxes are of whole objects, with what is hidden of them."""
        return bool(self.config.get("amodal", TrainConfig.amodal))

    @property
    def views(self) -> tuple[View, ...]:
        """How each object is looked at that is read."""
        flips = bool(self.config.get("flips", TrainConfig.flips))
        return read_views(poses=bool(self.objects), flips=flips)

    def to_json(self) -> dict[str, Any]:
        """Returns the card as JSON values, without later keys that it does not use."""
        return {n: v for n, v in asdict(self).items() if v or n not in LATER}


def card_from_json(path: Path, card: dict[str, Any]) -> DetectorCard:
    """Returns the card that a JSON file holds.

    Args:
        path: the file, for the errors.
        card: its content.

    Raises:
        CheckpointError: not a detector's card, a key missing or of the wrong type, an unknown
            architecture, a scaling that cannot be, or objects or keypoints that are not those of
            the categories.
    """
    read = read_card(path, card, DetectorCard, "a detector")
    if read.architecture not in ARCHITECTURES:
        _check_named(path, read)
    _check_numbers(path, read)
    if not read.categories or len(set(read.categories)) != len(read.categories):
        raise CheckpointError(path, f"categories must be different names, not {read.categories}.")
    for problem in filter(None, map(category_problem, read.categories)):
        raise CheckpointError(path, problem)
    for what in ("objects", "keypoints"):
        found = getattr(read, what)
        if found and set(found) != set(read.categories):
            raise CheckpointError(
                path,
                f"{what} are {', '.join(found)}, but categories {', '.join(read.categories)}. "
                "Copy both files again.",
            )
    if read.scaling is not None:
        _check_scaling(path, read.scaling, read.categories)
    return read


def _check_named(path: Path, card: DetectorCard) -> None:
    known = named_architectures()
    if card.architecture not in known:
        hint = did_you_mean(card.architecture, known.union(ARCHITECTURES))
        raise CheckpointError(path, f"architecture '{card.architecture}' is not known. {hint}")
    crop_px = card.config.get("crop_px")
    if not isinstance(crop_px, int) or crop_px < MIN_CROP_PX:
        raise CheckpointError(
            path,
            f"config.crop_px must be the side of the crops trained on, not {crop_px}. Copy both files again.",
        )


def _check_numbers(path: Path, card: DetectorCard) -> None:
    """Refuse numbers with which images or boxes would have impossible sizes."""
    bounds = {"magnification": (1 / _MOST_TIMES, _MOST_TIMES), "box_margin": (-0.5, _MOST_TIMES)}
    for name, (low, high) in bounds.items():
        if not low <= getattr(card, name) <= high:
            raise CheckpointError(
                path,
                f"{name} must be {low:g} to {high:g}, not {getattr(card, name)}. Copy both files again.",
            )


def _check_scaling(path: Path, scaling: Scaling, categories: tuple[str, ...]) -> None:
    if not 0 < scaling.temperature < math.inf:
        raise CheckpointError(
            path, f"scaling.temperature must be above 0, not {scaling.temperature}."
        )
    if set(scaling.offsets) != set(categories):
        raise CheckpointError(
            path,
            f"scaling.offsets are of {', '.join(scaling.offsets)}, but must be of each category: "
            f"{', '.join(categories)}.",
        )
    if not all(map(math.isfinite, scaling.offsets.values())):
        raise CheckpointError(path, f"scaling.offsets must be finite, not {scaling.offsets}.")
