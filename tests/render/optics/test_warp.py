"""Colour and labels through a lens, against arithmetic and against OpenCV."""

import math
from dataclasses import replace

import cv2
import numpy as np
import pytest

from sim2cam.geometry.boxes import mask_to_box
from sim2cam.geometry.lens import BrownConrady, KannalaBrandt, RadialTable, Rational, ThinPrism
from sim2cam.geometry.poses import Pose
from sim2cam.render.optics.views import build_optics
from sim2cam.render.optics.warp import LABEL_OVERSAMPLING, warp_labels, warp_radiance
from sim2cam.render.renderer import Stage

WIDTH, HEIGHT = 800, 600
MIDDLE = ((WIDTH - 1) / 2, (HEIGHT - 1) / 2)
ANGLES = np.linspace(0, 2.8, 40)
LENSES = {
    "pinhole": BrownConrady(700.0, 700.0, *MIDDLE),
    "pinhole outside": BrownConrady(700.0, 700.0, -150.0, 700.0),
    "aspect": BrownConrady(700.0, 720.0, *MIDDLE),
    "barrel": BrownConrady(700.0, 700.0, *MIDDLE, -0.2, 0.03, 1e-3, -1e-3),
    "pincushion": BrownConrady(700.0, 700.0, *MIDDLE, 0.15, 0.02, -1e-3, 1e-3),
    "rational": Rational(520.0, 521.0, *MIDDLE, 5.1, 2.1, 1e-4, -2e-4, 0.09, 5.4, 3.5, 0.5),
    "wide barrel": Rational(350.0, 350.0, *MIDDLE, 0.1, 0.01, k4=0.3, k5=0.02),
    "prism": ThinPrism(700.0, 702.0, *MIDDLE, -0.2, 0.03, s1=2e-3, s2=-1e-3, s3=-3e-3, s4=5e-4),
    "outside": BrownConrady(700.0, 700.0, -150.0, 700.0, -0.1, 0.03, 1e-3, -1e-3),
    "fisheye": KannalaBrandt(300.0, 300.0, *MIDDLE, -0.01, 0.002),
    "fisheye outside": KannalaBrandt(500.0, 500.0, -100.0, 650.0),
    "beyond": KannalaBrandt(230.0, 231.0, *MIDDLE, 0.01),
    "table": RadialTable(*MIDDLE, tuple(ANGLES), tuple(300 * 2 * np.sin(ANGLES / 2))),
}
POSE = Pose.look_at((0.3, -0.2, 0.4), (1.0, 1.0, 0.9), 0.3)
TURN = POSE.matrix()[:3, :3]


def pixels_of(width, height):
    x, y = np.meshgrid(np.arange(width, dtype=float), np.arange(height, dtype=float))
    return np.stack([x.ravel(), y.ravel()], axis=1)


def scene_before(make, lens):
    """A ball that fills half of the picture, before a slanted wall."""
    middle, edge = lens.unproject(np.array([MIDDLE, (MIDDLE[0], 20.0)]))
    angle = min(math.acos(middle @ edge), 1.2)
    distance, eye = 1 / math.sin(angle), np.array(POSE.position_m)
    slant = np.array([0.3, -0.2, -1.0]) / np.linalg.norm([0.3, -0.2, -1.0])
    ahead = TURN @ middle
    return make.caster((eye + ahead * distance, 1.0), (eye + 3 * distance * ahead, TURN @ slant))


def truth(caster, lens, width=WIDTH, height=HEIGHT):
    """Depth and ids (h, w) by one ray a pixel; depth 0 and id -1 where nothing is."""
    rays = lens.unproject(pixels_of(width, height))
    away, ids = caster.hits(np.array(POSE.position_m), rays @ TURN.T)
    along = rays[:, 2] if lens.depth_along == "axis" else 1.0
    depth = np.where(ids < 0, 0, along * np.where(ids < 0, 0, away))
    return depth.reshape(height, width), ids.reshape(height, width)


def inside(ids, reach_px):
    """Pixels (h, w) that are farther than this from every silhouette."""
    kernel = np.ones((2 * reach_px + 1,) * 2, np.uint8)
    masks = [(ids == i).astype(np.uint8) for i in (-1, 0, 1)]
    return np.any([cv2.erode(m, kernel, borderValue=1) > 0 for m in masks], axis=0)


@pytest.mark.parametrize("name", LENSES)
def test_labels_are_where_arithmetic_has_them(make, name):
    lens = LENSES[name]
    caster = scene_before(make, lens)
    camera = replace(make.camera(width=WIDTH, height=HEIGHT), pose=POSE, lens=lens)
    labels = make.labels_under(caster, build_optics(camera))
    depth, ids = truth(caster, lens)
    ball, found = ids == 1, labels.ids == 1
    assert 0.2 < ball.mean() < 0.8
    assert (ball & found).sum() / (ball | found).sum() > 0.999
    assert np.array_equal(labels.cover[..., 0], found)
    sure = inside(ids, 5)
    assert np.array_equal((labels.depth_m > 0)[sure], (ids >= 0)[sure])
    seen = sure & (ids >= 0)
    assert np.abs(labels.depth_m[seen] / depth[seen] - 1).max() < 1e-4


@pytest.mark.parametrize("name", ["pinhole outside", "outside", "fisheye outside"])
def test_an_image_beside_the_principal_point_is_the_crop_of_a_wider_one(make, name):
    near = LENSES[name]
    left, top = 200, 150
    wide = replace(near, cx_px=near.cx_px + left, cy_px=near.cy_px + top)
    caster = scene_before(make, near)
    camera = replace(make.camera(width=WIDTH, height=HEIGHT), pose=POSE, lens=near)
    wider = replace(camera, width=WIDTH + left, height=HEIGHT + top, lens=wide)
    labels = make.labels_under(caster, build_optics(camera))
    whole = make.labels_under(caster, build_optics(wider))
    ids, depth = whole.ids[top:, left:], whole.depth_m[top:, left:]
    assert (ids != labels.ids).mean() < 1e-3
    sure = inside(truth(caster, near)[1], 5) & (depth > 0)
    assert np.abs(labels.depth_m[sure] / depth[sure] - 1).max() < 1e-4


def test_depth_keeps_to_one_surface_at_a_silhouette(make):
    lens = LENSES["barrel"]
    caster = scene_before(make, lens)
    camera = replace(make.camera(width=WIDTH, height=HEIGHT), pose=POSE, lens=lens)
    labels = make.labels_under(caster, build_optics(camera))
    ball, wall = labels.depth_m[labels.ids == 1], labels.depth_m[labels.ids == 0]
    depth, ids = truth(caster, lens)
    assert wall.min() / ball.max() > 1.4
    assert ball.max() < depth[ids == 1].max() * 1.02
    assert wall.min() > depth[ids == 0].min() * 0.98


def checks(rays, period):
    """A chequered sky: 0 or 1 in each direction."""
    x, y = np.sin(2 * np.pi * rays[..., :2] / period).T
    return (x * y > 0).astype(np.float32).T


def sky(period, samples=4):
    """Draws the chequered sky, the mean of samples x samples a pixel."""

    def draw(view):
        x, y = np.meshgrid(np.arange(view.width), np.arange(view.height))
        inner = (np.arange(samples) + 0.5) / samples - 0.5
        total = np.zeros(x.shape, np.float32)
        for i in inner:
            for j in inner:
                rays = np.stack([x + i - view.cx_px, y + j - view.cy_px, 0 * x + view.focal_px], -1)
                rays = rays @ view.pose.matrix()[:3, :3].T
                total += checks(rays / np.linalg.norm(rays, axis=-1, keepdims=True), period)
        return np.repeat(total[..., None] / samples**2, 3, axis=-1)

    return draw


SKIES = {
    "barrel": BrownConrady(250.0, 250.0, 159.5, 119.5, -0.35, 0.08),
    "pincushion": BrownConrady(250.0, 250.0, 159.5, 119.5, 0.3),
    "fisheye": KannalaBrandt(110.0, 110.0, 159.5, 119.5),
}


def blocks(picture):
    height, width = picture.shape
    return cv2.resize(picture, (width // 20, height // 20), interpolation=cv2.INTER_AREA)


def expected_sky(lens, period):
    """The chequered sky (240, 320) through a lens, by the mean of 6 x 6 rays a pixel."""
    inner = (np.arange(6) + 0.5) / 6 - 0.5
    pixels = pixels_of(320, 240)
    parts = [
        checks(lens.unproject(pixels + np.array([i, j])), period) for i in inner for j in inner
    ]
    return np.mean(parts, axis=0).reshape(240, 320)


@pytest.mark.parametrize("name", SKIES)
@pytest.mark.parametrize("pixels", [1.5, 3.0])
def test_a_fine_pattern_keeps_its_mean_everywhere(make, name, pixels):
    lens = SKIES[name]
    period = pixels / lens.fx_px
    camera = replace(make.camera(width=320, height=240), pose=Pose(), lens=lens)
    picture = warp_radiance(build_optics(camera), sky(period))
    assert picture.dtype == np.float32
    assert np.array_equal(picture[..., 0], picture[..., 2])
    expected = expected_sky(lens, period)
    assert picture[..., 0].mean() == pytest.approx(expected.mean(), abs=1e-3)
    assert np.abs(blocks(picture[..., 0]) - blocks(expected)).max() < 0.02


def test_what_is_squeezed_together_makes_no_moire(make):
    lens, period = SKIES["fisheye"], 1.5 / 110
    camera = replace(make.camera(width=320, height=240), pose=Pose(), lens=lens)
    optics, draw = build_optics(camera), sky(period)
    picture = warp_radiance(optics, draw)[..., 0]
    single = np.zeros(240 * 320, np.float32)
    for face in optics.patches:
        view, (x, y) = face.make_view(1, 2)
        single[face.pixels] = cv2.remap(draw(view)[..., :1], x, y, cv2.INTER_LINEAR)[:, 0]
    expected = blocks(expected_sky(lens, period))
    moire = np.abs(blocks(single.reshape(240, 320)) - expected).max()
    assert np.abs(blocks(picture) - expected).max() < 0.5 * moire


BENT = [
    {"k1": -0.2, "k2": 0.03, "p1": 0.0012, "p2": -0.0008},
    {"k1": 0.15, "k2": -0.02, "p1": -0.002, "p2": 0.001, "cx_px": 170.3, "cy_px": 110.2},
]
SPOTS = [(-0.09, 0.07), (0.0, 0.0), (0.08, 0.06), (0.09, -0.06)]


@pytest.mark.parametrize("lens", BENT)
def test_boxes_of_ids_are_those_of_corners_projected_by_opencv(drawing, make, lens):
    of = make.camera((0.0, -0.1, 0.4), **lens)
    sides = (0.02, 0.016, 0.012)
    bodies = [
        make.body(str(i), make.box(sides), (*spot, 0.006), rotation=(0.9, 0.0, 0.0, 0.19**0.5))
        for i, spot in enumerate(SPOTS)
    ]
    stage = Stage(make.scene(*bodies), drawing)
    ids = make.labels_under(stage, build_optics(of)).ids
    signs = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    for number, body in enumerate(bodies, start=1):
        corners = (of.pose.inverse() @ body.pose).apply(signs * np.array(sides) / 2)
        zero = np.zeros(3)
        projected, _ = cv2.projectPoints(
            corners, zero, zero, of.lens.matrix(), of.lens.coefficients()
        )
        places = projected.reshape(-1, 2) + 0.5
        expected = np.concatenate([places.min(axis=0), places.max(axis=0)])
        expected = expected.clip(0, [of.width, of.height] * 2)
        assert np.abs(np.array(mask_to_box(ids == number)) - expected).max() < 1


FISHEYE = KannalaBrandt(100.0, 100.0, 159.5, 119.5)


@pytest.mark.parametrize("lens", [*BENT, FISHEYE], ids=["barrel", "pincushion", "fisheye"])
def test_bent_colour_and_labels_agree(drawing, make, lens):
    if isinstance(lens, KannalaBrandt):
        of, size = replace(make.camera((0.0, 0.001, 0.15)), lens=lens), 0.016
    else:
        of, size = make.camera((0.0, 0.001, 0.4), **lens), 0.012
    bodies = [
        make.body(str(i), make.sphere(size), (*s, 0.1), make.BLACK) for i, s in enumerate(SPOTS)
    ]
    stage = Stage(make.scene(*bodies), drawing)
    optics = build_optics(of)
    level = warp_radiance(optics, make.radiance(stage)).mean(axis=-1)
    ids = make.labels_under(stage, optics).ids
    for number in range(1, len(bodies) + 1):
        seen = (ids == number).astype(np.uint8)
        near = cv2.dilate(seen, np.ones((5, 5))) > 0
        around = near & (ids == 0)
        dark = near & (level < 0.5 * np.median(level[around]))
        assert abs(dark.sum() / seen.sum() - 1) < 0.08
        offset = np.argwhere(dark).mean(axis=0) - np.argwhere(seen).mean(axis=0)
        assert np.abs(offset).max() < 0.3


def test_distances_through_a_fisheye_are_those_to_the_table(drawing, make):
    of = replace(make.camera((0.0, -0.2, 0.3)), lens=FISHEYE)
    stage = Stage(make.scene(), drawing)
    labels = make.labels_under(stage, build_optics(of))
    rays = FISHEYE.unproject(pixels_of(of.width, of.height)) @ of.pose.matrix()[:3, :3].T
    down = -rays[:, 2].reshape(of.height, of.width)
    assert np.abs(labels.depth_m * down / 0.3 - 1)[down > 0.2].max() < 1e-3
    assert (labels.depth_m[down < 0] == 0).all()


def test_without_distortion_nothing_moves(tiny, make):
    of = make.camera()
    optics = build_optics(of)
    stage = Stage(make.scene(make.body("die", make.die(), (0.0, 0.0, 0.008))), tiny)
    radiance = make.radiance(stage)(make.view(of))
    labels = stage.render(make.view(of), ("depth_m",))
    assert warp_radiance(optics, lambda _view: radiance) is radiance
    assert warp_labels(optics, lambda _view: labels) is labels


def test_almost_no_distortion_changes_almost_nothing(tiny, make):
    of = make.camera(focal_px=700.0)
    bent = build_optics(make.camera(focal_px=700.0, k1=1e-9))
    stage = Stage(make.thrown(3), tiny)
    radiance = make.radiance(stage)
    difference = warp_radiance(bent, radiance) - radiance(make.view(of))
    assert np.abs(difference).mean() < 0.002
    ids = make.labels_under(stage, bent).ids
    assert (ids != make.labels(stage, make.view(of)).ids).mean() < 0.002


def test_labels_are_rendered_denser_under_a_bending_lens(make):
    lens = LENSES["barrel"]
    caster = scene_before(make, lens)
    of = replace(make.camera(width=WIDTH, height=HEIGHT), pose=POSE, lens=lens)
    optics = build_optics(of)
    make.labels_under(caster, optics)
    assert [view.focal_px for view in caster.drawn] == [
        LABEL_OVERSAMPLING * optics.patches[0].focal_px
    ]
