"""Features brought to captures: each loss against another computation, and what it does to a shift."""

import copy
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional

from sim2cam.data.sample import Dataset
from sim2cam.errors import InputError, UsageError
from sim2cam.files import write_bytes
from sim2cam.images import encode_png, read_rgb
from sim2cam.learn.trainer import NO_CALLBACKS
from sim2cam.metrics.detection import DetectionEvaluator
from sim2cam.models.inference.detector import detect_dataset
from sim2cam.models.losses.detection import TargetTensors, detector_losses, total_loss
from sim2cam.models.losses.domain_adaptation import (
    OBJECTS_PER_CROP,
    DomainDiscriminator,
    adapt_batch_norm,
    compute_strength,
    coral_loss,
    flatten_cells,
    gather_peak_features,
    make_teacher_targets,
    reverse_gradient,
    teacher_loss,
)
from sim2cam.models.network.detector import STRIDE_PX, UNIT_PX, DetectionMaps, DetectorNetwork
from sim2cam.models.network.targets import make_targets, stack_targets
from sim2cam.models.training import task
from sim2cam.models.training.config import AdaptationConfig, FineTuning, TrainConfig
from sim2cam.models.training.setup import AuxiliaryData
from sim2cam.models.training.training import WEIGHTS, read_metrics, train_detector
from tests.support.interruption import assert_resumes_exactly

TINY = TrainConfig(steps=4, batch=2, crop_px=64, seed=3, warmup_steps=2)
METHODS = ("adabn", "coral", "dann", "mean-teacher")


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def slope(function, values, index, step=1e-6):
    """The derivative of a function by one of its values, from both sides."""
    moved = []
    for sign in (1, -1):
        other = values.detach().clone()
        other[index] += sign * step
        with torch.no_grad():
            moved.append(float(function(other)))
    return (moved[0] - moved[1]) / (2 * step)


def test_coral_is_the_distance_of_covariances():
    first, second = (
        torch.randn(50, 5, generator=generator()),
        torch.rand(70, 5, generator=generator()),
    )
    apart = np.cov(first.numpy(), rowvar=False) - np.cov(second.numpy(), rowvar=False)
    assert float(coral_loss(first, second)) == pytest.approx(
        np.linalg.norm(apart, "fro") ** 2 / (4 * 5**2), rel=1e-5
    )
    shuffled = first[torch.randperm(50, generator=generator())] + 7
    assert float(coral_loss(first, shuffled)) == pytest.approx(0, abs=1e-9)
    assert torch.autograd.gradcheck(
        coral_loss, (first[:9].double().requires_grad_(), second[:7].double().requires_grad_())
    )


def test_cells_keep_their_channels():
    features = torch.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    cells = flatten_cells(features)
    assert cells.shape == (40, 3)
    assert cells[20 + 7].tolist() == features[1, :, 1, 2].tolist()


def test_strength_rises_to_one():
    found = [compute_strength(step, 300) for step in (0, 30, 100, 300)]
    assert found == pytest.approx([math.tanh(5 * p) for p in (0, 0.1, 1 / 3, 1)])


def test_gradients_are_turned_around():
    values = torch.randn(4, generator=generator(), dtype=torch.double, requires_grad=True)
    turned = reverse_gradient(values, 0.3)
    assert torch.allclose(turned, values)
    turned.pow(3).sum().backward()
    for index in range(4):
        assert values.grad[index] == pytest.approx(
            -0.3 * slope(lambda v: v.pow(3).sum(), values, index), rel=1e-6
        )


def test_objects_are_taken_where_heat_peaks_highest():
    heat = torch.full((1, 8, 8), -5.0)
    places = [(1 + 3 * (k // 3), 1 + 3 * (k % 3)) for k in range(OBJECTS_PER_CROP)]
    for number, (row, column) in enumerate(places):
        heat[0, row, column] = number
        heat[0, row, column - 1] = number - 0.5  # next to a peak, and hotter than other peaks
    features = torch.stack(torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij"))[
        None
    ]
    found = gather_peak_features(features, heat)
    assert found.shape == (1, 2, OBJECTS_PER_CROP, 1)
    assert [tuple(place) for place in found[0, :, :, 0].T.int().tolist()] == places[::-1]


def test_the_critic_learns_to_tell_domains_and_features_the_opposite():
    critic = DomainDiscriminator(6, generator()).double()
    features = torch.randn(
        3, 6, 8, 8, generator=generator(1), dtype=torch.double, requires_grad=True
    )
    heat = torch.randn(3, 8, 8, generator=generator(2), dtype=torch.double)
    losses = critic.losses(features, heat, 2, 0.25)
    told = torch.sigmoid(critic.image_head(features)).detach().numpy()
    expected = -np.concatenate([np.log(1 - told[:2]).ravel(), np.log(told[2:]).ravel()]).mean()
    assert losses["domain_image"].item() == pytest.approx(expected)
    told = (
        torch.sigmoid(critic.instance_head(gather_peak_features(features, heat))).detach().numpy()
    )
    expected = -np.concatenate([np.log(1 - told[:2]).ravel(), np.log(told[2:]).ravel()]).mean()
    assert losses["domain_instance"].item() == pytest.approx(expected)

    def total(values):
        with torch.no_grad():
            return sum(critic.losses(values, heat, 2, 0.25).values())

    sum(losses.values()).backward()
    hottest = tuple(np.unravel_index(int(heat[0].argmax()), (8, 8)))
    for index in ((0, 1, 2, 3), (2, 5, 7, 0), (0, 3, *hottest)):
        assert features.grad[index] == pytest.approx(
            -0.25 * slope(total, features, index), rel=1e-5, abs=1e-12
        )
    weights = critic.image_head[2].weight

    def by_weight(values):
        other = copy.deepcopy(critic)
        other.image_head[2].weight = nn.Parameter(values)
        with torch.no_grad():
            return sum(other.losses(features, heat, 2, 0.25).values())

    assert weights.grad[0, 4, 0, 0] == pytest.approx(
        slope(by_weight, weights, (0, 4, 0, 0)), rel=1e-5
    )


def maps_of_boxes(boxes, scores, categories, side=16):
    """Maps of one crop that say these boxes, each with a heat of so much and a sure category."""
    heat, log_sides = torch.full((1, side, side), -9.0), torch.zeros(1, 4, side, side)
    classes = torch.zeros(1, 2, side, side)
    for (x0, y0, x1, y1), score, category in zip(boxes, scores, categories, strict=True):
        column, row = int((x0 + x1) / 2 / STRIDE_PX), int((y0 + y1) / 2 / STRIDE_PX)
        x, y = (column + 0.5) * STRIDE_PX, (row + 0.5) * STRIDE_PX
        sides = torch.tensor([x - x0, y - y0, x1 - x, y1 - y]) / UNIT_PX
        heat[0, row, column] = torch.logit(torch.tensor(score**2))
        log_sides[0, :, row, column] = sides.log()
        classes[0, category, row, column] = 20.0
    return DetectionMaps(heat, log_sides, classes)


TAUGHT_NOTHING = (
    "the mean teacher is not confident about any object in the target images, so it has no effect. Start from "
    "weights that detect objects in them (--from), or use another method.",
)


def test_a_teacher_teaches_what_it_is_sure_of():
    boxes = np.array([[8.0, 10, 28, 26], [36, 34, 60, 62]])
    sure = make_teacher_targets(maps_of_boxes(boxes, (0.9, 0.3), (1, 0)), (64, 64))
    expected = make_targets(boxes[:1], np.array([1]), boxes[1:], (64, 64))
    for name in (
        "heatmap",
        "heatmap_weight",
        "categories",
        "object_weight",
        "object_indices",
        "log_sides",
    ):
        assert getattr(sure, name) == pytest.approx(getattr(expected, name), abs=1e-4), name
    unsure = make_teacher_targets(maps_of_boxes(boxes, (0.5, 0.3), (1, 0)), (64, 64))
    assert not unsure.heatmap_weight.any()
    assert not unsure.object_weight.any()
    said, taught = (maps_of_boxes(boxes, scores, (1, 0)) for scores in ((0.9, 0.9), (0.5, 0.3)))
    assert teacher_loss(said, taught) == 0


def test_a_teacher_is_followed_and_does_not_follow():
    boxes = np.array([[8.0, 10, 28, 26]])
    taught = maps_of_boxes(boxes, (0.9,), (1,))
    said = DetectionMaps(*(torch.randn(v.shape, generator=generator()).double().requires_grad_()
                  for v in taught if v is not None))  # fmt: skip
    taught.heatmap.requires_grad_()
    loss = teacher_loss(said, taught)
    labels = stack_targets([make_targets(boxes, np.array([1]), np.zeros((0, 4)), (64, 64))])
    expected = total_loss(
        detector_losses(said, TargetTensors.from_targets(labels, torch.device("cpu")))
    )
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    loss.backward()
    assert taught.heatmap.grad is None
    for index in ((0, 4, 4), (0, 9, 12)):
        moved = slope(
            lambda h: teacher_loss(said._replace(heatmap=h), taught), said.heatmap, index, 1e-3
        )
        assert said.heatmap.grad[index] == pytest.approx(moved, rel=2e-2, abs=1e-4)


def test_norms_are_measured_on_captures_and_nothing_else_changes():
    network = DetectorNetwork("nano", 2, generator())
    crops = [
        np.random.default_rng(k).integers(0, 99, (2, 64, 64, 3)).astype(np.uint8) for k in (0, 1)
    ]
    before = copy.deepcopy(network.state_dict())
    found = adapt_batch_norm(network, crops)
    assert all(torch.equal(network.state_dict()[n], v) for n, v in before.items())
    others = {n for n in found if not torch.equal(found[n].double(), before[n].double())}
    assert {name.rpartition(".")[2] for name in others} == {
        "running_mean", "running_var", "num_batches_tracked"
    }  # fmt: skip
    kernel = network.backbone.stem[0][0].weight
    means, variances = [], []
    for rgb in crops:
        image = (torch.tensor(rgb).permute(0, 3, 1, 2) - network.mean) / network.std
        seen = functional.conv2d(image, kernel, stride=2, padding=1).detach().numpy()
        means.append(seen.mean(axis=(0, 2, 3)))
        variances.append(seen.var(axis=(0, 2, 3), ddof=1))
    stem = "backbone.stem.0.1"
    assert found[f"{stem}.running_mean"].numpy() == pytest.approx(np.mean(means, 0), abs=1e-4)
    assert found[f"{stem}.running_var"].numpy() == pytest.approx(np.mean(variances, 0), rel=1e-4)


def clouds(seed, shift):
    """Points of two classes, and the same as another camera has them: turned and stretched."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(2, size=400)
    points = rng.normal(size=(400, 2)) * (0.3, 1.5) + np.stack([2.0 * classes - 1, 0 * classes], 1)
    if shift:
        points = points @ np.array([[0.6, 1.1], [-1.1, 0.6]])
    return torch.tensor(points, dtype=torch.float32), torch.tensor(classes)


def learned(weight):
    """How far features are apart after a small task, over how much they differ; the share that is right."""
    (points, classes), (others, _) = clouds(0, shift=False), clouds(1, shift=True)
    network = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
    chance = generator()
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.5, generator=chance)
    adam = torch.optim.Adam(network.parameters(), 0.02)
    for _ in range(150):
        seen, there = network[:2](points), network[:2](others)
        apart = coral_loss(seen, there)
        adam.zero_grad()
        (functional.cross_entropy(network[2](seen), classes) + weight * apart).backward()
        adam.step()
    spread = torch.cov(seen.detach().T).square().mean()
    right = (network(points).argmax(1) == classes).float().mean()
    return float(apart.detach() / spread), float(right)


def test_covariances_come_nearer_in_a_small_task():
    (without, right), (nearer, still_right) = learned(0), learned(10)
    assert nearer < without / 3
    assert min(right, still_right) > 0.98


@pytest.mark.parametrize("method", METHODS)
def test_labels_of_captures_are_not_touched_and_resumption_is_exact(
    make_dataset, tmp_path, monkeypatch, method
):
    monkeypatch.setattr(task, "ADABN_CROPS", 4)
    labelled, parts = make_dataset("captures", seed=5), ((make_dataset("labelled"), 1.0),)
    bare = replace(
        labelled,
        categories=(),
        samples=tuple(replace(s, objects=None, channels={}) for s in labelled.samples),
    )
    config = replace(TINY, adapt=AdaptationConfig(method))

    def train(run, *, callbacks=NO_CALLBACKS, resume=False, **options):
        target = bare if callbacks is not NO_CALLBACKS or resume else labelled
        return train_detector(
            parts, config, run, auxiliary_data=AuxiliaryData(target_images=target),
            log_interval_steps=2, callbacks=callbacks, resume=resume, **options,
        )  # fmt: skip

    detector, whole = assert_resumes_exactly(train, tmp_path), tmp_path / "whole"
    tensors = load_file(whole / "checkpoint.safetensors")
    stem = "backbone.stem.0.1.running_mean"
    kept = torch.equal(detector.network.state_dict()[stem], tensors[f"network average:{stem}"])
    assert kept == (method != "adabn")
    assert detector.card.target_images.name == "captures"
    added = {
        "coral": {"coral"},
        "dann": {"domain_image", "domain_instance"},
        "mean-teacher": {"teacher"},
    }
    first, *_, last = read_metrics(whole)
    assert first.warnings == ()
    assert last.warnings == (TAUGHT_NOTHING if method == "mean-teacher" else ())
    losses = set(last.losses)
    assert losses == {"heatmap", "box", "category", "total"} | added.get(method, set())
    assert json.loads((whole / "weights.json").read_text())["config"]["adapt"]["method"] == method


def test_settings_and_what_they_need_go_together(make_dataset, tmp_path):
    data = make_dataset()
    none = replace(data, samples=())
    unlabelled = replace(data.samples[0], objects=None)
    table = [
        (
            {"adapt": AdaptationConfig("coral")}, AuxiliaryData(), UsageError,
            "adapt needs unlabelled target images. Add --captures, or remove adapt from the recipe's [train].",
        ),
        (
            {}, AuxiliaryData(target_images=data), UsageError,
            f"--captures {data.root}: no adaptation method uses these images. Set one in the "
            "recipe's [train.adapt], or set target_backgrounds = true in its [train].",
        ),
        (
            {"adapt": AdaptationConfig("adabn")}, AuxiliaryData(target_images=none), InputError,
            f"{data.root}: contains no images to adapt to. Name a folder with images.",
        ),
        (
            {"patience": 2}, AuxiliaryData(validation_set=replace(data, samples=(unlabelled,))), InputError,
            f"{unlabelled.rgb}: has no labels for early stopping. Label it, or set patience = 0.",
        ),
        (
            {"fine_tuning": FineTuning()}, AuxiliaryData(), UsageError,
            "fine_tuning needs initial weights. Add --from, or remove fine_tuning from the recipe's [train].",
        ),
    ]  # fmt: skip
    for settings, aids, kind, message in table:
        with pytest.raises(kind) as caught:
            train_detector(
                ((data, 1.0),), replace(TINY, **settings), tmp_path / "run", auxiliary_data=aids
            )
        assert str(caught.value) == message
    assert not (tmp_path / "run").exists()


SHIFT = TrainConfig(
    steps=200, batch=4, crop_px=64, learning_rate=4e-3, warmup_steps=20, ema_decay=0.95
)


def warm(dataset, root):
    """The same pictures, as a camera under warm light has them that does not correct for it."""
    samples = []
    for sample in dataset.samples:
        rgb = (read_rgb(sample.rgb) * np.array([1.4, 0.9, 0.4]) + 20).clip(0, 255)
        write_bytes(root / sample.rgb.name, encode_png(rgb.astype(np.uint8)))
        samples.append(replace(sample, rgb=root / sample.rgb.name))
    return replace(dataset, root=root, samples=tuple(samples))


def found(detector, dataset):
    """AP50 of objects whatever they are called."""
    ones = np.ones((1, len(dataset.samples)), np.int64)
    scores = DetectionEvaluator(dataset, detect_dataset(detector, dataset)).compute_scores(ones)
    return scores["agnostic_ap50"][0]


@dataclass(frozen=True)
class Shift:
    """Labelled pictures, some with another look, others of that to score on, and what is found there
    by a detector of the first alone.
    """

    labelled: Dataset
    captures: Dataset
    test: Dataset
    base: Path
    without: float


@pytest.fixture(scope="module")
def shift(write_dataset, tmp_path_factory):
    root = tmp_path_factory.mktemp("shift")
    labelled = write_dataset(root / "labelled", n=12)
    captures = warm(write_dataset(root / "1", n=12, seed=1), root / "captures")
    test = warm(write_dataset(root / "2", n=12, seed=2), root / "test")
    detector = train_detector(((labelled, 1.0),), SHIFT, root / "run")
    return Shift(labelled, captures, test, root / "run" / WEIGHTS, found(detector, test))


@pytest.mark.slow
@pytest.mark.parametrize("method", [name for name in METHODS if name != "mean-teacher"])
def test_captures_make_good_for_another_look(shift, tmp_path, method):
    config = replace(SHIFT, adapt=AdaptationConfig(method))
    aids = AuxiliaryData(target_images=shift.captures)
    detector = train_detector(
        ((shift.labelled, 1.0),), config, tmp_path / "run", auxiliary_data=aids
    )
    assert found(detector, shift.test) > shift.without + 0.1


@pytest.mark.slow
def test_a_teacher_that_finds_something_makes_good_for_another_look(shift, tmp_path):
    config = replace(SHIFT, fine_tuning=FineTuning())
    scores = []
    for adapt in (AdaptationConfig("mean-teacher"), None):
        aids = AuxiliaryData(
            target_images=shift.captures if adapt else None, initial_weights=shift.base
        )
        run = tmp_path / str(len(scores))
        detector = train_detector(
            ((shift.labelled, 1.0),), replace(config, adapt=adapt), run, auxiliary_data=aids
        )
        scores.append(found(detector, shift.test))
    taught, alone = scores
    assert taught > alone + 0.1


@pytest.mark.slow
@pytest.mark.parametrize(("residual", "more"), [(False, 0.1), (True, 0.05)])
def test_three_labelled_captures_make_good_for_another_look(shift, tmp_path, residual, more):
    config = replace(SHIFT, steps=40, fine_tuning=FineTuning(residual=residual))
    photos = ((shift.captures.take(3), 1.0),)
    detector = train_detector(
        photos, config, tmp_path / "run", auxiliary_data=AuxiliaryData(initial_weights=shift.base)
    )
    assert found(detector, shift.test) > shift.without + more
