"""Parts of cameras that cannot be are refused; those that can come back from JSON."""

import re
from dataclasses import fields, replace

import pytest

from sim2cam.geometry.lens import BrownConrady
from sim2cam.geometry.poses import Pose
from sim2cam.scene.camera import Camera
from sim2cam.scene.lens_effects import (
    LENS_EFFECT_BOUNDS,
    Defocus,
    Dirt,
    Droplets,
    FieldBlur,
    Glare,
    LateralColor,
    LensEffects,
)
from sim2cam.scene.light import Environment
from sim2cam.scene.scene import Scene
from sim2cam.scene.sensor import SENSOR_BOUNDS, Automatics, Mosaic, Processing, Sensor

BAD = [
    (lambda: Defocus(-0.01, 1.0), "defocus: aperture_m must be 0 to 0.1, not -0.01"),
    (lambda: Defocus(0.01, 0.0), "defocus: focus_m must be 0.0001 to 1e+06, not 0"),
    (lambda: Defocus(0.01, float("nan")), "defocus: focus_m must be 0.0001 to 1e+06, not nan"),
    (lambda: LateralColor(red=1.0), "lateral_color: red must be -0.05 to 0.05, not 1"),
    (lambda: FieldBlur(-1.0), "field_blur: corner_px must be 0 to 20, not -1"),
    (lambda: Glare(veil=2.0), "glare: veil must be 0 to 1, not 2"),
    (
        lambda: Glare(veil=0.5, bloom=0.4, ghost=0.2),
        "glare: the sum of veil, bloom and ghost must be at most 1, not 1.1",
    ),
    (lambda: Dirt(0.1, 1.5), "dirt: loss must be 0 to 1, not 1.5"),
    (lambda: Droplets(10_000, 0.01), "droplets: count must be 0 to 200, not 10000"),
    (lambda: Mosaic("RGGB", bits=18), "mosaic: bits must be 8 to 16, not 18"),
    (lambda: Mosaic("RGGB", prnu=-0.1), "mosaic: prnu must be 0 to 0.5, not -0.1"),
    (lambda: Processing(local_tone=2.0), "processing: local_tone must be 0 to 1, not 2"),
    (lambda: Automatics(white_lag_s=-1), "automatics: white_lag_s must be 0 to 60, not -1"),
    (lambda: Automatics(fixed_gain=0.0), "automatics: fixed_gain must be 1e-09 to 1e+09, not 0"),
]


@pytest.mark.parametrize(("make_it", "message"), BAD, ids=[message for _, message in BAD])
def test_an_impossible_part_is_refused(make_it, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make_it()


def test_every_number_of_every_part_is_bounded():
    kinds = {
        "defocus": Defocus, "lateral_color": LateralColor, "field_blur": FieldBlur, "glare": Glare,
        "dirt": Dirt, "droplets": Droplets, "mosaic": Mosaic, "processing": Processing,
        "automatics": Automatics,
    }  # fmt: skip
    words = {"pattern", "demosaic", "jpeg_subsampling"}
    bounded = LENS_EFFECT_BOUNDS | SENSOR_BOUNDS
    assert {f.name for f in fields(LensEffects)} == LENS_EFFECT_BOUNDS.keys()
    for name, kind in kinds.items():
        assert {f.name for f in fields(kind)} - words == bounded[name].keys()


def test_a_camera_with_every_part_comes_back_from_json():
    sensor = Sensor(0.0, 1.0, 1.0, 0.0, 0.0, 1e4, 0.0, 0.0, 1.0, 1.0, 0.0, 90, 0)
    plain = Camera(Pose(), 6, 4, BrownConrady(5.0, 5.0, 2.5, 1.5), sensor)
    glass = LensEffects(
        Defocus(0.004, 0.3), LateralColor(0.001), FieldBlur(1.0), Glare(0.1), Dirt(0.1, 0.2),
        Droplets(3, 0.02),
    )  # fmt: skip
    parts = Mosaic("GBRG", 14), Processing(local_tone=0.2), Automatics(0.3, 0.5, 0.4, 0.7)
    whole = replace(
        plain,
        glass=glass,
        sensor=replace(sensor, mosaic=parts[0], processing=parts[1], automatics=parts[2]),
    )
    sky = Environment((1.0, 1.0, 1.0), (1.0, 1.0, 1.0), ())
    scene = Scene((), sky, (plain, whole))
    text = scene.to_json()
    assert Scene.from_json(text) == scene
    assert text.count('"glass"') == text.count('"mosaic"') == 1  # what is not there is not written


@pytest.mark.parametrize(
    ("share", "bits", "black"), [(0.0, 8, 0), (1 / 16, 10, 64), (1 / 16, 12, 256)]
)
def test_levels_are_those_of_the_bits(share, bits, black):
    mosaic = Mosaic("RGGB", bits, share)
    assert (mosaic.black_level(), mosaic.white_level()) == (black, 2**bits - 1)
