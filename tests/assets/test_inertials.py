"""Masses of which files of models tell: read alike from every format, believed where they could be."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sim2cam.assets.importer import import_assets
from sim2cam.assets.mesh import build_collider
from sim2cam.assets.model_files.mjcf import read_mjcf
from sim2cam.assets.model_files.sdf import read_sdf
from sim2cam.assets.model_files.urdf import read_urdf
from sim2cam.errors import InputError
from sim2cam.geometry.inertia import (
    compute_center_of_mass,
    compute_principal_axes,
    tensor_to_pseudo_inertia,
)
from sim2cam.geometry.poses import Pose, quaternion

TURN = Rotation.from_euler("xyz", (0.1, 0.2, 0.3))
FRAME = Pose(quaternion(TURN), (0.01, 0.02, 0.03))
TENSOR = np.array([[4e-4, 1e-5, 2e-5], [1e-5, 5e-4, -3e-5], [2e-5, -3e-5, 6e-4]])
BALL = "<visual><geometry><sphere radius='0.1'/></geometry></visual>"


def numbers(values):
    return " ".join(f"{value:.17g}" for value in values)


def urdf(inertial, shape=BALL):
    return f"<robot name='r'><link name='cup'>{inertial}{shape}</link></robot>"


def sdf(inertial):
    ball = "<visual name='v'><geometry><sphere><radius>0.1</radius></sphere></geometry></visual>"
    joint = "<joint name='j' type='fixed'><pose>0 0 0.5 0.1 0.2 0</pose><parent>base</parent><child>cup</child></joint>"
    return (
        f"<sdf><model name='m'><link name='base'/>{joint}"
        f"<link name='cup'>{inertial}{ball}</link></model></sdf>"
    )


def mjcf(inertial, joint=""):
    ball = "<geom type='sphere' size='0.1'/>"
    return (
        f"<mujoco><worldbody><body name='cup'>{joint}{inertial}{ball}</body></worldbody></mujoco>"
    )


ROTATED = TURN.as_matrix() @ TENSOR @ TURN.as_matrix().T
FULL = numbers(ROTATED[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]])
MOMENTS, AXES = np.linalg.eigh(ROTATED)
AXES[:, 2] *= np.linalg.det(AXES)
QUAT = numbers(quaternion(Rotation.from_matrix(AXES)))
ALIKE = {
    "a.urdf": (read_urdf, urdf("<inertial><origin xyz='0.01 0.02 0.03' rpy='0.1 0.2 0.3'/><mass value='0.4'/>"
        "<inertia ixx='4e-4' iyy='5e-4' izz='6e-4' ixy='1e-5' ixz='2e-5' iyz='-3e-5'/></inertial>")),
    "a.sdf": (read_sdf, sdf("<inertial><pose>0.01 0.02 0.03 0.1 0.2 0.3</pose><mass>0.4</mass><inertia><ixx>4e-4</ixx>"
        "<iyy>5e-4</iyy><izz>6e-4</izz><ixy>1e-5</ixy><ixz>2e-5</ixz><iyz>-3e-5</iyz></inertia></inertial>")),
    "full.mjcf": (read_mjcf, mjcf(f"<inertial mass='0.4' pos='0.01 0.02 0.03' fullinertia='{FULL}'/>")),
    "diag.mjcf": (read_mjcf, mjcf(
        f"<inertial mass='0.4' pos='0.01 0.02 0.03' quat='{QUAT}' diaginertia='{numbers(MOMENTS)}'/>",
        "<joint pos='0 0.3 0'/>")),
}  # fmt: skip


@pytest.mark.parametrize("name", ALIKE)
def test_mass_is_equal_in_every_format(tmp_path, name):
    read, text = ALIKE[name]
    (tmp_path / name).write_text(text)
    link = read(tmp_path / name).links[-1]
    (ball,) = link.visuals  # in the middle of which all of them have their frames
    found = Pose(position_m=link.inertial.pose.position_m), link.inertial.compute_inertia()
    expected = tensor_to_pseudo_inertia(0.4, TENSOR, ball.pose @ FRAME)
    assert found[0].position_m == pytest.approx((ball.pose @ FRAME).position_m)
    assert found[1] == pytest.approx(expected, abs=1e-12)


NOTHING = {
    "a.urdf": urdf("<inertial><mass value='0'/></inertial>"),
    "a.sdf": sdf("<inertial><mass>0</mass></inertial>"),
    "a.mjcf": mjcf("<inertial mass='0' pos='0 0 0'/>"),
    "b.mjcf": mjcf("").replace("size", "mass='0' size"),
}
UNTOLD = {"c.urdf": urdf(""), "c.sdf": sdf("<inertial/>"), "c.mjcf": mjcf("")}


def test_zero_mass_is_reported(tmp_path):
    for name, text in (NOTHING | UNTOLD).items():
        (tmp_path / name).write_text(text)
    for found in import_assets(tmp_path, [*NOTHING, *UNTOLD]):
        assert found.info.mass_kg.source.startswith("assumed")
        said = "has a mass of 0 kg. A mass is assumed instead."
        assert (said in found.repairs) is (found.name in NOTHING), found.name


TWO = """<robot name="two">
<link name="base"><inertial><mass value="1"/><inertia ixx="1e-3" iyy="2e-3" izz="2e-3" ixy="0" ixz="0" iyz="0"/></inertial>
  <visual><geometry><box size="0.2 0.1 0.1"/></geometry></visual></link>
<link name="arm"><inertial><origin xyz="0.1 0 0"/><mass value="0.5"/><inertia ixx="1e-5" iyy="1e-3" izz="1e-3" ixy="0" ixz="0" iyz="0"/></inertial>
  <visual><origin xyz="0.1 0 0"/><geometry><box size="0.2 0.02 0.02"/></geometry></visual></link>
<joint name="turn" type="revolute"><parent link="base"/><child link="arm"/><origin xyz="0.1 0 0"/><axis xyz="0 0 1"/>
  <limit lower="0" upper="1.5707963267948966"/></joint></robot>"""


@pytest.mark.parametrize("turned", [False, True])
def test_link_inertias_follow_joint_states(tmp_path, turned):
    (tmp_path / "two.urdf").write_text(TWO)
    (found,) = import_assets(tmp_path, ["two.urdf"])
    assert not any("inertia" in words for words in found.repairs)
    facts = found.info.pose_joints({"turn": float(turned)})
    arm = np.array([0.1, 0.1, 0.0]) if turned else np.array([0.2, 0.0, 0.0])
    center = arm / 3
    spread = build_collider(facts.mesh).inertia
    assert compute_center_of_mass(spread) == pytest.approx(center)
    tensor = np.diag([1e-3, 2e-3, 2e-3]) + np.diag(
        [1e-3, 1e-5, 1e-3] if turned else [1e-5, 1e-3, 1e-3]
    )
    for mass, place in ((1.0, -center), (0.5, arm - center)):
        tensor = tensor + mass * (place @ place * np.eye(3) - np.outer(place, place))
    _, moments = compute_principal_axes(spread)
    assert np.sort(moments) * 1.5 == pytest.approx(np.linalg.eigvalsh(tensor))
    if not turned:
        assert found.info.center_m == pytest.approx(center)


DOUBT = "the inertia of 'cup' is implausible for the shape. Uniform density is assumed instead."
SHIFTED = "<visual><origin xyz='0 0 1'/><geometry><box size='0.1 0.1 0.2'/></geometry></visual>"
PLACEHOLDERS = {
    "ones": "<inertia ixx='1' iyy='1' izz='1' ixy='0' ixz='0' iyz='0'/>",
    "thousandths": "<inertia ixx='1e-3' iyy='1e-3' izz='1e-3' ixy='0' ixz='0' iyz='0'/>",
    "nothings": "<inertia ixx='0' iyy='0' izz='0' ixy='0' ixz='0' iyz='0'/>",
    "specks": "<inertia ixx='1e-9' iyy='1e-9' izz='1e-9' ixy='0' ixz='0' iyz='0'/>",
    "negative": "<inertia ixx='-1e-3' iyy='1e-3' izz='1e-3' ixy='0' ixz='0' iyz='0'/>",
    "one too great": "<inertia ixx='1e-4' iyy='1e-4' izz='4e-4' ixy='0' ixz='0' iyz='0'/>",
    "huge": "<inertia ixx='1e308' iyy='1e308' izz='1e308' ixy='1e308' ixz='0' iyz='0'/>",
    "elsewhere": "<inertia ixx='1e-4' iyy='1e-4' izz='1e-4' ixy='0' ixz='0' iyz='0'/>",  # not at z = 1
}  # fmt: skip


def test_implausible_inertias_are_replaced(tmp_path):
    for name, inertia in PLACEHOLDERS.items():
        inertial = f"<inertial><mass value='0.1'/>{inertia}</inertial>"
        if name != "elsewhere":
            inertial = inertial.replace("<inertial>", "<inertial><origin xyz='0 0 1'/>")
        (tmp_path / f"{name}.urdf").write_text(urdf(inertial, SHIFTED))
    for found in import_assets(tmp_path, [f"{name}.urdf" for name in PLACEHOLDERS]):
        assert found.repairs[0] == DOUBT, found.name
        assert found.info.mass_kg.low == 0.1
        frame, moments = compute_principal_axes(build_collider(found.info.mesh).inertia)
        assert frame.position_m == pytest.approx((0, 0, 1))
        assert moments == pytest.approx(np.array([0.05, 0.05, 0.02]) / 12)


REFUSED = {
    "fullinertia of the body 'cup' is '1 1 1'. It must be 6 finite numbers.": (read_mjcf, mjcf("<inertial mass='1' fullinertia='1 1 1'/>")),
    "diaginertia of the body 'cup' is 'nan 1 1'. It must be 3 finite numbers.": (read_mjcf, mjcf("<inertial mass='1' diaginertia='nan 1 1'/>")),
    "the mass of a geom of 'cup' is -1 kg. It must be at least 0.": (read_mjcf, mjcf("<geom size='0.1' mass='-1'/>")),
    "a <inertial> has no mass.": (read_mjcf, mjcf("<inertial diaginertia='1 1 1'/>")),
    "xyz of the origin of a inertial is '0 0'. It must be 3 finite numbers.": (read_urdf, urdf("<inertial><origin xyz='0 0'/><inertia/></inertial>")),
    "iyz of the link 'cup' is 'inf'. It must be a finite number.": (read_urdf, urdf("<inertial><inertia iyz='inf'/></inertial>")),
    "izz of the link 'cup' is 'none'. It must be a finite number.": (read_sdf, sdf("<inertial><inertia><izz>none</izz></inertia></inertial>")),
    "the mass of the link 'cup' is -2 kg. It must be at least 0.": (read_sdf, sdf("<inertial><mass>-2</mass></inertial>")),
    "pose of a inertial is '0 0'. It must be 6 finite numbers.": (read_sdf, sdf("<inertial><pose>0 0</pose><inertia/></inertial>")),
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_invalid_masses_raise(tmp_path, message):
    read, text = REFUSED[message]
    (tmp_path / "a.xml").write_text(text)
    with pytest.raises(InputError) as caught:
        read(tmp_path / "a.xml")
    assert str(caught.value) == f"{tmp_path / 'a.xml'}: {message}"
