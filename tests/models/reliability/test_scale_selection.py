"""The input scale without labels: of planned detections, and of a small trained detector."""

from dataclasses import replace

import cv2
import pytest
import torch

from sim2cam.data.sample import Dataset
from sim2cam.files import write_bytes
from sim2cam.images import encode_png, read_rgb
from sim2cam.metrics.detection import Detection
from sim2cam.models.card import DetectorCard
from sim2cam.models.inference.detector import NativeDetector, set_input_scale
from sim2cam.models.reliability import scale_selection
from sim2cam.models.reliability.scale_selection import select_input_scale
from sim2cam.models.training.config import TrainConfig
from sim2cam.models.training.training import train_detector
from sim2cam.models.training.tuning import compute_ap50

DETECTOR = NativeDetector(
    None, DetectorCard("nano", ("square", "disc"), 0, {}, (), box_size_range_px=(20.0, 80.0))
)  # the middle is 40 px


@pytest.fixture
def plan(make_dataset, monkeypatch):
    """Select among planned detections: per scale, the number of objects in an image and their side in pixels."""

    def select(by_scale, detector=DETECTOR, side_px=20):
        def detect(scaled, images):
            scale = round(scaled.card.input_scale, 2)
            count, score, shift = by_scale.get(scale, (0, 0.9, 0))
            boxes = [
                (100.0 * i + shift, 0.0, 100.0 * i + shift + side_px, 10.0) for i in range(count)
            ]
            return {
                s.name: tuple(Detection("disc", b, score) for b in boxes) for s in images.samples
            }

        monkeypatch.setattr(scale_selection, "detect_dataset", detect)
        return select_input_scale(detector, make_dataset(n=5))

    return select


def test_the_scale_that_finds_most_and_brings_objects_to_the_trained_size_is_selected(plan):
    found = {0.5: (1, 0.9, 0), 0.71: (2, 0.9, 0), 1.0: (4, 0.9, 0), 1.41: (5, 0.9, 0), 2.0: (5, 0.9, 0),
             2.83: (5, 0.9, 0)}  # fmt: skip
    selection = plan(found)
    assert selection.input_scale == 2.0  # objects of 20 px get 40
    assert selection.trials[-1].input_scale == 2.0  # no larger scale is tried
    assert plan(found, side_px=26).input_scale == pytest.approx(2**0.5)
    unknown = replace(DETECTOR, card=replace(DETECTOR.card, box_size_range_px=None))
    assert plan(found, unknown).input_scale == pytest.approx(2**0.5)  # the smallest that finds all


def test_detections_that_no_other_scale_confirms_count_against_a_scale(plan):
    same = {1.0: (5, 0.9, 0), 1.41: (5, 0.9, 0), 2.0: (9, 0.9, 60)}
    selection = plan(same)
    assert selection.input_scale == pytest.approx(2**0.5)
    by_scale = {round(trial.input_scale, 2): trial for trial in selection.trials}
    assert by_scale[2.0].unconfirmed == pytest.approx(5 * 9 * 0.9)
    assert by_scale[1.41].confirmed == pytest.approx(5 * 5 * 0.9)


def test_too_few_objects_select_nothing(plan):
    assert plan({1.0: (2, 0.9, 0), 1.41: (2, 0.9, 0)}).input_scale is None
    assert plan({}).input_scale is None
    assert plan({1.0: (5, 0.2, 0), 1.41: (5, 0.2, 0)}).input_scale is None  # not confident


@pytest.fixture(scope="module")
def detector(write_dataset, tmp_path_factory):
    """A detector of objects of 20 to 36 px."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    root = tmp_path_factory.mktemp("trained")
    config = TrainConfig(
        steps=150, batch=4, crop_px=64, photometric=False, learning_rate=2e-3, warmup_steps=20
    )
    yield train_detector(((write_dataset(root / "set", n=12), 1.0),), config, root / "run")
    torch.set_num_threads(threads)


@pytest.mark.parametrize("factor", [0.4, 1.0, 2.0])
def test_a_trained_detector_finds_the_scale_of_resized_images(
    detector, make_dataset, tmp_path, factor
):
    images = _resize(make_dataset("target", n=12, seed=99), factor, tmp_path)
    selection = select_input_scale(detector, images)
    assert 0.65 < selection.input_scale * factor < 1.6
    assert compute_ap50(set_input_scale(detector, selection.input_scale), images) > 0.9
    if factor == 0.4:
        assert compute_ap50(detector, images) < 0.5


def _resize(dataset, factor, folder):
    """Return the dataset with images and boxes of another size."""
    samples = []
    for sample in dataset.samples:
        rgb = cv2.resize(
            read_rgb(sample.rgb), None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA
        )
        path = folder / f"{sample.name}-resized.png"
        write_bytes(path, encode_png(rgb))
        labels = tuple(
            replace(label, box_xyxy=tuple(factor * value for value in label.box_xyxy))
            for label in sample.objects
        )
        samples.append(
            replace(
                sample,
                rgb=path,
                height=rgb.shape[0],
                width=rgb.shape[1],
                objects=labels,
                channels={},
            )
        )
    return Dataset(dataset.root, dataset.categories, tuple(samples))
