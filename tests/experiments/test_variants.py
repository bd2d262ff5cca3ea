"""The command ``sim2cam ablate`` and the variants that it plans."""

import gzip
import json
import re
import shutil
from dataclasses import replace

import pytest

from sim2cam.adapt.store import TRANSFER_TYPES
from sim2cam.cli import main
from sim2cam.data.real_images import RealImageSplits, read_real_images
from sim2cam.errors import RecipeError
from sim2cam.experiments import best_transfer
from sim2cam.experiments.variants import find_fixed_recipe, list_variants, select_variants
from sim2cam.pipeline.recipe import load_recipe
from tests.support.evaluation import link_images
from tests.support.small_recipes import TWO_DICE_TOML

pytestmark = pytest.mark.usefixtures("few_resamples")

RECIPE = f"""
name = "tiny"
{TWO_DICE_TOML}channels = []
[train]
steps = 2
batch = 2
crop_px = 64
roi_classifier = false
"""


LENIENT = """
object_shift_px = 255
structure_correlation = -1
edge_recall = 0
colour_shift = 255
added_structure_levels = 255
lost_structure_levels = 255
grid_artefact_levels = 255
seam_step_levels = 255
clipped_fraction = 1
"""


@pytest.fixture(scope="module")
def photos(coco, write_parts, tmp_path_factory):
    """Return 20 training photos, four of them for development, and 4 test photos."""
    folder = tmp_path_factory.mktemp("photos")
    tables = json.loads(coco.read_text())
    parts = {"train": (0, 20), "style": (0, 20), "dev": (0, 4), "test": (20, 24)}
    write_parts(tables, folder, parts)
    return link_images(coco, folder)


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(RECIPE)
    return path


def unpacked(path):
    return json.loads(gzip.decompress(path.read_bytes()))


def ladder(recipe, photos, out, *flags):
    usual = {"--seeds": "1", "--count": "4", "--workers": "1"}
    rest = [word for flag, value in usual.items() if flag not in flags for word in (flag, value)]
    return main(
        ["ablate", str(recipe), "--captures", str(photos), "--out", str(out), *rest, *flags]
    )


def test_ablation_scores_equal_bench(recipe, photos, tmp_path, capsys, cli):
    recipe.write_text(RECIPE + "amodal = true\n")
    for path in photos.glob("*.json"):
        tables = json.loads(path.read_text())
        calls = {"1": "one", "6": "strange"}
        for category in tables["categories"]:
            category["name"] = calls.get(category["name"], category["name"])
        (tmp_path / path.name).write_text(json.dumps(tables))
    out = link_images(photos, tmp_path) / "run"
    flags = ("--variants", "randomized", "--map", "one=1", "--ignore-unmatched", "--json")
    assert ladder(recipe, tmp_path, out, *flags) == 0
    (arm,) = json.loads(capsys.readouterr().out)["variants"]
    (path,) = (out / "predictions").iterdir()
    facts = unpacked(path)
    assert facts["label_mapping"] == {
        "categories": list("123456"), "renames": {"one": "1"}, "ignore_unmapped": True, "amodal": True,
    }  # fmt: skip
    told = cli.json("bench", path, "--captures", tmp_path / "test.json")
    assert told["ap50"]["value"] == arm["seeds"][0]["ap50"]
    labelled = read_real_images(tmp_path / "test.json").samples
    assert 0 < told["objects"] < sum(len(sample.objects) for sample in labelled)


def test_command_runs_selected_variants_and_resumes(recipe, photos, tmp_path, capsys):
    out = tmp_path / "run"
    first = ("--variants", "randomized,real-5", "--sessions", "folder", "--minutes", "0")
    assert ladder(recipe, photos, out, *first) == 1
    said = capsys.readouterr().err
    assert "objects in 4 test images: " in said
    assert "with 2 variants (80 % power" in said
    assert "1 of 1 sessions of the test images also have style or training images" in said
    assert "The labels of 4 development images tune the input scale" in said
    assert "no predictions of the variant 'randomized' yet. Run it first." in said

    assert ladder(recipe, photos, out, "--variants", "randomized,real-5,mixed-5", "--resume") == 0
    table = capsys.readouterr().out
    assert re.search(
        r"real only \(20 labelled photos\) +not run: not selected; add it to --variants", table
    )
    assert re.search(
        r"sim without randomization +not run: no recipe of this name with the suffix", table
    )
    assert re.search(r"\nrandomized +0\.\d{3} \(0\.\d{3}-[01]\.\d{3}\) +1\n", table)
    assert "\nIntervals: 95 %, bootstrap over 4 images (fewer than 10: " in table
    assert "without variation between seeds (needs two or more seeds)" in table
    before = {path.name: path.read_bytes() for path in (out / "predictions").iterdir()}
    assert set(before) == {
        "randomized-0.json.gz",
        "real-only-5-labelled-photos-0.json.gz",
        "randomized-5-labelled-photos-0.json.gz",
    }

    assert ladder(recipe, photos, out, "--variants", "real", "--resume", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts == json.loads((out / "ablation.json").read_text())
    assert all((out / "predictions" / name).read_bytes() == was for name, was in before.items())
    run = [arm["name"] for arm in facts["variants"]]
    assert run == [
        "randomized", "randomized + 5 labelled photos", "real only (5 labelled photos)",
        "real only (20 labelled photos)",
    ]  # fmt: skip
    assert {one["name"] for one in facts["not_run"]} == set(facts["planned"]) - set(run)
    reasons = {one["name"]: one["reason"] for one in facts["not_run"]}
    assert reasons["real only (25 labelled photos)"] == "only 20 labelled photos"
    assert [point["labelled_images"] for point in facts["equivalents"]["curve"]] == [5, 20]
    assert [one["variant"] for one in facts["equivalents"]["variants"]] == run[:2]
    page = (out / "ablation.html").read_text()
    assert "Equivalent number of labelled images" in page
    assert "only 20 labelled photos" in page
    few = unpacked(out / "predictions/real-only-5-labelled-photos-0.json.gz")
    assert [part["images"] for part in few["data"]] == [5]

    assert ladder(recipe, photos, out, "--steps", "3", "--resume", "--minutes", "0") == 1
    assert "plan.json: config was {" in capsys.readouterr().err


def test_command_reports_learning_curves(recipe, photos, tmp_path, capsys):
    out = tmp_path / "run"
    assert ladder(recipe, photos, out, "--variants", "renders") == 0
    said = capsys.readouterr()
    assert "with 1 variants (80 % power" in said.err  # points of a curve are not compared
    refusal = (
        "More renders: no prediction of AP50, because a fit needs 3 seeds at each point, not 1. "
        "From 2 to 4, AP50 changed by "
    )
    assert f"\n{refusal}" in said.out
    page = (out / "ablation.html").read_text()
    assert "Learning curves" in page
    assert refusal in page
    assert {path.name for path in (out / "predictions").iterdir()} == {
        "randomized-0.json.gz", "randomized-1-renders-0.json.gz", "randomized-2-renders-0.json.gz",
    }  # fmt: skip


@pytest.mark.slow
def test_best_transfer_is_selected_once(recipe, photos, tmp_path, capsys, monkeypatch):
    out = tmp_path / "run"
    few = ("--variants", "randomized,best-transfer", "--count", "10")
    recipe.write_text(f"{RECIPE}[adapt.certificate]\n{LENIENT}")
    assert ladder(recipe, photos, out, *few) == 0
    said = capsys.readouterr()
    choice = json.loads((out / "best-transfer.json").read_text())
    assert choice["split"] == "style"  # 4 development photos are too few
    assert [one["method"] for one in choice["scores"]] == list(TRANSFER_TYPES)
    scores = {one["method"]: one["distance"] for one in choice["scores"]}
    near = {method: distance for method, distance in scores.items() if distance is not None}
    best = min(near, key=near.get)
    assert f"The best transfer is {best}: its translations of 10 renders are nearest to" in said.err
    assert re.search(r"\n\+ best transfer +0\.\d{3}", said.out)
    facts = unpacked(out / "predictions/best-transfer-0.json.gz")
    assert [part["name"] for part in facts["data"]] == ["randomized", best]
    assert "The best transfer is" in json.loads((out / "ablation.json").read_text())["notes"][-1]

    monkeypatch.setattr(best_transfer, "select_transfer", lambda *_, **__: pytest.fail("again"))
    assert ladder(recipe, photos, out, *few, "--resume") == 0
    (out / "best-transfer.json").write_text("{}")
    assert ladder(recipe, photos, out, *few, "--resume") == 1
    missing = "best-transfer.json: split is missing. Remove the file to select again."
    assert missing in capsys.readouterr().err


NO_POINTS = "randomized: no object has keypoints to learn. Render with keypoints in --channels"


def test_failing_variants_are_reported_and_others_run(recipe, photos, tmp_path, capsys):
    recipe.write_text(f"{RECIPE}keypoints = true\nflips = false\n")
    pointed = link_images(photos, tmp_path / "pointed")
    for path in photos.glob("*.json"):
        shutil.copy(path, pointed)
    tables = json.loads((photos / "train.json").read_text())
    for category in tables["categories"]:
        category["keypoints"] = ["top"]
    for label in tables["annotations"]:
        x, y, *_ = label["bbox"]
        label["keypoints"] = [x + 1, y + 1, 2]
    (pointed / "train.json").write_text(json.dumps(tables))

    out = tmp_path / "run"
    assert ladder(recipe, pointed, out, "--variants", "randomized,real-5") == 0
    table = capsys.readouterr().out
    assert re.search(rf"\nrandomized +not run: {out}/{NO_POINTS}", table)
    assert re.search(r"\nreal only \(5 labelled photos\) +0\.\d{3} \(", table)
    assert ladder(recipe, pointed, out, "--variants", "randomized,real-5", "--resume") == 0
    assert table.splitlines()[1] == capsys.readouterr().out.splitlines()[1]

    assert ladder(recipe, photos, tmp_path / "none", "--variants", "randomized,real-5") == 1
    assert NO_POINTS in capsys.readouterr().err


def test_too_few_translations_give_no_best_transfer(recipe, photos, tmp_path, capsys):
    out = tmp_path / "run"
    assert ladder(recipe, photos, out, "--variants", "randomized,best-transfer") == 0
    why = r"\+ best transfer +not run: no transfer is selected: for none, half of"
    assert re.search(why, capsys.readouterr().out)


BAD = [
    (["--seeds", "0"], "--seeds must be 1 or more, not 0"),
    (["--count", "0"], "--count must be 1 or more, not 0"),
    (["--minutes", "-1"], "--minutes must be 0 or more, not -1.0"),
    (["--minutes", "nan"], "--minutes must be 0 or more, not nan"),
    (["--variants", "sliced,real-7"], "--variants: no variant or group 'real-7'. Did you mean 'real-5'?"),
    (["--steps", "0"], "steps must be 1 or more, not 0"),
    (["--sessions", "day"], "--sessions day is invalid. Allowed: folder, FILE.csv:COLUMN, or the"),
    (["--device", "gpu"], "--device gpu is unknown. Allowed: cpu, cuda, cuda:0"),
    (["--map", "one"], "--map one: give two category names as REAL=SIM."),
]  # fmt: skip


@pytest.mark.parametrize(("flags", "message"), BAD)
def test_bad_flags_are_refused(flags, message, recipe, photos, tmp_path, capsys):
    assert ladder(recipe, photos, tmp_path / "run", *flags) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_images_without_objects_are_refused(recipe, photos, tmp_path, capsys):
    bare = link_images(photos, tmp_path / "bare")
    for path in photos.glob("*.json"):
        shutil.copy(path, bare)
    tables = json.loads((photos / "test.json").read_text())
    (bare / "test.json").write_text(json.dumps(tables | {"annotations": []}))
    assert ladder(recipe, bare, tmp_path / "run") == 1
    assert "bare: no labelled object to score against." in capsys.readouterr().err


def lacks(captures, fixed=None):
    options = list_variants(captures, fixed, image_count=40, steps=9)
    return {option.key: option.skip_reason for option in options}


def test_missing_images_are_skip_reasons(coco):
    photos = read_real_images(coco)
    full = lacks(RealImageSplits(photos, photos, train=photos), "dice-fixed")
    assert [key for key, reason in full.items() if reason] == [
        "mixed-25", "mixed-50", "mixed-100", "mixed-200",
        "fine-tuned-25", "fine-tuned-50", "fine-tuned-100", "fine-tuned-200",
        "real-25", "real-50", "real-100", "real-200",
    ]  # fmt: skip
    assert full["mixed-25"] == "only 24 labelled photos"
    few = lacks(RealImageSplits(photos.take(2), photos))
    assert few["camera"] == "2 style photos; a camera fit needs at least 3"
    bare = lacks(RealImageSplits(photos.take(3), photos))
    assert few["camera-translated"] == few["camera"]
    assert not bare["camera"]
    assert bare["camera-translated"] == bare["translated"]
    assert bare["fixed"] == "no recipe of this name with the suffix '-fixed'"
    few_style = "3 style photos; a transfer needs at least 20"
    assert bare["best-transfer"] == bare["translated"] == few_style
    assert bare["real"] == bare["real-5"] == bare["mixed-5"] == bare["fine-tuned-5"]
    assert bare["real"] == "no labelled train split"
    assert not bare["randomized"]


def test_learning_curves_halve_images_and_steps(coco):
    photos = read_real_images(coco)
    options = list_variants(RealImageSplits(photos, photos), None, image_count=40, steps=9)
    assert [option.key for option in options if option.key in select_variants(["renders"], options)] == [
        "randomized-2", "randomized-5", "randomized-10", "randomized-20", "randomized",
    ]  # fmt: skip
    steps = select_variants(["steps"], options)
    points = {option.key: option.variant for option in options if option.key in steps}
    assert {key: variant.steps for key, variant in points.items()} == {
        "steps-1": 1, "steps-2": 2, "steps-4": 4, "randomized": None,
    }  # fmt: skip
    assert {variant.data for variant in points.values()} == {("randomized",)}


def test_fixed_recipe_is_next_to_the_recipe(tmp_path):
    dice = load_recipe("dice")
    assert find_fixed_recipe("dice", dice) == "dice-fixed"
    assert find_fixed_recipe("shelf", dice) is None
    mine, twin = tmp_path / "mine.toml", tmp_path / "mine-fixed.toml"
    mine.write_text('base = "dice"\nname = "mine"\n')
    assert find_fixed_recipe(str(mine), dice) is None
    twin.write_text('base = "dice-fixed"\nname = "mine-fixed"\n')
    assert find_fixed_recipe(str(mine), dice) == str(twin)
    message = r"mine-fixed\.toml: categories are 1, 2, 3, 4, 5, 6, not 1, 2 as in 'dice'"
    with pytest.raises(RecipeError, match=message):
        find_fixed_recipe(str(mine), replace(dice, categories=("1", "2"), domain=dice.domain.replace_groups({"die": None})))  # fmt: skip
