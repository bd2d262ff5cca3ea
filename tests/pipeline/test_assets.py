"""Recipes with objects from files."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import trimesh

from sim2cam.data.checks.dataset import check_dataset
from sim2cam.data.reader import read_header
from sim2cam.errors import InputError, RecipeError
from sim2cam.objects.die import Die
from sim2cam.pipeline.generation import generate
from sim2cam.pipeline.recipe import RECIPES_FOLDER, Recipe, load_recipe
from sim2cam.pipeline.scene_sampling import simulate_scene
from sim2cam.randomize.distributions import Constant
from sim2cam.randomize.domain_checks import check_domain
from sim2cam.randomize.sampling import sample_factors
from sim2cam.randomize.scene_builder import build_scene
from sim2cam.render.physics.inertia import compute_inertial_frame
from sim2cam.scene.shape import MeshFile

TEXT = """\
base = "objects"
name = "things"
[assets]
folder = "objects"
unit = "mm"
licence = "MIT"
[render]
width = 96
height = 80
views = 2
channels = ["depth", "ids", "coordinates", "keypoints", "symmetries"]
[domain.layout]
object_count = { kind = "integers", low = 3, high = 4 }
distractor_count = { kind = "constant", value = 1 }
surface = { kind = "constant", value = "table" }
"""


def fill(folder: Path) -> None:
    """Write open cups and single-coloured blocks."""
    for name in ("cup", "block"):
        (folder / name).mkdir(parents=True)
    trimesh.creation.annulus(20, 25, 60).export(folder / "cup/a.stl")
    block = trimesh.creation.box((50, 40, 30))
    block.apply_translation((100, 0, 0))  # file origins are arbitrary
    block.visual.vertex_colors = np.tile([200, 30, 30, 255], (8, 1))
    block.export(folder / "block/red.ply")
    (folder / "block/red.toml").write_text(
        'licence = "CC0-1.0"\nmass_kg = { low = 0.2, high = 0.3, source = "scale" }\n'
        "friction = { low = 0.4, high = 0.5 }\ncenter_of_mass = [100, 0, -5]\n"
        "[keypoints]\nlid = [100, 0, 15]\ninside = [100, 0, 0]\n"
        "[symmetries]\nrotations_wxyz = [[0, 0, 0, 1]]\n"
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    root = tmp_path_factory.mktemp("things")
    fill(root / "objects")
    (root / "things.toml").write_text(TEXT)
    return root


@pytest.fixture(scope="module")
def recipe(place):
    return load_recipe(str(place / "things.toml"))


def make(recipe, root, count=4):
    return generate(recipe, root, count=count, seed=0)


def test_recipe_imports_assets_of_its_folder(recipe):
    assert recipe.categories == ("block", "cup")
    assert [facts.name for facts in recipe.assets] == ["block/red.ply", "cup/a.stl"]
    assert recipe.domain.get_factor("object/asset").options == ("block/red.ply", "cup/a.stl")
    assert Recipe.from_json(recipe.to_json()) == recipe


def test_digest_depends_on_file_content_not_path(recipe, place, tmp_path):
    shutil.copytree(place, tmp_path / "moved")
    moved = tmp_path / "moved"
    assert load_recipe(str(moved / "things.toml")).digest() == recipe.digest()
    trimesh.creation.annulus(20, 25, 61).export(moved / "objects/cup/a.stl")
    longer = load_recipe(str(moved / "things.toml"))
    assert longer.digest() != recipe.digest()
    card = moved / "objects/block/red.toml"
    card.write_text(card.read_text().replace("0.3,", "0.31,"))
    assert load_recipe(str(moved / "things.toml")).digest() != longer.digest()


@pytest.mark.parametrize("index", range(6))
def test_objects_start_apart_with_their_masses(recipe, index):
    drawn = sample_factors(recipe.domain, 0, index, views=2)
    scene = build_scene(drawn, recipe.domain, 640, 480, recipe.assets)
    facts = {one.mesh: one for one in recipe.assets}
    balls = []
    for body in (body for body in scene.bodies if isinstance(body.asset, MeshFile)):
        one = facts[body.asset]
        balls.append((body.pose.apply(np.array([one.center_m]))[0], one.radius_m))
        assert one.mass_kg.low <= body.mass_kg <= one.mass_kg.high
        assert one.friction.low <= body.friction <= one.friction.high
        share = drawn.get_float(f"{body.name}/restitution_share")
        assert body.restitution == one.restitution.interpolate(share)
        assert body.is_target
        balance = compute_inertial_frame(body).frame.position_m
        off_m = [0.1, 0.0, -0.005] if one.name.startswith("block") else one.center_m
        assert balance == pytest.approx(off_m, abs=1e-6)
    assert len(balls) == drawn.get_int("layout/object_count")
    for i, (centre, radius) in enumerate(balls):
        assert centre[2] > radius
        for other, reach in balls[:i]:
            assert np.linalg.norm(centre - other) > radius + reach


@pytest.mark.parametrize("index", range(4))
def test_median_object_has_sampled_size_in_pixels(recipe, index):
    drawn = sample_factors(recipe.domain, 0, index, views=2)
    scene = build_scene(drawn, recipe.domain, 320, 240, recipe.assets)
    facts = {one.mesh: max(one.size_m) for one in recipe.assets}
    length = np.median([facts[b.asset] for b in scene.bodies if b.is_target])
    for view, camera in enumerate(scene.cameras):
        forward = camera.pose.rotation().apply([0.0, 0.0, 1.0])
        distance = -camera.pose.position_m[2] / forward[2]
        shown = camera.lens.fx_px * length / distance
        assert shown == pytest.approx(drawn.get_float(f"view/{view}/object_px") / 2)


def test_moved_folder_gives_same_bytes(recipe, place, tmp_path):
    shutil.copytree(place, tmp_path / "moved")
    moved = load_recipe(str(tmp_path / "moved/things.toml"))
    for name, one in (("a", recipe), ("b", moved)):
        make(one, tmp_path / name)
        assert check_dataset(tmp_path / name).problems == ()
    files = [p for p in (tmp_path / "a").rglob("*") if p.is_file() and p.name != "environment.json"]
    assert len(files) > 10
    for path in files:
        data = path.read_bytes()
        assert data == (tmp_path / "b" / path.relative_to(tmp_path / "a")).read_bytes()
        assert str(place).encode() not in data


def test_dataset_records_assets(recipe, tmp_path):
    dataset = make(recipe, tmp_path / "d")
    header = read_header(tmp_path / "d")
    block, cup = header["recipe"]["assets"]
    assert (block["name"], block["licence"], block["mass_kg"]["source"]) == (
        "block/red.ply", "CC0-1.0", "scale",
    )  # fmt: skip
    assert cup["licence"] == "MIT"
    assert re.fullmatch("[0-9a-f]{64}", cup["mesh"]["digest"])
    assert header["objects"]["block/red.ply"]["symmetries"]["rotations_wxyz"] == [[0, 0, 0, 1]]
    labels = [label for sample in dataset.samples for label in sample.objects]
    assert {label.category for label in labels} <= {"block", "cup"}
    points = [label.keypoints for label in labels if label.category == "block"]
    assert points
    for lid, inside in points:
        assert (lid.name, lid.point_m) == ("lid", pytest.approx((0.1, 0, 0.015)))
        assert inside.visibility < 2
    assert any(lid.visibility == 2 for lid, _ in points)


def test_objects_come_to_rest_on_the_table(recipe):
    settled = simulate_scene(recipe, 0, 1)
    for body in settled.scene.bodies:
        if body.is_target:
            low, high = next(
                (one.low_m, one.high_m) for one in recipe.assets if one.mesh == body.asset
            )
            middle = body.pose.apply(np.add([low], [high]) / 2)[0]
            assert 0.01 < middle[2] < 0.12


def test_dice_and_objects_are_thrown_together(place, tmp_path):
    objects = (RECIPES_FOLDER / "bases/objects.toml").read_text()
    objects = objects.split("[domain.object]")[1].split("[domain.view]")[0]
    path = tmp_path / "both.toml"
    folder = json.dumps(str(place / "objects"))
    path.write_text(
        f'base = "dice"\nname = "both"\ncategories = ["1", "2", "3", "4", "5", "6", "block", "cup"]\n'
        f'[assets]\nfolder = {folder}\nunit = "mm"\n'
        '[domain.layout]\nobject_count = { kind = "constant", value = 2 }\n'
        f"[domain.object]{objects}"
    )
    recipe = load_recipe(str(path))
    alone = sample_factors(load_recipe("dice").domain, 3, 5, views=1)
    drawn = sample_factors(recipe.domain, 3, 5, views=1)
    assert alone.values.items() <= drawn.values.items()
    bodies = build_scene(drawn, recipe.domain, 64, 64, recipe.assets).bodies
    assert sum(isinstance(body.asset, MeshFile) for body in bodies) == 2
    assert sum(isinstance(body.asset, Die) for body in bodies) == drawn.get_int("layout/die_count")


def test_clutter_is_not_labelled(place, tmp_path):
    (place / "junk/tray").mkdir(parents=True)
    for name in ("nail", "tray/lid", "tray/unused"):
        trimesh.creation.box((30, 20, 10)).export(place / f"junk/{name}.stl")
    path = place / "cluttered.toml"
    path.write_text(
        f"{TEXT}[assets.objects]\n'*/a.stl' = 'cup'\n"
        "[assets.clutter]\nfolder = 'junk'\nfiles = ['n*', 'tray/lid.stl']\nunit = 'mm'\n"
        "licence = 'CC-BY-4.0'\n"
        "[domain.distractor]\nshape = 'asset'\n"
    )
    recipe = load_recipe(str(path))
    assert recipe.categories == ("cup",)
    assert recipe.domain.get_factor("object/asset").options == ("cup/a.stl",)
    clutter = ("clutter/nail.stl", "clutter/tray/lid.stl")
    assert recipe.domain.get_factor("distractor/asset").options == clutter
    dataset = make(recipe, tmp_path / "d")
    assert not check_dataset(tmp_path / "d").problems
    assert {label.category for sample in dataset.samples for label in sample.objects} == {"cup"}
    assert read_header(tmp_path / "d")["objects"].keys() == {"cup/a.stl"}
    settled = simulate_scene(recipe, 0, 0).scene
    (thing,) = (body for body in settled.bodies if body.name == "distractor/0")
    (facts,) = (one for one in recipe.assets if one.mesh == thing.asset)
    assert facts.name in clutter
    assert facts.licence == "CC-BY-4.0"
    assert thing.mass_kg == facts.mass_kg.interpolate(0.5)
    assert (thing.asset.category, thing.is_target) == ("", False)


def test_objects_without_category_are_not_labelled(place):
    (place / "junk.toml").write_text(
        f"{TEXT}[assets.clutter]\nfolder = 'objects'\nfiles = ['block/*']\nunit = 'mm'\n"
        "[domain.distractor]\nshape = 'asset'\n[domain.object]\nasset = 'clutter/block/red.ply'\n"
    )
    recipe = load_recipe(str(place / "junk.toml"))
    bodies = build_scene(
        sample_factors(recipe.domain, 0, 0, views=1), recipe.domain, 64, 64, recipe.assets
    ).bodies
    thrown = [body for body in bodies if body.name.startswith("object/")]
    assert thrown
    assert not any(body.is_target for body in thrown)


def test_dice_lie_among_clutter(place):
    path = place / "among.toml"
    path.write_text(
        "base = 'dice'\nname = 'among'\n[assets.clutter]\nfolder = 'objects'\nunit = 'mm'\n"
        "[domain.distractor]\nshape = { kind = 'choice', options = ['box', 'asset'] }\n"
        "[domain.layout]\ndistractor_count = 12\n"
    )
    recipe = load_recipe(str(path))
    assert recipe.categories == tuple("123456")
    bodies = build_scene(
        sample_factors(recipe.domain, 0, 0, views=1), recipe.domain, 64, 64, recipe.assets
    ).bodies
    kinds = {body.asset.kind for body in bodies if body.name.startswith("distractor/")}
    assert kinds == {"box", "mesh"}
    assert {body.is_target for body in bodies if body.asset.kind == "mesh"} == {False}


WHOLE = "[assets]\nfolder = 'objects'\nunit = 'mm'\n"
BAD = [
    ("[assets]\nfolder = 'none'", "none: no such folder. Check the path."),
    ("[assets]\nfolder = 'bop:none'", "'assets.folder': bop:none is missing. Unpack its models to none/models in the folder of SIM2CAM_REAL."),
    ("[assets]\nfoldr = 'objects'", "unknown key 'assets.foldr'. Did you mean 'folder'? Allowed: clutter, folder, licence, objects, unit"),
    ("[assets]\nunit = 'mm'", "no objects to throw. Set a folder of meshes in [assets]."),
    ("[assets.clutter]\nfolder = 'objects'", "no objects to throw. Set a folder of meshes in [assets]."),
    (WHOLE + "[assets.clutter]\nunit = 'mm'", "key 'assets.clutter.folder' is missing."),
    (WHOLE + "[assets.clutter]\nfoldr = 'objects'", "unknown key 'assets.clutter.foldr'. Did you mean 'folder'? Allowed: files, folder, licence, size_m, unit"),
    (WHOLE + "[assets.clutter]\nfolder = 'bop:none'", "'assets.clutter.folder': bop:none is missing. Unpack its models to none/models in the folder of SIM2CAM_REAL."),
    (WHOLE + "[assets.clutter]\nfolder = 'objects'\nfiles = ['mug/*']", "'assets.clutter.files': there is no 'mug/*'. Allowed: block/red.ply, cup/a.stl"),
    (WHOLE + "[assets.clutter]\nfolder = 'objects'", "'domain.distractor.shape' cannot be 'asset', but [assets.clutter] names assets. Add 'asset' to its options."),
    (WHOLE + "[domain.distractor]\nshape = 'asset'", "'domain.distractor.shape' can be 'asset', but there are no assets. Name a folder in [assets.clutter]."),
    ("[assets]\nfolder = 'objects'\nunit = 'parsec'", "'assets.unit': Input should be 'm', 'cm', 'mm' or 'in' (found \"parsec\")."),
    ("assets = 'objects'", "'assets': "),
    ("", "no objects to throw. Set a folder of meshes in [assets]."),
    ("categories = ['cup']\n[assets]\nfolder = 'objects'\nunit = 'mm'", "categories lack block of the assets."),
    ("[assets]\nfolder = 'objects'\nunit = 'mm'\n[domain.object]\nasset = { kind = 'constant', value = 'cup/b.stl' }", "'domain.object.asset' cannot be 'cup/b.stl'. Did you mean 'cup/a.stl'? Allowed: block/red.ply, cup/a.stl."),
    ("[assets]\nfolder = 'objects'\nunit = 'm'", "2 of 2 assets are unusable: "),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), BAD, ids=[message[:30] for _, message in BAD])
def test_bad_assets_table_is_refused(place, monkeypatch, text, message):
    monkeypatch.delenv("SIM2CAM_REAL", raising=False)
    path = place / "bad.toml"
    path.write_text(f'base = "objects"\nname = "bad"\n{text}\n')
    with pytest.raises((RecipeError, InputError)) as caught:
        load_recipe(str(path))
    assert message in str(caught.value)


def test_exact_name_precedes_pattern(tmp_path):
    (tmp_path / "objects/cu[pb]").mkdir(parents=True)
    (tmp_path / "objects/cup").mkdir(parents=True)
    for name in ("cu[pb]", "cup"):
        trimesh.creation.box((50, 40, 30)).export(tmp_path / f"objects/{name}/a.stl")
    path = tmp_path / "odd.toml"
    path.write_text(
        'base = "objects"\nname = "odd"\n[assets]\nfolder = "objects"\nunit = "mm"\n'
        '[assets.objects]\n"cu[pb]/a.stl" = "odd"\n'
    )
    (facts,) = load_recipe(str(path)).assets
    assert (facts.name, facts.mesh.category) == ("cu[pb]/a.stl", "odd")


NOTHING = [
    ("view.object_px", "'domain.view' needs exactly one of 'die_px', 'object_px' and 'distance_m'"),
    ("layout.object_count", "no labelled objects: set 'domain.layout.object_count'"),
    (
        "object_surface",
        "'domain.layout.object_count' requires 'domain.object_surface', which is",
    ),
]


@pytest.mark.parametrize(("left_out", "message"), NOTHING)
def test_incomplete_domain_is_refused(recipe, left_out, message):
    group, _, factor = left_out.partition(".")
    rest = {name: d for name, d in recipe.domain.groups[group].items() if name != factor}
    domain = recipe.domain.replace_groups({group: rest if factor else None})
    with pytest.raises(ValueError, match=re.escape(message)):
        check_domain(domain, recipe.names)


def test_only_one_length_sets_camera_distance(recipe):
    both = recipe.domain.replace_factors({"view/die_px": Constant(40.0)})
    with pytest.raises(ValueError, match="needs exactly one of"):
        check_domain(both, recipe.names)
