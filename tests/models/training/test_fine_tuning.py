"""Trainings that begin with weights: what stays, what moves how fast, what is refused."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
import torch

from sim2cam.data.known_objects import ObjectGeometry
from sim2cam.errors import CheckpointError
from sim2cam.learn.trainer import Callbacks
from sim2cam.models.card import DetectorCard
from sim2cam.models.inference.detector import load_detector, save_detector
from sim2cam.models.network.detector import DetectorNetwork
from sim2cam.models.network.targets import make_targets, stack_targets
from sim2cam.models.training import step_time
from sim2cam.models.training.batches import DetectorBatch
from sim2cam.models.training.config import BackboneTuning, FineTuning, TrainConfig
from sim2cam.models.training.fine_tuning import compute_lr_scale, copy_weights, load_initial_weights
from sim2cam.models.training.setup import AuxiliaryData, make_training_setup
from sim2cam.models.training.task import NativeTask
from sim2cam.models.training.training import train_detector

TINY = TrainConfig(steps=4, batch=2, crop_px=64, seed=3, warmup_steps=2)
FROZEN = FineTuning(residual=True)
FILES = ("weights.safetensors", "weights.json", "checkpoint.safetensors")


@pytest.fixture(scope="module")
def base(write_dataset, tmp_path_factory):
    """Weights of a training of four steps."""
    root = tmp_path_factory.mktemp("base")
    train_detector(((write_dataset(root / "renders"), 1.0),), TINY, root / "run")
    return root / "run" / "weights.safetensors"


@pytest.fixture(scope="module")
def photos(write_dataset, tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("few") / "photos", n=3, seed=7, with_ids=False)


class KilledError(Exception):
    """Stands for a process that is gone."""


def kill(line):
    if line.step == 2:
        raise KilledError


def tune(base, photos, run, tuning, **choice):
    config = replace(TINY, seed=5, fine_tuning=tuning)
    return train_detector(
        ((photos, 1.0),),
        config,
        run,
        auxiliary_data=AuxiliaryData(initial_weights=base),
        log_interval_steps=2,
        **choice,
    )


@pytest.mark.parametrize("tuning", [None, FROZEN])
def test_a_training_goes_on_from_weights_and_resumes_exactly(base, photos, tmp_path, tuning):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    detector = tune(base, photos, whole, tuning)
    with pytest.raises(KilledError):
        tune(base, photos, broken, tuning, checkpoint_interval_s=0, callbacks=Callbacks(log=kill))
    tune(base, photos, broken, tuning, resume=True)
    for name in FILES:
        assert (whole / name).read_bytes() == (broken / name).read_bytes(), name
    start = detector.card.initial_weights
    assert (start.name, start.digest) == (base.name, hashlib.sha256(base.read_bytes()).hexdigest())
    assert [(part.name, part.images) for part in start.data] == [("renders", 6)]
    assert set(detector.card.image_digests) > set(load_detector(base).card.image_digests) > set()
    assert [part.name for part in detector.card.data] == ["photos"]
    assert detector.card.config["fine_tuning"]["residual"] == detector.card.residual == bool(tuning)
    before, after = load_detector(base).network.state_dict(), detector.network.state_dict()
    stay = {name for name in before if torch.equal(before[name], after[name])}
    assert (stay == set(before)) == bool(tuning)
    assert {name.partition(".")[0] for name in set(after) - set(before)} == (
        {"residual_head"} if tuning else set()
    )
    if tuning:
        assert all(after[name].any() for name in set(after) - set(before))


def test_what_was_tuned_is_tuned_further_and_the_card_knows_all_data(base, photos, tmp_path):
    tune(base, photos, tmp_path / "first", FROZEN)
    again = tune(
        tmp_path / "first" / "weights.safetensors", photos, tmp_path / "second", FineTuning()
    )
    assert [part.name for part in again.card.initial_weights.data] == ["renders", "photos"]
    assert again.card.residual
    before = (
        load_detector(tmp_path / "first" / "weights.safetensors").network.residual_head[0].weight
    )
    assert not torch.equal(again.network.residual_head[0].weight, before)


def test_sizes_that_were_known_and_how_much_images_are_enlarged_stay(base, photos, tmp_path):
    detector = load_detector(base)
    card = replace(detector.card, input_scale=1.5, box_padding=0.1, box_size_range_px=(3.0, 900.0))
    start = tmp_path / "start.safetensors"
    save_detector(start, detector.network.state_dict(), card)
    after = tune(start, photos, tmp_path / "run", None).card
    assert (after.input_scale, after.box_padding, after.box_size_range_px) == (
        1.5,
        0.0,
        (3.0, 900.0),
    )
    config = replace(TINY, scale_range=(0.5, 0.5))
    lesson = make_training_setup(((photos, 1.0),), config, AuxiliaryData(initial_weights=start))
    assert lesson.make_card().input_scale == 0.75


def test_a_residual_head_says_nothing_at_first(base):
    plain = load_detector(base).network
    network = DetectorNetwork("nano", 2, torch.Generator().manual_seed(1), residual=True).eval()
    copy_weights(network, plain)
    rgb = torch.randint(0, 256, (1, 3, 64, 64), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        for ours, theirs in zip(network(rgb), plain(rgb), strict=True):
            assert ours is theirs is None or torch.allclose(ours, theirs, atol=1e-5)


def test_what_a_reader_says_is_corrected_too(write_dataset, photos, tmp_path):
    config = replace(TINY, roi_classifier=True)
    run = tmp_path / "reads"
    before = train_detector(((write_dataset(tmp_path / "renders"), 1.0),), config, run).network
    weights = run / "weights.safetensors"
    after = train_detector(
        ((photos, 1.0),),
        replace(config, seed=5, fine_tuning=FROZEN),
        tmp_path / "tuned",
        auxiliary_data=AuxiliaryData(initial_weights=weights),
    ).network
    old, new = before.state_dict(), after.state_dict()
    assert all(torch.equal(values, new[name]) for name, values in old.items())
    added = set(new) - set(old)
    assert {name.rpartition("residual_head.")[0] for name in added} == {"", "roi_network."}
    assert all(new[name].any() for name in added)
    fresh = DetectorNetwork(
        "nano", 2, torch.Generator().manual_seed(1), residual=True, roi_classifier=True
    ).eval()
    copy_weights(fresh, before)
    rgb = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0)) * 255
    with torch.inference_mode():
        said = [network.classify_crops(rgb).category_logits for network in (before, fresh, after)]
    assert torch.allclose(said[0], said[1], atol=1e-5)  # it says nothing at first
    assert not torch.allclose(said[0], said[2], atol=1e-5)


def test_rates_fall_from_the_heads_to_the_stem():
    tuning = FineTuning(head_lr_scale=0.5, layer_decay=0.1)
    layers = ("box_head.0.0.weight", "neck.merge_4.0.weight", "neck.lateral.1.bias", "backbone.stages.2.0.conv1.weight",
              "backbone.stages.1.0.conv1.weight", "backbone.stages.0.0.conv1.weight", "backbone.stem.0.0.weight")  # fmt: skip
    found = [compute_lr_scale(name, tuning, 3) for name in layers]
    assert found == pytest.approx([0.5, 0.05, 0.05, 5e-3, 5e-4, 5e-5, 5e-6])
    assert (
        compute_lr_scale(layers[-1], None, 3)
        == compute_lr_scale("residual_head.0.weight", FROZEN, 3)
        == 1
    )
    network = DetectorNetwork("nano", 2, torch.Generator(), masks=True, poses=True)
    names = dict(network.named_parameters())
    heads = {
        n.partition(".")[0] for n in names if compute_lr_scale(n, tuning, 3) == tuning.head_lr_scale
    }
    assert heads == {"box_head", "class_head", "mask_head", "roi_network"}


def test_the_first_step_moves_every_layer_as_far_as_its_rate(base, photos):
    # Adam's first step is the learning rate, whatever the gradient
    config = replace(TINY, warmup_steps=0, weight_decay=0.0, fine_tuning=FineTuning(0.5, 0.5))
    setup = make_training_setup(((photos, 1.0),), config, AuxiliaryData(initial_weights=base))
    run = NativeTask(setup, setup.make_card(), torch.device("cpu"))
    before = {name: p.detach().clone() for name, p in run.network.named_parameters()}
    box, none = np.array([[10.0, 12, 40, 44]]), np.zeros((0, 4))
    rgb = np.random.default_rng(0).integers(0, 256, (2, 64, 64, 3)).astype(np.uint8)
    targets = stack_targets([make_targets(box, np.array([k]), none, (64, 64)) for k in (0, 1)])
    run.train_step(0, (DetectorBatch(rgb, targets), None))
    for name, parameter in run.network.named_parameters():
        moved = float((parameter.detach() - before[name]).abs().max())
        assert moved == pytest.approx(
            2e-3 * compute_lr_scale(name, config.fine_tuning, 3), rel=0.05
        ), name


def test_other_weights_are_not_gone_on_from(base, photos, tmp_path):
    run = tmp_path / "run"
    tune(base, photos, run, None)
    other = tmp_path / "weights.safetensors"
    card = load_detector(base).card
    save_detector(
        other, DetectorNetwork("nano", 2, torch.Generator().manual_seed(0)).state_dict(), card
    )
    with pytest.raises(
        CheckpointError,
        match=r"belongs to another training: initial_weights was '[0-9a-f]{64}' and",
    ):
        tune(other, photos, run, None, resume=True)


def test_steps_are_timed_without_dropping_heads_of_the_weights(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(step_time, "MIN_OPTION_SHARE", -1e9)
    monkeypatch.setattr(step_time, "_OPTIONS_S", 1e9)
    config = replace(TINY, roi_classifier=True)
    weights = tmp_path / "weights.safetensors"
    network = DetectorNetwork("nano", 2, torch.Generator().manual_seed(0), roi_classifier=True)
    card = DetectorCard("nano", ("square", "disc"), 0, {}, (), roi_classifier=True)
    save_detector(weights, network.state_dict(), card)
    setup = make_training_setup(((photos, 1.0),), config, AuxiliaryData(initial_weights=weights))
    measured = step_time.measure_step_time(setup, "cpu", with_options=True)
    assert measured.step_s > 0
    assert measured.option_s == {}


def test_the_architecture_is_that_of_the_weights(base, photos):
    config = replace(TINY, architecture="lite0", pretrained="auto", backbone=BackboneTuning())
    setup = make_training_setup(((photos, 1.0),), config, AuxiliaryData(initial_weights=base))
    assert (setup.config.architecture, setup.config.pretrained) == ("nano", "")
    assert setup.pretrained is None
    assert setup.config.backbone is None


BRICK = ObjectGeometry(((-0.03, -0.02, -0.01), (0.03, 0.02, 0.01)))
LONGER = ObjectGeometry(((-0.04, -0.02, -0.01), (0.04, 0.02, 0.01)))
OTHERS = [
    (
        {"categories": ("square", "cube")}, {},
        "predicts square, cube, but the data have square, disc. Rename them with --map, drop others with "
        "--ignore-unmatched, add categories without objects to the dataset's list, or choose other weights.",
    ),
    (
        {"masks": True}, {},
        "was trained with masks = true, not false. Set masks = true in the recipe's [train], or choose "
        "other weights.",
    ),
    (
        {}, {"keypoints": True},
        "was trained with keypoints = false, not true. Set keypoints = false in the recipe's [train], "
        "or choose other weights.",
    ),
    (
        {"config": {"amodal": True}}, {},
        "was trained with amodal = true, not false. Set amodal = true in the recipe's [train], or choose "
        "other weights.",
    ),
    (
        {"objects": {"square": BRICK, "disc": BRICK}}, {},
        "was trained with poses = true, not false. Set poses = true in the recipe's [train], or choose "
        "other weights.",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("made", "asked", "message"), OTHERS)
def test_weights_that_do_not_fit_are_refused(made, asked, message, tmp_path):
    path = tmp_path / "other.safetensors"
    card = replace(DetectorCard("nano", ("square", "disc"), 0, {}, ()), **made)
    network = DetectorNetwork(
        card.architecture, 2, torch.Generator(), poses=bool(card.objects), masks=card.masks
    )
    save_detector(path, network.state_dict(), card)
    with pytest.raises(CheckpointError) as caught:
        load_initial_weights(path, ("square", "disc"), replace(TINY, **asked))
    assert str(caught.value) == f"{path}: {message}"


def test_weights_of_other_objects_are_refused(tmp_path):
    path = tmp_path / "other.safetensors"
    card = DetectorCard(
        "nano", ("square", "disc"), 0, {}, (), objects={"square": BRICK, "disc": BRICK},
        keypoints={"square": ("tip", "head"), "disc": ()},
    )  # fmt: skip
    network = DetectorNetwork("nano", 2, torch.Generator(), poses=True, n_keypoints=2)
    save_detector(path, network.state_dict(), card)
    config = replace(TINY, poses=True, keypoints=True, flips=False)
    start = load_initial_weights(path, ("disc", "square"), config)
    start.check_objects({"square": BRICK, "disc": BRICK}, {"square": ("head", "tip"), "disc": ()})
    with pytest.raises(CheckpointError) as caught:
        start.check_objects({"square": BRICK, "disc": LONGER}, {})
    assert str(caught.value) == (
        f"{path}: predicts poses of category 'disc' for objects of another size or symmetry than those in "
        "the data. Choose other weights."
    )
    with pytest.raises(CheckpointError) as caught:
        start.check_objects({}, {"square": ("head",), "disc": ()})
    assert str(caught.value) == (
        f"{path}: predicts the keypoints tip, head of category 'square', but the data have head. Choose "
        "other weights."
    )


def test_missing_weights_are_named(photos, tmp_path):
    with pytest.raises(CheckpointError) as caught:
        tune(tmp_path / "none.safetensors", photos, tmp_path / "run", None)
    assert str(caught.value) == (
        f"{tmp_path}/none.safetensors: no such weights. Check the path, or train them first."
    )
    assert not (tmp_path / "run").exists()
