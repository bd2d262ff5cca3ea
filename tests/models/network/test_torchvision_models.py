"""Models of torchvision by name, of which small ones are added to its list; where its operators do not load,
they are stood in for.
"""

import itertools
from dataclasses import replace
from types import SimpleNamespace
from urllib.error import URLError

import cv2
import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional

from sim2cam.data.sample import Keypoint
from sim2cam.errors import BackendError, CheckpointError, UsageError
from sim2cam.experiments.benchmark import bench, bench_unlabelled
from sim2cam.geometry.boxes import pairwise_iou
from sim2cam.images import read_rgb
from sim2cam.models.augment.crops import CropConfig, sample_crop
from sim2cam.models.card import DetectorCard
from sim2cam.models.compat import detection, has_operators, segmentation
from sim2cam.models.inference.detector import load_detector, predict_image, require_native_detector
from sim2cam.models.inference.torchvision_detector import TorchvisionDetector
from sim2cam.models.network import torchvision_models
from sim2cam.models.network.pretrained import load_pretrained, read_pretrained
from sim2cam.models.network.torchvision_models import (
    build_torchvision_model,
    is_segmentation_architecture,
    list_torchvision_architectures,
)
from sim2cam.models.network.torchvision_network import (
    TorchvisionObjectNetwork,
    TorchvisionSegmentationNetwork,
    build_torchvision_network,
    find_ignored_pixels,
    make_torchvision_target,
    seed_global_rng,
)
from sim2cam.models.reliability.measurement import measure_reliability
from sim2cam.models.training.config import AdaptationConfig, FineTuning, TrainConfig
from sim2cam.models.training.images import Tasks, read_annotated_image
from sim2cam.models.training.setup import AuxiliaryData
from sim2cam.models.training.training import read_metrics, train_detector
from tests.support.interruption import assert_resumes_exactly

SSD, PIXELS = "ssdlite320_mobilenet_v3_large", "lraspp_mobilenet_v3_large"
CONFIG = TrainConfig(
    steps=4, batch=2, crop_px=64, warmup_steps=2, photometric=False, rotate_any=False
)


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
        monkeypatch.setattr(torchvision_models, "has_operators", lambda: True)
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
    kinds = {
        "keypoints": "keypoint" in name,
        "masks": "mask" in name or is_segmentation_architecture(name),
    }
    return replace(CONFIG, architecture=name, **{k: True for k, on in kinds.items() if on}, **more)


ALL = ("fcos_tiny", "maskrcnn_tiny", "keypointrcnn_tiny", "fcn_tiny")


@pytest.mark.parametrize("name", ALL)
def test_resumed_training_is_bit_identical(data, tmp_path, name):
    parts, config = ((data, 1.0),), settings(name, photometric=True)

    def train(run, **options):
        torch.rand(int(options.get("resume", False)))  # another process has drawn something else
        before = torch.get_rng_state()
        detector = train_detector(parts, config, run, log_interval_steps=2, **options)
        assert torch.equal(torch.get_rng_state(), before)
        return detector

    detector = assert_resumes_exactly(train, tmp_path)
    assert detector.card.architecture == name
    assert {0.0} != set(read_metrics(tmp_path / "cut")[-1].losses.values())


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("name", "steps"),
    [("fcn_tiny", 80), slow("fcos_tiny", 150), slow("maskrcnn_tiny", 200), slow("keypointrcnn_tiny", 200)],
)  # fmt: skip
def test_what_is_learned_is_found_again(data, tmp_path, name, steps):
    one = replace(data, samples=data.samples[:1])
    # FCOS normalizes over all that it sees, so its crops have to be about as the picture is
    config = settings(
        name, crop_px=128 if name == "fcos_tiny" else 64, steps=steps, learning_rate=3e-3, scale_range=(1.0, 1.0), rotate_90=False, flips=False,
        ema_decay=0.9, weight_decay=0.0,
    )  # fmt: skip
    detector = train_detector(((one, 1.0),), config, tmp_path)
    lines, weights = read_metrics(tmp_path), tmp_path / "weights.safetensors"
    assert lines[-1].losses["total"] < 0.8 * lines[0].losses["total"]
    rgb = read_rgb(one.samples[0].rgb)
    found, again = predict_image(detector, rgb), predict_image(load_detector(weights), rgb)
    assert [d.category for d in found.detections] == [d.category for d in again.detections]
    result = bench(detector, one)
    assert result.score.ap50.value > 0.9
    if name == "fcn_tiny":
        assert result.segments.miou.value > 0.7
    if detector.card.masks:
        assert result.masks.ap50.value > 0.9
    if detector.card.keypoints:
        assert result.keypoints.ap50.value > 0.9
    trusted = measure_reliability(weights, ((one, 1.0),), config, one, "held-out images")
    assert (trusted.card.ood_threshold, predict_image(trusted, rgb).ood_score) == (None, None)


def test_weights_are_gone_on_from_and_development_captures_end_it(data, tmp_path):
    parts, config = ((data, 1.0),), settings("fcn_tiny")
    train_detector(parts, config, tmp_path / "first")
    aids = AuxiliaryData(
        initial_weights=tmp_path / "first" / "weights.safetensors", validation_set=data
    )
    tuned = train_detector(
        parts, replace(config, patience=2, steps=2), tmp_path / "tuned", auxiliary_data=aids
    )
    assert tuned.card.initial_weights.name == "weights.safetensors"
    assert tuned.card.config["fine_tuning"]["layer_decay"] == 0.7
    assert [step for step, _ in tuned.card.evaluations] == [1, 2]


@pytest.mark.parametrize("name", ["maskrcnn_tiny", "keypointrcnn_tiny", "fcn_tiny"])
def test_crops_without_objects_are_learned_from(name):
    network = build_torchvision_network(name, 2, generator(), n_keypoints=2, crop_px=64)
    segments = SimpleNamespace(
        object_indices=np.full((64, 64), -1), semantic=np.zeros((64, 64), np.int64)
    )
    keypoints = SimpleNamespace(points_xy=np.zeros((0, 2, 2)))
    crop = SimpleNamespace(
        rgb=np.zeros((64, 64, 3), np.uint8), boxes_xyxy=np.zeros((0, 4)), ignored_boxes_xyxy=np.zeros((0, 4)),
        categories=np.zeros(0, np.int64), keypoints=keypoints, segmentation=segments,
    )  # fmt: skip
    losses = network.losses(torch.zeros(2, 3, 64, 64), [crop, crop])
    sum(losses.values()).backward()
    assert all(torch.isfinite(value) for value in losses.values())
    unknown = replace_shown(crop, -1)
    if name == "fcn_tiny":
        assert network.losses(torch.zeros(2, 3, 64, 64), [unknown, unknown])["semantic"] == 0


def test_objects_without_a_mask_teach_their_box_alone():
    network = build_torchvision_network("maskrcnn_tiny", 2, generator(), n_keypoints=0, crop_px=64)

    def crop(*numbers):
        """Two objects, of which these have a mask."""
        boxes = np.array([[4.0, 4, 30, 30], [34, 34, 60, 60]])
        owners = np.full((64, 64), -1)
        for number in numbers:
            x0, y0, x1, y1 = boxes[number].astype(int)
            owners[y0 + 4 : y1 - 4, x0 + 4 : x1 - 4] = number
        return SimpleNamespace(
            rgb=np.zeros((64, 64, 3), np.uint8), boxes_xyxy=boxes, ignored_boxes_xyxy=np.zeros((0, 4)),
            categories=np.array([0, 1]), keypoints=None, segmentation=SimpleNamespace(object_indices=owners),
        )  # fmt: skip

    def losses(*crops):
        network.zero_grad()
        with seed_global_rng(0, torch.device("cpu")):
            found = network.losses(torch.full((len(crops), 3, 64, 64), 99.0), crops)
        sum(found.values()).backward()
        weights = dict(network.named_parameters())
        return found, {
            name for name, one in weights.items() if one.grad is not None and one.grad.any()
        }

    with_masks, taught = losses(crop(0, 1))
    masks = {name for name in taught if ".mask_" in name}
    assert masks
    boxes_only, taught = losses(crop())
    assert boxes_only["loss_mask"] == 0
    assert not masks & taught
    assert any(".box_predictor" in name for name in taught)
    assert boxes_only["loss_box_reg"] == with_masks["loss_box_reg"]
    half, taught = losses(crop(0))
    assert half["loss_mask"] > 0
    assert masks <= taught
    assert losses(crop(0), crop())[0]["loss_mask"] > 0


def replace_shown(crop, value):
    segments = SimpleNamespace(semantic=np.full((64, 64), value))
    return SimpleNamespace(**vars(crop) | {"segmentation": segments})


def test_targets_are_the_labels_of_the_crop(data):
    tasks = Tasks(masks=True, keypoints=dict.fromkeys(data.categories, ("left", "right")))
    pictures = [read_annotated_image(sample, data.categories, tasks) for sample in data.samples]
    rules = CropConfig(
        crop_px=96, scale_range=(1.0, 1.0), rotate_any=False, min_visible=0.5, cell_px=1
    )
    rng, unknown, masks = np.random.default_rng(0), 0, 0
    for number in range(24):
        crop = sample_crop(pictures[number % 2], rules, rng)
        target = make_torchvision_target(crop)
        assert target["labels"].tolist() == (crop.categories + 1).tolist()
        assert target["masks"].shape == (len(crop.boxes_xyxy), 96, 96)
        for box, mask in zip(crop.boxes_xyxy, target["masks"].numpy(), strict=True):
            rows, columns = np.nonzero(mask)
            around = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
            assert around == pytest.approx(box, abs=1.01)
            masks += 1
        places = target["keypoints"].numpy()
        assert (places[..., 2] == np.isfinite(crop.keypoints.points_xy[..., 0])).all()
        unknown += (places[..., 2] == 0).sum()
        hidden = find_ignored_pixels(crop)
        for x0, y0, x1, y1 in crop.boxes_xyxy.astype(int):
            assert not hidden[y0:y1, x0:x1].any()
        assert hidden.any() == any(
            pairwise_iou(crop.ignored_boxes_xyxy, crop.boxes_xyxy).max(1, initial=0) < 1
        )
    assert masks > 10
    assert unknown > 0


def test_what_is_not_known_is_painted_over(data):
    crop = SimpleNamespace(
        rgb=np.zeros((64, 64, 3)), boxes_xyxy=np.array([[10.0, 10, 30, 30]]),
        ignored_boxes_xyxy=np.array([[20.2, 20.2, 50, 49.5]]), categories=np.array([1]), keypoints=None,
        segmentation=None,
    )  # fmt: skip
    seen = []

    class Model(nn.Module):
        transform = SimpleNamespace(fixed_size=None)

        def forward(self, images, targets):
            seen.extend(images)
            return {"loss": images[0].sum()}

    TorchvisionObjectNetwork(Model(), 64).losses(torch.zeros(1, 3, 64, 64), [crop])
    painted = seen[0][0].numpy() > 0
    assert painted.sum() == 30 * 30 - 10 * 10
    assert painted[49, 49]
    assert not painted[29, 29]


class Bright(nn.Module):
    """Finds what is bright, as torchvision's models say it."""

    def __init__(self, side=None):
        super().__init__()
        self.transform = SimpleNamespace(fixed_size=side)
        self.weight = nn.Parameter(torch.zeros(1))
        self.seen = []

    def forward(self, images):
        (image,) = images
        self.seen.append(tuple(image.shape[1:]))
        _, regions, facts, _ = cv2.connectedComponentsWithStats(
            (image[0].numpy() > 0.7) * np.uint8(1)
        )
        x, y, width, height, _ = facts[1:].T
        boxes = torch.tensor(np.stack([x, y, x + width, y + height], 1)).float()
        masks = [regions == number for number in range(1, len(facts))]
        return [{
            "boxes": boxes, "labels": torch.ones(len(boxes), dtype=torch.int64),
            "scores": torch.full((len(boxes),), 0.75), "keypoints": boxes.reshape(-1, 2, 2),
            "masks": torch.tensor(np.array(masks).reshape(-1, 1, *regions.shape)).float(),
        }]  # fmt: skip


@pytest.fixture
def bright():
    """A picture of three bright rectangles far from one another, one at the border of tiles; their boxes."""
    boxes = [(60, 70, 90, 96), (750, 500, 790, 530), (1100, 740, 1130, 760)]
    rgb = np.zeros((800, 1200, 3), np.uint8)
    for x0, y0, x1, y1 in boxes:
        rgb[y0:y1, x0:x1] = 255
    return rgb, boxes


def card_of(name, **more):
    keypoints = {"thing": ("left", "right")}
    return DetectorCard(name, ("thing",), 0, {"crop_px": 128}, (), keypoints=keypoints, **more)


@pytest.mark.parametrize("side", [None, (320, 320)])
@pytest.mark.parametrize("input_scale", [1.0, 0.5])
def test_what_is_found_in_tiles_is_told_once_in_pixels_of_the_picture(bright, side, input_scale):
    rgb, boxes = bright
    model = Bright(side)
    card = card_of("maskrcnn_tiny", masks=True, input_scale=input_scale)
    seen = predict_image(TorchvisionDetector(TorchvisionObjectNetwork(model, 128), card), rgb)
    found = sorted(seen.detections, key=lambda one: one.box_xyxy)
    assert len(found) == 3
    for one, box in zip(found, boxes, strict=True):
        assert one.box_xyxy == pytest.approx(box, abs=1e-4)
        left, right = one.keypoints
        assert left.xy == pytest.approx(np.array(box[:2]) - 0.5, abs=1e-4)
        assert right.name == "right"
        x0, y0, x1, y1 = box
        mask = one.mask.decode()
        assert mask[y0:y1, x0:x1].all()
        assert mask.sum() == (x1 - x0) * (y1 - y0)
    assert seen.category_masks["thing"].decode().sum() == (rgb[..., 0] > 0).sum()
    sizes = {(128, 128)} if side else {(800, 896)} if input_scale == 1 else {(400, 600)}
    assert sizes <= set(model.seen)
    assert not predict_image(
        TorchvisionDetector(TorchvisionObjectNetwork(model, 128), card), rgb, score_floor=0.8
    ).detections


@pytest.mark.parametrize("input_scale", [1.0, 0.5])
def test_pixels_that_hang_together_are_one_object(bright, input_scale):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(1))

        def forward(self, image):
            return {"out": torch.cat([-image[:, :1], image[:, :1]], 1)}

    rgb, boxes = bright
    rgb[5:8, 5:8] = 255  # too small
    card = card_of("fcn_tiny", masks=True, input_scale=input_scale, box_size_range_px=(10.0, 20.0))
    seen = predict_image(TorchvisionDetector(TorchvisionSegmentationNetwork(Model()), card), rgb)
    assert sorted(one.box_xyxy for one in seen.detections) == boxes
    assert seen.detections[0].score == pytest.approx(1 / (1 + np.exp(-2 * (255 - 123.7) / 58.4)))
    assert [one.mask.decode().sum() for one in seen.detections] == [
        int((x1 - x0) * (y1 - y0)) for x0, y0, x1, y1 in (one.box_xyxy for one in seen.detections)
    ]
    assert seen.category_masks["thing"].decode().sum() == pytest.approx(
        (rgb[..., 0] > 0).sum(), abs=12
    )


def test_every_model_of_torchvision_is_known():
    assert {
        SSD,
        PIXELS,
        "fcos_resnet50_fpn",
        "keypointrcnn_resnet50_fpn",
        "fcn_tiny",
    } <= list_torchvision_architectures()


@pytest.mark.parametrize("name", [PIXELS, slow(SSD), slow("fasterrcnn_mobilenet_v3_large_320_fpn"), slow("fcos_resnet50_fpn"),
                                  slow("retinanet_resnet50_fpn_v2"), slow("maskrcnn_resnet50_fpn"), slow("ssd300_vgg16"),
                                  slow("keypointrcnn_resnet50_fpn"), slow("deeplabv3_mobilenet_v3_large"),
                                  slow("fcn_resnet50")])  # fmt: skip
def test_models_of_torchvision_train_and_look(data, tmp_path, name):
    detector = train_detector(
        ((data, 1.0),), settings(name, steps=1), tmp_path, checkpoint_interval_s=1e9
    )
    seen = predict_image(
        load_detector(tmp_path / "weights.safetensors"), read_rgb(data.samples[0].rgb)
    )
    assert (seen.category_masks is not None) == detector.card.masks
    for one in seen.detections:
        x0, y0, x1, y1 = one.box_xyxy
        assert 0 <= x0 < x1 <= 160
        assert 0 <= y0 < y1 <= 128


def begun(tmp_path, data, name, **values):
    run = tmp_path / f"run {len([*tmp_path.iterdir()])}"
    config = settings(name, steps=1, learning_rate=1e-12, weight_decay=0.0, **values)
    train_detector(((data, 1.0),), config, run, checkpoint_interval_s=1e9)
    return load_detector(run / "weights.safetensors").network.model.state_dict()


@pytest.mark.parametrize("whole", [True, False])
def test_a_training_begins_with_pretrained_weights(data, tmp_path, whole):
    other = build_torchvision_model("fcn_tiny", 90, generator(5))  # of other categories
    source = other if whole else other.backbone
    save_file(source.state_dict(), tmp_path / "tiny.safetensors")
    found = begun(tmp_path, data, "fcn_tiny", pretrained=str(tmp_path / "tiny.safetensors"))
    wanted = other.state_dict()
    weights = [n for n in wanted if n.startswith("backbone.") and n.endswith(".weight")]
    assert weights
    for name in weights:
        assert torch.allclose(found[name], wanted[name], atol=1e-3), name
    scratch = begun(tmp_path, data, "fcn_tiny")
    assert not torch.allclose(scratch["backbone.0.weight"], wanted["backbone.0.weight"], atol=1e-3)
    head = "classifier.4.weight"
    assert found[head].shape == scratch[head].shape != wanted[head].shape
    assert torch.equal(found[head], scratch[head])
    taken = torch.allclose(found["classifier.0.weight"], wanted["classifier.0.weight"], atol=1e-3)
    assert taken == whole


def test_pretrained_weights_that_do_not_fit_are_refused(tmp_path):
    model, path = build_torchvision_model("fcn_tiny", 2, generator()), tmp_path / "w.safetensors"
    with pytest.raises(
        CheckpointError, match=r"w\.safetensors: file does not exist\. Check the path"
    ):
        load_pretrained(model, read_pretrained(str(path)))
    path.write_bytes(b"nothing")
    with pytest.raises(CheckpointError, match="not a complete safetensors file"):
        load_pretrained(model, read_pretrained(str(path)))
    save_file({"backbone.0.weight": torch.zeros(16, 3, 3, 3)}, path)
    with pytest.raises(
        CheckpointError, match="too few layers of the architecture's backbone match"
    ):
        load_pretrained(model, read_pretrained(str(path)))


def test_without_a_network_the_file_to_download_is_told(monkeypatch, tmp_path):
    def refuse(*_, **__):
        raise URLError("no route to host")

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr("torch.hub.urlopen", refuse)
    with pytest.raises(BackendError) as caught:
        read_pretrained("ResNet50_Weights.IMAGENET1K_V2")
    assert str(caught.value) == (
        "pretrained ResNet50_Weights.IMAGENET1K_V2 cannot be downloaded (<urlopen error no route to host>). Download "
        "https://download.pytorch.org/models/resnet50-11ad3fa6.pth on a machine with network access, and copy it to "
        f"{tmp_path}/hub/checkpoints."
    )


def test_weights_come_from_the_generator_alone():
    state = torch.get_rng_state()
    one, same, other = (
        build_torchvision_model("fcn_tiny", 2, generator(seed)).state_dict() for seed in (1, 1, 2)
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"architecture": "fcos_resnet51_fpn"},
         "architecture 'fcos_resnet51_fpn' is not known. Did you mean 'fcos_resnet50_fpn'? Allowed: base, deeplab"),
        ({"poses": True, "flips": False}, "poses is not supported by fcos_resnet50_fpn: torchvision models have no "
         "head for surface points. Remove it, or use one of sim2cam's architectures."),
        ({"roi_classifier": True}, "roi_classifier is not supported by fcos_resnet50_fpn: torchvision models do not use RoI crops. R"),
        ({"min_category_visible": 0.8}, "min_category_visible is not supported by fcos_resnet50_fpn: torchvision models cannot learn boxes without"),
        ({"adapt": AdaptationConfig("coral")}, "adapt is not supported by fcos_resnet50_fpn: torchvision models have no feature maps"),
        ({"fine_tuning": FineTuning(residual=True)}, "fine_tuning.residual is not supported by fcos_resnet50_fpn: "),
        ({"masks": True}, "fcos_resnet50_fpn learns no masks. Set masks = false in the recipe's [train], or use"),
        ({"architecture": PIXELS}, f"{PIXELS} learns masks. Set masks = true in the recipe's [train], or use "
         "another architecture"),
        ({"architecture": "keypointrcnn_resnet50_fpn"}, "keypointrcnn_resnet50_fpn learns keypoints. Set key"),
        ({"pretrained": "COCO_V1"}, "pretrained 'COCO_V1' is not known. Give auto, a .safetensors file, "),
        ({"architecture": "nano", "pretrained": "COCO_V1"}, "pretrained 'COCO_V1' is not known. Give auto, a .safetensors file, "),
        ({"batch": 1}, "fcos_resnet50_fpn uses batch normalization: batch must be 2 or more, not 1"),
    ],
)  # fmt: skip
def test_what_they_cannot_learn_is_refused(values, message):
    with pytest.raises(UsageError) as caught:
        TrainConfig(**{"architecture": "fcos_resnet50_fpn"} | values)
    assert str(caught.value).startswith(message)


def test_what_their_detectors_cannot_do_is_refused(data):
    detector = TorchvisionDetector(
        TorchvisionObjectNetwork(Bright(), 128), card_of("maskrcnn_tiny")
    )
    with pytest.raises(
        UsageError, match=r"^scores without labels is not supported by maskrcnn_tiny: torch"
    ):
        bench_unlabelled(detector, data)
    with pytest.raises(UsageError) as caught:
        require_native_detector(detector, "--format onnx")
    assert str(caught.value) == (
        "--format onnx is not supported by maskrcnn_tiny: torchvision models have no verified ONNX graph. Remove "
        "it, or use one of sim2cam's architectures."
    )


def test_missing_operators_are_told_before_anything_is_read(monkeypatch, tmp_path):
    monkeypatch.setattr(torchvision_models, "has_operators", lambda: False)
    with pytest.raises(BackendError) as caught:
        train_detector((), settings("maskrcnn_resnet50_fpn"), tmp_path)
    assert str(caught.value).startswith(
        "maskrcnn_resnet50_fpn needs torchvision's compiled operators nms and roi_align, which do not load with "
        f"torch {torch.__version__}. Install both packages from one index in a new environment (make setup "
        "TORCH_INDEX=URL), or use one of sim2cam's architectures or deeplabv3_mobilenet_v3_large, "
    )
    for name in ("nano", PIXELS):
        torchvision_models.check_operators(name)


def test_a_card_without_the_side_of_crops_is_refused(data, tmp_path):
    train_detector(((data, 1.0),), settings("fcn_tiny", steps=1), tmp_path)
    card = tmp_path / "weights.json"
    card.write_text(card.read_text().replace('"crop_px": 64', '"crop_px": null'))
    with pytest.raises(CheckpointError) as caught:
        load_detector(tmp_path / "weights.safetensors")
    assert str(caught.value) == (
        f"{card}: config.crop_px must be the side of the training crops, not None. Copy both files again."
    )
