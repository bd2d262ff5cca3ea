"""Converted lenses against the maps of Lensfun itself."""

import numpy as np
import pytest
from camera_databases import LENSES, format_lens_database

from sim2cam.data.camera_databases.lens_conversion import MAX_ERROR_PX, convert_lens
from sim2cam.data.camera_databases.lens_profiles import read_lens_profiles
from sim2cam.render.optics.lens_effects import apply_falloff

lensfunpy = pytest.importorskip("lensfunpy", reason="needs lensfunpy, of the extra dev")
WIDTH, HEIGHT = 640, 480


@pytest.fixture(params=range(len(LENSES)))
def pair(request, tmp_path):
    """Return a profile and Lensfun's modifier for images of the largest 4:3 part of its sensor."""
    text, path = format_lens_database((LENSES[request.param],)), tmp_path / "lenses.xml"
    path.write_text(text)
    (profile,) = read_lens_profiles((path,))
    database = lensfunpy.Database(xml=text, load_common=False, load_bundled=False)
    (lens,) = database.lenses
    crop = profile.crop_factor * np.hypot(profile.aspect, 1) / np.hypot(WIDTH - 1, HEIGHT - 1)
    modifier = lensfunpy.Modifier(lens, crop * (HEIGHT - 1), WIDTH, HEIGHT)
    return profile, modifier


def initialize(modifier, profile, flags, pixel_format=np.float32):
    vignetting = profile.vignettings[0]
    modifier.initialize(
        profile.focal_mm, vignetting.f_number, vignetting.distance_m, 1.0,
        pixel_format=pixel_format, flags=flags,
    )  # fmt: skip
    return convert_lens(profile, vignetting, WIDTH, HEIGHT)


def test_undistortion_map(pair):
    profile, modifier = pair
    lens = initialize(modifier, profile, lensfunpy.ModifyFlags.DISTORTION).lens
    # one by one: Lensfun's vector code mixes the radii of neighbouring pixels, up to 0.2 px here
    pixels = np.random.default_rng(0).integers([0, 0], [WIDTH, HEIGHT], (1000, 2))
    mapped = np.array(
        [modifier.apply_geometry_distortion(float(x), float(y), 1, 1)[0, 0] for x, y in pixels]
    )
    terms = profile.distortion_terms
    focal_px = lens.fx_px / (1 if profile.distortion == "poly5" else 1 - sum(terms))
    center = (WIDTH - 1) / 2, (HEIGHT - 1) / 2
    rays = np.column_stack([pixels - center, np.full(len(pixels), focal_px)])
    inside = ((mapped >= 0) & (mapped <= [WIDTH - 1, HEIGHT - 1])).all(axis=1)
    errors = np.abs(lens.project(rays[inside]) - mapped[inside])
    assert errors.max() <= (MAX_ERROR_PX if profile.distortion == "ptlens" else 0.005)  # 32-bit


def test_colour_fringes(pair):
    profile, modifier = pair
    fringes = initialize(modifier, profile, lensfunpy.ModifyFlags.TCA).lateral_color
    mapped = modifier.apply_subpixel_distortion()
    y, x = np.mgrid[:HEIGHT, :WIDTH] - np.array([(HEIGHT - 1) / 2, (WIDTH - 1) / 2])[:, None, None]
    for channel, scale in ((0, fringes.red), (2, fringes.blue)):
        shift = mapped[:, :, channel] - mapped[:, :, 1]
        errors = np.hypot(shift[..., 0] - scale * x, shift[..., 1] - scale * y)
        assert errors.max() <= MAX_ERROR_PX + 0.002


def test_vignetting(pair):
    profile, modifier = pair
    falloff = initialize(modifier, profile, lensfunpy.ModifyFlags.VIGNETTING).falloff
    light = apply_falloff(np.ones((HEIGHT, WIDTH, 3), np.float32), falloff)
    assert modifier.apply_color_modification(light)
    np.testing.assert_allclose(light, 1, atol=0.01)
