"""Where links are: axioms of our kinematics, and Bullet's own on a robot that it ships."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sim2cam.assets.model_files.urdf import read_urdf
from sim2cam.errors import SpecError
from sim2cam.geometry.poses import Pose, quaternion
from sim2cam.scene.articulation import Articulation, Joint, Mimic

QUARTER = quaternion(Rotation.from_euler("x", math.pi / 2))
BOX = ((-0.1, -0.2, 0.0), (0.1, 0.2, 0.5))


def arm():
    """A shoulder that turns, an elbow that slides, and a finger that follows the elbow the other way."""
    joints = (
        Joint(
            "shoulder", "revolute", 0, Pose(QUARTER, (0.0, 0.0, 0.5)), (0.0, 0.0, 1.0), -1.0, 2.0
        ),
        Joint(
            "elbow", "prismatic", 1, Pose((1, 0, 0, 0), (0.3, 0.0, 0.0)), (1.0, 0.0, 0.0), 0.1, 0.4
        ),
        Joint("finger", "prismatic", 1, Pose(), (0.0, 1.0, 0.0), 0, 1, Mimic("elbow", -2.0, 0.05)),
        Joint("weld", "fixed", 2, Pose((1, 0, 0, 0), (0.0, 0.0, 0.2))),
    )
    return Articulation(
        ("base", "upper", "lower", "tip", "nail"), joints, (BOX, None, BOX, None, None)
    )


def test_links_stand_where_their_joints_put_them():
    matrices = arm().compute_link_matrices((("shoulder", math.pi / 2), ("elbow", 0.2)))
    assert matrices[0] == pytest.approx(np.eye(4))
    assert matrices[1][:3, 3] == pytest.approx((0, 0, 0.5))
    # the shoulder's z lies along the world's -y; a quarter turn about it lifts the arm along z
    assert matrices[1][:3, 0] == pytest.approx((0, 0, 1), abs=1e-12)
    assert matrices[2][:3, 3] == pytest.approx((0, 0, 0.5 + 0.3 + 0.2))
    along = matrices[1][:3, 1]
    assert matrices[3][:3, 3] == pytest.approx((0, 0, 0.5) + (-2.0 * 0.2 + 0.05) * along)
    assert matrices[4] == pytest.approx(matrices[2] @ Pose(position_m=(0, 0, 0.2)).matrix())


def test_states_are_shares_of_the_way_between_limits():
    assert [joint.name for joint in arm().free_joints] == ["shoulder", "elbow"]
    assert arm().get_rest_states() == (("shoulder", 0.0), ("elbow", 0.1))
    assert arm().interpolate_states({"shoulder": 0.0, "elbow": 1.0, "other": 9}) == (
        ("shoulder", -1.0),
        ("elbow", pytest.approx(0.4)),
    )
    assert dict(arm().interpolate_states({"shoulder": 0.5, "elbow": 0.5})) == pytest.approx(
        {"shoulder": 0.5, "elbow": 0.25}
    )


def test_origins_and_corners_move_with_the_links():
    states = (("shoulder", 0.7), ("elbow", 0.3))
    matrices = arm().compute_link_matrices(states)
    assert set(arm().compute_joint_origins(states)) == {"shoulder", "elbow", "finger"}
    assert arm().compute_joint_origins(states)["elbow"] == pytest.approx(matrices[2][:3, 3])
    base, lower = arm().compute_link_corners(states)
    assert (base.min(axis=0), base.max(axis=0)) == (pytest.approx(BOX[0]), pytest.approx(BOX[1]))
    back = (lower - matrices[2][:3, 3]) @ matrices[2][:3, :3]
    assert (back.min(axis=0), back.max(axis=0)) == (pytest.approx(BOX[0]), pytest.approx(BOX[1]))


@pytest.mark.parametrize(("low", "high"), [(1.0, 0.0), (-math.inf, 0.0), (0.0, math.nan)])
def test_limits_are_finite_and_in_order(low, high):
    with pytest.raises(SpecError, match=r"joint 'j' has limits .*They must be finite"):
        Joint("j", "revolute", 0, Pose(), low=low, high=high)


@pytest.mark.parametrize("name", ["franka_panda/panda.urdf", "r2d2.urdf", "pr2_gripper.urdf"])
def test_links_stand_where_bullet_has_them(name):
    """Bullet is given its own file; ours never."""
    pybullet = pytest.importorskip("pybullet")
    import pybullet_data

    path = Path(pybullet_data.getDataPath(), name)
    model = read_urdf(path)
    ours = Articulation(tuple(link.name for link in model.links), model.joints, ())
    client = pybullet.connect(pybullet.DIRECT)
    try:
        robot = pybullet.loadURDF(str(path), useFixedBase=1, physicsClientId=client)
        count = pybullet.getNumJoints(robot, physicsClientId=client)
        infos = [pybullet.getJointInfo(robot, i, physicsClientId=client) for i in range(count)]
        assert count == len(ours.joints)
        inertial = pybullet.getDynamicsInfo(robot, -1, physicsClientId=client)[3:5]
        base = pybullet.getBasePositionAndOrientation(robot, physicsClientId=client)
        to_base = pybullet.multiplyTransforms(*base, *pybullet.invertTransform(*inertial))
        offset = _pose(*to_base).inverse()
        for seed in range(4):
            rng = np.random.default_rng(seed)
            states = ours.interpolate_states(
                {joint.name: rng.random() for joint in ours.free_joints}
            )
            matrices = ours.compute_link_matrices(states)
            known = dict(states)
            for index, info in enumerate(infos):
                joint = next(j for j in ours.joints if j.name == info[1].decode())
                state = known.get(joint.name, 0.0)
                if joint.mimic:
                    state = joint.mimic.factor * known[joint.mimic.joint] + joint.mimic.offset
                pybullet.resetJointState(robot, index, state, physicsClientId=client)
            for index, info in enumerate(infos):
                found = pybullet.getLinkState(
                    robot, index, computeForwardKinematics=1, physicsClientId=client
                )
                theirs = (offset @ _pose(*found[4:6])).matrix()
                number = ours.links.index(info[12].decode())
                assert matrices[number] == pytest.approx(theirs, abs=2e-6), ours.links[number]
    finally:
        pybullet.disconnect(client)


def _pose(position, quaternion_xyzw):
    x, y, z, w = quaternion_xyzw
    return Pose((w, x, y, z), tuple(position))
