import numpy as np
import pytest

from sim2cam.render.light import (
    DOME_RAYS,
    MAX_LAMPS,
    MAX_RAYS,
    ground_irradiance,
    rays_of,
    sky_radiance,
)
from sim2cam.scene.light import Environment, Lamp

ZENITH, HORIZON = (0.9, 1.0, 1.2), (0.3, 0.5, 0.4)


def lamp(elevation_rad=0.9, radius_rad=0.2, azimuth_rad=0.7):
    level = np.cos(elevation_rad)
    direction = (level * np.cos(azimuth_rad), level * np.sin(azimuth_rad), np.sin(elevation_rad))
    return Lamp(tuple(map(float, direction)), radius_rad, (2.0, 1.5, 1.0))


def test_an_even_sky_sheds_pi_times_its_radiance():
    assert np.allclose(ground_irradiance(Environment(ZENITH, ZENITH, ())), np.pi * np.array(ZENITH))


def test_a_sky_that_brightens_sheds_its_integral():
    z = (np.arange(10000) + 0.5) / 10000
    cosines = 2 * np.pi * z[:, None] / 10000
    sky = Environment(ZENITH, HORIZON, ())
    integral = (sky_radiance(sky, z) * cosines).sum(axis=0)
    assert np.allclose(ground_irradiance(sky), integral, rtol=0.01)


def test_sky_radiance_runs_from_horizon_to_zenith():
    found = sky_radiance(Environment(ZENITH, HORIZON, (lamp(),)), np.array([-0.5, 0.0, 0.5, 1.0]))
    middle = np.add(ZENITH, HORIZON) / 2
    assert np.allclose(found, [HORIZON, HORIZON, middle, ZENITH])


@pytest.mark.parametrize("count", range(MAX_LAMPS + 1))
def test_rays_are_few_unit_vectors_above_the_horizon(count):
    lamps = tuple(lamp(0.2 + 0.3 * i, 0.5, 1.5 * i) for i in range(count))
    rays = rays_of(Environment(ZENITH, HORIZON, lamps))
    assert len(rays.directions) == len(rays.irradiances) <= MAX_RAYS
    assert np.allclose(np.linalg.norm(rays.directions, axis=1), 1)
    assert (rays.directions[:, 2] > 0).all()
    assert (rays.irradiances > 0).all()


@pytest.mark.parametrize("count", range(1, MAX_LAMPS + 1))
def test_the_rays_of_lamps_share_all_their_light(count):
    lamps = tuple(lamp(0.8, 0.1, 1.5 * i) for i in range(count))
    rays = rays_of(Environment(ZENITH, HORIZON, lamps))
    total = rays.irradiances[DOME_RAYS:].sum(axis=0)
    assert np.allclose(total, np.multiply(lamps[0].irradiance, count))


def test_the_rays_of_a_lamp_spread_around_it_by_its_radius():
    for radius_rad in (0.05, 0.2):
        one = lamp(1.1, radius_rad)
        directions = rays_of(Environment(ZENITH, HORIZON, (one,))).directions[DOME_RAYS:]
        away = np.arccos((directions @ one.direction).clip(-1, 1))
        assert np.sqrt((away**2).mean()) == pytest.approx(radius_rad, rel=0.25)
        middle = directions.mean(axis=0)
        assert np.arccos(middle @ one.direction / np.linalg.norm(middle)) < 0.3 * radius_rad


def test_the_dome_looks_everywhere_alike():
    directions = rays_of(Environment(ZENITH, HORIZON, ())).directions
    assert np.abs(directions[:, :2].mean(axis=0)).max() < 0.2
    assert directions[:, 2].mean() == pytest.approx(0.5)
