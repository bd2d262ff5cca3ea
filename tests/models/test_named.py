"""Models of torchvision by name; where its operators do not load, non-maximum suppression is stood in for."""

import numpy as np
import pytest
import torch

from sim2cam.dataset.sample import Dataset, ObjectLabel, Sample
from sim2cam.errors import BackendError, UsageError
from sim2cam.geometry.boxes import pairwise_iou
from sim2cam.geometry.masks import RunLengths
from sim2cam.images import encode_png, write_bytes
from sim2cam.measure.segments import evaluate_segments
from sim2cam.models import named
from sim2cam.models.compat import has_operators
from sim2cam.models.named import find_objects, find_pixels, named_model
from sim2cam.pipeline.bench import score_predictions
from sim2cam.training.detection_set import DetectionSet, collate

SSD = "ssdlite320_mobilenet_v3_large"
SEGMENTS = "lraspp_mobilenet_v3_large"


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def squares(tmp_path_factory):
    """Two pictures of one bright square each."""
    root, samples = tmp_path_factory.mktemp("squares"), []
    for number, (x, y) in enumerate(((8, 8), (40, 24))):
        rgb = np.zeros((64, 96, 3), np.uint8)
        rgb[y : y + 32, x : x + 32] = 255
        write_bytes(root / f"{number}.png", encode_png(rgb))
        label = ObjectLabel(
            "square", (x, y, x + 32, y + 32), 1024.0, mask=RunLengths.of(rgb[..., 0] > 0)
        )
        samples.append(Sample(f"{number}", root / f"{number}.png", 96, 64, (label,), "sim"))
    return Dataset(root, ("disc", "square"), tuple(samples))


def greedy_nms(boxes, scores, iou_threshold):
    kept = []
    overlap = pairwise_iou(boxes.double().numpy(), boxes.double().numpy()) > iou_threshold
    for index in scores.argsort(descending=True).tolist():
        if not overlap[index, kept].any():
            kept.append(index)
    return torch.tensor(kept, dtype=torch.int64)


@pytest.fixture
def operators(monkeypatch):
    """Non-maximum suppression as torchvision has it, where its own does not load."""
    if not has_operators():
        monkeypatch.setattr(named, "has_operators", lambda: True)
        monkeypatch.setattr("torchvision.ops.boxes.nms", greedy_nms)


def test_a_detector_learns_from_our_data_and_is_scored_as_any_other(squares, operators):
    model = named_model(SSD, squares.categories, generator())
    pictures, targets = collate([DetectionSet(squares)[i] for i in range(2)])
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    losses = []
    for _ in range(3):
        total = sum(model(pictures, targets).values())
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        losses.append(total.item())
    assert losses[-1] < losses[0]
    found = find_objects(model, squares.categories, squares)
    assert list(found) == ["0", "1"]
    assert {d.category for of in found.values() for d in of} <= set(squares.categories)
    assert any(found.values())
    assert 0 <= score_predictions(squares, found).score.ap.value <= 1


def test_what_a_model_says_is_read_as_torchvision_means_it(squares):
    class Said(torch.nn.Linear):
        def forward(self, pictures):
            (picture,) = pictures
            assert (picture.shape, float(picture.max())) == ((3, 64, 96), 1.0)
            x, y = 8.0 + 32 * bool(picture[0, 40, 60]), 8.0 + 16 * bool(picture[0, 40, 60])
            return [
                {
                    "boxes": torch.tensor([[x, y, x + 32, y + 32], [0, 0, 4, 4.0]]),
                    "labels": torch.tensor([2, 1]),
                    "scores": torch.tensor([0.75, 0.25]),
                    "masks": torch.stack([picture[:1], 0 * picture[:1]]),
                }
            ]

    found = find_objects(Said(1, 1), squares.categories, squares)
    first, second = found["1"]
    assert (first.category, first.box_xyxy, first.score) == ("square", (40, 24, 72, 56), 0.75)
    assert (second.category, second.mask.mask().any()) == ("disc", False)
    scores = score_predictions(squares, found)
    assert (scores.score.ap.value, scores.masks.ap.value) == (pytest.approx(1), pytest.approx(1))


def test_pixels_are_scored_as_those_of_our_masks(squares):
    model = named_model(SEGMENTS, squares.categories, generator())
    found = find_pixels(model, squares.categories, squares)
    assert list(found["0"]) == ["disc", "square"]
    assert found["0"]["square"].size == (64, 96)

    class Said(torch.nn.Linear):
        def forward(self, pictures):
            bright = pictures[:, 0]
            return {"out": torch.stack([1 - bright, 0 * bright, bright], 1)}

    right = find_pixels(Said(1, 1), squares.categories, squares)
    masks = {s.name: [o.mask for o in s.objects] for s in squares.samples}
    score = evaluate_segments(squares, right, masks, rng=np.random.default_rng(0), draws=5)
    assert score.miou.value == 1


def test_weights_come_from_the_generator_alone(squares):
    state = torch.get_rng_state()
    one, same, other = (
        named_model(SEGMENTS, squares.categories, generator(seed)).state_dict()
        for seed in (1, 1, 2)
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)


def test_what_cannot_be_made_is_refused(monkeypatch):
    with pytest.raises(UsageError) as caught:
        named_model("fcos_resnet51_fpn", ("a",), generator())
    assert str(caught.value).startswith(
        "model 'fcos_resnet51_fpn' is not known. Did you mean 'fcos_resnet50_fpn'? Allowed: deeplab"
    )
    with pytest.raises(UsageError):
        named_model("keypointrcnn_resnet50_fpn", ("a",), generator())
    monkeypatch.setattr(named, "has_operators", lambda: False)
    with pytest.raises(BackendError) as caught:
        named_model(SSD, ("a",), generator())
    assert str(caught.value) == (
        f"{SSD} needs torchvision's compiled operators, which do not load beside torch "
        f"{torch.__version__}. Take both from one index, in a new environment: make setup TORCH_INDEX=URL"
    )
