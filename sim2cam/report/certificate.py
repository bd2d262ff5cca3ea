"""The page of a certificate: every measure with its limit, and the pictures that broke one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sim2cam.adapt.certificate.certificate import (
    MEASURES,
    OBJECT_MEASURES,
    PictureCertificate,
    SetCertificate,
    is_least,
    limit_of,
    share,
)
from sim2cam.images import read_rgb
from sim2cam.metrics.bootstrap import Estimate
from sim2cam.report.page import data_uri, shrunk_jpeg, write_page

PICTURE_PX = 480
MOST_REJECTED = 24
MOST_KEPT = 6

WORDS = {
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
        words: what is measured.
        is_of_objects: whether it counts towards a certificate.
        limit: as text.
        measured: number of pictures.
        failed: number of these that break the limit.
        failing: the share of these.
        worst: value.
        why: it was not measured, where it was not; with the number of pictures.
    """

    words: str
    is_of_objects: bool
    limit: str
    measured: int
    failed: int
    failing: Estimate
    worst: float
    why: Mapping[str, int]


@dataclass(frozen=True)
class ShownPicture:
    """A picture before and after, as addresses, and which limits it breaks, in words."""

    name: str
    before: str
    after: str
    broken: tuple[str, ...]


def write_certificate_page(
    certificate: SetCertificate, paths: Mapping[str, tuple[Path, Path]], out: Path
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
    whole = [picture for picture in certificate.pictures if not picture.failed]
    return write_page(
        out,
        "certificate.html",
        certificate=certificate,
        rows=[_row(name, certificate) for name in MEASURES],
        retention={judge: certificate.retention(judge) for judge in certificate.judges},
        rejected=_shown(certificate.rejected[:MOST_REJECTED], certificate, paths),
        kept=_shown(whole[:MOST_KEPT], certificate, paths),
    )


def _row(name: str, certificate: SetCertificate) -> MeasureRow:
    findings = [picture.findings[name] for picture in certificate.pictures]
    values = [found.value for found in findings if found.value is not None]
    failed = sum(found.verdict == "fail" for found in findings)
    worst = min if is_least(name) else max
    return MeasureRow(
        words=WORDS[name],
        is_of_objects=name in OBJECT_MEASURES,
        limit=_limit(name, certificate),
        measured=len(values),
        failed=failed,
        failing=share(failed, len(values)),
        worst=worst(values, default=float("nan")),
        why=Counter(found.why for found in findings if found.why is not None),
    )


def _limit(name: str, certificate: SetCertificate) -> str:
    sign = "at least" if is_least(name) else "at most"
    return f"{sign} {limit_of(name, certificate.limits):g}"


def _shown(
    pictures: Sequence[PictureCertificate],
    certificate: SetCertificate,
    paths: Mapping[str, tuple[Path, Path]],
) -> list[ShownPicture]:
    return [
        _shown_picture(picture, certificate, *paths[picture.name])
        for picture in pictures
        if picture.name in paths
    ]


def _shown_picture(
    picture: PictureCertificate, certificate: SetCertificate, before: Path, after: Path
) -> ShownPicture:
    broken = (
        f"{WORDS[name]}: {picture.findings[name].value}, {_limit(name, certificate)}"
        for name in picture.failed
    )
    return ShownPicture(
        f"{picture.name} ({before.name})", _address(before), _address(after), tuple(broken)
    )


def _address(path: Path) -> str:
    return data_uri(shrunk_jpeg(read_rgb(path), PICTURE_PX))
