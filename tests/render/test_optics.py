from dataclasses import replace

import cv2
import numpy as np
import pytest

from sim2cam.geometry.boxes import box_of_mask
from sim2cam.render.optics import LABEL_DENSITY, blind_spot, view_maps, warp_color, warp_labels
from sim2cam.render.rasterizer import instance_ids

LENSES = [
    {"k1": -0.2, "k2": 0.03, "p1": 0.0012, "p2": -0.0008},
    {"k1": 0.15, "k2": -0.02, "p1": -0.002, "p2": 0.001, "cx_px": 170.3, "cy_px": 110.2},
]
SPOTS = [(-0.09, 0.07), (0.0, 0.0), (0.08, 0.06), (0.09, -0.06)]


@pytest.mark.parametrize("lens", LENSES)
def test_boxes_of_ids_are_those_of_corners_projected_by_opencv(drawing, make, lens):
    of = make.camera((0.0, -0.1, 0.4), **lens)
    sides = (0.02, 0.016, 0.012)
    bodies = [
        make.body(str(i), make.box(sides), (*spot, 0.006), rotation=(0.9, 0.0, 0.0, 0.19**0.5))
        for i, spot in enumerate(SPOTS)
    ]
    drawing.load(make.scene(*bodies))
    _, label = view_maps(of)
    ids = ids_of(drawing, label)
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
        assert np.abs(np.array(box_of_mask(ids == number)) - expected).max() < 1


@pytest.mark.parametrize("lens", LENSES)
def test_bent_colour_and_labels_agree(drawing, make, lens):
    of = make.camera((0.0, 0.001, 0.4), **lens)
    bodies = [
        make.body(str(i), make.sphere(0.012), (*s, 0.1), make.BLACK) for i, s in enumerate(SPOTS)
    ]
    drawing.load(make.scene(*bodies))
    color, label = view_maps(of)
    level = warp_color(drawing.draw(color.view, ("radiance",))["radiance"], color).mean(axis=-1)
    ids = ids_of(drawing, label)
    for number in range(1, len(bodies) + 1):
        seen = (ids == number).astype(np.uint8)
        near = cv2.dilate(seen, np.ones((5, 5))) > 0
        around = near & (ids == 0)
        dark = near & (level < 0.5 * np.median(level[around]))
        assert abs(dark.sum() / seen.sum() - 1) < 0.08
        offset = np.argwhere(dark).mean(axis=0) - np.argwhere(seen).mean(axis=0)
        assert np.abs(offset).max() < 0.3


def ids_of(rasterizer, through):
    drawn = warp_labels(rasterizer.draw(through.view, ("bodies",)), through)
    return instance_ids(rasterizer._scene, drawn["bodies"])


def test_without_distortion_nothing_moves(tiny, make):
    of = make.camera()
    color, label = view_maps(of)
    assert color == label
    assert color.view == make.view(of)
    tiny.load(make.scene(make.body("die", make.die(), (0.0, 0.0, 0.008))))
    radiance, labels = (
        tiny.draw(color.view, ("radiance",))["radiance"],
        make.labels(tiny, label.view),
    )
    assert warp_color(radiance, color) is radiance
    assert warp_labels(labels, label) is labels


def test_almost_no_distortion_changes_almost_nothing(tiny, make):
    of = make.camera(focal_px=700.0)
    bent = make.camera(focal_px=700.0, k1=1e-9)
    tiny.load(make.thrown(3))
    (color, label), (bent_color, bent_label) = view_maps(of), view_maps(bent)
    difference = (
        warp_color(tiny.draw(bent_color.view, ("radiance",))["radiance"], bent_color)
        - tiny.draw(color.view, ("radiance",))["radiance"]
    )
    assert np.abs(difference).mean() < 0.002
    ids = ids_of(tiny, bent_label)
    assert (ids != make.labels(tiny, label.view).ids).mean() < 0.002


def test_labels_are_drawn_denser_under_a_bending_lens(make):
    color, label = view_maps(make.camera(k1=-0.1))
    assert label.view.focal_px == LABEL_DENSITY * color.view.focal_px
    for through in (color, label):
        x, y = through.places
        assert x.min() >= 0
        assert y.min() >= 0
        assert x.max() <= through.view.width - 1
        assert y.max() <= through.view.height - 1


def test_a_lens_that_folds_back_in_the_picture_is_told(make):
    of = make.camera(focal_px=150.0)
    folding = replace(of, lens=replace(of.lens, k1=-0.3))
    assert blind_spot(make.scene(cameras=[of])) is None
    problem = blind_spot(make.scene(cameras=[of, folding]))
    assert problem.startswith("pixel (0.0, 0.0) lies outside the domain of BrownConrady(")
