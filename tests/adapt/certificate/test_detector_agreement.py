import numpy as np
import pytest

from sim2cam.adapt.certificate.detector_agreement import DetectorAgreement, compare_detections
from sim2cam.metrics.detection import Detection

BEFORE, AFTER = np.zeros((9, 9, 3), np.uint8), np.ones((9, 9, 3), np.uint8)
A, B, C = (0.0, 0.0, 20.0, 20.0), (50.0, 0.0, 70.0, 20.0), (0.0, 50.0, 20.0, 70.0)


def judge(before, after):
    """A judge that finds these (category, box, score) before and after."""
    found = {0: before, 1: after}
    return lambda rgb: [Detection(*what) for what in found[int(rgb[0, 0, 0])]]


@pytest.mark.parametrize(
    ("before", "after", "labelled", "expected"),
    [
        ([], [], None, DetectorAgreement(0, 0, 0, 0)),
        ([("a", A, 0.9)], [("a", A, 0.9)], None, DetectorAgreement(1, 1, 0, 0)),
        ([("a", A, 0.8)], [("a", A, 0.1)], None, DetectorAgreement(1, 1, 0, 0)),  # doubt loses none
        ([("a", A, 0.9)], [("a", A, 0.04)], None, DetectorAgreement(1, 0, 1, 0)),
        ([("a", A, 0.7)], [("b", B, 0.7)], None, DetectorAgreement(0, 0, 0, 0)),  # nothing is clear
        ([("a", A, 0.9)], [("b", A, 0.9)], None, DetectorAgreement(1, 0, 0, 0)),  # another category
        ([("a", A, 0.9)], [], None, DetectorAgreement(1, 0, 1, 0)),
        ([("a", A, 0.4)], [("a", A, 0.9)], None, DetectorAgreement(0, 0, 0, 0)),  # it was suspected
        ([], [("a", A, 0.9)], None, DetectorAgreement(0, 0, 0, 1)),
        ([], [("a", A, 0.9)], [A], DetectorAgreement(0, 0, 0, 0)),  # labelled, so no hallucination
        ([("a", A, 0.9), ("a", B, 0.9)], [("a", A, 0.9)], [A], DetectorAgreement(1, 1, 0, 0)),  # B is none
        ([("a", A, 0.9), ("a", B, 0.9)], [("a", A, 0.9), ("a", C, 0.8)], None, DetectorAgreement(2, 1, 1, 1)),
    ],
)  # fmt: skip
def test_what_a_judge_finds_again(before, after, labelled, expected):
    found = compare_detections({"task": judge(before, after)}, BEFORE, AFTER, labelled)
    assert found == {"task": expected}


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        # both know A, one loses it
        (([("a", A, 0.9)], []), ([("a", A, 0.9)], [("a", A, 0.9)]), DetectorAgreement(1, 0, 1, 0, 1, 1)),
        # both lose it
        (([("a", A, 0.9)], []), ([("a", A, 0.9)], []), DetectorAgreement(1, 0, 1, 0)),
        # the other never knew it, and keeps another one
        (([("a", A, 0.9)], []), ([("a", B, 0.9)], [("a", B, 0.9)]), DetectorAgreement(1, 0, 1, 0)),
        # the other half believes in something there, as before; or does so no more, or only now
        (([("a", A, 0.9)], []), ([("b", A, 0.4)], [("c", A, 0.3)]), DetectorAgreement(1, 0, 1, 0, 0, 1)),
        (([("a", A, 0.9)], []), ([("a", A, 0.6)], [("a", A, 0.2)]), DetectorAgreement(1, 0, 1, 0)),
        (([("a", A, 0.9)], []), ([("a", A, 0.2)], [("a", A, 0.6)]), DetectorAgreement(1, 0, 1, 0)),
        (([("a", A, 0.9)], []), ([("a", A, 0.6)], [("a", B, 0.6)]), DetectorAgreement(1, 0, 1, 0)),
        # one misreads it, the other reads it as before, or misreads it too
        (([("a", A, 0.9)], [("b", A, 0.9)]), ([("a", A, 0.9)], [("a", A, 0.9)]), DetectorAgreement(1, 0, 0, 0, 1, 0)),
        (([("a", A, 0.9)], [("b", A, 0.9)]), ([("a", A, 0.9)], [("b", A, 0.9)]), DetectorAgreement(1, 0, 0, 0)),
    ],
)  # fmt: skip
def test_what_one_judge_loses_another_keeps_that_knew_it(first, second, expected):
    judges = {"task": judge(*first), "verifier": judge(*second)}
    assert compare_detections(judges, BEFORE, AFTER, None)["task"] == expected
