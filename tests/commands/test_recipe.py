"""``sim2cam recipe`` explains keys; ``sim2cam new --kind`` starts a recipe from a kind of objects."""

import json

import pytest

from sim2cam import commands
from sim2cam.cli import main
from sim2cam.errors import UsageError
from sim2cam.objects.kind import list_kinds
from sim2cam.pipeline.new_recipe import KIND_BASES
from sim2cam.pipeline.recipe import load_recipe


def test_overview_has_a_line_per_table(capsys):
    assert main(["recipe"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    for table in ("domain.light", "domain.sensor", "render", "train", "adapt.certificate"):
        assert sum(line.startswith(f"{table} ") for line in lines) == 1


@pytest.mark.parametrize(
    ("path", "lines"),
    [
        ("light/warmth", ["domain.light", "  warmth: -1 to 1; required"]),
        ("train", ["train", "  steps: whole, 1 or more; default: 3000"]),
        ("sensor.blur_px", ["domain.sensor", "  blur_px: 0 to 50; px; required"]),
    ],
)
def test_key_is_explained_with_values_unit_and_default(path, lines, capsys):
    assert main(["recipe", "--explain", path]) == 0
    text = capsys.readouterr().out
    assert set(lines) <= set(text.splitlines())
    assert "`" not in text.splitlines()[1]


def test_explanation_is_a_value_in_python_and_json(capsys):
    (table,) = commands.recipe(explain="adapt.certificate").tables
    assert main(["recipe", "--explain", "adapt.certificate", "--json"]) == 0
    (printed,) = json.loads(capsys.readouterr().out)["tables"]
    assert [key.name for key in table.keys] == [key["name"] for key in printed["keys"]]


def test_unknown_path_is_answered_with_close_ones():
    with pytest.raises(UsageError, match=r"no recipe has 'light.wramth'\. Did you mean "):
        commands.recipe(explain="light.wramth")


def test_every_kind_has_a_base():
    assert KIND_BASES.keys() == set(list_kinds())


@pytest.mark.parametrize("kind", KIND_BASES)
def test_recipe_of_a_kind_samples_it(kind, tmp_path):
    path = commands.new(tmp_path / "mine", kind=kind).recipe
    assert kind in load_recipe(str(path)).domain.groups
    assert f"sim2cam recipe --explain {kind}`" in path.read_text()


@pytest.mark.parametrize("options", [{}, {"kind": "die", "assets": "meshes"}])
def test_either_meshes_or_a_kind_is_required(options, tmp_path):
    with pytest.raises(UsageError, match="give either --assets FOLDER or --kind KIND"):
        commands.new(tmp_path / "mine", **options)
