import os
from pathlib import Path

import pytest
import trimesh

from sim2cam.errors import RecipeError, UsageError
from sim2cam.pipeline import asset_folder
from sim2cam.pipeline.recipe import RECIPES_FOLDER, Recipe, load_recipe
from sim2cam.randomize.domain_checks import check_settings
from sim2cam.randomize.references import compute_extremes
from sim2cam.randomize.sampling import sample_factors

URDF = """\
<robot name="cube">
  <link name="cube"><visual><geometry><box size="0.05 0.04 0.03"/></geometry></visual></link>
</robot>
"""


@pytest.fixture
def small_meshes(tmp_path, monkeypatch):
    """Put small shapes in place of the meshes of LM-O and pybullet_data, which take long to measure."""
    models, package = tmp_path / "lmo/models", tmp_path / "package"
    models.mkdir(parents=True)
    for number in (1, 5, 6, 8, 9, 10, 11, 12):
        trimesh.creation.box((100, 80, 60)).export(models / f"obj_{number:06d}.ply")
    names = ("mug", "teddy_vhacd", "lego", "jenga", "domino", "cube_small")
    folders = ("objects/", "", "lego/", "jenga/", "domino/", "")
    for name in ("random_urdfs/000/000", *map("".join, zip(folders, names, strict=True))):
        path = package / f"{name}.urdf"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(URDF)
    monkeypatch.setenv("SIM2CAM_REAL", str(tmp_path))
    monkeypatch.setattr(asset_folder, "_find_package_folder", lambda *_: package)


def test_shipped_recipe_of_lmo_loads_and_survives_json(small_meshes):
    recipe = load_recipe("lmo")
    assert recipe.name == "lmo"
    assert len(recipe.categories) == 8
    assert Recipe.from_json(recipe.to_json()) == recipe


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(path.stem, marks=[pytest.mark.slow] if path.stem == "lmo" else [])
        for path in sorted(RECIPES_FOLDER.glob("*.toml"))
    ],
)
def test_shipped_recipes_load_and_survive_json(name):
    if name == "lmo" and not Path(os.environ.get("SIM2CAM_REAL", ""), "lmo/models").is_dir():
        pytest.skip("needs the meshes of LM-O: set SIM2CAM_REAL to the folder with lmo/models")
    recipe = load_recipe(name)
    assert recipe.name == name
    assert Recipe.from_json(recipe.to_json()) == recipe


def test_digest_depends_on_rendering_settings_only(tmp_path):
    plain = load_recipe("dice")
    (tmp_path / "a.toml").write_text('base = "dice"\n[train]\nsteps = 5\n')
    (tmp_path / "b.toml").write_text('base = "dice"\n[render]\nviews = 2\n')
    assert load_recipe(str(tmp_path / "a.toml")).digest() == plain.digest()
    assert load_recipe(str(tmp_path / "b.toml")).digest() != plain.digest()


def test_missing_groups_are_not_in_the_settings():
    facts = load_recipe("dice").collect_rendering_settings()
    assert not {"stereo", "depth_camera"} & facts["domain"].keys()
    full = load_recipe("dice-full").collect_rendering_settings()
    assert "speckle_contrast" not in full["domain"]["depth_camera"]


def test_keys_of_a_base_can_be_disabled(tmp_path):
    groups = (
        "mosaic",
        "processing",
        "automatics",
        "defocus",
        "lateral_color",
        "field_blur",
        "glare",
    )
    out = "".join(f"{name} = false\n" for name in (*groups, "dirt", "droplets"))
    (tmp_path / "plain.toml").write_text(
        f"base = 'dice-camera'\nname = 'dice'\n[render]\nchannels = ['depth', 'ids']\n[domain]\n{out}"
    )
    plain, camera = load_recipe(str(tmp_path / "plain.toml")), load_recipe("dice-camera")
    dice = load_recipe("dice").domain
    assert plain.domain.replace_groups({"sensor": dice.groups["sensor"]}) == dice
    assert plain.domain.groups["sensor"] == camera.domain.groups["sensor"]
    (tmp_path / "again.toml").write_text(
        "base = 'plain.toml'\n[domain.dirt]\ncoverage = 0.1\nloss = 0.2"
    )
    assert "dirt/seed" not in load_recipe(str(tmp_path / "again.toml")).domain
    (tmp_path / "free.toml").write_text(
        "base = ['dice-film', 'dice-balanced']\n[render]\nsequence = false\nchannels = []\n"
        "[require]\nsixes = false"
    )
    free = load_recipe(str(tmp_path / "free.toml"))
    assert free.render.sequence is None
    assert "sixes" not in free.require


def test_distribution_is_replaced_whole(tmp_path):
    path = tmp_path / "r.toml"
    path.write_text('base = "dice"\n[domain.light]\nwarmth = { kind = "constant", value = 0.0 }\n')
    recipe, base = load_recipe(str(path)), load_recipe("dice")
    assert recipe.domain.get_factor("light/warmth").kind == "constant"
    assert recipe.domain.get_factor("light/horizon") == base.domain.get_factor("light/horizon")


BAD = [
    # (text, exact message after the path)
    ("base = 'dice'\nnmae = 'x'", "unknown key 'nmae'. Did you mean 'name'? Allowed: adapt, assets, categories, domain, lens, name, pictures, render, require, sensor, skies, train"),
    ("base = 'dice'\n[domain.light]\nwarmht = 1", "unknown key 'domain.light.warmht'. Did you mean 'warmth'? Allowed: flicker_hz, flicker_phase_rad, horizon, lamp_count, near_count, sky_level, temperature_k, warmth, white_k"),
    ("base = 'dice'\n[domain.light.warmth]\nkind='uniform'\nlow=2.0\nhigh=1.0", "'domain.light.warmth.uniform': uniform needs low <= high, not 2.0 > 1.0"),
    ("base = 'dice'\n[domain.light.warmth]\nkind='uniform'\nlow='a'\nhigh=1.0", "'domain.light.warmth.uniform.low': Input should be a valid number, unable to parse string as a number (found \"a\")."),
    ("base = 'dice'\n[domain.light.warmth]\nkind='gauss'\nlow=0.0", "'domain.light.warmth': unknown kind 'gauss'. Allowed: choice, clip, column, constant, curve, each, given, integers, log_uniform, normal, power, product, quota, rounded, same, schedule, shared, sum, uniform"),
    ("base = 'dice'\n[domain.light.warmth]\nkind='uniform'\nlow=0.0\nhihg=1.0", "unknown key 'domain.light.warmth.hihg'. Did you mean 'high'? Allowed: high, kind, low"),
    ("base = 'dice'\n[domain.layout.die_count]\nkind='constant'\nvalue='three'", "'domain.layout.die_count' cannot be 'three'. Allowed: whole numbers from 1 to 128."),
    ("base = 'dice'\n[domain.layout.die_count]\nkind='integers'\nlow=1\nhigh=500", "'domain.layout.die_count' cannot be 500. Allowed: whole numbers from 1 to 128."),
    ("base = 'dice-camera'\n[domain]\nmosaik = false", "unknown key 'domain.mosaik'. Did you mean 'mosaic'? Allowed: "),
    ("base = 'dice'\n[domain]\nlight = false", "key 'domain.light' is missing."),
    ("base = 'dice'\n[domain.layout]\ndie_count = 3.7", "'domain.layout.die_count' cannot be 3.7. Allowed: whole numbers from 1 to 128. Use kind = \"integers\"."),
    ("base = 'dice'\n[domain.layout.die_count]\nkind='uniform'\nlow=2\nhigh=5", "'domain.layout.die_count' cannot be 2.0. Allowed: whole numbers from 1 to 128. Use kind = \"integers\"."),
    ("base = 'dice'\n[domain.layout]\ndie_count = { kind = 'sum', of = [0.5, { kind = 'integers', low = 2, high = 5 }] }", "'domain.layout.die_count' cannot be 2.5. Allowed: whole numbers"),
    ("base = 'dice'\n[domain.table]\nseed = { kind = 'uniform', low = 0, high = 9 }", "'domain.table.seed' cannot be 0.0. Allowed: whole numbers from 0 to "),
    ("base = 'dice-camera'\n[domain.mosaic]\nbits = 8.5", "'domain.mosaic.bits' cannot be 8.5. Allowed: whole numbers from 8 to 16. Use"),
    ("base = 'dice-camera'\n[domain.droplets]\ncount = { kind = 'normal', mean = 3, std = 1, low = 0, high = 9 }", "'domain.droplets.count' cannot be 0.0. Allowed: whole numbers from 0 to 200. Use"),
    ("base = 'chessboard'\n[domain.board]\nrows = { kind = 'product', of = [0.5, { kind = 'same', factor = 'board/*/columns' }] }", "'domain.board.rows' cannot be "),
    ("base = 'dice'\n[domain.die]\nthrow_angle_rad = inf", "'domain.die.throw_angle_rad' cannot be inf. Allowed: finite numbers."),
    ("base = 'dice'\n[domain.die]\ndensity_kg_m3 = 0", "'domain.die.density_kg_m3' cannot be 0. Allowed: numbers >= 1e-06."),
    ("base = 'dice'\n[domain.light]\nwarmth = { kind = 'uniform', low = -1, high = 9 }", "'domain.light.warmth' cannot be 9.0. Allowed: numbers from -1 to 1."),
    ("base = 'dice'\n[domain.layout]\nregion_m = { kind = 'given', factor = 'light/lamp_count', cases = { '1' = 0.1, '9' = 0.2 }, otherwise = 0.3 }", "'domain.layout.region_m': given: 'light/lamp_count' is never '9'. Allowed: 1 to 3, as 2 or 0.5."),
    ("base = 'dice'\n[domain.layout]\nregion_m = { kind = 'given', factor = 'light/lamp_count', cases = { '1.5' = 0.1 }, otherwise = 0.3 }", "'domain.layout.region_m': given: 'light/lamp_count' is never '1.5'. "),
    ("base = 'dice'\n[domain.layout]\nregion_m = { kind = 'given', factor = 'light/lamp_count', cases = { one = 0.1 }, otherwise = 0.3 }", "'domain.layout.region_m': given: 'light/lamp_count' is never 'one'. "),
    ("base = 'dice'\n[domain.table.family]\nkind='choice'\noptions=['wood', 'marbel']", "'domain.table.family' cannot be 'marbel'. Did you mean 'marble'? Allowed: brushed, checker, "),
    ("base = 'dice'\n[domain.layout.surface]\nkind='constant'\nvalue='floor'", "'domain.layout.surface' cannot be 'floor'. Allowed: bin, field, mat, shelf, table, tray."),
    ("base = 'dice'\n[domain.view.fov_rad]\nkind='constant'\nvalue=0.0", "'domain.view.fov_rad' cannot be 0.0. Allowed: numbers from 0.05 to 3."),
    ("base = 'dice'\n[domain.die.mirrored]\nkind='constant'\nvalue='yes'", "'domain.die.mirrored' cannot be 'yes'. Allowed: true, false."),
    ("base = 'dice'\n[render]\nviews = 3", "'render': views must divide 16, not 3"),
    ("base = 'dice'\n[train]\nsteps = 0", "steps must be 1 or more, not 0"),
    ("base = 'dice'\n[render]\nchannels = ['sensor_depht']", "'render.channels.0': Input should be 'depth', 'ids', "),
    ("base = 'dice'\n[render]\nchannels = ['sensor_depth']", "channel 'sensor_depth' needs a [domain.depth_camera]."),
    ("base = 'dice'\n[render]\nchannels = ['right']", "channel 'right' needs a [domain.stereo]."),
    ("base = 'dice'\n[render]\nchannels = ['shared']\n[domain.stereo.baseline_m]\nkind='constant'\nvalue=0.1", "channel 'shared' needs a pinhole lens: k1, k2, p1, p2 of [domain.lens] must be the constant 0."),
    ("base = 'dice-full'\n[domain.stereo.baseline_m]\nkind='constant'\nvalue=0", "'domain.stereo.baseline_m' cannot be 0. Allowed: numbers from 0.001 to 10."),
    ("base = 'dice-full'\n[domain.stereo]\nbasline_m = 1", "unknown key 'domain.stereo.basline_m'. Did you mean 'baseline_m'? Allowed: baseline_m"),
    ("base = 'dice-full'\n[domain.depth_camera.blur_px]\nkind='unifrom'", "unknown kind 'unifrom'. Did you mean 'uniform'?"),
    ("base = 'dice-full'\n[domain.depth_camera.kind]\nkind='constant'\nvalue='stereo'", "'domain.depth_camera.kind' cannot be 'stereo'. Did you mean 'active_stereo'? Allowed: active_stereo, structured_light, time_of_flight."),
    ("base = 'dice-full'\n[domain.depth_camera.speckle_contrast]\nkind='constant'\nvalue=2", "'domain.depth_camera.speckle_contrast' cannot be 2. Allowed: numbers from 0 to 1."),
    ("base = 'dice-fisheye'\n[domain.near_light.kind]\nkind='constant'\nvalue='spott'", "'domain.near_light.kind' cannot be 'spott'. Did you mean 'spot'? Allowed: area, point, spot."),
    ("base = 'dice-fisheye'\n[domain.near_light.distance_m]\nkind='constant'\nvalue=0.1", "'domain.near_light.distance_m' cannot be 0.1. Allowed: numbers from 0.3 to 100."),
    ("base = 'dice'\n[domain.light.near_count]\nkind='constant'\nvalue=1", "'domain.light.near_count' requires 'domain.near_light', which is missing."),
    ("base = 'dice-full'\n[domain.depth_camera.signal_e]\nkind='constant'\nvalue=1000", "'domain.depth_camera.signal_e' is not a parameter of active_stereo. Remove it."),
    ("base = 'dice-full'\n[domain.depth_camera.baseline_m]\nkind='uniform'\nlow=0.005\nhigh=0.1", "'domain.depth_camera': active_stereo: the projector is between the cameras, so projector_m must be 0 to baseline_m = 0.005, not 0.009."),
    ("base = 'dice-full'\n[domain.depth_camera.min_range_m]\nkind='uniform'\nlow=0.1\nhigh=1.2", "'domain.depth_camera': active_stereo: min_range_m must be less than max_range_m = 1, not 1.2."),
    ("base = 'dice'\n[render]\nchannels = ['raw']", "channel 'raw' needs a [domain.mosaic]."),
    ("base = 'dice'\n[domain.mosaic]\nbits = {kind='constant', value=12}", "key 'domain.mosaic.pattern' is missing."),
    ("base = 'dice-camera'\n[domain.mosaic.pattern]\nkind='constant'\nvalue='RGBG'", "'domain.mosaic.pattern' cannot be 'RGBG'. Did you mean 'RGGB'? Allowed: BGGR, GBRG, GRBG, RGGB."),
    ("base = 'dice-camera'\n[domain.mosaic.prnu]\nkind='constant'\nvalue=2", "'domain.mosaic.prnu' cannot be 2. Allowed: numbers from 0 to 0.5."),
    ("base = 'dice-camera'\n[domain.glare.veil]\nkind='uniform'\nlow=0.0\nhigh=0.95", "'domain.glare': glare: the sum of veil, bloom and ghost must be at most 1, not 1.06."),
    ("base = 'dice-camera'\n[domain.defocus.focus]\nkind='constant'\nvalue=0", "'domain.defocus.focus' cannot be 0. Allowed: numbers from 0.1 to 100."),
    ("base = 'dice'\n[domain.table]\nhue = { kind = 'sum', of = [0.5, { kind = 'uniform', low = 0, high = 1 }, 'a'] }", "'domain.table.hue': sum needs numbers, not 'a'."),
    ("base = 'dice'\n[domain.table]\nvalue = { kind = 'sum', of = [0.5, { kind = 'uniform', low = 0, high = 1 }] }", "'domain.table.value' cannot be 1.5. Allowed: numbers from 0 to 1."),
    ("base = 'dice'\n[domain.table]\nvalue = { kind = 'product', of = [0.5, { kind = 'uniform', low = 0, hihg = 1 }] }", "unknown key 'domain.table.value.of.1.hihg'. Did you mean 'high'? Allowed: high, kind, low"),
    ("base = 'dice'\n[domain.table]\nvalue = { kind = 'schedule', over = [[0, { kind = 'unifrom' }]] }", "unknown kind 'unifrom'. Did you mean 'uniform'?"),
    ("base = 'dice'\n[domain.table]\nvalue = { kind = 'schedule', over = [[0, 0.5], [0, 1.0]] }", "schedule needs rising scene indices of 0 or more, not [0, 0]"),
    ("base = 'dice'\n[domain.table]\nvalue = { kind = 'schedule', over = [[0, 0.5], [9, { kind = 'given', factor = 'layout/surface', cases = { table = { kind = 'constant', valeu = 1 } } }]] }", "unknown key 'domain.table.value.over.1.1.cases.table.valeu'. Did you mean 'value'?"),
    ("base = 'dice'\n[domain.table]\nvalue = { kind = 'power', of = { kind = 'uniform', low = 0.0, high = 1.0 }, exponent = -1 }", "'domain.table.value': power -1 needs numbers above 0, not 0."),
    ("base = 'dice'\n[domain.table]\nvalue = { kind = 'power', of = 1e300, exponent = 9 }", "'domain.table.value' has values that overflow."),
    ("base = 'dice'\n[domain.table]\nvalue = { kind = 'curve', points = [[1, 1], [0, 1]] }", "curve needs two points or more with rising values, not [1.0, 0.0]"),
    ("base = 'dice'\n[domain.table]\nvalue = { kind = 'curve', points = [[0, 0], [1, 0]] }", "curve needs weights of 0 or more with a positive sum, not [0.0, 0.0]"),
    ("base = 'dice'\n[domain.table]\nvalue = { kind = 'same', factor = 'lihgt/warmth' }", "'domain.table.value': unknown group 'lihgt'. Did you mean 'light'? Allowed: "),
    ("base = 'dice'\n[domain.table]\nvalue = { kind = 'same', factor = 'light/warmht' }", "'domain.table.value': unknown factor 'warmht' of light. Did you mean 'warmth'? Allowed: horizon, lamp_count, sky_level, warmth."),
    ("base = 'dice'\n[domain.table]\nvalue = { kind = 'same', factor = 'light/0/warmth' }", "'domain.table.value': 'light/0/warmth': light has no instances. Remove the number."),
    ("base = 'dice'\n[domain.table]\nvalue = { kind = 'same', factor = 'lamp/level' }", "'domain.table.value': 'lamp/level' needs an instance: lamp/0/..., or lamp/*/... for the same one."),
    ("base = 'dice'\n[domain.table]\nvalue = { kind = 'same', factor = 'lamp/*/level' }", "'domain.table.value' has no instances, so 'lamp/*/level' needs a number for *."),
    ("base = 'dice'\n[domain.lamp]\nwarmth = { kind = 'shared', of = { kind = 'same', factor = 'lamp/*/level' } }", "'domain.lamp.warmth' is shared by all instances, so 'lamp/*/level' needs a number for *."),
    ("base = 'dice'\n[domain.table]\nhue = { kind = 'same', factor = 'mat/hue' }\n[domain.mat]\nhue = { kind = 'product', of = [0.5, { kind = 'same', factor = 'wall/hue' }] }\n[domain.wall]\nhue = { kind = 'given', factor = 'table/hue', cases = {}, otherwise = 0.5 }", "'domain.table.hue' depends on itself: table.hue -> mat.hue -> wall.hue -> table.hue."),
    ("base = 'dice'\n[domain.lamp]\nwarmth = { kind = 'same', factor = 'lamp/0/warmth' }", "'domain.lamp.warmth' depends on itself: lamp.warmth -> lamp.warmth."),
    ("base = 'dice'\n[domain.table]\nhue = { kind = 'given', factor = 'layout/surface', cases = { table = 0.1, mat = 0.2 } }", "'domain.table.hue': given has no case for 'layout/surface' = tray."),
    ("base = 'dice'\n[domain.table]\nhue = { kind = 'given', factor = 'layout/surface', cases = { table = 0.1, floor = 0.2 }, otherwise = 0.3 }", "'domain.table.hue': given: 'layout/surface' is never 'floor'. Allowed: mat, table, tray."),
    ("base = 'dice'\n[domain.table]\nhue = { kind = 'given', factor = 'light/lamp_count', cases = { 1 = 0.1, 2 = 0.2, 3 = 0.3 } }", "'domain.table.hue': given needs otherwise, because 'light/lamp_count' is a number."),
    ("base = 'dice'\n[domain.table]\nhue = { kind = 'quota', of = [0.1, 0.2], shares = [1] }", "quota has 2 strata but 1 shares"),
    ("base = 'dice'\n[domain.table]\nhue = { kind = 'quota', of = [0.1, 0.2], shares = [0, 1] }", "quota needs whole shares of 1 or more, 10000 in all, not (0, 1)"),
    ("base = 'dice'\n[domain.table]\nhue = { kind = 'sum', of = [{ kind = 'quota', of = [0.1, 0.2] }, { kind = 'quota', of = [0.1, 0.2] }] }", "'domain.table.hue' has more than one quota, and their strata would coincide."),
    ("base = 'dice'\n[domain.lens]\nk1 = { kind = 'column', table = 'phone', values = [0.0, 0.1] }\nk2 = { kind = 'column', table = 'phone', values = [0.0] }", "'domain.lens.k2' has 1 values, and 'domain.lens.k1' of the same table 'phone' has 2."),
    ("base = 'r.toml'", "its bases are circular."),
    ('base = "dice"\nname = "a\\nb"', '"a\\nb" holds a control character. Rename it.'),
    ("base = 'dice'\nname = '../../b'", "name must not contain slashes, but is ../../b."),
    (f"base = 'dice'\nname = '{'n' * 300}'", f"'{'n' * 40}…' has 300 characters. Use at most 200."),
    ('base = "groceries"\ncategories = ["tea\\u001b[2J"]', '"tea\\u001b[2J" holds a control character. Rename it.'),
    ("a = " + "[" * 100_000, "lists or tables are nested more than 64 deep."),
    ("a = " + "[" * 90 + "]" * 90, "lists or tables are nested more than 64 deep."),
    ("base = 'cards'\ncategories = ['AC']\n[domain.card]\nface = 'AC'", "categories must contain back, because an object of 'domain.card' can show it. Add the names, "),
    ("base = 'cards'\ncategories = ['AC']\n[domain.card]\nface = 'AC'\nface_down = false\n[domain.layout]\nspeed_m_s = 0.5", "categories must contain back, because an object of 'domain.card' can show it."),
    ("base = 'cards'\ncategories = ['AC']\n[domain.card]\nface = 'AC'\nface_down = false\nlean_rad = 0.5", "categories must contain back, because an object of 'domain.card' can show it."),
    ("= 3", "not TOML: "),
    ("name = 'x'", "key 'categories' is missing."),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), BAD, ids=[message[:50] for _, message in BAD])
def test_bad_recipe_is_refused(tmp_path, text, message):
    path = tmp_path / "r.toml"
    path.write_text(text)
    with pytest.raises(RecipeError) as caught:
        load_recipe(str(path))
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


def test_cards_without_throw_show_no_back(tmp_path):
    path = tmp_path / "r.toml"
    path.write_text(
        "base = 'cards'\ncategories = ['AC']\n[domain.card]\nface = 'AC'\nface_down = false"
    )
    recipe = load_recipe(str(path))
    assert recipe.categories == ("AC",)
    check_settings(recipe.domain, {"card/face": "AC", "card/0/face_down": False}, recipe.names)
    for name, value in (("card/face", "2C"), ("card/0/face_down", True)):
        with pytest.raises(UsageError, match=r"categories must contain (2C|back)"):
            check_settings(recipe.domain, {name: value}, recipe.names)


def test_recipe_may_have_byte_order_mark_and_any_language(tmp_path):
    path = tmp_path / "r.toml"
    path.write_bytes("\ufeffbase = 'dice'\nname = 'Würfel'".encode())
    assert load_recipe(str(path)).name == "Würfel"
    path.write_bytes("name = 'Würfel'".encode("latin-1"))
    with pytest.raises(RecipeError, match="not a text in UTF-8"):
        load_recipe(str(path))


def test_inherited_cases_without_use_are_ignored(tmp_path):
    base, path = tmp_path / "base.toml", tmp_path / "r.toml"
    of_each = "{ kind = 'given', factor = 'layout/surface', cases = { table = 0.1, mat = 0.2, tray = 0.3 } }"
    base.write_text(f"base = 'dice'\n[domain.table]\nhue = {of_each}")
    path.write_text("base = 'base.toml'\n[domain.layout]\nsurface = 'mat'")
    domain = load_recipe(str(path)).domain
    assert compute_extremes(domain, domain.get_factor("table/hue"), "domain.table.hue") == (0.2,)
    assert sample_factors(domain, 0, 0, views=1).values["table/hue"] == 0.2
    path.write_text(
        f"base = 'base.toml'\n[domain.layout]\nsurface = 'mat'\n[domain.table]\nhue = {of_each}"
    )
    with pytest.raises(RecipeError, match=r"'layout/surface' is never 'table'\. .*Allowed: mat"):
        load_recipe(str(path))


def test_three_layers_of_recipes(tmp_path):
    path = tmp_path / "r.toml"
    path.write_text("base = 'twisty'\ncategories = ['3x3x3']\n[domain.twisty]\nlayers = 3")
    assert load_recipe(str(path)).categories == ("3x3x3",)


WHOLE = [
    "{ kind = 'clip', of = { kind = 'integers', low = 1, high = 9 }, low = 2, high = 4 }",
    "{ kind = 'rounded', of = { kind = 'uniform', low = 1, high = 4 } }",
    "{ kind = 'sum', of = [1, { kind = 'product', of = [2, { kind = 'integers', low = 1, high = 3 }] }] }",
    "{ kind = 'given', factor = 'light/lamp_count', cases = { '1' = 2, '2' = 3 }, otherwise = 7 }",
    "{ kind = 'schedule', over = [[0, 1], [100, { kind = 'integers', low = 3, high = 5 }]] }",
    "{ kind = 'quota', of = [1, { kind = 'same', factor = 'light/lamp_count' }] }",
]


@pytest.mark.parametrize("count", WHOLE)
def test_count_may_be_computed_from_integers(count, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(f"base = 'dice'\n[domain.layout]\ndie_count = {count}")
    domain = load_recipe(str(path)).domain
    for index in range(20):
        assert isinstance(sample_factors(domain, 0, index, views=1).values["layout/die_count"], int)


def test_unknown_name_gives_suggestion():
    with pytest.raises(UsageError, match=r"no recipe 'dcie'. Did you mean 'dice'\?"):
        load_recipe("dcie")
    with pytest.raises(UsageError, match=r"nowhere\.toml: no such recipe file"):
        load_recipe("nowhere.toml")
    with pytest.raises(UsageError, match=r"nn\.toml: no such recipe file"):
        load_recipe("n" * 300 + ".toml")


@pytest.mark.parametrize("name", ["mine.tml", "mien.toml"])
def test_similar_recipe_file_is_suggested(tmp_path, name):
    (tmp_path / "mine.toml").touch()
    with pytest.raises(UsageError, match=r"no such recipe file\. Did you mean 'mine\.toml'\?$"):
        load_recipe(str(tmp_path / name))
