"""`sim2cam domain fit` as a user meets it."""

import json

import numpy as np
import pytest

from sim2cam import images
from sim2cam.cli import main
from sim2cam.experiments import domain_fit
from sim2cam.experiments.domain_gap import ImageFeatures
from sim2cam.files import write_bytes
from sim2cam.pipeline.recipe import load_recipe

pytest.importorskip("optuna")

RECIPE = """
base = "dice"
name = "few"
[render]
width = 96
height = 96
[domain.layout]
die_count = 2
distractor_count = 0
[domain.light]
lamp_count = 1
"""


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    rng = np.random.default_rng(0)
    for number in range(20):
        rgb = np.kron(rng.integers(60, 200, (12, 16, 3)), np.ones((8, 8, 1))).astype(np.uint8)
        write_bytes(folder / f"{number:02}.jpg", images.encode_jpeg(rgb, 90))
    (tmp_path / "few.toml").write_text(RECIPE)
    return folder


@pytest.fixture
def quick(monkeypatch):
    """Renders that are numbers: warmth shows in how yellow they are, and nothing else does."""

    def looks_by(recipe, ways, *, count, seed, keep_count, **_):
        rng = np.random.default_rng(seed)
        warmth = recipe.domain.get_factor("light/warmth")
        drawn = rng.uniform(warmth.low, warmth.high, count)
        looks = 0.01 * rng.standard_normal((count, 37))
        looks[:, 9] += 0.1 * drawn
        picture = np.full((8, 8, 3), 90, np.uint8)
        values = tuple({"light/warmth": float(value)} for value in drawn)
        return tuple(ImageFeatures(looks, values, (picture,) * keep_count) for _ in ways)

    monkeypatch.setattr(domain_fit, "extract_render_features", looks_by)
    monkeypatch.setattr(domain_fit, "measure_stage_gaps", lambda *_, **__: ((),))


def fit(photos, out, *more):
    recipe = str(photos.parent / "few.toml")
    return main(["domain", "fit", recipe, "--captures", str(photos), "--out", str(out), *more])


def test_it_writes_a_recipe_a_page_and_its_numbers(photos, quick, tmp_path, capsys):
    out = tmp_path / "out"
    few = ("--trials", "4", "--count", "20", "--factors", "light/warmth")
    assert fit(photos, out, *few, "--json") == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert "light/warmth: -1 to 1 -> " in said.err
    recipe = load_recipe(str(out / "few-fitted.toml"))
    assert recipe.name == "few-fitted"
    warmth = recipe.domain.get_factor("light/warmth")
    assert [warmth.low, warmth.high] == found["ranges"][0]["after"]
    assert (
        recipe.domain.groups["layout"]
        == load_recipe(str(tmp_path / "few.toml")).domain.groups["layout"]
    )
    assert (out / "fit.html").is_file()
    saved = json.loads((out / "fit.json").read_text())
    assert saved["ranges"] == found["ranges"]
    assert len(saved["trials"]) == 4

    assert fit(photos, out, *few) == 1
    assert "is not empty. Add --resume to continue or --overwrite" in capsys.readouterr().err
    assert fit(photos, out, *few, "--resume", "-q") == 0
    assert json.loads((out / "fit.json").read_text()) == saved
    assert fit(photos, out, *few, "--resume", "--seed", "1") == 1
    assert "trials have another seed (0, not 1)" in capsys.readouterr().err
    assert fit(photos, out, *few, "--overwrite", "--seed", "1", "-q") == 0


BAD = [
    # (arguments, exit code, end of the message)
    (["--trials", "0"], 2, "--trials must be 1 or more, not 0\n"),
    (["--count", "3"], 2, "--count must be 10 or more, not 3\n"),
    (["--factors", "layout/die_count"], 2, "is not a group or factor with a range. "),
    (["--limit", "4"], 2, "4 real images are too few"),
    (["--weights", "none.safetensors"], 1, "none.safetensors"),
]


@pytest.mark.parametrize(("arguments", "code", "message"), BAD)
def test_what_cannot_be_fitted_is_refused(
    arguments, code, message, photos, quick, tmp_path, capsys
):
    assert fit(photos, tmp_path / "out", *arguments) == code
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said


@pytest.mark.slow
def test_with_renders_from_start_to_end(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(domain_fit, "GAP_SCENES", 10)
    out = tmp_path / "out"
    assert fit(photos, out, "--trials", "1", "--count", "10", "--factors", "table,light") == 0
    stages = json.loads((out / "fit.json").read_text())["gap_stages"]
    assert [step["stage"] for step in stages][:2] == ["raw render", "lens"]
    assert (out / "fit.html").stat().st_size > 20_000
