import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim2cam.geometry.motion import ZERO_TWIST, RigidMotion, Twist
from sim2cam.geometry.poses import Pose

numbers = st.floats(-3, 3)
vectors = st.tuples(numbers, numbers, numbers)
quaternions = (
    st.tuples(*[st.floats(-1, 1)] * 4)
    .filter(lambda q: np.linalg.norm(q) > 0.1)
    .map(lambda q: tuple(float(v) for v in np.array(q) / np.linalg.norm(q)))
)
poses = st.builds(Pose, quaternions, vectors)
courses = st.builds(RigidMotion, poses, st.builds(Twist, vectors, vectors))
times = st.floats(-0.5, 0.5)
POINTS = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.3, -2.0, 0.7]])


def close(a, b):
    return bool(np.abs(a.matrix() - b.matrix()).max() < 1e-9)


@given(course=courses, first=times, second=times)
def test_a_course_goes_on_from_where_it_is(course, first, second):
    onward = RigidMotion(course.compute_pose(first), course.twist)
    assert close(onward.compute_pose(second), course.compute_pose(first + second))


@given(course=courses, seconds=st.tuples(times, times, times))
def test_points_move_with_their_frame_and_back(course, seconds):
    when = np.array(seconds)
    found = course.to_parent(POINTS, when)
    each = [course.compute_pose(t).apply(p[None])[0] for t, p in zip(seconds, POINTS, strict=True)]
    assert np.allclose(found, each, atol=1e-9)
    assert np.allclose(course.from_parent(found, when), POINTS, atol=1e-9)


@given(course=courses)
def test_velocities_are_derivatives(course):
    step = 1e-5
    there, here = course.compute_pose(step).apply(POINTS), course.compute_pose(-step).apply(POINTS)
    spin, velocity = np.array(course.twist.spin_rad_s), np.array(course.twist.velocity_m_s)
    arms = course.pose.apply(POINTS) - course.pose.position_m
    assert np.allclose((there - here) / (2 * step), velocity + np.cross(spin, arms), atol=1e-6)


@given(course=courses, seconds=times)
def test_a_twist_seen_from_the_frame_itself_moves_it_alike(course, seconds):
    own = RigidMotion(Pose(), course.twist.express_in(course.pose))
    assert close(course.pose @ own.compute_pose(seconds), course.compute_pose(seconds))


def test_what_is_still_stays_to_the_bit():
    pose = Pose((0.6, 0.0, 0.8, 0.0), (0.1, 0.2, 0.3))
    assert RigidMotion(pose).compute_pose(0.7) is pose
    assert RigidMotion(pose, Twist((1.0, 0.0, 0.0))).compute_pose(0.0) is pose
    found = RigidMotion(pose).to_parent(POINTS, np.full(3, 0.7))
    assert np.array_equal(found, pose.apply(POINTS))


def test_half_a_turn_in_a_second():
    course = RigidMotion(
        Pose(position_m=(1.0, 0.0, 0.0)), Twist((0.0, 2.0, 0.0), (0.0, 0.0, np.pi))
    )
    assert course.compute_pose(1.0).apply(np.array([[1.0, 0.0, 0.0]]))[0] == pytest.approx(
        (0.0, 2.0, 0.0)
    )
    assert Twist((0.0, 0.0, 0.0), (0.0, 0.0, 0.0)) == ZERO_TWIST
