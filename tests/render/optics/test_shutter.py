"""Blur, skew and coverage against what speed, distance and exposure have them be."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim2cam.geometry.motion import Twist
from sim2cam.geometry.poses import Pose
from sim2cam.render.gbuffer import LABEL_CHANNELS
from sim2cam.render.optics import shutter
from sim2cam.render.optics.shutter import MAX_TIME_SLICES, expose
from sim2cam.render.renderer import Stage
from sim2cam.scene.camera import Shutter
from sim2cam.scene.light import Environment

FOCAL_PX, DEPTH_M, SPEED_M_S = 400.0, 0.398, 1.2
PX_S = FOCAL_PX * SPEED_M_S / DEPTH_M
NO_SHADOW = Environment((1.0, 1.0, 1.0), (1.0, 1.0, 1.0), ())
DOWN = Pose((0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 0.4))  # x is the world's x, y the world's -y


@pytest.fixture(scope="module")
def card(make):
    """A white card of 60 x 40 mm just above a black table, and a camera straight above it."""

    def build(velocity=(SPEED_M_S, 0.0, 0.0), spin=(0.0, 0.0, 0.0), at=(0.0, 0.0), **camera):
        body = make.body("card", make.box((0.06, 0.04, 0.002)), (*at, 0.001), make.WHITE,
                         velocity_m_s=velocity, spin_rad_s=spin)  # fmt: skip
        of = replace(make.camera(), pose=DOWN, **camera)
        scene = replace(make.scene(body), environment=NO_SHADOW)
        table = replace(scene.bodies[0], material=make.plain(make.BLACK))
        return replace(scene, bodies=(table, body), cameras=(of,)), of

    return build


def exposed(drawing, scene, of, **options):
    return expose(scene, of, drawing, LABEL_CHANNELS, **options)


def edge_px(profile):
    """Place and standard deviation, in pixels, of the rise of a profile from dark to bright."""
    rise = np.diff(profile).clip(0)
    x = np.arange(len(rise)) + 0.5
    mean = (rise * x).sum() / rise.sum()
    return mean, np.sqrt((rise * (x - mean) ** 2).sum() / rise.sum())


@pytest.mark.parametrize("exposure_s", [0.01, 0.02])
def test_the_blur_is_as_long_as_the_way(egl, card, exposure_s):
    scene, of = card(shutter=Shutter(exposure_s))
    light = exposed(egl, scene, of).radiance.mean(axis=-1)
    left = light[100:140, :160].mean(axis=0)
    _, spread = edge_px(left)
    pixel = 1 / 12  # variance of a pixel's own box, and of the difference's
    length = np.sqrt(12 * (spread**2 - pixel))
    assert length == pytest.approx(PX_S * exposure_s, rel=0.02)


def test_the_blur_keeps_the_light(egl, card):
    scene, of = card()
    sharp = exposed(egl, scene, of).radiance
    blurred = exposed(egl, scene, replace(of, shutter=Shutter(0.02))).radiance
    assert np.abs(blurred - sharp).max() > 0.2
    # but for what the table reflects of where the shadow goes
    assert blurred.mean() == pytest.approx(sharp.mean(), rel=4e-3)


def test_coverage_falls_evenly_over_the_way(egl, card):
    scene, of = card(shutter=Shutter(0.02))
    found = exposed(egl, scene, of, with_coverage=True)
    row, way = 120, PX_S * 0.02
    ids = found.ground_truth["bodies"][row] == 2
    left = int(np.argmax(ids))
    for inside in range(int(ids.sum() // 2)):
        expected = min(1.0, 0.5 + (inside + 0.5) / way)
        assert found.coverage[row, left + inside] == pytest.approx(expected, abs=1.5 / way)
    assert found.coverage[row, left - 1] == pytest.approx(0.5, abs=2 / way)  # of the table
    assert found.coverage[0, 0] == 1


@pytest.mark.parametrize("readout_s", [0.03, -0.03])
def test_rolling_rows_are_skewed(egl, card, readout_s):
    scene, of = card(shutter=Shutter(0.001, readout_s))
    found = exposed(egl, scene, of)
    rows = np.flatnonzero((found.ground_truth["bodies"] == 2).any(axis=1))[3:-3]
    slope = SPEED_M_S * FOCAL_PX / DEPTH_M * readout_s / of.height
    edges = np.argmax(found.ground_truth["bodies"][rows] == 2, axis=1) - 0.5
    assert np.polyfit(rows, edges, 1)[0] == pytest.approx(slope, rel=0.02)
    line = of.lens.cx_px - FOCAL_PX * 0.03 / DEPTH_M + PX_S * of.compute_row_times_s()[rows]
    assert np.abs(edges - line).max() < 0.5 + 0.13  # a pixel's rounding and half a band
    light = found.radiance.mean(axis=-1)
    places = [edge_px(light[row, :160])[0] for row in rows]
    assert np.polyfit(rows, places, 1)[0] == pytest.approx(slope, rel=0.02)


def test_a_camera_that_rolls_around_its_axis_blurs_along_circles(egl, card):
    spin, exposure_s = 2.0, 0.04
    still, of = card(velocity=(0.0, 0.0, 0.0), at=(0.08, 0.0))
    turning = replace(of, shutter=Shutter(exposure_s), twist=Twist(spin_rad_s=(0.0, 0.0, spin)))
    found = exposed(egl, still, turning, with_coverage=True)
    sharp = exposed(egl, still, of)
    assert np.array_equal(found.ground_truth["bodies"], sharp.ground_truth["bodies"])
    for column in (220, 240, 260):
        radius = column - of.lens.cx_px
        profile = found.radiance[:120, column].mean(axis=-1)
        length = np.sqrt(12 * (edge_px(profile)[1] ** 2 - 1 / 12))
        assert length == pytest.approx(radius * spin * exposure_s, rel=0.08)


def test_a_camera_that_pans_skews_by_its_angle(egl, card):
    spin, readout_s = 1.5, 0.05
    still, of = card(velocity=(0.0, 0.0, 0.0))
    down = DOWN.rotation().apply([0.0, 1.0, 0.0])
    panning = replace(
        of, shutter=Shutter(0.001, readout_s), twist=Twist(spin_rad_s=tuple(spin * down))
    )
    bodies = exposed(egl, still, panning).ground_truth["bodies"]
    rows = np.flatnonzero((bodies == 2).any(axis=1))[3:-3]
    edges = np.argmax(bodies[rows] == 2, axis=1) - 0.5
    angle = -np.arctan(0.03 / DEPTH_M) - spin * panning.compute_row_times_s()[rows]
    assert np.abs(edges - (of.lens.cx_px + FOCAL_PX * np.tan(angle))).max() < 0.7


@pytest.mark.parametrize("lens", [{}, {"k1": -0.1, "p1": 0.001}])
def test_a_still_scene_is_the_same_to_the_byte(drawing, make, lens):
    of = make.camera(width=96, height=64, focal_px=110.0, cy_px=31.5, **lens)
    scene = make.scene(make.body("die", make.die(0.05), (0.02, 0.0, 0.025)))
    stage = Stage(scene, drawing)
    channels = ("depth", "ids", "coverage")
    plain = stage.shoot(of, channels)
    for timing in (Shutter(0.05), Shutter(0.01, 0.05)):
        found = stage.shoot(replace(of, shutter=timing), channels)
        assert found.image == plain.image
        assert found.objects == plain.objects
        for name in channels:
            assert np.array_equal(found.channels[name], plain.channels[name])


def test_a_moving_camera_leaves_no_trace(drawing, make):
    of = make.camera(width=96, height=64, focal_px=110.0, cy_px=31.5, k1=-0.2, p1=0.002)
    scene = make.thrown(2)
    stage = Stage(scene, drawing)
    before = stage.shoot(of, ("depth", "ids"))
    rolling = replace(of, shutter=Shutter(0.004, 0.012), twist=Twist((-0.2, 0.0, 0.0)))
    blurred = stage.shoot(rolling, ("depth", "ids"))
    after = stage.shoot(of, ("depth", "ids"))
    assert after.image == before.image
    assert blurred.image != before.image
    assert not np.array_equal(blurred.channels["ids"], before.channels["ids"])


def test_a_body_s_shadow_moves_with_it(egl, make):
    ball = make.body("ball", make.sphere(0.01), (0.0, 0.0, 0.1), velocity_m_s=(1.0, 0.0, 0.0))
    of = replace(make.camera(), pose=DOWN)
    scene = make.scene(ball)
    edges = []
    for timing in (None, Shutter(0.02)):
        found = exposed(egl, scene, replace(of, shutter=timing))
        ground = (found.ground_truth["bodies"] == 1) & (np.arange(of.height) > 150)[:, None]
        edges.append(np.abs(np.diff(found.radiance.mean(axis=-1), axis=1))[ground[:, 1:]].max())
    assert edges[1] < 0.7 * edges[0]  # below the ball, where the lamp casts it


@given(
    exposure_s=st.floats(1e-4, 0.1),
    readout_s=st.floats(-0.1, 0.1),
    speed=st.floats(0, 1e5),
)
def test_slices_add_up_and_bands_hold_every_row_once(make, exposure_s, readout_s, speed):
    of = make.camera(width=16, height=24)
    of = replace(of, shutter=Shutter(exposure_s, readout_s))
    slices = shutter._make_time_slices(of, speed)
    total = np.zeros(of.height)
    middle = np.zeros(of.height)
    for moment in slices:
        total[moment.start_row : moment.stop_row] += moment.row_weights
        middle[moment.start_row : moment.stop_row] += moment.row_weights * moment.offset_s
    assert len(slices) <= MAX_TIME_SLICES
    assert np.allclose(total, 1, atol=1e-4)
    if len(slices) > 1:
        step = (exposure_s + np.ptp(of.compute_row_times_s())) / len(slices)
        assert np.abs(middle - of.compute_row_times_s()).max() <= step * 0.51
    rows = [
        row
        for band in shutter._make_row_bands(of, speed)
        for row in range(band.start_row, band.stop_row)
    ]
    assert rows == list(range(of.height))


def test_even_the_fastest_is_rendered_in_bounded_time(make):
    caster = make.caster(((0.0, 0.0, 0.1), 0.02), ((0.0, 0.0, 0.0), (0.0, 0.0, 1.0)))
    draws = []

    class Counter:
        def render(self, _scene, view, channels):
            draws.append(channels)
            found = caster.render(view, channels)
            return {**found, "radiance": np.ones((*found["bodies"].shape, 3), np.float32)}

    of = replace(make.camera(width=64, height=48), pose=DOWN, shutter=Shutter(0.1))
    scene = replace(caster.scene, bodies=tuple(
        replace(body, velocity_m_s=(50.0, 0.0, 0.0)) for body in caster.scene.bodies
    ))  # fmt: skip
    found = expose(scene, of, Counter(), LABEL_CHANNELS)
    assert sum("radiance" in channels for channels in draws) == MAX_TIME_SLICES
    assert np.allclose(found.radiance, 1)
