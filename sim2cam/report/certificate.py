"""The page of a certificate: every measure with its limit, and the pictures that broke one."""

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
MAX_KEPT = 6

MEASURE_TITLES = {
    "displacement_px": "an object moved, pixels",
    "correlation": "an object's light, before and after",
    "outline_recall": "an object's outline still seen",
    "colour_shift": "an object's colour against what is around it",
    "lost_levels": "structure within an object that is gone, levels",
    "task_retained": "task model: objects found again",
    "task_vanished": "task model: objects vanished",
    "task_hallucinated": "task model: objects hallucinated",
    "judge_retained": "second judge: objects found again",
    "judge_vanished": "second judge: objects vanished",
    "judge_hallucinated": "second judge: objects hallucinated",
    "picture_correlation": "the picture's light, before and after",
    "added_levels": "structure that was not there, levels",
    "grid_levels": "waves of a grid, levels",
    "seam_levels": "step along a row or column, levels",
    "clipped_share": "pixels that lost their light",
    "warp_levels": "flicker from one picture of a film to the next, levels",
}


@dataclass(frozen=True)
class MeasureRow:
    """What the page says of a measure.

    Attributes:
        title: what is measured.
        is_object_measure: whether it counts towards a certificate.
        limit: as text.
        measured_count: number of pictures.
        failed_count: number of these that break the limit.
        failure_rate: the share of these.
        worst: value.
        reasons: it was not measured, where it was not; with the number of pictures.
    """

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
    """A picture before and after, as addresses, and which limits it breaks, in words."""

    name: str
    before: str
    after: str
    failures: tuple[str, ...]


def write_certificate_page(
    certificate: DatasetCertificate, paths: Mapping[str, tuple[Path, Path]], out: Path
) -> Path:
    """Writes a page and returns its path.

    Args:
        certificate: of a set.
        paths: files of its pictures before and after, by name.
        out: the HTML file.

    Raises:
        InputError: a picture cannot be read.
        OutputError: the file cannot be written.
    """
    whole = [picture for picture in certificate.images if not picture.failed_measures]
    return write_page(
        out,
        "certificate.html",
        certificate=certificate,
        rows=[_build_row(name, certificate) for name in MEASURES],
        retention={
            judge: certificate.estimate_detection_recall(judge) for judge in certificate.verifiers
        },
        rejected=_build_image_pairs(certificate.rejected_images[:MAX_REJECTED], certificate, paths),
        kept=_build_image_pairs(whole[:MAX_KEPT], certificate, paths),
    )


def _build_row(name: str, certificate: DatasetCertificate) -> MeasureRow:
    findings = [picture.checks[name] for picture in certificate.images]
    values = [found.value for found in findings if found.value is not None]
    failed = sum(found.status == "fail" for found in findings)
    worst = min if is_lower_bound(name) else max
    return MeasureRow(
        title=MEASURE_TITLES[name],
        is_object_measure=name in OBJECT_MEASURES,
        limit=_format_limit(name, certificate),
        measured_count=len(values),
        failed_count=failed,
        failure_rate=estimate_proportion(failed, len(values)),
        worst=worst(values, default=float("nan")),
        reasons=Counter(found.reason for found in findings if found.reason is not None),
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
        _build_image_pair(picture, certificate, *paths[picture.name])
        for picture in image_certificates
        if picture.name in paths
    ]


def _build_image_pair(
    image_certificate: ImageCertificate, certificate: DatasetCertificate, before: Path, after: Path
) -> ImagePairView:
    broken = (
        f"{MEASURE_TITLES[name]}: {image_certificate.checks[name].value}, {_format_limit(name, certificate)}"
        for name in image_certificate.failed_measures
    )
    return ImagePairView(
        f"{image_certificate.name} ({before.name})",
        _encode_image(before),
        _encode_image(after),
        tuple(broken),
    )


def _encode_image(path: Path) -> str:
    return encode_data_uri(encode_thumbnail(read_rgb(path), IMAGE_PX))
