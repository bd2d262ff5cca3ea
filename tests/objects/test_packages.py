"""Tins and cartons: closed skins, upright prints, bar codes that scanners read."""

import math
from dataclasses import replace

import cv2
import numpy as np
import pytest
from solids import EXAMPLES, LABEL, WHITE

from sim2cam.errors import SpecError
from sim2cam.render.physics.simulation import simulate
from sim2cam.scene.material import Texture
from sim2cam.surfaces.package_print import (
    encode_ean13,
    render_front_panel,
    render_name_panel,
    render_small_print_panel,
)
from sim2cam.surfaces.textures import encode_srgb

STEEL = Texture("plain", (0.4, 0.4, 0.42), (0.4, 0.4, 0.42), 0.01, 0.0, 0.0, 0)
TIN, CARTON = EXAMPLES["tin"], EXAMPLES["carton"]


def test_the_ends_of_a_tin_lie_within_its_rim():
    mesh = TIN.build_mesh()
    lower, upper, side = (mesh.vertices_m[mesh.parts == part] for part in (1, 2, 3))
    assert upper[:, 2].max() == -lower[:, 2].min() == 0.055
    middle = upper[np.hypot(upper[:, 0], upper[:, 1]) < 0.02]
    assert (middle[:, 2] < 0.054).all()
    assert np.allclose(np.hypot(side[:, 0], side[:, 1]), 0.037)


def test_labels_stand_upright_from_left_to_right():
    tin = TIN.build_mesh()
    side = tin.parts == 3
    angle = np.arctan2(tin.vertices_m[side, 1], tin.vertices_m[side, 0]) % (2 * math.pi)
    inner = (angle > 0.1) & (angle < 6.2)  # seen from outside, angles grow to the right
    assert np.allclose(tin.uvs[side, 0][inner], angle[inner] / (2 * math.pi))
    assert (np.corrcoef(tin.uvs[side, 1], tin.vertices_m[side, 2])[0, 1]) == pytest.approx(-1)
    carton = CARTON.build_mesh()
    front = carton.parts == 3  # -y, seen from there: x to the right
    for axis, sign in ((0, 1), (2, -1)):
        uv = carton.uvs[front, axis // 2]
        assert np.corrcoef(uv, carton.vertices_m[front, axis])[0, 1] == pytest.approx(sign)


def test_images_hold_prints_and_bare_ends():
    wrapped = TIN.render_maps(STEEL)[0]
    bare = encode_srgb(np.array(STEEL.color_a))
    assert (wrapped[384:] == bare).all()
    assert not (wrapped[:384] == bare).all(axis=-1).any()
    assert np.array_equal(wrapped[:384, :512], wrapped[:384, 512:])  # all of it twice
    tiles = CARTON.render_maps(STEEL)[0]
    assert np.array_equal(tiles[:256, 512:768], tiles[:256, 768:])  # front and back
    assert not np.array_equal(tiles[:256, :256], tiles[:256, 512:768])


@pytest.mark.parametrize("first", range(10))  # which decides the parities of the left half
def test_scanners_read_bar_codes(first):
    number = first * 10**11 + 23456789012
    modules = np.array([int(m) for m in encode_ean13(number)], np.uint8)
    picture = np.full((500, 600), 255, np.uint8)
    picture[120:220, 100:290] = 255 * (1 - np.repeat(modules, 2))
    found, _, _ = cv2.barcode.BarcodeDetector().detectAndDecode(picture)
    assert found.zfill(13)[:12] == f"{number:012d}"  # a first 0 is not told


def test_known_check_digits():
    code = encode_ean13(400638133393)  # 4006381333931: R code of 1, then the guard
    assert code.endswith("1100110101")


def test_the_bar_code_of_a_panel_is_read_too():
    panel = encode_srgb(render_small_print_panel(LABEL, 0.8))
    found, _, _ = cv2.barcode.BarcodeDetector().detectAndDecode(panel)
    assert len(found) == 13


def test_names_and_seeds_change_the_print():
    plain = render_front_panel(replace(LABEL, text=""), 1.0)
    assert not np.array_equal(plain, render_front_panel(replace(LABEL, text="beans"), 1.0))
    assert not np.array_equal(plain, render_front_panel(replace(LABEL, text="", seed=4), 1.0))
    assert np.array_equal(plain, render_front_panel(replace(LABEL, text=""), 1.0))
    written = (render_name_panel(replace(LABEL, text="rice"), 2.0) != WHITE).any(axis=-1)
    rows, columns = np.nonzero(written)
    height, width = written.shape
    assert abs(rows.mean() / height - 0.5) < 0.1
    assert 0.3 * width < np.ptp(columns) < 0.95 * width


def test_packages_stand_and_are_what_they_say(make):
    tin = make.body("tin", TIN, (0.0, 0.0, 0.056), mass_kg=0.4)
    carton = make.body("carton", CARTON, (0.2, 0.0, 0.121), mass_kg=0.5)
    settled, certificate = simulate(make.scene(tin, carton))
    assert certificate.rejection is None
    assert [body.get_category() for body in settled.bodies[1:]] == ["beans", "beans"]
    heights = [body.pose.position_m[2] for body in settled.bodies[1:]]
    assert heights == pytest.approx([0.055, 0.12], abs=3e-4)


@pytest.mark.parametrize(
    ("make_asset", "message"),
    [
        (lambda: replace(LABEL, text="thé"), "the text 'thé' of a label is invalid. Allowed: up to 40 printable ASCII characters."),
        (lambda: replace(LABEL, text="x" * 41), "the text 'xxx"),
        (lambda: replace(LABEL, seed=-1), "a label: seed must be 0 to 9.22337e+18, not -1."),
        (lambda: replace(TIN, radius_m=0.0), "radius_m of a tin is 0.0. Sizes must be finite and above 0."),
        (lambda: replace(TIN, radius_m=0.1, height_m=0.01), "a tin is 0.05 times as high as wide. Allowed: 0.1 to 10 times."),
        (lambda: replace(CARTON, size_m=(0.1, 0.1, math.inf)), "size_m of a carton is (0.1, 0.1, inf). Sizes must be "),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(make_asset, message):
    with pytest.raises(SpecError) as error:
        make_asset()
    assert str(error.value).startswith(message)
