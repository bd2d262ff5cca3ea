"""Certificates: of a translated picture, and of a set of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import TypeAdapter, ValidationError
from scipy.stats import binomtest

from sim2cam.adapt.certificate.artefacts import (
    MIN_SIDE_PX,
    measure_added_structure,
    measure_clipped_fraction,
    measure_grid_artefact,
    measure_lost_structure,
    measure_seam_step,
)
from sim2cam.adapt.certificate.colour import measure_colour_shifts
from sim2cam.adapt.certificate.detector_agreement import (
    DetectorAgreement,
    Verifier,
    compare_detections,
)
from sim2cam.adapt.certificate.edges import measure_edge_recalls
from sim2cam.adapt.certificate.flicker import PreviousFrame, measure_warping_error
from sim2cam.adapt.certificate.image_pair import ImagePair
from sim2cam.adapt.certificate.limits import CertificateLimits
from sim2cam.adapt.certificate.structure import match_objects, measure_image_correlation
from sim2cam.data.parsing import format_validation_error
from sim2cam.errors import InputError
from sim2cam.geometry.boxes import Box
from sim2cam.metrics.bootstrap import CONFIDENCE_LEVEL, Estimate

VERIFIERS = ("task", "verifier")
AGREEMENT_MEASURES = ("detection_recall", "missed_detections", "hallucinated_detections")
OBJECT_MEASURES = (
    "object_shift_px",
    "structure_correlation",
    "edge_recall",
    "colour_shift",
    "lost_structure_levels",
    *(f"{verifier}_{name}" for verifier in VERIFIERS for name in AGREEMENT_MEASURES),
)
_NEW_OBJECT_MEASURES = tuple(
    f"{verifier}_hallucinated_detections" for verifier in VERIFIERS
)  # none that were there
MEASURES = (
    *OBJECT_MEASURES,
    "image_correlation",
    "added_structure_levels",
    "grid_artefact_levels",
    "seam_step_levels",
    "clipped_fraction",
    "warping_error_levels",
)
_LOWER_BOUND_SUFFIXES = ("correlation", "recall")

NOT_A_SEQUENCE = "it is no picture of a film"

MIN_DETECTIONS = 3  # objects before, for the share that is found again to say anything

T = TypeVar("T")
Decision = Literal["certified", "appearance only", "failed"]


@dataclass(frozen=True)
class LimitCheck:
    """What a measure says.

    Attributes:
        value: of the worst object, or of the picture; None when it was not measured.
        status: whether it keeps to its limit.
        reason: it was not measured; None when it was.
    """

    value: float | None
    status: Literal["pass", "fail", "not measured"]
    reason: str | None = None


@dataclass(frozen=True)
class ImageCertificate:
    """What was measured of one translated picture.

    Attributes:
        name: of the picture.
        checks: by the names of ``MEASURES``, all of them.
        agreements: of the judges, by their names.
    """

    name: str
    checks: Mapping[str, LimitCheck]
    agreements: Mapping[str, DetectorAgreement] = field(default_factory=dict)

    @property
    def failed_measures(self) -> tuple[str, ...]:
        """The measures whose limits it breaks."""
        return tuple(name for name, found in self.checks.items() if found.status == "fail")

    @property
    def decision(self) -> Decision:
        """Of the picture: only one whose objects were measured can be certified."""
        if self.failed_measures:
            return "failed"
        of_objects = (name for name in OBJECT_MEASURES if name not in _NEW_OBJECT_MEASURES)
        measured = any(self.checks[name].status == "pass" for name in of_objects)
        return "certified" if measured else "appearance only"


@dataclass(frozen=True)
class DatasetCertificate:
    """What was measured of a set of translated pictures.

    Attributes:
        limits: that were kept to.
        verifiers: digests of their weights, by their names.
        images: all of them, also the rejected.
    """

    limits: CertificateLimits
    verifiers: Mapping[str, str]
    images: tuple[ImageCertificate, ...]

    @property
    def rejected_images(self) -> tuple[ImageCertificate, ...]:
        """The pictures that break a limit."""
        return tuple(picture for picture in self.images if picture.failed_measures)

    @property
    def accepted_count(self) -> int:
        """The number of the others."""
        return len(self.images) - len(self.rejected_images)

    @property
    def rejection_rate(self) -> Estimate:
        """The share of rejected pictures, with its interval."""
        return estimate_proportion(len(self.rejected_images), len(self.images))

    def estimate_detection_recall(self, verifier: str) -> Estimate | None:
        """Return the share of objects that a judge finds again; None when it found none before."""
        opinions = [p.agreements[verifier] for p in self.images if verifier in p.agreements]
        found = sum(opinion.reference_detections for opinion in opinions)
        return (
            estimate_proportion(sum(opinion.retained for opinion in opinions), found)
            if found
            else None
        )

    @property
    def violations(self) -> tuple[str, ...]:
        """What of the whole set breaks a limit, in words."""
        found = []
        if self.rejection_rate.value > self.limits.rejected_fraction:
            found.append(
                f"{self.rejection_rate.value:.1%} of the pictures were rejected, more than "
                f"{self.limits.rejected_fraction:.1%}"
            )
        for judge in self.verifiers:
            kept = self.estimate_detection_recall(judge)
            if kept is not None and kept.ci95[1] < self.limits.dataset_detection_recall:
                found.append(
                    f"{judge} finds {kept.value:.1%} of the objects again, surely fewer than "
                    f"{self.limits.dataset_detection_recall:.1%}"
                )
        return tuple(found)

    @property
    def decision(self) -> Decision:
        """Of the set: certified when the objects of most kept pictures were measured."""
        if self.violations:
            return "failed"
        seen = sum(picture.decision == "certified" for picture in self.images)
        return "certified" if 2 * seen >= max(1, self.accepted_count) else "appearance only"

    def to_json(self) -> dict[str, Any]:
        """Return the certificate as JSON values, led by what it comes to."""
        retention = {judge: self.estimate_detection_recall(judge) for judge in self.verifiers}
        return {
            "decision": self.decision,
            "violations": list(self.violations),
            "rejected": len(self.rejected_images),
            "rejection_rate": self.rejection_rate.to_json(),
            "detection_recall": {name: kept.to_json() for name, kept in retention.items() if kept},
            **asdict(self),
        }


def certify(
    name: str,
    pair: ImagePair,
    limits: CertificateLimits,
    *,
    labelled_boxes: Sequence[Box] | None = None,
    verifiers: Mapping[str, Verifier],
    previous_frame: PreviousFrame | str = NOT_A_SEQUENCE,
) -> ImageCertificate:
    """Return what is measured of a translated picture.

    Args:
        name: of the picture.
        pair: it and the one that it was made from.
        limits: that it has to keep to.
        labelled_boxes: boxes of the labelled objects; None when there are no labels.
        verifiers: detectors, by names of ``VERIFIERS``.
        previous_frame: the picture before it in its film; or why there is none to compare it with.
    """
    opinions = compare_detections(verifiers, pair.before, pair.after, labelled_boxes)
    findings = (
        _check_objects(pair, limits)
        | _check_verifiers(opinions, limits)
        | _check_image(pair, limits)
    )
    findings["warping_error_levels"] = _check_sequence(previous_frame, pair, limits)
    return ImageCertificate(name, {measure: findings[measure] for measure in MEASURES}, opinions)


def dataset_certificate_from_json(path: Path, content: Any) -> DatasetCertificate:
    """Return the certificate of ``DatasetCertificate.to_json``.

    Args:
        path: the file, for the errors.
        content: of the file.

    Raises:
        InputError: it is no certificate.
    """
    return _validate(_DATASET_ADAPTER, path, content)


def image_certificate_from_json(path: Path, content: Any) -> ImageCertificate:
    """Return the certificate of a picture; ``asdict`` gives its JSON values.

    Args:
        path: the file, for the errors.
        content: of its line.

    Raises:
        InputError: it is no certificate.
    """
    return _validate(_IMAGE_ADAPTER, path, content)


def is_lower_bound(measure: str) -> bool:
    """Return whether what is below the limit of a measure breaks it, not what is above."""
    return measure.rpartition("_")[2] in _LOWER_BOUND_SUFFIXES


def get_limit(measure: str, limits: CertificateLimits) -> float:
    """Return the limit of a measure; judges share theirs."""
    judge, _, opinion = measure.partition("_")
    return float(getattr(limits, opinion if judge in VERIFIERS else measure))


def estimate_proportion(successes: int, total: int) -> Estimate:
    """Return a share with its 95 % interval (Wilson 1927)."""
    interval = binomtest(successes, max(total, 1)).proportion_ci(CONFIDENCE_LEVEL, method="wilson")
    return Estimate(successes / max(total, 1), (float(interval.low), float(interval.high)))


def _check_objects(pair: ImagePair, limits: CertificateLimits) -> dict[str, LimitCheck]:
    placed = [place for place in match_objects(pair) if place is not None]
    measured: tuple[tuple[str, Callable[..., float], Sequence[float | None], str], ...] = (
        ("object_shift_px", max, [place.shift_px for place in placed], "has contrast"),
        ("structure_correlation", min, [place.correlation for place in placed], "has contrast"),
        ("edge_recall", min, measure_edge_recalls(pair), "has an outline that is seen"),
        ("colour_shift", max, measure_colour_shifts(pair), "shows enough of its colour"),
        (
            "lost_structure_levels",
            max,
            measure_lost_structure(pair),
            "is large enough to have an inside",
        ),
    )
    findings = {}
    for name, worst, values, needed in measured:
        known = [value for value in values if value is not None]
        if known:
            findings[name] = _check_limit(name, worst(known), limits)
        else:
            findings[name] = _skip_check(_explain_missing_measure(name, pair, needed))
    return findings


def _explain_missing_measure(measure: str, pair: ImagePair, requirement: str) -> str:
    if pair.regions is None:
        return "there are no labels"
    if measure == "edge_recall" and pair.ids is None:
        return "the labels have neither an image of instance ids nor masks"
    return f"no object {requirement}" if pair.regions else "there is no object"


def _check_verifiers(
    agreements: Mapping[str, DetectorAgreement], limits: CertificateLimits
) -> dict[str, LimitCheck]:
    """Return what judges say; an object that one of them loses is kept where another one speaks for it."""
    findings: dict[str, LimitCheck] = {}
    for judge in VERIFIERS:
        opinion = agreements.get(judge)
        if opinion is None:
            found = dict.fromkeys(
                AGREEMENT_MEASURES, _skip_check(f"no weights were given with --{judge}")
            )
        else:
            found = _check_verifier(judge, opinion, limits)
        findings |= {f"{judge}_{name}": found[name] for name in AGREEMENT_MEASURES}
    return findings


def _check_verifier(
    verifier: str, agreement: DetectorAgreement, limits: CertificateLimits
) -> dict[str, LimitCheck]:
    retained = _skip_check(f"it finds fewer than {MIN_DETECTIONS} objects before")
    if agreement.reference_detections >= MIN_DETECTIONS:
        share_kept = (
            agreement.retained + agreement.retained_by_other_verifiers
        ) / agreement.reference_detections
        retained = _check_limit(f"{verifier}_detection_recall", share_kept, limits)
    vanished = _skip_check("it finds no object before")
    if agreement.reference_detections:
        lost = agreement.missed - agreement.detected_by_other_verifiers
        vanished = _check_limit(f"{verifier}_missed_detections", lost, limits)
    hallucinated = _check_limit(
        f"{verifier}_hallucinated_detections", agreement.hallucinated, limits
    )
    return {
        "detection_recall": retained,
        "missed_detections": vanished,
        "hallucinated_detections": hallucinated,
    }


def _check_image(pair: ImagePair, limits: CertificateLimits) -> dict[str, LimitCheck]:
    measured: tuple[tuple[str, float | None, str], ...] = (
        ("image_correlation", measure_image_correlation(pair), "it has next to no contrast"),
        (
            "grid_artefact_levels",
            measure_grid_artefact(pair),
            f"a side of it is shorter than {MIN_SIDE_PX} px",
        ),
        ("seam_step_levels", measure_seam_step(pair), "no row or column of it is flat enough"),
    )
    findings = {
        "added_structure_levels": _check_limit(
            "added_structure_levels", measure_added_structure(pair), limits
        ),
        "clipped_fraction": _check_limit(
            "clipped_fraction", measure_clipped_fraction(pair), limits
        ),
    }
    for name, value, lacking in measured:
        findings[name] = (
            _skip_check(lacking) if value is None else _check_limit(name, value, limits)
        )
    return findings


def _check_sequence(
    previous_frame: PreviousFrame | str, pair: ImagePair, limits: CertificateLimits
) -> LimitCheck:
    if isinstance(previous_frame, str):
        return _skip_check(previous_frame)
    value = measure_warping_error(previous_frame, pair)
    if value is None:
        return _skip_check("hardly anything of it is seen in the picture before")
    return _check_limit("warping_error_levels", value, limits)


def _check_limit(measure: str, value: float, limits: CertificateLimits) -> LimitCheck:
    limit = get_limit(measure, limits)
    keeps = value >= limit if is_lower_bound(measure) else value <= limit
    return LimitCheck(round(float(value), 4), "pass" if keeps else "fail")


def _skip_check(reason: str) -> LimitCheck:
    return LimitCheck(None, "not measured", reason)


def _validate(adapter: TypeAdapter[T], path: Path, content: Any) -> T:
    try:
        return adapter.validate_python(content)
    except ValidationError as error:
        raise InputError(
            path, f"no certificate: {format_validation_error(error)}. Translate the pictures again."
        ) from error


_DATASET_ADAPTER: TypeAdapter[DatasetCertificate] = TypeAdapter(DatasetCertificate)
_IMAGE_ADAPTER: TypeAdapter[ImageCertificate] = TypeAdapter(ImageCertificate)
