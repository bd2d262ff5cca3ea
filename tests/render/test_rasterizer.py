"""What every rasterizer has to get right, and which one is chosen."""

import re
import subprocess
import sys
from dataclasses import replace

import cv2
import numpy as np
import pytest

from sim2cam.errors import BackendError
from sim2cam.render import egl as egl_module
from sim2cam.render import rasterizer as module
from sim2cam.render.tiny import TinyRasterizer


def rays_of(view):
    """Directions (h, w, 3) in the world whose depth is 1, and the camera's place."""
    x, y = np.meshgrid(np.arange(view.width), np.arange(view.height))
    x, y = (x - view.cx_px) / view.focal_px, (y - view.cy_px) / view.focal_px
    rays = np.stack([x, y, np.ones_like(x)], axis=-1)
    turned = view.pose.rotation().apply(rays.reshape(-1, 3)).reshape(rays.shape)
    return turned, np.array(view.pose.position_m)


def depth_to_sphere(view, centre, radius):
    """Depth (h, w) of the nearer hit, 0 where there is none."""
    rays, eye = rays_of(view)
    a, b = (rays**2).sum(-1), rays @ (eye - centre)
    left = b * b - a * (((eye - centre) ** 2).sum() - radius**2)
    return np.where(left > 0, (-b - np.sqrt(left.clip(0))) / a, 0)


def test_depth_and_ids_of_a_ball_on_the_ground_are_those_of_cast_rays(drawing, make):
    centre, radius = np.array([0.01, 0.02, 0.007]), 0.007
    view = make.view(make.camera((0.05, -0.2, 0.6), focal_px=1500.0, cx_px=140.0, cy_px=90.0))
    drawing.load(make.scene(make.body("ball", make.sphere(radius), tuple(centre))))
    labels = drawing.labels(view)
    ball = depth_to_sphere(view, centre, radius)
    rays, eye = rays_of(view)
    expected = np.where(ball > 0, ball, -eye[2] / rays[..., 2])
    mask = ball > 0
    assert (labels.ids[mask] == 1).mean() > 0.99
    assert ((labels.ids == 1) & mask).sum() / ((labels.ids == 1) | mask).sum() > 0.99
    away = cv2.erode(mask.astype(np.uint8), np.ones((9, 9))) > 0
    outside = cv2.dilate(mask.astype(np.uint8), np.ones((5, 5))) == 0
    assert away.sum() > 300
    error = np.abs(labels.depth_m / expected - 1)
    assert error[away].max() < 1e-4
    assert error[outside].max() < 1e-5


def test_depth_of_a_die_s_upper_face_is_analytic(drawing, make):
    view = make.view(make.camera((0.0, 0.001, 0.3), cx_px=200.3, cy_px=80.7, focal_px=900.0))
    drawing.load(make.scene(make.body("die", make.die(0.016), (0.005, -0.004, 0.008))))
    labels = drawing.labels(view)
    rays, eye = rays_of(view)
    face = (0.016 - eye[2]) / rays[..., 2]
    middle = cv2.erode((labels.ids == 1).astype(np.uint8), np.ones((15, 15))) > 0
    assert middle.sum() > 300
    assert np.abs(labels.depth_m / face - 1)[middle].max() < 1e-4


def test_a_small_body_lies_where_the_camera_projects_it(drawing, make):
    for cx, cy, spot in ((159.5, 119.5, (0.0, 0.0)), (60.0, 200.0, (0.05, 0.05))):
        of = make.camera(cx_px=cx, cy_px=cy)
        drawing.load(make.scene(make.body("ball", make.sphere(0.004), (*spot, 0.004))))
        rows, columns = np.nonzero(drawing.labels(make.view(of)).ids)
        centre = of.pose.inverse().apply(np.array([[*spot, 0.004]]))
        expected = of.lens.project(centre)[0]
        assert np.hypot(*(expected - [columns.mean(), rows.mean()])) < 0.25


def test_a_hidden_body_is_covered_but_not_seen(drawing, make):
    upper = make.body("upper", make.box((0.04, 0.04, 0.01)), (0.0, 0.0, 0.05))
    lower = make.body("lower", make.die(), (0.0, 0.0, 0.008))
    beside = make.body("beside", make.die(), (0.0265, 0.0, 0.008))
    drawing.load(make.scene(upper, lower, beside))
    labels = drawing.labels(make.view(make.camera((0.0, 0.001, 0.45))))
    whole = [(labels.cover[..., 0] >> np.uint32(bit)) & 1 > 0 for bit in range(3)]
    seen = [labels.ids == number for number in (1, 2, 3)]
    assert seen[0].sum() == whole[0].sum()
    assert seen[1].sum() == 0
    assert 150 < whole[1].sum() < 300  # (0.016 / 0.434 * 400)^2 is 217
    assert 0.3 < seen[2].sum() / whole[2].sum() < 0.9


def test_what_is_seen_is_covered(drawing, make):
    drawing.load(make.thrown(40))  # up to 1.2 m high
    labels = drawing.labels(make.view(make.camera((0.0, -1.2, 1.0), (0.0, 0.0, 0.9))))
    assert labels.cover.shape[-1] == 2
    assert (labels.ids > 32).any()
    number = labels.ids.astype(np.uint32)
    word = np.where(number > 32, labels.cover[..., 1], labels.cover[..., 0])
    bit = (word >> ((number - 1) % 32)) & 1
    assert (bit[number > 0] == 1).all()


def test_cover_is_little_more_than_what_is_seen_of_an_open_body(drawing, make):
    drawing.load(make.scene(make.body("die", make.die(), (0.0, 0.0, 0.008))))
    labels = drawing.labels(make.view(make.camera(focal_px=1500.0)))
    seen, whole = (labels.ids == 1).sum(), (labels.cover[..., 0] == 1).sum()
    assert seen > 1000
    assert seen <= whole <= 1.01 * seen


def test_nothing_lies_beyond_the_table(drawing, make):
    drawing.load(make.scene())
    view = make.view(make.camera((0.0, 0.0, 0.2), (0.0, 1.0, 0.3)))
    labels, radiance = drawing.labels(view), drawing.radiance(view)
    assert (labels.depth_m[0] == 0).all()
    assert (labels.depth_m[-1] > 0).all()
    assert not labels.cover.any()
    assert np.allclose(radiance[0], make.sky.horizon, atol=1e-3)


def test_two_drawings_have_equal_bytes(drawing, make):
    view = make.view(make.camera())
    drawn = []
    for other in (make.scene(), make.thrown(3, seed=1)):
        drawing.load(other)  # leaves no trace
        drawing.labels(view)
        drawing.load(make.thrown())
        labels = drawing.labels(view)
        parts = (drawing.radiance(view), labels.depth_m, labels.ids, labels.cover)
        drawn.append([part.tobytes() for part in parts])
    assert drawn[0] == drawn[1]


def test_colour_and_ids_agree_at_silhouettes(drawing, make):
    spots = [(0.0, 0.0), (0.05, 0.03), (-0.06, 0.05), (0.02, -0.06)]
    balls = [
        make.body(str(i), make.sphere(0.012), (*spot, 0.1), make.BLACK)
        for i, spot in enumerate(spots)
    ]
    drawing.load(make.scene(*balls))
    view = make.view(make.camera(focal_px=500.0))
    radiance, ids = drawing.radiance(view).mean(axis=-1), drawing.labels(view).ids
    dark = (radiance < radiance[ids == 0].max() * 0.25).astype(np.uint8)
    for number in range(1, 5):
        seen = (ids == number).astype(np.uint8)
        near = cv2.dilate(seen, np.ones((5, 5))) > 0
        assert np.abs(centroid(dark * near) - centroid(seen)).max() < 0.25


def centroid(mask):
    rows, columns = np.nonzero(mask)
    return np.array([columns.mean(), rows.mean()])


def test_edges_of_the_picture_are_anti_aliased(drawing, make):
    drawing.load(make.scene(make.body("ball", make.sphere(0.02), (0.0, 0.0, 0.1), make.BLACK)))
    level = drawing.radiance(make.view(make.camera())).mean(axis=-1)
    light, dark = np.median(level[:20]), level.min()
    between = (level > dark + 0.3 * (light - dark)) & (level < dark + 0.7 * (light - dark))
    assert between.sum() > 20


def test_an_open_table_has_the_radiance_of_its_light(drawing, make):
    drawing.load(make.scene())
    radiance = drawing.radiance(make.view(make.camera((0.0, 0.0, 0.5))))
    irradiance = np.pi * 0.5 + 0.8
    assert radiance.mean() == pytest.approx(0.3 * irradiance / np.pi, rel=0.06)


def test_a_body_casts_a_shadow(drawing, make):
    of = make.camera((0.0, 0.001, 0.5))
    dim = replace(make.sky, zenith=(0.1, 0.1, 0.1), horizon=(0.1, 0.1, 0.1))
    drawing.load(make.scene(environment=dim))
    before = drawing.radiance(make.view(of)).mean(axis=-1)
    plate = make.body("plate", make.box((0.08, 0.08, 0.002)), (0.0, 0.0, 0.02))
    drawing.load(make.scene(plate, environment=dim))
    after = drawing.radiance(make.view(of)).mean(axis=-1)
    # The lamp stands at (0, 0.6, 0.8): the shadow reaches to y = -0.04 - 0.02 * 0.6 / 0.8.
    spots = np.array([[0.0, -0.046, 0.0], [0.0, -0.07, 0.0]])
    (x, inner), (_, outer) = of.lens.project(of.pose.inverse().apply(spots)).round().astype(int)
    assert after[inner, x] < 0.5 * before[inner, x]
    assert after[outer, x] > 0.85 * before[outer, x]
    assert after[10, 10] == pytest.approx(before[10, 10], rel=0.02)


@pytest.mark.parametrize(("count", "words"), [(0, 1), (1, 1), (32, 1), (33, 2), (65, 3)])
def test_cover_has_a_bit_for_each_target(make, count, words):
    bodies = [make.body(str(i), make.die(), (0.0, 0.0, 1.0)) for i in range(count)]
    assert module.cover_words(make.scene(*bodies)) == words


def test_only_targets_are_numbered(make):
    bodies = [make.body(n, make.die(), (0.0, 0.0, 1.0), is_target=n != "b") for n in "abc"]
    assert module.label_numbers(make.scene(*bodies)) == {"a": 1, "c": 2}


choose = module.rasterizer.__wrapped__


def test_an_unknown_backend_is_refused(monkeypatch):
    monkeypatch.setenv("SIM2CAM_BACKEND", "tinny")
    message = "SIM2CAM_BACKEND=tinny: no such backend. Did you mean 'tiny'? Allowed: egl, tiny"
    with pytest.raises(BackendError, match=f"^{re.escape(message)}$"):
        choose()


def test_the_backend_asked_for_is_taken(monkeypatch):
    monkeypatch.setenv("SIM2CAM_BACKEND", "tiny")
    assert isinstance(choose(), TinyRasterizer)


class _NoDriver:
    def __init__(self):
        raise BackendError("no driver")


def test_without_opengl_pybullet_draws(monkeypatch):
    monkeypatch.delenv("SIM2CAM_BACKEND", raising=False)
    monkeypatch.setattr(egl_module, "EglRasterizer", _NoDriver)
    assert choose().name.startswith("tiny: ")


def test_opengl_that_was_asked_for_is_not_replaced(monkeypatch):
    monkeypatch.setenv("SIM2CAM_BACKEND", "egl")
    monkeypatch.setattr(egl_module, "EglRasterizer", _NoDriver)
    with pytest.raises(BackendError, match=r"^no driver$"):
        choose()


def test_the_cpu_rasterizer_touches_no_opengl():
    code = (
        "import sys, sim2cam.render.tiny\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('OpenGL', 'pyrender')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
