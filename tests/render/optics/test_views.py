"""Which views a lens needs: enough of them, dense enough, and no more than that."""

from dataclasses import replace

import numpy as np
import pytest

from sim2cam.errors import LensError
from sim2cam.geometry.lens import BrownConrady, KannalaBrandt, RadialTable, Rational, ThinPrism
from sim2cam.geometry.poses import Pose
from sim2cam.render.optics.views import build_optics, find_unprojectable_corner

WIDTH, HEIGHT = 160, 120
MIDDLE = ((WIDTH - 1) / 2, (HEIGHT - 1) / 2)
ANGLES = np.linspace(0, 2.8, 40)
TABLE = RadialTable(*MIDDLE, tuple(ANGLES), tuple(90 * np.sin(ANGLES / 2) + 10 * ANGLES))
BENDING = {
    "aspect": BrownConrady(140.0, 144.0, *MIDDLE),
    "barrel": BrownConrady(140.0, 140.0, *MIDDLE, -0.2, 0.03, 1e-3, -1e-3),
    "pincushion": BrownConrady(140.0, 140.0, *MIDDLE, 0.15, 0.02, -1e-3, 1e-3),
    "rational": Rational(110.0, 111.0, *MIDDLE, 5.1, 2.1, 1e-4, -2e-4, 0.09, 5.4, 3.5, 0.5),
    "wide barrel": Rational(70.0, 70.0, *MIDDLE, 0.1, 0.01, k4=0.3, k5=0.02),
    "prism": ThinPrism(140.0, 142.0, *MIDDLE, -0.2, 0.03, s1=2e-3, s2=-1e-3, s3=-3e-3, s4=5e-4),
    "outside": BrownConrady(140.0, 140.0, -30.0, 140.0, -0.1, 0.03),
    "fisheye": KannalaBrandt(60.0, 60.0, *MIDDLE, -0.01, 0.002),
    "beyond": KannalaBrandt(35.0, 36.0, *MIDDLE),
    "table": TABLE,
}
FACES = {"wide barrel": 5, "fisheye": 5, "beyond": 6, "table": 5}
EVERY = pytest.mark.parametrize("name", BENDING)


def camera_with(make, lens):
    return replace(make.camera(width=WIDTH, height=HEIGHT), lens=lens)


@EVERY
def test_views_hold_every_pixel_and_look_where_it_looks(make, name):
    of = camera_with(make, BENDING[name])
    optics = build_optics(of)
    assert (optics.width, optics.height, optics.pinhole) == (WIDTH, HEIGHT, None)
    assert len(optics.patches) == FACES.get(name, 1)
    pixels = np.stack(np.meshgrid(np.arange(WIDTH), np.arange(HEIGHT)), -1).reshape(-1, 2)
    rays = of.lens.unproject(pixels.astype(float)) @ of.pose.matrix()[:3, :3].T
    times_shown = np.zeros(len(pixels), int)
    for face in optics.patches:
        times_shown[face.pixels] += 1
        for density in (1, 2):
            view, (x, y) = face.make_view(density, 2)
            assert view.focal_px == density * face.focal_px
            assert min(x.min(), y.min()) == pytest.approx(2, abs=1e-3)
            assert x.max() <= view.width - 3 + 1e-3
            assert y.max() <= view.height - 3 + 1e-3
            seen = np.stack([x - view.cx_px, y - view.cy_px, np.full_like(x, view.focal_px)])
            seen = view.pose.matrix()[:3, :3] @ (seen / np.linalg.norm(seen, axis=0))
            assert np.abs(seen.T - rays[face.pixels]).max() < 2e-6
    assert (times_shown == 1).all()


@EVERY
def test_every_pixel_holds_a_pixel_of_a_view_and_somewhere_no_more(make, name):
    of = camera_with(make, BENDING[name])
    step, narrowest = 0.01, []
    pixels = np.stack(np.meshgrid(np.arange(WIDTH), np.arange(HEIGHT)), -1).reshape(-1, 2)
    rays = [of.lens.unproject(pixels + off) for off in step * np.array([[0, 0], [1, 0], [0, 1]])]
    for face in build_optics(of).patches:
        seen = [(ray[face.pixels] @ face.to_camera) for ray in rays]
        here, right, below = (face.focal_px * ray[:, :2] / ray[:, 2:] for ray in seen)
        change = np.stack([right - here, below - here], axis=-1) / step
        narrowest.append(np.linalg.svd(change, compute_uv=False).min(axis=1).min())
    assert np.min(narrowest) > 0.97  # by differences of whole pixels, at the edge to one side
    assert np.max(narrowest) < 1.03


def test_vectors_of_a_view_turn_into_those_of_the_camera(make):
    of = camera_with(make, BENDING["beyond"])
    for face in build_optics(of).patches:
        to_world = of.pose.matrix()[:3, :3] @ face.to_camera
        assert face.pose.matrix()[:3, :3] == pytest.approx(to_world, abs=1e-12)
        assert face.pose.position_m == pytest.approx(of.pose.position_m)


@pytest.mark.parametrize("name", ["barrel", "pincushion", "outside"])
def test_one_view_along_the_axis_where_it_suffices(make, name):
    of = camera_with(make, BENDING[name])
    (face,) = build_optics(of).patches
    assert face.pose == of.pose
    assert np.array_equal(face.to_camera, np.eye(3))
    assert (face.depth_scale == 1).all()


def test_a_barrel_lens_needs_the_focal_length_of_its_middle(make):
    (face,) = build_optics(camera_with(make, BrownConrady(140.0, 140.0, *MIDDLE, -0.2))).patches
    assert face.focal_px == pytest.approx(140, rel=1e-3)


def test_a_pincushion_lens_needs_that_of_its_corner(make):
    lens = BrownConrady(140.0, 140.0, *MIDDLE, 0.2)
    x, y, z = lens.unproject(np.array([[0.0, 0.0]]))[0]
    (face,) = build_optics(camera_with(make, lens)).patches
    slope = 1 + 3 * 0.2 * (x * x + y * y) / z**2
    assert face.focal_px == pytest.approx(140 * slope, rel=0.01)


def test_views_stay_near_the_size_of_the_image(make):
    for name, times in {"barrel": 2, "rational": 3, "outside": 3, "fisheye": 4}.items():
        faces = build_optics(camera_with(make, BENDING[name])).patches
        assert sum(face.compute_area_px() for face in faces) < times * WIDTH * HEIGHT


def test_without_distortion_the_view_is_the_image(make):
    of = make.camera()
    optics = build_optics(of)
    assert (optics.pinhole, optics.patches) == (make.view(of), ())
    assert build_optics(replace(of, lens=Rational(400.0, 400.0, -20.0, 119.5))).pinhole is not None


def test_a_view_that_nothing_draws_is_refused(make):
    lens = KannalaBrandt(3000.0, 3000.0, 9300.0, MIDDLE[1])  # it looks 177 degrees off its axis
    (face, *_) = build_optics(camera_with(make, lens)).patches
    with pytest.raises(LensError) as caught:
        face.make_view(2, 2)
    assert str(caught.value).startswith("the lens needs an undistorted view of ")
    assert str(caught.value).endswith(" Use a smaller image or a narrower field of view.")


def test_a_lens_that_folds_back_in_the_image_is_reported(make):
    of = make.camera(focal_px=150.0)
    folding = replace(of, lens=replace(of.lens, k1=-0.3))
    assert find_unprojectable_corner(make.scene(cameras=[of])) is None
    problem = find_unprojectable_corner(make.scene(cameras=[of, folding]))
    assert problem.startswith("pixel (0.0, 0.0) is outside the domain of the lens: ")
    with pytest.raises(LensError, match=r"folds back 46\.5 degrees off the axis"):
        build_optics(folding)


@EVERY
def test_bands_of_rows_from_elsewhere_show_what_the_whole_image_does(make, name):
    of = camera_with(make, BENDING[name])
    there = replace(of, pose=Pose.look_at((0.1, 0.2, 0.3), (0.0, 0.0, 0.0), 0.7))
    whole, seen = build_optics(there), build_optics(of).with_pose(there.pose)
    spots = _spots(whole, 0)
    for first, last in ((0, 1), (37, 90), (90, HEIGHT)):
        band = seen.crop_rows(first, last)
        assert (band.width, band.height) == (WIDTH, last - first)
        assert np.abs(_spots(band, first)[first:last] - spots[first:last]).max() < 1e-9


def _spots(optics, first):
    """Returns, for each pixel (h, w) of rows from the first, the ray in the world that it looks along."""
    rays = np.full((HEIGHT, WIDTH, 3), np.nan)
    for face in optics.patches:
        ahead = np.concatenate([face.plane_points, np.ones((1, face.plane_points.shape[1]))])
        ahead = face.pose.matrix()[:3, :3] @ (ahead / np.linalg.norm(ahead, axis=0))
        rays[first : first + optics.height].reshape(-1, 3)[face.pixels] = ahead.T
    return rays


def test_bands_of_a_pinhole_are_its_rows(make):
    of = make.camera(width=WIDTH, height=HEIGHT)
    optics = build_optics(of)
    band = optics.crop_rows(30, 50).pinhole
    assert (band.width, band.height) == (WIDTH, 20)
    assert band.cy_px == optics.pinhole.cy_px - 30
    assert optics.crop_rows(0, HEIGHT) is optics
