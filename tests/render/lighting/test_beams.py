from dataclasses import replace

import numpy as np
import pytest

from sim2cam.geometry.poses import Pose
from sim2cam.render.lighting.beams import (
    DOME_BEAMS,
    LAMP_BEAMS,
    MAX_DIRECTIONAL,
    ROTATIONS,
    compute_ground_irradiance,
    compute_sky_radiance,
    count_beams_per_lamp,
    find_ground_color,
    fit_shadow_view,
    make_beams,
    make_directional_beams,
)
from sim2cam.scene.light import AreaLight, Environment, Lamp, PointLight, SpotLight
from sim2cam.scene.material import Texture
from sim2cam.scene.scene import Scene

MAX_LAMPS = 4
BLACK = (0.0, 0.0, 0.0)
CENTRE, RADIUS = np.array([0.0, 0.0, 0.02]), 0.1
ZENITH, HORIZON = (0.9, 1.0, 1.2), (0.3, 0.5, 0.4)


def lamp(elevation_rad=0.9, radius_rad=0.2, azimuth_rad=0.7):
    level = np.cos(elevation_rad)
    direction = (level * np.cos(azimuth_rad), level * np.sin(azimuth_rad), np.sin(elevation_rad))
    return Lamp(tuple(map(float, direction)), radius_rad, (2.0, 1.5, 1.0))


def test_an_even_sky_sheds_pi_times_its_radiance():
    assert np.allclose(
        compute_ground_irradiance(Environment(ZENITH, ZENITH, ())), np.pi * np.array(ZENITH)
    )


def test_a_sky_that_brightens_sheds_its_integral():
    z = (np.arange(10000) + 0.5) / 10000
    cosines = 2 * np.pi * z[:, None] / 10000
    sky = Environment(ZENITH, HORIZON, ())
    integral = (compute_sky_radiance(sky, z) * cosines).sum(axis=0)
    assert np.allclose(compute_ground_irradiance(sky), integral, rtol=0.01)


def test_sky_radiance_runs_from_horizon_to_zenith():
    found = compute_sky_radiance(
        Environment(ZENITH, HORIZON, (lamp(),)), np.array([-0.5, 0.0, 0.5, 1.0])
    )
    middle = np.add(ZENITH, HORIZON) / 2
    assert np.allclose(found, [HORIZON, HORIZON, middle, ZENITH])


@pytest.fixture
def beams():
    def of(*lamps, lights=()):
        return make_beams(Environment(ZENITH, HORIZON, lamps, lights), CENTRE, RADIUS)

    return of


@pytest.mark.parametrize("count", range(MAX_LAMPS + 1))
def test_beams_of_the_sky_are_few_unit_vectors_above_the_horizon(beams, count):
    found = beams(*(lamp(0.2 + 0.3 * i, 0.5, 1.5 * i) for i in range(count)))
    assert len(found) <= DOME_BEAMS + LAMP_BEAMS
    for beam in found:
        assert np.linalg.norm(beam.location) == pytest.approx(1)
        assert beam.location[2] > 0
        assert (beam.power > 0).all()


@pytest.mark.parametrize("count", range(1, MAX_LAMPS + 1))
def test_the_beams_of_lamps_share_all_their_light(beams, count):
    lamps = tuple(lamp(0.8, 0.1, 1.5 * i) for i in range(count))
    total = np.sum([beam.power for beam in beams(*lamps)[DOME_BEAMS:]], axis=0)
    assert np.allclose(total, np.multiply(lamps[0].irradiance, count))


def test_the_beams_of_a_lamp_spread_around_it_by_its_radius(beams):
    for radius_rad in (0.05, 0.2):
        one = lamp(1.1, radius_rad)
        directions = np.array([beam.location for beam in beams(one)[DOME_BEAMS:]])
        away = np.arccos((directions @ one.direction).clip(-1, 1))
        assert np.sqrt((away**2).mean()) == pytest.approx(radius_rad, rel=0.25)
        middle = directions.mean(axis=0)
        assert np.arccos(middle @ one.direction / np.linalg.norm(middle)) < 0.3 * radius_rad


def test_the_dome_looks_everywhere_alike(beams):
    directions = np.array([beam.location for beam in beams()])
    assert np.abs(directions[:, :2].mean(axis=0)).max() < 0.2
    assert directions[:, 2].mean() == pytest.approx(0.5)


LOCAL = {
    "point": (PointLight((0.3, 0.0, 0.4), (2.0, 1.0, 0.5)), 2.0 * 0.4 / 0.5**3),
    "ball": (PointLight((0.3, 0.0, 0.4), (2.0, 1.0, 0.5), 0.03), 2.0 * 0.4 / 0.5**3),
    "spot": (SpotLight((0.0, 0.0, 0.5), (0.0, 0.0, -1.0), (2.0,) * 3, 0.2, 0.4), 2.0 / 0.5**2),
    "spot aside": (SpotLight((0.3, 0.0, 0.4), (0.0, 0.0, -1.0), (2.0,) * 3, 0.2, 0.4), 0.0),
    "area": (
        # facing down: L A cos^2 / d^2 at a distance much larger than its sides
        AreaLight(Pose((0.0, 1.0, 0.0, 0.0), (0.3, 0.0, 0.4)), 0.02, 0.05, (100.0,) * 3),
        100.0 * 0.001 * 0.8 * 0.8 / 0.5**2,
    ),
}


@pytest.mark.parametrize("name", LOCAL)
def test_a_local_light_sheds_what_radiometry_says(name):
    light, irradiance = LOCAL[name]
    found = compute_ground_irradiance(Environment(BLACK, BLACK, (), (light,)))
    assert found[0] == pytest.approx(irradiance, rel=0.01)


def test_the_map_of_a_local_light_sees_all_bodies(beams):
    (beam,) = beams(lights=(PointLight((0.3, 0.0, 0.4), (1.0,) * 3),))[DOME_BEAMS:]
    view = fit_shadow_view(beam, CENTRE, RADIUS)
    away = np.linalg.norm(CENTRE - beam.location)
    assert np.arctan(view.half_extent) == pytest.approx(np.arcsin(RADIUS / away))
    assert view.near_m <= away - RADIUS
    assert view.far_m >= away + RADIUS


def test_a_light_among_the_bodies_has_a_map_for_each_side(beams):
    found = beams(lights=(PointLight((0.03, 0.0, 0.04), (1.0,) * 3),))[DOME_BEAMS:]
    assert len(found) == 6
    assert np.allclose(
        np.sum([np.outer(b.shadow_axis, b.shadow_axis) for b in found], axis=0), 2 * np.eye(3)
    )
    assert all(np.allclose(beam.power, 1) for beam in found)  # each lights its own share


@pytest.mark.parametrize("name", LOCAL)
def test_the_parts_of_a_local_light_show_as_much_as_it(beams, name):
    light, _ = LOCAL[name]
    parts = beams(lights=(light,))[DOME_BEAMS:]
    if name == "area":
        assert sum(part.source_radius_m**2 * np.pi for part in parts) == pytest.approx(0.02 * 0.05)
    if name == "ball":
        assert sum(part.source_radius_m**2 for part in parts) == pytest.approx(light.radius_m**2)
    assert all(part.source_radius_m > 0 for part in parts)


@pytest.mark.parametrize("turns", [1, ROTATIONS])
@pytest.mark.parametrize("count", range(MAX_LAMPS + 1))
def test_lamps_have_as_many_beams_as_are_told(count, turns):
    lamps = tuple(lamp(0.2 + 0.3 * i, 0.5, 1.5 * i) for i in range(count))
    found = make_directional_beams(Environment(ZENITH, HORIZON, lamps), turns)
    assert len(found) == DOME_BEAMS + count * count_beams_per_lamp(lamps, turns)
    assert turns == 1 or len(found) <= MAX_DIRECTIONAL


@pytest.mark.parametrize("count", [1, 2])
def test_the_turns_of_a_lamp_spread_around_it_by_its_radius(count):
    lamps = (lamp(1.1, 0.2),) * count
    found = make_directional_beams(Environment(BLACK, BLACK, lamps), ROTATIONS)[
        : count_beams_per_lamp(lamps, ROTATIONS)
    ]
    away = np.arccos([beam.location @ lamps[0].direction for beam in found])
    assert np.sqrt((away**2).mean()) == pytest.approx(0.2, rel=0.25)
    assert sum(beam.power for beam in found) == pytest.approx(lamps[0].irradiance)


def test_hard_lamps_and_dark_skies_need_fewer_beams(beams):
    assert len(beams(lamp(0.9, 0.005), lamp(0.5, 0.005))) == DOME_BEAMS + 2
    assert len(beams(lamp(0.9, 0.005), lamp(0.5, 0.3))) == DOME_BEAMS + 2 * (LAMP_BEAMS // 2)
    dark = Environment(BLACK, BLACK, (lamp(),))
    assert len(make_directional_beams(dark)) == LAMP_BEAMS


def test_the_ground_is_what_lies_highest_below(make):
    table = make.scene().bodies[0]
    red, blue = (
        replace(
            make.body("x", make.box((1.0,) * 3), (0.0,) * 3).material,
            texture=Texture("plain", c, c, 1.0, 0.0, 0.0, 0),
        )
        for c in ((0.8, 0.1, 0.1), (0, 0, 0.5))
    )
    mat = make.body("mat", make.box((0.2, 0.2, 0.002)), (0.0, 0.0, 0.001), is_fixed=True)
    mat, table = replace(mat, material=red), replace(table, material=blue)
    loose = replace(mat, name="loose", is_fixed=False, pose=Pose((1.0, 0, 0, 0), (0.0, 0.0, 0.1)))
    scene = Scene((table, mat, loose), make.sky, ())
    assert find_ground_color(scene, CENTRE) == pytest.approx([0.8, 0.1, 0.1])
    assert find_ground_color(scene, CENTRE + np.array([0.3, 0.0, 0.0])) == pytest.approx(
        [0.0, 0.0, 0.5]
    )
    assert not find_ground_color(Scene((loose,), make.sky, ()), CENTRE).any()
