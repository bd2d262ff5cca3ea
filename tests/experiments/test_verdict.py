"""Planted faults lead to the sentence that names them."""

from dataclasses import replace
from pathlib import Path

import pytest

from sim2cam.data.sample import Dataset, ObjectLabel, Sample
from sim2cam.experiments.benchmark import BenchResult
from sim2cam.experiments.reliability import Reliability, assess_detections
from sim2cam.experiments.verdict import build_verdict
from sim2cam.metrics.bootstrap import Estimate
from sim2cam.metrics.detection import Detection, evaluate_detections
from sim2cam.metrics.sanity_warnings import find_sanity_warnings
from sim2cam.metrics.verdict import TrainingAmount
from sim2cam.models.reliability.ood import MIN_CALIBRATION_IMAGES
from sim2cam.seeds import derive_rng
from tests.support.command_lines import parse_command_line

IMAGES, OBJECTS = 10, 5


def place(index):
    return 60.0 * index + 5, 5.0, 60.0 * index + 45, 45.0


def make_captures(categories=("a", "b"), images=IMAGES):
    samples = tuple(
        Sample(
            f"{n}", Path(f"{n}.jpg"), 320, 200,
            tuple(ObjectLabel(categories[i % len(categories)], place(i), 1600.0) for i in range(OBJECTS)),
            "real",
        )
        for n in range(images)
    )  # fmt: skip
    return Dataset(Path(), categories, samples)


def detect(captures):
    return {
        s.name: [Detection(o.category, o.box_xyxy, 0.9) for o in s.objects]
        for s in captures.samples
    }


def judge(captures, detections, reliability=None, training=None):
    predictions = {name: tuple(found) for name, found in detections.items()}
    score = evaluate_detections(captures, predictions, rng=derive_rng(0, "t"), n_resamples=10)
    reliability = reliability or assess_detections(captures, predictions)
    result = BenchResult(captures, predictions, score, reliability, training=training)
    warnings = find_sanity_warnings(captures, predictions)
    findings = build_verdict(result, warnings).findings
    for finding in findings:
        if finding.action is not None:
            parse_command_line(finding.action)
    return findings


def find(findings, words):
    (finding,) = [finding for finding in findings if words in finding.text]
    return finding


def test_a_perfect_detector_has_no_problem():
    findings = judge(make_captures(), detect(make_captures()))
    assert find(findings, "Finds 100% of the 50 objects.").severity == "good"
    assert find(findings, "100% of the found objects get the right category.").severity == "good"
    assert find(findings, "minimum confidence of 0.90").action.endswith("--min-score 0.90")
    assert not [f for f in findings if f.severity in ("problem", "warning")]


def _scale_box(box, factor):
    """Scale a box around its centre."""
    x0, y0, x1, y1 = box
    more_x, more_y = (factor - 1) / 2 * (x1 - x0), (factor - 1) / 2 * (y1 - y0)
    return (x0 - more_x, y0 - more_y, x1 + more_x, y1 + more_y)


@pytest.mark.parametrize(("factor", "words"), [(1.2, "20% too large"), (0.8, "20% too small")])
def test_scaled_boxes(factor, words):
    captures = make_captures()
    detections = {
        name: [replace(d, box_xyxy=_scale_box(d.box_xyxy, factor)) for d in found]
        for name, found in detect(captures).items()
    }  # fmt: skip
    findings = judge(captures, detections)
    boxes = find(findings, f"Boxes are {words}.")
    assert (boxes.severity, boxes.action) == (
        "problem", "sim2cam tune WEIGHTS OTHER_LABELLED_IMAGES --out tuned",
    )  # fmt: skip
    assert boxes.text.endswith("Tune on other labelled images than these.")
    assert not [f for f in findings if "sides of detected boxes" in f.text]  # stated once


def test_wrong_categories():
    captures = make_captures()
    detections = {
        name: [replace(d, category="b") if n < 2 else d for n, d in enumerate(found)]
        for name, found in detect(captures).items()
    }
    findings = judge(captures, detections)
    assert find(findings, "Finds 100%")
    confused = find(findings, "80% of the found objects get the right category")
    assert confused.text.endswith("most often a is taken for b (10 of 10).")
    assert confused.severity == "note"


def test_one_category_is_never_wrong():
    captures = make_captures(("a",))
    assert not [f for f in judge(captures, detect(captures)) if "right category" in f.text]


def test_dropped_boxes():
    captures = make_captures()
    detections = {name: found[:3] for name, found in detect(captures).items()}
    missed = find(judge(captures, detections), "Finds 60% of the 50 objects; misses 20.")
    assert missed.severity == "problem"


def test_duplicated_boxes():
    captures = make_captures()
    detections = {name: [*found, *found[:1]] for name, found in detect(captures).items()}
    duplicates = find(judge(captures, detections), "17% of the detections are duplicates")
    assert duplicates.severity == "problem"


def test_background_boxes():
    captures = make_captures()
    false = Detection("a", (200.0, 120.0, 240.0, 160.0), 0.9)
    detections = {name: [*found, false] for name, found in detect(captures).items()}
    background = find(judge(captures, detections), "17% of the detections lie on the background")
    assert "--backgrounds" in background.action


def test_badly_placed_boxes_are_not_called_background():
    captures = make_captures()
    detections = {
        name: [*found, replace(found[0], box_xyxy=(5.0, 5.0, 20.0, 45.0))]
        for name, found in detect(captures).items()
    }
    findings = judge(captures, detections)
    assert find(findings, "17% of the detections are localisation errors")
    assert not [f for f in findings if "background" in f.text or "duplicate" in f.text]


@pytest.mark.parametrize(("low", "severity"), [(0.65, "problem"), (0.02, "good")])
def test_out_of_distribution_images(low, severity):
    captures = make_captures()
    reliability = Reliability(None, ood_rate=Estimate(0.75, (low, 0.85)), false_positive_rate=0.05)
    ood = find(judge(captures, detect(captures), reliability), "75% of the images are out-of-")
    assert ood.severity == severity
    assert (ood.action is None) == (severity == "good")


@pytest.mark.parametrize("images", [MIN_CALIBRATION_IMAGES - 1, MIN_CALIBRATION_IMAGES])
def test_overconfidence(images):
    captures = make_captures(images=images)
    detections = {
        name: [replace(d, category="b") for d in found] for name, found in detect(captures).items()
    }
    overconfident = find(judge(captures, detections), "too high overall")
    can_calibrate = images >= MIN_CALIBRATION_IMAGES  # tune changes nothing with fewer
    assert (overconfident.action is not None) == can_calibrate
    assert ("other labelled images than these" in overconfident.text) == can_calibrate


SHORT = TrainingAmount(steps=20, images=24)


@pytest.mark.parametrize(
    ("training", "text"),
    [
        (SHORT, "Trained 20 steps on 24 images; the default is 3000 steps: train longer and render more images."),
        (TrainingAmount(20, 400), "Trained 20 steps on 400 images; the default is 3000 steps: train longer."),
        (TrainingAmount(3000, 24), "Trained 3000 steps on 24 images: render more images."),
    ],
)  # fmt: skip
def test_a_short_training_is_the_first_finding(training, text):
    captures = make_captures()
    detections = {name: found[:2] for name, found in detect(captures).items()}
    first = judge(captures, detections, training=training)[0]
    assert (first.text, first.severity) == (text, "problem")
    assert ("sim2cam render" in first.action) == (training.images == 24)
    assert "sim2cam train RECIPE --data sim --steps 3000" in first.action


@pytest.mark.parametrize("training", [None, TrainingAmount(3000, 400)])
def test_bad_scores_after_a_long_training_are_not_its_fault(training):
    captures = make_captures()
    detections = {name: found[:2] for name, found in detect(captures).items()}
    assert not [f for f in judge(captures, detections, training=training) if "Trained" in f.text]


def test_good_scores_after_a_short_training_are_no_problem():
    captures = make_captures()
    findings = judge(captures, detect(captures), training=SHORT)
    assert not [f for f in findings if f.severity == "problem"]


@pytest.mark.parametrize(
    ("dropped", "false_count", "first", "second"),
    [(2, 8, "lie on the background", "misses 20"), (4, 1, "misses 40", "lie on the background")],
)
def test_problems_are_ordered_by_lost_ap50(dropped, false_count, first, second):
    captures = make_captures()
    false = [
        Detection("ab"[i % 2], (30.0 * i, 120.0, 30.0 * i + 20, 160.0), 0.95)
        for i in range(false_count)
    ]
    detections = {
        name: [*found[: OBJECTS - dropped], *false] for name, found in detect(captures).items()
    }
    problems = [f for f in judge(captures, detections) if f.severity == "problem"]
    assert [words in f.text for words, f in zip((first, second), problems, strict=True)] == [
        True
    ] * 2
    assert all(f.action for f in problems)


def test_confusions_lead_to_the_pairs_and_the_roi_classifier():
    captures = make_captures()
    detections = {
        name: [replace(d, category="b") for d in found] for name, found in detect(captures).items()
    }
    confused = find(judge(captures, detections), "get the right category")
    assert "most often a is taken for b" in confused.text
    assert "roi_classifier = true" in confused.text
    assert confused.severity == "problem"


def test_warnings_end_the_verdict():
    captures = make_captures()
    result = judge(captures, dict.fromkeys(detect(captures), ()))
    assert find(result, "Finds 0%").severity == "problem"
    twice = make_captures()
    doubled = replace(twice.samples[0], objects=twice.samples[0].objects * 2)
    captures = replace(twice, samples=(doubled, *twice.samples[1:]))
    last = judge(captures, detect(captures))[-1]
    assert (last.severity, last.text[:22]) == ("warning", "5 labels are duplicate")
