import json
from dataclasses import asdict

import numpy as np
import pytest
from pycocotools import mask as coco

from sim2cam.errors import UsageError
from sim2cam.geometry.run_length import RleMask, compute_mask_iou

MASKS = {
    "random": np.random.default_rng(0).random((31, 47)) < 0.4,
    "empty": np.zeros((5, 9), bool),
    "full": np.ones((5, 9), bool),
    "one pixel": np.eye(1, 40, 7, dtype=bool).reshape(8, 5),
    "first pixel": np.eye(1, 40, 0, dtype=bool).reshape(8, 5),
}


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_comes_back(name):
    mask = MASKS[name]
    lengths = RleMask.from_mask(mask)
    assert lengths.size == mask.shape
    assert np.array_equal(lengths.decode(), mask)
    assert lengths.compute_area_px() == mask.sum()


@pytest.mark.parametrize("name", MASKS)
def test_pycocotools_reads_its_json(name):
    table = json.loads(json.dumps(asdict(RleMask.from_mask(MASKS[name]))))
    assert np.array_equal(coco.decode(table) == 1, MASKS[name])


@pytest.mark.parametrize("counts", ["", "zzzz", "0", "R", "é"])
def test_broken_runs_are_refused(counts):
    with pytest.raises(UsageError, match=r"^invalid run lengths "):
        RleMask((6, 7), counts).decode()
    assert not RleMask((6, 7), counts).is_valid()


def test_what_is_whole_is_what_can_be_unpacked():
    rng = np.random.default_rng(0)
    letters = np.frombuffer(RleMask.from_mask(MASKS["random"]).counts.encode(), np.uint8)
    told = []
    for _ in range(300):
        changed = letters.copy()
        changed[rng.integers(len(letters))] = rng.integers(ord("0"), ord("p"))
        cut = changed[: len(changed) - int(rng.integers(3))]
        lengths = RleMask((31, 47), cut.tobytes().decode())
        told.append(lengths.is_valid())
        if told[-1]:
            assert lengths.decode().shape == (31, 47)
        else:
            with pytest.raises(UsageError):
                lengths.decode()
    assert 0 < sum(told) < 300


@pytest.mark.parametrize("name", MASKS)
def test_runs_may_be_counted_out(name):
    mask = MASKS[name]
    flat = np.concatenate([[False], mask.ravel(order="F"), [True]])
    edges = np.flatnonzero(np.diff(flat.astype(int)) != 0)
    runs = np.diff([0, *edges, *([mask.size] if edges[-1] != mask.size else [])]).tolist()
    lengths = RleMask.from_runs(runs, mask.shape)
    assert lengths.is_valid()
    assert np.array_equal(lengths.decode(), mask)
    assert lengths.compute_area_px() == mask.sum()


def test_overlaps_are_those_of_the_pixels():
    rng = np.random.default_rng(0)
    found, truth = (rng.random((n, 20, 30)) < 0.4 for n in (4, 3))
    found[1] = False
    encoded = ([RleMask.from_mask(mask) for mask in masks] for masks in (found, truth))
    overlaps = compute_mask_iou(*encoded, np.array([False, True, False]))
    for i, one in enumerate(found):
        for j, other in enumerate(truth):
            shared = (one & other).sum()
            whole = one.sum() if j == 1 else (one | other).sum()
            assert overlaps[i, j] == pytest.approx(shared / max(whole, 1))
    assert compute_mask_iou([], [RleMask.from_mask(truth[0])], np.array([False])).shape == (0, 1)


def test_the_mask_of_a_box_is_its_pixels():
    mask = RleMask.from_box((3.0, 5.0, 12.0, 9.0), (20, 30)).decode()
    assert mask.sum() == 36
    assert mask[5:9, 3:12].all()
