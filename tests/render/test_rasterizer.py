"""What every rasterizer has to get right, and which one is chosen."""

import re
import subprocess
import sys
from dataclasses import replace

import cv2
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sim2cam.errors import BackendError
from sim2cam.geometry.boxes import compute_box_corners
from sim2cam.geometry.poses import Pose
from sim2cam.render import renderer as module
from sim2cam.render.backends.tiny_renderer import TinyRasterizer
from sim2cam.render.gbuffer import assign_label_ids, count_amodal_words
from sim2cam.render.renderer import Stage
from sim2cam.scene.light import AreaLight, Environment, PointLight, SpotLight


def test_depth_of_a_die_s_upper_face_is_analytic(drawing, make):
    view = make.view(make.camera((0.0, 0.001, 0.3), cx_px=200.3, cy_px=80.7, focal_px=900.0))
    stage = Stage(make.scene(make.body("die", make.die(0.016), (0.005, -0.004, 0.008))), drawing)
    labels = make.labels(stage, view)
    rays, eye = make.rays(view)
    face = (0.016 - eye[2]) / rays[..., 2]
    middle = cv2.erode((labels.ids == 1).astype(np.uint8), np.ones((15, 15))) > 0
    assert middle.sum() > 300
    assert np.abs(labels.depth_m / face - 1)[middle].max() < 1e-4


def test_a_small_body_lies_where_the_camera_projects_it(drawing, make):
    for cx, cy, spot in ((159.5, 119.5, (0.0, 0.0)), (60.0, 200.0, (0.05, 0.05))):
        of = make.camera(cx_px=cx, cy_px=cy)
        stage = Stage(make.scene(make.body("ball", make.sphere(0.004), (*spot, 0.004))), drawing)
        rows, columns = np.nonzero(make.labels(stage, make.view(of)).ids)
        centre = of.pose.inverse().apply(np.array([[*spot, 0.004]]))
        expected = of.lens.project(centre)[0]
        assert np.hypot(*(expected - [columns.mean(), rows.mean()])) < 0.25


def test_a_hidden_body_is_covered_but_not_seen(drawing, make):
    upper = make.body("upper", make.box((0.04, 0.04, 0.01)), (0.0, 0.0, 0.05))
    lower = make.body("lower", make.die(), (0.0, 0.0, 0.008))
    beside = make.body("beside", make.die(), (0.0265, 0.0, 0.008))
    stage = Stage(make.scene(upper, lower, beside), drawing)
    labels = make.labels(stage, make.view(make.camera((0.0, 0.001, 0.45))))
    whole = [(labels.cover[..., 0] >> np.uint32(bit)) & 1 > 0 for bit in range(3)]
    seen = [labels.ids == number for number in (1, 2, 3)]
    assert seen[0].sum() == whole[0].sum()
    assert seen[1].sum() == 0
    assert 150 < whole[1].sum() < 300  # (0.016 / 0.434 * 400)^2 is 217
    assert 0.3 < seen[2].sum() / whole[2].sum() < 0.9


def test_what_is_seen_is_covered(drawing, make):
    stage = Stage(make.thrown(40), drawing)  # up to 1.2 m high
    labels = make.labels(stage, make.view(make.camera((0.0, -1.2, 1.0), (0.0, 0.0, 0.9))))
    assert labels.cover.shape[-1] == 2
    assert (labels.ids > 32).any()
    number = labels.ids.astype(np.uint32)
    word = np.where(number > 32, labels.cover[..., 1], labels.cover[..., 0])
    bit = (word >> ((number - 1) % 32)) & 1
    assert (bit[number > 0] == 1).all()


def test_cover_is_little_more_than_what_is_seen_of_an_open_body(drawing, make):
    stage = Stage(make.scene(make.body("die", make.die(), (0.0, 0.0, 0.008))), drawing)
    labels = make.labels(stage, make.view(make.camera(focal_px=1500.0)))
    seen, whole = (labels.ids == 1).sum(), (labels.cover[..., 0] == 1).sum()
    assert seen > 1000
    assert seen <= whole <= 1.01 * seen


def test_nothing_lies_beyond_the_table(drawing, make):
    stage = Stage(make.scene(), drawing)
    view = make.view(make.camera((0.0, 0.0, 0.2), (0.0, 1.0, 0.3)))
    labels, radiance = make.labels(stage, view), stage.render(view, ("radiance",))["radiance"]
    assert (labels.depth_m[0] == 0).all()
    assert (labels.depth_m[-1] > 0).all()
    assert not labels.cover.any()
    assert np.allclose(radiance[0], make.sky.horizon, atol=1e-3)


def test_two_drawings_have_equal_bytes(drawing, make):
    view = make.view(make.camera())
    drawn = []
    for other in (make.scene(), make.thrown(3, seed=1)):
        stage = Stage(other, drawing)  # leaves no trace
        make.labels(stage, view)
        stage = Stage(make.thrown(), drawing)
        labels = make.labels(stage, view)
        parts = (
            stage.render(view, ("radiance",))["radiance"],
            labels.depth_m,
            labels.ids,
            labels.cover,
        )
        drawn.append([part.tobytes() for part in parts])
    assert drawn[0] == drawn[1]


def test_colour_and_ids_agree_at_silhouettes(drawing, make):
    spots = [(0.0, 0.0), (0.05, 0.03), (-0.06, 0.05), (0.02, -0.06)]
    balls = [
        make.body(str(i), make.sphere(0.012), (*spot, 0.1), make.BLACK)
        for i, spot in enumerate(spots)
    ]
    stage = Stage(make.scene(*balls), drawing)
    view = make.view(make.camera(focal_px=500.0))
    radiance, ids = (
        stage.render(view, ("radiance",))["radiance"].mean(axis=-1),
        make.labels(stage, view).ids,
    )
    dark = (radiance < radiance[ids == 0].max() * 0.25).astype(np.uint8)
    for number in range(1, 5):
        seen = (ids == number).astype(np.uint8)
        near = cv2.dilate(seen, np.ones((5, 5))) > 0
        assert np.abs(centroid(dark * near) - centroid(seen)).max() < 0.25


def centroid(mask):
    rows, columns = np.nonzero(mask)
    return np.array([columns.mean(), rows.mean()])


def test_edges_of_the_image_are_anti_aliased(drawing, make):
    stage = Stage(
        make.scene(make.body("ball", make.sphere(0.02), (0.0, 0.0, 0.1), make.BLACK)), drawing
    )
    level = stage.render(make.view(make.camera()), ("radiance",))["radiance"].mean(axis=-1)
    light, dark = np.median(level[:20]), level.min()
    between = (level > dark + 0.3 * (light - dark)) & (level < dark + 0.7 * (light - dark))
    assert between.sum() > 20


def test_an_open_table_has_the_radiance_of_its_light(drawing, make):
    stage = Stage(make.scene(), drawing)
    radiance = stage.render(make.view(make.camera((0.0, 0.0, 0.5))), ("radiance",))["radiance"]
    irradiance = np.pi * 0.5 + 0.8
    assert radiance.mean() == pytest.approx(0.3 * irradiance / np.pi, rel=0.06)


def test_what_glows_is_brighter_by_its_own_light(drawing, make):
    box, view = make.body("box", make.box((0.05, 0.05, 0.05)), (0.0, 0.0, 0.025)), None
    radiance = []
    for emission in (0.0, 2.0):
        body = replace(box, material=replace(box.material, emission=emission))
        stage = Stage(make.scene(body), drawing)
        view = make.view(make.camera((0.0, 0.001, 0.5)))
        radiance.append(stage.render(view, ("radiance",))["radiance"])
    color = np.array(box.material.texture.color_a)
    added = (radiance[1] - radiance[0])[view.height // 2, view.width // 2]
    assert added == pytest.approx(2.0 * color, rel=0.02)
    assert np.allclose(radiance[1][:5], radiance[0][:5])


def test_in_the_dark_only_what_glows_is_seen(drawing, make):
    box = make.body("box", make.box((0.05, 0.05, 0.05)), (0.0, 0.0, 0.025))
    lit = replace(box, material=replace(box.material, emission=2.0))
    black = (0.0, 0.0, 0.0)
    stage = Stage(make.scene(lit, environment=Environment(black, black, ())), drawing)
    view = make.view(make.camera((0.0, 0.001, 0.5)))
    radiance = stage.render(view, ("radiance",))["radiance"]
    color = np.array(box.material.texture.color_a)
    assert radiance[view.height // 2, view.width // 2] == pytest.approx(2.0 * color, rel=0.02)
    assert not radiance[:5].any()


def test_a_body_casts_a_shadow(drawing, make):
    of = make.camera((0.0, 0.001, 0.5))
    dim = replace(make.sky, zenith=(0.1, 0.1, 0.1), horizon=(0.1, 0.1, 0.1))
    stage = Stage(make.scene(environment=dim), drawing)
    before = stage.render(make.view(of), ("radiance",))["radiance"].mean(axis=-1)
    plate = make.body("plate", make.box((0.08, 0.08, 0.002)), (0.0, 0.0, 0.02))
    stage = Stage(make.scene(plate, environment=dim), drawing)
    after = stage.render(make.view(of), ("radiance",))["radiance"].mean(axis=-1)
    # The lamp stands at (0, 0.6, 0.8): the shadow reaches to y = -0.04 - 0.02 * 0.6 / 0.8.
    spots = np.array([[0.0, -0.046, 0.0], [0.0, -0.07, 0.0]])
    (x, inner), (_, outer) = of.lens.project(of.pose.inverse().apply(spots)).round().astype(int)
    assert after[inner, x] < 0.5 * before[inner, x]
    assert after[outer, x] > 0.85 * before[outer, x]
    assert after[10, 10] == pytest.approx(before[10, 10], rel=0.02)


def test_the_ground_s_normals_are_exact(egl, make):
    stage = Stage(make.scene(), egl)
    view = make.view(make.camera((0.05, -0.2, 0.6)))
    up = view.pose.inverse().rotation().apply((0.0, 0.0, 1.0))
    assert np.abs(stage.render(view, ("normals",))["normals"] - up).max() < 1e-6


def test_faces_thinner_than_a_pixel_have_no_depth_of_their_own(egl, make):
    """Seen edge-on, software rasterizers interpolate over them far beyond their corners."""
    rng = np.random.default_rng(0)
    corners = compute_box_corners((-0.02, -0.02, -0.04), (0.02, 0.02, 0.04))
    for _ in range(250):
        side = -(10 ** rng.uniform(-6.0, -3.5))  # metres from the eye's axis to the box's side
        of = make.camera((0.0, 0.001, 0.3), width=160, height=120, focal_px=500.0,
                         cx_px=79.5 + rng.uniform(-0.5, 0.5), cy_px=59.5)  # fmt: skip
        turn = rng.uniform(0, np.pi)
        x, y = np.array([np.cos(turn), np.sin(turn)]) * (side - 0.02)
        leaned = Rotation.from_rotvec((0, 0, turn)) * Rotation.from_rotvec(
            rng.normal(size=3) * 1e-3
        )
        qx, qy, qz, qw = (float(part) for part in leaned.as_quat())
        box = make.body("box", make.box((0.04, 0.04, 0.08)), (float(x), float(y) + 0.001, 0.06),
                        rotation=(qw, qx, qy, qz))  # fmt: skip
        stage = Stage(make.scene(box), egl)
        labels = make.labels(stage, make.view(of))
        reach = of.pose.inverse().apply(box.pose.apply(corners))[:, 2]
        depth = labels.depth_m[labels.ids == 1]
        assert reach.min() - 2e-4 < depth.min()
        assert depth.max() < reach.max() + 2e-4


def test_the_part_of_a_die_is_the_value_of_the_face(egl, make):
    turned = (0.5**0.5, 0.5**0.5, 0.0, 0.0)  # face 2 up
    stage = Stage(
        make.scene(make.body("die", make.die(0.03), (0.0, 0.0, 0.015), rotation=turned)), egl
    )
    drawn = stage.render(make.view(make.camera((0.0, 0.001, 0.3))), ("parts", "bodies"))
    values, counts = np.unique(drawn["parts"][drawn["bodies"] == 2], return_counts=True)
    assert values[counts.argmax()] == 2
    assert counts.max() > 0.8 * counts.sum()
    assert set(np.unique(drawn["parts"][drawn["bodies"] == 0])) <= {0}


def test_channels_do_not_depend_on_what_else_is_rendered(drawing, make):
    stage = Stage(make.thrown(), drawing)
    view = make.view(make.camera())
    together = drawing.render(stage.scene, view, drawing.channels, samples=1)
    assert together.keys() == drawing.channels
    for channel in drawing.channels:
        assert np.array_equal(
            drawing.render(stage.scene, view, (channel,), samples=1)[channel], together[channel]
        ), channel


def test_a_channel_that_a_rasterizer_lacks_is_refused(tiny, make):
    stage = Stage(make.scene(), tiny)
    message = (
        "the rasterizer 'tiny: pybullet TinyRenderer, shaded by numpy' has no channel normals. "
        "Supported: bodies, cover, depth_m, radiance."
    )
    with pytest.raises(BackendError, match=f"^{re.escape(message)}$"):
        stage.render(make.view(make.camera()), ("normals",))


def test_bodies_alike_are_rendered_apart(egl, make):
    spots = [(-0.03, 0.0, 0.008), (0.0, 0.0, 0.008), (0.03, 0.0, 0.008)]
    stage = Stage(
        make.scene(*(make.body(str(i), make.die(), spot) for i, spot in enumerate(spots))), egl
    )
    of = make.camera((0.0, 0.001, 0.3))
    labels = make.labels(stage, make.view(of))
    for number, spot in enumerate(spots, 1):
        place = of.lens.project(of.pose.inverse().apply(np.array([spot])))[0]
        assert np.abs(centroid(labels.ids == number) - place).max() < 1.5
        assert (labels.cover[labels.ids == number] == 1 << (number - 1)).all()


def test_each_open_stage_renders_its_own_scene(drawing, make):
    renderer, view = module.Renderer(drawing), make.view(make.camera())
    with renderer.open(make.thrown(3)) as first:
        ids = make.labels(first, view).ids
        with renderer.open(make.scene()) as second:
            assert make.labels(second, view).ids.max() == 0
            assert np.array_equal(make.labels(first, view).ids, ids)
            assert make.labels(second, view).ids.max() == 0
        assert np.array_equal(make.labels(first, view).ids, ids)
    assert drawing._loaded is None


def test_what_stays_on_the_device_is_rendered_as_if_it_were_new(egl, make):
    view, of = make.view(make.camera()), make.thrown(3, seed=1)
    stage = Stage(of, egl)
    first = stage.render(view, ("radiance", "normals"))
    for seed in range(30):  # more skins than are kept
        egl.load(make.thrown(2, seed=seed))
    again = stage.render(view, ("radiance", "normals"))
    assert all(np.array_equal(first[name], again[name]) for name in first)


DARK = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), ())
LIGHTS = {
    "point": PointLight((0.1, 0.0, 0.4), (1.0, 1.0, 1.0)),
    "ball": PointLight((0.1, 0.0, 0.4), (1.0, 1.0, 1.0), 0.02),
    "among": PointLight((0.06, 0.0, 0.03), (0.02, 0.02, 0.02)),
    "spot": SpotLight((0.0, 0.0, 0.5), (0.0, 0.0, -1.0), (1.0, 1.0, 1.0), 0.1, 0.2),
    "area": AreaLight(Pose((0.0, 1.0, 0.0, 0.0), (0.1, 0.0, 0.4)), 0.05, 0.05, (400.0,) * 3),
}


def irradiance_of(light, points):
    """Irradiance (n,) of level points (n, 3), by radiometry."""
    if isinstance(light, AreaLight):
        place, intensity = np.array(light.pose.position_m), light.radiance[0] * 0.0025
    else:
        place, intensity = np.array(light.position_m), light.intensity[0]
    to_light = place - points
    away = np.linalg.norm(to_light, axis=1)
    cosine = to_light[:, 2] / away
    if isinstance(light, AreaLight):
        intensity = intensity * cosine
    if isinstance(light, SpotLight):
        t = ((cosine - np.cos(0.2)) / (np.cos(0.1) - np.cos(0.2))).clip(0, 1)
        intensity = intensity * t * t * (3 - 2 * t)
    return intensity * cosine / away**2


@pytest.mark.parametrize("name", LIGHTS)
@pytest.mark.parametrize("backend", ["egl", "tiny", "pathtraced"])
def test_a_local_light_falls_off_as_radiometry_says_and_bodies_hide_it(
    request, backend, make, name
):
    drawing, light = request.getfixturevalue(backend), LIGHTS[name]
    high = 0.06 if name == "among" else 0.02
    plate = make.body("plate", make.box((0.03, 0.2, 0.002)), (0.0, 0.0, high), make.BLACK)
    # at this roughness Mitsuba's diffuse term, which is not Lambert's, neither gains nor loses
    matt = replace(make.ground(), material=replace(make.plain(make.GREY, 0.4), specular=0.0))
    scene = make.scene(plate, environment=Environment(*DARK, (light,)))
    stage = Stage(replace(scene, bodies=(matt, *scene.bodies[1:])), drawing)
    of = make.camera((0.0, 0.001, 0.6), focal_px=700.0)
    drawn = stage.render(make.view(of), ("radiance", "bodies", "depth_m"))
    ground = cv2.erode((drawn["bodies"] == 1).astype(np.uint8), np.ones((3, 3))) > 0
    rays, eye = make.rays(make.view(of))
    points = (eye + drawn["depth_m"][..., None] * rays)[ground]
    expected = 0.3 / np.pi * irradiance_of(light, points)
    ratio = drawn["radiance"][ground][:, 0] / np.maximum(expected, 1e-9)
    # the plate's shadow on the ground, from the light's middle
    place = np.array(light.pose.position_m if name == "area" else light.position_m)
    share = (high - points[:, 2]) / (place[2] - points[:, 2])
    crossing = points + share[:, None] * (place - points)
    away = np.abs(crossing[:, :2]) - [0.015, 0.1]
    hidden = (away < -0.006).all(axis=1) & (place[2] > high)
    open_to_it = (away > 0.006).any(axis=1) & (expected > 0.02 * expected.max())
    assert open_to_it.sum() > 3000
    assert np.quantile(np.abs(ratio[open_to_it] - 1), 0.99) < 0.06
    if hidden.any():
        assert np.median(ratio[hidden]) < 0.1


def test_samples_of_a_pixel_are_lit_as_its_middle_is(egl, make):
    places = [(0.03 * i + 0.01, 0.03 * j, 0.008) for i in (-1, 0, 1) for j in (-1, 0, 1)]
    light = PointLight((0.0, 0.0, 0.04), (0.003, 0.003, 0.003))
    dice = [make.body(str(place), make.die(), place) for place in places]
    stage = Stage(make.scene(*dice, environment=Environment(*DARK, (light,))), egl)
    of = make.view(make.camera((0.05, -0.16, 0.16)))
    four, one = (egl.render(stage.scene, of, ("radiance",), samples=n)["radiance"] for n in (4, 1))
    on_dice = stage.render(of, ("bodies",))["bodies"] > 1
    lit = on_dice & (one[..., 0] > 0.1 * one[on_dice, 0].max())
    assert lit.sum() > 1500
    assert np.quantile(np.abs(four / one - 1)[lit], 0.8) < 0.05
    assert four.mean() == pytest.approx(one.mean(), rel=0.01)


@pytest.mark.parametrize(("count", "words"), [(0, 1), (1, 1), (32, 1), (33, 2), (65, 3)])
def test_cover_has_a_bit_for_each_target(make, count, words):
    bodies = [make.body(str(i), make.die(), (0.0, 0.0, 1.0)) for i in range(count)]
    assert count_amodal_words(make.scene(*bodies)) == words


def test_only_targets_are_numbered(make):
    bodies = [make.body(n, make.die(), (0.0, 0.0, 1.0), is_target=n != "b") for n in "abc"]
    assert assign_label_ids(make.scene(*bodies)) == {"a": 1, "c": 2}


choose = module.get_renderer.__wrapped__


def test_an_unknown_backend_is_refused(monkeypatch):
    monkeypatch.setenv("SIM2CAM_BACKEND", "tinny")
    message = (
        "SIM2CAM_BACKEND=tinny: unknown backend. Did you mean 'tiny'? "
        "Allowed: egl, mitsuba, osmesa, tiny"
    )
    with pytest.raises(BackendError, match=f"^{re.escape(message)}$"):
        choose()


def test_the_backend_asked_for_is_taken(monkeypatch):
    monkeypatch.setenv("SIM2CAM_BACKEND", "tiny")
    assert isinstance(choose().rasterizer, TinyRasterizer)


class _NoDriver:
    def __init__(self, _):
        raise BackendError("no driver")


def test_without_opengl_pybullet_draws(monkeypatch):
    monkeypatch.delenv("SIM2CAM_BACKEND", raising=False)
    monkeypatch.setattr(module, "OpenGLRasterizer", _NoDriver)
    assert choose().name.startswith("tiny: ")


def test_opengl_that_was_asked_for_is_not_replaced(monkeypatch):
    monkeypatch.setenv("SIM2CAM_BACKEND", "egl")
    monkeypatch.setattr(module, "OpenGLRasterizer", _NoDriver)
    with pytest.raises(BackendError, match=r"^no driver$"):
        choose()


def test_the_cpu_rasterizer_touches_no_opengl():
    code = (
        "import sys, sim2cam.render.backends.tiny_renderer\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('OpenGL', 'pyrender')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
