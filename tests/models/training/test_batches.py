from dataclasses import replace
from math import ceil, floor

import numpy as np
import pytest
import torch

from sim2cam.data.known_objects import read_object_geometries, stack_symmetry_rotations
from sim2cam.files import write_bytes
from sim2cam.images import encode_png
from sim2cam.learn.prefetch import prefetch, prefetch_in_processes
from sim2cam.models.augment.crops import CropConfig
from sim2cam.models.augment.photometric import PhotometricAugmentation
from sim2cam.models.losses.detection import TargetTensors, heatmap_loss
from sim2cam.models.network.detector import STRIDE_PX
from sim2cam.models.network.roi_classifier import SURFACE_STRIDE_PX
from sim2cam.models.network.roi_crops import CLASSIFIER_CROP_PX, SURFACE_CROP_PX
from sim2cam.models.training import batches as batches_module
from sim2cam.models.training.batches import BatchMaker, build_batch_maker
from sim2cam.models.training.config import TrainConfig
from sim2cam.models.training.datasets import compute_dataset_shares
from sim2cam.models.training.images import BOXES_ONLY, ImageCache, Tasks

RULES = CropConfig(crop_px=64)
CELLS = SURFACE_CROP_PX // SURFACE_STRIDE_PX


def maker(parts, *, seed=0, batch=3, photometric=True, close_ups=0, tasks=BOXES_ONLY, **config):
    samples = [dataset.samples for dataset, _ in parts]
    return BatchMaker(
        parts,
        ImageCache(samples, parts[0][0].categories, 1 << 24, tasks),
        RULES,
        dataset_shares=lambda step: compute_dataset_shares(step, parts, TrainConfig(**config)),
        batch=batch,
        photometric=PhotometricAugmentation() if photometric else None,
        seed=seed,
        tasks=tasks,
        n_roi_crops=close_ups,
    )


def test_a_step_depends_on_seed_and_number_alone(make_dataset):
    parts = ((make_dataset("a"), 1.0), (make_dataset("b", seed=1), 2.0))
    in_order, alone = maker(parts), maker(parts)
    batches = [in_order.make(step) for step in range(4)]
    lone = alone.make(3)
    assert np.array_equal(batches[3].rgb, lone.rgb)
    for name, value in vars(batches[3].targets).items():
        assert np.array_equal(value, getattr(lone.targets, name)), name
    assert not np.array_equal(batches[0].rgb, batches[1].rgb)
    assert not np.array_equal(maker(parts, seed=1).make(3).rgb, lone.rgb)


def test_close_ups_show_what_they_are_said_to(make_dataset):
    data = make_dataset("a", n=6)
    made = maker(((data, 1.0),), batch=8, photometric=False, close_ups=4)
    batch = made.make(3)
    assert batch.roi_crops.rgb.shape == (32, CLASSIFIER_CROP_PX, CLASSIFIER_CROP_PX, 3)
    assert batch.roi_crops.object_coordinates is None
    assert set(batch.roi_crops.categories) == {0, 1}
    again = maker(((data, 1.0),), batch=8, photometric=False, close_ups=4).make(3)
    assert np.array_equal(again.roi_crops.rgb, batch.roi_crops.rgb)
    assert maker(((data, 1.0),)).make(3).roi_crops is None
    unlabelled = replace(data, samples=tuple(replace(s, objects=()) for s in data.samples))
    none = maker(((unlabelled, 1.0),), close_ups=1).make(0).roi_crops
    assert none.categories.tolist() == [-1, -1, -1]


def test_close_ups_know_the_points_that_they_show_and_photos_none(write_bricks, tmp_path):
    data = write_bricks(tmp_path / "bricks", n=2)
    photos = replace(data, samples=tuple(replace(s, channels={}) for s in data.samples))
    known = read_object_geometries([data]).values()
    tasks = Tasks(
        coordinate_scales_m=np.array([one.max_coordinate_m for one in known]),
        symmetry_rotations=stack_symmetry_rotations(known),
    )
    for parts, knows in ((data, True), (photos, False)):
        made = maker(((parts, 1.0),), batch=4, photometric=False, close_ups=2, tasks=tasks).make(0)
        shown = made.roi_crops
        assert shown.rgb.shape == (8, SURFACE_CROP_PX, SURFACE_CROP_PX, 3)
        assert set(shown.categories) == {0, 1}
        assert shown.object_coordinates.shape == (8, 3, CELLS, CELLS)
        is_shown = np.isfinite(shown.object_coordinates[:, 0])
        assert (is_shown.mean(axis=(1, 2)) > 0.1).all() == is_shown.any() == knows
        if knows:  # objects are coloured, and what lies around them is grey
            cells = shown.rgb.reshape(8, CELLS, 8, CELLS, 8, 3)[:, :, 3:5, :, 3:5].mean(axis=(2, 4))
            vivid = np.abs(cells - 110).max(axis=3) > 60
            assert (vivid == is_shown).mean() > 0.85
        assert made.targets.semantic is None  # of masks, which are not learned
    unlabelled = replace(data, samples=tuple(replace(s, objects=()) for s in data.samples))
    none = maker(((unlabelled, 1.0),), close_ups=1, tasks=tasks).make(0).roi_crops
    assert none.categories.tolist() == [-1, -1, -1]
    assert np.isnan(none.object_coordinates).all()


def test_two_crops_show_what_was_put_together_once(write_bricks, tmp_path, monkeypatch):
    data = write_bricks(tmp_path / "bricks", n=8)
    for number, sample in enumerate(data.samples):
        write_bytes(sample.rgb, encode_png(np.full((128, 160, 3), 20 + 20 * number, np.uint8)))
    monkeypatch.setattr(
        batches_module, "paste_objects", lambda picture, *_others, **_rules: picture
    )
    config = TrainConfig(batch=8, crop_px=64, photometric=False)
    for copy_paste in (True, False):
        rules = replace(config, copy_paste=copy_paste)
        maker = build_batch_maker(((data, 1.0),), data.categories, Tasks(cutouts=True), rules)
        greys = np.concatenate([maker.make(step).rgb[:, 32, 32, 0] for step in range(6)])
        assert (greys[::2] == greys[1::2]).all() == copy_paste
        assert not (greys[1:-1:2] == greys[2::2]).all()


def test_weights_are_shares_of_crops(make_dataset):
    bright, dark = make_dataset("bright", n=1), make_dataset("dark", n=1)
    for data, grey in ((bright, 255), (dark, 0)):
        flat = np.full((128, 160, 3), grey, np.uint8)
        write_bytes(data.samples[0].rgb, encode_png(flat))
    made = maker(((bright, 3.0), (dark, 1.0)), batch=400, photometric=False).make(0)
    share = (made.rgb.reshape(400, -1).mean(axis=1) > 200).mean()
    assert share == pytest.approx(0.75, abs=0.06)


def test_pictures_of_what_is_rare_come_up_as_often(make_dataset):
    data = make_dataset("uneven", n=5)
    for number, sample in enumerate(data.samples):
        flat = np.full((128, 160, 3), 255 if number == 0 else 0, np.uint8)
        write_bytes(sample.rgb, encode_png(flat))
    kinds = ["disc" if number == 0 else "square" for number in range(5)]
    samples = [
        replace(sample, objects=tuple(replace(one, category=kind) for one in sample.objects))
        for sample, kind in zip(data.samples, kinds, strict=True)
    ]
    parts = ((replace(data, samples=tuple(samples)), 1.0),)
    config = TrainConfig(batch=400, crop_px=64, photometric=False, cache_bytes=1 << 24)
    for balance, expected in (((), 0.2), (("category",), 0.5)):
        batches = build_batch_maker(
            parts, data.categories, BOXES_ONLY, replace(config, balance=balance)
        )
        share = (batches.make(0).rgb.reshape(400, -1).mean(axis=1) > 200).mean()
        assert share == pytest.approx(expected, abs=0.06)


def test_shares_turn_evenly_into_the_weights(make_dataset):
    plain, wide = make_dataset("plain", n=1), make_dataset("wide", n=1)
    parts = ((plain, 0.0), (wide, 2.0))
    config = TrainConfig(initial_mix=(3.0, 1.0), mix_steps=10)
    found = [compute_dataset_shares(step, parts, config).tolist() for step in (0, 5, 10, 1000)]
    assert found == [[0.75, 0.25], [0.375, 0.625], [0.0, 1.0], [0.0, 1.0]]
    assert compute_dataset_shares(0, ((plain, 1.0), (wide, 3.0)), TrainConfig()).tolist() == [
        0.25,
        0.75,
    ]


def test_plain_scenes_come_first_where_they_are_to(make_dataset):
    plain, wide = make_dataset("plain", n=1), make_dataset("wide", n=1)
    for data, grey in ((plain, 255), (wide, 0)):
        flat = np.full((128, 160, 3), grey, np.uint8)
        write_bytes(data.samples[0].rgb, encode_png(flat))
    batches = maker(
        ((plain, 0.0), (wide, 1.0)), batch=100, photometric=False,
        initial_mix=(1.0, 0.0), mix_steps=4,
    )  # fmt: skip
    bright = [(batches.make(k).rgb.reshape(100, -1).mean(axis=1) > 200).mean() for k in (0, 2, 4)]
    assert bright == [1.0, pytest.approx(0.5, abs=0.15), 0.0]


def test_processes_make_what_a_thread_makes(make_dataset):
    data = make_dataset("a", n=4)
    config = TrainConfig(batch=2, crop_px=64, steps=4, cache_bytes=2 * 160 * 128 * 3)
    maker = build_batch_maker(((data, 1.0),), data.categories, BOXES_ONLY, config)
    in_thread = list(prefetch(maker.make, range(1, 4)))
    maker.preload(2)
    for one, other in zip(
        in_thread, prefetch_in_processes(maker.make, range(1, 4), 2), strict=True
    ):
        assert np.array_equal(one.rgb, other.rgb)
        for name, value in vars(one.targets).items():
            assert np.array_equal(value, getattr(other.targets, name)), name


@pytest.mark.parametrize("origin", ["real", "pseudo-labelled"])
def test_an_object_that_a_labelling_detector_missed_is_not_learned_as_background(
    make_dataset, origin
):
    """The heat that a detector shows where nothing is labelled costs nothing in its own labels."""
    data = make_dataset("a", n=4)
    some = replace(
        data, samples=tuple(replace(s, objects=s.objects[:1], origin=origin) for s in data.samples)
    )
    tasks = Tasks(masks=True)
    batch = maker(((some, 1.0),), batch=8, photometric=False, tasks=tasks).make(0)
    targets = TargetTensors.from_targets(batch.targets, torch.device("cpu"))
    logits = torch.zeros_like(targets.heatmap, requires_grad=True)
    heatmap_loss(logits, targets.heatmap, targets.heatmap_weight).backward()
    is_near = np.zeros(targets.heatmap.shape, bool)
    for crop, near in zip(batch.crops, is_near, strict=True):
        for x0, y0, x1, y1 in crop.boxes_xyxy / STRIDE_PX:
            near[floor(y0) : ceil(y1), floor(x0) : ceil(x1)] = True
    costs = logits.grad.numpy() != 0
    background = (batch.targets.semantic == 0).any()
    assert costs[is_near].any()
    assert costs[~is_near].any() == background == (origin == "real")
