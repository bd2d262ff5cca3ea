"""Whether certificates catch what harms labels, and let pass what a camera does.

    python benchmarks/certificate.py [--data DIR] [--pictures N]

Renders dice at 320x320, or takes the pictures of ``--data``, and changes each in every way of
``saboteurs``. Writes ``certificate.json`` to ``benchmarks/results``: how many pictures, and sets of
them, were caught and passed, with the two detectors that ship as judges and by what is measured without
them. The limits are those of the recipe; they were chosen on other renders. Beside it ``certificate.jpg``
shows the first picture and what each saboteur makes of it.
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
from saboteurs import BENIGN, SABOTEURS, Change, Subject
from scoring_log import RESULTS

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
from sim2cam.data.writer import write_json
from sim2cam.images import compute_digest, decode_image, encode_jpeg
from sim2cam.metrics.detection import Detection
from sim2cam.pipeline.generation import generate
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.pipeline.verifiers import check_verifiers, load_verifiers, resolve_weights
from sim2cam.seeds import derive_rng

JUDGES = {"task": "dice", "verifier": "dice-verifier"}  # weights that ship, by name of the judge
OPINIONS = {f"{judge}_{opinion}" for judge in JUDGES for opinion in certificate.AGREEMENT_MEASURES}
SIDE_PX = 320
SEED = 600
SET = 20  # pictures

Judges = Mapping[str, Verifier]


@dataclass(frozen=True)
class Arguments:
    """What is looked at."""

    data: Path | None = None
    """A rendered data set, instead of a new one."""
    pictures: int = 200
    """With an object of 12 pixels or more."""
    work: Path = Path("runs/certificate")
    """Where the pictures are rendered."""


def main(arguments: Arguments) -> None:
    """Judge every change of every picture and writes what came of it."""
    cv2.setNumThreads(1)
    limits = load_recipe("dice").adapt.certificate
    weights = tuple((name, resolve_weights(Path(file))) for name, file in JUDGES.items())
    check_verifiers(weights)
    judges = {name: remembering(judge) for name, judge in load_verifiers(weights, "cpu").items()}
    subjects = pictures_of(_dataset(arguments), arguments.pictures)
    saboteurs, benign = (
        [judged(name, change, subjects, limits, judges) for name, change in changes.items()]
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
    write_json(RESULTS / "certificate.json", facts)
    write_sheet(subjects[0], RESULTS / "certificate.jpg")
    for found in (*saboteurs, *benign):
        alone = found["failed_without_verifiers"]["value"]
        print(
            f"{found['name']:<28} failed {found['failed']['value']:.3f} ({alone:.3f} without judges)  "
            f"by {found['by']}"
        )


def write_sheet(subject: Subject, path: Path) -> None:
    """Write a picture beside what each saboteur makes of it."""
    changed = [(name, _changed(name, change, 0, subject)) for name, change in SABOTEURS.items()]
    write_contact_sheet(path, [("as rendered", subject.rgb), *changed])


def pictures_of(dataset: Dataset, count: int) -> list[Subject]:
    """Return the first pictures of a data set that have an object that is large enough."""
    found: list[Subject] = []
    for sample in dataset.samples:
        frame = read_frame(sample)
        assert frame.ids is not None
        subject = Subject(frame.rgb, frame.ids, sample.objects or (), dataset.categories)
        if subject.large and len(found) < count:
            found.append(subject)
    return found


def judged(
    name: str,
    change: Change,
    subjects: Sequence[Subject],
    limits: CertificateLimits,
    judges: Judges,
) -> dict[str, Any]:
    """Return how many changed pictures fail, how many sets of them, and by which measures."""
    start = time.process_time()
    found = [_certificate(name, change, i, s, limits, judges) for i, s in enumerate(subjects)]
    seconds = time.process_time() - start
    sets = [
        DatasetCertificate(limits, dict.fromkeys(judges, ""), tuple(found[first : first + SET]))
        for first in range(0, len(found) - SET + 1, SET)
    ]
    return {
        "name": name,
        "failed": estimate_proportion(
            sum(bool(one.failed_measures) for one in found), len(found)
        ).to_json(),
        "failed_without_verifiers": estimate_proportion(
            sum(map(_is_measured, found)), len(found)
        ).to_json(),
        "by": dict(
            Counter(measure for one in found for measure in one.failed_measures).most_common()
        ),
        "sets": len(sets),
        "sets_failed": sum(one.decision == "failed" for one in sets),
        "sets_certified": sum(one.decision == "certified" for one in sets),
        "cpu_ms": 1e3 * seconds / len(found),
    }


def _is_measured(picture: ImageCertificate) -> bool:
    """Return whether a picture fails by what is measured without judges."""
    return not OPINIONS.issuperset(picture.failed_measures)


def remembering(judge: Verifier) -> Verifier:
    """Return a judge that looks at no picture twice: each is changed in many ways."""
    seen: dict[bytes, Sequence[Detection]] = {}

    def look(rgb: NDArray[np.uint8]) -> Sequence[Detection]:
        key = hashlib.sha256(rgb.tobytes()).digest()
        if key not in seen:
            seen[key] = judge(rgb)
        return seen[key]

    return look


def _certificate(
    name: str,
    change: Change,
    index: int,
    subject: Subject,
    limits: CertificateLimits,
    judges: Judges,
) -> ImageCertificate:
    after = decode_image(encode_jpeg(_changed(name, change, index, subject), JPEG_QUALITY))
    regions = extract_object_regions(subject.objects, subject.ids, subject.rgb.shape)
    pair = ImagePair(subject.rgb, after, regions, subject.ids)
    boxes = [label.box_xyxy for label in subject.objects]
    return certify(f"{index:06d}", pair, limits, labelled_boxes=boxes, verifiers=judges)


def _changed(name: str, change: Change, index: int, subject: Subject) -> NDArray[np.uint8]:
    return change(subject, derive_rng(SEED, f"certificate/{name}", scene_index=index))


def _dataset(arguments: Arguments) -> Dataset:
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
        progress=lambda _done, _total: None,
    )


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
