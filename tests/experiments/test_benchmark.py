import json
from dataclasses import replace

import pytest
import torch

from sim2cam.cli import main
from sim2cam.data.formats.export import export_dataset
from sim2cam.data.formats.predictions import LoadedPredictions
from sim2cam.data.label_mapping import LabelMapping
from sim2cam.data.real_images import read_real_images
from sim2cam.data.sample import Keypoint
from sim2cam.errors import InputError, RepairWarning, UsageError
from sim2cam.experiments import benchmark
from sim2cam.experiments.benchmark import bench, score_predictions, write_bench_result
from sim2cam.learn.run_folder import WEIGHTS
from sim2cam.metrics.detection import Detection
from sim2cam.metrics.verdict import Verdict
from sim2cam.models.card import InitialWeightsRecord
from sim2cam.models.inference.detections import Prediction
from sim2cam.models.inference.detector import load_detector, save_detector
from sim2cam.models.training.config import TrainConfig
from sim2cam.models.training.training import train_detector
from sim2cam.models.training.tuning import compute_ap50
from tests.support.evaluation import link_images


@pytest.fixture(scope="module")
def run(sim, tmp_path_factory):
    folder = tmp_path_factory.mktemp("detector")
    train_detector(((sim, 1.0),), TrainConfig(steps=2, batch=2, crop_px=64), folder)
    return folder


def test_command_prints_scores_with_intervals(run, coco, cli):
    bench_few = "bench", run / WEIGHTS, "--captures", coco, "--limit", "3", "--workers", "1"
    printed = cli.json(*bench_few)
    assert printed["images"] == 3
    for metric in ("ap", "ap50", "ap75", "agnostic_ap50"):
        low, high = printed[metric]["ci95"]
        assert 0 <= low <= printed[metric]["value"] <= high <= 1
    assert "AP50" in cli(*bench_few).out


def test_categories_match_by_name(coco):
    captures = read_real_images(coco)
    named = replace(
        captures,
        categories=("one", *captures.categories[1:]),
        samples=tuple(
            replace(s, objects=tuple(replace(o, category="one") if o.category == "1" else o for o in s.objects))
            for s in captures.samples
        ),
    )  # fmt: skip
    with pytest.raises(InputError, match=r"the detector has no category 'one', only 1, 2"):
        LabelMapping(captures.categories).apply(named)
    above = replace(captures, categories=("dice", *captures.categories))  # of no object
    assert LabelMapping(captures.categories).apply(above) == captures
    mapped = LabelMapping(captures.categories, {"one": "1"}).apply(named)
    assert mapped.samples == captures.samples
    ignored = LabelMapping(captures.categories, ignore_unmapped=True).apply(named)
    assert not any(o.category == "1" for s in ignored.samples for o in s.objects)
    with pytest.raises(UsageError, match=r"--map oen=1: Did you mean 'one'\?"):
        LabelMapping(captures.categories, {"oen": "1"}).apply(named)


def test_unlabelled_images_are_refused(run, coco):
    captures = read_real_images(coco).take(1)
    bare = replace(captures, samples=(replace(captures.samples[0], objects=None),))
    with pytest.raises(InputError, match="has no labels to score against"):
        bench(load_detector(run / WEIGHTS), bare)


def test_images_without_objects_are_refused_before_prediction(run, coco, monkeypatch):
    captures = read_real_images(coco)
    bare = replace(captures, samples=tuple(replace(s, objects=()) for s in captures.samples))
    monkeypatch.delattr(benchmark, "predict_samples")
    with pytest.raises(InputError, match="no labelled object to score against"):
        bench(load_detector(run / WEIGHTS), bare)


def test_verdict_of_a_short_training_is_the_same_from_a_result_file(run, coco, tmp_path, cli):
    out = tmp_path / "bench.json"
    flags = "--captures", coco, "--workers", "1"
    first = cli.json("bench", run / WEIGHTS, *flags, "--out", out)["verdict"][0]
    images = sum(record.images for record in load_detector(run / WEIGHTS).card.data)
    assert json.loads(out.read_text())["training"] == {"steps": 2, "images": images}
    assert first["text"].startswith(f"Trained 2 steps on {images} images; the default is 3000")
    assert cli.json("bench", out, *flags)["verdict"][0] == first


def test_fine_tuning_is_not_a_short_training(run, coco):
    detector = load_detector(run / WEIGHTS)
    record = InitialWeightsRecord("dice.safetensors", "0" * 64, detector.card.data)
    tuned = replace(detector, card=replace(detector.card, initial_weights=record))
    assert bench(tuned, read_real_images(coco).take(2)).training is None


@pytest.fixture
def hidden(coco, tmp_path):
    """Return a COCO file with mostly hidden objects."""
    tables = json.loads(coco.read_text())
    for label in tables["annotations"]:
        x, y, width, height = label["bbox"]
        label["bbox_amodal"] = [x, y, width, 2.5 * height]
    path = link_images(coco, tmp_path) / "hidden.json"
    path.write_text(json.dumps(tables))
    return path


@pytest.mark.parametrize("amodal", [True, False])
def test_amodal_boxes_are_scored_like_trained(
    run, hidden, amodal, monkeypatch, tmp_path, capsys, cli
):
    detector = load_detector(run / WEIGHTS)
    config = detector.card.config | {"amodal": amodal}
    detector = replace(detector, card=replace(detector.card, config=config))
    captures = read_real_images(hidden)
    whole = {
        s.name: tuple(Detection(o.category, o.box_amodal_xyxy, 0.9) for o in s.objects)
        for s in captures.samples
    }
    found = {name: Prediction(each, None, None, None) for name, each in whole.items()}
    monkeypatch.setattr(benchmark, "predict_samples", lambda *_, **__: found)
    monkeypatch.setattr("sim2cam.models.training.tuning.detect_dataset", lambda *_: whole)
    result = bench(detector, captures)
    assert (result.score.ap50.value > 0.99) == amodal
    assert result.score.agnostic_ap50.value > 0.99 or not amodal
    out, plain = tmp_path / "bench.json", tmp_path / "plain.json"
    flags = ["--captures", str(hidden)]
    write_bench_result(result, (), Verdict(()), out)
    again = cli.json("bench", out, *flags)["ap50"]["value"]
    assert again == pytest.approx(result.score.ap50.value)
    assert compute_ap50(detector, captures) == pytest.approx(again)
    plain.write_text(json.dumps(json.loads(out.read_text()) | {"label_mapping": None}))
    assert main(["compare", str(out), str(plain), *flags]) == int(amodal)
    assert ("one run has amodal boxes" in capsys.readouterr().err) == amodal
    assert main(["compare", str(out), str(out), *flags]) == 0


def sided(label):
    """Return a label with a keypoint at each side of its box, one of them hidden."""
    x0, y0, x1, y1 = label.box_xyxy
    middle = (y0 + y1 - 1) / 2
    points = Keypoint("left", (x0, middle), 2), Keypoint("right", (x1 - 1, middle), 1)
    return replace(label, keypoints=points)


@pytest.fixture(scope="module")
def shaped(sim, tmp_path_factory):
    """Return weights of a barely trained detector with keypoints and masks, and its COCO file."""
    root = tmp_path_factory.mktemp("shaped")
    data = replace(
        sim.take(6),
        samples=tuple(replace(s, objects=tuple(map(sided, s.objects))) for s in sim.samples[:6]),
    )
    config = TrainConfig(steps=2, batch=2, crop_px=64, keypoints=True, masks=True)
    detector = train_detector(((data, 1.0),), config, root / "run")
    with torch.no_grad():
        detector.network.box_head[1].bias[0] = 4.0  # detections in every image
        detector.network.mask_head[1].bias[1] = 4.0
    save_detector(root / "run" / WEIGHTS, detector.network.state_dict(), detector.card)
    export_dataset({"train": data}, root / "coco", "coco")
    return root / "run" / WEIGHTS, root / "coco" / "train.json"


def test_keypoints_masks_and_pixels_are_scored_if_labelled(shaped, coco, tmp_path, capsys, cli):
    weights, captures = map(str, shaped)
    out = tmp_path / "found.json"
    command = ["bench", weights, "--captures", captures, "--workers", "1", "--limit", "3"]
    scores = cli.json(*command, "--out", out)
    for shape in ("keypoints", "masks"):
        assert set(scores[shape]) == {"ap", "ap50", "ap75", "category_ap", "images", "objects"}
        assert scores[shape]["objects"] == scores["objects"]
    assert 0 <= scores["segments"]["miou"]["value"] <= 1
    assert json.loads(out.read_text())["scores"]["masks"] == scores["masks"]
    page = out.with_suffix(".html").read_text()
    assert all(name in page for name in ("AP of keypoints", "AP of masks", "mIoU of pixels"))
    again = cli.json("bench", out, "--captures", captures, "--limit", "3")
    for kind in ("keypoints", "masks", "segments"):
        assert again[kind] == scores[kind]
    few = cli.json("bench", out, "--captures", captures, "--limit", "2")
    assert few["segments"]["images"] == 2
    told = cli(*command).out
    assert all(word in told for word in ("keypoints", "masks", "pixels of", "background"))
    assert main(["bench", weights, "--captures", str(coco), "--limit", "2", "--json"]) == 0
    assert "keypoints" not in json.loads(capsys.readouterr().out)  # no labels


def test_error_page_is_written_next_to_scores(shaped, tmp_path, capsys, cli):
    weights, captures = map(str, shaped)
    out = tmp_path / "found.json"
    command = ["bench", weights, "--captures", captures, "--limit", "1", "--out", str(out)]
    assert main(command) == 0
    page = out.with_suffix(".html")
    assert f"page: {page}" in capsys.readouterr().err
    found, text = json.loads(out.read_text()), page.read_text()
    assert [row["name"] for row in found["categories"]] == list("123456")
    assert "weights.safetensors on train.json" in text
    assert f"{next(iter(found['detections']))}: " in text  # its image
    out.unlink()
    assert f"{page}: exists. Choose another name, or add --overwrite." in cli(*command, code=1).err
    assert page.read_text() == text


def test_ignored_objects_do_not_add_mask_or_keypoint_scores(shaped):
    weights, captures = shaped

    def bare(first, *others):
        others = (replace(label, mask=None, keypoints=None) for label in others)
        return replace(first, is_crowd=True), *others

    read = read_real_images(captures).take(2)
    samples = tuple(replace(s, objects=bare(*s.objects)) for s in read.samples)
    captures = replace(read, samples=samples)
    found = bench(load_detector(weights), captures)
    assert found.score.objects == sum(len(s.objects) - 1 for s in samples)
    assert (found.masks, found.segments, found.keypoints) == (None, None, None)
    again = score_predictions(LoadedPredictions(captures, found.predictions))
    assert again.score == found.score
    assert (again.masks, again.keypoints) == (None, None)


def test_broken_pixel_counts_are_refused(shaped, tmp_path, cli):
    weights, captures = map(str, shaped)
    out = tmp_path / "found.json"
    flags = ["--captures", captures, "--limit", "1"]
    assert main(["bench", weights, *flags, "--out", str(out)]) == 0
    whole = json.loads(out.read_text())
    pixels = whole["pixel_confusions"]
    (name,) = pixels["images"]
    first, *others = pixels["images"][name]
    table = [
        ({"categories": ["1"]}, "pixel_confusions: categories are 1, not 1, 2, 3, 4, 5, 6. Predict again."),
        ({"images": {}}, f"pixel_confusions: image {name} is missing. Predict again."),
        ({"images": {name: [[7, 0, 1]]}},
         f"pixel_confusions: image {name}: [7, 0, 1] must be two classes from 0 to 6 and a number of pixels. "),
        ({"images": {name: [[0, 0, -1]]}}, f"pixel_confusions: image {name}: [0, 0, -1] must be two classes"),
        ({"images": {name: [[0, 0]]}}, f"pixel_confusions.images.{name}[0][2] is missing. Predict again."),
        ({"images": {name: others}},
         f"the labelled pixels of image {name} have changed since the predictions were made. Run bench"),
    ]  # fmt: skip
    for change, message in table:
        path = tmp_path / "broken.json"
        path.write_text(json.dumps(whole | {"pixel_confusions": pixels | change}))
        assert message in cli("bench", path, *flags, code=1).err
    assert first[2] > 0


def test_broken_keypoints_and_masks_are_refused(shaped, tmp_path, capsys):
    weights, captures = map(str, shaped)
    out = tmp_path / "found.json"
    assert main(["bench", weights, "--captures", captures, "--limit", "1", "--out", str(out)]) == 0
    whole = json.loads(out.read_text())
    (name,) = whole["detections"]
    first = whole["detections"][name][0]
    width, height = 96, 80
    table = [
        ({"keypoints": [first["keypoints"][0] | {"visibility_score": float("inf")}]},
         "keypoint left must have finite numbers."),
        ({"mask": first["mask"] | {"size": [8, 8]}},
         f"the mask is invalid or not of {width}x{height} pixels, the image size. Predict again."),
        ({"mask": first["mask"] | {"counts": "0"}},
         f"the mask is invalid or not of {width}x{height} pixels, the image size. Predict again."),
    ]  # fmt: skip
    for change, message in table:
        path = tmp_path / "broken.json"
        path.write_text(json.dumps(whole | {"detections": {name: [first | change]}}))
        assert main(["bench", str(path), "--captures", captures, "--limit", "1"]) == 1
        assert f"{path}: image {name}, detection 0: {message}" in capsys.readouterr().err


def test_verdict_repeats_every_printed_warning(coco, tmp_path, cli):
    content = json.loads(coco.read_text())
    content["annotations"] += [dict(content["annotations"][0], id=10**6, bbox=[5, 5, -3, 4])]
    content["annotations"] += [dict(content["annotations"][0], id=10**6 + 1)]
    flawed = coco.with_name("flawed.json")
    flawed.write_text(json.dumps(content))
    (tmp_path / "found.json").write_text("[]")
    with pytest.warns(RepairWarning, match="flawed annotation") as repairs:
        said = cli(
            "bench", tmp_path / "found.json", "--captures", flawed, "--skip-invalid", "--json"
        )
    flawed.unlink()
    texts = [f["text"] for f in json.loads(said.out)["verdict"] if f["severity"] == "warning"]
    assert texts[0] == str(repairs[0].message)
    assert len(texts) == 3
    assert all(text[1:] in said.err for text in texts[1:])
