"""How far what a detector says of captures is to be trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sim2cam.adapt.card import digest_of_sample
from sim2cam.adapt.certificate.certificate import share
from sim2cam.data.sample import Dataset
from sim2cam.metrics.bootstrap import Estimate
from sim2cam.metrics.calibration import Calibration, calibration_of, confidences_of
from sim2cam.metrics.detection import Detection
from sim2cam.models.card import DetectorCard
from sim2cam.models.inference.detections import Prediction
from sim2cam.models.reliability.confidence import before_calibration
from sim2cam.models.reliability.object_sizes import SizeFit, longer_side, size_fit
from sim2cam.seeds import stream


@dataclass(frozen=True)
class Trust:
    """How far what a detector says of captures is to be trusted; None where something is not known.

    Attributes:
        calibration: of its confidences; None where they are not 0 to 1, or none is sure enough.
        uncalibrated: as it would be without the scaling of its card; None without one.
        unlike: share of the captures that are unlike what it was trained on, with its 95 % interval.
        false_alarms: that share, at most, among familiar pictures.
        novelty: of each image, by its name; above 1 it is unlike.
        sizes: of the labelled objects beside those trained on.
    """

    calibration: Calibration | None
    uncalibrated: Calibration | None = None
    unlike: Estimate | None = None
    false_alarms: float | None = None
    novelty: Mapping[str, float] | None = None
    sizes: SizeFit | None = None

    def to_json(self) -> dict[str, Any]:
        """Returns all of it but the novelty of each image as JSON values."""
        return {
            "calibration": self.calibration.to_json() if self.calibration else None,
            "uncalibrated": self.uncalibrated.to_json() if self.uncalibrated else None,
            "unlike": unlike_json(self.unlike, self.false_alarms),
            "sizes": self.sizes.to_json() if self.sizes else None,
        }


def trust_in_detections(captures: Dataset, found: Mapping[str, Sequence[Detection]]) -> Trust:
    """Returns what detections alone tell: whether their confidences hold.

    Args:
        captures: labelled images.
        found: by the image's name, with an entry for every image.
    """
    return Trust(calibration_of(confidences_of(captures, found), stream(0, "calibration")))


def trust_in_detector(
    captures: Dataset, card: DetectorCard, seen: Mapping[str, Prediction]
) -> Trust:
    """Returns how far a detector is to be trusted on captures.

    Args:
        captures: labelled images.
        card: of the detector.
        seen: what it says of every image, by the image's name.
    """
    found = confidences_of(captures, {name: one.detections for name, one in seen.items()})
    uncalibrated = None
    if card.scaling is not None:
        before = before_calibration(found, card.scaling)
        # the same resamples, so that both are compared on the same images
        uncalibrated = calibration_of(before, stream(0, "calibration"))
    novelty = novelty_by_name(seen)
    sides = [
        longer_side(label.box_xyxy) * card.magnification
        for sample in captures.samples
        for label in sample.objects or ()
        if not label.is_crowd
    ]
    return Trust(
        calibration=calibration_of(found, stream(0, "calibration")),
        uncalibrated=uncalibrated,
        unlike=unlike_share(novelty),
        false_alarms=card.novelty.false_alarms if card.novelty else None,
        novelty=novelty or None,
        sizes=size_fit(sides, card.sizes_px),
    )


def learned_warning(captures: Dataset, card: DetectorCard) -> str | None:
    """Returns in words that captures were trained on; None where nothing tells that they were.

    Raises:
        InputError: a capture cannot be read.
    """
    learned = learned_of(captures, card)
    if learned is None:
        return None
    return (
        f"the detector was trained on these captures, or some of them, as {learned}: the scores tell "
        "nothing of other pictures. Score it on captures that it has not learned from."
    )


def learned_of(captures: Dataset, card: DetectorCard) -> str | None:
    """Returns the name of a capture that was trained on; None where nothing tells of one.

    Raises:
        InputError: a capture cannot be read.
    """
    if not card.pictures:
        return None
    known = set(card.pictures)
    return next((s.name for s in captures.samples if digest_of_sample(s) in known), None)


def novelty_by_name(seen: Mapping[str, Prediction]) -> dict[str, float]:
    """Returns how unlike each image is, by its name; empty where not measured."""
    return {name: one.novelty for name, one in seen.items() if one.novelty is not None}


def unlike_share(novelty: Mapping[str, float]) -> Estimate | None:
    """Returns the share of images with a novelty above 1, with its interval; None without any."""
    return share(sum(away > 1 for away in novelty.values()), len(novelty)) if novelty else None


def unlike_json(unlike: Estimate | None, false_alarms: float | None) -> dict[str, Any] | None:
    """Returns a share of unlike images and that among familiar ones as JSON values."""
    return None if unlike is None else unlike.to_json() | {"false_alarms": false_alarms}
