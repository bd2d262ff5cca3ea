"""Export and catalogue as a user meets them, from a rendered data set to another tool's folder."""

import itertools
import json
import warnings

import numpy as np
import pytest

from sim2cam.cli import main
from sim2cam.data.formats.predictions import predictions_to_json
from sim2cam.data.reader import read_dataset
from sim2cam.data.real_images import read_real_images
from sim2cam.errors import RepairWarning, UsageError
from sim2cam.files import write_bytes
from sim2cam.images import encode_png
from sim2cam.metrics.detection import Detection

SMALL = """base = "dice"
[render]
width = 96
height = 96
views = 2
channels = ["depth", "ids", "amodal_masks"]
"""


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exchange")
    (folder / "small.toml").write_text(SMALL)
    render = ["render", str(folder / "small.toml"), "--out", str(folder / "d"), "--count", "8"]
    assert main([*render, "-q"]) == 0
    return folder / "d"


@pytest.mark.parametrize("to", ["coco", "yolo", "yolo-seg", "voc", "kitti", "bop", "webdataset"])
def test_parts_in_every_format(rendered, tmp_path, to, capsys):
    out = tmp_path / to
    arguments = ["export", str(rendered), "--format", to, "--out", str(out), "--json", "-q"]
    assert main([*arguments, "--split", "train=0.5,test=0.5"]) == 0
    assert json.loads(capsys.readouterr().out)["images"] == {"train": 4, "test": 4}
    if to != "coco":
        assert len(read_real_images(out).samples) == 8


@pytest.mark.parametrize("to", ["coco", "kitti", "webdataset"])
def test_captures_of_others_are_scored_and_shown(rendered, tmp_path, to, capsys):
    out = tmp_path / "out"
    assert main(["export", str(rendered), "--format", to, "--out", str(out), "-q"]) == 0
    captures = {"coco": out / "train.json", "webdataset": out / "train-000000.tar"}.get(to, out)
    found = {
        sample.name: [Detection(o.category, o.box_xyxy, 0.9) for o in sample.objects]
        for sample in read_real_images(captures).samples
    }
    detections = tmp_path / "found.json"
    detections.write_text(json.dumps({"detections": predictions_to_json(found)}))
    capsys.readouterr()
    assert main(["bench", str(detections), "--captures", str(captures), "--json", "-q"]) == 0
    assert json.loads(capsys.readouterr().out)["ap"]["value"] == pytest.approx(1.0)
    page = tmp_path / "page.html"
    assert main(["inspect", str(captures), "--out", str(page), "-q"]) == 0
    assert ('<path class="mask"' in page.read_text()) == (to != "kitti")


def test_straightened_objects_lie_in_their_boxes_in_space(rendered, tmp_path):
    out = tmp_path / "bop"
    assert main(["export", str(rendered), "--format", "bop", "--out", str(out), "-q"]) == 0
    original = {
        round(label.pose.position_m[0], 9): label
        for sample in read_dataset(rendered).samples
        for label in sample.objects
    }
    checked = 0
    for sample in read_real_images(out).samples:
        for label in sample.objects:
            low, high = original[round(label.pose.position_m[0], 9)].extent_m
            corners = np.array(list(itertools.product(*zip(low, high, strict=True))))
            pixels = sample.lens.project(label.pose.apply(corners)) + 0.5
            x0, y0, x1, y1 = label.box_amodal_xyxy
            assert pixels[:, 0].min() - 1 < x0 < x1 < pixels[:, 0].max() + 1
            assert pixels[:, 1].min() - 1 < y0 < y1 < pixels[:, 1].max() + 1
            checked += 1
    assert checked > 20


def test_several_become_one(rendered, tmp_path, capsys):
    out = tmp_path / "coco"
    assert main(["export", str(rendered), str(rendered), "--out", str(out), "--json", "-q"]) == 0
    assert json.loads(capsys.readouterr().out)["images"] == {"train": 16}
    (sample, *_) = read_real_images(out / "train.json").samples
    assert sample.name == "images/train/d-1-000000.jpg"


def test_a_render_has_a_card_and_the_catalogue_prints_it(rendered, capsys):
    assert main(["catalog", str(rendered)]) == 0
    told = capsys.readouterr().out
    assert told == (rendered / "card.md").read_text() + "\n"
    assert "8 images of 4 scenes" in told
    assert "| die | made by sim2cam |" in told
    assert main(["catalog", str(rendered), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["channel_counts"] == {"depth": 8, "ids": 8}


def test_questions_in_sql(rendered, tmp_path, capsys):
    pytest.importorskip("duckdb")
    ask = ["catalog", str(rendered)]
    assert main([*ask, "SELECT count(*) AS n FROM samples"]) == 0
    assert capsys.readouterr().out == "n\n8\n"
    assert main([*ask, "SELECT count(DISTINCT scene_index) FROM sampled_values", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == [[4]]
    assert main([*ask, "SELECT nothing FROM samples"]) == 2
    out = tmp_path / "coco"
    chosen = ["export", str(rendered), "--out", str(out), "--where", "scene_index < 2", "--json"]
    assert main([*chosen, "-q"]) == 0
    assert json.loads(capsys.readouterr().out)["images"] == {"train": 4}


@pytest.mark.parametrize("to", ["coco", "yolo", "bop", "webdataset"])
def test_a_condition_may_leave_nothing_of_one_of_several(rendered, tmp_path, to, capsys):
    pytest.importorskip("duckdb")
    recipe, few = rendered.parent / "small.toml", tmp_path / "few"
    assert main(["render", str(recipe), "--out", str(few), "--count", "2", "-q"]) == 0
    both = ["export", str(few), str(rendered), "--format", to, "--out", str(tmp_path / "out")]
    assert main([*both, "--where", "scene_index = 2", "--json", "-q"]) == 0
    assert json.loads(capsys.readouterr().out)["images"] == {"train": 2}


@pytest.mark.parametrize("split", ["train=x", "train=0.5,train=0.5", "a=1,b=0"])
def test_a_split_that_is_none_is_a_usage_error(rendered, tmp_path, split, capsys):
    arguments = ["export", str(rendered), "--out", str(tmp_path / "x"), "--split", split]
    assert main(arguments) == 2
    told = f"--split {split}: give unique names with positive shares, such as train=0.8,val=0.2."
    assert told in capsys.readouterr().err


def test_data_without_parts_has_none_to_choose(rendered, tmp_path, capsys):
    arguments = ["export", str(rendered), "--out", str(tmp_path / "x"), "--split", "train"]
    assert main(arguments) == 2
    told = f"--split train: {rendered} has no splits. Omit --split."
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("more", [["b"], ["--split", "train=1"], ["--where", "objects > 1"]])
def test_one_network_is_exported_alone(tmp_path, capsys, more):
    arguments = ["export", "a", *more, "--format", "onnx", "--out", str(tmp_path / "a.onnx")]
    assert main(arguments) == 2
    assert "--format onnx takes one network, without --split and --where." in (
        capsys.readouterr().err
    )


def test_weights_that_do_not_ship_are_told(tmp_path, capsys):
    flags = ["--format", "onnx", "--out", str(tmp_path / "dice.onnx")]
    assert main(["export", "dcie", *flags]) == 2
    assert "no file or shipped weights 'dcie'. Did you mean 'dice'?" in (capsys.readouterr().err)


def three_parts(folder):
    """YOLO's layout with the parts train, val and test, of one picture each."""
    for name in ("train", "val", "test"):
        picture = encode_png(np.full((20, 40, 3), len(name) * 9 + ord(name[0]), np.uint8))
        write_bytes(folder / f"images/{name}/{name}.png", picture)
        write_bytes(folder / f"labels/{name}/{name}.txt", b"0 0.5 0.5 0.25 0.5\n")
    parts = "".join(f"{name}: images/{name}\n" for name in ("train", "val", "test"))
    (folder / "data.yaml").write_text(f"{parts}names: ['1']\n")
    return folder


def test_parts_stay_parts_in_an_export(rendered, tmp_path, capsys):
    data = three_parts(tmp_path / "yolo")
    export = ["export", str(data), "--json", "-q"]
    assert main([*export, "--out", str(tmp_path / "a")]) == 0
    assert json.loads(capsys.readouterr().out)["images"] == {"train": 1, "val": 1, "test": 1}
    (sample,) = read_real_images(tmp_path / "a/val.json").samples
    assert sample.rgb.read_bytes() == (data / "images/val/val.png").read_bytes()
    assert main([*export, "--out", str(tmp_path / "b"), "--split", "val,test"]) == 0
    assert json.loads(capsys.readouterr().out)["images"] == {"val": 1, "test": 1}
    assert main([*export, "--out", str(tmp_path / "c"), "--split", "train=0.5,val=0.5"]) == 0
    assert sum(json.loads(capsys.readouterr().out)["images"].values()) == 3
    both = ["export", str(data), str(rendered), "--format", "yolo", "--json", "-q"]
    assert main([*both, "--out", str(tmp_path / "d")]) == 0
    assert json.loads(capsys.readouterr().out)["images"] == {"train": 9, "val": 1, "test": 1}


@pytest.mark.parametrize(("split", "learned"), [([], ["train"]), (["--split", "train,val"], ["train", "val"]), (["--split", "test"], ["test"])])  # fmt: skip
def test_train_learns_the_part_train_unless_others_are_named(tmp_path, monkeypatch, split, learned):
    def note(datasets, *_, **__):
        found.extend(s.rgb.stem for data, _ in datasets for s in data.samples)
        raise UsageError("stopped")

    found = []
    monkeypatch.setattr("sim2cam.models.training.setup.make_training_setup", note)
    data = three_parts(tmp_path / "yolo")
    train = ["train", "dice", "--data", str(data), "--out", str(tmp_path / "run"), "--workers", "1"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RepairWarning)
        assert main([*train, *split]) == 2
    assert found == learned
    told = [str(w.message) for w in caught if issubclass(w.category, RepairWarning)]
    left = [f"{data}: reading train, leaving out val, test. Choose other splits with --split."]
    assert told == ([] if split else left)


def test_train_refuses_a_data_set_that_is_only_a_test(tmp_path, capsys):
    data = three_parts(tmp_path / "yolo")
    (data / "data.yaml").write_text("test: images/test\nnames: ['1']\n")
    train = ["train", "dice", "--data", str(data), "--out", str(tmp_path / "run")]
    assert main([*train, "--workers", "1"]) == 1
    assert (
        f"{data}: has no split train, only test. Choose one with --split" in capsys.readouterr().err
    )
    assert not (tmp_path / "run").exists()


def test_bench_and_inspect_take_a_split(tmp_path, capsys):
    data = three_parts(tmp_path / "yolo")
    found = {"images/val/val.png": [Detection("1", (15.0, 5.0, 25.0, 15.0), 0.9)]}
    detections = tmp_path / "found.json"
    detections.write_text(json.dumps({"detections": predictions_to_json(found)}))
    bench = ["bench", str(detections), "--captures", str(data), "--json", "-q"]
    assert main([*bench, "--split", "val"]) == 0
    assert json.loads(capsys.readouterr().out)["ap"]["value"] == pytest.approx(1.0)
    page = tmp_path / "page.html"
    assert main(["inspect", str(data), "--split", "val", "--out", str(page), "-q"]) == 0
    assert "val.png" in page.read_text()
    assert "train.png" not in page.read_text()


@pytest.mark.parametrize(
    ("to", "name"), [("coco", "train.json"), ("yolo", "data.yaml"), ("kitti", "")]
)
def test_next_step_names_the_exported_labels(rendered, tmp_path, to, name, capsys):
    out = tmp_path / "out"
    assert main(["export", str(rendered), "--format", to, "--out", str(out)]) == 0
    assert capsys.readouterr().err.splitlines()[-1] == f"next: sim2cam inspect {out / name}"
    assert len(read_real_images(out / name).samples) == 8
