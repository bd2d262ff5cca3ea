"""Against pycocotools on random cases, and on cases done by hand."""

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from sim2cam.data.sample import Dataset, ObjectLabel, Sample
from sim2cam.errors import InputError
from sim2cam.geometry.run_length import RleMask
from sim2cam.metrics.detection import Detection, is_ignored
from sim2cam.metrics.instances import compute_shape_metrics
from sim2cam.metrics.masks import match_masks
from tests.support.evaluation import refused

CATEGORIES = ("a", "b", "c")
SIZE = (60, 80)
BOX = (0.0, 0.0, 9.0, 9.0)  # of detections, whose masks alone count


def disc(x, y, radius):
    mask = np.zeros(SIZE, np.uint8)
    cv2.circle(mask, (int(x), int(y)), int(radius), 1, -1)
    return mask > 0


def box_of(mask):
    rows, columns = np.nonzero(mask)
    return tuple(map(float, (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)))


def random_case(seed, *, n_images=10, most_found=4):
    """Images of few discs: groups, faint ones, some without masks, tied scores, empty detections."""
    rng = np.random.default_rng(seed)
    samples, predictions, masks = [], {}, {}
    for index in range(n_images):
        labels, found, known = [], [], []
        for _ in range(int(rng.integers(0, 5))):
            x, y, radius = rng.integers(5, 75), rng.integers(5, 55), rng.integers(4, 14)
            mask, category = disc(x, y, radius), str(rng.choice(CATEGORIES[:2]))
            labels.append(
                ObjectLabel(
                    category, box_of(mask), float(mask.sum()), is_crowd=bool(rng.random() < 0.1),
                    visible_fraction=float(rng.choice([0.05, 0.5])) if rng.random() < 0.3 else None,
                )
            )  # fmt: skip
            known.append(None if rng.random() < 0.1 else RleMask.from_mask(mask))
            for _ in range(int(rng.integers(0, most_found))):
                off = rng.integers(-3, 4, 3)
                moved = disc(x + off[0], y + off[1], max(1, radius + off[2]))
                empty = rng.random() < 0.1
                found.append(
                    Detection(
                        category if rng.random() < 0.8 else str(rng.choice(CATEGORIES)), BOX,
                        round(float(rng.random()), 1),
                        mask=None if empty else RleMask.from_mask(moved),
                    )
                )  # fmt: skip
        samples.append(Sample(f"i{index}", Path("x.jpg"), SIZE[1], SIZE[0], tuple(labels), "real"))
        predictions[f"i{index}"], masks[f"i{index}"] = tuple(found), known
    return Dataset(Path("set"), CATEGORIES, tuple(samples)), predictions, masks


def pycoco(pycoco_precision, dataset, predictions, masks):
    """Average precision (thresholds, categories); -1 without objects."""
    truth, results = [], []
    for i, sample in enumerate(dataset.samples, 1):
        for label, mask in zip(sample.objects, masks[sample.name], strict=True):
            faint = label.visible_fraction is not None and label.visible_fraction < 0.1
            full = np.zeros(SIZE, bool)
            x0, y0, x1, y1 = map(int, label.box_xyxy)
            full[y0:y1, x0:x1] = True
            truth.append(
                {
                    "id": len(truth) + 1, "image_id": i,
                    "category_id": 1 + CATEGORIES.index(label.category),
                    "segmentation": (mask or RleMask.from_mask(full)).to_coco(),
                    "bbox": [0, 0, 1, 1], "area": label.area_px, "iscrowd": int(label.is_crowd),
                    "faint": faint or mask is None,
                }
            )  # fmt: skip
        results += [
            {
                "image_id": i, "category_id": 1 + CATEGORIES.index(d.category), "score": d.score,
                "segmentation": (d.mask or RleMask.from_mask(np.zeros(SIZE, bool))).to_coco(),
            }
            for d in predictions[sample.name]
        ]  # fmt: skip
    images = [
        {"id": i, "height": SIZE[0], "width": SIZE[1]} for i in range(1, len(dataset.samples) + 1)
    ]
    return pycoco_precision("segm", images, truth, results, categories=len(CATEGORIES))


def scored(*case):
    rng = np.random.default_rng(0)
    return compute_shape_metrics(match_masks(*case), rng=rng, n_resamples=5)


@pytest.fixture
def check_values(pycoco_precision, same_as_pycoco):
    def check(case):
        by_category = zip(CATEGORIES, pycoco(pycoco_precision, *case).T, strict=True)
        return same_as_pycoco(match_masks(*case), dict(by_category))

    return check


@pytest.mark.parametrize("seed", range(8))
def test_values_are_those_of_pycocotools(seed, check_values):
    score = check_values(random_case(seed))
    assert list(score.category_ap) == ["a", "b"]
    assert 0 < score.ap.value < 1


@pytest.mark.slow
def test_values_of_300_cases_of_all_sizes_are_those_of_pycocotools(check_values):
    scored = 0
    for seed in range(1000, 1330):
        case = random_case(seed, n_images=1 + seed % 10, most_found=(1, 3, 5, 40)[seed % 4])
        labelled = (zip(s.objects, case[2][s.name], strict=True) for s in case[0].samples)
        if any(mask and not is_ignored(label) for pairs in labelled for label, mask in pairs):
            check_values(case)
            scored += 1
    assert scored >= 300


def test_masks_count_and_boxes_do_not():
    mask = disc(30, 30, 10)
    label = ObjectLabel("a", box_of(mask), float(mask.sum()))
    dataset = Dataset(
        Path("set"), ("a",), (Sample("x", Path("x.jpg"), SIZE[1], SIZE[0], (label,), "real"),)
    )
    right = Detection("a", BOX, 0.9, mask=RleMask.from_mask(mask))
    whole_box = RleMask.from_box(label.box_xyxy, SIZE)
    for found, ap50, ap in (
        (right, 1.0, 1.0),
        (replace(right, box_xyxy=label.box_xyxy, mask=None), 0.0, 0.0),
        (replace(right, mask=whole_box), 1.0, 0.5),  # this disc is 0.72 of its box
    ):
        masks = {"x": [RleMask.from_mask(mask)]}
        score = scored(dataset, {"x": (found,)}, masks)
        assert (score.ap50.value, score.ap.value) == pytest.approx((ap50, ap))
    with refused(InputError, "set: no labelled mask to score against. Add mask labels."):
        scored(dataset, {"x": (right,)}, {"x": [None]})
