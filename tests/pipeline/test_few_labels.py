"""``sim2cam train`` from initial weights, and with unlabelled real images."""

import json
import shutil
from dataclasses import replace

import pytest

from sim2cam import images
from sim2cam.cli import main
from sim2cam.data.real_images import read_real_images
from sim2cam.errors import RecipeError
from sim2cam.files import write_bytes
from sim2cam.models.inference.detector import load_detector, save_detector
from sim2cam.models.training import step_time
from sim2cam.models.training.step_time import StepTime
from sim2cam.pipeline.recipe import load_recipe

RECIPE = """
base = "dice"
name = "tiny"
[train]
steps = 2
batch = 2
crop_px = 64
roi_classifier = false
"""


@pytest.fixture
def recipe(tmp_path):
    """Return a function that writes a recipe of tiny trainings with additional [train] keys."""

    def make(more=""):
        path = tmp_path / "tiny.toml"
        path.write_text(RECIPE + more)
        return path

    return make


def train(recipe, out, *flags):
    return main(["train", str(recipe), "--out", str(out), "--workers", "1", "-q", *map(str, flags)])


def test_weights_are_fine_tuned_on_photos(sim, coco, recipe, tmp_path):
    first, frozen, adapted = (tmp_path / name for name in ("first", "frozen", "adapted"))
    assert train(recipe(), first, "--data", sim.root) == 0
    weights = first / "weights.safetensors"
    few = recipe("[train.fine_tuning]\nresidual = true\n")
    flags = ["--data", coco, "--from", weights, "--limit", "5"]
    assert train(few, frozen, *flags) == 0
    card = load_detector(frozen / "weights.safetensors").card
    assert card.residual
    assert [(part.name, part.images) for part in card.data] == [("coco", 5)]
    assert [part.name for part in card.initial_weights.data] == ["sim"]
    assert train(few, frozen, *flags, "--resume") == 0
    dann = recipe("[train.adapt]\nmethod = 'dann'\n")
    assert train(dann, adapted, "--data", sim.root, "--from", weights, "--captures", coco) == 0
    card = json.loads((adapted / "weights.json").read_text())
    assert card["target_images"]["origins"] == {"real": 24}
    assert card["config"]["fine_tuning"] == {
        "head_lr_scale": 0.25,
        "layer_decay": 0.7,
        "residual": False,
    }


def test_lost_box_padding_is_reported(sim, coco, recipe, tmp_path, capsys):
    weights = tmp_path / "first" / "weights.safetensors"
    assert train(recipe(), weights.parent, "--data", sim.root) == 0
    before = load_detector(weights)
    card = replace(before.card, box_padding=0.0116)
    save_detector(weights, before.network.state_dict(), card, before.feature_distribution)
    flags = ["--data", str(coco), "--from", str(weights), "--out", str(tmp_path / "run")]
    assert main(["train", str(recipe()), *flags, "--workers", "1"]) == 0
    assert (
        "--from uses a box padding of 1.16% of the image's longer side." in capsys.readouterr().err
    )


@pytest.fixture
def renamed(coco, tmp_path):
    """Return a function that copies real images with other categories, optionally without labels."""

    def make(names, *, labelled=True):
        tables = json.loads(coco.read_text())
        tables["categories"] = [
            c | {"name": names.get(c["name"], c["name"])} for c in tables["categories"]
        ]
        if not labelled:
            del tables["annotations"]
        folder = tmp_path / "renamed"
        shutil.copytree(coco.parent, folder)
        for photo in folder.rglob("*.jpg"):
            write_bytes(photo, images.encode_jpeg(255 - images.read_rgb(photo), 90))
        (folder / coco.name).write_text(json.dumps(tables))
        return folder / coco.name

    return make


def test_photos_use_map_and_ignore_unmatched(sim, recipe, renamed, tmp_path, capsys):
    photos = renamed({"1": "one", "2": "two"})
    flags = ["--data", sim.root, photos]
    first, again = tmp_path / "first", tmp_path / "again"
    assert train(recipe(), first, *flags, "--map", "one=1") == 1
    assert "renamed: has no category '2', so such objects would be" in capsys.readouterr().err
    assert train(recipe(), first, *flags, "--map", "one=1", "two=2", "six=1") == 2
    assert "--map six=1: Allowed: 1, 2, " in capsys.readouterr().err
    assert train(recipe(), first, *flags, "--map", "one=1", "two=2") == 0
    card = load_detector(first / "weights.safetensors").card
    assert card.categories == sim.categories
    begin = ["--from", first / "weights.safetensors", "--map", "one=1", "two=2"]
    assert train(recipe(), again, "--data", photos, *begin) == 0
    assert load_detector(again / "weights.safetensors").card.categories == sim.categories


def test_categories_without_objects_are_reported(recipe, renamed, tmp_path, capsys):
    photos = renamed({})
    tables = json.loads(photos.read_text())
    tables["categories"] += [{"id": 0, "name": "dice-x"}, {"id": 9, "name": "9"}]
    photos.write_text(json.dumps(tables))
    command = ["train", str(recipe()), "--data", str(photos), "--workers", "1", "--out"]
    assert main([*command, str(tmp_path / "out")]) == 0
    assert (
        "warning: no objects of category dice-x, 9, which the detector will still predict. "
        "Remove unused names from the categories of the data.\n"
    ) in capsys.readouterr().err
    card = load_detector(tmp_path / "out" / "weights.safetensors").card
    assert card.categories == ("dice-x", *"123456", "9")


@pytest.mark.parametrize(
    ("names", "labelled", "message"),
    [
        ({}, False, "has no labels to score against."),
        (
            {"1": "one"},
            True,
            "the detector has no category 'one', only 1, 2, 3, 4, 5, 6. Add --map one=NAME",
        ),
    ],
)
def test_bad_development_images_are_refused_before_training(
    sim, recipe, renamed, tmp_path, capsys, names, labelled, message
):
    out = tmp_path / "out"
    photos = renamed(names, labelled=labelled)
    assert train(recipe(), out, "--data", sim.root, "--validation", photos) == 1
    assert message in capsys.readouterr().err
    assert not out.exists()
    if labelled:
        assert (
            train(recipe(), out, "--data", sim.root, "--validation", photos, "--map", "one=1") == 0
        )
        card = load_detector(out / "weights.safetensors").card
        assert card.ood_threshold.measured_on == "validation images"


def test_a_time_budget_fixes_the_steps_and_a_resumed_run_keeps_them(
    sim, recipe, tmp_path, monkeypatch, capsys
):
    asked = iter([StepTime(20.0, {"roi_classifier": 15.0})])
    monkeypatch.setattr(step_time, "measure_step_time", lambda *_, **__: next(asked))
    budget, steps = tmp_path / "budget", tmp_path / "steps"
    flags = ["--data", str(sim.root), "--out", str(budget), "--workers", "1", "--minutes"]
    assert main(["train", str(recipe()), *flags, "1.3"]) == 0
    told = "step 20 s; roi_classifier takes 15 s of it; 3 steps: 60 s."
    assert told in capsys.readouterr().err
    assert train(recipe(), steps, "--data", sim.root, "--steps", 3) == 0
    weights = (budget / "weights.safetensors").read_bytes()
    assert weights == (steps / "weights.safetensors").read_bytes()
    assert (
        main(["train", str(recipe()), *flags, "99", "--resume"]) == 0
    )  # nothing is measured again
    assert (budget / "weights.safetensors").read_bytes() == weights
    assert load_detector(budget / "weights.safetensors").card.steps == 3


def test_captures_are_compared_with_the_training(sim, coco, recipe, tmp_path, capsys):
    dark = tmp_path / "dark"
    for sample in read_real_images(coco).samples:
        rgb = images.read_rgb(sample.rgb) // 8
        write_bytes(dark / f"{sample.name.replace('/', '-')}.png", images.encode_png(rgb))
    flags = ["--data", str(sim.root), "--captures", str(dark), "--out", str(tmp_path / "out")]
    assert main(["train", str(recipe()), *flags, "--workers", "1", "--json"]) == 0
    said = capsys.readouterr()
    shift = json.loads(said.out)
    assert "image parts are darker than in training" in said.err
    assert shift["verdict"][0]["action"].startswith("sim2cam domain fit RECIPE")
    assert {"luminance", "sharpness", "objects_per_image"} <= shift["domain_shift"].keys()
    card = load_detector(tmp_path / "out/weights.safetensors").card
    assert card.target_images is None  # they are compared only
    assert card.training_domain.luminance[0] > shift["domain_shift"]["luminance"]["median"]


def test_conflicting_flags_are_refused(sim, recipe, tmp_path, capsys):
    plain, out = recipe(), tmp_path / "out"
    for minutes, message in (
        (["--minutes", 1, "--steps", 3], "--minutes chooses the number of steps"),
        (["--minutes", 0], "--minutes must be above 0, not 0"),
    ):
        assert train(plain, out, "--data", sim.root, *minutes) == 2
        assert message in capsys.readouterr().err
    start = out / "weights.safetensors"
    assert train(plain, out, "--data", sim.root, "--from", start, "--overwrite") == 2
    told = f"--from {start} is in --out and would be replaced. Choose another --out."
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("[train.adapt]\nmethod = 'corral'\n", "corral"),
        (
            "[train.adapt]\nmethods = 'coral'\n",
            "unknown key 'train.adapt.methods'. Did you mean 'method'?",
        ),
        (
            "[train.fine_tuning]\nlayer_decay = 0.0\n",
            "layer_decay must be above 0 and at most 1, not 0.0",
        ),
    ],
)
def test_bad_recipe_settings_are_refused(more, message, recipe):
    with pytest.raises(RecipeError, match=message):
        load_recipe(str(recipe(more)))
