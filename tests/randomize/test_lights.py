import math
import re

import numpy as np
import pytest

from sim2cam.errors import RecipeError
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.randomize.sampling import sample_factors
from sim2cam.randomize.scene_builder import build_scene
from sim2cam.scene.light import AreaLight

WINDOW = """
[domain.light]
lamp_count = 1
[domain.window]
hour = 12.0
day = 81
latitude_rad = 0.9
transmittance = 0.7
level = 20.0
facing_rad = 3.14159265
azimuth_rad = 1.0
distance_m = 2.0
sill_m = 0.5
width_m = 1.2
height_m = 1.5
"""


def light_of(tmp_path, text, index=0):
    path = tmp_path / "r.toml"
    path.write_text(f'base = "dice"\n{text}\n')
    domain = load_recipe(str(path)).domain
    return build_scene(sample_factors(domain, 0, index, views=1), domain, 64, 64).environment


def test_a_southern_window_lets_the_noon_sun_in(tmp_path):
    light = light_of(tmp_path, WINDOW)
    (pane,) = light.lights
    assert isinstance(pane, AreaLight)
    inward = pane.pose.rotation().as_matrix()[:, 2]
    out = np.array([math.cos(1.0), math.sin(1.0), 0.0])
    assert inward == pytest.approx(-out, abs=1e-9)
    assert pane.pose.position_m == pytest.approx((*(2 * out[:2]), 1.25))
    sun = light.lamps[-1]
    assert len(light.lamps) == 2
    # straight before the window, as high as the latitude leaves it, and through the pane
    assert np.array(sun.direction) == pytest.approx(
        math.cos(math.pi / 2 - 0.9) * out + [0, 0, math.sin(math.pi / 2 - 0.9)], abs=5e-3
    )
    reach = 2.0 / (np.array(sun.direction) @ out)
    assert 0.5 <= reach * sun.direction[2] <= 2.0


@pytest.mark.parametrize(
    ("change", "lamps", "lights"),
    [
        ("hour = 9.0", 1, 1),  # too far aside for the pane
        ("facing_rad = 0.0", 1, 1),  # the sun is behind the house
        ("sill_m = 2.5", 1, 1),  # the pane is too high
        ("hour = 0.0", 1, 0),  # night
    ],
)
def test_a_sun_that_does_not_look_in_sheds_nothing(tmp_path, change, lamps, lights):
    factor = change.split(" = ")[0]
    light = light_of(tmp_path, re.sub(rf"(?m)^{factor} = .*$", change, WINDOW))
    assert (len(light.lamps), len(light.lights)) == (lamps, lights)


def test_in_the_morning_an_eastern_window_is_sunny(tmp_path):
    text = WINDOW.replace("hour = 12.0", "hour = 7.5").replace("3.14159265", "2.0")
    text = text.replace("width_m = 1.2", "width_m = 5.0").replace("sill_m = 0.5", "sill_m = 0.3")
    sun = light_of(tmp_path, text).lamps[-1]
    out = np.array([math.cos(1.0), math.sin(1.0)])
    # north of the window's axis: on the left of one who looks out to the south-east
    assert np.cross(np.append(out, 0), sun.direction)[2] > 0


def test_a_temperature_takes_the_place_of_warmth(tmp_path):
    bulb = light_of(tmp_path, "[domain.lamp]\ntemperature_k = 2700\nlevel = 1.5\n").lamps[0]
    assert np.mean(bulb.irradiance) == pytest.approx(1.5)
    assert bulb.irradiance[0] > 3 * bulb.irradiance[2]
    text = "[domain.light]\nwhite_k = 2700\n[domain.lamp]\ntemperature_k = 2700\nlevel = 1.5\n"
    assert light_of(tmp_path, text).lamps[0].irradiance == pytest.approx((1.5, 1.5, 1.5))


def test_flicker_and_haze_are_left_out_and_drawn(tmp_path):
    plain = light_of(tmp_path, "")
    assert (plain.flicker, plain.haze, plain.extract_flickering()) == (None, None, None)
    text = (
        "[domain.light]\nlamp_count = 2\nhorizon = 2.0\nflicker_hz = 100\nflicker_phase_rad = 1.0\n"
        "[domain.lamp]\nflicker = 0.3\n[domain.haze]\nextinction_per_m = 0.5\nbrightness = 1.5\n"
    )
    light = light_of(tmp_path, text)
    assert (light.flicker.hertz, light.flicker.phase_rad) == (100, 1.0)
    assert light.haze.airlight == pytest.approx(np.multiply(light.horizon, 1.5))
    alone = light.extract_flickering()
    assert not any(alone.zenith)
    for lamp, whole in zip(alone.lamps, light.lamps, strict=True):
        assert lamp.irradiance == pytest.approx(np.multiply(whole.irradiance, 0.3))


BAD = [
    (WINDOW.replace("lamp_count = 1", "lamp_count = 4"), "'domain.light.lamp_count' can be 4. Allowed: up to 3 with a window."),
    (WINDOW.replace("hour = 12.0", "hour = 25"), "'domain.window.hour' cannot be 25. Allowed: numbers from 0 to 24."),
    ("[domain.lamp]\ntemperature_k = 500", "'domain.lamp.temperature_k' cannot be 500. Allowed: numbers from 1500 to 20000."),
    ("[domain.lamp]\nflicker = 2", "'domain.lamp.flicker' cannot be 2. Allowed: numbers from 0 to 1."),
    ("[domain.haze]\nextinction_per_m = -1\nbrightness = 1", "'domain.haze.extinction_per_m' cannot be -1. Allowed: numbers from 0 to 100."),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), BAD, ids=[message for _, message in BAD])
def test_light_that_cannot_be_is_refused(tmp_path, text, message):
    with pytest.raises(RecipeError, match=re.escape(message)):
        light_of(tmp_path, text)
