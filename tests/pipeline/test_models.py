"""Recipes with articulated models, and with models of pybullet_data."""

import json

import numpy as np
import pytest
import trimesh

from sim2cam.data.channels import read_channel
from sim2cam.data.checks.dataset import check_dataset
from sim2cam.errors import RecipeError
from sim2cam.pipeline.generation import generate
from sim2cam.pipeline.recipe import Recipe, load_recipe
from sim2cam.scene.scene import Scene

LAMP = """\
<robot name="lamp">
  <link name="foot"><visual><origin xyz="0 0 0.01"/><geometry><cylinder radius="0.05" length="0.02"/></geometry></visual></link>
  <link name="arm"><visual><origin xyz="0 0 0.1"/><geometry><box size="0.02 0.02 0.2"/></geometry></visual></link>
  <link name="head"><visual><geometry><sphere radius="0.03"/></geometry></visual></link>
  <joint name="knee" type="revolute"><parent link="foot"/><child link="arm"/><origin xyz="0 0 0.02"/>
    <axis xyz="0 1 0"/><limit lower="-1" upper="1"/></joint>
  <joint name="reach" type="prismatic"><parent link="arm"/><child link="head"/><origin xyz="0 0 0.2"/>
    <axis xyz="0 0 1"/><limit lower="0" upper="0.05"/></joint>
</robot>
"""
RECIPE = """\
base = "objects"
name = "lamps"
[assets]
folder = "assets"
[render]
width = 160
height = 120
views = 2
channels = ["depth", "ids", "parts", "keypoints", "coordinates"]
[domain.layout]
object_count = 2
fixture_count = 1
distractor_count = 0
surface = "table"
[domain.object]
asset = { kind = "choice", options = ["block.ply", "lamp/lamp.urdf"] }
[domain.fixture]
asset = "lamp/lamp.urdf"
x_m = 0.0
y_m = 0.0
z_m = 0.0
yaw_rad = 0.0
labelled = true
friction_share = 0.5
joints = { knee = { kind = "uniform", low = 0.2, high = 0.4 } }
[domain.fixture_surface]
family = "plain"
hue = 0.1
saturation = 0.1
value = 0.8
second_hue = 0.0
second_saturation = 0.0
second_value = 0.5
scale_m = 0.01
contrast = 0.0
sharpness = 0.0
roughness = 0.5
specular = 0.04
seed = 0
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    root = tmp_path_factory.mktemp("lamps")
    (root / "assets/lamp").mkdir(parents=True)
    (root / "assets/lamp/lamp.urdf").write_text(LAMP)
    trimesh.creation.box((0.05, 0.04, 0.03)).export(root / "assets/block.ply")
    (root / "lamps.toml").write_text(RECIPE)
    return root


@pytest.fixture(scope="module")
def dataset(place, opengl):
    return generate(
        load_recipe(str(place / "lamps.toml")), place / "sim", count=4, seed=1, workers=1,
        resume=False, overwrite=False, progress=lambda *_: None,
    )  # fmt: skip


def records(dataset):
    return [
        json.loads(line)
        for path in sorted(dataset.root.glob("shards/*/scenes.jsonl"))
        for line in path.read_text().splitlines()
    ]


def test_unset_joints_vary_over_full_range(place):
    recipe = load_recipe(str(place / "lamps.toml"))
    assert Recipe.from_json(recipe.to_json()) == recipe
    assert recipe.categories == ("block", "lamp")
    assert {
        name.removeprefix("joints."): (d.low, d.high)
        for name, d in recipe.domain.groups["fixture"].items()
        if name.startswith("joints.")
    } == {
        "knee": (0.2, 0.4),
        "reach": (0, 1),
    }
    assert {n for n in recipe.domain.groups["object"] if "." in n} == {
        "joints.knee",
        "joints.reach",
    }


def test_record_has_joint_positions(dataset):
    found = set()
    for record in records(dataset):
        scene = Scene.from_json(json.dumps(record["scene"]))
        (lamp,) = (body for body in scene.bodies if body.name == "fixture/0")
        states = dict(lamp.asset.joints)
        drawn = record["sampled_values"]
        assert states["knee"] == pytest.approx(-1 + 2 * drawn["fixture/0/joints.knee"])
        assert states["reach"] == pytest.approx(0.05 * drawn["fixture/0/joints.reach"])
        assert -0.6 <= states["knee"] <= -0.2
        found.add(states["knee"])
    assert len(found) == 2


def test_links_are_parts(dataset):
    seen = set()
    for sample in dataset.samples:
        ids, parts = (read_channel(name, sample.channels[name]) for name in ("ids", "parts"))
        for label in sample.objects:
            if label.category == "lamp":
                seen |= set(np.unique(parts[ids == label.instance_id]).tolist())
                assert {point.name for point in label.keypoints} == {"knee", "reach"}
    assert seen == {1, 2, 3}


def test_dataset_passes_its_checks(dataset):
    assert check_dataset(dataset.root).problems == ()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("knee = {", "kne = {", "'domain.fixture.joints': no asset has a joint 'kne'. Did you mean 'knee'? "),
        ('folder = "assets"', 'folder = "pybullet_data:"\nobjects = { "duk.urdf" = "a" }',
         "'assets.objects': there is no 'duk.urdf'. Did you mean"),
    ],
)  # fmt: skip
def test_unknown_names_are_refused(place, old, new, message):
    path = place / "bad.toml"
    path.write_text(RECIPE.replace(old, new))
    with pytest.raises(RecipeError) as caught:
        load_recipe(str(path))
    assert str(caught.value).startswith(f"{path}: {message}")


def test_objects_are_selected_by_pattern_and_relabelled(place):
    path = place / "some.toml"
    path.write_text(
        'base = "objects"\nname = "some"\n[assets]\nfolder = "pybullet_data:"\n'
        '[assets.objects]\n"cube_small.urdf" = "cube"\n"random_urdfs/00[12]/*.urdf" = "blob"\n'
    )
    recipe = load_recipe(str(path))
    assert [(facts.name, facts.mesh.category) for facts in recipe.assets] == [
        ("cube_small.urdf", "cube"),
        ("random_urdfs/001/001.urdf", "blob"),
        ("random_urdfs/002/002.urdf", "blob"),
    ]
    assert recipe.categories == ("blob", "cube")
    assert recipe.assets[0].size_m == pytest.approx((0.05, 0.05, 0.05))
