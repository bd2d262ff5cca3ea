import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim2cam.geometry.poses import Pose

lengths = st.floats(-5, 5)
positions = st.tuples(lengths, lengths, lengths)
quaternions = (
    st.tuples(*[st.floats(-1, 1)] * 4)
    .filter(lambda q: np.linalg.norm(q) > 0.1)
    .map(lambda q: tuple(float(v) for v in np.array(q) / np.linalg.norm(q)))
)
poses = st.builds(Pose, quaternions, positions)
POINTS = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.3, -2.0, 0.7]])


def close(a: Pose, b: Pose) -> bool:
    return bool(np.abs(a.matrix() - b.matrix()).max() < 1e-9)


@given(a=poses, b=poses, c=poses)
def test_composition_is_associative(a, b, c):
    assert close((a @ b) @ c, a @ (b @ c))


@given(a=poses)
def test_identity_and_inverse(a):
    assert close(a @ Pose(), a)
    assert close(Pose() @ a, a)
    assert close(a @ a.inverse(), Pose())
    assert close(a.inverse() @ a, Pose())


@given(a=poses)
def test_the_matrix_and_back(a):
    assert close(Pose.from_matrix(a.matrix()), a)


@given(a=poses, b=poses)
def test_composition_applies_the_right_one_first(a, b):
    assert (a @ b).apply(POINTS) == pytest.approx(a.apply(b.apply(POINTS)), abs=1e-9)


@given(a=poses)
def test_apply_is_the_homogeneous_product(a):
    homogeneous = np.c_[POINTS, np.ones(3)] @ a.matrix().T
    assert a.apply(POINTS) == pytest.approx(homogeneous[:, :3], abs=1e-9)


def test_quaternions_have_the_scalar_first():
    quarter = np.sqrt(0.5)
    about_z = Pose((float(quarter), 0.0, 0.0, float(quarter)))
    assert about_z.apply(np.array([[1.0, 0.0, 0.0]])) == pytest.approx(np.array([[0, 1, 0]]))


@given(eye=positions, target=positions, roll=st.floats(-4, 4))
def test_a_camera_sees_its_target_on_the_axis(eye, target, roll):
    distance = float(np.linalg.norm(np.subtract(target, eye)))
    if distance < 1e-3:
        return
    camera = Pose.look_at(eye, target, roll)
    seen = camera.inverse().apply(np.array([target]))
    assert seen == pytest.approx(np.array([[0, 0, distance]]), abs=1e-6)
    assert np.linalg.det(camera.matrix()) == pytest.approx(1)


def test_at_roll_zero_the_world_s_up_is_up_in_the_image():
    camera = Pose.look_at((1.0, 2.0, 0.5), (0.0, 0.0, 0.0), 0.0)
    low, high = camera.inverse().apply(np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 0.1]]))
    assert high[1] < low[1]
    assert high[0] == pytest.approx(low[0])


def test_straight_down_the_world_s_y_is_up_in_the_image():
    camera = Pose.look_at((0.0, 0.0, 1.0), (0.0, 0.0, 0.0), 0.0)
    seen = camera.inverse().apply(np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]))
    assert seen == pytest.approx(np.array([[1, 0, 1], [0, -1, 1]]), abs=1e-12)


def test_roll_turns_the_camera_clockwise():
    camera = Pose.look_at((0.0, 0.0, 1.0), (0.0, 0.0, 0.0), np.pi / 2)
    right = camera.matrix()[:3, 0]
    assert right == pytest.approx(np.array([0, -1, 0]), abs=1e-12)


def test_a_camera_cannot_look_at_itself():
    with pytest.raises(ValueError, match=r"^eye and target of a camera are both \(1, 2, 3\)$"):
        Pose.look_at((1, 2, 3), (1, 2, 3), 0.0)
