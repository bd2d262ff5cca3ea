"""A film shows what the physics did: free fall by the book, rest at the end, nothing changed by it."""

import numpy as np
import pytest

from sim2cam.geometry.motion import ZERO_TWIST
from sim2cam.render.physics.simulation import simulate
from sim2cam.render.physics.trajectory import STEP_S, MotionRecording
from sim2cam.render.physics.world import GRAVITY_M_S2


@pytest.fixture(scope="module")
def filmed(make):
    draft = make.thrown(3)
    film = MotionRecording(draft)
    settled, certificate = simulate(draft, film)
    return draft, film, settled, certificate


def test_filming_changes_nothing(filmed):
    draft, _, settled, certificate = filmed
    assert simulate(draft) == (settled, certificate)


def test_it_ends_where_the_bodies_lie(filmed):
    _, film, settled, certificate = filmed
    last = film.get_scene(certificate.seconds)
    assert [b.pose for b in last.bodies] == [b.pose for b in settled.bodies]
    assert last.cameras == settled.cameras


def test_before_the_throw_bodies_are_held(filmed):
    draft, film, _, _ = filmed
    for body, held in zip(draft.bodies, film.get_scene(-0.1).bodies, strict=True):
        assert held.pose == body.pose
        assert held.get_motion().twist == ZERO_TWIST
    assert film.get_scene(0.0) == film.get_scene(-5.0)


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_bodies_fall_as_gravity_has_it(make, share):
    ball = make.body("ball", make.sphere(0.01), (0.0, 0.0, 1.0), velocity_m_s=(0.5, 0.0, 0.0),
                     spin_rad_s=(0.0, 0.0, 3.0))  # fmt: skip
    draft = make.scene(ball)
    film = MotionRecording(draft)
    simulate(draft, film)
    seconds = (48 + share) * STEP_S
    body = film.get_scene(seconds).bodies[1]
    steps = 49  # semi-implicit Euler: the velocity of the step that has begun
    assert body.velocity_m_s == pytest.approx((0.5, 0.0, -GRAVITY_M_S2 * steps * STEP_S), rel=1e-3)
    assert body.spin_rad_s == pytest.approx((0.0, 0.0, 3.0), rel=1e-3)
    fallen = GRAVITY_M_S2 * STEP_S**2 * (48 * 49 / 2 + share * 49)
    assert body.pose.position_m == pytest.approx((0.5 * seconds, 0.0, 1 - fallen), rel=1e-4)
    turned = body.pose.rotation().as_rotvec()
    assert turned == pytest.approx((0.0, 0.0, 3.0 * seconds), rel=1e-3)


def test_velocities_are_what_happens_in_a_step(filmed):
    _, film, _, certificate = filmed
    off = []
    for number in range(1, round(certificate.seconds / STEP_S)):
        before, after = film.get_scene((number - 1) * STEP_S), film.get_scene(number * STEP_S)
        for a, b in zip(before.bodies[1:], after.bodies[1:], strict=True):
            velocity = np.subtract(b.pose.position_m, a.pose.position_m) / STEP_S
            spin = (b.pose.rotation() * a.pose.rotation().inv()).as_rotvec() / STEP_S
            off.append((*(velocity - b.velocity_m_s), *(0.01 * (spin - b.spin_rad_s))))
    assert len(off) > 200
    assert np.quantile(np.abs(off), 0.9) < 1e-3  # m/s; Bullet pushes bodies that overlap apart


def test_what_touches_pushes_as_momentum_changes(make):
    """A ball falls, hits the table and bounces: forces over time are what its momentum gains."""
    ball = make.body("ball", make.sphere(0.01), (0.0, 0.0, 0.11), mass_kg=0.02, restitution=0.6)
    draft = make.scene(ball)
    film = MotionRecording(draft)
    _, certificate = simulate(draft, film)
    assert film.get_contacts(0.0) == film.get_contacts(0.05) == ()
    steps = range(1, round(0.5 / STEP_S))
    pushed = sum(
        contact.force_n[2] * (1 if contact.first == "ball" else -1) * STEP_S
        for step in steps
        for contact in film.get_contacts(step * STEP_S)
    )
    end_m_s = film.get_scene(steps[-1] * STEP_S).bodies[1].velocity_m_s[2]
    gained = 0.02 * (end_m_s + GRAVITY_M_S2 * steps[-1] * STEP_S)
    assert gained > 0.05
    assert pushed == pytest.approx(gained, rel=0.03)
    assert film.get_contacts(certificate.seconds) == certificate.contacts
