"""Cells are grouped to the objects that they show, and a few seconds of training suffice for that."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sim2cam.data.silhouettes import read_visible_masks
from sim2cam.geometry.run_length import RleMask
from sim2cam.metrics.instances import compute_shape_metrics
from sim2cam.metrics.masks import match_masks
from sim2cam.metrics.segmentation import count_pixel_confusions, evaluate_segmentation
from sim2cam.models.inference.detector import load_detector, predict_samples
from sim2cam.models.network.detector import DetectionMaps
from sim2cam.models.network.masks import compute_category_masks, compute_instance_masks
from sim2cam.models.training.config import TrainConfig
from sim2cam.models.training.training import read_metrics, train_detector

ROWS, COLUMNS = 20, 30


def said(*objects):
    """Maps of cells that show these boxes (x0, y0, x1, y1 in cells, category), and know their centres."""
    segments = torch.zeros(1, 3, ROWS, COLUMNS)
    segments[0, 0] = 8.0
    votes = torch.zeros(1, 2, ROWS, COLUMNS)
    row, column = np.mgrid[:ROWS, :COLUMNS] + 0.5
    for x0, y0, x1, y1, category in objects:
        place = (0, slice(None), slice(y0, y1), slice(x0, x1))
        segments[place] = 0.0
        segments[0, 1 + category, y0:y1, x0:x1] = 8.0
        away = np.stack([(x0 + x1) / 2 - column, (y0 + y1) / 2 - row])
        votes[place] = torch.from_numpy(away[:, y0:y1, x0:x1] / 4).float()
    empty = torch.zeros(1, ROWS, COLUMNS)
    return DetectionMaps(
        empty, empty[None], empty[None], segmentation=segments, centre_offsets=votes
    )


def boxes_of(*objects):
    return np.array([o[:4] for o in objects], float) * 4


@pytest.mark.parametrize("scale", [1.0, 2.0, 0.5])
def test_touching_objects_are_parted_by_their_centres(scale):
    objects = [(4, 4, 10, 12, 0), (10, 4, 18, 12, 1)]
    size = (round(ROWS * 4 / scale), round(COLUMNS * 4 / scale))
    boxes = boxes_of(*objects) / scale
    found = compute_instance_masks(said(*objects), boxes, np.array([0.9, 0.8]), size, scale)
    for mask, (x0, y0, x1, y1) in zip(found, boxes, strict=True):
        assert mask.size == size
        expected = np.zeros(size, bool)
        expected[round(y0) : round(y1), round(x0) : round(x1)] = True
        shared = (mask.decode() & expected).sum() / (mask.decode() | expected).sum()
        assert shared > 0.9
    assert not (found[0].decode() & found[1].decode()).any()
    shown = compute_category_masks(said(*objects), ("a", "b"), size, scale)
    for name, mask in zip("ab", found, strict=True):
        both, either = (
            f(shown[name].decode(), mask.decode()).sum() for f in (np.logical_and, np.logical_or)
        )
        assert both / either > 0.95


def test_unsure_detections_take_nothing_from_sure_ones():
    objects = [(4, 4, 12, 12, 0)]
    boxes = np.vstack([boxes_of(*objects), [[24.0, 24, 36, 36]]])
    size = (80, 120)
    alone = compute_instance_masks(said(*objects), boxes[:1], np.array([0.9]), size, 1.0)
    both = compute_instance_masks(said(*objects), boxes, np.array([0.9, 0.1]), size, 1.0)
    assert both[0] == alone[0]
    beside = np.vstack([boxes[0] + 8.0, boxes[0]])
    rivals = compute_instance_masks(said(*objects), beside, np.array([0.9, 0.8]), size, 1.0)
    assert rivals[0].decode().sum() < 0.2 * alone[0].decode().sum()


def test_nothing_found_has_no_mask_and_boxes_at_the_edge_have_one():
    maps = said((0, 0, 6, 6, 0), (24, 14, 30, 20, 1))
    assert compute_instance_masks(maps, np.zeros((0, 4)), np.zeros(0), (80, 120), 1.0) == ()
    boxes = np.array([(0.0, 0, 24, 24), (96, 56, 120, 80), (120, 80, 120, 80)])
    found = compute_instance_masks(maps, boxes, np.array([0.9, 0.8, 0.7]), (79, 118), 1.0)
    assert found[0].decode()[:22, :22].all()
    assert found[1].decode()[58:, 98:].sum() > 300
    assert all(mask.is_valid() for mask in found)


@pytest.fixture
def scored():
    def score(data, predictions, segments):
        masks = {
            s.name: [RleMask.from_mask(m) for m in read_visible_masks(s)] for s in data.samples
        }
        rng = np.random.default_rng(0)
        return (
            compute_shape_metrics(match_masks(data, predictions, masks), rng=rng, n_resamples=5),
            evaluate_segmentation(
                data, count_pixel_confusions(data, segments, masks), rng=rng, n_resamples=5
            ),
        )

    return score


@pytest.mark.slow
def test_masks_are_learned_in_seconds_and_beat_those_of_boxes(make_dataset, tmp_path, scored):
    config = TrainConfig(
        steps=120, batch=4, crop_px=64, photometric=False, learning_rate=4e-3, warmup_steps=20,
        masks=True,
    )  # fmt: skip
    detector = train_detector(((make_dataset(n=12), 1.0),), config, tmp_path / "run")
    assert set(read_metrics(tmp_path / "run")[0].losses) >= {"semantic", "centre_offsets"}
    assert detector.card.masks
    assert load_detector(tmp_path / "run" / "weights.safetensors").network.mask_head is not None
    unseen = make_dataset("unseen", n=8, seed=99)
    seen = predict_samples(detector, unseen)
    found = {name: one.detections for name, one in seen.items()}
    whole = {
        name: tuple(replace(d, mask=RleMask.from_box(d.box_xyxy, (128, 160))) for d in ones)
        for name, ones in found.items()
    }
    segments = {name: one.category_masks for name, one in seen.items()}
    ours, pixels = scored(unseen, found, segments)
    boxes, _ = scored(unseen, whole, segments)
    assert ours.ap50.value > 0.9
    assert ours.ap.value > boxes.ap.value + 0.05
    assert pixels.miou.value > 0.7
    nothing = {name: {} for name in segments}
    assert scored(unseen, found, nothing)[1].miou.value < 0.35
