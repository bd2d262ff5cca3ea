"""What a lens does besides bending light: where light goes, how much of it, and nothing when off."""

from dataclasses import replace

import numpy as np
import pytest

from sim2cam.geometry.lens import BrownConrady, KannalaBrandt
from sim2cam.render.optics.lens_effects import (
    apply_dirt,
    apply_droplets,
    apply_field_blur,
    apply_glare,
    apply_lateral_color,
    apply_lens_effects,
)
from sim2cam.scene.lens_effects import (
    Defocus,
    Dirt,
    Droplets,
    FieldBlur,
    Glare,
    LateralColor,
    LensEffects,
)

MIDDLE = (79.5, 59.5)
PARTS = {
    "defocus": Defocus(0.02, 0.3),
    "lateral_color": LateralColor(0.01, -0.005),
    "field_blur": FieldBlur(2.0),
    "glare": Glare(0.1, 0.1, 0.02, 0.05),
    "dirt": Dirt(0.3, 0.5),
    "droplets": Droplets(4, 0.05),
}
OFF = {
    "defocus": Defocus(0.0, 0.3),
    "lateral_color": LateralColor(),
    "field_blur": FieldBlur(),
    "glare": Glare(),
    "dirt": Dirt(0.3, 0.0),
    "droplets": Droplets(0, 0.05),
}


@pytest.fixture(scope="module")
def light():
    return np.random.default_rng(1).uniform(0, 1, (120, 160, 3)).astype(np.float32)


def point(x, y, size=(120, 160)):
    light = np.zeros((*size, 3), np.float32)
    light[y, x] = 1.0
    return light


def centroid(plane):
    y, x = np.mgrid[: plane.shape[0], : plane.shape[1]]
    return np.array([(plane * x).sum(), (plane * y).sum()]) / plane.sum()


def spread_px(plane):
    """The standard deviation along x and y, in one."""
    y, x = np.mgrid[: plane.shape[0], : plane.shape[1]]
    cx, cy = centroid(plane)
    return np.sqrt((plane * ((x - cx) ** 2 + (y - cy) ** 2)).sum() / plane.sum() / 2)


def behind(make, light, **parts):
    of = make.camera(width=160, height=120, cx_px=MIDDLE[0], cy_px=MIDDLE[1])
    depth = np.full(light.shape[:2], 0.4, np.float32)
    return apply_lens_effects(light, replace(of, glass=LensEffects(**parts)), depth)


@pytest.mark.parametrize("name", PARTS)
def test_each_part_works_alone_is_repeated_and_does_nothing_at_zero(make, light, name):
    found = behind(make, light, **{name: PARTS[name]})
    assert (found.shape, found.dtype) == (light.shape, np.float32)
    assert np.array_equal(found, behind(make, light, **{name: PARTS[name]}))
    assert np.abs(found - light).max() > 0.01
    assert found.min() >= 0
    assert np.allclose(behind(make, light, **{name: OFF[name]}), light, atol=1e-6)


@pytest.mark.parametrize("name", PARTS)
def test_parts_are_switched_off_one_by_one(make, light, name):
    rest = {other: part for other, part in PARTS.items() if other != name}
    assert np.allclose(
        behind(make, light, **rest), behind(make, light, **rest, **{name: OFF[name]}), atol=1e-5
    )


def test_without_glass_light_stays_as_it_is(make, light):
    of = make.camera(width=160, height=120)
    assert apply_lens_effects(light, of, np.ones((120, 160), np.float32)) is light


@pytest.mark.parametrize(("x", "y"), [(20, 20), (140, 60), (79, 110)])
def test_red_and_blue_move_away_from_the_middle_in_proportion(x, y):
    found = apply_lateral_color(point(x, y), LateralColor(0.02, -0.01), MIDDLE)
    away = np.array([x, y]) - MIDDLE
    assert centroid(found[..., 0]) == pytest.approx([x, y] + 0.02 * away, abs=0.05)
    assert centroid(found[..., 1]) == pytest.approx([x, y], abs=1e-9)
    assert centroid(found[..., 2]) == pytest.approx([x, y] - 0.01 * away, abs=0.05)


@pytest.mark.parametrize(("x", "y"), [(80, 60), (120, 60), (110, 90), (145, 105)])
def test_the_point_spread_grows_linearly_from_the_middle(x, y):
    found = apply_field_blur(point(x, y), FieldBlur(3.0))[..., 0]
    share = np.hypot((x - 79.5) / 79.5, (y - 59.5) / 59.5) / np.sqrt(2)
    assert spread_px(found) == pytest.approx(3.0 * share, rel=0.03, abs=0.1)
    assert found.sum() == pytest.approx(1, rel=0.05)


def test_veiling_glare_lifts_darkness_by_its_share_of_the_mean(light):
    veiled = apply_glare(light, Glare(veil=0.2), MIDDLE)
    assert np.allclose(veiled, 0.8 * light + 0.2 * light.mean(axis=(0, 1)), atol=1e-6)


def test_bloom_keeps_the_light_and_has_the_width_it_says():
    found = apply_glare(point(80, 60), Glare(bloom=0.4, bloom_radius=0.02), MIDDLE)[..., 0]
    assert found.sum() == pytest.approx(1, rel=0.02)
    assert found[60, 80] > 0.6
    found[60, 80] -= 0.6
    wanted = 0.02 * 160 * np.sqrt((1 + 4 + 16) / 3)
    assert spread_px(found) == pytest.approx(wanted, rel=0.05)


def test_a_ghost_stands_across_the_middle_at_its_scale():
    lamp = np.zeros((120, 160, 3), np.float32)
    lamp[20:24, 30:34] = 1.0
    ghost = apply_glare(lamp, Glare(ghost=0.1, ghost_scale=0.5), MIDDLE) - 0.9 * lamp
    wanted = MIDDLE - 0.5 * (np.array([31.5, 21.5]) - MIDDLE)
    outlined = np.maximum(ghost[..., 0] - 2 * ghost[0, 0, 0], 0)
    assert centroid(outlined) == pytest.approx(wanted, abs=0.3)
    assert outlined.max() > 0.01


def test_dirt_covers_its_share_and_scatters_half_of_what_it_takes():
    flat = np.ones((120, 160, 3), np.float32)
    found = apply_dirt(flat, Dirt(0.3, 0.5, seed=4))
    clean = found.max()
    assert (found[..., 0] < clean - 1e-6).mean() == pytest.approx(0.3, abs=0.02)
    assert clean - found.min() == pytest.approx(0.5, abs=1e-3)
    assert 1 - found.mean() == pytest.approx(clean - 1, rel=1e-3)  # half lost, half scattered
    assert not np.array_equal(found, apply_dirt(flat, Dirt(0.3, 0.5, seed=5)))


def test_a_drop_shows_the_world_upside_down():
    light = np.tile(np.linspace(0, 1, 160, dtype=np.float32)[None, :, None], (120, 1, 3))
    found = apply_droplets(light, Droplets(1, 0.1, seed=2))
    inside = np.abs(found - light)[..., 0] > 0.02
    cx = centroid(inside.astype(float))[0]
    slope = np.diff(found[..., 0], axis=1)
    assert inside.mean() < 0.1
    y, x = (round(v) for v in centroid(inside.astype(float))[::-1])
    assert slope[y, x - 2 : x + 3].mean() < 0  # it rises to the left there
    assert found[y, x, 0] == pytest.approx(light[y, round(cx), 0], abs=0.05)


def test_glass_takes_any_lens(make, light):
    depth = np.full((120, 160), 0.4, np.float32)
    parts = LensEffects(defocus=Defocus(0.02, 0.3))
    straight = replace(
        make.camera(width=160, height=120), lens=BrownConrady(100.0, 100.0, *MIDDLE), glass=parts
    )
    bent = replace(straight, lens=KannalaBrandt(100.0, 100.0, *MIDDLE))
    assert np.allclose(
        apply_lens_effects(light, straight, depth),
        apply_lens_effects(light, bent, depth),
        atol=1e-3,
    )
