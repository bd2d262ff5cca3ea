import math

import numpy as np
import pytest
from camera_databases import LENSES, LINEAR, POLY3, format_lens, format_lens_database

from sim2cam.data.camera_databases.lens_conversion import MAX_ERROR_PX, convert_lens
from sim2cam.data.camera_databases.lens_profiles import read_lens_profiles
from sim2cam.errors import InputError
from sim2cam.render.optics.lens_effects import apply_falloff

SIZES = [(640, 480), (480, 640), (640, 640), (1280, 600)]


def read(tmp_path, *lenses):
    path = tmp_path / "lenses.xml"
    path.write_text(format_lens_database(lenses))
    return read_lens_profiles((path,))


@pytest.fixture(params=range(len(LENSES)))
def profile(request, tmp_path):
    (profile,) = read(tmp_path, LENSES[request.param])
    return profile


def distort(profile, radius):
    """Return the distorted radius as Lensfun's documentation has it."""
    match profile.distortion, profile.distortion_terms:
        case "ptlens", (a, b, c):
            return a * radius**4 + b * radius**3 + c * radius**2 + (1 - a - b - c) * radius
        case "poly3", (k1,):
            return radius * (1 - k1 + k1 * radius**2)
        case "poly5", (k1, k2):
            return radius * (1 + k1 * radius**2 + k2 * radius**4)


@pytest.mark.parametrize("size", SIZES)
def test_points_are_projected_as_by_the_profile(profile, size):
    width, height = size
    lens = convert_lens(profile, profile.vignettings[0], *size).lens
    short, long = min(size), max(size)
    unit_px = max((short - 1) / 2, (long - 1) / 2 / profile.aspect)
    sensor_mm = math.hypot(36, 24) / profile.crop_factor
    short_side_mm = sensor_mm / math.hypot(profile.aspect, 1)
    rng = np.random.default_rng(0)
    directions = rng.uniform(-0.5, 0.5, (500, 2)) * [1, height / width]
    pixels = lens.project(np.column_stack([directions, np.ones(500)]))
    center = np.array([(width - 1) / 2, (height - 1) / 2])
    radius = np.hypot(*directions.T) * profile.focal_mm / (short_side_mm / 2)
    distorted_px = distort(profile, radius) * unit_px
    inside = (np.abs(pixels - center) <= center).all(axis=1)
    assert inside.sum() > 100
    errors = np.abs(np.hypot(*(pixels - center).T) - distorted_px)[inside]
    limit = MAX_ERROR_PX * unit_px / 240 if profile.distortion == "ptlens" else 1e-9
    assert errors.max() <= limit


def test_distortion_that_no_lens_fits_is_refused(tmp_path):
    folding, odd = read(
        tmp_path,
        format_lens("folds", 'model="ptlens" a="0" b="-0.6" c="0"'),
        format_lens("odd", 'model="ptlens" a="0.9" b="-2.5" c="1.9"'),
    )
    for profile in (folding, odd):
        assert convert_lens(profile, profile.vignettings[0], 640, 480) is None


def test_maker_is_named_once(tmp_path):
    first, second = read(
        tmp_path,
        format_lens("One 24", 'model="poly3" k1="0"'),
        format_lens("ACME Two 24", 'model="poly3" k1="0"'),
    )
    assert (first.model, second.model) == ("Acme One 24", "ACME Two 24")


def test_colour_fringes(tmp_path):
    linear, poly, curved = read(
        tmp_path,
        format_lens("a", 'model="poly3" k1="0"', tca=LINEAR),
        format_lens("b", 'model="poly3" k1="0"', tca=POLY3),
        format_lens("c", 'model="poly3" k1="0"', tca='model="poly3" br="0.004" vr="0.997"'),
    )
    fringes = convert_lens(linear, linear.vignettings[0], 640, 480).lateral_color
    assert (fringes.red, fringes.blue) == pytest.approx((0.0005, -0.0004))
    fringes = convert_lens(poly, poly.vignettings[0], 640, 480).lateral_color
    radii = np.linspace(0, 5 / 3, 50)
    for scale, terms in ((fringes.red, (1.0002, -5e-5)), (fringes.blue, (0.9999, 4e-5))):
        errors = radii * (1 + scale) - radii * (terms[0] + terms[1] * radii**2)
        assert np.abs(errors).max() * 240 <= MAX_ERROR_PX
    assert convert_lens(curved, curved.vignettings[0], 640, 480) is None


@pytest.mark.parametrize("size", SIZES)
def test_vignetting_has_its_radius_on_the_sensor(profile, size):
    vignetting = profile.vignettings[0]
    falloff = convert_lens(profile, vignetting, *size).falloff
    width, height = size
    light = apply_falloff(np.ones((height, width, 3), np.float32), falloff)
    y, x = np.mgrid[:height, :width]
    short_px = max(min(size) - 1, (max(size) - 1) / profile.aspect)
    radius = np.hypot(x - (width - 1) / 2, y - (height - 1) / 2) * 2
    radius /= short_px * math.hypot(profile.aspect, 1)
    k1, k2, k3 = vignetting.terms
    expected = 1 + k1 * radius**2 + k2 * radius**4 + k3 * radius**6
    np.testing.assert_allclose(light[..., 1], expected, atol=1e-5)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("<lensdatabase", "not XML"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><lensdatabase>&b;</lensdatabase>', "entities"),
        ("<other/>", "the root is <other>"),
        ('<lensdatabase version="2"/>', "version is '2'"),
        (format_lens_database((format_lens("a", 'model="poly3" k1="x"'),)), "k1 of <distortion>"),
        (format_lens_database((format_lens("a", 'model="poly3" k1="nan"'),)), "k1 of <distortion>"),
        (format_lens_database((format_lens("a", 'model="poly3" k1="0"', crop=0),)), "cropfactor"),
        (format_lens_database((format_lens("a", 'model="poly3" k1="0"', focal="x"),)), "focal of <"),
        (
            format_lens_database(
                (format_lens("a", "", extra="<aspect-ratio>3:0</aspect-ratio>")
                 .replace("<distortion ", '<distortion model="poly3" '),)
            ),
            "aspect-ratio",
        ),
        (format_lens_database((format_lens("a" * 300, 'model="poly3"'),)), "300|305"),
    ],
)  # fmt: skip
def test_broken_file_is_refused(tmp_path, text, problem):
    path = tmp_path / "lenses.xml"
    path.write_text(text)
    with pytest.raises(InputError, match=problem):
        read_lens_profiles((path,))


def test_huge_file_is_refused(tmp_path):
    path = tmp_path / "lenses.xml"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(InputError, match="more than"):
        read_lens_profiles((path,))
