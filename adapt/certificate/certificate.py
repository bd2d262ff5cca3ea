"""Certificates: of a translated picture, and of a set of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import TypeAdapter, ValidationError
from scipy.stats import binomtest

from sim2cam.adapt.certificate.artefacts import (
    LEAST_SIDE_PX,
    added_levels,
    clipped_share,
    grid_levels,
    lost_levels,
    seam_levels,
)
from sim2cam.adapt.certificate.colour import colour_shifts
from sim2cam.adapt.certificate.detector_agreement import Judge, Opinion, opinions_of
from sim2cam.adapt.certificate.edges import outline_recalls
from sim2cam.adapt.certificate.flicker import Earlier, warp_levels
from sim2cam.adapt.certificate.image_pair import Pair
from sim2cam.adapt.certificate.limits import Limits
from sim2cam.adapt.certificate.structure import picture_correlation, places
from sim2cam.data.parsing import first_problem
from sim2cam.errors import InputError
from sim2cam.geometry.boxes import Box
from sim2cam.metrics.bootstrap import CONFIDENCE, Estimate

JUDGES = ("task", "judge")
OPINIONS = ("retained", "vanished", "hallucinated")
OBJECT_MEASURES = (
    "displacement_px",
    "correlation",
    "outline_recall",
    "colour_shift",
    "lost_levels",
    *(f"{judge}_{name}" for judge in JUDGES for name in OPINIONS),
)
_OF_NEW_OBJECTS = tuple(f"{judge}_hallucinated" for judge in JUDGES)  # none that were there
MEASURES = (
    *OBJECT_MEASURES,
    "picture_correlation",
    "added_levels",
    "grid_levels",
    "seam_levels",
    "clipped_share",
    "warp_levels",
)
_LEAST = ("correlation", "recall", "retained")

NO_FILM = "it is no picture of a film"

LEAST_FOUND = 3  # objects before, for the share that is found again to say anything

T = TypeVar("T")
Verdict = Literal["certified", "appearance only", "failed"]


@dataclass(frozen=True)
class Finding:
    """What a measure says.

    Attributes:
        value: of the worst object, or of the picture; None when it was not measured.
        verdict: whether it keeps to its limit.
        why: it was not measured; None when it was.
    """

    value: float | None
    verdict: Literal["pass", "fail", "not measured"]
    why: str | None = None


@dataclass(frozen=True)
class PictureCertificate:
    """What was measured of one translated picture.

    Attributes:
        name: of the picture.
        findings: by the names of ``MEASURES``, all of them.
        opinions: of the judges, by their names.
    """

    name: str
    findings: Mapping[str, Finding]
    opinions: Mapping[str, Opinion] = field(default_factory=dict)

    @property
    def failed(self) -> tuple[str, ...]:
        """The measures whose limits it breaks."""
        return tuple(name for name, found in self.findings.items() if found.verdict == "fail")

    @property
    def verdict(self) -> Verdict:
        """Of the picture: only one whose objects were measured can be certified."""
        if self.failed:
            return "failed"
        of_objects = (name for name in OBJECT_MEASURES if name not in _OF_NEW_OBJECTS)
        measured = any(self.findings[name].verdict == "pass" for name in of_objects)
        return "certified" if measured else "appearance only"


@dataclass(frozen=True)
class SetCertificate:
    """What was measured of a set of translated pictures.

    Attributes:
        limits: that were kept to.
        judges: digests of their weights, by their names.
        pictures: all of them, also the rejected.
    """

    limits: Limits
    judges: Mapping[str, str]
    pictures: tuple[PictureCertificate, ...]

    @property
    def rejected(self) -> tuple[PictureCertificate, ...]:
        """The pictures that break a limit."""
        return tuple(picture for picture in self.pictures if picture.failed)

    @property
    def kept(self) -> int:
        """The number of the others."""
        return len(self.pictures) - len(self.rejected)

    @property
    def rejection(self) -> Estimate:
        """The share of rejected pictures, with its interval."""
        return share(len(self.rejected), len(self.pictures))

    def retention(self, judge: str) -> Estimate | None:
        """Returns the share of objects that a judge finds again; None when it found none before."""
        opinions = [p.opinions[judge] for p in self.pictures if judge in p.opinions]
        found = sum(opinion.found for opinion in opinions)
        return share(sum(opinion.retained for opinion in opinions), found) if found else None

    @property
    def faults(self) -> tuple[str, ...]:
        """What of the whole set breaks a limit, in words."""
        found = []
        if self.rejection.value > self.limits.rejected:
            found.append(
                f"{self.rejection.value:.1%} of the pictures were rejected, more than "
                f"{self.limits.rejected:.1%}"
            )
        for judge in self.judges:
            kept = self.retention(judge)
            if kept is not None and kept.ci95[1] < self.limits.set_retained:
                found.append(
                    f"{judge} finds {kept.value:.1%} of the objects again, surely fewer than "
                    f"{self.limits.set_retained:.1%}"
                )
        return tuple(found)

    @property
    def verdict(self) -> Verdict:
        """Of the set: certified when the objects of most kept pictures were measured."""
        if self.faults:
            return "failed"
        seen = sum(picture.verdict == "certified" for picture in self.pictures)
        return "certified" if 2 * seen >= max(1, self.kept) else "appearance only"

    def to_json(self) -> dict[str, Any]:
        """Returns the certificate as JSON values, led by what it comes to."""
        retention = {judge: self.retention(judge) for judge in self.judges}
        return {
            "verdict": self.verdict,
            "faults": list(self.faults),
            "rejected": len(self.rejected),
            "rejection": self.rejection.to_json(),
            "retention": {name: kept.to_json() for name, kept in retention.items() if kept},
            **asdict(self),
        }


def certify(
    name: str,
    pair: Pair,
    limits: Limits,
    *,
    labelled: Sequence[Box] | None = None,
    judges: Mapping[str, Judge],
    earlier: Earlier | str = NO_FILM,
) -> PictureCertificate:
    """Returns what is measured of a translated picture.

    Args:
        name: of the picture.
        pair: it and the one that it was made from.
        limits: that it has to keep to.
        labelled: boxes of the labelled objects; None when there are no labels.
        judges: detectors, by names of ``JUDGES``.
        earlier: the picture before it in its film; or why there is none to compare it with.
    """
    opinions = opinions_of(judges, pair.before, pair.after, labelled)
    findings = _of_objects(pair, limits) | _of_judges(opinions, limits) | _of_picture(pair, limits)
    findings["warp_levels"] = _of_film(earlier, pair, limits)
    return PictureCertificate(name, {measure: findings[measure] for measure in MEASURES}, opinions)


def certificate_from_json(path: Path, content: Any) -> SetCertificate:
    """Returns the certificate of ``SetCertificate.to_json``.

    Args:
        path: the file, for the errors.
        content: of the file.

    Raises:
        InputError: it is no certificate.
    """
    return _checked(_SET, path, content)


def picture_from_json(path: Path, content: Any) -> PictureCertificate:
    """Returns the certificate of a picture; ``asdict`` gives its JSON values.

    Args:
        path: the file, for the errors.
        content: of its line.

    Raises:
        InputError: it is no certificate.
    """
    return _checked(_PICTURE, path, content)


def is_least(measure: str) -> bool:
    """Returns whether what is below the limit of a measure breaks it, not what is above."""
    return measure.rpartition("_")[2] in _LEAST


def limit_of(measure: str, limits: Limits) -> float:
    """Returns the limit of a measure; judges share theirs."""
    judge, _, opinion = measure.partition("_")
    return float(getattr(limits, opinion if judge in JUDGES else measure))


def share(some: int, of: int) -> Estimate:
    """Returns a share with its 95 % interval (Wilson 1927)."""
    interval = binomtest(some, max(of, 1)).proportion_ci(CONFIDENCE, method="wilson")
    return Estimate(some / max(of, 1), (float(interval.low), float(interval.high)))


def _of_objects(pair: Pair, limits: Limits) -> dict[str, Finding]:
    placed = [place for place in places(pair) if place is not None]
    measured: tuple[tuple[str, Callable[..., float], Sequence[float | None], str], ...] = (
        ("displacement_px", max, [place.displacement_px for place in placed], "has contrast"),
        ("correlation", min, [place.correlation for place in placed], "has contrast"),
        ("outline_recall", min, outline_recalls(pair), "has an outline that is seen"),
        ("colour_shift", max, colour_shifts(pair), "shows enough of its colour"),
        ("lost_levels", max, lost_levels(pair), "is large enough to have an inside"),
    )
    findings = {}
    for name, worst, values, needed in measured:
        known = [value for value in values if value is not None]
        if known:
            findings[name] = _finding(name, worst(known), limits)
        else:
            findings[name] = _not_measured(_reason(name, pair, needed))
    return findings


def _reason(measure: str, pair: Pair, needed: str) -> str:
    if pair.regions is None:
        return "there are no labels"
    if measure == "outline_recall" and pair.ids is None:
        return "the labels have neither an image of instance ids nor masks"
    return f"no object {needed}" if pair.regions else "there is no object"


def _of_judges(opinions: Mapping[str, Opinion], limits: Limits) -> dict[str, Finding]:
    """Returns what judges say; an object that one of them loses is kept where another one speaks for it."""
    findings: dict[str, Finding] = {}
    for judge in JUDGES:
        opinion = opinions.get(judge)
        if opinion is None:
            found = dict.fromkeys(OPINIONS, _not_measured(f"no weights were given with --{judge}"))
        else:
            found = _of_judge(judge, opinion, limits)
        findings |= {f"{judge}_{name}": found[name] for name in OPINIONS}
    return findings


def _of_judge(judge: str, opinion: Opinion, limits: Limits) -> dict[str, Finding]:
    retained = _not_measured(f"it finds fewer than {LEAST_FOUND} objects before")
    if opinion.found >= LEAST_FOUND:
        share_kept = (opinion.retained + opinion.retained_by_others) / opinion.found
        retained = _finding(f"{judge}_retained", share_kept, limits)
    vanished = _not_measured("it finds no object before")
    if opinion.found:
        lost = opinion.vanished - opinion.found_by_others
        vanished = _finding(f"{judge}_vanished", lost, limits)
    hallucinated = _finding(f"{judge}_hallucinated", opinion.hallucinated, limits)
    return {"retained": retained, "vanished": vanished, "hallucinated": hallucinated}


def _of_picture(pair: Pair, limits: Limits) -> dict[str, Finding]:
    measured: tuple[tuple[str, float | None, str], ...] = (
        ("picture_correlation", picture_correlation(pair), "it has next to no contrast"),
        ("grid_levels", grid_levels(pair), f"a side of it is shorter than {LEAST_SIDE_PX} px"),
        ("seam_levels", seam_levels(pair), "no row or column of it is flat enough"),
    )
    findings = {
        "added_levels": _finding("added_levels", added_levels(pair), limits),
        "clipped_share": _finding("clipped_share", clipped_share(pair), limits),
    }
    for name, value, lacking in measured:
        findings[name] = _not_measured(lacking) if value is None else _finding(name, value, limits)
    return findings


def _of_film(earlier: Earlier | str, pair: Pair, limits: Limits) -> Finding:
    if isinstance(earlier, str):
        return _not_measured(earlier)
    value = warp_levels(earlier, pair)
    if value is None:
        return _not_measured("hardly anything of it is seen in the picture before")
    return _finding("warp_levels", value, limits)


def _finding(measure: str, value: float, limits: Limits) -> Finding:
    limit = limit_of(measure, limits)
    keeps = value >= limit if is_least(measure) else value <= limit
    return Finding(round(float(value), 4), "pass" if keeps else "fail")


def _not_measured(why: str) -> Finding:
    return Finding(None, "not measured", why)


def _checked(adapter: TypeAdapter[T], path: Path, content: Any) -> T:
    try:
        return adapter.validate_python(content)
    except ValidationError as error:
        raise InputError(
            path, f"no certificate: {first_problem(error)}. Translate the pictures again."
        ) from error


_SET: TypeAdapter[SetCertificate] = TypeAdapter(SetCertificate)
_PICTURE: TypeAdapter[PictureCertificate] = TypeAdapter(PictureCertificate)
