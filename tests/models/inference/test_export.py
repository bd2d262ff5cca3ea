"""ONNX files of detectors and translators compute what their networks do."""

import json
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

import sim2cam.models
from sim2cam.adapt.export import export_translator
from sim2cam.adapt.reference.networks import ResnetGenerator, initialise_weights
from sim2cam.adapt.reference.translator import ReferenceTranslator
from sim2cam.adapt.transfers.reinhard import ReinhardTransfer
from sim2cam.adapt.translator.config import TranslatorConfig
from sim2cam.adapt.translator.translator import Translator, build_generator
from sim2cam.cli import main
from sim2cam.data.known_objects import ObjectGeometry
from sim2cam.errors import Sim2CamError, UsageError
from sim2cam.geometry.boxes import pairwise_iou
from sim2cam.images import read_rgb
from sim2cam.learn.onnx import write_onnx
from sim2cam.models.card import DetectorCard, OodThreshold
from sim2cam.models.inference import export
from sim2cam.models.inference.detector import (
    NativeDetector,
    detect_objects,
    load_detector,
    save_detector,
)
from sim2cam.models.inference.export import MAX_EXPORTED_DETECTIONS, export_detector
from sim2cam.models.network.detector import DetectorNetwork
from sim2cam.models.reliability.confidence import ScoreCalibration
from sim2cam.pipeline.recipe import RECIPES_FOLDER

onnx = pytest.importorskip("onnx", reason="the extra 'export' is not installed")
pytest.importorskip("onnxruntime", reason="the extra 'export' is not installed")
pytest.importorskip("onnxscript", reason="the extra 'export' is not installed")

WEIGHTS = Path(sim2cam.models.__file__).parent / "weights" / "dice.safetensors"
CPU = torch.device("cpu")


def run(path, **inputs):
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def test_weights_that_ship_are_exported_by_their_name(tmp_path):
    """As they are: with the confidence that they were calibrated to."""
    path = tmp_path / "dice.onnx"
    assert main(["export", "dice", "--format", "onnx", "--out", str(path), "-q"]) == 0
    finds_the_same(path, load_detector(WEIGHTS), standin_photo())
    card = {p.key: json.loads(p.value) for p in onnx.load(path).metadata_props}["card"]
    assert card["categories"] == list("123456")


@pytest.mark.slow
def test_an_exported_detector_takes_means_of_many_pixels(tmp_path):
    detector = load_detector(WEIGHTS)
    scaling = ScoreCalibration(0.5, dict.fromkeys("123456", 0.4))
    card = replace(detector.card, input_scale=0.4, score_calibration=scaling)
    detector = replace(detector, card=card)
    path = tmp_path / "dice.onnx"
    export_detector(detector, path)
    finds_the_same(path, detector, cv2.resize(standin_photo(), None, fx=3.75, fy=3.75))


def standin_photo():
    return read_rgb(RECIPES_FOLDER / "standin" / "test" / "049-a00e467d.jpg")[:200, :230]


def finds_the_same(path, detector, rgb):
    boxes, scores, labels = run(path, rgb=rgb[None])
    assert boxes.shape == (MAX_EXPORTED_DETECTIONS, 4)
    scale = detector.card.input_scale
    sure = [one for one in detect_objects(detector, rgb, input_scale=scale) if one.score > 0.4]
    places = np.array([one.box_xyxy for one in sure])
    near = np.tril(pairwise_iou(places, places), -1).max(axis=1)  # to a surer one
    wanted = [one for one, share in zip(sure, near, strict=True) if share < 0.5]  # no borderline
    assert wanted
    for one in wanted:
        overlap = pairwise_iou(np.array([one.box_xyxy]), boxes.astype(np.float64))[0]
        alike = [i for i in np.flatnonzero(overlap > 0.9) if scores[i] > 0]
        assert len(alike) == 1
        assert detector.card.categories[labels[alike[0]]] == one.category
        assert scores[alike[0]] == pytest.approx(one.score, abs=0.05)  # cv2 magnifies in bytes


FOUND = [
    np.array([[5, 5, 25, 35], [40, 40, 60, 60], [80, 10, 99, 30]], np.float32),
    np.array([0.9, 0.6, 0.004], np.float32),
    np.array([0, 1, 1]),
]


@pytest.mark.parametrize(
    ("fault", "lost"),
    [
        (lambda b, s, c: (b, s, c), ""),
        (lambda b, s, c: (b[::-1], s[::-1], c[::-1]), ""),  # order tells nothing
        (lambda b, s, c: (b + 0.1, s * 1.005, c), ""),
        (lambda b, s, c: (b, s * [1, 1, 0], c), ""),  # the unsure one went for rounding's sake
        (lambda b, s, c: (b + 1, s, c), "100.0%"),
        (lambda b, s, c: (b, s * 0.9, c), "100.0%"),
        (lambda b, s, c: (b, s, 1 - c), "100.0%"),
        (lambda b, s, c: (b, s * [1, 0, 1], c), "39.9%"),  # one of ours is missing,
        (
            lambda b, s, c: (b[[0, 1, 1]] + [[0], [0], [50]], s[[0, 1, 1]], c),
            "28.6%",
        ),  # one too many
        (lambda b, s, c: (b, s * np.nan, c), "100.0%"),
    ],
)
def test_detections_are_compared_whatever_their_order_by_how_sure_they_are(fault, lost):
    wanted = f"{lost} of the score sum has no matching detection" if lost else ""
    ours, theirs = (
        dict(zip(("boxes", "scores", "labels"), found, strict=True))
        for found in (FOUND, fault(*FOUND))
    )
    assert export._compare_detections(ours, theirs) == wanted


def test_a_box_goes_where_it_is_a_surer_ones():
    boxes = torch.tensor([[0, 0, 10, 10], [0, 0, 10, 9], [30, 0, 40, 10], [0, 1, 10, 9]]).float()
    assert export._find_duplicates(boxes).tolist() == [0.0, 1.0, 0.0, 1.0]


def test_what_computes_something_else_is_not_written(tmp_path):
    class Wandering(torch.nn.Module):
        """Is another function when it is run than when it is written."""

        def forward(self, x):
            return x + (0.0 if torch.compiler.is_compiling() else 5.0)

    with pytest.raises(
        Sim2CamError, match=r"ONNX Runtime and PyTorch disagree: y by 0.83. Nothing is"
    ):
        write_onnx(
            tmp_path / "w.onnx",
            Wandering(),
            {"x": torch.ones(2)},
            {"x": torch.ones(2)},
            {},
            ("y",),
            {},
        )
    assert not any(tmp_path.iterdir())


def test_an_exported_translator_takes_what_its_network_takes(tmp_path):
    buffers = ("depth", "objects")
    generator = build_generator(TranslatorConfig(width=4, blocks=1), buffers).eval()
    initialise_weights(generator, torch.Generator().manual_seed(0), xavier=True)
    path = tmp_path / "look.onnx"
    export_translator(Translator(generator, buffers, CPU), path)
    names = {one.name for one in onnx.load(path).graph.input}
    assert names == {"rgb", "noise", "thumbnail", "buffers"}


def test_an_exported_published_translator_translates_any_size(tmp_path):
    generator = ResnetGenerator(width=2, blocks=5, antialias=True).eval()
    initialise_weights(generator, torch.Generator().manual_seed(0), xavier=False)
    path = tmp_path / "look.onnx"
    export_translator(ReferenceTranslator(generator, CPU), path)
    picture = torch.rand(1, 3, 40, 72) * 2 - 1
    (found,) = run(path, rgb=picture.numpy())
    with torch.inference_mode():
        assert np.abs(found - generator(picture).numpy()).max() < 1e-4


def test_a_transfer_without_a_network_is_refused(tmp_path):
    rgb = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    with pytest.raises(UsageError) as error:
        export_translator(ReinhardTransfer.fit([rgb]), tmp_path / "look.onnx")
    assert str(error.value) == (
        "a parameter-free transfer has no network to export. Give a trained translator."
    )


def test_keypoints_and_masks_stay_out_of_the_graph_which_is_told(tmp_path, capsys):
    rng = torch.Generator().manual_seed(0)
    network = DetectorNetwork("nano", 2, rng, n_keypoints=3, masks=True).eval()
    with torch.no_grad():
        network.box_head[1].bias[0] = 4.0
    card = DetectorCard(
        "nano", ("a", "b"), 0, {}, (), keypoints={"a": ("x", "y", "z"), "b": ()}, masks=True,
        input_scale=0.4,
    )  # fmt: skip
    weights, path = tmp_path / "weights.safetensors", tmp_path / "found.onnx"
    save_detector(weights, network.state_dict(), card)
    assert main(["export", str(weights), "--format", "onnx", "--out", str(path), "--json"]) == 0
    told = capsys.readouterr()
    rest = "not in the graph, which returns boxes, scores and labels only; predict has it"
    assert json.loads(told.out)["omissions"] == [f"masks: {rest}", f"keypoints: {rest}"]
    assert f"masks: {rest}.\nkeypoints: {rest}." in told.err
    names = {one.name for one in onnx.load(path).graph.initializer}
    assert not any(
        name.startswith(("network.keypoint_head", "network.mask_head")) for name in names
    )
    rgb = np.random.default_rng(0).integers(0, 256, (96, 128, 3), np.uint8)
    detector = load_detector(weights)
    boxes, scores, _ = run(path, rgb=rgb[None])
    wanted = detect_objects(detector, rgb, input_scale=card.input_scale)
    assert wanted
    assert wanted[0].mask is not None
    overlap = pairwise_iou(
        np.array([one.box_xyxy for one in wanted[:10]]), boxes[scores > 0].astype(np.float64)
    )
    found = overlap.max(axis=1) > 0.9
    assert found[0]
    assert found.mean() >= 0.8  # a box goes for a surer one's sake, also where that one goes

    # the smallest images have fewer places than the graph returns detections
    smallest = np.random.default_rng(3).integers(0, 256, (64, 64, 3), np.uint8)
    boxes, scores, labels = run(path, rgb=smallest[None])
    assert boxes.shape == (MAX_EXPORTED_DETECTIONS, 4)
    first = detect_objects(detector, smallest, input_scale=card.input_scale)[
        :2
    ]  # of others, some go for a surer one's sake
    assert boxes[:2] == pytest.approx(np.array([one.box_xyxy for one in first]), abs=0.1)
    assert scores[:2] == pytest.approx([one.score for one in first], abs=1e-3)
    assert ["ab"[label] for label in labels[:2]] == [one.category for one in first]


def test_a_graph_of_all_that_a_detector_tells_lacks_nothing():
    card = DetectorCard("nano", ("a",), 0, {}, (), keypoints={"a": ()})
    assert export._list_missing_outputs(card) == ()
    known = ObjectGeometry(((-0.01, -0.01, -0.01), (0.01, 0.01, 0.01)))
    limit = OodThreshold(3.0, 0.05, 19, "held-out images", 160)
    more = export._list_missing_outputs(replace(card, objects={"a": known}, ood_threshold=limit))
    assert [words.split(":")[0] for words in more] == [
        "poses", "OOD score"
    ]  # fmt: skip


@pytest.mark.parametrize("reader", [True, False])
def test_surfaces_stay_out_of_the_graph_and_categories_are_read_where_they_are(reader):
    rng = torch.Generator().manual_seed(0)
    network = DetectorNetwork("nano", 2, rng, poses=True, roi_classifier=reader).eval()
    known = ObjectGeometry(((-0.01, -0.01, -0.01), (0.01, 0.01, 0.01)))
    card = DetectorCard(
        "nano", ("a", "b"), 0, {}, (), objects={"a": known, "b": known}, roi_classifier=reader
    )
    with torch.no_grad():
        network.box_head[1].bias[0] = 4.0
        network.class_head[1].bias[0] = 9.0  # the maps say the first, and the reader the second
        if reader:
            network.roi_network.class_head.bias[1] = 9.0
    graph = export.DetectorGraph(NativeDetector(network, card))
    assert not any(".surface_head." in name for name in graph.state_dict())
    assert network.roi_network.surface_head is not None
    noise = torch.randint(0, 256, (1, 64, 96, 3), dtype=torch.uint8, generator=rng)
    with torch.inference_mode():
        boxes, scores, labels = graph(noise)
    found = detect_objects(NativeDetector(network, card), noise[0].numpy())
    assert (scores > 0).any()
    assert set(labels[scores > 0].tolist()) == {int(reader)}
    assert {one.category for one in found} == {"ab"[int(reader)]}
    overlap = pairwise_iou(
        np.array([found[0].box_xyxy]), boxes[scores > 0].numpy().astype(np.float64)
    )
    assert overlap.max() > 0.9
