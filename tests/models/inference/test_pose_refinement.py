"""Outlines bring poses to where objects are seen, through any lens, and leave them where nothing tells."""

from __future__ import annotations

import numpy as np
import pytest
import trimesh
from scipy.spatial.transform import Rotation

from sim2cam.geometry.lens import BrownConrady, KannalaBrandt
from sim2cam.geometry.poses import Pose
from sim2cam.metrics.detection import Detection
from sim2cam.metrics.surface_discrepancy import rasterize_depth
from sim2cam.models.inference.detections import SurfacePoints
from sim2cam.models.inference.pose_refinement import _compute_jacobian, refine_pose
from sim2cam.models.inference.poses import estimate_pose

WIDTH, HEIGHT = 320, 240
LENSES = {
    "pinhole": BrownConrady(400.0, 405.0, 158.0, 121.0),
    "brown": BrownConrady(400.0, 400.0, 160.0, 120.0, -0.2, 0.05, 0.001, -0.002, 0.0),
    "fisheye": KannalaBrandt(200.0, 201.0, 159.0, 120.0, 0.01, -0.002),
}


def chair():
    """Triangles of three boxes, which look alike from no two sides, about 10 cm large."""
    sizes = [((0.06, 0.05, 0.02), (0, 0, 0)), ((0.06, 0.012, 0.07), (0, 0.02, 0.03)),
             ((0.014, 0.05, 0.05), (0.024, 0, -0.02))]  # fmt: skip
    boxes = [trimesh.creation.box(size).apply_translation(at) for size, at in sizes]
    return np.concatenate([box.triangles for box in boxes])


CHAIR = chair()
ANGLES = [(0.3, 0.4, 0.2), (1.2, -0.7, 2.0), (-0.8, 0.5, -1.4), (2.2, 0.3, 0.9)]


def truth(lens, angles, at_px=(150.0, 110.0), away_m=0.45):
    ray = lens.unproject(np.array([at_px]))[0]
    return Pose.from_matrix(
        np.block([
            [Rotation.from_euler("xyz", angles).as_matrix(), away_m * ray[:, None]],
            [np.zeros((1, 3)), 1],
        ])
    )  # fmt: skip


def mask_of(pose, lens, triangles=CHAIR):
    """Which pixels show the object: by a pinhole before it, whose pixels the lens's are looked up in."""
    ahead = Rotation.align_vectors([[0.0, 0, 1]], [pose.position_m])[0]
    turned = np.eye(4)
    turned[:3, :3] = ahead.as_matrix()
    matrix = np.array([[1500.0, 0, 600], [0, 1500, 600], [0, 0, 1]])
    drawn = rasterize_depth(triangles, turned @ pose.matrix(), matrix, 1201, 1201) > 0
    pixels = np.stack(np.meshgrid(np.arange(WIDTH), np.arange(HEIGHT)), -1).reshape(-1, 2)
    rays = ahead.apply(lens.unproject(pixels.astype(float)))
    seen = rays @ matrix.T
    at = np.round(seen[:, :2] / seen[:, 2:]).astype(int)
    inside = (rays[:, 2] > 0) & ((at >= 0) & (at <= 1200)).all(axis=1)
    mask = np.zeros(len(pixels), bool)
    mask[inside] = drawn[at[inside, 1], at[inside, 0]]
    return mask.reshape(HEIGHT, WIDTH)


def picture(mask, rng, colour=(190, 60, 50)):
    """An object of one colour before another, both noisy."""
    rgb = np.where(mask[..., None], colour, (110, 120, 130)) + rng.normal(0, 6, (*mask.shape, 3))
    return rgb.clip(0, 255).astype(np.uint8)


def surface_of(pose, lens, rng, mask, off_px=2.0, triangles=CHAIR):
    """Points of the surface that are seen where a mask says so, each some pixels beside its place."""
    mesh = trimesh.Trimesh(triangles.reshape(-1, 3), np.arange(triangles.size // 3).reshape(-1, 3))
    points = np.asarray(trimesh.sample.sample_surface(mesh, 3000, seed=1)[0])
    places = lens.project(pose.apply(points))
    at = np.round(places).astype(int).clip(0, (WIDTH - 1, HEIGHT - 1))
    depths = np.linalg.norm(pose.apply(points), axis=1)
    nearest = np.full(mask.shape, np.inf)
    np.minimum.at(nearest, (at[:, 1], at[:, 0]), depths)
    is_seen = mask[at[:, 1], at[:, 0]] & (depths < nearest[at[:, 1], at[:, 0]] + 0.004)
    chosen = rng.permutation(np.flatnonzero(is_seen))[:200]
    noisy = places[chosen] + 0.5 + rng.normal(0, off_px, (len(chosen), 2))
    return SurfacePoints(points[chosen], noisy, np.full(len(chosen), off_px))


def disturbed(pose, rng):
    """A pose that is turned by 5 degrees, 5 % further away and a little aside."""
    axis = rng.normal(size=3)
    turn = Rotation.from_rotvec(np.radians(5) * axis / np.linalg.norm(axis))
    matrix = pose.matrix()
    matrix[:3, :3] = turn.as_matrix() @ matrix[:3, :3]
    matrix[:3, 3] *= 1.05
    matrix[:2, 3] += rng.normal(0, 0.002, 2)
    return Pose.from_matrix(matrix)


def apart_m(first, second):
    """The mean distance of corners (ADD)."""
    corners = CHAIR.reshape(-1, 3)
    return np.linalg.norm(first.apply(corners) - second.apply(corners), axis=1).mean()


@pytest.mark.parametrize("name", sorted(LENSES))
def test_outlines_bring_poses_nearer(name):
    lens, rng = LENSES[name], np.random.default_rng(0)
    before, after = [], []
    for angles in ANGLES:
        pose = truth(lens, angles)
        mask = mask_of(pose, lens)
        assert 500 < mask.sum() < 9000
        start, surface = disturbed(pose, rng), surface_of(pose, lens, rng, mask)
        found = refine_pose(picture(mask, rng), lens, start, surface, CHAIR)
        before.append(apart_m(start, pose))
        after.append(apart_m(found, pose))
    assert np.min(before) > 0.02
    assert np.median(after) < 0.003
    assert np.max(after) < 0.5 * np.min(before)


def test_what_hides_an_object_does_not_pull_its_outline():
    lens, rng = LENSES["pinhole"], np.random.default_rng(1)
    after = []
    for angles in ANGLES:
        pose = truth(lens, angles)
        mask = mask_of(pose, lens)
        columns = np.flatnonzero(mask.any(axis=0))
        bar = np.zeros_like(mask)
        bar[:, columns[len(columns) * 2 // 3] :] = True  # in front of a third of it, and beside it
        rgb = picture(mask, rng)
        rgb[bar] = (60, 140, 60)
        surface = surface_of(pose, lens, rng, mask & ~bar)
        after.append(apart_m(refine_pose(rgb, lens, disturbed(pose, rng), surface, CHAIR), pose))
    assert np.median(after) < 0.004


def test_objects_that_the_picture_cuts_off_come_nearer_too():
    lens, rng = LENSES["pinhole"], np.random.default_rng(2)
    pose = truth(lens, ANGLES[1], at_px=(18.0, 120.0))
    mask = mask_of(pose, lens)
    assert mask[:, 0].any()
    start = disturbed(pose, rng)
    surface = surface_of(pose, lens, rng, mask)
    found = refine_pose(picture(mask, rng), lens, start, surface, CHAIR)
    assert apart_m(found, pose) < 0.5 * apart_m(start, pose)


def test_a_pose_stays_where_nothing_tells_another():
    lens, rng = LENSES["pinhole"], np.random.default_rng(3)
    pose = truth(lens, ANGLES[0])
    mask = mask_of(pose, lens)
    surface, rgb = surface_of(pose, lens, rng, mask), picture(mask, rng)
    none = SurfacePoints(*(values[:2] for values in vars(surface).values()))
    behind = Pose(pose.rotation_wxyz, (0.0, 0.0, -0.5))
    plain = np.full_like(rgb, 100)
    aside = Pose(pose.rotation_wxyz, (3.0, 0.0, 0.5))  # beyond the picture
    for case in ((plain, pose, surface), (rgb, pose, none), (rgb, behind, surface), (rgb, aside, surface)):  # fmt: skip
        assert refine_pose(case[0], lens, case[1], case[2], CHAIR) is case[1]


def test_points_hold_what_an_outline_leaves_open():
    """A ball looks the same however it is turned."""
    lens, rng = LENSES["pinhole"], np.random.default_rng(7)
    ball = trimesh.creation.icosphere(3, 0.04).triangles
    pose = truth(lens, ANGLES[0])
    mask = mask_of(pose, lens, ball)
    turned = Rotation.from_rotvec((0.1, -0.2, 0.1)) * pose.rotation()
    matrix = pose.matrix()
    matrix[:3, :3] = turned.as_matrix()
    matrix[:3, 3] *= 1.04
    surface = surface_of(pose, lens, rng, mask, triangles=ball)
    start = Pose.from_matrix(matrix)
    found = refine_pose(picture(mask, rng), lens, start, surface, ball)
    off_rad = (found.rotation().inv() * pose.rotation()).magnitude()
    assert off_rad < 0.05
    assert np.linalg.norm(np.subtract(found.position_m, pose.position_m)) < 0.004


@pytest.mark.parametrize("share", [0.02, 0.3, 3.0, 50.0, 1e4])
def test_poses_far_off_stay_poses(share):
    lens, rng = LENSES["pinhole"], np.random.default_rng(9)
    pose = truth(lens, ANGLES[0])
    mask = mask_of(pose, lens)
    start = Pose(pose.rotation_wxyz, tuple(share * x for x in pose.position_m))
    found = refine_pose(picture(mask, rng), lens, start, surface_of(pose, lens, rng, mask), CHAIR)
    assert np.isfinite(found.matrix()).all()
    assert found is start or (found.apply(CHAIR.reshape(-1, 3))[:, 2] > 0).all()


def test_the_better_fit_is_kept():
    """From the truth, a refined pose is no further away than outlines can tell."""
    lens, rng = LENSES["brown"], np.random.default_rng(4)
    for angles in ANGLES:
        pose = truth(lens, angles)
        mask = mask_of(pose, lens)
        found = refine_pose(
            picture(mask, rng), lens, pose, surface_of(pose, lens, rng, mask), CHAIR
        )
        assert apart_m(found, pose) < 0.006


def test_known_shapes_alone_are_refined():
    lens, rng = LENSES["pinhole"], np.random.default_rng(5)
    pose = truth(lens, ANGLES[0])
    mask = mask_of(pose, lens)
    surface, rgb = surface_of(pose, lens, rng, mask, off_px=4.0), picture(mask, rng)
    one = Detection("chair", (0, 0, 1, 1), 0.5)
    bare = estimate_pose(one, surface, rgb, lens)
    assert estimate_pose(one, surface, rgb, lens, {"table": CHAIR}).pose == bare.pose
    fitted = estimate_pose(one, surface, rgb, lens, {"chair": CHAIR})
    assert apart_m(fitted.pose, pose) < 0.5 * apart_m(bare.pose, pose)


def test_slopes_are_what_differences_say():
    rng = np.random.default_rng(6)
    points = rng.uniform(-0.05, 0.05, (5, 3))
    pose = truth(LENSES["pinhole"], ANGLES[2]).matrix()

    def seen(step):
        rotation = Rotation.from_rotvec(step[:3]).as_matrix() @ pose[:3, :3]
        moved = points @ rotation.T + pose[:3, 3] + step[3:]
        return moved, moved[:, :2] / moved[:, 2:]

    slopes = _compute_jacobian(seen(np.zeros(6))[0], pose)
    for axis, step in enumerate(1e-6 * np.eye(6)):
        differences = (seen(step)[1] - seen(-step)[1]) / (2 * step[axis])
        np.testing.assert_allclose(slopes[:, :, axis], differences, atol=1e-7)
