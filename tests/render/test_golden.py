"""Golden pictures: each feature of a small scene against a picture that was stored of it.

A new renderer, a wanted change of a picture or a new feature needs
``python -m pytest tests/render/test_golden.py --renew-golden`` and a look at what changed.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import pytest

from sim2cam import images
from sim2cam.files import write_bytes
from sim2cam.geometry.lens import BrownConrady, KannalaBrandt, RadialTable, Rational, ThinPrism
from sim2cam.geometry.poses import Pose
from sim2cam.objects.primitives import Cylinder
from sim2cam.render.gbuffer import PinholeView
from sim2cam.render.renderer import Stage
from sim2cam.scene.light import AreaLight, Environment, Lamp, PointLight, SpotLight
from sim2cam.scene.material import TEXTURE_FAMILIES, Material, Texture, Wear
from sim2cam.scene.scene import Scene

FOLDER = Path(__file__).with_name("golden")
PINNED = {
    "egl": "egl: llvmpipe (LLVM 15.0.6, 256 bits)",
    "tiny": "tiny: pybullet TinyRenderer, shaded by numpy",
}
MOST_STEPS = 2
LEAST_SHARE = 0.999
WIDTH, HEIGHT, FOCAL = 128, 96, 200.0
MIDDLE = ((WIDTH - 1) / 2, (HEIGHT - 1) / 2)
PINHOLE = BrownConrady(FOCAL, FOCAL, *MIDDLE)
DEPTH_STEP_M = 1e-4
WARM, COOL = (1.0, 0.8, 0.6), (0.6, 0.8, 1.0)
DUSK = Environment((0.05, 0.06, 0.08), (0.05, 0.05, 0.05), ())


@dataclass(frozen=True)
class Difference:
    """Which pixels of two pictures agree; ``picture`` has the wrong ones at its right."""

    share: float
    picture: np.ndarray


def compare(stored, found):
    """RGB (h, w, 3) and depth uint16 (h, w) agree within 2 steps. Ids uint8 (h, w) have to be
    equal, but where one borders on another in either picture.
    """
    apart = np.abs(stored.astype(int) - found.astype(int))
    if stored.dtype == np.uint8 and stored.ndim == 2:
        wrong = (apart > 0) & ~silhouettes(stored) & ~silhouettes(found)
    else:
        wrong = apart.reshape(*apart.shape[:2], -1).max(axis=-1) > MOST_STEPS
    marks = np.where(wrong, 255, 0)[..., None].repeat(3, axis=2)
    picture = np.concatenate([shown(stored), shown(found), marks], axis=1).astype(np.uint8)
    return Difference(1 - wrong.mean(), picture)


def silhouettes(ids):
    window = np.ones((3, 3), np.uint8)
    return cv2.dilate(ids, window) != cv2.erode(ids, window)


def shown(picture):
    if picture.ndim == 3:
        return picture
    return (picture * (255 / max(1, picture.max())))[..., None].repeat(3, axis=2)


def read(path, like):
    """Returns a stored picture of the same kind."""
    if like.dtype == np.uint16:
        return images.read_16bit(path)
    rgb = images.read_rgb(path)
    return rgb if like.ndim == 3 else rgb[..., 0]


@pytest.fixture(scope="module")
def still(make):
    """Dice and other shapes of all kinds of surface, where they would lie."""
    table = replace(make.ground(), material=textured("speckle", 0.02))
    lying = [
        ("round", (-0.03, 0.0, 0.008), make.RED, (1.0, 0.0, 0.0, 0.0)),
        ("ring", (-0.005, 0.02, 0.008), make.WHITE, (0.9, 0.0, 0.0, math.sqrt(0.19))),
        ("square", (0.02, -0.02, 0.008), make.GREY, (0.5, 0.5, 0.5, 0.5)),
    ]
    dice = [
        make.body(f"die/{shape}", make.die(shape=shape), place, color, rotation=turned)
        for shape, place, color, turned in lying
    ]
    brick = replace(
        make.body("brick", make.box((0.03, 0.02, 0.02)), (0.035, 0.025, 0.01), is_target=False),
        material=textured("checker", 0.006),
    )
    can = replace(
        make.body("can", Cylinder(0.01, 0.03), (-0.04, 0.035, 0.015)),
        material=textured("wood", 0.02),
    )
    steel = replace(
        make.body("ball", make.sphere(0.012), (0.0, -0.025, 0.012)),
        material=replace(make.plain((0.7, 0.7, 0.75), 0.25), metallic=1.0),
    )
    return Scene((table, *dice, brick, can, steel), make.sky, (camera(make),))


def textured(family, scale_m):
    return Material(Texture(family, (0.6, 0.5, 0.3), (0.1, 0.12, 0.2), scale_m, 1.0, 0.5, 1), 0.6)


def camera(make, lens=PINHOLE):
    return replace(
        make.camera((0.05, -0.16, 0.16), (0.0, 0.0, 0.008)), width=WIDTH, height=HEIGHT, lens=lens
    )


def lit(still, *lights):
    return replace(still, environment=replace(DUSK, lights=lights))


def glowing(body, emission):
    """The body, with light of its own if it is labelled."""
    emission = emission if body.is_target else 0.0
    return replace(body, material=replace(body.material, emission=emission))


def patches(make):
    """A ball of every family of textures."""
    balls = [
        replace(
            make.body(family, make.sphere(0.012), (0.03 * (i % 4 - 1.5), 0.03 * (i // 4 - 1), 0.012)),
            material=textured(family, 0.008),
        )
        for i, family in enumerate(TEXTURE_FAMILIES[:12])
    ]  # fmt: skip
    return make.scene(*balls, cameras=[camera(make)])


def worn(make):
    """Cloth and brushed metal in relief, under lamps, new and with each kind of wear."""
    wears = (None, Wear(dust=0.6), Wear(scratches=0.8), Wear(stains=0.5, fingerprints=0.8))
    cloth, metal = textured("weave", 0.006), replace(textured("brushed", 0.02), metallic=1.0)
    balls = [
        replace(
            make.body(f"{row}/{column}", make.sphere(0.012), (0.03 * (column - 1.5), 0.04 * row, 0.012)),
            material=replace(look, relief=relief, wear=wear, roughness=0.3),
        )
        for row, (look, relief) in enumerate(((cloth, 0.1), (metal, 0.005)))
        for column, wear in enumerate(wears)
    ]  # fmt: skip
    return replace(surfaces(make), bodies=(make.ground(), *balls))


def surfaces(make):
    """Balls from rough to polished, above of metal."""
    balls = [
        replace(
            make.body(f"{row}/{column}", make.sphere(0.012), (0.03 * (column - 1.5), 0.04 * row, 0.012)),
            material=replace(make.plain((0.6, 0.3, 0.1), (1.0, 0.5, 0.25, 0.08)[column]), metallic=row),
        )
        for row in (0.0, 1.0)
        for column in range(4)
    ]  # fmt: skip
    lamps = (Lamp((0.0, 0.6, 0.8), 0.1, COOL), Lamp((-0.6, -0.48, 0.64), 0.3, WARM))
    bright = Environment((0.5, 0.6, 0.8), (0.3, 0.3, 0.3), lamps)
    return make.scene(*balls, cameras=[camera(make)], environment=bright)


def photo(drawing, scene):
    """The picture as a camera takes it, with its lens and sensor, in a file without loss: where
    processors round otherwise, one step of a value would tip blocks of a JPEG by several.
    """
    stage = Stage(scene, drawing)
    of = scene.cameras[0]
    of = replace(of, sensor=replace(of.sensor, file_format="png"))
    return images.decode_image(stage.shoot(of, ()).image)


def channel(name, drawing, scene):
    """A channel as bytes, or depth in 0.1 mm."""
    stage = Stage(scene, drawing)
    found = stage.shoot(scene.cameras[0], (name,)).channels[name]
    match name:
        case "depth":
            return np.round(found / DEPTH_STEP_M).astype(np.uint16)
        case "normals":
            return np.round((found + 1) * 127.5).astype(np.uint8)
        case "coordinates":
            return np.round(np.nan_to_num(found, nan=0.0).clip(0, 1) * 255).astype(np.uint8)
        case _:
            return found.astype(np.uint8)


def cover(drawing, scene):
    """The bits of all labelled bodies behind each pixel."""
    stage = Stage(scene, drawing)
    of = scene.cameras[0]
    view = PinholeView(of.pose, of.width, of.height, FOCAL, *MIDDLE)
    return stage.render(view, ("cover",))["cover"][..., 0].astype(np.uint8)


SENSOR = {
    "exposure_ev": -0.5, "red_gain": 1.1, "blue_gain": 0.9, "vignetting": 0.3, "blur_px": 0.7,
    "full_well_e": 3000.0, "read_noise_e": 3.0, "denoise": 0.3, "tone_contrast": 1.2,
    "saturation": 1.1, "sharpening": 0.4, "noise_seed": 1,
}  # fmt: skip
LIGHTS = {
    "point": PointLight((0.08, -0.05, 0.15), (0.02, 0.02, 0.02)),
    "ball": PointLight((0.08, -0.05, 0.15), (0.02, 0.02, 0.02), 0.02),
    "among": PointLight((0.0, 0.0, 0.04), (0.003, 0.003, 0.003)),
    "spot": SpotLight((0.0, -0.1, 0.2), (0.0, 0.447, -0.894), (0.05, 0.05, 0.05), 0.15, 0.3),
    "area": AreaLight(Pose((0.0, 1.0, 0.0, 0.0), (0.0, 0.02, 0.2)), 0.12, 0.06, (5.0, 4.0, 3.0)),
}
LENSES = {
    "brown_conrady": BrownConrady(FOCAL, FOCAL, *MIDDLE, -0.25, 0.05, 2e-3, -1e-3),
    "rational": Rational(FOCAL, FOCAL, *MIDDLE, k1=-0.2, k4=0.1, k5=0.02),
    "thin_prism": ThinPrism(FOCAL, FOCAL, *MIDDLE, k1=-0.1, s1=0.05, s3=-0.05),
    "kannala_brandt": KannalaBrandt(45.0, 45.0, *MIDDLE, 0.05),
    "radial_table": RadialTable(*MIDDLE, (0.0, 0.8, 1.6), (0.0, 60.0, 100.0)),
    "off_axis": BrownConrady(FOCAL, FOCAL, 132.0, 60.0),
}
CHANNELS = ("depth", "ids", "parts", "normals", "coordinates")


def features(make, still):
    """Functions from a rasterizer to a picture, by name."""
    of = still.cameras[0]
    scenes = {
        "dice": replace(still, cameras=(replace(of, sensor=replace(of.sensor, **SENSOR)),)),
        "textures": patches(make),
        "surfaces": surfaces(make),
        "worn": worn(make),
        "glow": replace(lit(still), bodies=tuple(glowing(body, 2.0) for body in still.bodies)),
    }
    scenes |= {f"light-{name}": lit(still, light) for name, light in LIGHTS.items()}
    scenes |= {
        f"lens-{name}": replace(still, cameras=(camera(make, lens),))
        for name, lens in LENSES.items()
    }
    pictures = {name: partial(photo, scene=scene) for name, scene in scenes.items()}
    channels = {name: partial(channel, name, scene=still) for name in CHANNELS}
    return pictures | channels | {"cover": partial(cover, scene=still)}


NAMES = (
    *("dice", "textures", "surfaces", "worn", "glow", "cover", *CHANNELS),
    *(f"light-{name}" for name in LIGHTS),
    *(f"lens-{name}" for name in LENSES),
)
DRAWN_BY_TINY = ("dice", "surfaces", "light-ball", "lens-brown_conrady", "depth", "ids", "cover")


@pytest.mark.golden
@pytest.mark.parametrize(
    ("backend", "name"),
    [*(("egl", name) for name in NAMES), *(("tiny", name) for name in DRAWN_BY_TINY)],
)
def test_it_is_rendered_as_it_was_stored(request, make, still, tmp_path, backend, name):
    drawing = request.getfixturevalue(backend)
    found = features(make, still)[name](drawing)
    if drawing.name != PINNED[backend]:
        pytest.skip(f"the picture was stored from {PINNED[backend]}, this is {drawing.name}")
    path = FOLDER / f"{backend}-{name}.png"
    if request.config.getoption("--renew-golden"):
        write_bytes(path, images.encode_png(found))
    difference = compare(read(path, found), found)
    if difference.share < LEAST_SHARE:
        shown_at = tmp_path / f"{backend}-{name}.png"
        write_bytes(shown_at, images.encode_png(difference.picture))
        pytest.fail(f"{difference.share:.2%} of {path.name} are as stored. Look at {shown_at}")


def test_every_stored_image_is_compared():
    compared = {f"egl-{name}.png" for name in NAMES} | {f"tiny-{n}.png" for n in DRAWN_BY_TINY}
    assert {path.name for path in FOLDER.iterdir()} == compared


def test_stored_images_stay_small():
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 600_000


def planted(kind, size, at):
    """A flat picture (40, 50) and one with a fault of a size over some rows and columns."""
    flat = {
        "rgb": np.full((40, 50, 3), 100, np.uint8),
        "ids": np.full((40, 50), 3, np.uint8),
        "depth": np.full((40, 50), 5000, np.uint16),
    }[kind]
    wrong = flat.copy()
    wrong[at] += size
    return flat, wrong


@pytest.mark.parametrize(
    ("kind", "size", "at", "share"),
    [
        ("rgb", 2, np.s_[:, :], 1.0),
        ("rgb", 3, np.s_[:1, :3, 1], 1 - 3 / 2000),
        ("depth", 2, np.s_[:, :], 1.0),
        ("depth", 3, np.s_[:4, :5], 1 - 20 / 2000),
        ("ids", 1, np.s_[10:13, 10:13], 1 - 1 / 2000),  # all but its middle borders on others
        ("ids", 1, np.s_[10:12, 10:12], 1.0),
        ("ids", 1, np.s_[:, :], 0.0),
    ],
)
def test_a_planted_fault_is_found(kind, size, at, share):
    stored, found = planted(kind, size, at)
    difference = compare(stored, found)
    assert difference.share == pytest.approx(share)
    assert (difference.picture[:, 100:] == 255).all(axis=-1).mean() == pytest.approx(1 - share)
