import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file

from sim2cam.data.set_operations import use_amodal_boxes
from sim2cam.errors import (
    CheckpointError,
    InputError,
    UsageError,
)
from sim2cam.images import read_rgb
from sim2cam.learn.trainer import Callbacks
from sim2cam.metrics.detection import DetectionEvaluator
from sim2cam.models.compat import BasicBlock, ResNet
from sim2cam.models.inference.detector import (
    NativeDetector,
    detect_dataset,
    detect_objects,
    load_detector,
)
from sim2cam.models.network.architectures import ARCHITECTURES
from sim2cam.models.network.torchvision_models import list_torchvision_architectures
from sim2cam.models.training import task
from sim2cam.models.training.config import (
    OMITTED_WHEN_UNSET,
    AdaptationConfig,
    FineTuning,
    TrainConfig,
)
from sim2cam.models.training.setup import AuxiliaryData
from sim2cam.models.training.training import read_metrics, train_detector

TINY = TrainConfig(steps=6, batch=2, crop_px=64, seed=3, warmup_steps=2)


class KilledError(Exception):
    """Stands for a process that is gone."""


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def kill_at(step):
    def progress(line):
        if line.step == step:
            raise KilledError

    return progress


def test_learns_to_find_and_to_tell_apart(make_dataset, tmp_path):
    data = make_dataset(n=12)
    config = TrainConfig(
        steps=120, batch=4, crop_px=64, photometric=False, learning_rate=2e-3, warmup_steps=20
    )
    detector = train_detector(((data, 1.0),), config, tmp_path / "run")
    lines = read_metrics(tmp_path / "run")
    assert lines[-1].losses["total"] < 0.4 * lines[0].losses["total"]
    unseen = make_dataset("unseen", n=8, seed=99)
    found = DetectionEvaluator(unseen, detect_dataset(detector, unseen))
    scores = found.compute_scores(torch.ones(1, 8, dtype=torch.int64).numpy())
    assert scores["agnostic_ap50"][0] > 0.9
    assert scores["ap50"][0] > 0.8


def test_what_a_reader_learns_is_what_is_said(make_dataset, tmp_path):
    data = make_dataset(n=12)
    config = TrainConfig(
        steps=80, batch=2, crop_px=64, photometric=False, learning_rate=2e-3, warmup_steps=10,
        roi_classifier=True, min_category_visible=0.8, bfloat16=True,
    )  # fmt: skip
    with pytest.raises(KilledError):
        train_detector(
            ((data, 1.0),),
            config,
            tmp_path / "run",
            checkpoint_interval_s=0,
            callbacks=Callbacks(log=kill_at(40)),
        )
    detector = train_detector(((data, 1.0),), config, tmp_path / "run", resume=True)
    lines = read_metrics(tmp_path / "run")
    assert lines[-1].losses["roi_category"] < 0.2
    assert detector.card.roi_classifier
    unseen = make_dataset("unseen", n=8, seed=99)
    run = DetectionEvaluator(unseen, detect_dataset(detector, unseen))
    scores = run.compute_scores(torch.ones(1, 8, dtype=torch.int64).numpy())
    assert scores["ap50"][0] > 0.85 * scores["agnostic_ap50"][0] > 0.3
    rgb = read_rgb(unseen.samples[0].rgb)
    for index, name in enumerate(detector.card.categories):
        with torch.no_grad():
            detector.network.roi_network.class_head.bias.copy_(50 * torch.eye(2)[index])
        found = detect_objects(NativeDetector(detector.network, detector.card), rgb)
        assert {one.category for one in found} == {name}
        assert [one.score for one in found] == sorted((o.score for o in found), reverse=True)


def assert_same_files(run, other):
    for name in ("weights.safetensors", "weights.json", "checkpoint.safetensors"):
        assert (run / name).read_bytes() == (other / name).read_bytes(), name


def test_resumed_training_is_bit_identical(make_dataset, tmp_path):
    parts = ((make_dataset("a"), 0.7), (make_dataset("b", seed=1, with_ids=False), 0.3))
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    train_detector(parts, TINY, whole, log_interval_steps=2)
    interval = {"log_interval_steps": 2, "checkpoint_interval_s": 0}
    with pytest.raises(KilledError):
        train_detector(parts, TINY, broken, callbacks=Callbacks(log=kill_at(4)), **interval)
    assert not (broken / "weights.safetensors").exists()
    with (broken / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "ste')  # cut by the crash
    train_detector(parts, TINY, broken, resume=True, log_interval_steps=2)
    assert_same_files(whole, broken)
    same = [replace(line, step_s=0.0, wait_s=0.0) for line in read_metrics(whole)]
    assert same == [replace(line, step_s=0.0, wait_s=0.0) for line in read_metrics(broken)]
    assert [line.step for line in same] == [2, 4, 6]
    assert set(same[0].losses) == {"heatmap", "box", "category", "total"}
    assert read_metrics(tmp_path / "elsewhere") == ()


@pytest.fixture
def plan_scores(monkeypatch):
    """Plan the validation scores of the next training."""

    def plan(*scores):
        left = iter(scores)
        monkeypatch.setattr(task, "compute_ap50", lambda *_: next(left))

    return plan


def test_early_stopping_keeps_the_best_weights_whenever_it_was_killed(
    make_dataset, tmp_path, plan_scores
):
    parts, config = ((make_dataset(), 1.0),), replace(TINY, steps=8, patience=2)
    data = AuxiliaryData(validation_set=make_dataset("validation", seed=1))
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    options = {"auxiliary_data": data, "log_interval_steps": 3}
    plan_scores(0.1, 0.5, 0.3, 0.4)
    card = train_detector(parts, config, whole, **options).card
    assert card.evaluations == ((1, 0.1), (2, 0.5), (3, 0.3), (4, 0.4))
    assert card.steps == 2
    plan_scores(0.1, 0.5, 0.3)
    with pytest.raises(KilledError):
        train_detector(
            parts,
            config,
            broken,
            checkpoint_interval_s=0,
            callbacks=Callbacks(log=kill_at(3)),
            **options,
        )
    plan_scores(0.4)
    train_detector(parts, config, broken, resume=True, **options)
    assert_same_files(whole, broken)


@pytest.mark.parametrize("has_validation_set", [False, True])
def test_patience_needs_a_validation_set(make_dataset, tmp_path, has_validation_set):
    data = AuxiliaryData(validation_set=make_dataset("v", seed=1) if has_validation_set else None)
    config = replace(TINY, steps=2, patience=9)
    run = tmp_path / "run"
    card = train_detector(((make_dataset(), 1.0),), config, run, auxiliary_data=data).card
    assert [step for step, _ in card.evaluations] == ([1, 2] if has_validation_set else [])
    assert all(0 <= score <= 1 for _, score in card.evaluations)
    assert has_validation_set or card.steps == 2


def test_seed_decides(make_dataset, tmp_path):
    parts = ((make_dataset(), 1.0),)
    config = replace(TINY, steps=2)
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        train_detector(parts, replace(config, seed=seed), tmp_path / name)
    a, b, c = ((tmp_path / n / "weights.safetensors").read_bytes() for n in "abc")
    assert a == b != c


def test_card_says_what_was_trained_on_what(make_dataset, tmp_path):
    parts = ((make_dataset("a"), 3.0), (make_dataset("b", seed=1), 1.0))
    detector = train_detector(parts, replace(TINY, steps=1), tmp_path / "run")
    card = detector.card
    assert card.categories == ("square", "disc")
    assert card.steps == 1
    assert [(p.name, p.weight, p.images) for p in card.data] == [("a", 0.75, 6), ("b", 0.25, 6)]
    assert card.data[0].digest != card.data[1].digest
    assert card == load_detector(tmp_path / "run" / "weights.safetensors").card
    assert str(tmp_path) not in (tmp_path / "run" / "weights.json").read_text()


def test_boxes_of_whole_objects_are_learned_where_asked(make_dataset, tmp_path):
    def hidden(dataset):
        """The data set with objects that go on unseen, a bit further below than they are high."""
        return replace(dataset, samples=tuple(
            replace(s, objects=tuple(replace(o, box_amodal_xyxy=deep(o.box_xyxy)) for o in s.objects))
            for s in dataset.samples
        ))  # fmt: skip

    def deep(box):
        return (*box[:3], 2.3 * box[3] - 1.3 * box[1])  # the seen part alone overlaps it to 0.43

    config = TrainConfig(
        steps=160, seed=1, batch=4, crop_px=64, photometric=False, learning_rate=2e-3,
        warmup_steps=20, rotate_90=False, rotate_any=False, flips=False, amodal=True,
    )  # fmt: skip
    detector = train_detector(((hidden(make_dataset(n=12)), 1.0),), config, tmp_path / "run")
    unseen = hidden(make_dataset("unseen", n=8, seed=99))
    found = detect_dataset(detector, unseen)
    ones = torch.ones(1, 8, dtype=torch.int64).numpy()
    assert (
        DetectionEvaluator(use_amodal_boxes(unseen), found).compute_scores(ones)["agnostic_ap50"][0]
        > 0.8
    )
    assert DetectionEvaluator(unseen, found).compute_scores(ones)["agnostic_ap50"][0] < 0.5


def test_images_are_magnified_as_crops_were(make_dataset, tmp_path):
    config = replace(TINY, steps=1, scale_range=(0.4, 0.625))
    card = train_detector(((make_dataset(), 1.0),), config, tmp_path / "run").card
    assert card.input_scale == card.trained_input_scale == 0.5


POSED = replace(TINY, steps=4, poses=True, flips=False)


def as_photos(dataset):
    """The data set with boxes and categories alone."""
    return replace(dataset, samples=tuple(
        replace(s, channels={}, objects=tuple(replace(o, pose=None, extent_m=None) for o in s.objects))
        for s in dataset.samples
    ))  # fmt: skip


def test_poses_are_learned_and_resumed_beside_photos_without(write_bricks, tmp_path):
    photos = as_photos(write_bricks(tmp_path / "photos", seed=1))
    parts = ((write_bricks(tmp_path / "sim"), 0.7), (photos, 0.3))
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    detector = train_detector(parts, POSED, whole, log_interval_steps=2)
    with pytest.raises(KilledError):
        train_detector(
            parts,
            POSED,
            broken,
            log_interval_steps=2,
            checkpoint_interval_s=0,
            callbacks=Callbacks(log=kill_at(2)),
        )
    train_detector(parts, POSED, broken, resume=True, log_interval_steps=2)
    assert_same_files(whole, broken)
    terms = {"heatmap", "box", "category", "surface_mask", "surface_coordinates", "total"}
    assert set(read_metrics(whole)[0].losses) == terms
    assert list(detector.card.objects) == ["brick", "slab"]
    assert [one.max_coordinate_m for one in detector.card.objects.values()] == [0.03, 0.025]
    assert detector.network.roi_network.class_head is None
    with pytest.raises(InputError, match="no object of category 'brick' has a pose and a size"):
        train_detector(parts[1:], POSED, tmp_path / "photos alone")
    assert not (tmp_path / "photos alone").exists()


@pytest.mark.parametrize("left", [(), ("ids",), ("coordinates",)])
def test_data_that_do_not_tell_which_points_are_seen_teach_no_poses(write_bricks, tmp_path, left):
    data = write_bricks(tmp_path / "sim", n=2)
    bare = replace(data, samples=tuple(
        replace(s, channels={n: path for n, path in s.channels.items() if n in left})
        for s in data.samples
    ))  # fmt: skip
    with pytest.raises(InputError) as caught:
        train_detector(((bare, 1.0),), POSED, tmp_path / "run")
    assert str(caught.value) == (
        f"{data.root}: has no channels ids and coordinates, which learning poses needs. Render with "
        "both in --channels, or train without poses."
    )
    assert not (tmp_path / "run").exists()


def test_another_training_is_not_resumed(make_dataset, tmp_path):
    data, run = make_dataset(), tmp_path / "run"
    train_detector(((data, 1.0),), replace(TINY, steps=2), run)
    path = run / "checkpoint.safetensors"
    with pytest.raises(CheckpointError) as caught:
        train_detector(((data, 1.0),), TINY, run, resume=True)
    assert str(caught.value) == (
        f"{path}: belongs to another training: config.steps was 2 and is now 6. Restore the "
        "old value, or run with --overwrite to start again."
    )
    fewer = replace(data, samples=data.samples[1:])
    with pytest.raises(CheckpointError, match=r"data\.dataset 1\.digest was '[0-9a-f]{64}' and is"):
        train_detector(((fewer, 1.0),), replace(TINY, steps=2), run, resume=True)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(CheckpointError, match=r"damaged checkpoint \(.*--overwrite to start"):
        train_detector(((data, 1.0),), replace(TINY, steps=2), run, resume=True)


def test_a_truncated_image_is_named(make_dataset, tmp_path):
    data = make_dataset(n=1)
    image = data.samples[0].rgb
    image.write_bytes(image.read_bytes()[:500])
    with pytest.raises(InputError) as caught:
        train_detector(((data, 1.0),), TINY, tmp_path / "run")
    assert caught.value.path == image
    assert not (tmp_path / "run" / "weights.safetensors").exists()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"architecture": "nan"}, "architecture 'nan' is not known. Did you mean 'nano'? "
         f"Allowed: {', '.join(sorted(ARCHITECTURES.keys() | list_torchvision_architectures()))}"),
        ({"poses": True}, "poses need flips = false: mirrored objects have no pose"),
        ({"masks": True, "amodal": True}, "masks need amodal = false: hidden parts have no pixels"),
        ({"crop_px": 100}, "crop_px must be a multiple of 32, not 100"),
        ({"steps": 0}, "steps must be 1 or more, not 0"),
        ({"batch": -1}, "batch must be 1 or more, not -1"),
        ({"scale_range": (2.0, 1.0)}, "scale_range must be (low, high) with 0 < low <= high, not (2.0, 1.0)"),
        ({"seed": -1}, "seed must be 0 or more, not -1"),
        ({"warmup_steps": -1}, "warmup_steps must be 0 or more, not -1"),
        ({"weight_decay": -0.1}, "weight_decay must be 0 or more, not -0.1"),
        ({"weight_decay": float("nan")}, "weight_decay must be 0 or more, not nan"),
        ({"cache_bytes": -1}, "cache_bytes must be 0 or more, not -1"),
        ({"learning_rate": 0.0}, "learning_rate must be above 0, not 0.0"),
        ({"clip_norm": -1.0}, "clip_norm must be above 0, not -1.0"),
        ({"min_visible": 1.5}, "min_visible must be 0 to 1, not 1.5"),
        (
            {"roi_classifier": True, "keypoints": True, "flips": False},
            "roi_classifier needs keypoints = false: keypoints are not predicted per RoI category",
        ),
        ({"min_category_visible": -0.1}, "min_category_visible must be 0 to 1, not -0.1"),
        ({"ema_decay": 1.0}, "ema_decay must be 0 or more and below 1, not 1.0"),
        ({"mix_steps": -1}, "mix_steps must be 0 or more, not -1"),
        (
            {"mix_steps": 5},
            "initial_mix and mix_steps belong together: the mix of the datasets at the first step, and "
            "the steps until it reaches their weights. Set both or neither.",
        ),
        (
            {"initial_mix": (0.0,), "mix_steps": 5},
            "initial_mix must have no negative and at least one positive value, not (0.0,)",
        ),
        ({"ema_decay": -0.5}, "ema_decay must be 0 or more and below 1, not -0.5"),
        ({"balance": ("sizes",)}, "balance by 'sizes' is not known. Did you mean 'size'? Allowed: category, size, visible"),
        ({"patience": -1}, "patience must be 0 or more, not -1"),
        (
            {"fine_tuning": FineTuning(residual=True), "adapt": AdaptationConfig("coral")},
            "fine_tuning.residual freezes all features, so adapt has no effect. Remove one of them.",
        ),
        (
            {"adapt": AdaptationConfig("mean-teacher"), "photometric": False},
            "mean-teacher needs photometric = true: it compares predictions on augmented images",
        ),
    ],
)  # fmt: skip
def test_impossible_configurations(values, message):
    with pytest.raises(UsageError) as caught:
        TrainConfig(**values)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (FineTuning, {"head_lr_scale": 0.0}, "fine_tuning.head_lr_scale must be above 0 and at most 1, not 0.0"),
        (FineTuning, {"layer_decay": 2.0},
         "fine_tuning.layer_decay must be above 0 and at most 1, not 2.0"),
        (AdaptationConfig, {"method": "corel"}, "adapt.method 'corel' is not known. Did you mean 'coral'? "
         "Allowed: adabn, coral, dann, mean-teacher"),
        (AdaptationConfig, {"method": "dann", "weight": 0.0}, "adapt.weight must be above 0, not 0.0"),
    ],
)  # fmt: skip
def test_impossible_settings_of_few_labels_and_captures(kind, values, message):
    with pytest.raises(UsageError) as caught:
        kind(**values)
    assert str(caught.value) == message


def test_files_of_trainings_that_use_nothing_later_do_not_name_it(make_dataset, tmp_path):
    train_detector(((make_dataset(), 1.0),), replace(TINY, steps=1), tmp_path / "run")
    card = json.loads((tmp_path / "run" / "weights.json").read_text())
    unused = set(OMITTED_WHEN_UNSET) - {"training_domain"}  # measured in each training
    assert not unused & {*card, *card["config"]}
    assert TrainConfig(keypoints=True).to_json()["keypoints"] is True
    assert TrainConfig(adapt=AdaptationConfig("dann")).to_json()["adapt"] == {
        "method": "dann",
        "weight": 1.0,
    }


@pytest.mark.parametrize(("name", "blocks"), [("nano", 1), ("small", 2)])
def test_own_architectures_begin_with_the_stages_of_a_published_network(
    make_dataset, tmp_path, name, blocks
):
    published = ResNet(BasicBlock, [2, 2, 2, 2])  # of 18 layers
    save_file(published.state_dict(), tmp_path / "resnet18.safetensors")

    def begun(folder, **values):
        config = TrainConfig(
            architecture=name, steps=1, batch=2, crop_px=64, learning_rate=1e-12, weight_decay=0.0,
            **values,
        )  # fmt: skip
        run = tmp_path / "runs" / folder
        return train_detector(((make_dataset(folder), 1.0),), config, run).network.state_dict()

    found = begun("a", pretrained=str(tmp_path / "resnet18.safetensors"))
    scratch = begun("b")
    for stage in range(3):
        for block in range(blocks):
            place = f"backbone.stages.{stage}.{block}.conv2.weight"
            theirs = published.state_dict()[f"layer{stage + 1}.{block}.conv2.weight"]
            assert torch.allclose(found[place], theirs, atol=1e-3), place
            assert not torch.allclose(scratch[place], theirs, atol=1e-2), place
    stem = "backbone.stem.0.0.weight"
    assert torch.equal(found[stem], scratch[stem])


def test_an_architecture_without_such_stages_is_told(make_dataset, tmp_path):
    save_file(ResNet(BasicBlock, [1, 1, 1, 1]).state_dict(), tmp_path / "w.safetensors")
    config = TrainConfig(
        architecture="scout",
        steps=1,
        batch=2,
        crop_px=64,
        pretrained=str(tmp_path / "w.safetensors"),
    )
    with pytest.raises(
        CheckpointError, match="too few layers of the architecture's backbone match"
    ):
        train_detector(((make_dataset(), 1.0),), config, tmp_path / "run")
