"""Models of torchvision by name, of which small ones are added to its list; where its operators do not load,
they are stood in for.
"""

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from sim2cam.dataset.sample import Dataset, Keypoint, ObjectLabel, Sample
from sim2cam.errors import BackendError, CheckpointError, UsageError
from sim2cam.geometry.boxes import pairwise_iou
from sim2cam.images import encode_png, read_rgb, write_bytes
from sim2cam.measure.detection import MatchedRun
from sim2cam.models import named
from sim2cam.models.card import DetectorCard
from sim2cam.models.compat import detection, has_operators, segmentation
from sim2cam.models.config import Adaptation, FineTuning, TrainConfig
from sim2cam.models.crops import CropRules, draw_crop
from sim2cam.models.lesson import Aids
from sim2cam.models.named import named_architectures, named_model, tells_pixels
from sim2cam.models.named_detector import NamedDetector
from sim2cam.models.named_network import (
    ObjectNetwork,
    PixelNetwork,
    hidden_pixels,
    named_network,
    target_of,
)
from sim2cam.models.pictures import Tasks, read_picture
from sim2cam.models.prediction import load_detector, look, own_detector, predict_dataset
from sim2cam.models.selection import look_without_labels
from sim2cam.models.training import read_metrics, train_detector
from sim2cam.models.trust import measure_trust
from sim2cam.pipeline.bench import bench

SSD, PIXELS = "ssdlite320_mobilenet_v3_large", "lraspp_mobilenet_v3_large"
CONFIG = TrainConfig(
    steps=4, batch=2, crop_px=64, warmup_steps=2, photometric=False, free_turns=False
)


class KilledError(Exception):
    """Stands for a process that is gone."""


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


class Backbone(nn.Sequential):
    """Cells of 8 pixels."""

    out_channels = 32

    def __init__(self):
        layers = [
            (nn.Conv2d(before, after, 3, 2, 1), nn.BatchNorm2d(after), nn.ReLU())
            for before, after in itertools.pairwise((3, 16, 32, 32))
        ]
        around = nn.Conv2d(32, 32, 3, padding=2, dilation=2), nn.BatchNorm2d(32), nn.ReLU()
        super().__init__(*itertools.chain(*layers, around))


def anchors(*sizes):
    return detection.anchor_utils.AnchorGenerator((sizes,), ((1.0,),))


def fcos_tiny(num_classes, **_):
    return detection.fcos.FCOS(Backbone(), num_classes, anchor_generator=anchors(8))


def second_stage(num_classes):
    heads = detection.faster_rcnn
    return {
        "rpn_anchor_generator": anchors(16, 32),
        "box_head": heads.TwoMLPHead(32 * 49, 32),
        "box_predictor": heads.FastRCNNPredictor(32, num_classes),
    }


def maskrcnn_tiny(num_classes, **_):
    kind = detection.mask_rcnn
    return kind.MaskRCNN(
        Backbone(), **second_stage(num_classes), mask_head=kind.MaskRCNNHeads(32, (16,), 1),
        mask_predictor=kind.MaskRCNNPredictor(16, 16, num_classes),
    )  # fmt: skip


def keypointrcnn_tiny(num_classes, num_keypoints, **_):
    kind = detection.keypoint_rcnn
    return kind.KeypointRCNN(
        Backbone(), **second_stage(num_classes), keypoint_head=kind.KeypointRCNNHeads(32, (16,)),
        keypoint_predictor=kind.KeypointRCNNPredictor(16, num_keypoints),
    )  # fmt: skip


class Features(Backbone):
    def forward(self, image):
        return {"out": super().forward(image)}


def fcn_tiny(num_classes, **_):
    return segmentation.fcn.FCN(Features(), segmentation.fcn.FCNHead(32, num_classes))


def greedy_nms(boxes, scores, iou_threshold):
    kept = []
    corners = boxes.detach().double().numpy()
    overlap = pairwise_iou(corners, corners) > iou_threshold
    for index in scores.argsort(descending=True).tolist():
        if not overlap[index, kept].any():
            kept.append(index)
    return torch.tensor(kept, dtype=torch.int64)


def sampled_rois(features, rois, output_size, spatial_scale=1.0, sampling_ratio=-1, aligned=False):
    """What ``roi_align`` computes (He et al. 2017, section 3), with two samples a side of a bin."""
    down, across = output_size
    height, width = features.shape[2:]
    found = []
    for image, *corners in rois.tolist():
        x0, y0, x1, y1 = (corner * spatial_scale for corner in corners)
        steps = [
            (torch.arange(2 * count) + 0.5) / (2 * count) * max(end - start, 1.0) + start
            for start, end, count in ((y0, y1, down), (x0, x1, across))
        ]
        y, x = torch.meshgrid(*steps, indexing="ij")
        grid = torch.stack([(2 * x + 1) / width - 1, (2 * y + 1) / height - 1], -1)[None]
        one = features[int(image)][None]
        samples = functional.grid_sample(one, grid, padding_mode="border", align_corners=False)
        found.append(functional.avg_pool2d(samples, 2)[0])
    return torch.stack(found) if found else features.new_zeros(0, features.shape[1], down, across)


@pytest.fixture(autouse=True)
def torchvision(monkeypatch):
    """Its list with small models, and its operators, where its own do not load."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    known = detection.faster_rcnn.register_model.__globals__["BUILTIN_MODELS"]
    kinds = {
        "detection": (fcos_tiny, maskrcnn_tiny, keypointrcnn_tiny),
        "segmentation": (fcn_tiny,),
    }
    for kind, builders in kinds.items():
        for builder in builders:
            monkeypatch.setattr(builder, "__module__", f"torchvision.models.{kind}.tiny")
            monkeypatch.setitem(known, builder.__name__, builder)
    if not has_operators():
        monkeypatch.setattr(named, "has_operators", lambda: True)
        monkeypatch.setattr("torchvision.ops.boxes.nms", greedy_nms)
        for place in ("ops.poolers", "models.detection.roi_heads"):
            monkeypatch.setattr(f"torchvision.{place}.roi_align", sampled_rois)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def data(write_dataset, tmp_path_factory):
    """Two pictures, whose objects have two keypoints each, of which one is not always known."""
    dataset = write_dataset(tmp_path_factory.mktemp("data"), n=2)

    def pointed(label):
        x0, y0, x1, y1 = label.box_xyxy
        return replace(label, keypoints=(Keypoint("left", (x0, y0), 2),
                                         Keypoint("right", (x1 - 1, y1 - 1), int(x0 > 60))))  # fmt: skip

    samples = tuple(replace(s, objects=tuple(map(pointed, s.objects))) for s in dataset.samples)
    return replace(dataset, samples=samples)


def settings(name, **more):
    kinds = {"keypoints": "keypoint" in name, "masks": "mask" in name or tells_pixels(name)}
    return replace(CONFIG, architecture=name, **{k: True for k, on in kinds.items() if on}, **more)


def kill_at(step):
    def progress(line):
        if line.step == step:
            raise KilledError

    return progress


ALL = ("fcos_tiny", "maskrcnn_tiny", "keypointrcnn_tiny", "fcn_tiny")


@pytest.mark.parametrize("name", ALL)
def test_resumed_training_is_bit_identical(data, tmp_path, name):
    parts, config = ((data, 1.0),), settings(name, photometric=True)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    before = torch.get_rng_state()
    train_detector(parts, config, whole, line_steps=2)
    assert torch.equal(torch.get_rng_state(), before)
    with pytest.raises(KilledError):
        train_detector(parts, config, broken, line_steps=2, checkpoint_s=0, progress=kill_at(2))
    torch.rand(1)  # another process has drawn something else
    detector = train_detector(parts, config, broken, line_steps=2, resume=True)
    for file in ("weights.safetensors", "weights.json", "checkpoint.safetensors"):
        assert (whole / file).read_bytes() == (broken / file).read_bytes(), file
    assert detector.card.architecture == name
    assert {0.0} != set(read_metrics(broken)[-1].losses.values())


@pytest.mark.parametrize("name", ["fcos_tiny", "fcn_tiny", pytest.param("maskrcnn_tiny", marks=pytest.mark.slow), pytest.param("keypointrcnn_tiny", marks=pytest.mark.slow)])
def test_what_is_learned_is_found_again(data, tmp_path, name):
    one = replace(data, samples=data.samples[:1])
    config = settings(
        name, steps=80, learning_rate=3e-3, scale_range=(1.0, 1.0), quarter_turns=False, flips=False,
        ema_decay=0.9, weight_decay=0.0,
    )  # fmt: skip
    detector = train_detector(((one, 1.0),), config, tmp_path)
    lines = read_metrics(tmp_path)
    print([round(l.losses["total"], 2) for l in lines], lines[-1].losses, lines[-1].step_s)
    print([(d.box_xyxy, d.score) for d in predict_dataset(detector, one)["0"]])
    assert lines[-1].losses["total"] < 0.9 * lines[0].losses["total"]
    found = MatchedRun(one, predict_dataset(detector, one))
    assert found.scores(np.ones((1, 1), np.int64))["ap50"][0] > 0.9
    result = bench(load_detector(tmp_path / "weights.safetensors"), one)
    assert result.score.ap50.value > 0.9
    if detector.card.masks:
        assert result.segments.miou.value > 0.8
    trusted = measure_trust(
        tmp_path / "weights.safetensors", ((one, 1.0),), config, one, "held-out pictures"
    )
    assert trusted.card.novelty is None
    assert look(trusted, read_rgb(one.samples[0].rgb)).novelty is None
