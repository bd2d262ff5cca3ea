from dataclasses import replace

import numpy as np
import pytest

from sim2cam.experiments.factor_extremes import WIDTH_PX, list_extremes, render_factor_extremes
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.randomize.distributions import Constant, Uniform
from sim2cam.randomize.domain_survey import sample_factor_histograms

PLAIN = load_recipe("dice")
FEW = {"layout/die_count": Constant(3), "layout/distractor_count": Constant(0)}
RECIPE = replace(PLAIN, domain=PLAIN.domain.replace_factors(FEW))


@pytest.fixture(scope="module")
def factors():
    return {
        f"{one.group}/{one.factor}": one
        for one in sample_factor_histograms(RECIPE.domain, 0, count=1, views=1)
    }


def test_extremes_of_numbers_and_options(factors):
    assert list_extremes(factors["view/tilt_rad"]) == (0.0, 1.25)
    assert list_extremes(factors["layout/surface"]) == ("table", "mat", "tray")
    assert (
        list_extremes(factors["table/family"])
        == RECIPE.domain.get_factor("table/family").options[:6]
    )
    assert list_extremes(factors["layout/die_count"]) == ()


def test_images_show_the_set_value(factors):
    wanted = [factors[path] for path in ("exposure/exposure_ev", "layout/die_count", "view/die_px")]
    dark, bright, far, near = render_factor_extremes(RECIPE, 0, wanted)
    assert dark.rgb.shape == bright.rgb.shape == (WIDTH_PX, WIDTH_PX, 3)
    assert (dark.group, dark.factor, dark.value, bright.value) == (
        "exposure", "exposure_ev", -1.4, 0.5,
    )  # fmt: skip
    assert dark.rgb.mean() < 0.7 * bright.rgb.mean()
    assert np.abs(near.rgb.astype(int) - far.rgb).mean() > 2


def test_blind_corner_has_no_image():
    fisheye = load_recipe("dice-fisheye")
    domain = fisheye.domain.replace_factors({**FEW, "view/fov_rad": Uniform(1.0, 2.9)})
    tall = replace(fisheye, domain=domain, render=replace(fisheye.render, width=200, height=600))
    factors = sample_factor_histograms(domain, 0, count=1, views=1)
    plain, blind = render_factor_extremes(tall, 0, [f for f in factors if f.factor == "fov_rad"])
    assert plain.value == 1.0
    assert blind is None
