"""Page of a label-preservation certificate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sim2cam.adapt.certificate.certificate import (
    MEASURES,
    OBJECT_MEASURES,
    DatasetCertificate,
    ImageCertificate,
    estimate_proportion,
    get_limit,
    is_lower_bound,
)
from sim2cam.images import read_rgb
from sim2cam.metrics.bootstrap import Estimate
from sim2cam.report.page import encode_data_uri, encode_thumbnail, write_page

IMAGE_PX = 480
MAX_REJECTED = 24
MAX_ACCEPTED = 6

MEASURE_TITLES = {
    "object_shift_px": "object shift, pixels",
    "structure_correlation": "object structure correlation",
    "edge_recall": "object edge recall",
    "colour_shift": "object colour shift relative to its surroundings",
    "lost_structure_levels": "lost object structure, grey levels",
    "task_detection_recall": "task detector: detection recall",
    "task_missed_detections": "task detector: missed detections",
    "task_hallucinated_detections": "task detector: hallucinated detections",
    "verifier_detection_recall": "verifier detector: detection recall",
    "verifier_missed_detections": "verifier detector: missed detections",
    "verifier_hallucinated_detections": "verifier detector: hallucinated detections",
    "image_correlation": "image structure correlation",
    "added_structure_levels": "added structure, grey levels",
    "grid_artefact_levels": "grid artefacts, grey levels",
    "seam_step_levels": "seam along a row or column, grey levels",
    "clipped_fraction": "fraction of clipped pixels",
    "warping_error_levels": "warping error between consecutive frames, grey levels",
}


@dataclass(frozen=True)
class MeasureRow:
    """Table row of a measure."""

    title: str
    is_object_measure: bool
    limit: str
    measured_count: int
    failed_count: int
    failure_rate: Estimate
    worst: float
    reasons: Mapping[str, int]


@dataclass(frozen=True)
class ImagePairView:
    """Image before and after translation as data URIs, and its violations as text."""

    name: str
    before: str
    after: str
    failures: tuple[str, ...]


def write_certificate_page(
    certificate: DatasetCertificate, paths: Mapping[str, tuple[Path, Path]], out: Path
) -> Path:
    """Write a self-contained page and return its path.

    Args:
        paths: Image files before and after translation, by name.

    Raises:
        InputError: If an image cannot be read.
    """
    accepted = [image for image in certificate.images if not image.failed_measures]
    return write_page(
        out,
        "certificate.html",
        certificate=certificate,
        rows=[_build_row(name, certificate) for name in MEASURES],
        recall_by_verifier={
            verifier: certificate.estimate_detection_recall(verifier)
            for verifier in certificate.verifiers
        },
        rejected=_build_image_pairs(certificate.rejected_images[:MAX_REJECTED], certificate, paths),
        accepted=_build_image_pairs(accepted[:MAX_ACCEPTED], certificate, paths),
    )


def _build_row(name: str, certificate: DatasetCertificate) -> MeasureRow:
    checks = [image.checks[name] for image in certificate.images]
    values = [check.value for check in checks if check.value is not None]
    failed = sum(check.status == "fail" for check in checks)
    worst = min if is_lower_bound(name) else max
    return MeasureRow(
        title=MEASURE_TITLES[name],
        is_object_measure=name in OBJECT_MEASURES,
        limit=_format_limit(name, certificate),
        measured_count=len(values),
        failed_count=failed,
        failure_rate=estimate_proportion(failed, len(values)),
        worst=worst(values, default=float("nan")),
        reasons=Counter(check.reason for check in checks if check.reason is not None),
    )


def _format_limit(name: str, certificate: DatasetCertificate) -> str:
    sign = "at least" if is_lower_bound(name) else "at most"
    return f"{sign} {get_limit(name, certificate.limits):g}"


def _build_image_pairs(
    image_certificates: Sequence[ImageCertificate],
    certificate: DatasetCertificate,
    paths: Mapping[str, tuple[Path, Path]],
) -> list[ImagePairView]:
    return [
        _build_image_pair(image, certificate, *paths[image.name])
        for image in image_certificates
        if image.name in paths
    ]


def _build_image_pair(
    image_certificate: ImageCertificate, certificate: DatasetCertificate, before: Path, after: Path
) -> ImagePairView:
    failures = (
        f"{MEASURE_TITLES[name]}: {image_certificate.checks[name].value}, {_format_limit(name, certificate)}"
        for name in image_certificate.failed_measures
    )
    return ImagePairView(
        f"{image_certificate.name} ({before.name})",
        _encode_image(before),
        _encode_image(after),
        tuple(failures),
    )


def _encode_image(path: Path) -> str:
    return encode_data_uri(encode_thumbnail(read_rgb(path), IMAGE_PX))
