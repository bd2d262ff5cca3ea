import math
from dataclasses import fields, replace

import pytest

from sim2cam.geometry.fisheye import KannalaBrandt
from sim2cam.geometry.motion import Twist
from sim2cam.geometry.perspective import BrownConrady
from sim2cam.geometry.poses import Pose
from sim2cam.scene import image_formation
from sim2cam.scene.camera import Camera, Shutter
from sim2cam.scene.image_formation import FORMATION_STAGES, keep_stages
from sim2cam.scene.lens_effects import Defocus, FieldBlur, Glare, LateralColor, LensEffects
from sim2cam.scene.sensor import Mosaic, Processing, Sensor

SENSOR = Sensor(
    0.3, 1.1, 0.9, 0.4, 0.8, 900.0, 3.0, 0.5, 1.2, 1.1, 0.4, 80, 7,
    Mosaic("RGGB"), Processing(local_tone=0.3, chroma_blur_px=1.0, shading_correction=0.5),
    red_response=0.5,
)  # fmt: skip
GLASS = LensEffects(
    defocus=Defocus(0.002, 0.4), lateral_color=LateralColor(0.001), field_blur=FieldBlur(1.0),
    glare=Glare(0.02),
)  # fmt: skip
CAMERA = Camera(
    Pose((0, 0, 1), (1, 0, 0, 0)), 64, 48, BrownConrady(60.0, 60.0, 32.0, 24.0, k1=-0.1, p2=0.01),
    SENSOR, Shutter(0.01, 0.02), Twist((0.1, 0, 0), (0, 0, 0)), glass=GLASS,
)  # fmt: skip


def test_with_all_steps_it_is_the_camera_itself():
    assert keep_stages(CAMERA, FORMATION_STAGES) == CAMERA


def test_without_any_it_is_a_pinhole_with_a_meter():
    bare = keep_stages(CAMERA, ())
    assert bare.lens == BrownConrady(60.0, 60.0, 32.0, 24.0)
    assert bare.sensor == Sensor(
        0, 1, 1, 0, 0, math.inf, 0, 0, 1, 1, 0, 80, 7, processing=Processing(), tone_shoulder=1,
        file_format="png",
    )  # fmt: skip
    assert bare.glass == LensEffects()
    assert (bare.shutter, bare.twist) == (None, None)
    assert (bare.pose, bare.width, bare.height) == (CAMERA.pose, 64, 48)


@pytest.mark.parametrize("step", FORMATION_STAGES)
def test_each_step_left_out_alone_changes_what_is_its_own(step):
    kept = [one for one in FORMATION_STAGES if one != step]
    found = keep_stages(CAMERA, kept)
    assert found != CAMERA
    changed = {
        f.name for f in fields(Sensor) if getattr(found.sensor, f.name) != getattr(SENSOR, f.name)
    }
    assert changed - {"processing"} == {
        name
        for name, off in image_formation._NEUTRAL_SENSOR[step].items()
        if getattr(SENSOR, name) != off
    }
    assert (found.lens == CAMERA.lens) == (step != "lens")


def test_parts_that_a_camera_lacks_stay_away():
    plain = replace(CAMERA, glass=None, sensor=replace(SENSOR, processing=None, mosaic=None))
    for steps in ((), FORMATION_STAGES):
        assert keep_stages(plain, steps).glass is None
        assert keep_stages(plain, steps).sensor.processing is None


def test_a_fisheye_keeps_its_kind_and_centre():
    lens = KannalaBrandt(50.0, 50.0, 31.0, 24.0, k1=0.1, k4=0.01)
    assert keep_stages(replace(CAMERA, lens=lens), ()).lens == KannalaBrandt(50.0, 50.0, 31.0, 24.0)


NO_STEP = {
    Sensor: {"noise_seed", "processing", "jpeg_quality"},  # nothing of a PNG
    Processing: {"demosaic", "color_correction", "jpeg_subsampling"},  # nothing without a mosaic
    LensEffects: set(),
    Camera: {
        "pose",
        "width",
        "height",
        "lens",
        "sensor",
        "depth_camera",
        "baseline_m",
        "glass",
        "model",
    },
}


@pytest.mark.parametrize("part", NO_STEP)
def test_whatever_forms_a_picture_belongs_to_one_step(part):
    tables = {
        Sensor: image_formation._NEUTRAL_SENSOR, Processing: image_formation._NEUTRAL_PROCESSING,
        LensEffects: image_formation._NEUTRAL_LENS_EFFECTS, Camera: image_formation._NEUTRAL_CAMERA,
    }  # fmt: skip
    named = [name for step in tables[part].values() for name in step]
    assert len(named) == len(set(named))
    assert {f.name for f in fields(part)} - set(named) == NO_STEP[part]
