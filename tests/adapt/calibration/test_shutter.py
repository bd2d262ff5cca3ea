"""Shutters and hands, by pictures of the renderer whose shutter and motion are known."""

import pytest

from sim2cam.adapt.calibration.camera_fit import ParameterEstimate
from sim2cam.adapt.calibration.lens import FittedLens
from sim2cam.adapt.calibration.photo_measurements import measure_photos, open_photo_files
from sim2cam.adapt.calibration.shutter import estimate_readout, estimate_spin
from sim2cam.pipeline.generation import generate
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.seeds import derive_rng

RECIPE = """
base = "chessboard"
name = "hidden"
categories = ["chessboard"]
[render]
width = 480
height = 360
views = 1
channels = []
[domain.layout]
board_count = { kind = "constant", value = 1 }
[domain.board]
pattern = { kind = "constant", value = "chessboard" }
columns = { kind = "constant", value = 6 }
rows = { kind = "constant", value = 5 }
held = { kind = "constant", value = true }
lean_rad = { kind = "uniform", low = 0.0, high = 0.8 }
[domain.view]
fov_rad = { kind = "constant", value = 0.9 }
[domain.lens]
k1 = { kind = "constant", value = 0.0 }
k2 = { kind = "constant", value = 0.0 }
"""
FOCAL_PX = 496.8  # of a picture 480 pixels wide that is 0.9 radians wide
BANDED = """
[domain.light]
flicker_hz = { kind = "constant", value = 100 }
flicker_phase_rad = { kind = "uniform", low = 0.0, high = 6.2832 }
[domain.lamp]
flicker = { kind = "constant", value = 0.6 }
[domain.shutter]
exposure_s = { kind = "constant", value = 0.002 }
readout_s = { kind = "constant", value = 0.035 }
"""
MOVED = """
[domain.shutter]
exposure_s = { kind = "constant", value = 0.02 }
readout_s = { kind = "constant", value = 0.0 }
[domain.motion]
right_m_s = { kind = "constant", value = 0.0 }
down_m_s = { kind = "constant", value = 0.0 }
forward_m_s = { kind = "constant", value = 0.0 }
pitch_rad_s = { kind = "normal", mean = 0.0, std = 0.3, low = -0.75, high = 0.75 }
yaw_rad_s = { kind = "normal", mean = 0.0, std = 0.3, low = -0.75, high = 0.75 }
roll_rad_s = { kind = "constant", value = 0.0 }
"""


def taken(extra, count, tmp_path):
    """Returns what is seen in the pictures of a recipe."""
    path = tmp_path / "hidden.toml"
    path.write_text(RECIPE + extra)
    made = generate(
        load_recipe(str(path)), tmp_path / "made", count=count, seed=0, workers=1, resume=False,
        overwrite=False, progress=lambda *_: None,
    )  # fmt: skip
    captures, _ = open_photo_files([made.root / sample.rgb for sample in made.samples], tmp_path)
    return measure_photos(captures, None, lambda *_: None)[0]


@pytest.mark.slow
def test_bands_of_a_lamp_tell_how_long_rows_take_to_read(tmp_path):
    told = estimate_readout(taken(BANDED, 12, tmp_path), derive_rng(0, "readout"))
    assert told.ci95 is not None
    assert told.ci95[0] <= 0.035 <= told.ci95[1]
    assert told.ci95[1] < 0.04


@pytest.mark.slow
def test_blur_one_way_tells_how_fast_the_camera_turns(tmp_path):
    lens = FittedLens(
        "brown_conrady", ("fx_px", "fy_px", "cx_px", "cy_px"), (FOCAL_PX, FOCAL_PX, 239.5, 179.5),
        ((0.0,) * 4,) * 4, 0.1, {}, {}, 1.0,
    )  # fmt: skip
    exposure = ParameterEstimate("shutter.exposure_s", 0.02, (0.02, 0.02))
    told = estimate_spin(taken(MOVED, 24, tmp_path), exposure, lens, derive_rng(0, "spin"))
    assert told.ci95 is not None
    assert told.ci95[0] <= 0.3 <= told.ci95[1]
    assert told.ci95[0] > 0.1
