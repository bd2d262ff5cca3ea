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


@pytest.mark.parametrize("family", TEXTURE_FAMILIES)
def test_colours_lie_between_the_two(family):
    share = (make_color_sampler(texture(family))(points()) - A) / np.subtract(B, A)
    assert share.min() >= -1e-9
    assert share.max() <= 1 + 1e-9
    assert np.allclose(share, share[..., :1])


@pytest.mark.parametrize("family", TEXTURE_FAMILIES)
def test_a_pattern_follows_from_its_spec_alone(family):
    there = points()
    assert np.array_equal(
        make_color_sampler(texture(family))(there),
        make_color_sampler(texture(family))(tuple(c.copy() for c in there)),
    )
    assert np.allclose(
        make_color_sampler(texture(family))(there)[:5],
        make_color_sampler(texture(family))(tuple(c[:5] for c in there)),
    )


@pytest.mark.parametrize("family", TEXTURE_FAMILIES)
def test_a_grid_is_painted_as_its_points_are(family):
    color_at = make_color_sampler(texture(family, sharpness=0.0))
    x, y, z = np.linspace(-0.1, 0.2, 30), np.linspace(0.3, 0.5, 20)[:, None], np.array([0.017])
    for grid in ((x, y, z), (y, z, x), (z, x, y)):
        scattered = tuple(c.ravel() for c in np.broadcast_arrays(*grid))
        assert np.allclose(color_at(grid).reshape(-1, 3), color_at(scattered))


@pytest.mark.parametrize("family", sorted(set(TEXTURE_FAMILIES) - {"plain"}))
def test_a_pattern_shows_both_colours(family):
    share = (
        (make_color_sampler(texture(family, sharpness=0.9))(points()) - A) / np.subtract(B, A)
    )[..., 0]
    assert share.min() < 0.1
    assert share.max() > 0.9


@pytest.mark.parametrize("family", sorted(set(TEXTURE_FAMILIES) - {"plain", "checker"}))
def test_another_seed_is_another_pattern(family):
    there = points()
    assert not np.allclose(
        make_color_sampler(texture(family))(there),
        make_color_sampler(texture(family, seed=6))(there),
    )


def test_plain_is_one_colour():
    assert np.allclose(make_color_sampler(texture("plain"))(points()), A)
    assert render_plane_texture(texture("plain"), 0.3).shape == (1, 1, 3)


@pytest.mark.parametrize("family", TEXTURE_FAMILIES)
def test_the_scale_is_that_of_the_features(family):
    there = points(span=0.03)
    small, large = texture(family, scale_m=0.01), texture(family, scale_m=0.03)
    assert np.allclose(
        make_color_sampler(small)(there),
        make_color_sampler(large)(tuple(3 * c for c in there)),
        atol=1e-6,
    )


@pytest.mark.parametrize("family", TEXTURE_FAMILIES)
def test_without_contrast_only_the_first_colour_shows(family):
    assert np.allclose(make_color_sampler(texture(family, contrast=0.0))(points()), A)


def test_sharpness_leaves_fewer_colours_between():
    def share_between(sharpness):
        share = (make_color_sampler(texture(sharpness=sharpness))(points()) - A) / np.subtract(B, A)
        return ((share > 0.05) & (share < 0.95)).mean()

    assert share_between(0.95) < 0.5 * share_between(0.0)


def test_noise_is_smooth():
    line = (np.linspace(0, 0.02, 2001), np.zeros(1), np.zeros(1))
    for family in ("value", "fbm", "marble", "worley"):
        level = make_color_sampler(texture(family, sharpness=0.0))(line)
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
