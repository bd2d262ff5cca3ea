"""Training of pretrained layers: frozen, thawed late, slower than the heads."""

from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file

from sim2cam.errors import UsageError
from sim2cam.learn.trainer import Callbacks
from sim2cam.models.network.detector import DetectorNetwork
from sim2cam.models.training.config import BackboneTuning, TrainConfig
from sim2cam.models.training.pretrained_layers import LrScale, PretrainedLayers
from sim2cam.models.training.training import train_detector

CONFIG = TrainConfig(
    steps=4, batch=2, crop_px=64, seed=3, warmup_steps=0, architecture="nano", ema_decay=0.0
)


class KilledError(Exception):
    """Stands for a process that is gone."""


@pytest.fixture
def weights(tmp_path):
    """Return a file with a whole network of random weights."""
    network = DetectorNetwork("nano", 1, torch.Generator().manual_seed(9))
    state = {n: v.contiguous() for n, v in network.state_dict().items() if "backbone" in n}
    save_file(state, tmp_path / "nano.safetensors")
    return tmp_path / "nano.safetensors", state


def train(data, path, run, tuning, log=lambda line: None, **options):
    config = replace(CONFIG, pretrained=str(path), backbone=tuning)
    return train_detector(
        ((data, 1.0),), config, run, callbacks=Callbacks(log), log_interval_steps=1,
        checkpoint_interval_s=0, **options,
    ).network.state_dict()  # fmt: skip


def list_changed(state, initial):
    """Return the parts of the backbone whose weights or statistics changed beyond half precision."""
    return {
        ".".join(name.split(".")[1:3]) if ".stages." in name else "stem"
        for name, value in initial.items()
        if value.is_floating_point()
        and not torch.allclose(state[name], value, atol=2e-3, rtol=2e-3)
    }


@pytest.mark.parametrize(
    ("tuning", "changed"),
    [
        (BackboneTuning(), {"stem", "stages.0", "stages.1", "stages.2"}),
        (BackboneTuning(frozen_stages=2), {"stages.1", "stages.2"}),
        (BackboneTuning(frozen_share=1.0), set()),
        (BackboneTuning(frozen_share=1.0, frozen_stages=1), set()),
    ],
)
def test_frozen_layers_keep_weights_and_statistics(
    make_dataset, tmp_path, weights, tuning, changed
):
    path, initial = weights
    state = train(make_dataset(n=4), path, tmp_path / "run", tuning)
    assert list_changed(state, initial) == changed
    scratch = DetectorNetwork("nano", 1, torch.Generator())
    assert state.keys() == scratch.state_dict().keys()


def test_a_late_thaw_is_resumed_bit_exactly(make_dataset, tmp_path, weights):
    path, initial = weights
    data, tuning = make_dataset(n=4), BackboneTuning(frozen_share=0.5)
    whole = train(data, path, tmp_path / "whole", tuning)
    assert list_changed(whole, initial)

    def kill(line):
        if line.step == 1:  # before the thaw at step 2
            raise KilledError

    with pytest.raises(KilledError):
        train(data, path, tmp_path / "run", tuning, kill)
    resumed = train(data, path, tmp_path / "run", tuning, resume=True)
    assert all(torch.equal(resumed[name], value) for name, value in whole.items())


def test_learning_rates_fall_towards_the_stem():
    config = replace(
        CONFIG, steps=40, warmup_steps=8, pretrained="auto",
        backbone=BackboneTuning(lr_scale=0.5, layer_decay=0.5, frozen_share=0.05),
    )  # fmt: skip
    network = DetectorNetwork("lite0", 2, torch.Generator())
    layers = PretrainedLayers(network, network.state_dict().keys(), config)
    names = [
        "backbone.stages.3.0.layers.0.weight",
        "backbone.stages.2.0.layers.0.weight",
        "backbone.stem.1.weight",
    ]
    assert [layers.get_lr_scale(name) for name in names] == [
        LrScale(0.5, 2, 4), LrScale(0.25, 2, 4), LrScale(0.03125, 2, 4),
    ]  # fmt: skip
    assert layers.get_lr_scale("neck.merge_4.0.weight") == LrScale(1.0)
    assert [LrScale(0.5, 2, 4).compute(step) for step in (0, 2, 3, 5, 9)] == [
        0,
        0.125,
        0.25,
        0.5,
        0.5,
    ]
    assert LrScale(0.5).compute(0) == 0.5


def test_layers_without_pretrained_weights_are_trained_as_others():
    config = replace(
        CONFIG, pretrained="auto", backbone=BackboneTuning(frozen_share=1.0, lr_scale=0.1)
    )
    network = DetectorNetwork("nano", 2, torch.Generator())
    stem, stage = "backbone.stem.0.0.weight", "backbone.stages.0.0.conv1.weight"
    layers = PretrainedLayers(network, {stage}, config)
    network.train()
    layers.freeze(0)
    assert network.get_parameter(stem).requires_grad
    assert not network.get_parameter(stage).requires_grad
    assert layers.get_lr_scale(stem) == LrScale(1.0)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"backbone": BackboneTuning()}, "backbone needs pretrained weights"),
        ({"backbone": BackboneTuning(), "pretrained": "auto", "architecture": "fcn_resnet50", "masks": True}, "backbone needs"),
    ],
)  # fmt: skip
def test_settings_of_a_backbone_need_pretrained_weights(values, message):
    with pytest.raises(UsageError, match=message):
        TrainConfig(**values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"frozen_share": 1.5}, "frozen_share must be 0 to 1, not 1.5"),
        ({"frozen_stages": -1}, "frozen_stages must be 0 or more, not -1"),
        ({"lr_scale": 0.0}, "backbone.lr_scale must be above 0 and at most 1, not 0.0"),
    ],
)
def test_impossible_settings(values, message):
    with pytest.raises(UsageError, match=message):
        BackboneTuning(**values)


def test_auto_without_weights_trains_from_scratch(make_dataset, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    data = make_dataset(n=4)
    auto = train(data, "auto", tmp_path / "auto", None)
    config = replace(CONFIG, pretrained="")
    scratch = train_detector(((data, 1.0),), config, tmp_path / "scratch")
    assert all(torch.equal(auto[n], v) for n, v in scratch.network.state_dict().items())
