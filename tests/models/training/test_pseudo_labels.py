"""What a detector finds becomes labels, and nothing is scored against them."""

from dataclasses import replace

import numpy as np
import pytest

from sim2cam.data.formats.export import export_dataset
from sim2cam.data.real_images import read_evaluation_images, read_real_images, split_real_images
from sim2cam.errors import InputError
from sim2cam.geometry.run_length import RleMask
from sim2cam.metrics.detection import Detection
from sim2cam.models.card import DetectorCard
from sim2cam.models.inference.detector import NativeDetector
from sim2cam.models.training import pseudo_labels
from sim2cam.models.training.pseudo_labels import pseudo_label

CARD = DetectorCard("nano", ("square", "disc"), 0, {}, (), box_padding=0.1, input_scale=2.0)
MASK = RleMask.from_mask(np.eye(128, 160, dtype=bool))


@pytest.fixture
def detector(monkeypatch):
    """Finds the same in every picture; beside it, the cards it was asked with."""
    found = (
        Detection("disc", (1.0, 2.0, 11.0, 22.0), 0.9, mask=MASK),
        Detection("square", (3.0, 3.0, 9.0, 9.0), 0.5),
        Detection("disc", (20.0, 20.0, 30.0, 30.0), 0.3),
        Detection("disc", (0.0, 5.0, 0.0, 9.0), 0.8),
    )
    asked = []

    def predict(detector, images, *, score_floor, progress):
        asked.append(detector.card)
        return {s.name: tuple(d for d in found if d.score >= score_floor) for s in images.samples}

    monkeypatch.setattr(pseudo_labels, "detect_dataset", predict)
    return NativeDetector(None, CARD), asked


def test_what_is_surely_found_is_a_label_and_the_rest_a_crowd(detector, make_dataset):
    captures = make_dataset()
    told = pseudo_label(detector[0], captures)
    assert told.categories == ("square", "disc")
    assert [s.name for s in told.samples] == [s.name for s in captures.samples]
    for sample in told.samples:
        assert sample.origin == "pseudo-labelled"
        assert not sample.channels
        sure, just, unsure = sample.objects  # without what has no area
        assert (sure.category, sure.box_xyxy, sure.area_px) == ("disc", (1, 2, 11, 22), 200)
        assert sure.mask == MASK
        assert [one.is_crowd for one in (sure, just, unsure)] == [False, False, True]
    assert [one.is_crowd for one in pseudo_label(detector[0], captures, min_score=0.6).samples[0].objects] == [
        False, True, True,
    ]  # fmt: skip


def test_boxes_are_as_tight_as_those_that_were_learned(detector, make_dataset):
    pseudo_label(detector[0], make_dataset())
    assert detector[1] == [replace(CARD, box_padding=0.0)]


@pytest.mark.parametrize("sure", [0.09, 1.01, float("nan")])
def test_a_score_out_of_range_is_refused(detector, make_dataset, sure):
    with pytest.raises(ValueError, match=f"min_score must be 0.1 to 1, not {sure}"):
        pseudo_label(detector[0], make_dataset(), min_score=sure)


def test_labels_of_a_detector_are_trained_on_and_not_scored_against(
    detector, make_dataset, tmp_path
):
    told = pseudo_label(detector[0], make_dataset())
    out = tmp_path / "told"
    export_dataset({"train": told, "test": told}, out, "coco")
    read = read_real_images(out / "train.json")
    assert [s.origin for s in read.samples] == ["pseudo-labelled"] * len(told.samples)
    assert [o.is_crowd for o in read.samples[0].objects] == [False, False, True]
    problem = r"image images/test/\S+ has pseudo-labels of a detector, which are no ground truth. Give manually labelled images."
    with pytest.raises(InputError, match=problem):
        read_evaluation_images(out / "test.json")
    with pytest.raises(InputError, match=problem):
        split_real_images(out)
