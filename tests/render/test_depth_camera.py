from dataclasses import replace

import numpy as np
import pytest

from sim2cam.errors import UsageError
from sim2cam.render.depth_camera import from_uint16, measure_depth, to_uint16
from sim2cam.render.infrared import Seen, flashlit, returned_light
from sim2cam.scene.depth_camera import ActiveStereo, StructuredLight, TimeOfFlight

CAMERAS = [StructuredLight(min_range_m=0.3), TimeOfFlight(min_range_m=0.3), ActiveStereo()]


@pytest.fixture(scope="module")
def dice(egl, make):
    """Dice on a table, drawn by the light of the camera's own lamp."""
    bodies = [
        make.body(f"die/{i}", make.die(0.04, color=make.WHITE), (0.06 * i - 0.06, 0.0, 0.02), color)
        for i, color in enumerate((make.RED, make.WHITE, (0.001, 0.001, 0.001)))
    ]
    scene, of = make.scene(*bodies), make.camera((0.05, -0.35, 0.6))
    view = make.view(of)
    egl.load(flashlit(scene, view))
    drawn = egl.draw(view, {"radiance", "depth_m", "normals"})
    seen = Seen(drawn["depth_m"], returned_light(drawn["radiance"]), drawn["normals"])
    return view, seen


@pytest.mark.parametrize("camera", CAMERAS, ids=lambda camera: camera.kind)
def test_each_kind_reads_a_drawn_scene(dice, camera):
    view, seen = dice
    read = measure_depth(view, seen, camera)
    assert (read.shape, read.dtype) == ((240, 320), np.float32)
    common = np.arange(320) > 60  # what both eyes of a pair see
    bright = common & (seen.returned > 0.1)
    assert (read[bright] > 0).mean() > 0.9
    kept = bright & (read > 0)
    error = np.abs(read[kept] - seen.depth_m[kept])
    assert np.median(error) < 0.004
    assert (error < 0.02).mean() > 0.9
    assert (read[seen.depth_m == 0] == 0).all()


def test_normals_may_be_missing(dice):
    view, seen = dice
    for camera in CAMERAS:
        read = measure_depth(view, replace(seen, normals=None), camera)
        assert (read > 0).mean() > 0.7


def test_arrays_of_another_size_are_refused(dice):
    view, seen = dice
    with pytest.raises(UsageError, match=r"returned is \(3, 3\), but the view is 320x240"):
        measure_depth(view, replace(seen, returned=np.ones((3, 3), np.float32)), CAMERAS[0])


@pytest.mark.parametrize("unit_m", [0.001, 0.0001, 0.00025])
def test_sixteen_bits_keep_depths_to_half_a_unit(unit_m):
    rng = np.random.default_rng(0)
    depth = rng.uniform(0.01, 65535 * unit_m, (50, 60)).astype(np.float32)
    units = to_uint16(depth, unit_m)
    assert units.dtype == np.uint16
    back = from_uint16(units, unit_m)
    assert np.abs(back - depth).max() <= 0.5 * unit_m + 1e-6
    assert (to_uint16(back, unit_m) == units).all()


def test_no_reading_and_what_16_bits_cannot_hold_are_zero():
    depth = np.float32([[0.0, 65.535, 65.5357, 1e6, np.inf]])
    assert to_uint16(depth, 0.001).tolist() == [[0, 65535, 0, 0, 0]]
    assert from_uint16(np.uint16([[0, 65535]]), 0.001).tolist() == [[0.0, pytest.approx(65.535)]]
