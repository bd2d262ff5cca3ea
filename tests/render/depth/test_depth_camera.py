from dataclasses import replace

import numpy as np
import pytest

from sim2cam.errors import BackendError, LensError, UsageError
from sim2cam.geometry.fisheye import KannalaBrandt
from sim2cam.render.depth.depth_camera import (
    measure_depth,
    render_sensor_depth,
    to_uint16,
)
from sim2cam.render.depth.infrared import (
    DepthCameraInput,
    compute_returned_light,
    replace_lights_by_lamp,
)
from sim2cam.render.renderer import Stage
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
    stage = Stage(replace_lights_by_lamp(scene, view), egl)
    drawn = stage.render(view, {"radiance", "depth_m", "normals"})
    seen = DepthCameraInput(
        drawn["depth_m"], compute_returned_light(drawn["radiance"]), drawn["normals"]
    )
    return view, seen


@pytest.mark.parametrize("camera", CAMERAS, ids=lambda camera: camera.kind)
def test_each_kind_reads_a_rendered_scene(dice, camera):
    view, seen = dice
    read = measure_depth(view, seen, camera)
    assert (read.shape, read.dtype) == ((240, 320), np.float32)
    common = np.arange(320) > 60  # what both eyes of a pair see
    bright = common & (seen.returned_light > 0.1)
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
    with pytest.raises(
        UsageError, match=r"returned_light has shape \(3, 3\), but the view is 320x240"
    ):
        measure_depth(view, replace(seen, returned_light=np.ones((3, 3), np.float32)), CAMERAS[0])


@pytest.mark.parametrize("unit_m", [0.001, 0.0001, 0.00025])
def test_sixteen_bits_keep_depths_to_half_a_unit(unit_m):
    rng = np.random.default_rng(0)
    depth = rng.uniform(0.01, 65535 * unit_m, (50, 60)).astype(np.float32)
    units = to_uint16(depth, unit_m)
    assert units.dtype == np.uint16
    back = (units * np.float64(unit_m)).astype(np.float32)
    assert np.abs(back - depth).max() <= 0.5 * unit_m + 1e-6
    assert (to_uint16(back, unit_m) == units).all()


def test_no_reading_and_what_16_bits_cannot_hold_are_zero():
    depth = np.float32([[0.0, 65.535, 65.5357, 1e6, np.inf]])
    assert to_uint16(depth, 0.001).tolist() == [[0, 65535, 0, 0, 0]]


NEAR = ActiveStereo(min_range_m=0.1, max_range_m=2.0, depth_unit_m=0.0005)
WANTED = ("depth", "ids", "sensor_depth")


@pytest.fixture
def table(make):
    """Dice on a table, and a camera with a depth camera."""
    scene = make.thrown(4)
    return scene, replace(make.camera((0.05, -0.3, 0.4)), depth_camera=NEAR)


def off_m(frame, unit_m=NEAR.depth_unit_m):
    """How far readings are off, where there are any, and how many there are."""
    read = (frame.channels["sensor_depth"] * unit_m).astype(np.float32)
    seen = read > 0
    return np.abs(read - frame.channels["depth"])[seen], seen.mean()


def test_a_frame_holds_what_its_depth_camera_reads(egl, make, table):
    scene, of = table
    stage = Stage(scene, egl)
    frame = stage.shoot(of, WANTED)
    view = make.view(of)
    stage = Stage(replace_lights_by_lamp(scene, view), egl)
    drawn = stage.render(view, {"radiance", "depth_m", "normals"})
    seen = DepthCameraInput(
        drawn["depth_m"], compute_returned_light(drawn["radiance"]), drawn["normals"]
    )
    expected = to_uint16(measure_depth(view, seen, NEAR), NEAR.depth_unit_m)
    assert np.array_equal(frame.channels["sensor_depth"], expected)
    off, share = off_m(frame)
    assert share > 0.7
    assert np.median(off) < 0.002
    assert off.max() > 0.005  # it errs as cameras do


def test_the_scene_is_lit_again_as_it_was(egl, table):
    scene, of = table
    stage = Stage(scene, egl)
    before = stage.shoot(of, ("depth",)).image
    render_sensor_depth(scene, of, egl)
    assert stage.shoot(of, ("depth",)).image == before


@pytest.mark.parametrize(
    "bend", [{"k1": -0.2, "k2": 0.03, "p1": 0.002}, {"focal_px": 410.0, "k1": 0.1}]
)
def test_readings_lie_under_the_lens_s_pixels(egl, make, table, bend):
    scene, _ = table
    of = replace(make.camera((0.05, -0.3, 0.4), **bend), depth_camera=NEAR)
    stage = Stage(scene, egl)
    frame = stage.shoot(of, WANTED)
    off, share = off_m(frame)
    assert share > 0.7
    assert np.median(off) < 0.002
    on_dice = frame.channels["ids"] > 0
    read = (frame.channels["sensor_depth"] * NEAR.depth_unit_m).astype(np.float32)
    inside = on_dice & (read > 0)
    assert (np.abs(read - frame.channels["depth"])[inside] < 0.01).mean() > 0.8


def test_along_the_ray_where_depth_is(egl, make, table):
    scene, of = table
    lens = KannalaBrandt(400.0, 400.0, 159.5, 119.5, 0.02, -0.004, 0.0, 0.0)
    stage = Stage(scene, egl)
    off, share = off_m(stage.shoot(replace(of, lens=lens), WANTED))
    assert share > 0.7
    assert np.median(off) < 0.002


def test_a_lens_that_one_view_does_not_show_is_refused(egl, table):
    scene, of = table
    wide = KannalaBrandt(90.0, 90.0, 159.5, 119.5, 0.0, 0.0, 0.0, 0.0)
    stage = Stage(scene, egl)
    with pytest.raises(
        LensError, match="the field of view of the lens is too wide for a depth camera"
    ):
        stage.shoot(replace(of, lens=wide), WANTED)


def test_a_camera_without_one_is_refused(egl, table):
    scene, of = table
    stage = Stage(scene, egl)
    with pytest.raises(UsageError, match=r"^the camera has no depth camera\. Add one, or "):
        stage.shoot(replace(of, depth_camera=None), WANTED)


def test_a_rasterizer_without_normals_is_refused_and_keeps_its_scene(tiny, table):
    scene, of = table
    stage = Stage(scene, tiny)
    before = stage.shoot(of, ("depth",)).image
    with pytest.raises(BackendError, match="has no channel normals"):
        stage.shoot(of, WANTED)
    assert stage.shoot(of, ("depth",)).image == before
