"""Models from SDF and MJCF, and meshes from COLLADA: held against Bullet and against each other."""

import math
import warnings
from pathlib import Path

import numpy as np
import pytest
import trimesh
from PIL import Image

from sim2cam.assets.folder import list_assets
from sim2cam.assets.importer import import_assets
from sim2cam.assets.mesh_files.reader import read_solids
from sim2cam.assets.model_files.mjcf import read_mjcf
from sim2cam.assets.model_files.sdf import read_sdf
from sim2cam.assets.model_files.urdf import read_urdf
from sim2cam.errors import InputError, RepairWarning
from sim2cam.geometry.inertia import compute_center_of_mass
from sim2cam.geometry.poses import Pose
from sim2cam.render.meshes.mesh import build_mesh
from sim2cam.scene.articulation import Articulation

URDF = """\
<robot name="two">
  <link name="base"><inertial><mass value="1"/></inertial><visual><geometry><box size="0.2 0.2 0.1"/></geometry>
    <material name="m"><color rgba="1 0 0 1"/></material></visual></link>
  <link name="arm"><inertial><mass value="0.5"/></inertial><visual><origin xyz="0 0 0.15"/><geometry><cylinder radius="0.02" length="0.3"/></geometry>
    <material name="m"><color rgba="1 0 0 1"/></material></visual></link>
  <joint name="turn" type="revolute"><parent link="base"/><child link="arm"/><origin xyz="0.05 0 0.05" rpy="0 0 1.5707963"/>
    <axis xyz="1 0 0"/><limit lower="-1.5707963" upper="1.5707963"/></joint>
</robot>
"""
SDF = """\
<sdf version="1.6"><model name="two"><static>1</static>
  <link name="base"><inertial><mass>1</mass></inertial><visual name="v"><geometry><box><size>0.2 0.2 0.1</size></box></geometry>
    <material><diffuse>1 0 0 1</diffuse></material></visual></link>
  <link name="arm"><pose>0.05 0 0.15 0 0 1.5707963</pose><inertial><mass>0.5</mass></inertial>
    <visual name="v"><pose>0 0 0.05 0 0 0</pose><geometry><cylinder><radius>0.02</radius><length>0.3</length></cylinder></geometry>
    <material><diffuse>1 0 0</diffuse></material></visual></link>
  <joint name="hold" type="fixed"><parent>world</parent><child>base</child></joint>
  <joint name="turn" type="revolute"><pose>0 0 -0.1 0 0 0</pose><parent>base</parent><child>arm</child>
    <axis><xyz>1 0 0</xyz><limit><lower>-1.5707963</lower><upper>1.5707963</upper></limit></axis></joint>
</model></sdf>
"""
MJCF = """\
<mujoco model="two"><compiler angle="degree"/><default><geom rgba="1 0 0 1"/></default>
  <worldbody><light/><geom type="plane" size="1 1 1"/>
    <body name="base"><freejoint/><geom type="box" size="0.1 0.1 0.05" mass="1"/>
      <body name="arm" pos="0.05 0 0.15" euler="0 0 90">
        <joint name="turn" axis="1 0 0" pos="0 0 -0.1" range="-90 90"/>
        <geom type="cylinder" size="0.02" fromto="0 0 -0.1 0 0 0.2" mass="0.5"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


@pytest.mark.parametrize(
    ("name", "text"), [("two.sdf", SDF), ("two.mjcf", MJCF), ("two.xml", MJCF)]
)
def test_model_is_equal_in_every_format(tmp_path, name, text):
    (tmp_path / "two.urdf").write_text(URDF)
    (tmp_path / name).write_text(text)
    ours, other = (one.info for one in import_assets(tmp_path, ["two.urdf", name]))
    assert other.mass_kg.low == ours.mass_kg.low == 1.5
    (free,) = other.articulation.free_joints
    assert free.name == "turn"
    assert (free.low, free.high) == pytest.approx((-math.pi / 2, math.pi / 2))
    for share in (0.5, 0.8, 0.1):
        one, two = (build_mesh(facts.pose_joints({"turn": share}).mesh) for facts in (ours, other))
        assert np.allclose(*(_sorted(mesh.vertices_m) for mesh in (one, two)), atol=1e-6)
        ends = [facts.pose_joints({"turn": share}).mesh.keypoints for facts in (ours, other)]
        assert np.allclose(dict(ends[0])["turn"], dict(ends[1])["turn"])
    assert other.n_faces == ours.n_faces


def _sorted(points):
    points = np.unique(np.round(points, 6) + 0.0, axis=0)
    return points[np.lexsort(points.T)]


def test_links_and_masses_of_an_sdf_match_bullet():
    pybullet = pytest.importorskip("pybullet")
    import pybullet_data

    path = Path(pybullet_data.getDataPath(), "kuka_iiwa/model.sdf")
    model = read_sdf(path)
    ours = Articulation(tuple(link.name for link in model.links), model.joints, ())
    client = pybullet.connect(pybullet.DIRECT)
    try:
        (robot,) = pybullet.loadSDF(str(path), physicsClientId=client)
        count = pybullet.getNumJoints(robot, physicsClientId=client)
        infos = [pybullet.getJointInfo(robot, i, physicsClientId=client) for i in range(count)]
        assert count == len(ours.joints)
        links = {link.name: link for link in model.links}
        for index, info in enumerate(infos):
            mass, *_, center, _ = pybullet.getDynamicsInfo(robot, index, physicsClientId=client)[:5]
            inertia = links[info[12].decode()].inertial.compute_inertia()
            assert inertia[3, 3] == pytest.approx(mass)
            assert compute_center_of_mass(inertia) == pytest.approx(center, abs=1e-6)
        for seed in range(3):
            rng = np.random.default_rng(seed)
            states = ours.interpolate_states(
                {joint.name: rng.random() for joint in ours.free_joints}
            )
            matrices = ours.compute_link_matrices(states)
            for index, info in enumerate(infos):
                state = dict(states)[info[1].decode()]
                pybullet.resetJointState(robot, index, state, physicsClientId=client)
            first = None
            for index, info in enumerate(infos):
                found = pybullet.getLinkState(
                    robot, index, computeForwardKinematics=1, physicsClientId=client
                )
                x, y, z, w = found[5]
                theirs = Pose((w, x, y, z), found[4]).matrix()
                here = matrices[ours.links.index(info[12].decode())]
                first = (here, theirs) if first is None else first  # from the first joint on
                assert np.linalg.inv(first[0]) @ here == pytest.approx(
                    np.linalg.inv(first[1]) @ theirs, abs=1e-5
                )
    finally:
        pybullet.disconnect(client)


def test_bodies_of_an_mjcf_with_several_joints_turn_about_their_anchors(tmp_path):
    path = tmp_path / "a.xml"
    path.write_text(
        '<mujoco><compiler angle="radian"/><worldbody><geom size="0.1"/><body name="b" pos="1 0 0">'
        '<joint name="x" pos="0 0 1" axis="0 1 0"/><joint name="y" type="slide" axis="0 0 1" range="0 1"/>'
        '<geom name="g" type="capsule" size="0.1 0.2"/></body></worldbody></mujoco>'
    )
    model = read_mjcf(path)
    assert [link.name for link in model.links] == ["world", "b/0", "b"]
    tree = Articulation(tuple(link.name for link in model.links), model.joints, ())
    at = tree.compute_link_matrices((("x", math.pi / 2), ("y", 0.5)))[2]
    (capsule,) = model.links[2].visuals
    where = at @ capsule.pose.matrix() @ [0, 0, 0, 1]
    # a quarter turn about (1, 0, 1) along y takes (1, 0, 0) to (0, 0, 1); the slide goes on along x
    assert where[:3] == pytest.approx((0.0 + 0.5, 0, 1.0))


@pytest.mark.parametrize(
    ("compiler", "joint", "limits"),
    [
        ("", 'range="0 90"', (0, 90)),
        ("", 'range="0 90" ref="90"', (-90, 0)),
        ("", 'range="0 90" ref="30" limited="false"', (-180, 180)),
        ('autolimits="false"', 'range="0 90"', (-180, 180)),
        ('autolimits="false"', 'range="0 90" limited="true"', (0, 90)),
    ],
)
def test_joints_of_an_mjcf_move_from_where_they_are_drawn(tmp_path, compiler, joint, limits):
    body = f'{BALL}<body name="b"><joint {joint}/>{BALL}</body>'
    (tmp_path / "a.xml").write_text(mjcf(body, f"<compiler {compiler}/>"))
    (found,) = read_mjcf(tmp_path / "a.xml").joints
    assert np.degrees((found.low, found.high)) == pytest.approx(limits)


def test_slides_of_an_mjcf_move_from_where_they_are_drawn(tmp_path):
    joint = '<joint type="slide" range="0.1 0.5" ref="0.2"/>'
    (tmp_path / "a.xml").write_text(mjcf(f'{BALL}<body name="b">{joint}{BALL}</body>'))
    (found,) = read_mjcf(tmp_path / "a.xml").joints
    assert (found.low, found.high) == pytest.approx((-0.1, 0.3))


@pytest.mark.parametrize("word", ["true", "1"])
def test_poses_of_an_sdf_may_be_in_degrees(tmp_path, word):
    (tmp_path / "rad.sdf").write_text(SDF)
    told = SDF.replace(
        "<pose>0.05 0 0.15 0 0 1.5707963", f'<pose degrees="{word}">0.05 0 0.15 0 0 90'
    )
    assert told != SDF
    (tmp_path / "deg.sdf").write_text(told)
    one, other = (read_sdf(tmp_path / name).joints[0] for name in ("rad.sdf", "deg.sdf"))
    assert other.pose.matrix() == pytest.approx(one.pose.matrix(), abs=1e-7)


def test_xml_without_model_is_not_listed(tmp_path):
    (tmp_path / "a.xml").write_text(MJCF)
    (tmp_path / "package.xml").write_text("<package/>")
    assert list_assets(tmp_path) == ("a.xml",)


@pytest.mark.parametrize("up", ["X_UP", "Y_UP", "Z_UP"])
def test_reads_collada_unit_and_up_axis(tmp_path, up):
    pytest.importorskip("collada")
    box = trimesh.creation.box((10, 20, 30))
    text = trimesh.exchange.dae.export_collada(box).decode()
    asset = f'<unit name="c" meter="0.01"/><up_axis>{up}</up_axis></asset>'
    head, tail = text.split("</asset>")
    for old in (
        "<up_axis>Y_UP</up_axis>",
        '<unit name="meter" meter="1.0"/>',
        '<unit name="meter" meter="1"/>',
    ):
        head = head.replace(old, "")
    (tmp_path / "a.dae").write_text(head + asset + tail)
    (found,) = import_assets(tmp_path, ["a.dae"])
    sizes = {"X_UP": (0.2, 0.1, 0.3), "Y_UP": (0.1, 0.3, 0.2), "Z_UP": (0.1, 0.2, 0.3)}
    assert found.error is None
    assert found.guessed_unit is None
    assert found.info.size_m == pytest.approx(sizes[up])


def sdf(inside):
    return f'<sdf><model name="m"><link name="a"><visual><geometry><sphere><radius>1</radius></sphere></geometry></visual></link>{inside}</model></sdf>'


CLASSES = """
<default>
  <geom rgba="0 1 0 1"/> <joint axis="0 1 0" range="-1 1"/> <mesh scale="2 2 2"/>
  <default class="arm">
    <geom type="capsule" size="0.1 0.2" euler="90 0 0"/>
    <default class="finger"><geom size="0.05 0.1"/><joint type="slide"/></default>
  </default>
</default>"""
TAKEN = """
<geom type="mesh" mesh="tetra"/>
<body name="a" childclass="arm"><joint name="j"/><geom/><geom class="main" size="0.3"/>
  <body name="b"><joint name="k" class="finger" axis="1 0 0"/><geom class="finger" quat="1 0 0 0"/>
    <body name="c" childclass="finger"><geom rgba="1 0 0 1"/></body></body></body>"""
WRITTEN = """
<geom type="mesh" mesh="tetra" rgba="0 1 0 1"/>
<body name="a"><joint name="j" axis="0 1 0" range="-1 1"/>
  <geom type="capsule" size="0.1 0.2" euler="90 0 0" rgba="0 1 0 1"/><geom size="0.3" rgba="0 1 0 1"/>
  <body name="b"><joint name="k" type="slide" axis="1 0 0" range="-1 1"/>
    <geom type="capsule" size="0.05 0.1" quat="1 0 0 0" rgba="0 1 0 1"/>
    <body name="c"><geom type="capsule" size="0.05 0.1" euler="90 0 0" rgba="1 0 0 1"/></body></body></body>"""


def test_default_classes_fill_missing_attributes(tmp_path):
    trimesh.creation.box().export(tmp_path / "tetra.stl")
    found = []
    for body, before, asset in (
        (TAKEN, CLASSES, '<asset><mesh file="tetra.stl"/></asset>'),
        (WRITTEN, "", '<asset><mesh file="tetra.stl" scale="2 2 2"/></asset>'),
    ):
        (tmp_path / "m.xml").write_text(mjcf(body, before + asset))
        found.append(read_mjcf(tmp_path / "m.xml"))
    assert found[0] == found[1]
    assert found[0].links[0].visuals[0].solid.scale == (2.0, 2.0, 2.0)


@pytest.mark.parametrize(
    ("rgba", "color"), [("", (0, 0, 255)), ("1 0 0 1", (255, 0, 0)), ("0.5 0.5 0.5 1", (0, 0, 255))]
)
def test_a_color_of_a_geom_precedes_that_of_its_material(tmp_path, rgba, color):
    own = f'rgba="{rgba}"' if rgba else ""
    material = '<asset><material name="m" rgba="0 0 1 1"/></asset>'
    body = f'<body name="a"><geom size="0.1" material="m" {own}/></body>'
    (tmp_path / "m.xml").write_text(mjcf(body, material))
    (visual,) = read_mjcf(tmp_path / "m.xml").links[1].visuals
    assert visual.color == color


def mjcf(body, before=""):
    return f"<mujoco>{before}<worldbody>{body}</worldbody></mujoco>"


BALL = '<geom size="0.1"/>'
REFUSED = {
    "not SDF: the root element is <robot>, not <sdf>.": (read_sdf, "<robot/>"),
    "joint 'j': the axis must be in the joint frame.": (read_sdf, sdf('<link name="b"/><joint name="j" type="continuous"><parent>a</parent><child>b</child><axis><xyz expressed_in="__model__">0 0 1</xyz></axis></joint>')),
    "'refpos' of a mesh is not supported. Transform the mesh file instead.": (read_mjcf, mjcf(BALL, '<asset><mesh file="m.stl" refpos="0 0 1"/></asset>')),
    "'refquat' of a mesh is not supported. Transform the mesh file instead.": (read_mjcf, mjcf(BALL, '<default><mesh refquat="0 1 0 0"/></default><asset><mesh file="m.stl"/></asset>')),
    "ref of the joint 'j' is 'x'. It must be a finite number.": (read_mjcf, mjcf(f'{BALL}<body name="b"><joint name="j" range="0 1" ref="x"/></body>')),
    "has 0 models, not one. Save each model in its own file.": (read_sdf, "<sdf/>"),
    "<include> in a model is not supported. Flatten the file first (gz sdf -p).": (read_sdf, sdf("<include/>")),
    "<model> in a model is not supported. ": (read_sdf, sdf("<model/>")),
    "poses relative to another frame are not supported. ": (read_sdf, sdf('<link name="b"><pose relative_to="a">0 0 0 0 0 0</pose></link>')),
    "pose of a link is '0 0 0'. It must be 6 finite numbers.": (read_sdf, sdf('<link name="b"><pose>0 0 0</pose></link>')),
    "has a duplicate link 'a'.": (read_sdf, sdf('<link name="a"/>')),
    "joint 'j' has the unsupported type 'ball'. Allowed: continuous, fixed, prismatic, revolute.": (read_sdf, sdf('<joint name="j" type="ball"/>')),
    "joint 'j' refers to the missing link 'b'.": (read_sdf, sdf('<joint name="j" type="fixed"><parent>a</parent><child>b</child></joint>')),
    "joint 'j' has no limit.": (read_sdf, sdf('<link name="b"/><joint name="j" type="prismatic"><parent>a</parent><child>b</child></joint>')),
    "the shape 'heightmap' is not supported. ": (read_sdf, sdf('<link name="b"><collision><geometry><heightmap/></geometry></collision></link>')),
    "the mass of the link 'b' is 'nan'. ": (read_sdf, sdf('<link name="b"><inertial><mass>nan</mass></inertial></link>')),
    "not MJCF: the root element is <robot>, not <mujoco>.": (read_mjcf, "<robot/>"),
    "has no worldbody.": (read_mjcf, "<mujoco/>"),
    "<include> is not supported. ": (read_mjcf, mjcf(BALL, '<include file="/etc/passwd"/>')),
    "<replicate> is not supported. ": (read_mjcf, mjcf("<replicate/>")),
    "refers to the missing default class 'c'. Allowed: main.": (read_mjcf, mjcf('<geom class="c"/>')),
    "refers to the missing default class 'armm'. Did you mean 'arm'?": (read_mjcf, mjcf('<body childclass="armm"><geom size="1"/></body>', '<default><default class="arm"/></default>')),
    "has a default class without a name.": (read_mjcf, mjcf(BALL, "<default><default/></default>")),
    "has a duplicate default class 'a'.": (read_mjcf, mjcf(BALL, '<default><default class="a"/><default class="a"/></default>')),
    "eulerseq 'zyx' is not supported. Use xyz.": (read_mjcf, mjcf(BALL, '<compiler eulerseq="zyx"/>')),
    "a geom has the unsupported type 'ellipsoid'. Allowed: box, capsule, cylinder, mesh, sphere.": (read_mjcf, mjcf('<geom type="ellipsoid" size="1 1 1"/>')),
    "a geom refers to the missing mesh 'm'. Allowed: ": (read_mjcf, mjcf('<geom type="mesh" mesh="m"/>')),
    "size of a box is '1'. It must be 3 finite numbers.": (read_mjcf, mjcf('<geom type="box" size="1"/>')),
    "radius_m of a sphere is 0.0. Sizes must be finite and above 0.": (read_mjcf, mjcf('<geom size="0"/>')),
    "'xyaxes' is not supported. Allowed: axisangle, euler, quat.": (read_mjcf, mjcf('<geom size="1" xyaxes="1 0 0 0 1 0"/>')),
    "quat of a body or geom is '0 0 0 0', which is not a rotation.": (read_mjcf, mjcf('<geom size="1" quat="0 0 0 0"/>')),
    "joint 'j' has the unsupported type 'ball'. Allowed: hinge, slide.": (read_mjcf, mjcf(f'{BALL}<body name="b"><joint name="j" type="ball"/></body>')),
    "joint 'j' has no range.": (read_mjcf, mjcf(f'{BALL}<body name="b"><joint name="j" type="slide"/></body>')),
    "joint 'k' has no range.": (read_mjcf, mjcf(f'{BALL}<body name="b"><joint name="k" type="slide" range="0 1"/></body>', '<compiler autolimits="false"/>')),
    "has a duplicate link 'b'.": (read_mjcf, mjcf(f'{BALL}<body name="b"/><body name="b"/>')),
    "the mass of the body 'b' is -1 kg. It must be at least 0.": (read_mjcf, mjcf(f'{BALL}<body name="b"><inertial mass="-1"/></body>')),
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_unsupported_features_raise(tmp_path, message):
    read, text = REFUSED[message]
    path = tmp_path / "a.xml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: {message}")


def test_urdf_with_wrong_suffix_raises(tmp_path):
    (tmp_path / "a.sdf").write_text(URDF)
    with pytest.raises(InputError, match="not SDF: the root element is <robot>"):
        read_sdf(tmp_path / "a.sdf")
    assert read_urdf(tmp_path / "a.sdf").links[1].name == "arm"


def collada_of(image):
    """A COLLADA file of one triangle that has an image."""
    collada = pytest.importorskip("collada")
    whole = collada.Collada()
    picture = collada.material.CImage("image", image)
    surface = collada.material.Surface("surface", picture)
    sampler = collada.material.Sampler2D("sampler", surface)
    diffuse = collada.material.Map(sampler, "UV")
    effect = collada.material.Effect("effect", [surface, sampler], "phong", diffuse=diffuse)
    material = collada.material.Material("material", "material", effect)
    whole.images.append(picture)
    whole.effects.append(effect)
    whole.materials.append(material)
    corners = collada.source.FloatSource("v", np.eye(3).ravel(), ("X", "Y", "Z"))
    places = collada.source.FloatSource("uv", np.array([0.0, 0, 1, 0, 0, 1]), ("S", "T"))
    geometry = collada.geometry.Geometry(whole, "g", "g", [corners, places])
    inputs = collada.source.InputList()
    inputs.addInput(0, "VERTEX", "#v")
    inputs.addInput(1, "TEXCOORD", "#uv", set="0")
    geometry.primitives.append(
        geometry.createTriangleSet(np.array([0, 0, 1, 1, 2, 2]), inputs, "name")
    )
    whole.geometries.append(geometry)
    named = collada.scene.MaterialNode("name", material, [])
    node = collada.scene.Node("node", [collada.scene.GeometryNode(geometry, [named])])
    whole.scenes.append(collada.scene.Scene("scene", [node]))
    whole.scene = whole.scenes[0]
    return whole


@pytest.mark.parametrize("name", ["../textures/g%20r.png", "textures/none.png", "bad.png"])
def test_collada_images_are_read_or_reported(tmp_path, name):
    whole = collada_of(name)
    for folder in ("meshes", "textures"):
        (tmp_path / folder).mkdir()
    Image.new("RGB", (4, 4), (10, 200, 30)).save(tmp_path / "textures/g r.png")
    (tmp_path / "meshes/bad.png").write_bytes(b"no image" * 9)
    whole.write(str(tmp_path / "meshes/a.dae"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RepairWarning)
        (solid,), _ = read_solids(tmp_path / "meshes/a.dae", 10, tmp_path)
    said = [str(one.message) for one in caught if one.category is RepairWarning]
    flaw = {
        "bad.png": "image 'bad.png' has an unsupported format and is ignored.",
        "textures/none.png": "file 'textures/none.png' is missing. It is ignored.",
    }.get(name)
    assert said == ([f"{tmp_path / 'meshes/a.dae'}: {flaw}"] if flaw else [])
    assert (solid.image is None) is (flaw is not None)
    assert solid.image is None or solid.image.getpixel((0, 0)) == (10, 200, 30)
