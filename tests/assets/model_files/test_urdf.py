"""Models from URDF: parts, poses, colours, colliders, and files that are refused by name."""

import math
import warnings

import numpy as np
import pytest
import trimesh

from sim2cam.assets.folder import list_assets
from sim2cam.assets.importer import import_assets
from sim2cam.assets.mesh import build_collider, load_content, read_mesh_file
from sim2cam.assets.model_files.urdf import read_urdf
from sim2cam.errors import InputError, RepairWarning
from sim2cam.geometry.poses import Pose
from sim2cam.objects.primitives import Ground, Sphere
from sim2cam.render.meshes.mesh import build_mesh, compute_extent
from sim2cam.render.physics.simulation import simulate
from sim2cam.scene.light import Environment
from sim2cam.scene.material import Material, Texture
from sim2cam.scene.scene import Body, Scene
from sim2cam.scene.shape import MeshFile

CRANE = """\
<?xml version="1.0"?>
<robot name="crane">
  <material name="blue"><color rgba="0 0 1 1"/></material>
  <link name="mast">
    <inertial><mass value="2"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
    <visual><origin xyz="0 0 0.25"/><geometry><box size="0.1 0.1 0.5"/></geometry><material name="blue"/></visual>
    <collision><origin xyz="0 0 0.25"/><geometry><box size="0.1 0.1 0.5"/></geometry></collision>
  </link>
  <link name="jib">
    <inertial><mass value="0.5"/></inertial>
    <visual>
      <origin xyz="0.3 0 0" rpy="0 1.5707963267948966 0"/>
      <geometry><mesh filename="package://crane/meshes/rod.stl" scale="0.001 0.001 0.001"/></geometry>
      <material name="own"><color rgba="1 0 0 1"/></material>
    </visual>
  </link>
  <link name="hook"/>
  <joint name="tip" type="fixed">
    <parent link="jib"/><child link="hook"/><origin xyz="0.6 0 0"/>
  </joint>
  <joint name="swing/lift" type="revolute">
    <parent link="mast"/><child link="jib"/><origin xyz="0 0 0.5"/>
    <axis xyz="0 -2 0"/><limit lower="-1.4" upper="1.4"/>
  </joint>
</robot>
"""


@pytest.fixture
def crane(tmp_path):
    (tmp_path / "meshes").mkdir()
    trimesh.creation.box((40, 60, 600)).export(tmp_path / "meshes/rod.stl")  # millimetres
    (tmp_path / "crane.urdf").write_text(CRANE)
    return tmp_path / "crane.urdf"


def facts_of(path):
    (found,) = import_assets(path.parent, [path.name])
    assert found.error is None
    return found.info


def lifted(mesh, radians):
    from dataclasses import replace

    return replace(mesh, joints=(("swing_lift", radians),))


def test_links_are_parts_and_joints_have_states(crane):
    facts = facts_of(crane)
    assert list_assets(crane.parent) == ("crane.urdf",)  # its meshes are its parts
    assert facts.articulation.links == ("mast", "jib", "hook")
    assert [joint.name for joint in facts.articulation.joints] == ["swing_lift", "tip"]
    assert (facts.mesh.joints, facts.mesh.category) == ((("swing_lift", 0.0),), "crane")
    assert dict(facts.mesh.keypoints) == {"swing_lift": (0.0, 0.0, 0.5)}
    assert (facts.mass_kg.low, facts.mass_kg.high, facts.mass_kg.source) == (2.5, 2.5, "crane.urdf")
    assert np.allclose(facts.low_m, (-0.05, -0.05, 0.0), atol=1e-6)
    assert np.allclose(facts.high_m, (0.6, 0.05, 0.52), atol=1e-6)


@pytest.mark.parametrize("radians", [0.0, 0.5, -1.2])
def test_visual_and_collision_shapes_follow_joint(crane, radians):
    mesh = lifted(facts_of(crane).mesh, radians)
    found = build_mesh(mesh)
    assert set(np.unique(found.parts)) == {1, 2}
    turn = trimesh.transformations.rotation_matrix(radians, (0, -1, 0), (0, 0, 0.5))
    rod = trimesh.creation.box((0.6, 0.06, 0.04))
    rod.apply_translation((0.3, 0, 0.5))
    rod.apply_transform(turn)
    jib = found.vertices_m[found.parts == 2]
    assert np.allclose(jib.min(axis=0), rod.vertices.min(axis=0), atol=1e-6)
    assert np.allclose(jib.max(axis=0), rod.vertices.max(axis=0), atol=1e-6)
    assert np.allclose(np.linalg.norm(found.normals, axis=1), 1)
    a, b, c = found.vertices_m[found.faces].swapaxes(0, 1)
    across = np.cross(b - a, c - a)
    assert ((across * found.normals[found.faces[:, 0]]).sum(axis=1) > 0).all()
    mast, jib = build_collider(mesh).links
    corners = jib.pose.apply(jib.parts[0])
    assert np.allclose(corners.min(axis=0), rod.vertices.min(axis=0), atol=1e-6)
    assert mast.pose == Pose()


def test_links_have_their_materials_colours(crane):
    content = load_content(facts_of(crane).mesh)
    places = (content.mesh.uvs * content.colors.shape[1::-1]).astype(int)
    colors = content.colors[places[:, 1], places[:, 0]]
    assert (colors[content.mesh.parts == 1] == (0, 0, 255)).all()
    assert (colors[content.mesh.parts == 2] == (255, 0, 0)).all()


def test_the_box_around_the_links_holds_them(crane):
    facts = facts_of(crane).pose_joints({"swing_lift": 0.8})
    assert dict(facts.mesh.joints) == {"swing_lift": pytest.approx(-1.4 + 0.8 * 2.8)}
    low, high = compute_extent(facts.mesh)
    assert (np.array(facts.low_m) <= np.array(low) + 1e-6).all()
    assert (np.array(facts.high_m) >= np.array(high) - 1e-6).all()
    away = np.linalg.norm(build_mesh(facts.mesh).vertices_m - facts.center_m, axis=1).max()
    assert away <= facts.radius_m + 1e-6


def test_a_ball_rests_on_the_jib_and_misses_it_when_it_is_lifted(crane):
    mesh = facts_of(crane).mesh
    grey = Material(Texture("plain", (0.5,) * 3, (0.5,) * 3, 0.01, 0.0, 0.0, 0), 0.5, 0.04)
    heights = {}
    for radians in (0.0, 1.3):
        bodies = (
            Body("table", Ground(4.0), grey, Pose(), is_fixed=True),
            Body("crane", lifted(mesh, radians), grey, Pose(), is_fixed=True, restitution=0.0),
            Body("ball", Sphere(0.02), grey, Pose(position_m=(0.4, 0, 0.6)), mass_kg=0.1, restitution=0.0),
        )  # fmt: skip
        settled, certificate = simulate(Scene(bodies, Environment((1.0,) * 3, (1.0,) * 3, ()), ()))
        heights[radians] = settled.bodies[2].pose.position_m[2]
        assert certificate.penetration_m < 1e-3
    assert heights == {0.0: pytest.approx(0.54, abs=1e-3), 1.3: pytest.approx(0.02, abs=1e-3)}


def test_fixed_model_below_table_is_rejected(crane):
    grey = Material(Texture("plain", (0.5,) * 3, (0.5,) * 3, 0.01, 0.0, 0.0, 0), 0.5, 0.04)
    mesh = lifted(facts_of(crane).mesh, -1.4)
    bodies = (
        Body("table", Ground(4.0), grey, Pose(), is_fixed=True),
        Body("crane", mesh, grey, Pose(), is_fixed=True),
    )
    draft = Scene(bodies, Environment((1.0,) * 3, (1.0,) * 3, ()), ())
    settled, certificate = simulate(draft)
    assert (settled, certificate.steps) == (draft, 0)
    below = 0.6 * math.sin(1.4) + 0.02 * math.cos(1.4) - 0.5
    assert certificate.rejection == f"crane reaches {below * 1e3:.0f} mm below the table"


def test_a_model_of_one_link_is_a_mesh_with_a_mass(tmp_path):
    trimesh.creation.annulus(0.03, 0.04, 0.05).export(tmp_path / "ring.stl")
    (tmp_path / "ring.urdf").write_text(
        '<robot name="r"><link name="l"><inertial><mass value="0"/></inertial><visual><geometry>'
        '<mesh filename="ring.stl"/></geometry></visual></link></robot>'
    )
    facts = facts_of(tmp_path / "ring.urdf")
    assert facts.mesh.joints == ()
    assert facts.mass_kg.source.startswith("assumed")
    assert facts.n_convex_parts > 1  # hollow, so it is taken apart as meshes are
    plain = MeshFile(str(tmp_path / "ring.stl"), "ring")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepairWarning)
        assert np.allclose(compute_extent(facts.mesh), compute_extent(plain))


def test_changed_mesh_changes_digest(crane):
    first = facts_of(crane).mesh.digest
    trimesh.creation.box((40, 60, 610)).export(crane.parent / "meshes/rod.stl")
    second = facts_of(crane)
    assert second.mesh.digest != first
    assert second.high_m[0] == pytest.approx(0.605)
    read_mesh_file.cache_clear()


def test_center_of_mass_of_urdf_in_card_raises(crane):
    crane.with_suffix(".toml").write_text("center_of_mass = [0, 0, 0.2]")
    (found,) = import_assets(crane.parent, [crane.name])
    problem = "center_of_mass: URDF files define it for each link. Remove the key."
    assert found.error == f"{crane.with_suffix('.toml')}: {problem}"


LINK = '<link name="a"><visual><geometry><sphere radius="0.1"/></geometry></visual></link>'
OTHER = '<link name="b"/>'
ENDS = '<parent link="a"/><child link="b"/>'


def joint(inside="", kind="fixed", name="j", ends=ENDS):
    return f'<joint name="{name}" type="{kind}">{ends}{inside}</joint>'


def robot(*parts):
    return f"<robot>{''.join(parts)}</robot>"


def shape(solid):
    return f'<link name="a"><visual><geometry>{solid}</geometry></visual></link>'


REFUSED = {
    "is not valid XML (unclosed token: line 1, column 0).": "<robot",
    "has an unsupported encoding. Save it as UTF-8.": '<?xml version="1.0" encoding="klingon"?><robot/>',
    "defines entities, which are not supported. Expand them.": '<!DOCTYPE r [<!ENTITY x "y">]><robot>&x;</robot>',
    "not URDF: the root element is <sdf>, not <robot>.": "<sdf/>",
    "contains xacro elements. Run xacro first.": '<robot xmlns:xacro="http://www.ros.org/wiki/xacro"><xacro:macro/></robot>',
    "has no visual shapes.": "<robot/>",
    "a <link> has no name.": "<robot><link/></robot>",
    "has a duplicate link 'a'.": robot(LINK, LINK),
    "must have exactly one root link, not 2 ('a', 'b').": robot(LINK, OTHER),
    "must have exactly one root link, not 0 (none).": robot(LINK, OTHER, joint(), joint(name='k', ends='<parent link="b"/><child link="a"/>')),
    "has a duplicate joint 'j'.": robot(LINK, OTHER, joint(), joint()),
    "has a duplicate link carried by a joint 'b'.": robot(LINK, OTHER, joint(), joint(name='k')),
    "joint 'j' refers to the missing link 'c'.": robot(LINK, joint(ends='<parent link="a"/><child link="c"/>')),
    "joint 'j' has the unsupported type 'floating'. Allowed: continuous, fixed, prismatic, revolute.": robot(LINK, OTHER, joint(kind='floating')),
    "joint 'j' has no limit.": robot(LINK, OTHER, joint(kind='revolute')),
    "joint 'j' has limits 1 to -1. They must be finite, with lower <= upper.": robot(LINK, OTHER, joint('<limit lower="1" upper="-1"/>', 'revolute')),
    "upper limit of the joint 'j' is 'nan'. It must be a finite number.": robot(LINK, OTHER, joint('<limit upper="nan"/>', 'revolute')),
    "axis of the joint 'j' is '0 0 0', which has no direction.": robot(LINK, OTHER, joint('<axis xyz="0 0 0"/>', 'continuous')),
    "joint 'j' mimics 'k', which is not a free joint.": robot(LINK, OTHER, joint('<mimic joint="k"/>', 'continuous')),
    "the shape 'plane' is not supported. Allowed: box, cylinder, mesh, sphere.": robot(shape('<plane/>')),
    "a <visual> has no geometry.": '<robot><link name="a"><visual/></link></robot>',
    "a <sphere> has no radius.": robot(shape('<sphere/>')),
    "radius of a sphere is 'inf'. It must be a finite number.": robot(shape('<sphere radius="inf"/>')),
    "size_m of a cuboid is (0.0, 1.0, 1.0). Sizes must be finite and above 0.": robot(shape('<box size="0 1 1"/>')),
    "size of a box is '1 1'. It must be 3 finite numbers.": robot(shape('<box size="1 1"/>')),
    "mesh 'a.urdf' is not in a supported format (": robot(shape('<mesh filename="a.urdf"/>')),
    "the mass of the link 'a' is 'heavy'. It must be a finite number.": '<robot><link name="a"><inertial><mass value="heavy"/></inertial></link></robot>',
    "the mass of the link 'a' is -1 kg. It must be at least 0.": '<robot><link name="a"><inertial><mass value="-1"/></inertial></link></robot>',
    "ixx of the link 'a' is 'nan'. It must be a finite number.": '<robot><link name="a"><inertial><inertia ixx="nan"/></inertial></link></robot>',
    "has 300 links; at most 256 are allowed.": "<robot>" + "".join(f'<link name="{i}"/>' for i in range(300)) + "</robot>",
    "has more than 50000 elements, or more than 64 deep.": "<a>" * 70 + "</a>" * 70,
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_unsupported_urdf_raises(tmp_path, message):
    (tmp_path / "out.stl").write_bytes(b"")
    path = tmp_path / "in" / "a.urdf"
    path.parent.mkdir()
    path.write_text(REFUSED[message])
    with pytest.raises(InputError) as caught:
        read_urdf(path)
    assert str(caught.value).startswith(f"{path}: {message}")
