import math
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sim2cam.errors import SpecError
from sim2cam.geometry.poses import quaternion
from sim2cam.objects.tubes import Strand, Tubes
from sim2cam.render.physics import simulation
from sim2cam.render.physics.simulation import (
    MAX_PENETRATION_M,
    MAX_REST_SPEED_M_S,
    MAX_TILT_RAD,
    RestCriterion,
    simulate,
)
from sim2cam.render.physics.trajectory import MotionRecording
from sim2cam.render.physics.world import GRAVITY_M_S2
from sim2cam.scene.scene import Scene


def test_a_body_falls_as_gravity_has_it(make, monkeypatch):
    monkeypatch.setattr(simulation, "_MAX_CHECKS", 2)
    ball = make.body("ball", make.sphere(0.01), (0.0, 0.0, 0.0), velocity_m_s=(0.5, 0.0, 0.0))
    settled, certificate = simulate(Scene((ball,), make.sky, ()))
    t = certificate.seconds
    x, y, z = settled.bodies[0].pose.position_m
    assert t == pytest.approx(0.2)
    step = 1 / 240  # semi-implicit Euler falls half a step ahead
    assert z == pytest.approx(-GRAVITY_M_S2 * t * (t + step) / 2, rel=1e-3)
    assert (x, y) == pytest.approx((0.5 * t, 0.0), rel=1e-3)
    assert re.fullmatch(r"still moving at [12]\.\d{3} m/s after 0\.2 s", certificate.rejection)


def test_a_dropped_body_comes_to_rest_soon_after_its_fall(make):
    drop = 0.8
    die = make.body("die", make.die(), (0.0, 0.0, drop + 0.008), restitution=0.0)
    settled, certificate = simulate(make.scene(die))
    fall = math.sqrt(2 * drop / GRAVITY_M_S2)
    assert fall < certificate.seconds < fall + 0.5
    assert settled.bodies[1].pose.position_m == pytest.approx((0.0, 0.0, 0.008), abs=3e-4)


def test_thrown_dice_settle_within_the_bounds(make):
    settled, certificate = simulate(make.thrown(8))
    assert certificate.rejection is None
    assert certificate.rest_speed_m_s < MAX_REST_SPEED_M_S
    assert 0 <= certificate.penetration_m <= MAX_PENETRATION_M
    assert certificate.tilt_rad <= MAX_TILT_RAD
    for body in settled.bodies[1:]:
        assert body.pose.position_m[2] > 0.008 - MAX_PENETRATION_M
        assert math.hypot(*body.pose.rotation_wxyz) == pytest.approx(1.0, abs=1e-6)
        assert body.velocity_m_s == (0.0, 0.0, 0.0)
    spots = np.array([body.pose.position_m for body in settled.bodies[1:]])
    apart = np.linalg.norm(spots[:, None] - spots[None], axis=-1) + np.eye(len(spots))
    assert apart.min() > 0.016 - MAX_PENETRATION_M


def test_settling_is_deterministic_and_keeps_what_it_does_not_move(make):
    draft = make.thrown(4)
    settled, certificate = simulate(draft)
    assert simulate(draft) == (settled, certificate)
    assert settled.cameras == draft.cameras
    assert settled.bodies[0] == draft.bodies[0]
    for before, after in zip(draft.bodies[1:], settled.bodies[1:], strict=True):
        still = {"pose": after.pose, "velocity_m_s": (0.0,) * 3, "spin_rad_s": (0.0,) * 3}
        assert replace(before, **still) == after


@pytest.mark.parametrize(
    ("degrees", "rejection"),
    [(15, "None"), (25, r"a labelled body leans by (24\.[5-9]|25\.[0-5]) degrees")],
)
def test_a_die_that_leans_far_is_refused(make, degrees, rejection):
    turn = Rotation.from_euler("y", degrees, degrees=True)
    ramp = make.body("ramp", make.box((0.2, 0.2, 0.02)), (0.0, 0.0, 0.0), is_target=False,
                     is_fixed=True, friction=3.0, rotation=quaternion(turn))  # fmt: skip
    spot = turn.apply([0.0, 0.0, 0.0182])
    leaning = make.body("die", make.die(), tuple(spot), friction=3.0, restitution=0.0,
                        rotation=quaternion(turn))  # fmt: skip
    _, certificate = simulate(Scene((ramp, leaning), make.sky, ()))
    assert re.fullmatch(rejection, str(certificate.rejection))
    assert certificate.tilt_rad == pytest.approx(math.radians(degrees), abs=0.01)


def test_a_leaning_body_that_is_no_die_does_not_matter(make):
    wedge = make.body("wedge", make.box((0.1, 0.1, 0.02)), (0.0, 0.0, 0.0), is_target=False,
                      is_fixed=True, rotation=(0.99, 0.0, 0.141, 0.0))  # fmt: skip
    die = make.body("die", make.die(), (0.3, 0.0, 0.01))
    _, certificate = simulate(make.scene(wedge, die))
    assert certificate.rejection is None


@pytest.mark.parametrize(("is_target", "rejection"), [
    (True, "a labelled body ended 2.5 m away"), (False, None),
])  # fmt: skip
def test_what_is_to_be_found_must_not_end_far_away(make, is_target, rejection):
    for asset in (make.die(), make.box((0.03, 0.02, 0.02))):
        body = make.body("body", asset, (2.5, 0.0, 0.01), is_target=is_target)
        _, certificate = simulate(make.scene(body))
        assert certificate.rejection == rejection


def test_a_scene_settles_alike_whatever_settled_before(make):
    scene = make.thrown()
    first, _ = simulate(scene)
    simulate(replace(scene, bodies=scene.bodies[:2]))
    assert simulate(scene)[0] == first


@pytest.mark.parametrize("mass_kg", [0.0, -1.0, math.nan, math.inf])
def test_what_moves_needs_a_mass(make, mass_kg):
    problem = rf"body 'die' is not fixed and has a mass of {mass_kg} kg\. Set a finite mass above 0"
    with pytest.raises(SpecError, match=problem):
        simulate(make.scene(make.body("die", make.die(), (0.0, 0.0, 0.1), mass_kg=mass_kg)))


def sloped(make, share, length_m=0.3):
    """A box on a slope that takes a share of its friction, and the height of the slope's middle."""
    angle = math.atan(share * 0.5)
    turn = Rotation.from_euler("y", angle)
    ramp = make.body("ramp", make.box((length_m, 0.2, 0.02)), (0.0, 0.0, 0.1), is_target=False,
                     is_fixed=True, friction=1.0, rotation=quaternion(turn))  # fmt: skip
    spot = np.add(turn.apply([0.0, 0.0, 0.0151]), [0.0, 0.0, 0.1])
    box = make.body("box", make.box((0.03, 0.03, 0.01)), tuple(spot), friction=0.5, restitution=0.0,
                    rotation=quaternion(turn), is_target=False)  # fmt: skip
    return make.scene(ramp, box)


@pytest.mark.parametrize(("share", "grip", "holds"), [(0.9, 1.0, True), (0.9, 0.8, False), (0.7, 0.8, True)])  # fmt: skip
def test_a_rest_must_hold_with_less_friction(make, share, grip, holds):
    _, certificate = simulate(sloped(make, share), criterion=RestCriterion(grip))
    slipped = re.fullmatch(
        r"a body moves by \d+\.\d mm when it is let go again", certificate.rejection or ""
    )
    assert bool(slipped) is not holds
    assert (certificate.drift_m <= simulation.MAX_DRIFT_M) is holds


def test_a_rest_must_hold_with_all_friction_too(make):
    """What balances on a foot tips over with friction; without any, its foot slips away below it."""
    foot, bar = ((0.0, 0.0, -0.02), (0.0, 0.0, 0.0)), ((-0.1, 0.0, 0.0), (0.1, 0.0, 0.0))
    balancing = Tubes(tuple(Strand(points, (0.005, 0.005)) for points in (foot, bar)))
    turn = Rotation.from_euler("y", 0.1, degrees=True)
    body = make.body("balancing", balancing, (0.0, 0.0, 0.025), friction=0.9, is_target=False,
                     rotation=quaternion(turn))  # fmt: skip
    _, certificate = simulate(make.scene(body), criterion=RestCriterion(1e-6))
    assert certificate.rejection == "a body moves by 0.7 mm when it is let go again"


def test_what_slips_may_come_to_rest_where_it_goes(make):
    draft = sloped(make, 0.9, length_m=0.1)
    once, refused = simulate(draft, criterion=RestCriterion(0.8))
    assert "moves by" in refused.rejection
    settled, certificate = simulate(draft, criterion=RestCriterion(0.8, max_restarts=6))
    assert certificate.rejection is None
    assert certificate.steps > refused.steps
    assert once.bodies[2].pose.position_m[2] > 0.1  # on the slope
    assert settled.bodies[2].pose.position_m[2] == pytest.approx(0.005, abs=1e-3)  # on the table
    film = MotionRecording(draft)
    assert simulate(draft, film, RestCriterion(0.8, max_restarts=6)) == (
        once,
        refused,
    )  # films are not tapped


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"friction_scale": 0.0}, "friction_scale must be above 0 and at most 1, not 0.0"),
        ({"friction_scale": 1.1}, "friction_scale must be above 0 and at most 1, not 1.1"),
        ({"friction_scale": math.nan}, "friction_scale must be above 0 and at most 1, not nan"),
        ({"max_restarts": -1}, "max_restarts must be 0 to 100, not -1"),
        ({"max_restarts": 101}, "max_restarts must be 0 to 100, not 101"),
    ],
)
def test_what_is_no_rest_is_refused(values, problem):
    with pytest.raises(ValueError, match=re.escape(problem)):
        RestCriterion(**values)
