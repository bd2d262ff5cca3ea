"""Recipes with old keys are refused; the error names the file, the old key and the new one."""

import dataclasses
from typing import get_args, get_type_hints

import pytest

from sim2cam.errors import InputError
from sim2cam.pipeline.recipe import Recipe, load_recipe
from sim2cam.pipeline.renamed_keys import RENAMED_KEYS, RENAMED_VALUES
from sim2cam.pipeline.requirements import MEASURES


def is_recipe_key(place):
    kind = Recipe
    for name in place.split("."):
        kinds = [k for k in (kind, *get_args(kind)) if dataclasses.is_dataclass(k)]
        hints = get_type_hints(kinds[0]) if kinds else {}
        if name not in hints:
            return False
        kind = hints[name]
    return True


def format_recipe(place, value):
    *section, key = place.split(".")
    return f"base = 'dice'\n[{'.'.join(section)}]\n{key} = {value}\n"


@pytest.mark.parametrize(("old", "new"), RENAMED_KEYS.items(), ids=RENAMED_KEYS)
def test_old_key_is_refused_with_new_one(tmp_path, old, new):
    assert not is_recipe_key(old)
    assert is_recipe_key(new)
    path = tmp_path / "old.toml"
    path.write_text(format_recipe(old, "1"))
    (tmp_path / "mine.toml").write_text("base = 'old.toml'\n")
    with pytest.raises(InputError) as caught:
        load_recipe(str(tmp_path / "mine.toml"))
    parent = old.rpartition(".")[0]
    above = f"'{parent}' is now '{RENAMED_KEYS[parent]}', " if parent in RENAMED_KEYS else ""
    assert str(caught.value) == f"{path}: {above}'{old}' is now '{new}'. Use the new names."


@pytest.mark.parametrize(
    ("pattern", "old", "new"),
    [(key, old, new) for key, values in RENAMED_VALUES.items() for old, new in values.items()],
)
def test_old_value_is_refused_with_new_one(tmp_path, pattern, old, new):
    assert old not in MEASURES
    assert new in MEASURES
    place, path = pattern.replace("*", "mine"), tmp_path / "old.toml"
    path.write_text(format_recipe(place, f"'{old}'") + "within = [[0.0, 1.0]]\n")
    with pytest.raises(InputError) as caught:
        load_recipe(str(path))
    assert str(caught.value) == f"{path}: '{place}': '{old}' is now '{new}'. Use the new names."


def test_all_old_names_of_a_file_are_listed(tmp_path):
    path = tmp_path / "old.toml"
    path.write_text(
        "base = 'dice'\n[train]\nreader = true\n[require.reader]\nmeasure = 'least_box_px'\nwithin = [[9, 99]]\n"
    )
    with pytest.raises(InputError) as caught:
        load_recipe(str(path))
    assert str(caught.value) == (
        f"{path}: 'train.reader' is now 'train.roi_classifier', "
        "'require.reader.measure': 'least_box_px' is now 'min_box_px'. Use the new names."
    )
