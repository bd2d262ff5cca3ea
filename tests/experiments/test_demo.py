"""The demo end to end, with trainings of a few steps."""

import json
import shutil
from dataclasses import replace

import pytest

from sim2cam.cli import main
from sim2cam.experiments import demo
from sim2cam.experiments.demo import RESULT_FILE
from sim2cam.pipeline.recipe import RenderOptions, load_recipe
from tests.support.small_recipes import FEW_BODIES


@pytest.fixture
def short(monkeypatch):
    """Reduce every stage of the demo to its minimum."""
    recipe = load_recipe("dice-demo")
    translator = replace(recipe.adapt.translator, steps=2, batch=2, patch_px=64)
    small = replace(
        recipe,
        domain=recipe.domain.replace_factors(FEW_BODIES),
        render=RenderOptions(width=96, height=96, views=2),
        adapt=replace(recipe.adapt, translator=translator),
        train=replace(recipe.train, steps=2, batch=2, crop_px=64, roi_classifier=False),
    )
    monkeypatch.setattr(demo, "load_recipe", lambda _name: small)
    monkeypatch.setattr(demo, "IMAGE_COUNT", 6)
    monkeypatch.setattr(demo, "PLAIN_IMAGE_COUNT", 2)
    monkeypatch.setattr(demo, "TRANSLATED_COUNT", 4)


@pytest.fixture
def few_tested(monkeypatch):
    """Keep six test images."""
    whole = demo.split_real_images

    def few(*given, **how):
        sets = whole(*given, **how)
        return replace(sets, test=sets.test.take(6))

    monkeypatch.setattr(demo, "split_real_images", few)


@pytest.mark.usefixtures("short", "few_tested")
def test_stand_in_replaces_missing_real_images(tmp_path, cli):
    out = tmp_path / "demo"
    told = cli("demo", "--out", out, "--workers", "1", "--json")
    assert "trained in this run" in json.loads(told.out)
    assert "stand-in" in told.err
    page = (out / "report.html").read_text()
    assert "without a labelled target image, reaches an AP50 of" in page
    assert 'href="adapted/certificate.html"' in page
    assert "images pass" in (out / "adapted" / "certificate.html").read_text()
    assert "samples.html" not in page  # too few steps for sample images
    assert "stand-in" in page
    assert "scores on real images" not in page.lower()
    stages = [s["name"] for s in json.loads((out / "demo.json").read_text())["stages"]]
    assert stages == ["generate", "translate", "train", "bench"]
    (out / "report.html").unlink()
    assert main(["report", str(out)]) == 0
    assert (out / "report.html").read_text() == page
    assert main(["demo", "--out", str(out)]) == 1  # needs --overwrite
    (out / "notes.txt").write_text("mine")
    assert main(["demo", "--out", str(out), "--overwrite"]) == 1
    assert (out / "notes.txt").read_text() == "mine"


def test_few_real_images_are_scored_without_translation(short, coco, tmp_path, cli):
    folder = tmp_path / "captures"
    shutil.copytree(coco.parent, folder)
    out = tmp_path / "demo"
    arguments = ["demo", "--out", str(out), "--captures", str(folder / coco.name), "--workers", "1"]
    told = cli(*arguments)
    assert "12 style images are too few for a translation (20 needed)" in told.err
    assert "scores on 12 real test images" in told.out
    assert "- Finds " in told.out
    assert not (out / "adapted").exists()
    assert "not run" in (out / "report.html").read_text()


def test_development_split_tunes_the_detector(short, coco, tmp_path, capsys):
    folder = tmp_path / "captures"
    shutil.copytree(coco.parent, folder)
    for name in ("style", "dev", "test"):
        tables = json.loads(coco.read_text())
        tables["images"] = tables["images"][:12]
        shown = {entry["id"] for entry in tables["images"]}
        tables["annotations"] = [a for a in tables["annotations"] if a["image_id"] in shown]
        for entry in tables["images"]:
            copy = folder / name / entry["file_name"]
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(coco.parent / entry["file_name"], copy)
            entry["file_name"] = f"{name}/{entry['file_name']}"
        (folder / f"{name}.json").write_text(json.dumps(tables))
    out = tmp_path / "demo"
    assert main(["demo", "--out", str(out), "--captures", str(folder), "--workers", "1"]) == 0
    assert "12 labelled development images tuned the input scale" in capsys.readouterr().err


def test_folder_without_demo_has_no_report(tmp_path, cli):
    assert "no finished demo" in cli("report", tmp_path, code=1).err


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not JSON"),
        ("[]", "from another version"),
        ('{"captures": null}', "from another version"),
    ],
)
def test_a_damaged_result_says_to_run_the_demo_again(tmp_path, cli, text, problem):
    (tmp_path / RESULT_FILE).write_text(text)
    error = cli("report", tmp_path, code=1).err
    assert problem in error
    assert "Run sim2cam demo again." in error
