"""Reliability: train measures it, bench reports it, and predict abstains."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from sim2cam import images
from sim2cam.cli import main
from sim2cam.commands.train import Train
from sim2cam.data.real_images import read_real_images
from sim2cam.data.set_operations import hold_out
from sim2cam.files import write_bytes
from sim2cam.models.card import DetectorCard
from sim2cam.models.inference.detector import load_detector, save_detector
from sim2cam.models.network.detector import DetectorNetwork
from sim2cam.models.reliability import measurement
from sim2cam.models.reliability.domain_shift import DomainShift
from sim2cam.models.reliability.object_sizes import compute_box_size_range
from sim2cam.models.training import training, tuning
from sim2cam.models.training.config import TrainConfig

RECIPE = """
base = "dice"
[train]
steps = 2
batch = 2
crop_px = 64
roi_classifier = false
"""


@pytest.fixture(scope="module")
def train(sim, tmp_path_factory):
    """Return a function that trains on renders for two steps and returns the card."""
    recipe = tmp_path_factory.mktemp("recipe") / "tiny.toml"
    recipe.write_text(RECIPE)

    def run(out, *more):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(measurement, "REFERENCE_CROPS", 32)
            flags = ["--data", sim.root, "--out", out, "--workers", "1", *more]
            assert main(["train", str(recipe), *map(str, flags)]) == 0
        return load_detector(out / "weights.safetensors").card

    return run


@pytest.fixture(scope="module")
def weights(sim, bare_weights, tmp_path_factory):
    """Return the shipped weights with a card as if trained on four upscaled renders."""
    shipped = load_detector(bare_weights)
    path = tmp_path_factory.mktemp("trusted") / "weights.safetensors"
    config = TrainConfig(crop_px=64, scale_range=(3.2, 5.0))  # the detector misses dice of 8 px
    parts, held = hold_out([sim], 0.85)
    trained = ((parts[0], 1.0),)
    card = replace(
        shipped.card,
        input_scale=4.0,
        box_size_range_px=compute_box_size_range(trained, config),
        config=shipped.card.config | {"scale_range": config.scale_range},
    )
    save_detector(path, shipped.network.state_dict(), card)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measurement, "REFERENCE_CROPS", 64)
        measurement.measure_reliability(path, trained, config, held, "held-out images")
    return path


@pytest.fixture
def noise(tmp_path):
    rgb = np.random.default_rng(0).integers(0, 256, (80, 96, 3), dtype=np.uint8)
    write_bytes(tmp_path / "noise.png", images.encode_png(rgb))
    return tmp_path / "noise.png"


def limit(weights):
    return json.loads(weights.with_suffix(".json").read_text())["ood_threshold"]


def with_card(weights, folder, **changes):
    """Copy the weights with changes of the card."""
    copy = folder / "weights.safetensors"
    copy.write_bytes(weights.read_bytes())
    card = json.loads(weights.with_suffix(".json").read_text()) | changes
    copy.with_suffix(".json").write_text(json.dumps(card))
    return copy


def test_held_out_scenes_set_the_threshold(train, tmp_path):
    card = train(tmp_path / "run", "--held-out", "0.85")
    assert card.data[0].images == 4  # of 24: two of 12 scenes, each in two views
    assert card.ood_threshold.images == 20
    assert card.ood_threshold.measured_on == "held-out images"
    assert card.ood_threshold.tile_px == card.config["crop_px"]


def test_seeds_hold_out_the_same_scenes(train, tmp_path):
    first = train(tmp_path / "first", "--held-out", "0.85", "--seed", "1")
    flags = ["--seed", "2", "--from", tmp_path / "first/weights.safetensors"]
    later = train(tmp_path / "later", "--held-out", "0.85", *flags)
    assert len(first.image_digests) == 4
    assert first.image_digests == later.image_digests


def test_few_images_are_all_trained_on(train, tmp_path, capsys):
    card = train(tmp_path / "run")
    assert card.data[0].images == 24
    assert card.ood_threshold is None
    few = "requires 19 held-out images, but --held-out 0.05 gives 0. All images are used for training."
    assert few in capsys.readouterr().err


@pytest.fixture
def retaken(coco, tmp_path):
    """Return real images with the content of the renders in other colours."""
    path = tmp_path / "retaken" / coco.name
    shutil.copytree(coco.parent, path.parent)
    for sample in read_real_images(path).samples:
        write_bytes(sample.rgb, images.encode_jpeg(255 - images.read_rgb(sample.rgb), 90))
    return path


def test_development_images_replace_held_out_images(train, retaken, tmp_path, capsys):
    card = train(tmp_path / "run", "--validation", retaken, "--held-out", "0.85")
    assert card.data[0].images == 24
    assert (card.ood_threshold.measured_on, card.ood_threshold.images) == ("validation images", 24)
    assert "are not calibrated" not in capsys.readouterr().err


def test_training_uses_requested_device(sim, retaken, tmp_path, monkeypatch):
    devices = []
    steps = {
        training: "train_from_setup",
        tuning: "tune_weights",
        measurement: "measure_reliability",
    }
    for module, name in steps.items():
        monkeypatch.setattr(module, name, lambda *_, device, **__: devices.append(device))
    monkeypatch.setattr(Train, "_compare_objects", lambda *_: DomainShift())
    flags = ["--validation", str(retaken), "--out", str(tmp_path / "run"), "--device", "cuda:1"]
    assert main(["train", "dice", "--data", str(sim.root), *flags]) == 0
    assert devices == ["cuda:1"] * 3


def test_development_images_in_training_are_refused(sim, coco, tmp_path, cli):
    first = read_real_images(coco).samples[0].name
    out = tmp_path / "run"
    flags = ["--data", str(sim.root), "--validation", str(coco), "--out", str(out)]
    said = cli("train", "dice", *flags, code=1).err
    assert f"image {first} is a training image too, as {sim.samples[0].name}. " in said
    assert not out.exists()


def test_bench_warns_of_training_images(train, sim, retaken, tmp_path, capsys):
    card = train(tmp_path / "run", "--held-out", "0")
    assert len(card.image_digests) == 24
    weights, warned = str(tmp_path / "run/weights.safetensors"), []
    exported = tmp_path / "exported"
    assert main(["export", str(sim.root), "--out", str(exported)]) == 0
    for captures in (sim.root, exported, retaken):
        assert main(["bench", weights, "--captures", str(captures), "--workers", "1"]) == 0
        warned.append("the detector was trained on some of these images" in capsys.readouterr().err)
    assert warned == [True, True, False]


def test_bench_reports_calibration_ood_rate_and_sizes(weights, coco, tmp_path, cli):
    out = tmp_path / "bench.json"
    flags = ["--captures", str(coco), "--workers", "1"]
    told, kept = cli.json("bench", weights, *flags, "--out", out), json.loads(out.read_text())
    found = told["reliability"]
    assert (kept["reliability"], kept["selection_scores"]) == (found, told["selection_scores"])
    assert told["selection_scores"]["n_detections"] >= 1
    low, high = found["calibration"]["ece"]["ci95"]
    assert 0 <= low <= found["calibration"]["ece"]["value"] <= high
    assert sum(n for *_, n in found["calibration"]["bins"]) > 0
    assert found["ood_rate"]["false_positive_rate"] == round(2 / 21, 4)
    # 20 images set the threshold, one of them exceeds it
    assert found["ood_rate"]["value"] <= 5 / 24
    assert found["sizes"]["objects"] > 24
    images_said = json.loads(out.read_text())["images"]
    marked = sum(one["ood_score"] > 1 for one in images_said)
    assert marked == round(24 * found["ood_rate"]["value"])
    said = cli("bench", weights, *flags).out
    assert "expected calibration error: 0." in said
    assert ", of in-distribution images at most 0.095" in said


def test_weights_without_reliability_are_reported(coco, noise, bare_weights, cli):
    flags = ["--captures", str(coco), "--limit", "3", "--workers", "1"]
    said = cli("bench", bare_weights, *flags)
    assert "out-of-distribution images: not measured" in said.out
    assert "before calibration" not in said.out
    found = cli.json("bench", bare_weights, *flags)["reliability"]
    assert (found["uncalibrated"], found["ood_rate"], found["sizes"]) == (None, None, None)
    said = cli("predict", bare_weights, noise, "--workers", "1")
    assert set(json.loads(said.out)) == {"image", "detections"}
    assert "1 images; out-of-distribution: not measured" in said.err
    why = f"--abstain: {bare_weights!s} has no OOD threshold. Train again, or omit --abstain.\n"
    assert cli("predict", bare_weights, noise, "--abstain", code=2).err.endswith(why)


def test_predict_marks_ood_images_and_abstains(weights, noise, tmp_path, cli):
    flags = [str(noise), "--workers", "1", "--min-score", "0.05"]
    strict = with_card(weights, tmp_path, ood_threshold=limit(weights) | {"distance": 1e-3})
    said = cli("predict", strict, *flags)
    marked = json.loads(said.out)
    assert marked["is_ood"]
    assert marked["ood_score"] > 1
    assert not marked["abstained"]
    assert marked["detections"]
    assert "1 images; out-of-distribution: 1" in said.err
    left_out = json.loads(cli("predict", strict, *flags, "--abstain").out)
    assert left_out == marked | {"detections": [], "abstained": True}
    lax = with_card(
        weights, tmp_path, ood_threshold=limit(weights) | {"distance": 1e3, "uncertainty": 1e3}
    )
    line = json.loads(cli("predict", lax, *flags, "--abstain").out)
    assert (line["is_ood"], line["abstained"]) == (False, False)
    assert line["detections"] == marked["detections"]


def test_other_object_sizes_are_reported(weights, coco, tmp_path, cli):
    other = with_card(weights, tmp_path, box_size_range_px=[500.0, 600.0])
    flags = ["--captures", str(coco), "--limit", "8", "--workers", "1"]
    said = cli("bench", other, *flags).out
    assert "objects are smaller than in training" in said
    assert "Run: sim2cam tune WEIGHTS IMAGES --out tuned" in said
    (tmp_path / "wide").mkdir()
    wide = with_card(weights, tmp_path / "wide", box_size_range_px=[1.0, 600.0])
    assert "objects are" not in cli("bench", wide, *flags).out
    flags = ["--limit", "1", "--workers", "1", "--min-score", "0"]
    assert "than in training" in cli("predict", other, coco, *flags).err


def test_unlabelled_images_have_unsupervised_scores(
    weights, bare_weights, coco, tmp_path, capsys, cli
):
    photos = next(p.parent for p in coco.parent.rglob("*") if p.suffix in images.IMAGE_SUFFIXES)
    flags = ["--captures", str(photos), "--workers", "1", "--limit", "6"]
    out = tmp_path / "found.json"
    bare = with_card(bare_weights, tmp_path, input_scale=4.0)
    said = cli("bench", bare, *flags, "--json", "--out", out)
    found = json.loads(said.out)
    assert found == json.loads(out.read_text())
    assert found["images"] == 6
    assert found["selection_scores"]["n_detections"] >= 1
    assert 0 <= found["selection_scores"]["entropy"] <= 1
    assert 0 <= found["selection_scores"]["diversity"] <= 1
    assert found["ood_rate"] is None
    assert "has no labels, so accuracy cannot be measured." in said.err
    said = cli("bench", weights, *flags).out
    assert "neighbourhood density: " in said
    assert ", of in-distribution images at most 0.095" in said
    for option in (["--map", "a=b"], ["--validation", str(coco)], ["--poses", str(out) + ".csv"]):
        assert main(["bench", str(weights), *flags, *option]) == 2
        assert f"{option[0]} requires labels, but" in capsys.readouterr().err
    assert "has no labels, so accuracy" in cli("bench", "dice", *flags).err
    network = DetectorNetwork("nano", 1, torch.Generator().manual_seed(0))
    card = DetectorCard("nano", ("die",), 0, {}, ())
    save_detector(tmp_path / "one.safetensors", network.state_dict(), card)
    assert main(["bench", str(tmp_path / "one.safetensors"), *flags]) == 0
    why = "not measured, they require several categories"
    assert f"selection scores: {why}" in capsys.readouterr().out


@pytest.mark.parametrize("share", ["1", "-0.1", "nan"])
def test_bad_held_out_fractions_are_refused(share, cli):
    arguments = ["train", "dice", "--data", "a", "--out", "x", f"--held-out={share}"]
    allowed = f"--held-out must be at least 0 and less than 1, not {float(share)}"
    assert allowed in cli(*arguments, code=2).err
