"""Distributions of a training, and what target images lack of them."""

from dataclasses import replace

import cv2
import numpy as np
import pytest

from sim2cam.files import write_bytes
from sim2cam.images import encode_png, read_rgb
from sim2cam.metrics.detection import Detection
from sim2cam.models.card import card_from_json
from sim2cam.models.reliability.domain_shift import (
    TargetStatistics,
    TrainingDomain,
    collect_detected_objects,
    collect_labelled_objects,
    compare_with_training,
    measure_image_parts,
    select_evenly,
)
from sim2cam.models.training.config import TrainConfig
from sim2cam.models.training.domain import measure_training_domain
from sim2cam.models.training.setup import NO_AUXILIARY_DATA, make_training_setup

CONFIG = TrainConfig(crop_px=64, batch=4, steps=16, photometric=False, scale_range=(1.0, 1.0))
DOMAIN = TrainingDomain(
    (20.0, 25.0, 30.0, 35.0, 40.0), (1, 2, 3, 4, 5), (0.2, 0.3, 0.4, 0.5, 0.6), (0.4, 0.5, 0.6, 0.7, 0.8)
)  # fmt: skip


def shift(**values):
    target = TargetStatistics(**{name: tuple(v) for name, v in values.items()})
    return compare_with_training(target, DOMAIN, (20.0, 40.0))


@pytest.mark.parametrize(
    ("values", "severity", "text"),
    [
        ({"box_side_px": [12] * 6 + [30] * 4}, "problem",
         "60% of 10 objects are smaller than in training: a longer side at the network's scale of 12 px (median), "
         "in training 20 px to 40 px (90 %). Run: sim2cam tune WEIGHTS IMAGES --out tuned"),
        ({"box_side_px": [80] * 10}, "note",
         "100% of 10 objects are larger than in training: a longer side at the network's scale of 80 px (median), "
         "in training 20 px to 40 px (90 %). Run: sim2cam domain fit RECIPE --captures IMAGES --detector WEIGHTS "
         "--out fitted"),
        ({"objects_per_image": [9] * 10}, "problem",
         "100% of 10 images show more objects than in training: 9 (median), in training 1 to 5 (90 %). Run: sim2cam "
         "domain fit RECIPE --captures IMAGES --detector WEIGHTS --out fitted"),
        ({"luminance": [0.1] * 10}, "problem",
         "100% of 10 image parts are darker than in training: a luminance of 0.10 (median), in training 0.20 to 0.60 "
         "(90 %). Run: sim2cam domain fit RECIPE --captures IMAGES --out fitted"),
        ({"sharpness": [0.9] * 10}, "problem",
         "100% of 10 image parts are sharper or noisier than in training: a contrast of the finest details, relative "
         "to that of coarser ones, of 0.90 (median), in training 0.40 to 0.80 (90 %). Run: sim2cam calibrate IMAGES "
         "--out camera.json"),
    ],
)  # fmt: skip
def test_each_quantity_that_does_not_fit_has_a_sentence_and_a_command(values, severity, text):
    compared = shift(**values)
    (finding,) = compared.findings
    assert (str(finding), finding.severity) == (text, severity)
    (name,) = values
    assert compared.to_json()[name]["finding"] == text


def test_quantities_that_fit_or_are_unknown_have_none():
    assert shift(box_side_px=[25] * 10, luminance=[0.1] * 2 + [0.3] * 8).findings == ()
    assert shift(box_side_px=[5] * 9).quantities == ()  # too few
    assert compare_with_training(TargetStatistics((5.0,) * 20), None, None).quantities == ()
    sizes_only = compare_with_training(
        TargetStatistics((5.0,) * 20, (50.0,) * 20), None, (20.0, 40.0)
    )
    assert [q.name for q in sizes_only.quantities] == ["box_side_px"]


def test_objects_are_measured_at_the_networks_scale_and_confident_ones_count(make_dataset):
    dataset = make_dataset(n=3)
    objects = collect_labelled_objects(dataset, 0.5)
    assert objects.objects_per_image == (2, 2, 2)
    first = dataset.samples[0].objects[0].box_xyxy
    assert objects.box_side_px[0] == 0.5 * max(first[2] - first[0], first[3] - first[1])
    box = Detection("disc", (0.0, 0.0, 10.0, 20.0), 0.9)
    detected = collect_detected_objects([(box, replace(box, score=0.4)), ()], 2.0)
    assert detected == TargetStatistics((40.0,), (1.0, 0.0))


def test_a_training_is_measured_by_its_parts_and_their_weights(make_dataset, tmp_path):
    dataset, empty = make_dataset(n=4), make_dataset("empty", n=4, seed=1)
    grey = tmp_path / "grey.png"
    write_bytes(grey, encode_png(np.full((128, 160, 3), 102, np.uint8)))
    empty = replace(empty, samples=tuple(replace(s, objects=(), rgb=grey) for s in empty.samples))
    domain = measure_training_domain(((dataset, 0.3), (empty, 0.7)), CONFIG)
    assert domain.objects_per_image == (0, 0, 0, 2, 2)
    assert domain.luminance[1] == pytest.approx(0.4, abs=1e-3)
    assert measure_training_domain(((empty, 1.0),), CONFIG).sharpness is None  # no contrast
    varied = measure_training_domain(((dataset, 1.0),), replace(CONFIG, photometric=True)).luminance
    assert varied[-1] - varied[0] > 2 * (domain.luminance[-1] - domain.luminance[0])
    strong = replace(CONFIG, photometric=True, strong_colour=True)
    assert measure_training_domain(((dataset, 1.0),), strong).luminance != varied
    assert 18 < domain.box_side_px[0] < domain.box_side_px[-1] < 38


def test_images_of_the_training_fit_and_dark_blurred_ones_do_not(make_dataset, tmp_path):
    domain = measure_training_domain(((make_dataset(n=12), 1.0),), CONFIG)
    target = make_dataset("target", n=12, seed=5)
    paths = [sample.rgb for sample in target.samples]
    same = compare_with_training(measure_image_parts(paths, 1.0, 64), domain, None)
    assert [q.name for q in same.quantities] == ["luminance", "sharpness"]
    assert same.findings == ()
    for number, path in enumerate(paths):
        blurred = cv2.GaussianBlur(read_rgb(path) // 2, (0, 0), 1.0)
        write_bytes(tmp_path / f"{number}.png", encode_png(blurred))
    changed = [tmp_path / f"{number}.png" for number in range(len(paths))]
    other = compare_with_training(measure_image_parts(changed, 1.0, 64), domain, None)
    texts = [finding.text for finding in other.findings]
    assert "are darker" in texts[0]
    assert "are less sharp" in texts[1]


def test_cards_keep_the_domain_and_do_without(make_dataset, tmp_path):
    setup = make_training_setup(((make_dataset(), 1.0),), CONFIG, NO_AUXILIARY_DATA)
    bare = setup.make_card()
    assert "training_domain" not in bare.to_json()
    card = replace(bare, training_domain=DOMAIN)
    assert card_from_json(tmp_path, card.to_json()).training_domain == DOMAIN


def test_a_few_items_are_chosen_evenly():
    assert select_evenly(range(10), 4) == (0, 3, 6, 9)
    assert select_evenly([1, 2], 4) == (1, 2)


def test_a_setup_reads_the_training_images_for_its_cards_once(make_dataset, monkeypatch):
    setup = make_training_setup(((make_dataset(n=4), 1.0),), CONFIG, NO_AUXILIARY_DATA)
    digests = setup.make_card().image_digests
    domain = setup.training_domain
    monkeypatch.setattr("sim2cam.images.compute_digest", None)
    monkeypatch.setattr("sim2cam.models.training.setup.measure_training_domain", None)
    assert setup.make_card().image_digests == digests
    assert setup.training_domain is domain
