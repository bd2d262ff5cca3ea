"""Path-traced light with a rasterizer's labels, as a backend like any other."""

import re
import sys

import numpy as np
import pytest

from sim2cam.errors import BackendError
from sim2cam.render import renderer
from sim2cam.render.backends.mitsuba import SAMPLES_PER_PIXEL, PathTracedRasterizer
from sim2cam.render.renderer import Stage

choose = renderer.get_renderer.__wrapped__


@pytest.fixture(scope="module")
def small(make):
    return make.camera(width=64, height=48, focal_px=80.0, cx_px=31.5, cy_px=23.5)


def test_labels_are_those_of_the_rasterizer(pathtraced, tiny, make, small):
    scene = make.thrown()
    frames = []
    for drawing in (tiny, pathtraced):
        stage = Stage(scene, drawing)
        frames.append(stage.shoot(small, ("depth", "ids")))
    assert frames[0].objects == frames[1].objects
    for name in ("depth", "ids"):
        assert np.array_equal(frames[0].channels[name], frames[1].channels[name])
    assert frames[0].image != frames[1].image


def test_it_says_what_it_is_and_gives(pathtraced, tiny):
    assert re.match(
        r"mitsuba: 3\.\d+\.\d+ (scalar|llvm_ad)_rgb, 16 paths a pixel; labels by tiny: ",
        pathtraced.name,
    )
    assert pathtraced.channels == tiny.channels
    with pytest.raises(BackendError, match=r"has no channel normals\. Supported: bodies, cover, "):
        pathtraced.render(None, None, ("normals",))


def test_noise_follows_from_scene_and_view(pathtraced, make, small):
    def drawn(scene):
        stage = Stage(scene, pathtraced)
        return stage.render(make.view(small), ("radiance",))["radiance"]

    one, other = make.scene(), make.scene(make.body("die", make.die(), (9.0, 0.0, 0.008)))
    assert np.array_equal(drawn(one), drawn(one))
    assert not np.array_equal(drawn(one), drawn(other))  # the die is out of sight


def test_the_backend_can_be_asked_for(pathtraced, monkeypatch, egl):
    monkeypatch.setenv("SIM2CAM_BACKEND", "mitsuba")
    monkeypatch.setattr(renderer, "_create_first_available", lambda: egl)
    found = choose().rasterizer
    assert isinstance(found, PathTracedRasterizer)
    assert found.name.endswith(f"{SAMPLES_PER_PIXEL} paths a pixel; labels by {egl.name}")


def test_without_mitsuba_the_extra_is_named(monkeypatch, tiny):
    monkeypatch.setenv("SIM2CAM_BACKEND", "mitsuba")
    monkeypatch.setattr(renderer, "_create_first_available", lambda: tiny)
    monkeypatch.setitem(sys.modules, "mitsuba", None)
    message = 'path tracing needs Mitsuba. Run: pip install "sim2cam[reference]"'
    with pytest.raises(BackendError, match=f"^{re.escape(message)}$"):
        choose()
