from dataclasses import replace

import numpy as np
import pytest

from sim2cam.geometry.poses import Pose
from sim2cam.render.gbuffer import PinholeView
from sim2cam.render.lighting.beams import LAMP_BEAMS, Beam
from sim2cam.render.lighting.shading import Lighting, ShadowMap, SurfacePoints, shade
from sim2cam.scene.light import Environment, Lamp

DARK = Environment((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), ())
DOWN = Pose.look_at((0.0, 0.0, 10.0), (0.0, 0.0, 0.0), 0.0)


def points(n=1, normal=(0.0, 0.0, 1.0), color=0.5, **changes):
    """Points whose vectors (n, 3) stand in columns."""
    values = {
        "positions_m": np.zeros((n, 3)),
        "normals": np.tile(normal, (n, 1)),
        "view_directions": np.tile((0.0, 0.0, 1.0), (n, 1)),
        "albedo": np.full((n, 3), color),
        "roughness": np.ones(n),
        "specular": np.zeros(n),
        "metallic": np.zeros(n),
        "emission": np.zeros(n),
    }
    return SurfacePoints(
        **{name: np.asarray(v, np.float32).T for name, v in (values | changes).items()}
    )


def lighting(depth_m=0.0, environment=DARK, power=3.0):
    """One beam from above with a map of 20 x 20 mm, all at one depth."""
    view = PinholeView(DOWN, 20, 20, 10000.0, 9.5, 9.5)
    shadow = ShadowMap(view, np.full((20, 20), depth_m, np.float32))
    beam = Beam(np.array([0.0, 0.0, 1.0]), False, np.full(3, power), np.array([0.0, 0.0, -1.0]))
    return Lighting(environment, (beam,), (shadow,), np.zeros(3, np.float32))


def test_a_matt_surface_sends_its_share_of_the_irradiance():
    assert shade(points(), lighting()) == pytest.approx(0.5 * 3 / np.pi, rel=1e-4)


def test_what_glows_adds_its_own_light():
    dark, glowing = points(color=0.3), points(color=0.3, emission=[2.0])
    assert shade(glowing, lighting()) - shade(dark, lighting()) == pytest.approx(0.6, rel=1e-4)


def test_light_falls_off_with_the_cosine_and_ends_behind():
    for degrees, share in ((0, 1.0), (60, 0.5), (90, 0.0), (150, 0.0)):
        angle = np.radians(degrees)
        tilted = points(normal=(np.sin(angle), 0.0, np.cos(angle)))
        assert shade(tilted, lighting())[0, 0] == pytest.approx(0.5 * 3 / np.pi * share, abs=1e-4)


def test_what_lies_nearer_to_the_light_hides_it():
    assert shade(points(), lighting(depth_m=9.9)).max() == pytest.approx(0.0, abs=1e-6)
    assert shade(points(), lighting(depth_m=10.0))[0, 0] > 0.4
    assert shade(points(), lighting(depth_m=0.0))[0, 0] > 0.4  # nothing there
    beside = points(positions_m=[[0.03, 0.0, 0.0]])
    assert shade(beside, lighting(depth_m=9.9))[0, 0] > 0.4


def test_a_mirror_shows_the_sky_above_it():
    sky = Environment((0.2, 0.4, 0.6), (1.0, 1.0, 1.0), ())
    mirror = points(roughness=[0.05], metallic=[1.0], color=1.0)
    assert shade(mirror, lighting(environment=sky)) == pytest.approx(
        np.array([[0.2], [0.4], [0.6]]), rel=0.01
    )


def test_a_metal_tints_its_reflection_and_a_dielectric_does_not():
    sky = Environment((1.0, 1.0, 1.0), (1.0, 1.0, 1.0), ())
    red = {"albedo": [[0.8, 0.1, 0.1]], "roughness": [0.05]}
    metal = shade(points(**red, metallic=[1.0]), lighting(environment=sky))[:, 0]
    plastic = shade(points(**red, specular=[0.05]), lighting(environment=sky, power=0.0))[:, 0]
    assert metal == pytest.approx([0.8, 0.1, 0.1], rel=0.01)
    assert plastic == pytest.approx([0.95 * c + 0.05 for c in (0.8, 0.1, 0.1)], rel=0.01)


def test_radiance_is_linear_in_the_light():
    many = points(50, color=0.3, specular=np.full(50, 0.05), roughness=np.linspace(0.1, 1, 50))
    sky = Environment((0.5, 0.5, 0.5), (0.2, 0.2, 0.2), ())
    double = Environment((1.0, 1.0, 1.0), (0.4, 0.4, 0.4), ())
    once = shade(many, lighting(environment=sky, power=1.0))
    assert np.allclose(shade(many, lighting(environment=double, power=2.0)), 2 * once, rtol=1e-3)


@pytest.mark.parametrize("roughness", [0.3, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("degrees", [0, 40, 70])
def test_a_lamp_sheds_on_all_eyes_what_one_eye_sees_of_an_even_sky(roughness, degrees):
    """Reflection is the same both ways (Helmholtz), so the shine adds up to the mirrored share."""
    angle, n = np.radians(degrees), 20000
    towards = np.array([np.sin(angle), 0.0, np.cos(angle)])
    metal = {"color": 1.0, "metallic": np.ones(n), "roughness": np.full(n, roughness)}
    lamp = Lamp(tuple(towards), 0.01, (1.0, 1.0, 1.0))
    beams = (Beam(towards, False, np.zeros(3), -towards),) * LAMP_BEAMS
    nothing = ShadowMap(PinholeView(DOWN, 2, 2, 1.0, 0.5, 0.5), np.zeros((2, 2), np.float32))
    lit = Lighting(replace(DARK, lamps=(lamp,)), beams, (nothing,) * LAMP_BEAMS, np.zeros(3))
    eyes = hemisphere(n)
    shine = shade(points(n, view_directions=eyes, **metal), lit)[0]
    total = (shine * eyes[:, 2]).mean() * 2 * np.pi / np.cos(angle)
    even = Environment((1.0, 1.0, 1.0), (1.0, 1.0, 1.0), ())
    around = replace(lighting(environment=even, power=0.0), ground_color=np.ones(3))
    seen = shade(
        points(1, view_directions=[towards], color=1.0, metallic=[1.0], roughness=[roughness]),
        around,
    )
    assert total == pytest.approx(seen[0, 0], rel=0.02)


def hemisphere(n):
    z, turn = (np.arange(n) + 0.5) / n, np.arange(n) * np.pi * (3 - np.sqrt(5))
    level = np.sqrt(1 - z * z)
    return np.stack([level * np.cos(turn), level * np.sin(turn), z], axis=1)
