"""The margin is measured from known boxes; the magnification is chosen by the score."""

from dataclasses import replace

import pytest
import torch

from sim2cam.data.sample import Dataset
from sim2cam.errors import InputError, UsageError
from sim2cam.metrics.box_padding import MIN_PAIRS, estimate_box_padding
from sim2cam.metrics.detection import Detection
from sim2cam.models.card import DetectorCard
from sim2cam.models.inference.detector import NativeDetector, load_detector, save_detector
from sim2cam.models.network.detector import DetectorNetwork
from sim2cam.models.training import tuning
from sim2cam.models.training.tuning import tune_detector, tune_weights

CATEGORIES = ("square", "disc")
UNTUNED = NativeDetector(None, DetectorCard("nano", CATEGORIES, 0, {}, ()))


def inset(dataset, padding, score=0.9):
    """Detections of labels that were drawn with a padding, as a fraction of the longer side of the image."""
    return {
        sample.name: tuple(
            Detection(
                label.category,
                _moved(label.box_xyxy, padding * max(sample.width, sample.height)),
                score,
            )
            for label in sample.objects
        )
        for sample in dataset.samples
    }


def _moved(box, padding_px):
    return (
        box[0] + padding_px,
        box[1] + padding_px,
        box[2] - padding_px,
        box[3] - padding_px,
    )


@pytest.mark.parametrize("padding", [0.025, 0.01, 0.0, -0.02])
def test_the_padding_of_labels_is_estimated(make_dataset, padding):
    dataset = make_dataset()
    assert estimate_box_padding(inset(dataset, padding), dataset) == pytest.approx(padding)


def test_unsure_distant_and_few_detections_say_nothing_of_the_margin(make_dataset):
    dataset = make_dataset()
    assert estimate_box_padding(inset(dataset, 0.02, score=0.2), dataset) is None
    shifted = {
        name: tuple(
            Detection(d.category, tuple(side + 100 for side in d.box_xyxy), d.score) for d in found
        )
        for name, found in inset(dataset, 0.02).items()
    }
    assert estimate_box_padding(shifted, dataset) is None
    few = Dataset(dataset.root, CATEGORIES, dataset.samples[: MIN_PAIRS // 2 - 1])
    assert estimate_box_padding(inset(few, 0.02), few) is None


def test_the_magnification_that_reads_best_is_chosen_at_the_measured_margin(
    make_dataset, monkeypatch
):
    dataset = make_dataset()
    swapped = dict(zip(CATEGORIES, reversed(CATEGORIES), strict=True))

    def predict(detector, images):
        if detector.card.input_scale == 1.25:  # its boxes are too small to count as they are
            return inset(images, 0.028)
        found = inset(images, 0.0)
        return {
            name: tuple(replace(d, category=swapped[d.category]) for d in detections)
            for name, detections in found.items()
        }

    monkeypatch.setattr(tuning, "detect_dataset", predict)
    card = tune_detector(UNTUNED, dataset).card
    assert card.input_scale == 1.25
    assert card.box_padding == pytest.approx(0.028)


def test_magnifications_are_tried_from_that_of_the_training_on(make_dataset, monkeypatch):
    tried = []

    def predict(detector, images):
        tried.append(detector.card.input_scale)
        return inset(images, 0.0)

    monkeypatch.setattr(tuning, "detect_dataset", predict)
    halved = replace(UNTUNED.card, config={"scale_range": (0.4, 0.625)}, input_scale=0.7)
    assert tune_detector(replace(UNTUNED, card=halved), make_dataset()).card.input_scale == 0.5
    assert tried == [0.5, 0.625, 0.75]
    around = replace(UNTUNED.card, config={"scale_range": (0.5, 1.2)})
    assert around.trained_input_scale == 1.0


def test_where_nothing_is_found_all_stays_as_it_is(make_dataset, monkeypatch):
    monkeypatch.setattr(tuning, "detect_dataset", lambda _, images: inset(images, 0.02, score=0.2))
    before = replace(UNTUNED, card=replace(UNTUNED.card, input_scale=1.5, box_padding=0.1))
    assert tune_detector(before, make_dataset()) is before


def test_images_without_labels_cannot_tune(make_dataset, monkeypatch):
    dataset = make_dataset()
    bare = replace(
        dataset, samples=tuple(replace(sample, objects=None) for sample in dataset.samples)
    )
    monkeypatch.setattr(tuning, "detect_dataset", lambda *_: inset(dataset, 0.02))
    with pytest.raises(InputError, match="has no labels to score against"):
        tune_detector(UNTUNED, bare)


def test_the_card_of_a_tuned_weights_file_says_so_and_the_weights_stay(
    make_dataset, tmp_path, monkeypatch
):
    path = tmp_path / "weights.safetensors"
    network = DetectorNetwork("nano", 2, torch.Generator().manual_seed(0))
    save_detector(path, network.state_dict(), UNTUNED.card)
    before = path.read_bytes()
    monkeypatch.setattr(tuning, "detect_dataset", lambda _, images: inset(images, 0.02))
    tune_weights(path, make_dataset())
    assert load_detector(path).card.box_padding == pytest.approx(0.02)
    assert path.read_bytes() == before
    with pytest.raises(UsageError, match="--device gpu is unknown"):
        tune_weights(path, make_dataset(), device="gpu")
