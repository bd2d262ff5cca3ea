"""A few seconds of training find the ends of drawn arrows, and tell which are covered."""

from dataclasses import replace

import cv2
import numpy as np
import pytest

from sim2cam.data.sample import Dataset, Keypoint, ObjectLabel, Sample
from sim2cam.files import write_bytes
from sim2cam.images import encode_png
from sim2cam.metrics.instances import compute_shape_metrics
from sim2cam.metrics.keypoints import match_keypoints
from sim2cam.models.inference.detector import detect_dataset
from sim2cam.models.training.config import TrainConfig
from sim2cam.models.training.training import read_metrics, train_detector

pytestmark = pytest.mark.slow

CONFIG = TrainConfig(
    steps=400, batch=4, crop_px=64, photometric=False, learning_rate=4e-3, warmup_steps=20,
    ema_decay=0.95, keypoints=True, flips=False, rotate_any=False,
)  # fmt: skip


def arrow(rgb, rng, x, y):
    """Draws a bar with a red head and a blue tail, which a plate covers half of the time."""
    angle, half = rng.uniform(0, 2 * np.pi), rng.uniform(10, 15)
    step = half * np.array([np.cos(angle), np.sin(angle)])
    middle = np.array([x, y])
    head, tail = np.round(middle + step).astype(int), np.round(middle - step).astype(int)
    covered = bool(rng.random() < 0.5)
    shape = np.zeros(rgb.shape, np.uint8)
    cv2.line(shape, head.tolist(), tail.tolist(), (60, 200, 60), 4)
    cv2.circle(shape, head.tolist(), 5, (230, 40, 40), -1)
    cv2.circle(shape, tail.tolist(), 5, (30, 60, 220), -1)
    if covered:
        cv2.circle(shape, tail.tolist(), 8, (245, 245, 245), -1)
    drawn = shape.any(axis=2)
    rgb[drawn] = shape[drawn]
    rows, columns = np.nonzero(drawn)
    box = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
    points = (
        Keypoint("head", tuple(map(float, head)), 2),
        Keypoint("tail", tuple(map(float, tail)), 1 if covered else 2),
    )
    return ObjectLabel(
        "arrow", tuple(map(float, box)), float(drawn.sum()), visible_fraction=1.0, keypoints=points
    )


def arrows(root, n, seed):
    rng = np.random.default_rng(seed)
    samples = []
    for index in range(n):
        rgb = rng.integers(90, 130, (128, 160, 3)).astype(np.uint8)
        labels = tuple(arrow(rgb, rng, *place) for place in ((42, 42), (118, 85)))
        path = root / f"{index}.png"
        write_bytes(path, encode_png(rgb))
        samples.append(Sample(str(index), path, 160, 128, labels, "sim"))
    return Dataset(root, ("arrow",), tuple(samples))


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    root = tmp_path_factory.mktemp("arrows")
    data = arrows(root / "data", 24, 0)
    detector = train_detector(((data, 1.0),), CONFIG, root / "run")
    unseen = arrows(root / "unseen", 10, 99)
    return detector, unseen, detect_dataset(detector, unseen), read_metrics(root / "run")


def scored(dataset, found):
    rng = np.random.default_rng(0)
    return compute_shape_metrics(match_keypoints(dataset, found), rng=rng, n_resamples=5)


def test_ends_are_found_far_better_than_the_middle_of_the_box_is(learned):
    _, unseen, found, _ = learned
    middles = {
        name: tuple(
            replace_points(one, [np.add(one.box_xyxy[:2], one.box_xyxy[2:]) / 2] * 2)
            for one in ones
        )
        for name, ones in found.items()
    }
    turned = {
        name: tuple(replace_points(one, [p.xy for p in one.keypoints[::-1]]) for one in ones)
        for name, ones in found.items()
    }
    assert scored(unseen, found).ap50.value > 0.35  # within 2 px: arrows are narrow
    for blind in (middles, turned):
        assert scored(unseen, blind).ap50.value < 0.05


def replace_points(detection, places):
    points = zip(detection.keypoints, places, strict=True)
    return replace(
        detection, keypoints=tuple(replace(p, xy=tuple(map(float, xy))) for p, xy in points)
    )


def test_covered_tails_are_told_from_others(learned):
    _, unseen, found, _ = learned
    right = []
    for sample in unseen.samples:
        for label in sample.objects:
            near = min(
                found[sample.name],
                key=lambda d: np.abs(np.subtract(d.box_xyxy, label.box_xyxy)).sum(),
            )
            right.append((near.keypoints[1].seen >= 0.5) == (label.keypoints[1].visibility == 2))
            assert near.keypoints[0].seen > 0.9  # heads never are
    assert np.mean(right) >= 0.75  # half of the tails are seen


def test_the_record_and_the_card_say_what_was_learned(learned):
    detector, _, _, record = learned
    assert set(record[0].losses) == {
        "heatmap",
        "box",
        "category",
        "keypoints",
        "keypoint_visibility",
        "total",
    }
    assert detector.card.keypoints == {"arrow": ("head", "tail")}
    assert detector.card.config["keypoints"] is True
