"""Views that are unusual and have to work, and those that are refused, with the exact words."""

import re
from dataclasses import replace

import numpy as np
import pytest

from sim2cam.errors import LensError, Sim2CamError, SpecError
from sim2cam.render.gbuffer import LABEL_CHANNELS
from sim2cam.render.renderer import Stage
from sim2cam.scene.scene import Scene

LABELS = ("depth_m", "bodies", "cover", "normals")
OUTSIDE = {  # principal point of a picture of 100 x 80, and where it starts in one of 300 x 240
    "left and above": ((-40.0, -33.3), (150, 120)),
    "below and right": ((120.0, 110.0), (20, 0)),
}


@pytest.fixture(scope="module")
def spread(make):
    """Dice and balls all over the table."""
    places = [(0.07 * (i % 9 - 4), 0.07 * (i // 9 - 4), 0.01) for i in range(81)]
    shapes = [make.die(0.02), make.sphere(0.01)]
    bodies = [
        make.body(str(i), shapes[i % 2], place, is_target=i % 4 == 0)
        for i, place in enumerate(places)
    ]
    return make.scene(*bodies)


@pytest.mark.parametrize("where", OUTSIDE)
def test_a_principal_point_outside_shows_the_crop_of_a_wider_image(drawing, make, spread, where):
    (cx, cy), (left, top) = OUTSIDE[where]
    stage = Stage(spread, drawing)
    lens = {"focal_px": 300.0, "cx_px": cx, "cy_px": cy}
    small = make.view(make.camera(width=100, height=80, **lens))
    wide = replace(small, width=300, height=240, cx_px=cx + left, cy_px=cy + top)
    channels = ("radiance", *(name for name in LABELS if name in drawing.channels))
    window = np.s_[top : top + 80, left : left + 100]
    ours, theirs = stage.render(small, channels), stage.render(wide, channels)
    assert (theirs["bodies"][window] > 1).sum() > 100
    for name in channels:
        crop = theirs[name][window]
        if crop.dtype == np.uint32:
            assert (ours[name] != crop).mean() < 1e-3, name
        else:
            apart = np.abs(ours[name] - crop)
            assert np.quantile(apart, 0.995) < 2e-3 * np.abs(crop).max(), name


def test_an_image_may_be_one_pixel(drawing, make):
    stage = Stage(make.thrown(3), drawing)
    found = stage.render(make.view(make.camera(width=1, height=1)), ("radiance", *LABEL_CHANNELS))
    assert found["depth_m"].shape == (1, 1)
    assert found["depth_m"][0, 0] > 0


@pytest.mark.parametrize(("width", "height"), [(0, 240), (320, -3)])
def test_a_camera_without_pixels_is_refused(make, width, height):
    message = f"a camera has {width} x {height} pixels. Both must be at least 1."
    with pytest.raises(SpecError, match=f"^{re.escape(message)}$"):
        replace(make.camera(), width=width, height=height)


def test_a_scene_file_says_where_the_camera_without_pixels_stands(make):
    text = replace(make.scene(), cameras=(make.camera(),)).to_json()
    with pytest.raises(
        Sim2CamError, match=r"(?s)^not a scene: .*cameras\.0.*a camera has 0 x 240 "
    ):
        Scene.from_json(text.replace('"width":320', '"width":0'))


def test_distortion_beyond_its_domain_is_refused(egl, make):
    scene = make.scene()
    stage = Stage(scene, egl)
    of = make.camera(k1=-2.5)
    message = (
        "pixel (0.0, 0.0) is outside the domain of the lens: the distortion folds back 20.1 "
        "degrees off the axis. Use a smaller image or a lens with less distortion."
    )
    with pytest.raises(LensError, match=f"^{re.escape(message)}$"):
        stage.shoot(of, ())
