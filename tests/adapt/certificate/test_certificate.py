import json
from dataclasses import asdict, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

from sim2cam.adapt.certificate.certificate import (
    MEASURES,
    OBJECT_MEASURES,
    DatasetCertificate,
    ImageCertificate,
    LimitCheck,
    certificate_from_json,
    certify,
    estimate_proportion,
    get_limit,
)
from sim2cam.adapt.certificate.detector_agreement import DetectorAgreement
from sim2cam.adapt.certificate.image_pair import ImagePair
from sim2cam.adapt.certificate.limits import CertificateLimits
from sim2cam.errors import InputError
from sim2cam.metrics.detection import Detection

LIMITS = CertificateLimits()


def certified(pair, verifiers=MappingProxyType({})):
    return certify("a", pair, LIMITS, verifiers=verifiers)


def picture_certificate(name, *, failed=(), measured=MEASURES, opinions=None):
    findings = {
        measure: LimitCheck(1.0, "fail" if measure in failed else "pass")
        if measure in measured
        else LimitCheck(None, "not measured", "for a reason")
        for measure in MEASURES
    }
    return ImageCertificate(name, findings, opinions or {})


def of_set(count, rejected, **others):
    pictures = [
        picture_certificate(
            f"{i:06d}", failed=("grid_artefact_levels",) if i < rejected else (), **others
        )
        for i in range(count)
    ]
    return DatasetCertificate(LIMITS, {}, tuple(pictures))


def test_the_picture_itself_is_certified(pair, picture):
    found = certified(pair(picture))
    assert found.decision == "certified"
    assert tuple(found.checks) == MEASURES
    reasons = {name: one.reason for name, one in found.checks.items() if one.reason}
    assert reasons == {
        name: f"no weights were given with --{name.split('_')[0]}"
        for name in OBJECT_MEASURES
        if name.startswith(("task_", "verifier_"))
    } | {"warping_error_levels": "not a frame of a sequence"}


def test_without_labels_it_is_appearance_only(picture):
    found = certified(ImagePair(picture, picture))
    assert found.decision == "appearance only"
    assert found.checks["object_shift_px"].reason == "there are no labels"


def test_without_labels_a_judge_measures_objects(picture):
    box = (10.0, 10.0, 30.0, 30.0)
    found = certified(ImagePair(picture, picture), {"task": lambda _: [Detection("x", box, 0.9)]})
    assert found.decision == "certified"
    assert found.checks["task_detection_recall"].reason == "fewer than 3 detections in the source"
    assert found.checks["task_missed_detections"] == LimitCheck(0.0, "pass")


def test_a_judge_that_finds_nothing_measures_no_objects(picture):
    found = certified(ImagePair(picture, picture), {"task": lambda _: []})
    assert found.checks["task_missed_detections"].reason == "no detections in the source"
    assert found.checks["task_hallucinated_detections"] == LimitCheck(0.0, "pass")
    assert found.decision == "appearance only"
    assert DatasetCertificate(LIMITS, {"task": "00"}, (found,)).decision == "appearance only"


FIRST, SECOND = (10.0, 10.0, 30.0, 30.0), (40.0, 10.0, 60.0, 30.0)


def seeing(before, after):
    """A judge that is sure of objects with these boxes in a picture, and in a changed one."""
    found = [[Detection("x", box, 0.9) for box in boxes] for boxes in (before, after)]
    return lambda rgb: found[int(rgb.flags["WRITEABLE"])]


@pytest.mark.parametrize(
    ("other", "failed"),
    [
        (None, ("task_missed_detections",)),  # alone, a judge is believed
        (([FIRST], [FIRST]), ()),
        (([FIRST], []), ("task_missed_detections", "verifier_missed_detections")),
        (([], []), ("task_missed_detections",)),  # it knew of no object
        (([SECOND], [SECOND]), ("task_missed_detections",)),  # it knew of another one
    ],
)
def test_what_one_judge_loses_is_kept_where_another_that_knew_it_keeps_it(picture, other, failed):
    before, after = picture.copy(), picture.copy()
    before.flags["WRITEABLE"] = False
    judges = {"task": seeing([FIRST], [])} | ({"verifier": seeing(*other)} if other else {})
    found = certified(ImagePair(before, after), judges)
    assert found.failed_measures == failed
    assert found.decision == ("failed" if failed else "certified")


@pytest.mark.parametrize(
    ("change", "measure"),
    [
        (lambda rgb: 255 - rgb, "structure_correlation"),
        (lambda rgb: np.roll(rgb, 3, axis=1), "object_shift_px"),
        (lambda rgb: np.full_like(rgb, 120), "edge_recall"),
        (lambda rgb: np.full_like(rgb, 120), "image_correlation"),
        (lambda rgb: np.full_like(rgb, 255), "clipped_fraction"),
    ],
)
def test_what_harms_labels_fails(pair, picture, change, measure):
    found = certified(pair(change(picture)))
    assert found.decision == "failed"
    assert measure in found.failed_measures


def test_a_negative_fails_without_labels(picture):
    found = certified(ImagePair(picture, 255 - picture))
    assert found.failed_measures == ("image_correlation",)


def test_what_a_picture_is_too_small_or_too_plain_for_is_not_measured(picture):
    plain = np.full_like(picture, 120)
    cells = np.indices((40, 64)) // 4
    board = np.uint8(255 * (cells.sum(axis=0) % 2))[:, :, None].repeat(3, axis=2)
    why = {
        name: found.reason
        for name, found in certified(ImagePair(plain, plain)).checks.items()
        if name not in OBJECT_MEASURES
    }
    assert why == {
        "image_correlation": "too little contrast",
        "added_structure_levels": None,
        "grid_artefact_levels": None,
        "seam_step_levels": None,
        "clipped_fraction": None,
        "warping_error_levels": "not a frame of a sequence",
    }
    small = certified(ImagePair(board, board))
    assert small.checks["grid_artefact_levels"].reason == "a side is shorter than 48 px"
    assert small.checks["seam_step_levels"].reason == "no row or column is flat enough"


def test_boxes_alone_leave_outlines_unmeasured(pair, picture):
    found = certified(pair(picture, has_ids=False))
    assert found.checks["edge_recall"].reason == "the labels have neither instance ids nor masks"
    assert found.decision == "certified"


@pytest.mark.parametrize(
    ("certificate", "verdict"),
    [
        (of_set(20, 0), "certified"),
        (of_set(20, 1), "certified"),
        (of_set(20, 2), "failed"),
        (of_set(20, 20), "failed"),
        (of_set(20, 0, measured=MEASURES[len(OBJECT_MEASURES):]), "appearance only"),
        (replace(of_set(2, 0), images=(*of_set(2, 0).images, *of_set(3, 0, measured=()).images)), "appearance only"),
    ],
)  # fmt: skip
def test_verdict_of_a_set(certificate, verdict):
    assert certificate.decision == verdict


def test_a_set_fails_when_a_judge_finds_too_few_again():
    few, many = (
        DatasetCertificate(
            LIMITS,
            {"task": "00"},
            tuple(
                picture_certificate(str(i), opinions={"task": DetectorAgreement(10, 9, 0, 0)})
                for i in range(count)
            ),
        )
        for count in (2, 8)
    )
    assert (
        few.estimate_detection_recall("task").value
        == many.estimate_detection_recall("task").value
        == pytest.approx(0.9)
    )
    assert (
        few.estimate_detection_recall("task").ci95[1] > LIMITS.dataset_detection_recall
    )  # 18 of 20 may be chance
    assert few.violations == ()
    assert many.violations == (
        "task detects 90.0% of the objects again, significantly fewer than 97.0%",
    )


def test_a_certificate_survives_the_disk():
    certificate = replace(of_set(4, 1), verifiers={"verifier": "ab"})
    text = json.dumps(certificate.to_json())
    assert (
        certificate_from_json(Path("c.json"), json.loads(text), DatasetCertificate) == certificate
    )
    assert json.loads(text)["rejection_rate"]["value"] == 0.25


@pytest.mark.parametrize(
    "content", [None, [], {}, {"limits": {"rejected_fraction": 7}, "verifiers": {}, "images": []}]
)
def test_what_is_no_certificate_is_refused(content):
    with pytest.raises(
        InputError, match=r"^c\.json: not a certificate: .* Translate the images again\.$"
    ):
        certificate_from_json(Path("c.json"), content, DatasetCertificate)


def test_judges_share_their_limits():
    assert (
        get_limit("verifier_detection_recall", LIMITS)
        == get_limit("task_detection_recall", LIMITS)
        == LIMITS.detection_recall
    )
    assert set(asdict(LIMITS)) >= {m for m in MEASURES if not m.startswith(("task", "verifier"))}


def test_a_share_has_the_interval_of_wilson():
    # by hand: (0.25 + 0.09604 -+ 1.95996 * 0.10852) / 1.19207
    assert estimate_proportion(5, 20).ci95 == pytest.approx((0.1118617, 0.4687014), abs=1e-5)
    assert estimate_proportion(0, 0).value == 0
