import pytest

from sim2cam.data.parsing import read_toml
from sim2cam.errors import UsageError
from sim2cam.pipeline.recipe import RECIPES_FOLDER, load_recipe
from sim2cam.pipeline.recipe_reference import find_entries, list_distributions, list_tables


def list_keys(tables):
    return [(table.path, key) for table in tables for key in table.keys]


def test_every_key_has_a_meaning_and_values():
    keys = list_keys((*list_tables(), *list_distributions()))
    assert len(keys) > 900
    unclear = [
        (path, key.name)
        for path, key in keys
        if not (key.meaning and key.values) or "see ``" in key.meaning.lower()
    ]
    assert unclear == []


def test_every_table_of_the_shipped_recipes_is_listed():
    paths = {table.path for table in list_tables()}
    for file in RECIPES_FOLDER.rglob("*.toml"):
        tables = read_toml(file, 1 << 20, "recipe")
        used = {f"domain.{group}" for group in tables.get("domain", {})}
        used |= {name for name, value in tables.items() if isinstance(value, dict)}
        assert used <= paths | {"domain", "require"}, file


def test_a_default_is_the_value_without_the_key():
    train = load_recipe("dice-fixed").train
    (table,) = (table for table in list_tables() if table.path == "train")
    batch = next(key for key in table.keys if key.name == "batch")
    assert batch.default == str(train.batch)


@pytest.mark.parametrize("path", ["domain.light.warmth", "light/warmth", "light.warmth"])
def test_a_factor_is_found_by_its_path(path):
    (table,) = find_entries(path)
    assert table.path == "domain.light"
    assert [(key.name, key.values) for key in table.keys] == [("warmth", "-1 to 1")]


def test_units_follow_from_names():
    (table,) = find_entries("domain.die")
    units = {key.name: key.unit for key in table.keys}
    assert units["edge_m"] == "m"
    assert units["density_kg_m3"] == "kg/m³"
    assert units["friction"] == ""


def test_a_table_includes_its_subtables():
    assert [table.path for table in find_entries("train")] == [
        "train", "train.backbone", "train.fine_tuning", "train.adapt",
    ]  # fmt: skip


def test_a_name_of_two_tables_gives_both():
    assert [table.path for table in find_entries("sensor")] == ["domain.sensor", "sensor"]


def test_an_unknown_path_suggests_a_close_one():
    with pytest.raises(UsageError, match=r"Did you mean domain\.light\.warmth"):
        find_entries("light/warmht")
