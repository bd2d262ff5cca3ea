"""``sim2cam tune``: tuning and calibration of a detector without training."""

import io
import json
import shutil
from contextlib import redirect_stdout
from dataclasses import replace

import pytest

from sim2cam import images
from sim2cam.cli import main
from sim2cam.data.real_images import read_real_images
from sim2cam.models.inference.detector import load_detector, save_detector
from sim2cam.models.reliability import measurement, scale_selection
from sim2cam.models.reliability.confidence import ScoreCalibration
from sim2cam.models.shipped_weights import locate_shipped_weights
from sim2cam.models.training import tuning


@pytest.fixture(scope="module")
def weights(bare_weights, tmp_path_factory):
    """Return the shipped weights, tuned and calibrated on other images."""
    detector = load_detector(bare_weights)
    offsets = dict.fromkeys(detector.card.categories, -3.0)
    path = tmp_path_factory.mktemp("tuned") / "weights.safetensors"
    card = replace(
        detector.card,
        score_calibration=ScoreCalibration(0.5, offsets),
        box_padding=0.05,
        input_scale=1.5,
    )
    save_detector(path, detector.network.state_dict(), card)
    return path


@pytest.fixture(autouse=True, scope="module")
def large():
    """Simulate a detector that finds dice of 8 pixels at an input scale of four."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(tuning, "INPUT_SCALE_FACTORS", (1.0, 4.0))
        yield


def tune(weights, captures, out, *more):
    words = ["tune", weights, captures, *more, "--out", out, "--workers", 1]
    return main(list(map(str, words)))


@pytest.fixture(scope="module")
def tuned(weights, coco, large, tmp_path_factory):
    """Return the output folder of tuning on all images, and its JSON output."""
    out, printed = tmp_path_factory.mktemp("whole") / "out", io.StringIO()
    with redirect_stdout(printed):
        assert tune(weights, coco, out, "--json") == 0
    return out, json.loads(printed.getvalue())


def test_tuning_keeps_the_network(weights, tuned):
    out, told = tuned
    before, after = load_detector(weights), load_detector(out / "weights.safetensors")
    assert told["weights"] == str(out / "weights.safetensors")
    assert told["input_scale"] == after.card.input_scale == 4.0
    assert told["box_padding"] == after.card.box_padding
    assert abs(after.card.box_padding) < 0.01  # boxes of renders are tight
    assert after.card.score_calibration not in (None, before.card.score_calibration)
    assert (before.card.metrics != {}, after.card.metrics) == (True, {})
    learned, kept = before.network.state_dict(), after.network.state_dict()
    assert learned.keys() == kept.keys()
    assert all(learned[name].equal(kept[name]) for name in kept)


@pytest.fixture
def changed(coco, tmp_path):
    """Return a function that copies real images with changed tables."""

    def copy(name, change):
        folder = tmp_path / name
        shutil.copytree(coco.parent, folder)
        tables = json.loads(coco.read_text())
        change(tables, folder)
        return folder / coco.name

    return copy


def test_few_images_keep_calibration(weights, changed, write_parts, tmp_path, capsys):
    few = changed("few", lambda tables, to: write_parts(tables, to, {"train": (0, 18)}))
    assert tune(weights, few, tmp_path / "out") == 0
    card = load_detector(tmp_path / "out/weights.safetensors").card
    assert card.input_scale == 4.0
    assert card.score_calibration == load_detector(weights).card.score_calibration
    assert "18 images are fewer than 19: the calibration of confidences" in capsys.readouterr().err


def keep_images(start, stop):
    """Return a change of tables that keeps a range of images."""

    def change(tables, folder):
        tables["images"] = tables["images"][start:stop]
        kept = {image["id"] for image in tables["images"]}
        tables["annotations"] = [a for a in tables["annotations"] if a["image_id"] in kept]
        for path in folder.glob("*.json"):
            path.write_text(json.dumps(tables))

    return change


def test_bench_prints_the_score_of_the_tuned_detector_beside_that_of_the_weights(
    weights, changed, capsys
):
    dev, test = changed("dev", keep_images(0, 6)), changed("test", keep_images(6, None))
    words = ["bench", weights, "--captures", test, "--workers", 1, "--json", "-q"]
    assert main(list(map(str, words))) == 0
    plain = json.loads(capsys.readouterr().out)
    assert main(list(map(str, [*words, "--validation", dev]))) == 0
    scores = json.loads(capsys.readouterr().out)
    tuned = scores.pop("tuned")
    assert scores == plain
    assert "tuned" not in plain
    assert (tuned["tuned_on_images"], tuned["input_scale"]) == (6, 4.0)
    assert abs(tuned["box_padding"]) < 0.01
    assert (
        tuned["ap50"]["value"] > plain["ap50"]["value"]
    )  # the weights pad boxes by a twentieth of the image
    assert main(list(map(str, [*words, "--validation", test]))) == 1
    assert "is a training image too" in capsys.readouterr().err


def test_undetermined_settings_stay_unchanged(weights, coco, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tuning, "INPUT_SCALE_FACTORS", (1.0,))
    monkeypatch.setattr(tuning, "estimate_box_padding", lambda *_: None)
    monkeypatch.setattr(measurement, "fit_score_calibration", lambda *_: None)
    assert tune(weights, coco, tmp_path / "out", "--json") == 0
    told = capsys.readouterr()
    assert not json.loads(told.out)["calibrated"]
    assert "too few detections: input scale and box padding are unchanged." in told.err
    assert "too few detections to calibrate confidences: they are unchanged." in told.err
    assert "these weights have no OOD detection." in told.err
    card = load_detector(tmp_path / "out/weights.safetensors").card
    assert card == replace(load_detector(weights).card, metrics={})


def test_tuning_again_on_the_same_images_in_two_datasets_changes_nothing(
    tuned, changed, write_parts, tmp_path
):
    parts = {"first": (0, 11), "second": (11, 24)}
    train = changed("parts", lambda tables, to: write_parts(tables, to, parts))
    first, second = (train.with_name(f"{name}.json") for name in parts)
    weights = tuned[0] / "weights.safetensors"
    assert tune(weights, first, tmp_path / "out", second) == 0
    assert load_detector(tmp_path / "out/weights.safetensors").card == load_detector(weights).card


def _renamed(tables, folder):
    tables["categories"][0]["name"] = "one"
    (folder / "train.json").write_text(json.dumps(tables))


def _labelled_by_itself(tables, folder):
    tables["images"][0]["origin"] = "pseudo-labelled"
    (folder / "train.json").write_text(json.dumps(tables))


def test_unlabelled_images_select_the_input_scale_only(coco, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(scale_selection, "MIN_OBJECTS", 2.0)  # in 8 small images
    photos = tmp_path / "photos"
    photos.mkdir()
    for sample in read_real_images(coco).samples[:8]:
        shutil.copy(sample.rgb, photos)
    out = tmp_path / "out"
    assert tune("dice", photos, out, "--json") == 0
    said = capsys.readouterr()
    assert "the images have no labels: the input scale is selected by the agreement" in said.err
    shipped = locate_shipped_weights("dice")
    before, after = load_detector(shipped).card, load_detector(out / "weights.safetensors").card
    told = json.loads(said.out)
    assert told["input_scale"] == after.input_scale >= 2.8  # dice of 8 px
    assert len(told["trials"]) > 2
    assert replace(after, input_scale=before.input_scale, metrics=before.metrics) == before


def test_images_without_information_are_refused(weights, coco, changed, tmp_path, capsys):
    photos = next(p.parent for p in coco.parent.rglob("*") if p.suffix in images.IMAGE_SUFFIXES)
    detector = load_detector(weights)
    learned = images.compute_digest(read_real_images(coco).samples[0].rgb)
    knows = tmp_path / "knows.safetensors"
    card = replace(detector.card, image_digests=(learned,))
    save_detector(knows, detector.network.state_dict(), card)
    cases = [
        ((weights, photos, "--map", "1=1"), 2, "--map and --ignore-unmatched require labels"),
        ((knows, coco), 1, "was trained on image "),
        ((weights, changed("other", _renamed)), 1, "the detector has no category 'one'"),
        ((weights, coco, photos), 1, f"{photos}: image "),
        ((weights, changed("told", _labelled_by_itself)), 1, "has pseudo-labels of a detector"),
        ((weights, coco, "--map", "1=one"), 2, "--map 1=one: "),
        (("dyce", coco), 2, "no file or shipped weights 'dyce'"),
        ((weights, "--map", "1=1"), 2, "the following arguments are required: CAPTURES."),
    ]
    for (detector, captures, *flags), code, message in cases:
        out = tmp_path / "out"
        assert tune(detector, captures, out, *flags) == code, message
        assert message in capsys.readouterr().err
        assert not out.exists()
    assert tune(weights, coco, coco.parent) == 1
    assert "is not empty. Choose another --out, or add --overwrite." in capsys.readouterr().err
