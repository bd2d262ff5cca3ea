"""Page of a label-preservation certificate."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from sim2cam.adapt.certificate.certificate import (
    MEASURES,
    OBJECT_MEASURES,
    DatasetCertificate,
    Decision,
    ImageCertificate,
    estimate_proportion,
    get_limit,
    is_lower_bound,
)
from sim2cam.data.writer import REJECTED
from sim2cam.images import read_rgb
from sim2cam.metrics.bootstrap import Estimate
from sim2cam.metrics.verdict import Finding, Severity, Verdict
from sim2cam.report.certificate_measures import MEASURE_TEXTS, MeasureText
from sim2cam.report.page import encode_data_uri, encode_thumbnail, write_page

IMAGE_PX = 480
MAX_REJECTED_PER_CAUSE = 6
MAX_ACCEPTED = 6
MAX_REMEDIES = 3


@dataclass(frozen=True)
class MeasureRow:
    """Table row of a measure.

    Attributes:
        median, worst: Values over all measured images; NaN if there are none.
        reasons: Number of images by the reason why the measure is missing.
    """

    name: str
    text: MeasureText
    is_object_measure: bool
    limit: str
    measured_count: int
    failed_count: int
    failure_rate: Estimate
    median: float
    worst: float
    reasons: Mapping[str, int]


@dataclass(frozen=True)
class ImagePairView:
    """Image before and after translation as data URIs, and its violations as text."""

    name: str
    before: str
    after: str
    failures: tuple[str, ...]


@dataclass(frozen=True)
class CauseView:
    """Rejected images with one cause in common.

    Attributes:
        count: Number of images that break the limit of this measure.
        pairs: Examples that no earlier cause shows.
    """

    text: MeasureText
    count: int
    pairs: tuple[ImagePairView, ...]


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
        verdict=summarize_certificate(certificate),
        rows=[_build_row(name, certificate) for name in MEASURES],
        recall_by_verifier={
            verifier: certificate.estimate_detection_recall(verifier)
            for verifier in certificate.verifiers
        },
        causes=_build_causes(certificate, paths),
        accepted=_build_image_pairs(accepted[:MAX_ACCEPTED], certificate, paths),
    )


def summarize_certificate(certificate: DatasetCertificate) -> Verdict:
    """Return findings on accepted and rejected images and on moved labels, with next steps.

    Commands name no folder, so that equal datasets have equal pages.
    """
    text = f"{certificate.accepted_count} of {len(certificate.images)} images pass"
    shifts = [
        check.value
        for image in certificate.images
        if not image.failed_measures
        and (check := image.checks["object_shift_px"]).value is not None
    ]
    if shifts:
        text += f"; their labels moved by at most {max(shifts):.2g} px"
    severity, meaning = _DECISIONS[certificate.decision]
    return Verdict(
        (
            Finding(f"{text}. {meaning}", severity),
            *(Finding(f"{violation}.", "problem") for violation in certificate.violations),
            *_explain_rejections(certificate),
            *_list_next_steps(certificate),
        )
    )


_DECISIONS: Mapping[Decision, tuple[Severity, str]] = {
    "certified": ("good", "The labels of the renders are valid for these images."),
    "appearance only": (
        "note",
        "Most images have no object measures, so it is not verified that labels are preserved.",
    ),
    "failed": ("problem", "The dataset breaks a limit of its certificate."),
}


def _explain_rejections(certificate: DatasetCertificate) -> Iterator[Finding]:
    """Return the number of rejected images by cause, and a remedy for the most frequent causes."""
    counts = count_causes(certificate)
    if not counts:
        return
    causes = ", ".join(
        f"{count} for {MEASURE_TEXTS[name].failure}" for name, count in counts.items()
    )
    rejected = len(certificate.rejected_images)
    subject = "1 image was" if rejected == 1 else f"{rejected} images were"
    yield Finding(
        f"{subject} rejected: {causes}. They are not samples of the dataset; each shard keeps them in {REJECTED}/.",
        "note",
    )
    for name in list(counts)[:MAX_REMEDIES]:
        text = MEASURE_TEXTS[name]
        yield Finding(f"To avoid {text.failure}: {text.remedy}", "next")
    yield Finding(
        "Change these settings in [adapt.translator] of a recipe, train the translator again, and apply it.",
        "next",
        "sim2cam adapt train --sim RENDERS --real PHOTOS --recipe RECIPE.toml --out TRANSLATOR",
    )


def _list_next_steps(certificate: DatasetCertificate) -> Iterator[Finding]:
    if certificate.decision == "appearance only":
        yield Finding(
            "To verify labels, translate renders with labels, or give a detector.",
            "next",
            "sim2cam adapt apply TRANSLATOR --data RENDERS --task WEIGHTS --out ADAPTED",
        )
    if certificate.decision != "failed":
        yield Finding(
            "Train a detector on the renders and on this dataset.",
            "next",
            "sim2cam train RECIPE --data RENDERS ADAPTED --out DETECTOR",
        )


def count_causes(certificate: DatasetCertificate) -> dict[str, int]:
    """Return the number of rejected images by the measure that they fail, most frequent first.

    An image that fails several measures counts for each.
    """
    counts = Counter(
        name for image in certificate.rejected_images for name in image.failed_measures
    )
    return dict(counts.most_common())


def _build_row(name: str, certificate: DatasetCertificate) -> MeasureRow:
    checks = [image.checks[name] for image in certificate.images]
    values = [check.value for check in checks if check.value is not None]
    failed = sum(check.status == "fail" for check in checks)
    worst = min if is_lower_bound(name) else max
    return MeasureRow(
        name=name,
        text=MEASURE_TEXTS[name],
        is_object_measure=name in OBJECT_MEASURES,
        limit=_format_limit(name, certificate),
        measured_count=len(values),
        failed_count=failed,
        failure_rate=estimate_proportion(failed, len(values)),
        median=median(values) if values else math.nan,
        worst=worst(values, default=math.nan),
        reasons=Counter(check.reason for check in checks if check.reason is not None),
    )


def _format_limit(name: str, certificate: DatasetCertificate) -> str:
    sign = "at least" if is_lower_bound(name) else "at most"
    return f"{sign} {get_limit(name, certificate.limits):g}"


def _build_causes(
    certificate: DatasetCertificate, paths: Mapping[str, tuple[Path, Path]]
) -> list[CauseView]:
    """Group rejected images by cause; an image is shown once, at its most frequent cause."""
    shown: set[str] = set()
    causes = []
    for name, count in count_causes(certificate).items():
        images = [
            image
            for image in certificate.rejected_images
            if name in image.failed_measures and image.name not in shown
        ][:MAX_REJECTED_PER_CAUSE]
        shown |= {image.name for image in images}
        pairs = tuple(_build_image_pairs(images, certificate, paths))
        causes.append(CauseView(MEASURE_TEXTS[name], count, pairs))
    return causes


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
        f"{MEASURE_TEXTS[name].failure}: {image_certificate.checks[name].value}, limit {_format_limit(name, certificate)}"
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
