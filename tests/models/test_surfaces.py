"""Minutes of training find how drawn bricks lie, in pictures that it has not seen."""

import numpy as np
import pytest

from sim2cam.images import read_rgb
from sim2cam.models.inference.detector import predict_image
from sim2cam.models.inference.poses import estimate_poses
from sim2cam.models.training.config import TrainConfig
from sim2cam.models.training.training import read_metrics, train_detector

pytestmark = pytest.mark.slow

CONFIG = TrainConfig(
    steps=800, batch=4, crop_px=64, photometric=False, learning_rate=4e-3, warmup_steps=20,
    ema_decay=0.95, poses=True, roi_classifier=True, flips=False, bfloat16=True,
)  # fmt: skip


@pytest.fixture(scope="module")
def learned(write_bricks, tmp_path_factory):
    """What is seen in pictures that were not trained on, and the record of the training."""
    root = tmp_path_factory.mktemp("bricks")
    data = write_bricks(root / "data", n=30)
    detector = train_detector(((data, 1.0),), CONFIG, root / "run")
    unseen = write_bricks(root / "unseen", n=10, seed=99)
    pictures = [(read_rgb(sample.rgb), sample.lens) for sample in unseen.samples]
    placed = [estimate_poses(predict_image(detector, rgb), rgb, lens) for rgb, lens in pictures]
    return unseen, placed, read_metrics(root / "run")


def test_bricks_lie_about_as_they_are_seen(learned):
    unseen, placed, _ = learned
    true, found = [], []
    for sample, poses in zip(unseen.samples, placed, strict=True):
        brick, _ = sample.objects
        middle = np.add(brick.box_xyxy[:2], brick.box_xyxy[2:]) / 2
        for one in poses:
            box = one.detection.box_xyxy
            is_near = np.abs(np.add(box[:2], box[2:]) / 2 - middle).max() < 8
            is_it = one.detection.category == "brick" and one.detection.score > 0.3
            if one.pose and is_it and is_near:
                true.append(brick.pose)
                found.append(one.pose)
    assert len(found) >= 4
    off_deg = np.array([[turned_deg(a, b) for b in found] for a in true])
    assert np.median(np.diag(off_deg)) < 70  # 38 when this was written
    assert np.median(off_deg[~np.eye(len(found), dtype=bool)]) > 90  # poses of other pictures: 124
    off_m = [np.subtract(b.position_m, a.position_m) for a, b in zip(true, found, strict=True)]
    assert np.median(np.linalg.norm(off_m, axis=1)) < 0.06  # 0.02, of 0.2 to 0.3


def turned_deg(one, other):
    return np.degrees((one.rotation().inv() * other.rotation()).magnitude())


def test_the_record_says_what_was_learned(learned):
    *_, record = learned
    terms = {
        "heatmap",
        "box",
        "category",
        "roi_category",
        "surface_mask",
        "surface_coordinates",
        "total",
    }
    assert set(record[0].losses) == terms
    assert record[-1].losses["surface_mask"] < 0.2 * record[0].losses["surface_mask"]
    assert (
        record[-1].losses["surface_coordinates"] < record[0].losses["surface_coordinates"] - 0.8
    )  # 0.5 is the least
