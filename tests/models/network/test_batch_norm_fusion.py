"""What predicts says what was trained, but for rounding."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch

import sim2cam.models
from sim2cam.geometry.boxes import pairwise_iou
from sim2cam.images import read_rgb
from sim2cam.learn import device
from sim2cam.models.inference.detector import detect_objects, load_detector
from sim2cam.models.network.batch_norm_fusion import fuse_batch_norm
from sim2cam.models.network.detector import DetectorNetwork, is_peak
from sim2cam.pipeline.recipe import RECIPES_FOLDER

WEIGHTS = Path(sim2cam.models.__file__).parent / "weights" / "dice.safetensors"


@pytest.fixture(scope="module")
def network():
    """One with all heads and statistics that are not those of a network without a training."""
    generator = torch.Generator().manual_seed(0)
    made = DetectorNetwork(
        "nano",
        2,
        generator,
        poses=True,
        n_keypoints=3,
        masks=True,
        residual=True,
        roi_classifier=True,
    )
    for module in made.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            for values in (module.running_mean, module.bias):
                values.data.normal_(generator=generator)
            for values in (module.running_var, module.weight):
                values.data.uniform_(0.5, 2.0, generator=generator)
    torch.nn.init.normal_(made.residual_head[2].weight, std=0.01, generator=generator)
    made.box_head[1].weight.data *= 0.1  # so that heat is not 1 in many cells
    return made.eval()


@pytest.fixture(scope="module")
def rgb():
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (2, 3, 64, 96), generator=generator)


@torch.inference_mode()
def test_a_folded_network_says_the_same_and_the_other_stays(network, rgb):
    before = copy.deepcopy(network.state_dict())
    quick = fuse_batch_norm(network)
    assert not any(isinstance(m, torch.nn.BatchNorm2d) for m in quick.modules())
    said = network(rgb)._asdict() | network.classify_crops(rgb)._asdict()
    found = quick(rgb)._asdict() | quick.classify_crops(rgb)._asdict()
    for name, theirs in said.items():
        ours = found[name]
        largest = max(1.0, theirs.abs().max().item())
        assert (ours - theirs).abs().max().item() < 1e-4 * largest, name
    assert before.keys() == network.state_dict().keys()
    assert all(torch.equal(before[name], v) for name, v in network.state_dict().items())


@torch.inference_mode()
def test_what_is_said_at_peaks_is_what_is_said_everywhere(network, rgb):
    features = network.extract_features(rgb)
    every, some = network.apply_heads(features), network.apply_heads(features, (15, 22))
    peaks = is_peak(every.heatmap[:, :15, :22].sigmoid())
    assert 0 < peaks.sum() < peaks.numel() / 2
    for name in ("heatmap", "log_sides", "segmentation", "centre_offsets"):
        assert torch.equal(getattr(some, name), getattr(every, name)[..., :15, :22]), name
    for name in ("class_logits", "keypoints"):
        ours, theirs = (getattr(maps, name)[..., :15, :22] for maps in (some, every))
        off = (ours - theirs).abs().flatten(1, -3).amax(1)
        assert off[peaks].max() < 1e-4, name
        assert off[~peaks].max() > 1e-2, name


def test_bfloat16_finds_what_single_precision_finds(monkeypatch):
    photo = sorted((RECIPES_FOLDER / "standin" / "test").iterdir())[0]
    rgb = np.ascontiguousarray(read_rgb(photo)[:200, :230])
    found = []
    for multiplies in (False, True):
        monkeypatch.setattr(device, "_supports_bfloat16", lambda answer=multiplies: answer)
        found.append(detect_objects(load_detector(WEIGHTS), rgb, score_floor=0.3))
    exact, rounded = found
    assert exact != rounded
    overlap = pairwise_iou(*(np.array([d.box_xyxy for d in some]) for some in found))
    for row, one in zip(overlap, exact, strict=True):
        if one.score < 0.4:
            continue  # may be below the floor, or where another is surer, after rounding
        assert row.max() > 0.9
        other = rounded[int(row.argmax())]
        assert other.category == one.category
        assert other.score == pytest.approx(one.score, abs=0.05)
