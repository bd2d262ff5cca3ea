"""Recipes with sampled environment maps."""

import json
import re

import cv2
import numpy as np
import pytest

from sim2cam.data.reader import read_dataset, read_header
from sim2cam.errors import InputError, RecipeError, UsageError
from sim2cam.pipeline.generation import generate
from sim2cam.pipeline.recipe import Recipe, load_recipe
from sim2cam.pipeline.scene_sampling import check_change, simulate_scene
from sim2cam.randomize.counterfactual import Intervention

TEXT = """\
base = "dice"
name = "under-skies"
[skies]
folder = "skies"
[render]
width = 96
height = 80
views = 1
[domain.layout]
die_count = 3
distractor_count = 0
[domain.sky]
turn_rad = { kind = "uniform", low = 0.0, high = 6.2832 }
level = { kind = "uniform", low = 0.5, high = 1.0 }
"""


def sunny(rows=64):
    radiance = np.full((rows, 2 * rows, 3), 0.4, np.float32)
    radiance[10:13, 20:23] = 300.0
    return cv2.imencode(".hdr", radiance)[1].tobytes()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "skies/day").mkdir(parents=True)
    (tmp_path / "skies/day/noon.hdr").write_bytes(sunny())
    (tmp_path / "skies/day/noon.toml").write_text('licence = "CC0-1.0"\n')
    grey = np.full((64, 128, 3), 120, np.uint8)
    (tmp_path / "skies/grey.png").write_bytes(cv2.imencode(".png", grey)[1].tobytes())
    (tmp_path / "mine.toml").write_text(TEXT)
    return tmp_path


def test_each_scene_has_a_sky_at_its_level(folder):
    recipe = load_recipe(str(folder / "mine.toml"))
    assert Recipe.from_json(recipe.to_json()) == recipe
    assert [facts.name for facts in recipe.skies] == ["day/noon.hdr", "grey.png"]
    found = {}
    for index in range(8):
        settled = simulate_scene(recipe, 0, index)
        light, drawn = settled.scene.environment, settled.sampled_values
        name = drawn.get_str("sky/picture")
        found[name] = light
        facts = next(facts for facts in recipe.skies if facts.name == name)
        assert light.environment_map.radiance_scale * facts.radiance == pytest.approx(
            drawn.get_float("sky/level")
        )
        assert light.environment_map.turn_rad == drawn.get_float("sky/turn_rad")
    noon, grey = found["day/noon.hdr"], found["grey.png"]
    assert (noon.environment_map.is_sun_removed, grey.environment_map.is_sun_removed) == (
        True,
        False,
    )
    assert len(noon.lamps) == 1
    assert not grey.lamps


def test_none_keeps_sampled_light(folder):
    (folder / "plain.toml").write_text('base = "dice"\n')
    text = TEXT.replace("[domain.sky]", '[domain.sky]\npicture = "none"')
    (folder / "mine.toml").write_text(text)
    with_sky = simulate_scene(load_recipe(str(folder / "mine.toml")), 0, 1)
    base = TEXT.split("[domain.sky]", maxsplit=1)[0].replace('[skies]\nfolder = "skies"\n', "")
    (folder / "plain.toml").write_text(base)
    without = simulate_scene(load_recipe(str(folder / "plain.toml")), 0, 1)
    assert with_sky.scene == without.scene


def test_sky_without_sun_adds_no_lamp(folder):
    text = TEXT.replace("[domain.sky]", '[domain.sky]\npicture = "day/noon.hdr"\nsun = false')
    (folder / "mine.toml").write_text(text)
    light = simulate_scene(load_recipe(str(folder / "mine.toml")), 0, 0).scene.environment
    assert not light.lamps
    assert not light.environment_map.is_sun_removed


@pytest.mark.usefixtures("opengl")
def test_dataset_records_skies_and_licences(folder):
    recipe = load_recipe(str(folder / "mine.toml"))
    options = {"workers": 1, "resume": False, "overwrite": False, "progress": lambda *_: None}
    generate(recipe, folder / "sim", count=4, seed=0, **options)
    header = read_header(folder / "sim")
    assert header["licences"] == {"skies/day/noon.hdr": "CC0-1.0"}
    text = json.dumps(header) + (folder / "sim/shards/000000/scenes.jsonl").read_text()
    assert str(folder) not in text
    card = (folder / "sim/card.md").read_text()
    assert "| skies/day/noon.hdr | CC0-1.0 |" in card
    assert "| skies/grey.png | licence not recorded |" in card
    again = generate(recipe, folder / "again", count=4, seed=0, scenes=folder / "sim", **options)
    first = read_dataset(folder / "sim")
    assert [s.rgb.read_bytes() for s in again.samples] == [
        s.rgb.read_bytes() for s in first.samples
    ]


def test_digest_depends_on_sky_content_not_path(folder):
    once = load_recipe(str(folder / "mine.toml")).digest()
    (folder / "skies").rename(folder / "elsewhere")
    (folder / "mine.toml").write_text(TEXT.replace('"skies"', '"elsewhere"'))
    assert load_recipe(str(folder / "mine.toml")).digest() == once
    (folder / "elsewhere/day/noon.hdr").write_bytes(sunny(32))
    assert load_recipe(str(folder / "mine.toml")).digest() != once


BAD = [
    (TEXT.replace('[skies]\nfolder = "skies"\n', ""), "no environment maps to sample. Set a folder of images in [skies]."),
    (TEXT.replace('folder = "skies"', 'fodler = "skies"'), "unknown key 'skies.fodler'. Did you mean 'folder'? Allowed: folder"),
    (TEXT.replace('folder = "skies"', 'folder = "no"'), "no such folder. Check the path."),
    (TEXT.replace("[domain.sky]", '[domain.sky]\npicture = "nono.hdr"'), "'domain.sky.picture' cannot be 'nono.hdr'. Did you mean 'day/noon.hdr'? Allowed: day/noon.hdr, grey.png, none."),
    (TEXT.replace("low = 0.5, high = 1.0", "low = 0.0, high = 1.0"), "'domain.sky.level' cannot be 0.0. Allowed: numbers >= 1e-06."),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_sky_recipe_is_refused(folder, text, message):
    (folder / "mine.toml").write_text(text)
    with pytest.raises((RecipeError, InputError), match=re.escape(message)):
        load_recipe(str(folder / "mine.toml"))


def test_change_to_unknown_sky_is_refused(folder):
    recipe = load_recipe(str(folder / "mine.toml"))
    check_change(recipe, Intervention(settings={"sky/picture": "grey.png"}))
    with pytest.raises(UsageError, match=re.escape("Allowed: day/noon.hdr, grey.png, none")):
        check_change(recipe, Intervention(settings={"sky/picture": "gray.png"}))
