"""Recipes with texture images from a folder."""

import json
import re

import cv2
import numpy as np
import pytest

from sim2cam.assets.image_folder import import_images
from sim2cam.data.card import build_card
from sim2cam.data.photo_sources import PhotoSource, write_photo_sources
from sim2cam.data.reader import read_dataset, read_header
from sim2cam.errors import InputError, RecipeError
from sim2cam.pipeline.generation import generate
from sim2cam.pipeline.recipe import Recipe, load_recipe
from sim2cam.pipeline.scene_sampling import simulate_scene
from sim2cam.scene.image_file import ImageFile
from sim2cam.scene.material import Texture
from sim2cam.surfaces.textures import load_linear_image, make_color_sampler

TEXT = """\
base = "dice"
name = "on-photos"
[pictures]
folder = "photos"
[render]
width = 96
height = 80
views = 1
[domain.layout]
die_count = 3
surface = "table"
[domain.table]
picture = { kind = "choice", options = ["none", "oak.png"] }
picture_m = 0.5
"""


def quarters():
    """Return an image of 40 x 20 pixels with red, green, blue and white quarters."""
    pixels = np.zeros((20, 40, 3), np.uint8)
    pixels[:10, :20, 0] = pixels[:10, 20:, 1] = pixels[10:, :20, 2] = pixels[10:, 20:] = 255
    return cv2.imencode(".png", np.ascontiguousarray(pixels[..., ::-1]))[1].tobytes()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/oak.png").write_bytes(quarters())
    (tmp_path / "photos/oak.toml").write_text('licence = "CC-BY-4.0"\n')
    (tmp_path / "mine.toml").write_text(TEXT)
    return tmp_path


def test_texture_is_upright_with_given_width(folder):
    (facts,) = import_images(folder / "photos")
    assert facts.color == pytest.approx((0.5, 0.5, 0.5))
    color_at = make_color_sampler(
        Texture("plain", facts.color, facts.color, 0.4, 0.0, 0.0, 0, facts.file)
    )
    x, y = np.array([0.1, 0.3, 0.5]), np.array([0.05, 0.15, 0.25])
    found = color_at((x, y[:, None], np.zeros(1)))
    red, green, blue, white = [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]
    assert found[0] == pytest.approx(np.array([blue, white, white]))  # mirrored outside the image
    assert found[1] == pytest.approx(np.array([red, green, green]))
    assert found[2] == pytest.approx(found[1])


def test_each_scene_has_texture_or_pattern(folder):
    recipe = load_recipe(str(folder / "mine.toml"))
    assert Recipe.from_json(recipe.to_json()) == recipe
    seen = set()
    for index in range(6):
        settled = simulate_scene(recipe, 1, index)
        texture = settled.scene.bodies[0].material.texture
        name = settled.sampled_values.get_str("table/picture")
        assert (texture.image is None) == (name == "none")
        if texture.image:
            assert texture.scale_m == 0.5
            assert settled.scene.get_file_paths() == (str(folder / "photos/oak.png"),)
        seen.add(name)
    assert seen == {"none", "oak.png"}


def test_width_of_texture_changes_the_image(folder):
    (folder / "photos/oak.toml").write_text("width_m = 0.9\n")
    (folder / "mine.toml").write_text(TEXT.replace('options = ["none", ', "options = ["))
    scene = simulate_scene(load_recipe(str(folder / "mine.toml")), 0, 0).scene
    assert scene.bodies[0].material.texture.scale_m == 0.9


def test_dataset_records_texture_and_licence(folder):
    (folder / "mine.toml").write_text(TEXT.replace('options = ["none", ', "options = ["))
    recipe = load_recipe(str(folder / "mine.toml"))
    options = {"workers": 1, "resume": False, "overwrite": False, "progress": lambda *_: None}
    generate(recipe, folder / "sim", count=1, seed=0, **options)
    assert read_header(folder / "sim")["licences"] == {"pictures/oak.png": "CC-BY-4.0"}
    text = (folder / "sim/shards/000000/scenes.jsonl").read_text()
    assert str(folder) not in text + json.dumps(read_header(folder / "sim"))
    assert "| pictures/oak.png | CC-BY-4.0 |" in (folder / "sim/card.md").read_text()
    again = generate(recipe, folder / "again", count=1, seed=0, scenes=folder / "sim", **options)
    assert (
        again.samples[0].rgb.read_bytes()
        == (folder / "sim/shards/000000/rgb/000000.jpg").read_bytes()
    )


def test_changed_texture_is_refused(folder):
    (facts,) = import_images(folder / "photos")
    (folder / "photos/oak.png").write_bytes(quarters() + b"more")
    load_linear_image.cache_clear()
    texture = Texture("plain", facts.color, facts.color, 0.4, 0.0, 0.0, 0, facts.file)
    with pytest.raises(InputError, match="changed since it was imported"):
        make_color_sampler(texture)
    with pytest.raises(ValueError, match=re.escape("'../../etc' is not a SHA-256 digest")):
        ImageFile("x.png", "../../etc")


def test_sticker_is_recorded_with_licence(folder):
    lines = TEXT.replace("[domain.table]", "decal_count = 3\n[domain.table]")
    words = ("which", "side", "x", "y", "angle_rad", "wear", "seed", "letter_hue", "ground_hue")
    words += ("letter_saturation", "letter_value", "ground_saturation", "ground_value")
    group = "".join(f"{word} = 0\n" for word in words)
    lines = lines.replace('options = ["none", "oak.png"]', 'options = ["none"]')
    sticker = 'on = "die"\npicture = "oak.png"\nwidth_m = 0.004\nbacked = true\n'
    (folder / "mine.toml").write_text(f"{lines}[domain.decal]\n{group}{sticker}")
    recipe = load_recipe(str(folder / "mine.toml"))
    options = {"workers": 1, "resume": False, "overwrite": False, "progress": lambda *_: None}
    generate(recipe, folder / "sim", count=1, seed=0, **options)
    assert "| pictures/oak.png | CC-BY-4.0 |" in (folder / "sim/card.md").read_text()
    assert str(folder) not in (folder / "sim/shards/000000/scenes.jsonl").read_text()


def test_pattern_stands_for_all_images_that_match(folder):
    for name in ("elm", "ash"):
        (folder / f"photos/{name}.png").write_bytes(quarters())
    options = 'options = ["none", "oak.png"]'
    assert options in TEXT
    recipe_path = folder / "mine.toml"
    recipe_path.write_text(
        TEXT.replace(options, 'options = ["none", "*.png"], weights = [0.4, 0.6]')
    )
    picture = load_recipe(str(recipe_path)).domain.groups["table"]["picture"]
    assert picture.options == ("none", "ash.png", "elm.png", "oak.png")
    assert picture.weights == pytest.approx((0.4, 0.2, 0.2, 0.2))
    recipe_path.write_text(TEXT.replace(options, 'options = ["none", "*.png"], weights = [1]'))
    with pytest.raises(RecipeError, match="choice has 2 options but 1 weights"):
        load_recipe(str(recipe_path))
    recipe_path.write_text(TEXT.replace(options, 'options = ["none", "*.jpg"]'))
    with pytest.raises(RecipeError, match=r"'domain.table.picture': no image '\*.jpg'"):
        load_recipe(str(recipe_path))


def test_sources_of_photographs_reach_the_card(folder):
    (folder / "photos/oak.toml").unlink()
    source = PhotoSource("view of blender-data: a.exr", "CC0-1.0", "Jane Doe")
    write_photo_sources(folder, {"photos/oak.png": source})
    recipe_path = folder / "mine.toml"
    recipe_path.write_text(TEXT.replace('options = ["none", "oak.png"]', 'options = ["oak.png"]'))
    recipe = load_recipe(str(recipe_path))
    assert recipe.collect_licences() == {"pictures/oak.png": "CC0-1.0"}
    assert recipe.collect_credits() == {"pictures/oak.png": "Jane Doe, view of blender-data: a.exr"}
    generate(recipe, folder / "sim", count=1, seed=0, workers=1)
    card = build_card(read_dataset(folder / "sim"))
    assert card.asset_licences["pictures/oak.png"] == (
        "CC0-1.0; Jane Doe, view of blender-data: a.exr"
    )
