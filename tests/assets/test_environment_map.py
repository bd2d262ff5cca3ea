import hashlib
import re
from dataclasses import replace

import cv2
import numpy as np
import pytest

from sim2cam.assets import environment_map
from sim2cam.assets.image_folder import import_environment_maps
from sim2cam.errors import BackendError, InputError
from sim2cam.render.backends.emitters import render_sky_map
from sim2cam.render.backends.mitsuba import PathTracer
from sim2cam.render.lighting.beams import (
    compute_dome_powers,
    compute_ground_irradiance,
    compute_harmonic_irradiance,
    compute_sky_harmonics,
)
from sim2cam.render.lighting.microfacets import interpolate_split_sum
from sim2cam.render.renderer import Stage
from sim2cam.scene.image_file import ImageFile
from sim2cam.scene.light import Environment, EnvironmentMap

DARK = (0.0, 0.0, 0.0)
UP = np.array([[0.0, 0.0, 1.0]])
SUN = np.array([0.5, 0.3, 0.8]) / np.linalg.norm([0.5, 0.3, 0.8])


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A function that writes radiance (rows, 2 rows, 3) to a file and returns it as a sky."""
    folder = tmp_path_factory.mktemp("skies")

    def write(name, radiance, **options):
        path = folder / f"{name}.hdr"
        bgr = np.ascontiguousarray(radiance[..., ::-1], np.float32)
        path.write_bytes(cv2.imencode(".hdr", bgr)[1].tobytes())
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        return EnvironmentMap(ImageFile(str(path), digest), **options)

    return write


def lobe(towards, radius, rows=128):
    away = np.arccos(np.clip(environment_map.compute_texel_directions(rows) @ towards, -1, 1))
    return np.exp(-((away / radius) ** 2))[..., None]


@pytest.fixture(scope="module")
def room(store):
    """A grey room with a bluish ceiling, a broad window and a small strong lamp."""
    up = environment_map.compute_texel_directions(256)[..., 2:].clip(0)
    window = 3 * lobe(np.array([-0.8, 0.0, 0.6]), 0.25, 256)
    lamp = 800 * lobe(SUN, 0.03, 256) * np.array([1.0, 0.9, 0.7])
    return store("room", 0.3 + 0.4 * up * np.array([0.6, 0.8, 1.0]) + window + lamp)


def lit_by(picture, *lamps):
    return Environment(DARK, DARK, tuple(lamps), (), picture)


def test_directions_go_from_y_over_x_and_solid_angles_fill_the_sphere():
    towards = environment_map.compute_texel_directions(64)
    assert towards[31, 0] == pytest.approx([0.0, 1.0, 0.0], abs=0.05)
    assert towards[31, 32] == pytest.approx([1.0, 0.0, 0.0], abs=0.05)
    assert towards[0, :, 2].min() > 0.99
    assert 128 * environment_map.compute_solid_angles(64).sum() == pytest.approx(4 * np.pi)


def test_uniform_image_lights_like_uniform_sky(store):
    even = lit_by(store("even", np.full((64, 128, 3), 0.5)))
    plain = Environment((0.5,) * 3, (0.5,) * 3, ())
    assert compute_sky_harmonics(even) == pytest.approx(compute_sky_harmonics(plain), abs=5e-3)
    assert compute_dome_powers(even) == pytest.approx(compute_dome_powers(plain), rel=1e-3)
    assert compute_ground_irradiance(even) == pytest.approx(0.5 * np.pi, rel=1e-3)


def test_harmonics_hold_the_irradiance_of_a_soft_sky(store):
    """Against the integral over all texels, in every direction that the sky faces."""
    soft = 0.3 + 2 * lobe(np.array([-0.8, 0.0, 0.6]), 0.6)
    soft = soft * (environment_map.compute_texel_directions(128)[..., 2:] > 0)
    found = compute_sky_harmonics(lit_by(store("soft", np.repeat(soft, 3, axis=2))))
    towards = environment_map.compute_texel_directions(128).reshape(-1, 3)
    solid = np.repeat(environment_map.compute_solid_angles(128), 256)
    for normal in ([0.0, 0.0, 1.0], [-0.6, 0.0, 0.8], [0.6, 0.0, 0.8], [0.0, 0.8, 0.6]):
        exact = (soft.ravel() * solid * (towards @ normal).clip(0)).sum()
        sky = compute_harmonic_irradiance(found, np.array([normal]))[0]
        assert sky == pytest.approx(exact, rel=0.06)


@pytest.mark.parametrize("turn_rad", [0.0, 1.0, 4.0])
def test_rotated_sky_equals_rotated_viewer(room, turn_rad):
    found = compute_sky_harmonics(lit_by(replace(room, turn_rad=turn_rad)))
    still = compute_sky_harmonics(lit_by(room))
    normals = environment_map.compute_texel_directions(8)[:4].reshape(-1, 3)
    ahead = compute_harmonic_irradiance(
        found, environment_map.rotate_about_vertical(normals, turn_rad)
    )
    assert ahead == pytest.approx(compute_harmonic_irradiance(still, normals), rel=1e-6)


def test_blurring_leaves_an_even_sky_and_follows_the_lobe():
    rows, roughness = 64, 0.5
    even = environment_map.blur_by_roughness(
        np.full((rows, 2 * rows, 3), 0.7, np.float32), roughness
    )
    assert even == pytest.approx(0.7, rel=1e-4)
    spot = lobe(np.array([0.6, 0.0, 0.8]), 0.3, rows) * np.ones(3)
    found = environment_map.blur_by_roughness(spot.astype(np.float32), roughness)
    towards, solid = (
        environment_map.compute_texel_directions(rows).reshape(-1, 3),
        np.repeat(environment_map.compute_solid_angles(rows), 2 * rows),
    )
    for row, column in ((10, 20), (20, 32), (40, 100)):
        mirror = environment_map.compute_texel_directions(rows)[row, column]
        facet = mirror + towards
        facing = (facet @ mirror / np.maximum(np.linalg.norm(facet, axis=1), 1e-9)) ** 2
        density = 1 / (1 + facing * (roughness**4 - 1)) ** 2  # GGX, for an eye along the normal
        weight = density * (towards @ mirror).clip(0) * solid
        exact = (spot[..., 0].ravel() * weight).sum() / weight.sum()
        assert found[row, column, 0] == pytest.approx(exact, rel=1e-3, abs=1e-5)


def test_sun_is_extracted(room):
    radiance = environment_map.read_sky(room.file)
    sun = environment_map.extract_sun(radiance)
    assert np.degrees(np.arccos(np.clip(SUN @ sun.direction, -1, 1))) < 0.5
    assert sun.radius_rad == pytest.approx(0.03, rel=0.15)
    assert sun.irradiance == pytest.approx(800 * np.pi * 0.03**2 * np.array([1, 0.9, 0.7]), rel=0.1)
    whole, apart = (
        compute_ground_irradiance(lit_by(replace(room, is_sun_removed=a), *lamps))
        for a, lamps in ((False, ()), (True, (sun,)))
    )
    assert apart == pytest.approx(whole, rel=0.06)  # harmonics of the whole ring around the lamp


def test_a_sky_without_a_strong_spot_has_no_sun(store):
    window = 0.5 + 2 * lobe(np.array([-0.8, 0.0, 0.6]), 0.4) * np.ones(3)
    assert (
        environment_map.extract_sun(environment_map.read_sky(store("window", window).file)) is None
    )
    assert environment_map.extract_sun(np.zeros((16, 32, 3), np.float32)) is None


def test_path_tracer_gets_same_sky(room):
    turned = replace(room, turn_rad=0.7, radiance_scale=2.0)
    found = render_sky_map(lit_by(turned), 64)
    weight = (
        environment_map.compute_solid_angles(64)[:32, None]
        * environment_map.compute_texel_directions(64)[:32, :, 2]
    )
    irradiance = (found[:32] * weight[..., None]).sum(axis=(0, 1))
    assert irradiance == pytest.approx(compute_ground_irradiance(lit_by(turned)), rel=0.05)
    row, column = np.unravel_index(found[..., 0].argmax(), found.shape[:2])
    brightest = environment_map.compute_texel_directions(64)[row, column]
    assert brightest @ environment_map.rotate_about_vertical(SUN[None], 0.7)[0] > 0.995


# drawn


def spheres(make, environment):
    looks = [(0.05, 1.0), (0.3, 1.0), (0.3, 0.0), (0.8, 0.0)]
    bodies = [
        make.body(f"ball/{i}", make.sphere(0.03), (-0.12 + 0.08 * i, 0.0, 0.03)) for i in range(4)
    ]
    dressed = [
        replace(
            body, material=replace(body.material, roughness=rough, metallic=metal, specular=0.04)
        )
        for body, (rough, metal) in zip(bodies, looks, strict=True)
    ]
    return make.scene(*dressed, environment=environment)


def seen(make):
    lens = {"width": 96, "height": 48, "focal_px": 100.0, "cx_px": 47.5, "cy_px": 23.5}
    return make.view(make.camera((0.0, -0.35, 0.2), **lens))


def test_uniform_image_renders_like_uniform_sky(egl, make, store):
    drawn = []
    even = store("even", np.full((64, 128, 3), 0.5))
    for sky in (lit_by(even), Environment((0.5,) * 3, (0.5,) * 3, ())):
        stage = Stage(spheres(make, sky), egl)
        drawn.append(stage.render(seen(make), ("radiance",))["radiance"])
    assert drawn[0] == pytest.approx(drawn[1], rel=5e-3)


@pytest.mark.parametrize("roughness", [0.05, 0.5, 1.0])
def test_a_white_metal_keeps_nothing_but_what_its_facets_hide(egl, make, store, roughness):
    ball = make.body("ball", make.sphere(0.05), (0.0, 0.0, 0.5), (1.0, 1.0, 1.0))
    ball = replace(ball, material=replace(ball.material, roughness=roughness, metallic=1.0))
    white = replace(make.ground((1.0, 1.0, 1.0)), material=make.plain((1.0, 1.0, 1.0)))
    scene = make.scene(ball, environment=lit_by(store("white", np.ones((64, 128, 3)))))
    stage = Stage(replace(scene, bodies=(white, ball)), egl)
    lens = {"width": 48, "height": 48, "focal_px": 200.0, "cx_px": 23.5, "cy_px": 23.5}
    view = make.view(make.camera((0.0, -0.4, 0.6), (0.0, 0.0, 0.5), **lens))
    drawn = stage.render(view, ("radiance", "bodies"))
    on_ball = drawn["radiance"][drawn["bodies"] == 2]
    assert on_ball.max() < 1.02
    # microfacets that hide each other keep light that no second bounce sets free
    kept = np.sum(interpolate_split_sum(np.array([roughness]), np.array([1.0])))
    assert drawn["radiance"][24, 24] == pytest.approx(kept, rel=0.02)
    assert kept > 0.97 or roughness > 0.1


def test_camera_and_mirror_show_image(egl, make, store):
    towards = np.array([0.0, 0.8, 0.6])
    window = store("patch", 0.1 + 5 * lobe(towards, 0.3) * np.array([1.0, 0.2, 0.1]))
    stage = Stage(make.scene(environment=lit_by(replace(window, turn_rad=np.pi / 2))), egl)
    lens = {"width": 65, "height": 65, "focal_px": 60.0, "cx_px": 32.0, "cy_px": 32.0}
    target = environment_map.rotate_about_vertical(towards[None], np.pi / 2)[0]
    view = make.view(
        make.camera((0.0, 0.0, 0.3), tuple(target + np.array([0.0, 0.0, 0.3])), **lens)
    )
    sky = stage.render(view, ("radiance",))["radiance"]
    assert sky[32, 32] == pytest.approx([5.1, 1.1, 0.6], rel=0.02)
    assert np.unravel_index(sky[..., 0].argmax(), sky.shape[:2]) == pytest.approx((32, 32), abs=1)
    rays, _ = make.rays(view)
    rays /= np.linalg.norm(rays, axis=-1, keepdims=True)
    expected = 0.1 + 5 * np.exp(-((np.arccos((rays @ target).clip(-1, 1)) / 0.3) ** 2))
    high = rays[..., 2] > 0.05
    assert sky[..., 0][high] == pytest.approx(expected[high], abs=0.05)
    mirror = replace(make.plain((1.0, 1.0, 1.0), 0.02), metallic=1.0)
    floor = replace(make.ground(), material=mirror)
    stage = Stage(replace(make.scene(environment=lit_by(window)), bodies=(floor,)), egl)
    down = make.view(make.camera((0.0, -0.4, 0.3), **lens))
    assert stage.render(down, ("radiance",))["radiance"][32, 32] == pytest.approx(
        [5.1, 1.1, 0.6], rel=0.05
    )


def test_its_sun_casts_a_shadow_where_the_tracer_has_one(egl, make, room):
    pytest.importorskip("mitsuba", reason="the extra 'reference' is not installed")
    sun = environment_map.extract_sun(environment_map.read_sky(room.file))
    scene = spheres(make, lit_by(replace(room, is_sun_removed=True), sun))
    stage = Stage(scene, egl)
    drawn = stage.render(seen(make), ("radiance", "bodies"))
    traced = PathTracer(scene).trace(seen(make), samples_per_pixel=64, seed=0)
    table = drawn["bodies"] == 1
    ours, theirs = drawn["radiance"][table].mean(axis=1), traced[table].mean(axis=1)
    assert np.corrcoef(ours, theirs)[0, 1] > 0.85
    assert ours.mean() == pytest.approx(theirs.mean(), rel=0.08)
    for ball in range(2, 6):
        on_it = drawn["bodies"] == ball
        assert drawn["radiance"][on_it].mean() == pytest.approx(traced[on_it].mean(), rel=0.25)


def test_rasterizer_without_skies_raises(tiny, make, room):
    with pytest.raises(BackendError, match="does not support environment maps"):
        tiny.load(make.scene(environment=lit_by(room)))


# from a folder


def hdr(pixels):
    return cv2.imencode(".hdr", np.asarray(pixels, np.float32))[1].tobytes()


BAD = [
    ({"sky.hdr": hdr(np.ones((8, 12, 3)))}, "sky.hdr: is 12x8; an environment map must be twice as wide as high."),
    ({"sky.hdr": hdr(np.zeros((8, 16, 3)))}, "sky.hdr: is black above the horizon. Remove it from the folder."),
    ({"sky.hdr": hdr(np.ones((8, 16, 3)))[:60]}, "sky.hdr: damaged image. Copy the file again."),
    ({"sky.hdr": b"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n-Y 90000 +X 180000\n"}, "sky.hdr: 180000x90000: more than 64000000 pixels. Scale it down."),
    ({"sky.hdr": b"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n+Y 8 +X 16\n"}, "sky.hdr: not a Radiance image in top-down row order. Convert it."),
    ({"sky.png": b"nothing"}, "sky.png: not an image. Supported: JPEG, PNG, BMP, TIFF, WebP, PPM, TGA, JPEG 2000."),
    ({"sky.hdr": hdr(np.ones((8, 16, 3))), "sky.toml": b"licnece = 'x'"}, "sky.toml: unknown key 'licnece'. Did you mean 'licence'? Allowed: credit, licence, width_m"),
    ({"sky.psd": b""}, ": contains no image in a supported format (.hdr, .exr, .jpg, "),
]  # fmt: skip


@pytest.mark.parametrize(("files", "message"), BAD, ids=[message for _, message in BAD])
def test_invalid_sky_raises(tmp_path, capfd, files, message):
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=re.escape(message)):
        import_environment_maps(tmp_path)
    assert capfd.readouterr().err == ""  # of OpenCV's own


def test_changed_sky_raises(tmp_path):
    (tmp_path / "sky.hdr").write_bytes(hdr(np.ones((8, 16, 3))))
    (facts,) = import_environment_maps(tmp_path)
    assert facts.radiance == pytest.approx(1.0, rel=0.01)
    (tmp_path / "sky.hdr").write_bytes(hdr(2 * np.ones((8, 16, 3))))
    environment_map.read_sky.cache_clear()
    with pytest.raises(InputError, match="changed since it was imported"):
        environment_map.read_sky(facts.file)
