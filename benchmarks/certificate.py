"""Sensitivity of label-preservation certificates to harmful changes, and false alarms on camera changes.

    python benchmarks/certificate.py [--data DIR] [--pictures N]

Renders dice at 320x320, or reads the images of ``--data``, and applies each change of ``saboteurs``.
Writes ``certificate.json`` to ``benchmarks/results``: shares of rejected images and sets, with the two
shipped detectors as verifiers and without verifiers. The limits are those of the recipe, which were chosen
on other renders. ``certificate.jpg`` shows the first image and all its harmful changes.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import tyro
from numpy.typing import NDArray
from rendering.sheet import write_contact_sheet
from result_files import FIGURES, RESULTS, write_results
from saboteurs import BENIGN, SABOTEURS, Change, Subject

from sim2cam.adapt.certificate import certificate
from sim2cam.adapt.certificate.certificate import (
    DatasetCertificate,
    ImageCertificate,
    certify,
    estimate_proportion,
)
from sim2cam.adapt.certificate.detector_agreement import Verifier
from sim2cam.adapt.certificate.image_pair import ImagePair, extract_object_regions
from sim2cam.adapt.certificate.limits import CertificateLimits
from sim2cam.adapt.transfers.transfer import read_frame
from sim2cam.adapt.translation import JPEG_QUALITY
from sim2cam.data.environment import collect_environment
from sim2cam.data.reader import read_dataset
from sim2cam.data.sample import Dataset
from sim2cam.images import compute_digest, decode_image, encode_jpeg
from sim2cam.metrics.detection import Detection
from sim2cam.models.shipped_weights import resolve_weights
from sim2cam.pipeline.generation import generate
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.pipeline.verifiers import check_verifiers, load_verifiers
from sim2cam.progress import ignore_progress
from sim2cam.seeds import derive_rng

VERIFIERS = {"task": "dice", "verifier": "dice-verifier"}  # shipped weights by verifier name
VERIFIER_MEASURES = {
    f"{verifier}_{measure}" for verifier in VERIFIERS for measure in certificate.AGREEMENT_MEASURES
}
SIDE_PX = 320
SEED = 600
SET = 20  # images

Verifiers = Mapping[str, Verifier]


@dataclass(frozen=True)
class Arguments:
    """Options of the benchmark."""

    data: Path | None = None
    """Rendered dataset; default: render a new one."""
    pictures: int = 200
    """Number of images with an object of at least 12 pixels."""
    work: Path = Path("runs/certificate")
    """Folder of the renders."""


def main(arguments: Arguments) -> None:
    """Certify every change of every image and write the results."""
    cv2.setNumThreads(1)
    limits = load_recipe("dice").adapt.certificate
    weights = tuple((name, resolve_weights(Path(file))) for name, file in VERIFIERS.items())
    check_verifiers(weights)
    verifiers = {
        name: cache_detections(verifier)
        for name, verifier in load_verifiers(weights, "cpu").items()
    }
    subjects = select_subjects(_load_dataset(arguments), arguments.pictures)
    saboteurs, benign = (
        [
            score_change(name, change, subjects, limits, verifiers)
            for name, change in changes.items()
        ]
        for changes in (SABOTEURS, BENIGN)
    )
    facts = {
        "environment": collect_environment(None, 1),
        "limits": asdict(limits),
        "verifiers": {name: compute_digest(path) for name, path in weights},
        "images": len(subjects),
        "set": SET,
        "saboteurs": saboteurs,
        "benign": benign,
    }
    write_results(RESULTS / "certificate.json", facts)
    write_sheet(subjects[0], FIGURES / "certificate.jpg")
    for row in (*saboteurs, *benign):
        share = row["failed_without_verifiers"]["value"]
        print(
            f"{row['name']:<28} failed {row['failed']['value']:.3f} ({share:.3f} without verifiers)  "
            f"by {row['by']}"
        )


def write_sheet(subject: Subject, path: Path) -> None:
    """Write an image beside each harmful change of it."""
    changed = [
        (name, _apply_change(name, change, 0, subject)) for name, change in SABOTEURS.items()
    ]
    write_contact_sheet(path, [("as rendered", subject.rgb), *changed])


def select_subjects(dataset: Dataset, count: int) -> list[Subject]:
    """Return the first images of a dataset that have a large enough object."""
    subjects: list[Subject] = []
    for sample in dataset.samples:
        frame = read_frame(sample)
        assert frame.ids is not None
        subject = Subject(frame.rgb, frame.ids, sample.objects or (), dataset.categories)
        if subject.large and len(subjects) < count:
            subjects.append(subject)
    return subjects


def score_change(
    name: str,
    change: Change,
    subjects: Sequence[Subject],
    limits: CertificateLimits,
    verifiers: Verifiers,
) -> dict[str, Any]:
    """Return how many changed images and sets of images fail, and by which measures."""
    start = time.process_time()
    certificates = [
        _certify_change(name, change, i, s, limits, verifiers) for i, s in enumerate(subjects)
    ]
    seconds = time.process_time() - start
    sets = [
        DatasetCertificate(
            limits, dict.fromkeys(verifiers, ""), tuple(certificates[first : first + SET])
        )
        for first in range(0, len(certificates) - SET + 1, SET)
    ]
    return {
        "name": name,
        "failed": estimate_proportion(
            sum(bool(result.failed_measures) for result in certificates), len(certificates)
        ).to_json(),
        "failed_without_verifiers": estimate_proportion(
            sum(map(_fails_without_verifiers, certificates)), len(certificates)
        ).to_json(),
        "by": dict(
            Counter(
                measure for result in certificates for measure in result.failed_measures
            ).most_common()
        ),
        "sets": len(sets),
        "sets_failed": sum(result.decision == "failed" for result in sets),
        "sets_certified": sum(result.decision == "certified" for result in sets),
        "cpu_ms": 1e3 * seconds / len(certificates),
    }


def _fails_without_verifiers(image: ImageCertificate) -> bool:
    """Return whether an image fails by a measure that needs no verifier."""
    return not VERIFIER_MEASURES.issuperset(image.failed_measures)


def cache_detections(verifier: Verifier) -> Verifier:
    """Return a verifier with cached detections: all changes share one render."""
    detections: dict[bytes, Sequence[Detection]] = {}

    def detect(rgb: NDArray[np.uint8]) -> Sequence[Detection]:
        key = hashlib.sha256(rgb.tobytes()).digest()
        if key not in detections:
            detections[key] = verifier(rgb)
        return detections[key]

    return detect


def _certify_change(
    name: str,
    change: Change,
    index: int,
    subject: Subject,
    limits: CertificateLimits,
    verifiers: Verifiers,
) -> ImageCertificate:
    after = decode_image(encode_jpeg(_apply_change(name, change, index, subject), JPEG_QUALITY))
    regions = extract_object_regions(subject.objects, subject.ids, subject.rgb.shape)
    pair = ImagePair(subject.rgb, after, regions, subject.ids)
    boxes = [label.box_xyxy for label in subject.objects]
    return certify(f"{index:06d}", pair, limits, labelled_boxes=boxes, verifiers=verifiers)


def _apply_change(name: str, change: Change, index: int, subject: Subject) -> NDArray[np.uint8]:
    return change(subject, derive_rng(SEED, f"certificate/{name}", scene_index=index))


def _load_dataset(arguments: Arguments) -> Dataset:
    if arguments.data is not None:
        return read_dataset(arguments.data)
    recipe = load_recipe("dice")
    return generate(
        replace(recipe, render=replace(recipe.render, width=SIDE_PX, height=SIDE_PX)),
        arguments.work,
        count=arguments.pictures + arguments.pictures // 5,
        seed=SEED,
        workers=1,
        resume=True,
        overwrite=False,
        progress=ignore_progress,
    )


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
