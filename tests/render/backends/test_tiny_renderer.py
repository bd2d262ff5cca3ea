import sys
from dataclasses import replace

import numpy as np
import pytest

from sim2cam.data.environment import PYBULLET
from sim2cam.errors import BackendError
from sim2cam.objects.primitives import Cylinder
from sim2cam.render.backends.tiny_renderer import TinyRasterizer
from sim2cam.render.physics.simulation import simulate
from sim2cam.render.renderer import Stage
from sim2cam.scene.material import Material, Texture
from sim2cam.scene.scene import Scene


@pytest.fixture(scope="module")
def still(make):
    """A settled scene with shapes and textures of all kinds, and two cameras."""
    wood = Texture("wood", (0.3, 0.15, 0.05), (0.6, 0.4, 0.2), 0.03, 0.8, 0.2, 1)
    checker = Texture("checker", make.WHITE, make.BLACK, 0.006, 1.0, 0.9, 2)
    table, *dice = make.thrown(6, seed=3).bodies
    extra = [
        make.body("can", Cylinder(0.02, 0.03), (0.07, 0.03, 0.016), is_target=False),
        make.body("brick", make.box((0.03, 0.02, 0.02)), (-0.07, 0.05, 0.011), is_target=False),
    ]
    extra[1] = replace(extra[1], material=Material(checker, 0.5))
    bodies = (replace(table, material=Material(wood, 0.6)), *extra, *dice)
    cameras = (
        make.camera((0.1, -0.2, 0.35), k1=-0.15, p1=0.001, width=400, height=300),
        make.camera((0.0, -0.3, 0.2), focal_px=500.0, cx_px=140.0),
    )
    settled, certificate = simulate(Scene(bodies, make.sky, cameras))
    assert certificate.rejection is None
    return settled


def test_frames_agree_with_opengl(egl, tiny, still):
    for camera in still.cameras:
        frames = []
        for rasterizer in (egl, tiny):
            stage = Stage(still, rasterizer)
            frames.append(stage.shoot(camera, ("depth", "ids")))
        ours, theirs = frames[1].objects, frames[0].objects
        assert [o.instance_id for o in ours] == [o.instance_id for o in theirs]
        for a, b in zip(ours, theirs, strict=True):
            assert a.category == b.category
            assert np.abs(np.subtract(a.box_xyxy, b.box_xyxy)).max() <= 1.5
            assert np.abs(np.subtract(a.box_amodal_xyxy, b.box_amodal_xyxy)).max() <= 1.5
            assert a.visible_fraction == pytest.approx(b.visible_fraction, abs=0.02)
        assert (frames[0].channels["ids"] != frames[1].channels["ids"]).mean() < 0.001
        same = frames[0].channels["ids"] == frames[1].channels["ids"]
        error = np.abs(frames[1].channels["depth"] / frames[0].channels["depth"] - 1)[same]
        assert np.quantile(error, 0.999) < 1e-4


def test_colours_agree_with_opengl(egl, tiny, make, still):
    view = make.view(still.cameras[1])
    pictures = []
    for rasterizer in (egl, tiny):
        stage = Stage(still, rasterizer)
        pictures.append(stage.render(view, ("radiance",))["radiance"])
    theirs, ours = pictures
    assert np.allclose(ours.mean(axis=(0, 1)), theirs.mean(axis=(0, 1)), rtol=0.02)
    assert np.abs(ours - theirs).mean() < 0.05 * theirs.mean()


def test_it_says_what_it_is(tiny):
    assert tiny.name == "tiny: pybullet TinyRenderer, shaded by numpy"


def test_without_pybullet_the_cure_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pybullet", None)
    with pytest.raises(BackendError, match=rf"Run: pip install {PYBULLET}$"):
        TinyRasterizer()


def test_it_leaves_no_files_and_no_clients(tiny, make, tmp_path, monkeypatch):
    import tempfile

    import pybullet

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    tiny.load(make.thrown(2))
    before = sum(pybullet.isConnected(i) for i in range(100))
    for _ in range(3):
        tiny.load(make.thrown(2))
    assert sum(pybullet.isConnected(i) for i in range(100)) == before
    assert list(tmp_path.iterdir()) == []


def test_a_turned_table_is_seen_where_it_lies(tiny, make):
    tilted = make.body("slope", replace(make.ground().asset, side_m=1.0), (0.0, 0.0, 0.1),
                       is_target=False, is_fixed=True, rotation=(0.99, 0.141, 0.0, 0.0))  # fmt: skip
    view = make.view(make.camera((0.0, 0.0, 0.6), (0.0, 0.001, 0.0)))
    stage = Stage(Scene((tilted,), make.sky, ()), tiny)
    depth = make.labels(stage, view).depth_m
    assert depth[120, 160] == pytest.approx(0.5, rel=0.002)
    assert depth[0, 160] != pytest.approx(depth[-1, 160], rel=0.05)
