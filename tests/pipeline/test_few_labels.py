"""`sim2cam train` from weights, and with captures without labels."""

import json

import pytest

from sim2cam.cli.main import main
from sim2cam.errors import RecipeError
from sim2cam.models.prediction import load_detector
from sim2cam.pipeline.recipe import load_recipe

RECIPE = """
base = "dice"
name = "tiny"
[train]
steps = 2
batch = 2
crop_px = 64
reader = false
"""


@pytest.fixture
def recipe(tmp_path):
    """A function that writes a recipe of tiny trainings with more in its [train]."""

    def make(more=""):
        path = tmp_path / "tiny.toml"
        path.write_text(RECIPE + more)
        return path

    return make


def train(recipe, out, *flags):
    return main(["train", str(recipe), "--out", str(out), "--workers", "1", "-q", *map(str, flags)])


def test_weights_are_tuned_on_photos_and_brought_to_captures(sim, coco, recipe, tmp_path):
    first, frozen, adapted = (tmp_path / name for name in ("first", "frozen", "adapted"))
    assert train(recipe(), first, "--data", sim.root) == 0
    weights = first / "weights.safetensors"
    few = recipe("[train.fine_tuning]\nresidual = true\n")
    flags = ["--data", coco, "--from", weights, "--limit", "5"]
    assert train(few, frozen, *flags) == 0
    card = load_detector(frozen / "weights.safetensors").card
    assert card.residual
    assert [(part.name, part.images) for part in card.data] == [("coco", 5)]
    assert [part.name for part in card.start.data] == ["sim"]
    assert train(few, frozen, *flags, "--resume") == 0
    dann = recipe("[train.adapt]\nmethod = 'dann'\n")
    assert train(dann, adapted, "--data", sim.root, "--from", weights, "--captures", coco) == 0
    card = json.loads((adapted / "weights.json").read_text())
    assert card["captures"]["origins"] == {"real": 24}
    assert card["config"]["fine_tuning"] == {
        "head_rate": 0.25,
        "layer_decay": 0.7,
        "residual": False,
    }


def test_flags_that_do_not_go_together_are_refused(sim, coco, recipe, tmp_path, capsys):
    plain, out = recipe(), tmp_path / "out"
    assert train(plain, out, "--data", sim.root, "--captures", coco) == 2
    assert (
        "nothing is done with them. Name a method in the recipe's [train.adapt]"
        in capsys.readouterr().err
    )
    start = out / "weights.safetensors"
    assert train(plain, out, "--data", sim.root, "--from", start, "--overwrite") == 2
    told = f"--from {start}: lies in --out, where it would be replaced. Choose another."
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
def test_recipes_with_impossible_settings_are_refused(more, message, recipe):
    with pytest.raises(RecipeError, match=message):
        load_recipe(str(recipe(more)))
