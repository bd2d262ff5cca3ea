import json
import math
import re
from dataclasses import replace

import pytest

from sim2cam.errors import Sim2CamError, SpecError
from sim2cam.geometry.lens import BrownConrady, KannalaBrandt, RadialTable
from sim2cam.geometry.poses import Pose
from sim2cam.objects.die import Die, Pips
from sim2cam.objects.primitives import Cuboid, Cylinder, Ground, Sphere
from sim2cam.scene.camera import Camera
from sim2cam.scene.depth_camera import ActiveStereo, StructuredLight, TimeOfFlight
from sim2cam.scene.lens_effects import (
    Defocus,
    Dirt,
    Droplets,
    FieldBlur,
    Glare,
    LateralColor,
    LensEffects,
)
from sim2cam.scene.light import Environment, Lamp
from sim2cam.scene.material import TEXTURE_FAMILIES, Material, Texture
from sim2cam.scene.scene import Body, Scene
from sim2cam.scene.sensor import Automatics, Mosaic, Processing, Sensor

DIE = Die(0.016, 0.1, 0.3, Pips("ring", 0.09, 0.25, 0.02, (0.1, 0.2, 0.3)), mirrored=True)
ASSETS = (Ground(6.0), DIE, Cuboid((0.1, 0.2, 0.3)), Cylinder(0.02, 0.03), Sphere(0.04))
SENSOR = Sensor(0.1, 1.1, 0.9, 0.3, 0.5, 900.0, 2.5, 0.4, 1.2, 1.1, 0.3, 88, 2**31 - 1)
GLASS = LensEffects(
    Defocus(0.004, 0.3), LateralColor(0.001), FieldBlur(1.0), Glare(0.1), Dirt(0.1, 0.2),
    Droplets(3, 0.02),
)  # fmt: skip
PARTS = {
    "mosaic": Mosaic("GBRG", 14), "processing": Processing(local_tone=0.2),
    "automatics": Automatics(0.3, 0.5, 0.4, 0.7),
}  # fmt: skip


def scene():
    bodies = tuple(
        Body(
            name=f"body/{i}",
            asset=asset,
            material=Material(
                Texture("marble", (0.1, 0.2, 1 / 3), (0.5, 0.6, 0.7), 0.01, 0.5, 0.2, i), 0.4, 0.05
            ),
            pose=Pose((0.5, 0.5, -0.5, 0.5), (0.1, -1e-17, 1 / 3)),
            is_fixed=i == 0,
            mass_kg=0.004,
            velocity_m_s=(0.1, 0.2, 0.3),
            is_target=isinstance(asset, Die),
        )
        for i, asset in enumerate(ASSETS)
    )
    lamp = Lamp((0.0, 0.6, 0.8), 0.2, (1.0, 0.9, 0.8))
    camera = Camera(
        Pose(), 640, 480, BrownConrady(500.0, 501.0, 319.5, 239.5, 0.1, -0.02, 1e-3, 2e-3), SENSOR
    )
    fisheye = replace(camera, lens=KannalaBrandt(300.0, 301.0, 319.5, 239.5, 0.01))
    table = replace(camera, lens=RadialTable(319.5, 239.5, (0.0, 1.0), (0.0, 400.0)))
    environment = Environment((0.5, 0.6, 0.7), (0.1, 0.1, 0.1), (lamp,))
    cameras = (
        replace(camera, baseline_m=0.06, depth_camera=ActiveStereo(window_px=9)),
        replace(fisheye, depth_camera=TimeOfFlight(modulation_hz=20e6), glass=GLASS),
        replace(table, depth_camera=StructuredLight(noise_seed=3), sensor=replace(SENSOR, **PARTS)),
    )
    return Scene(bodies, environment, cameras)


def test_json_brings_back_an_equal_scene():
    text = scene().to_json()
    assert Scene.from_json(text) == scene()
    assert Scene.from_json(text).to_json() == text
    assert text.count('"glass"') == text.count('"mosaic"') == 1  # absent parts are not written


def test_json_is_plain():
    tables = json.loads(scene().to_json())
    assert [body["asset"]["kind"] for body in tables["bodies"]] == [a.kind for a in ASSETS]
    assert tables["cameras"][0]["lens"]["k1"] == 0.1
    kinds = [camera["lens"]["kind"] for camera in tables["cameras"]]
    assert kinds == ["brown_conrady", "kannala_brandt", "radial_table"]


def test_an_empty_scene_is_a_scene():
    empty = replace(scene(), bodies=(), cameras=())
    assert Scene.from_json(empty.to_json()) == empty


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"kind":"sphere"', '"kind":"torus"'),
        ('"roughness":0.4', '"roughness":"rough"'),
        ('"radius_m":0.04,', ""),
        ('"family":"marble"', '"family":"marbel"'),
        ('"kind":"kannala_brandt"', '"kind":"omni"'),
        ('"kind":"time_of_flight"', '"kind":"sonar"'),
        ('"projector_m":0.0275', '"projector_m":0.2'),
        ("{", ""),
    ],
)
def test_what_is_no_scene_is_refused(old, new):
    text = scene().to_json()
    assert old in text
    with pytest.raises(Sim2CamError, match=r"^not a scene: "):
        Scene.from_json(text.replace(old, new))


def test_scenes_are_values():
    assert hash(scene()) == hash(scene())
    with pytest.raises(AttributeError):
        scene().bodies = ()


def test_a_body_that_arrives_last_is_fixed():
    with pytest.raises(SpecError, match=r"arrives_last, so it must be fixed\. Set is_fixed\."):
        replace(scene().bodies[-1], is_fixed=False, arrives_last=True)


def test_texture_families_are_listed_once():
    assert len(set(TEXTURE_FAMILIES)) == len(TEXTURE_FAMILIES) > 8


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: replace(DIE, edge_m=0.0), "edge_m of a die is 0.0."),
        (lambda: Cuboid((0.1, -0.2, 0.3)), "size_m of a cuboid is (0.1, -0.2, 0.3)."),
        (lambda: Cylinder(math.nan, 0.1), "radius_m of a cylinder is nan."),
        (lambda: Cylinder(0.1, -0.1), "height_m of a cylinder is -0.1."),
        (lambda: Sphere(math.inf), "radius_m of a sphere is inf."),
        (lambda: Ground(0.0), "side_m of a ground is 0.0."),
    ],
)
def test_shapes_without_a_size_are_refused(make, message):
    with pytest.raises(
        SpecError, match=f"^{re.escape(message)} Sizes must be finite and above 0\\.$"
    ):
        make()
