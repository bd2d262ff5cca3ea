import re
import sys
from dataclasses import replace

import cv2
import numpy as np
import pytest

from sim2cam.errors import BackendError
from sim2cam.render.backends.emitters import render_sky_map
from sim2cam.render.backends.mitsuba import LLVM_VARIABLE, PathTracer
from sim2cam.render.lighting.beams import compute_ground_irradiance
from sim2cam.render.physics.simulation import simulate
from sim2cam.render.renderer import Stage
from sim2cam.scene.light import Environment, Lamp


@pytest.fixture(scope="module")
def mitsuba():
    pytest.importorskip("mitsuba", reason="the extra 'reference' is not installed")


def directions(rows):
    polar = (np.arange(rows) + 0.5) / rows * np.pi
    around = (np.arange(2 * rows) + 0.5) / rows * np.pi
    z, r = np.cos(polar)[:, None], np.sin(polar)[:, None]
    return np.stack(np.broadcast_arrays(r * np.sin(around), r * np.cos(around), z), axis=-1)


def test_the_sky_map_sheds_the_irradiance_of_the_environment():
    lamp = Lamp((0.0, 0.6, 0.8), 0.15, (2.0, 1.0, 0.5))
    sky = Environment((0.5, 0.6, 0.8), (0.3, 0.3, 0.3), (lamp,))
    rows = 256
    towards = directions(rows)
    solid_angle = np.sqrt(1 - towards[..., 2] ** 2) * (np.pi / rows) ** 2
    weight = solid_angle * towards[..., 2].clip(0)
    irradiance = (render_sky_map(sky, rows) * weight[..., None]).sum(axis=(0, 1))
    assert np.allclose(irradiance, compute_ground_irradiance(sky), rtol=0.03)


def test_the_sky_map_is_brightest_at_the_lamp():
    lamp = Lamp((0.6, 0.0, 0.8), 0.1, (1.0, 1.0, 1.0))
    found = render_sky_map(Environment((0.1,) * 3, (0.1,) * 3, (lamp,)), 128)
    row, column = np.unravel_index(found[..., 0].argmax(), found.shape[:2])
    assert directions(128)[row, column] @ lamp.direction > 0.999


def test_without_mitsuba_the_extra_is_named(monkeypatch, make):
    monkeypatch.setitem(sys.modules, "mitsuba", None)
    message = 'path tracing needs Mitsuba. Run: pip install "sim2cam[reference]"'
    with pytest.raises(BackendError, match=f"^{re.escape(message)}$"):
        PathTracer(make.scene())


@pytest.mark.usefixtures("mitsuba")
@pytest.mark.parametrize(
    ("version", "problem"),
    [(None, "='llvm.so' is not an LLVM library"), (15, ": LLVM 15 is too old")],
)
def test_an_llvm_that_does_not_serve_is_reported(monkeypatch, make, version, problem):
    import mitsuba

    def set_variant(name):
        if version is None:
            raise ImportError(f"{name} is not there")

    monkeypatch.setenv(LLVM_VARIABLE, "llvm.so")
    monkeypatch.setattr(mitsuba, "variant", lambda: None)
    monkeypatch.setattr(mitsuba, "set_variant", set_variant)
    monkeypatch.setattr("sim2cam.render.backends.mitsuba._get_llvm_version", lambda: version)
    message = (
        f"{LLVM_VARIABLE}{problem}. Use version 19 or later, or unset {LLVM_VARIABLE} to trace "
        "without LLVM (four times slower)."
    )
    with pytest.raises(BackendError, match=f"^{re.escape(message)}$"):
        PathTracer(make.scene())


@pytest.fixture(scope="module")
def still(make):
    settled, _ = simulate(make.thrown(4, seed=2))
    return settled


@pytest.fixture(scope="module")
def view(make):
    return make.view(
        make.camera((0.05, -0.12, 0.2), width=96, height=72, focal_px=110.0, cx_px=40.0, cy_px=41.0)
    )


@pytest.mark.usefixtures("mitsuba")
def test_rasterized_and_traced_light_agree(drawing, still, view, make):
    stage = Stage(still, drawing)
    ours = stage.render(view, ("radiance",))["radiance"]
    traced = PathTracer(still).trace(view, samples_per_pixel=64, seed=0)
    assert traced.shape == ours.shape
    assert traced.dtype == np.float32
    assert np.allclose(traced.mean(axis=(0, 1)) / ours.mean(axis=(0, 1)), 1, atol=0.15)
    ids = make.labels(stage, view).ids
    for body in range(1, 5):
        seen = ids == body
        assert np.allclose(traced[seen].mean(axis=0), ours[seen].mean(axis=0), rtol=0.3, atol=0.02)


@pytest.mark.usefixtures("mitsuba")
def test_straight_light_is_traced_as_it_is_rasterized(egl, make):
    # matt, at a roughness where Mitsuba's diffuse term is near Lambert's, over a table that is black:
    # rasterizers reckon with its light always
    matt = replace(make.plain(make.WHITE, 0.4), specular=0.0)
    black = replace(make.plain((0.0, 0.0, 0.0), 0.4), specular=0.0)
    bodies = [
        make.body("box", make.box((0.04, 0.03, 0.03)), (-0.03, 0.0, 0.015)),
        make.body("ball", make.sphere(0.02), (0.03, 0.01, 0.02)),
    ]
    scene = make.scene(*(replace(body, material=matt) for body in bodies))
    scene = replace(scene, bodies=(replace(scene.bodies[0], material=black), *scene.bodies[1:]))
    lens = {"width": 96, "height": 72, "focal_px": 200.0, "cx_px": 47.5, "cy_px": 35.5}
    of = make.view(make.camera((0.05, -0.12, 0.2), **lens))
    stage = Stage(scene, egl)
    drawn = stage.render(of, ("radiance", "bodies"))
    traced = PathTracer(scene, max_depth=2).trace(of, samples_per_pixel=144, seed=0)
    on_body = cv2.erode((drawn["bodies"] > 1).astype(np.uint8), np.ones((3, 3))) > 0
    assert on_body.sum() > 500
    error = np.abs(drawn["radiance"] / np.maximum(traced, 1e-6) - 1)[on_body]
    assert np.median(error) < 0.04
    assert np.quantile(error, 0.9) < 0.13  # shadows are softer than those of a few beams
    ratio = drawn["radiance"][on_body].mean() / traced[on_body].mean()
    assert ratio == pytest.approx(1, abs=0.04)


@pytest.mark.usefixtures("mitsuba")
def test_traced_bodies_lie_where_they_are_labelled(tiny, make, view):
    dark = [
        make.body("a", make.sphere(0.012), (0.04, 0.0, 0.012), make.BLACK),
        make.body("b", make.box((0.02, 0.02, 0.02)), (-0.03, 0.03, 0.01), make.BLACK),
    ]
    scene = make.scene(*dark)
    stage = Stage(scene, tiny)
    ids = make.labels(stage, view).ids
    level = PathTracer(scene).trace(view, samples_per_pixel=32, seed=0).mean(axis=-1)
    for number in (1, 2):
        near = np.zeros_like(ids, bool)
        rows, columns = np.nonzero(ids == number)
        near[rows.min() - 2 : rows.max() + 3, columns.min() - 2 : columns.max() + 3] = True
        found = near & (level < 0.3 * np.median(level))
        offset = np.argwhere(found).mean(axis=0) - [rows.mean(), columns.mean()]
        assert np.abs(offset).max() < 0.7


@pytest.mark.usefixtures("mitsuba")
def test_marks_are_where_the_rasterizer_has_them(tiny, make):
    # Face 2 up: two marks along one diagonal only.
    shown = make.die(0.03, color=make.WHITE)
    turned = (0.5**0.5, 0.5**0.5, 0.0, 0.0)
    scene = make.scene(make.body("die", shown, (0.0, 0.0, 0.015), make.BLACK, rotation=turned))
    close = make.view(make.camera((0.0, 0.001, 0.2), width=96, height=96, cx_px=47.5, cy_px=47.5))
    stage = Stage(scene, tiny)
    inside = make.labels(stage, close).ids == 1
    ours = stage.render(close, ("radiance",))["radiance"].mean(axis=-1)[inside]
    traced = PathTracer(scene).trace(close, samples_per_pixel=32, seed=0).mean(axis=-1)[inside]
    assert np.corrcoef(ours, traced)[0, 1] > 0.9


@pytest.mark.usefixtures("mitsuba")
def test_equal_seeds_give_equal_images_on_any_number_of_threads(still, view):
    import drjit

    tracer, small = PathTracer(still), replace(view, width=24, height=16)
    once = tracer.trace(small, samples_per_pixel=4, seed=1)
    assert not np.array_equal(tracer.trace(small, samples_per_pixel=4, seed=2), once)
    threads = drjit.thread_count()
    try:
        for count in (1, 3):
            drjit.set_thread_count(count)
            assert np.array_equal(tracer.trace(small, samples_per_pixel=4, seed=1), once)
    finally:
        drjit.set_thread_count(threads)


@pytest.mark.usefixtures("mitsuba")
def test_what_glows_shines_on_others(make):
    box = make.body("box", make.box((0.05, 0.05, 0.05)), (0.0, 0.0, 0.025))
    glowing = replace(box, material=replace(box.material, emission=2.0))
    dark = Environment((0.0,) * 3, (0.0,) * 3, ())
    lens = {"width": 64, "height": 8, "focal_px": 80.0, "cx_px": 31.5, "cy_px": 3.5}
    of = make.view(make.camera((0.0, 0.001, 0.5), **lens))
    traced = PathTracer(make.scene(glowing, environment=dark)).trace(
        of, samples_per_pixel=225, seed=0
    )
    color = np.array(box.material.texture.color_a)
    assert np.allclose(traced[2:6, 30:34], 2.0 * color, rtol=0.02, atol=1e-3)
    beside, away = traced[2:6, 20:24, 0].mean(), traced[2:6, :4, 0].mean()
    assert beside > 5 * away > 0
