"""Label-preservation certificates of translated images and datasets."""

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
from sim2cam.adapt.certificate.displacement import match_objects, measure_image_correlation
from sim2cam.adapt.certificate.edges import measure_edge_recalls
from sim2cam.adapt.certificate.flicker import PreviousFrame, measure_warping_error
from sim2cam.adapt.certificate.image_pair import ImagePair
from sim2cam.adapt.certificate.limits import CertificateLimits
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
)  # do not measure objects of the source
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

NOT_A_SEQUENCE = "not a frame of a sequence"

MIN_DETECTIONS = 3  # in the source, for a detection recall of one image

T = TypeVar("T")
Decision = Literal["certified", "appearance only", "failed"]


@dataclass(frozen=True)
class LimitCheck:
    """A measure compared with its limit.

    Attributes:
        value: value of the image or of its worst object; None if not measured.
        status: whether the value keeps the limit.
        reason: why it was not measured; None if measured.
    """

    value: float | None
    status: Literal["pass", "fail", "not measured"]
    reason: str | None = None


@dataclass(frozen=True)
class ImageCertificate:
    """Certificate of one translated image.

    Attributes:
        name: name of the image.
        checks: one check for each of ``MEASURES``, by name.
        agreements: detector agreement by verifier.
    """

    name: str
    checks: Mapping[str, LimitCheck]
    agreements: Mapping[str, DetectorAgreement] = field(default_factory=dict)

    @property
    def failed_measures(self) -> tuple[str, ...]:
        """Names of the measures that break their limit."""
        return tuple(name for name, check in self.checks.items() if check.status == "fail")

    @property
    def decision(self) -> Decision:
        """Decision on the image; "certified" requires a measure of its objects."""
        if self.failed_measures:
            return "failed"
        measures = (name for name in OBJECT_MEASURES if name not in _NEW_OBJECT_MEASURES)
        is_measured = any(self.checks[name].status == "pass" for name in measures)
        return "certified" if is_measured else "appearance only"


@dataclass(frozen=True)
class DatasetCertificate:
    """Certificate of a translated dataset.

    Attributes:
        limits: limits of all checks.
        verifiers: digests of the verifiers' weights by name.
        images: certificates of all images, including rejected ones.
    """

    limits: CertificateLimits
    verifiers: Mapping[str, str]
    images: tuple[ImageCertificate, ...]

    @property
    def rejected_images(self) -> tuple[ImageCertificate, ...]:
        """Images that break a limit."""
        return tuple(image for image in self.images if image.failed_measures)

    @property
    def accepted_count(self) -> int:
        """Number of images that keep all limits."""
        return len(self.images) - len(self.rejected_images)

    @property
    def rejection_rate(self) -> Estimate:
        """Fraction of rejected images, with its 95 % interval."""
        return estimate_proportion(len(self.rejected_images), len(self.images))

    def estimate_detection_recall(self, verifier: str) -> Estimate | None:
        """Estimate the fraction of objects that a verifier detects again; None without detections before."""
        agreements = [p.agreements[verifier] for p in self.images if verifier in p.agreements]
        reference_count = sum(agreement.reference_detections for agreement in agreements)
        return (
            estimate_proportion(
                sum(agreement.retained for agreement in agreements), reference_count
            )
            if reference_count
            else None
        )

    @property
    def violations(self) -> tuple[str, ...]:
        """Limits that the dataset breaks, as messages."""
        messages = []
        if self.rejection_rate.value > self.limits.rejected_fraction:
            messages.append(
                f"{self.rejection_rate.value:.1%} of the images are rejected, more than "
                f"{self.limits.rejected_fraction:.1%}"
            )
        for verifier in self.verifiers:
            recall = self.estimate_detection_recall(verifier)
            if recall is not None and recall.ci95[1] < self.limits.dataset_detection_recall:
                messages.append(
                    f"{verifier} detects {recall.value:.1%} of the objects again, significantly fewer than "
                    f"{self.limits.dataset_detection_recall:.1%}"
                )
        return tuple(messages)

    @property
    def decision(self) -> Decision:
        """Decision on the dataset; "certified" requires object measures of most accepted images."""
        if self.violations:
            return "failed"
        certified_count = sum(image.decision == "certified" for image in self.images)
        return (
            "certified" if 2 * certified_count >= max(1, self.accepted_count) else "appearance only"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the certificate as JSON values, with its summary first."""
        recalls = {
            verifier: self.estimate_detection_recall(verifier) for verifier in self.verifiers
        }
        return {
            "decision": self.decision,
            "violations": list(self.violations),
            "rejected": len(self.rejected_images),
            "rejection_rate": self.rejection_rate.to_json(),
            "detection_recall": {
                name: recall.to_json() for name, recall in recalls.items() if recall
            },
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
    """Measure a translated image and check it against limits.

    Args:
        labelled_boxes: boxes of the labelled objects; None without labels.
        verifiers: detectors by the names in ``VERIFIERS``.
        previous_frame: previous frame of the sequence, or the reason why there is none.
    """
    agreements = compare_detections(verifiers, pair.before, pair.after, labelled_boxes)
    checks = (
        _check_objects(pair, limits)
        | _check_verifiers(agreements, limits)
        | _check_image(pair, limits)
    )
    checks["warping_error_levels"] = _check_sequence(previous_frame, pair, limits)
    return ImageCertificate(name, {measure: checks[measure] for measure in MEASURES}, agreements)


def certificate_from_json(path: Path, content: Any, certificate_type: type[T]) -> T:
    """Parse the JSON values of an image or dataset certificate.

    Raises:
        InputError: the content is not a certificate.
    """
    try:
        parsed: T = _ADAPTERS[certificate_type].validate_python(content)
    except ValidationError as error:
        raise InputError(
            path,
            f"not a certificate: {format_validation_error(error)}. Translate the images again.",
        ) from error
    return parsed


_ADAPTERS: Mapping[type[Any], TypeAdapter[Any]] = {
    kind: TypeAdapter(kind) for kind in (ImageCertificate, DatasetCertificate)
}


def is_lower_bound(measure: str) -> bool:
    """Return whether the limit of a measure is a lower bound."""
    return measure.rpartition("_")[2] in _LOWER_BOUND_SUFFIXES


def get_limit(measure: str, limits: CertificateLimits) -> float:
    """Return the limit of a measure; all verifiers share the same limits."""
    verifier, _, agreement_measure = measure.partition("_")
    return float(getattr(limits, agreement_measure if verifier in VERIFIERS else measure))


def estimate_proportion(successes: int, total: int) -> Estimate:
    """Return a proportion with its 95 % Wilson score interval (Wilson, 1927)."""
    interval = binomtest(successes, max(total, 1)).proportion_ci(CONFIDENCE_LEVEL, method="wilson")
    return Estimate(successes / max(total, 1), (float(interval.low), float(interval.high)))


def _check_objects(pair: ImagePair, limits: CertificateLimits) -> dict[str, LimitCheck]:
    matches = [match for match in match_objects(pair) if match is not None]
    measures: tuple[tuple[str, Callable[..., float], Sequence[float | None], str], ...] = (
        ("object_shift_px", max, [match.shift_px for match in matches], "has contrast"),
        ("structure_correlation", min, [match.correlation for match in matches], "has contrast"),
        ("edge_recall", min, measure_edge_recalls(pair), "has a visible outline"),
        ("colour_shift", max, measure_colour_shifts(pair), "shows enough unclipped pixels"),
        (
            "lost_structure_levels",
            max,
            measure_lost_structure(pair),
            "is large enough to have an interior",
        ),
    )
    checks = {}
    for name, worst, values, requirement in measures:
        measured_values = [value for value in values if value is not None]
        if measured_values:
            checks[name] = _check_limit(name, worst(measured_values), limits)
        else:
            checks[name] = _skip_check(_explain_missing_measure(name, pair, requirement))
    return checks


def _explain_missing_measure(measure: str, pair: ImagePair, requirement: str) -> str:
    if pair.regions is None:
        return "there are no labels"
    if measure == "edge_recall" and pair.ids is None:
        return "the labels have neither instance ids nor masks"
    return f"no object {requirement}" if pair.regions else "there is no object"


def _check_verifiers(
    agreements: Mapping[str, DetectorAgreement], limits: CertificateLimits
) -> dict[str, LimitCheck]:
    """Check all verifiers; an object that one of them misses counts as kept if another confirms it."""
    checks: dict[str, LimitCheck] = {}
    for verifier in VERIFIERS:
        agreement = agreements.get(verifier)
        if agreement is None:
            verifier_checks = dict.fromkeys(
                AGREEMENT_MEASURES, _skip_check(f"no weights were given with --{verifier}")
            )
        else:
            verifier_checks = _check_verifier(verifier, agreement, limits)
        checks |= {f"{verifier}_{name}": verifier_checks[name] for name in AGREEMENT_MEASURES}
    return checks


def _check_verifier(
    verifier: str, agreement: DetectorAgreement, limits: CertificateLimits
) -> dict[str, LimitCheck]:
    recall = _skip_check(f"fewer than {MIN_DETECTIONS} detections in the source")
    if agreement.reference_detections >= MIN_DETECTIONS:
        retained_fraction = (
            agreement.retained + agreement.retained_by_other_verifiers
        ) / agreement.reference_detections
        recall = _check_limit(f"{verifier}_detection_recall", retained_fraction, limits)
    missed = _skip_check("no detections in the source")
    if agreement.reference_detections:
        missed_count = agreement.missed - agreement.detected_by_other_verifiers
        missed = _check_limit(f"{verifier}_missed_detections", missed_count, limits)
    hallucinated = _check_limit(
        f"{verifier}_hallucinated_detections", agreement.hallucinated, limits
    )
    return {
        "detection_recall": recall,
        "missed_detections": missed,
        "hallucinated_detections": hallucinated,
    }


def _check_image(pair: ImagePair, limits: CertificateLimits) -> dict[str, LimitCheck]:
    measures: tuple[tuple[str, float | None, str], ...] = (
        ("image_correlation", measure_image_correlation(pair), "too little contrast"),
        (
            "grid_artefact_levels",
            measure_grid_artefact(pair),
            f"a side is shorter than {MIN_SIDE_PX} px",
        ),
        ("seam_step_levels", measure_seam_step(pair), "no row or column is flat enough"),
    )
    checks = {
        "added_structure_levels": _check_limit(
            "added_structure_levels", measure_added_structure(pair), limits
        ),
        "clipped_fraction": _check_limit(
            "clipped_fraction", measure_clipped_fraction(pair), limits
        ),
    }
    for name, value, reason in measures:
        checks[name] = _skip_check(reason) if value is None else _check_limit(name, value, limits)
    return checks


def _check_sequence(
    previous_frame: PreviousFrame | str, pair: ImagePair, limits: CertificateLimits
) -> LimitCheck:
    if isinstance(previous_frame, str):
        return _skip_check(previous_frame)
    value = measure_warping_error(previous_frame, pair)
    if value is None:
        return _skip_check("too few pixels are visible in the previous frame")
    return _check_limit("warping_error_levels", value, limits)


def _check_limit(measure: str, value: float, limits: CertificateLimits) -> LimitCheck:
    limit = get_limit(measure, limits)
    is_kept = value >= limit if is_lower_bound(measure) else value <= limit
    return LimitCheck(round(float(value), 4), "pass" if is_kept else "fail")


def _skip_check(reason: str) -> LimitCheck:
    return LimitCheck(None, "not measured", reason)
