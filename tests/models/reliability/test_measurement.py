"""A small detector knows its own pictures from others; files keep what was measured."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from sim2cam.data.sample import Dataset
from sim2cam.data.set_operations import select_boxes
from sim2cam.errors import CheckpointError
from sim2cam.files import write_bytes
from sim2cam.images import encode_png, read_rgb
from sim2cam.models.inference.detector import (
    detect_objects,
    load_detector,
    predict_image,
    predict_samples,
    save_detector,
)
from sim2cam.models.reliability import measurement
from sim2cam.models.reliability.confidence import ScoreCalibration
from sim2cam.models.reliability.measurement import fit_training_distribution, measure_reliability
from sim2cam.models.reliability.ood import (
    DISTANCE_SLACK,
    MAX_FALSE_POSITIVE_RATE,
    MIN_CALIBRATION_IMAGES,
)
from sim2cam.models.training.config import TrainConfig
from sim2cam.models.training.training import train_detector
from sim2cam.models.training.tuning import tune_weights

CONFIG = TrainConfig(steps=40, batch=4, crop_px=64, learning_rate=4e-3, warmup_steps=10)
HELD_OUT = 40


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Where what the tests share is kept."""
    return tmp_path_factory.mktemp("trust")


@pytest.fixture
def trained(make_dataset, kept):
    """The weights of a short training, the parts it was on, and held-out pictures; trained once."""
    parts = ((make_dataset(n=12), 1.0),)
    held = make_dataset("held", n=HELD_OUT, seed=1)
    if not (kept / "run").exists():
        train_detector(parts, CONFIG, kept / "run")
        measure_reliability(
            kept / "run" / "weights.safetensors", parts, CONFIG, held, "held-out images"
        )
    return kept / "run" / "weights.safetensors", parts, held


def recipe_of(dataset, change):
    """The data set with other pictures in place of its own."""
    samples = []
    for sample in dataset.samples:
        path = dataset.root / f"other-{sample.name}.png"
        write_bytes(path, encode_png(change(read_rgb(sample.rgb), int(sample.name))))
        samples.append(replace(sample, rgb=path))
    return Dataset(dataset.root, dataset.categories, tuple(samples))


def noise(rgb, seed):
    return np.random.default_rng(seed).integers(0, 256, rgb.shape, dtype=np.uint8)


def stripes(rgb, seed):
    rows = (np.arange(rgb.shape[0])[:, None, None] // (3 + seed % 4)) % 2
    return np.where(rows == 1, [250, 240, 60], rgb).astype(np.uint8)


def share_unlike(weights, dataset):
    seen = predict_samples(load_detector(weights), dataset).values()
    return np.mean([one.is_ood for one in seen])


def test_pictures_of_the_same_kind_are_unlike_at_the_stated_rate(trained, make_dataset):
    weights, *_ = trained
    share = share_unlike(weights, make_dataset("fresh", n=60, seed=7))
    # 60 pictures and a limit from 40: the rate's standard deviation is 0.045
    assert share <= MAX_FALSE_POSITIVE_RATE + 0.1


@pytest.mark.parametrize("change", [noise, stripes])
def test_pictures_of_another_kind_are_unlike(trained, change):
    weights, _, held = trained
    assert share_unlike(weights, recipe_of(held.take(10), change)) == 1


def test_card_and_file_hold_what_was_measured_and_the_network_stays(trained):
    weights, parts, held = trained
    card = load_detector(weights).card
    limit = card.ood_threshold
    assert (limit.images, limit.measured_on, limit.tile_px) == (HELD_OUT, "held-out images", 64)
    assert (
        limit.false_positive_rate == round(2 / 41, 4) < MAX_FALSE_POSITIVE_RATE
    )  # the 40th of 40 is each limit
    seen = predict_samples(load_detector(weights), held)
    most = max(one.ood_statistics.distance for one in seen.values())
    assert limit.distance == pytest.approx(DISTANCE_SLACK * most)
    assert max(one.ood_statistics.uncertainty for one in seen.values()) == limit.uncertainty
    assert card.box_size_range_px is not None
    again = weights.parent.parent / "again"
    train_detector(parts, CONFIG, again)
    plain = load_detector(again / "weights.safetensors")
    assert plain.card.ood_threshold is None
    assert plain.feature_distribution is None
    for name, value in load_detector(weights).network.state_dict().items():
        assert torch.equal(value, plain.network.state_dict()[name]), name


def test_what_is_measured_repeats_to_the_byte(trained, make_dataset, tmp_path):
    weights, parts, held = trained
    detector = load_detector(weights)
    bare = replace(detector.card, score_calibration=None, ood_threshold=None)
    path = tmp_path / "weights.safetensors"
    save_detector(path, detector.network.state_dict(), bare)
    measure_reliability(path, parts, CONFIG, held, "held-out images")
    assert path.read_bytes() == weights.read_bytes()
    assert path.with_suffix(".json").read_bytes() == weights.with_suffix(".json").read_bytes()


def test_crops_of_whole_objects_are_those_of_their_boxes(trained, make_dataset, monkeypatch):
    """As they are in training: with ids, outlines would be of what is seen, and be turned freely."""
    monkeypatch.setattr(measurement, "REFERENCE_CROPS", 16)
    weights, *_ = trained
    config = replace(CONFIG, amodal=True)
    looks = [
        fit_training_distribution(
            load_detector(weights),
            ((select_boxes(make_dataset(f"ids {ids}", n=4, with_ids=ids), amodal=True), 1.0),),
            config,
        )
        for ids in (True, False)
    ]
    assert torch.equal(looks[0].mean, looks[1].mean)


def test_what_is_kept_is_a_few_kilobytes(trained):
    weights, *_ = trained
    bare = weights.parent / "bare.safetensors"
    save_detector(bare, load_detector(weights).network.state_dict(), load_detector(weights).card)
    assert weights.stat().st_size - bare.stat().st_size < 10_000


def test_tuning_keeps_what_was_measured(trained, tmp_path):
    weights, _, held = trained
    detector = load_detector(weights)
    path = tmp_path / "weights.safetensors"
    save_detector(path, detector.network.state_dict(), detector.card, detector.feature_distribution)
    tune_weights(path, held.take(4))
    assert load_detector(path).card.ood_threshold == detector.card.ood_threshold
    assert torch.equal(
        load_detector(path).feature_distribution.mean, detector.feature_distribution.mean
    )


def test_a_card_of_before_loads_and_predicts_as_one_with_nothing_measured(trained, tmp_path):
    weights, _, held = trained
    detector = load_detector(weights)
    path = tmp_path / "old.safetensors"
    save_detector(
        path,
        detector.network.state_dict(),
        replace(detector.card, score_calibration=None, ood_threshold=None),
    )
    words = json.loads(path.with_suffix(".json").read_text())
    for key in ("score_calibration", "box_size_range_px", "ood_threshold"):
        del words[key]
    path.with_suffix(".json").write_text(json.dumps(words))
    old = load_detector(path)
    assert (old.card.score_calibration, old.card.box_size_range_px, old.card.ood_threshold) == (
        None,
        None,
        None,
    )
    rgb = read_rgb(held.samples[0].rgb)
    seen = predict_image(old, rgb)
    assert seen.ood_score is None
    assert not seen.is_ood
    unchanged = replace(
        detector, card=replace(detector.card, score_calibration=None, box_size_range_px=None)
    )
    assert seen.detections == predict_image(unchanged, rgb).detections == detect_objects(old, rgb)


def test_scaling_moves_confidences_alone(trained):
    weights, _, held = trained
    detector = load_detector(weights)
    scaling = ScoreCalibration(2.0, {"square": 0.0, "disc": 0.0})
    plain, warm = (
        replace(detector, card=replace(detector.card, score_calibration=s)) for s in (None, scaling)
    )
    rgb = read_rgb(held.samples[0].rgb)
    before, after = (  # rounding may change the order of two that are as faint
        sorted(detect_objects(one, rgb, score_floor=0.0), key=lambda d: d.box_xyxy)
        for one in (plain, warm)
    )
    assert [(d.category, d.box_xyxy) for d in before] == [(d.category, d.box_xyxy) for d in after]
    odds = [[d.score / (1 - d.score) for d in found] for found in (before, after)]
    assert np.square(odds[1]) == pytest.approx(odds[0], rel=1e-3)
    assert all(d.score >= 0.4 for d in detect_objects(warm, rgb, score_floor=0.4))
    lowered = replace(
        warm.card, score_calibration=ScoreCalibration(1.0, {"square": -3.0, "disc": -3.0})
    )
    found = detect_objects(replace(warm, card=lowered), rgb)  # no floor but that before calibration
    assert {d.box_xyxy for d in found} == {d.box_xyxy for d in detect_objects(plain, rgb)}
    assert min(d.score for d in found) < 0.01


def test_the_least_number_of_pictures_is_enough(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(measurement, "REFERENCE_CROPS", 64)
    weights, parts, held = trained
    detector = load_detector(weights)
    path = tmp_path / "weights.safetensors"
    save_detector(path, detector.network.state_dict(), replace(detector.card, ood_threshold=None))
    dev = held.take(MIN_CALIBRATION_IMAGES)
    found = measure_reliability(path, parts, CONFIG, dev, "validation images")
    assert found.card.ood_threshold.measured_on == "validation images"
    assert max(one.ood_score for one in predict_samples(found, dev).values()) == pytest.approx(1)


BAD = [
    ({"score_calibration": {"temperature": 0.0, "offsets": {"square": 1.0, "disc": 1.0}}},
     "score_calibration.temperature must be above 0, not 0.0."),
    ({"score_calibration": {"temperature": 1.0, "offsets": {"square": 1.0}}},
     "score_calibration.offsets are given for square, but must be given for square, disc."),
    ({"score_calibration": {"temperature": 1.0, "offsets": {"square": float("nan"), "disc": 1.0}}},
     "score_calibration.offsets must be finite, not {'square': nan, 'disc': 1.0}."),
    ({"ood_threshold": {"distance": 0.0, "false_positive_rate": 0.05, "images": 40,
                  "measured_on": "held-out images", "tile_px": 64}},
     "ood_threshold.distance must be above 0, not 0.0. Copy both files again."),
    ({"ood_threshold": {"distance": 1.0, "false_positive_rate": 0.05, "images": 40,
                  "measured_on": "held-out images", "tile_px": 0}},
     "ood_threshold.tile_px must be above 0, not 0. Copy both files again."),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "problem"), BAD)
def test_cards_that_cannot_be(changes, problem, trained, tmp_path):
    detector = load_detector(trained[0])
    path = tmp_path / "weights.safetensors"
    save_detector(path, detector.network.state_dict(), detector.card, detector.feature_distribution)
    card = path.with_suffix(".json")
    card.write_text(json.dumps(json.loads(card.read_text()) | changes))
    with pytest.raises(CheckpointError) as caught:
        load_detector(path)
    assert str(caught.value) == f"{card}: {problem}"


def test_a_card_without_its_tensors_and_tensors_without_a_card(trained, tmp_path):
    detector = load_detector(trained[0])
    path = tmp_path / "weights.safetensors"
    save_detector(path, detector.network.state_dict(), detector.card)
    with pytest.raises(
        CheckpointError, match=r"tensor feature_distribution\.mean is missing, but the card"
    ):
        load_detector(path)
    bare = replace(detector.card, ood_threshold=None)
    save_detector(path, detector.network.state_dict(), bare, detector.feature_distribution)
    with pytest.raises(
        CheckpointError, match=r"tensor feature_distribution\.mean is not in the card"
    ):
        load_detector(path)
