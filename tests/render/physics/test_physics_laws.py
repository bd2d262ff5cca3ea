"""What settles has to obey the laws that it is made of, and dice have to be fair."""

import math
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import trimesh
from scipy.spatial.transform import Rotation
from scipy.stats import chisquare
from solids import EXAMPLES

from sim2cam.assets.importer import import_assets
from sim2cam.geometry.poses import quaternion
from sim2cam.objects.primitives import Cuboid
from sim2cam.render.physics import simulation, trajectory, world
from sim2cam.render.physics.contacts import build_support_graph
from sim2cam.render.physics.simulation import simulate
from sim2cam.render.physics.trajectory import STEP_S
from sim2cam.render.physics.world import GRAVITY_M_S2
from sim2cam.scene.scene import Scene


@pytest.mark.parametrize("friction", [0.2, 0.4, 0.7])
def test_a_body_slides_from_the_angle_whose_tangent_is_its_friction(make, filmed, friction):
    def slid_m(tangent):
        slope = Rotation.from_euler("y", math.atan(tangent))
        ramp = make.body("ramp", make.box((2.0, 0.4, 0.02)), (0.0, 0.0, 0.0), is_target=False,
                         is_fixed=True, friction=1.0, rotation=quaternion(slope))  # fmt: skip
        start = slope.apply([0.0, 0.0, 0.018])
        die = make.body(
            "die", make.die(), tuple(start), rotation=quaternion(slope), friction=friction
        )
        _, end = filmed(0.5, ramp, die)[-1]
        return float(np.linalg.norm(end.pose.position_m - start))

    assert slid_m(0.97 * friction) < 3e-4
    tangent = 1.03 * friction
    angle = math.atan(tangent)
    push = GRAVITY_M_S2 * (math.sin(angle) - friction * math.cos(angle))
    assert slid_m(tangent) == pytest.approx(push * 0.5**2 / 2, rel=0.08)


@pytest.mark.parametrize("restitution", [0.4, 0.6, 0.8])
def test_a_ball_bounces_as_high_as_its_restitution_squared(make, filmed, restitution):
    ground = replace(make.ground(), restitution=1.0)
    shares = []
    for height in np.linspace(0.2, 0.5, 7):
        ball = make.body("ball", make.sphere(0.01), (0.0, 0.0, height + 0.01),
                         restitution=restitution, friction=0.0)  # fmt: skip
        balls = [ball for _, ball in filmed(1.0, ground, ball)]
        up = [ball.velocity_m_s[2] for ball in balls]
        bounced = next(i for i, speed in enumerate(up) if speed > 0)
        falls = next(i for i in range(bounced, len(up)) if up[i] < 0)
        top = max(ball.pose.position_m[2] for ball in balls[bounced : falls + 1]) - 0.01
        shares.append(top / height)
    assert np.mean(shares) == pytest.approx(restitution**2, rel=0.05)


def test_a_free_body_keeps_its_spin_and_loses_what_drag_takes(make, filmed):
    spun = {"spin_rad_s": (10.0, -4.0, 7.0), "velocity_m_s": (1.0, 0.0, 0.0)}
    free = make.body("free", make.die(), (0.0, 0.0, 5.0), **spun)
    slowed = make.body("slowed", make.die(), (0.0, 1.0, 5.0), drag=0.3, spin_drag=0.5, **spun)
    end_free, end_slowed = filmed(0.5, free, slowed)[-1]
    assert end_free.spin_rad_s == pytest.approx((10.0, -4.0, 7.0), rel=1e-3)
    assert end_free.velocity_m_s[0] == pytest.approx(1.0, rel=1e-3)
    assert end_slowed.velocity_m_s[0] == pytest.approx(0.7**0.5, rel=1e-2)
    assert end_slowed.spin_rad_s[2] == pytest.approx(7.0 * 0.5**0.5, rel=1e-2)


def thrown(make, count, rng, **options):
    """Dice apart from one another, thrown with random turns and spins."""
    dice = []
    for i in range(count):
        spot = (0.25 * (i % 5), 0.25 * (i // 5), 0.25)
        turn = Rotation.random(rng=rng)
        dice.append(
            make.body(f"die/{i}", make.die(), spot, rotation=quaternion(turn), restitution=0.5,
                      velocity_m_s=tuple(rng.normal(0, 0.3, 3)),
                      spin_rad_s=tuple(rng.normal(0, 25, 3)), **options)
        )  # fmt: skip
    return make.scene(*dice)


def faces_of(make, scenes, **options):
    rng = np.random.default_rng(5)
    counts = Counter()
    for _ in range(scenes):
        settled, _ = simulate(thrown(make, 25, rng, **options))
        counts.update(body.asset.find_upward_face(body.pose)[0] for body in settled.bodies[1:])
    return [counts[face] for face in "123456"]


def test_a_fair_die_is_fair_and_a_loaded_one_is_not(make):
    fair = faces_of(make, 40)
    assert sum(fair) == 1000
    assert chisquare(fair).pvalue > 0.01
    loaded = faces_of(make, 8, mass_offset_m=(0.0, 0.0, -0.004))  # towards the six
    assert chisquare(loaded).pvalue < 1e-6
    assert loaded[0] == max(loaded)
    assert loaded[5] == min(loaded)


@pytest.mark.parametrize(
    ("asset", "speed_m_s"),
    [
        (Cuboid((0.011,) * 3), 5.0),
        (Cuboid((0.022,) * 3), 5.0),
        (Cuboid((0.063, 0.088, 8e-4)), 5.0),
        (EXAMPLES["tin"], 5.9),
        (EXAMPLES["bolt"], 5.9),
    ],
)
def test_nothing_flies_through_a_thin_wall(make, asset, speed_m_s):
    """Walls and cards as thin as recipes draw papers, as fast as those fall that are let go highest."""
    rng = np.random.default_rng(2)
    wall = make.body("wall", make.box((8e-4, 4.0, 0.6)), (0.1, 0.0, 0.3), is_target=False,
                     is_fixed=True)  # fmt: skip
    boxes = [
        make.body(f"box/{i}", asset, (0.0, 0.15 * i - 1, 0.1), is_target=False,
                  rotation=quaternion(Rotation.random(rng=rng)), velocity_m_s=(speed_m_s, 0.0, 0.0),
                  spin_rad_s=tuple(rng.normal(0, 15, 3)))
        for i in range(15)
    ]  # fmt: skip
    settled, certificate = simulate(make.scene(wall, *boxes))
    assert max(body.pose.position_m[0] for body in settled.bodies[2:]) < 0.1
    assert certificate.penetration_m < 1e-3


def test_nothing_flies_through_the_wall_of_a_hollow_mesh(make, tmp_path):
    """A cup whose wall is 1 mm is not as thick as its box."""
    side, wall, high = 0.04, 0.001, 0.08
    turned = [(0, 0), (side, 0), (side, high), (side - wall, high), (side - wall, wall), (0, wall)]
    trimesh.creation.revolve(turned, sections=48).export(tmp_path / "cup.stl")
    (found,) = import_assets(tmp_path, ["cup.stl"], "m")
    cup = make.body("cup", found.info.mesh, (0.0, 0.0, 0.0), is_target=False, is_fixed=True)
    for turn in np.linspace(0.1, 2 * math.pi, 4):
        away = (5.0 * math.cos(turn), 5.0 * math.sin(turn), 0.0)
        bead = make.body("bead", make.box((0.006,) * 3), (0.0, 0.0, 0.03), velocity_m_s=away,
                         is_target=False)  # fmt: skip
        settled, _ = simulate(make.scene(cup, bead))
        assert math.hypot(*settled.bodies[-1].pose.position_m[:2]) < side


@pytest.mark.parametrize("tilt_rad", [0.0, 0.3])
def test_what_falls_on_a_pile_lies_on_top_of_it(make, tilt_rad):
    """Cards from 1.2 m, the highest from which recipes let any go."""
    rng = np.random.default_rng(1)
    card, light = make.box((0.063, 0.088, 8e-4)), {"is_target": False, "mass_kg": 0.002}
    bodies = []
    for i in range(4):
        for k in range(3):
            spot = (0.2 * i, 0.0, 8e-4 * (k + 0.5))
            bodies.append(make.body(f"low/{i}/{k}", card, spot, **light))
        turn = quaternion(Rotation.from_euler("xyz", rng.normal(0, tilt_rad, 3)))
        bodies.append(make.body(f"top/{i}", card, (0.2 * i, 0.0, 1.2), rotation=turn, **light))
    settled, certificate = simulate(make.scene(*bodies))
    assert certificate.rejection is None
    places = {body.name: body.pose.position_m for body in settled.bodies}
    landed = [i for i in range(4) if math.dist(places[f"top/{i}"][:2], (0.2 * i, 0.0)) < 0.03]
    assert len(landed) >= 2
    for i in landed:
        assert places[f"top/{i}"][2] > max(places[f"low/{i}/{k}"][2] for k in range(3))


def test_a_finer_simulation_rests_alike(make, monkeypatch):
    """Each slides on its own until friction has taken its speed."""
    speeds = np.linspace(1.0, 2.0, 8)

    def rests():
        dice = [
            make.body(f"die/{i}", make.die(), (0.0, 0.1 * i, 0.008), friction=0.3,
                      velocity_m_s=(float(speed), 0.0, 0.0))
            for i, speed in enumerate(speeds)
        ]  # fmt: skip
        table = replace(make.ground(), friction=1.0)
        settled, certificate = simulate(Scene((table, *dice), make.sky, ()))
        slid = [body.pose.position_m[0] for body in settled.bodies[1:]]
        return np.array(slid), certificate.steps

    slid, steps = rests()
    assert slid == pytest.approx(speeds**2 / (2 * 0.3 * GRAVITY_M_S2), rel=0.02)
    with monkeypatch.context() as finer:
        finer.setattr(world, "_SOLVER_ITERATIONS", 2 * world._SOLVER_ITERATIONS)
        solved, as_many_steps = rests()
    assert as_many_steps == steps
    assert solved == pytest.approx(slid, rel=0.02)
    for module in (simulation, trajectory, world):
        monkeypatch.setattr(module, "STEP_S", STEP_S / 2)
    stepped, more_steps = rests()
    assert more_steps > 1.5 * steps
    assert stepped == pytest.approx(slid, rel=0.02)


@pytest.mark.parametrize("thin_m", [0.02, 1e-3])
def test_forces_carry_what_rests(make, thin_m):
    """A tower of three boxes beside a die: each carries all that lies on it, in steps of any size."""
    boxes = [
        make.body(f"box/{i}", make.box((0.04, 0.04, 0.02)), (0.0, 0.0, 0.0101 + 0.0201 * i),
                  mass_kg=0.02 * (i + 1), restitution=0.0)
        for i in range(3)
    ]  # fmt: skip
    die = make.body("die", make.die(), (0.2, 0.0, 0.0081), mass_kg=0.005, restitution=0.0)
    card = make.body("card", make.box((0.05, 0.05, thin_m)), (-0.2, 0.0, thin_m), is_target=False)
    _, certificate = simulate(make.scene(*boxes, die, card))
    assert certificate.rejection is None
    weights = {"box/0": 0.02, "box/1": 0.04, "box/2": 0.06, "die": 0.005}
    for name, mass_kg in weights.items():
        on_it = sum(
            np.array(c.force_n) * (1 if c.first == name else -1)
            for c in certificate.contacts
            if name in (c.first, c.second)
        )
        weight = mass_kg * GRAVITY_M_S2
        assert on_it == pytest.approx((0.0, 0.0, weight), abs=0.05 * weight)
    assert build_support_graph(certificate.contacts) == {
        "box/0": ("table",), "box/1": ("box/0",), "box/2": ("box/1",), "card": ("table",),
        "die": ("table",),
    }  # fmt: skip


def test_bodies_only_lose_energy(make):
    for seed in range(3):
        _, certificate = simulate(make.thrown(8, seed))
        assert certificate.energy_gain < 0.02
        assert certificate.steps == round(certificate.seconds / STEP_S)


def test_what_only_just_stands_is_refused(make):
    """A box on its edge takes longer to fall than calm takes to be believed."""
    tilted = Rotation.from_euler("y", math.pi / 4 + 1e-5)
    box = make.body("box", make.box((0.02, 0.02, 0.02)), (0.0, 0.0, 0.02 / math.sqrt(2)),
                    rotation=quaternion(tilted), is_target=False)  # fmt: skip
    _, certificate = simulate(make.scene(box))
    assert certificate.seconds < 0.3
    problem = r"a body moves by 1\d\.\d mm when it is let go again"
    assert re.fullmatch(problem, certificate.rejection)
