from dataclasses import replace

import numpy as np
import pytest

from sim2cam.scene.material import TEXTURE_FAMILIES, Texture
from sim2cam.surfaces.textures import encode_srgb, make_color_sampler, render_plane_texture

A, B = (0.1, 0.6, 0.3), (0.9, 0.2, 0.4)


def texture(family="fbm", **changes):
    return replace(Texture(family, A, B, 0.01, 1.0, 0.3, 5), **changes)


def points(n=60, span=0.2):
    return tuple(np.random.default_rng(0).uniform(-span, span, (3, n, n)))


def paint(family="fbm", at=None, **changes):
    return make_color_sampler(texture(family, **changes))(points() if at is None else at)


def shares(family="fbm", **changes):
    """The share of the second colour in each channel."""
    return (paint(family, **changes) - A) / np.subtract(B, A)


@pytest.mark.parametrize("family", TEXTURE_FAMILIES)
def test_colours_lie_between_the_two(family):
    share = shares(family)
    assert share.min() >= -1e-9
    assert share.max() <= 1 + 1e-9
    assert np.allclose(share, share[..., :1])
    assert np.allclose(paint(family, contrast=0.0), A)


@pytest.mark.parametrize("family", TEXTURE_FAMILIES)
def test_a_pattern_follows_from_its_spec_alone(family):
    there = points()
    assert np.array_equal(paint(family, there), paint(family, tuple(c.copy() for c in there)))
    assert np.allclose(paint(family, there)[:5], paint(family, tuple(c[:5] for c in there)))


@pytest.mark.parametrize("family", TEXTURE_FAMILIES)
def test_a_grid_is_painted_as_its_points_are(family):
    x, y, z = np.linspace(-0.1, 0.2, 30), np.linspace(0.3, 0.5, 20)[:, None], np.array([0.017])
    for grid in ((x, y, z), (y, z, x), (z, x, y)):
        scattered = tuple(c.ravel() for c in np.broadcast_arrays(*grid))
        on_grid, apart = (paint(family, at, sharpness=0.0) for at in (grid, scattered))
        assert np.allclose(on_grid.reshape(-1, 3), apart)


@pytest.mark.parametrize("family", sorted(set(TEXTURE_FAMILIES) - {"plain"}))
def test_a_pattern_shows_both_colours(family):
    share = shares(family, sharpness=0.9)[..., 0]
    assert share.min() < 0.1
    assert share.max() > 0.9
    if family != "checker":
        assert not np.allclose(paint(family), paint(family, seed=6))


def test_plain_is_one_colour():
    assert np.allclose(paint("plain"), A)
    assert render_plane_texture(texture("plain"), 0.3).shape == (1, 1, 3)


@pytest.mark.parametrize("family", TEXTURE_FAMILIES)
def test_the_scale_is_that_of_the_features(family):
    there = points(span=0.03)
    large = paint(family, tuple(3 * c for c in there), scale_m=0.03)
    assert np.allclose(paint(family, there), large, atol=1e-6)


def test_sharpness_leaves_fewer_colours_between():
    def share_between(sharpness):
        share = shares(sharpness=sharpness)
        return ((share > 0.05) & (share < 0.95)).mean()

    assert share_between(0.95) < 0.5 * share_between(0.0)


def test_noise_is_smooth():
    line = (np.linspace(0, 0.02, 2001), np.zeros(1), np.zeros(1))
    for family in ("value", "fbm", "marble", "worley"):
        level = paint(family, line, sharpness=0.0)
        assert np.abs(np.diff(level, axis=0)).max() < 0.03


def test_a_plane_map_holds_the_pattern_row_by_row():
    spec = texture("marble", sharpness=0.0)
    picture = render_plane_texture(spec, 0.1)
    n = len(picture)
    assert picture.shape == (160, 160, 3)
    assert picture.dtype == np.uint8
    for row, column in ((0, 0), (3, 150), (120, 40)):
        spot = tuple(np.array([c]) for c in ((column + 0.5) / n * 0.1, (row + 0.5) / n * 0.1, 0.0))
        assert np.array_equal(picture[row, column], encode_srgb(make_color_sampler(spec)(spot))[0])


def test_plane_maps_are_bounded():
    assert render_plane_texture(texture("value"), 5.0).shape == (2048, 2048, 3)
    assert render_plane_texture(texture("value"), 0.001).shape == (16, 16, 3)


def test_srgb_is_that_of_the_standard():
    linear = np.array([-1.0, 0.0, 0.002, 0.0031308, 0.18, 0.21586, 0.5, 1.0, 7.0])
    assert encode_srgb(linear).tolist() == [0, 0, 7, 10, 118, 128, 188, 255, 255]
