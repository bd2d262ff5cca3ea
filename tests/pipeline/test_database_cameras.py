import json

import numpy as np
import pytest
from camera_databases import NOISE, write_databases

from sim2cam.data.camera_databases import installed
from sim2cam.data.camera_databases.noise_profiles import read_noise_profiles
from sim2cam.data.card import build_card
from sim2cam.errors import BackendError, RecipeError
from sim2cam.pipeline import doctor
from sim2cam.pipeline.generation import generate
from sim2cam.pipeline.recipe import Recipe, load_recipe, parse_recipe
from sim2cam.randomize.sampling import sample_factors
from sim2cam.render.renderer import get_renderer
from sim2cam.scene.scene import Scene

SENSOR, LENS = {"kind": "database"}, {"kind": "database"}
SMALL = {"base": "dice", "render": {"width": 96, "height": 80, "views": 2, "channels": []}}


@pytest.fixture
def databases(tmp_path, monkeypatch):
    folder = write_databases(tmp_path / "share")
    monkeypatch.setenv("XDG_DATA_DIRS", str(folder))
    return folder


@pytest.fixture
def no_databases(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_DIRS", str(tmp_path))
    monkeypatch.setattr(installed, "find_spec", lambda name: None)


def test_each_camera_is_one_of_the_database(databases):
    recipe = parse_recipe(SMALL | {"sensor": SENSOR, "lens": LENS})
    profiles = {
        f"{profile.camera}, ISO {profile.iso:g}": profile.to_sensor_factors()
        for profile in read_noise_profiles(databases / "darktable/noiseprofiles.json")
    }
    sensors, lenses = set(), set()
    for index in range(8):
        values = sample_factors(recipe.domain, 0, index, views=2)
        for camera in recipe.compose_scene(values).cameras:
            factors = profiles[camera.model.sensor]
            assert {name: getattr(camera.sensor, name) for name in factors} == factors
            assert camera.sensor.vignetting == camera.lens.p1 == camera.lens.p2 == 0
            sensors.add(camera.model.sensor)
            lenses.add((camera.model.lens, camera.lens.k1, camera.glass.falloff.k1))
    assert sensors == {"Acme One, ISO 100", "Acme One, ISO 800", "Bolt B-2, ISO 1600"}
    names = {name for name, _, _ in lenses}
    assert len(names) == len(lenses) <= 6
    assert {name.split(" mm")[0] for name in names} == {
        "Acme Pt 24, 24", "Acme Poly3 28, 28", "Acme Poly5 5, 5.5",
    }  # fmt: skip


def test_other_factors_and_their_samples_stay(databases):
    plain = parse_recipe(SMALL)
    recipe = parse_recipe(SMALL | {"sensor": SENSOR, "lens": LENS})
    before, after = (sample_factors(r.domain, 3, 1, views=2).values for r in (plain, recipe))
    changed = {path for path in after if before.get(path) != after[path]}
    assert {path.split("/")[0] for path in changed} == {
        "view", "lens", "sensor", "lateral_color", "falloff", "camera_model",
    }  # fmt: skip
    assert not {"view/0/tilt_rad", "lens/0/shift_x", "sensor/0/blur_px"} & changed


def test_patterns_and_ranges_select(databases):
    recipe = parse_recipe(
        SMALL
        | {"sensor": SENSOR | {"model": "acme *", "iso": [200, 6400]}, "lens": LENS | {"model": "*poly3*"}}
    )  # fmt: skip
    groups = recipe.domain.groups
    assert set(groups["camera_model"]["sensor"].values) == {"Acme One, ISO 800"}
    assert all("Poly3" in name for name in groups["camera_model"]["lens"].values)
    narrow = SMALL | {"lens": LENS, "domain": {"view": {"fov_rad": 0.8}}}
    with pytest.raises(RecipeError, match=r"'lens': no usable lens .* of 0\.8 to 0\.8 rad"):
        parse_recipe(narrow)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"sensor": {"model": "Nokia*"}}, r"'sensor': no camera in the database matches 'Nokia\*'"),
        ({"lens": {"model": "Nokia*"}}, r"'lens': no usable lens in the database matches 'Nokia\*'"),
        ({"sensor": {"sha256": "00"}}, "'sensor.sha256' is 00, but the installed"),
        ({"sensor": {"iso": 3}}, "'sensor.iso'"),
        ({"sensor": {"kind": "file"}}, "'sensor.kind'"),
        ({"sensor": {"isos": [1, 2]}}, "unknown key 'sensor.isos'. Did you mean 'iso'"),
    ],
)  # fmt: skip
def test_what_the_database_lacks_is_refused(databases, table, problem):
    with pytest.raises(RecipeError, match=problem):
        parse_recipe(SMALL | table)


def test_broken_domain_is_reported_first(databases):
    for domain in (3, {"view": 3}):
        with pytest.raises(RecipeError, match="domain"):
            parse_recipe({"sensor": SENSOR, "lens": LENS, "domain": domain})


@pytest.mark.parametrize(("key", "package"), [("sensor", "'darktable'"), ("lens", "lensfunpy")])
def test_missing_database_names_its_package(no_databases, key, package):
    with pytest.raises(BackendError, match=f"(?s)Install Debian's package .*{package}"):
        parse_recipe(SMALL | {key: {"kind": "database"}})
    assert parse_recipe(SMALL | {key: False}).digest() == parse_recipe(SMALL).digest()


def test_digest_follows_the_database(databases):
    tables = SMALL | {"sensor": SENSOR}
    recipe = parse_recipe(tables)
    assert recipe.digest() == parse_recipe(tables).digest() != parse_recipe(SMALL).digest()
    pinned = SMALL | {"sensor": SENSOR | {"sha256": recipe.sensor.sha256}}
    assert parse_recipe(pinned) == recipe
    (databases / "darktable/noiseprofiles.json").write_text(json.dumps(NOISE, indent=1))
    assert parse_recipe(tables).digest() != recipe.digest()
    with pytest.raises(RecipeError, match="Install that version"):
        parse_recipe(pinned)


def test_recipe_and_scene_need_no_database_later(databases, no_databases, monkeypatch):
    monkeypatch.setenv("XDG_DATA_DIRS", str(databases))
    recipe = parse_recipe(SMALL | {"sensor": SENSOR, "lens": LENS})
    monkeypatch.setenv("XDG_DATA_DIRS", "/nowhere")
    assert Recipe.from_json(recipe.to_json()) == recipe
    scene = recipe.compose_scene(sample_factors(recipe.domain, 0, 0, views=2))
    restored = Scene.from_json(scene.to_json())
    assert restored == scene
    images = []
    for each in (scene, restored):
        with get_renderer().open(each) as stage:
            images.append(stage.shoot(each.cameras[0], ()).image)
    assert images[0] == images[1]


def test_card_lists_licences(databases, tmp_path):
    recipe = parse_recipe(SMALL | {"sensor": SENSOR, "lens": LENS})
    dataset = generate(recipe, tmp_path / "sim", count=2, seed=0)
    licences = build_card(dataset).asset_licences
    assert licences["darktable noise profiles"] == "GPL-3.0-or-later"
    assert licences["Lensfun lens profiles"] == "CC-BY-SA-3.0"
    models = [scene["scene"]["cameras"][0]["model"] for scene in read_lines(dataset.root)]
    assert set(models[0]) == {"sensor", "lens"}


def read_lines(root):
    return [json.loads(line) for line in next(root.glob("shards/*/scenes.jsonl")).open()]


def test_fisheye_group_is_replaced(databases):
    recipe = parse_recipe(
        {"base": "dice-fisheye", "lens": LENS, "domain": {"view": {"fov_rad": {"kind": "uniform", "low": 0.5, "high": 1.5}}}}
    )  # fmt: skip
    assert "fisheye" not in recipe.domain
    widths = np.array(recipe.domain.get_factor("view/fov_rad").values)
    assert 0.5 <= widths.min() < widths.max() <= 1.5


def test_field_of_view_that_follows_another_factor_is_refused(databases):
    follows = {"kind": "same", "factor": "light/warmth"}
    with pytest.raises(RecipeError, match="must not follow 'light/warmth'"):
        parse_recipe(SMALL | {"lens": LENS, "domain": {"view": {"fov_rad": follows}}})


def test_doctor_names_the_databases(databases, monkeypatch):
    check = doctor.check_camera_databases()
    assert check.ok
    assert not check.required
    assert f"{databases}/darktable/noiseprofiles.json" in check.status
    assert f"{databases}/lensfun/version_1" in check.status


def test_doctor_names_packages_of_missing_databases(no_databases):
    check = doctor.check_camera_databases()
    assert check.ok
    assert "'darktable'" in check.status
    assert "lensfunpy" in check.status


def test_shipped_recipes_need_no_database(no_databases):
    assert load_recipe("dice-camera").sensor is None
