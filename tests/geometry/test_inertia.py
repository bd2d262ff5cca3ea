import numpy as np
import pytest
import trimesh
from scipy.spatial.transform import Rotation

from sim2cam.geometry.inertia import (
    compute_center_of_mass,
    compute_point_pseudo_inertia,
    compute_principal_axes,
    compute_solid_pseudo_inertia,
    is_plausible_inertia,
    tensor_to_pseudo_inertia,
    transform_pseudo_inertia,
)
from sim2cam.geometry.poses import Pose, quaternion

TURNED = Pose(quaternion(Rotation.from_euler("xyz", (0.4, -1.1, 2.0))), (0.3, -0.2, 0.5))
SIDES = np.array([0.1, 0.2, 0.3])
OF_BOX = (0.13 / 12, 0.10 / 12, 0.05 / 12)


def inside(mesh):
    return compute_solid_pseudo_inertia(np.array(mesh.triangles))


def tensor_of(spread):
    around = spread[:3, :3] - spread[3, 3] * np.outer(
        compute_center_of_mass(spread), compute_center_of_mass(spread)
    )
    return np.trace(around) * np.eye(3) - around


@pytest.mark.parametrize("seed", range(3))
def test_solids_weigh_what_trimesh_says(seed):
    rng = np.random.default_rng(seed)
    solid = trimesh.convex.convex_hull(rng.normal(size=(30, 3)) + 2)
    spread = inside(solid)
    assert spread[3, 3] == pytest.approx(solid.volume)
    assert compute_center_of_mass(spread) == pytest.approx(solid.center_mass)
    assert tensor_of(spread) == pytest.approx(solid.moment_inertia, rel=1e-9, abs=1e-9)


def test_moments_of_an_ellipsoid_and_of_a_box_are_those_of_their_formulas():
    ball = trimesh.creation.icosphere(4)
    ball.apply_scale((0.03, 0.05, 0.02))
    frame, moments = compute_principal_axes(inside(ball))
    a, b, c = 0.03**2, 0.05**2, 0.02**2
    assert moments == pytest.approx(((b + c) / 5, (a + c) / 5, (a + b) / 5), rel=5e-3)
    assert frame.rotation_wxyz == (1.0, 0.0, 0.0, 0.0)
    frame, moments = compute_principal_axes(inside(trimesh.creation.box(SIDES)))
    assert moments == pytest.approx(OF_BOX, rel=1e-9)
    assert (frame.rotation_wxyz, np.abs(frame.position_m).max() < 1e-12) == (
        Pose().rotation_wxyz,
        True,
    )


def test_axes_are_found_however_a_thing_is_turned():
    """The frame takes a mass's own axes to where they are, whatever their order."""
    box = trimesh.creation.box(SIDES).apply_transform(TURNED.matrix())
    spread = inside(box)
    frame, moments = compute_principal_axes(spread)
    assert sorted(moments) == pytest.approx(sorted(OF_BOX))
    assert frame.position_m == pytest.approx(TURNED.position_m)
    straight = transform_pseudo_inertia(spread, frame.inverse().matrix())
    assert tensor_of(straight) == pytest.approx(spread[3, 3] * np.diag(moments), abs=1e-12)
    assert np.linalg.det(frame.rotation().as_matrix()) == pytest.approx(1)


def test_masses_add_up_about_parallel_axes():
    halves = [
        transform_pseudo_inertia(
            inside(trimesh.creation.box(SIDES / (1, 1, 2))), Pose(position_m=(0, 0, z)).matrix()
        )
        for z in (-0.075, 0.075)
    ]
    assert sum(halves) == pytest.approx(inside(trimesh.creation.box(SIDES)), abs=1e-15)
    # a rod of points, about its end
    rod = compute_point_pseudo_inertia(
        np.column_stack([np.linspace(0, 1, 10_001), np.zeros((10_001, 2))])
    )
    assert np.trace(rod[:3, :3]) == pytest.approx(1 / 3, rel=1e-3)


def test_a_tensor_comes_back_from_its_spread():
    tensor = Rotation.from_euler("xyz", (1, 2, 3)).as_matrix()
    tensor = 0.2 * tensor @ np.diag(OF_BOX) @ tensor.T
    spread = tensor_to_pseudo_inertia(0.2, tensor, TURNED)
    axes = TURNED.rotation().as_matrix()
    assert compute_center_of_mass(spread) == pytest.approx(TURNED.position_m)
    assert tensor_of(spread) == pytest.approx(axes @ tensor @ axes.T)


@pytest.mark.parametrize(
    ("moments", "center", "expected"),
    [
        (np.multiply(OF_BOX, 0.2), (0, 0, 0), True),
        (np.multiply(OF_BOX, 0.2 * 2.9), (0, 0, 0), True),  # nearly all of it in the corners
        (np.multiply(OF_BOX, 0.2 * 5.0), (0, 0, 0), False),  # beyond them
        (np.multiply(OF_BOX, 0.2 * 0.02), (0, 0, 0), True),  # a lump in the middle
        (np.multiply(OF_BOX, 0.2 * 1e-3), (0, 0, 0), False),
        (np.multiply(OF_BOX, 0.2 * 2.9), (0, 0, 0.12), False),  # off the middle there is less room
        (np.multiply(OF_BOX, 0.2 * 0.2), (0, 0, 0.1), True),
        (np.multiply(OF_BOX, 0.2 * 0.2), (0, 0, 0.2), False),  # outside
        ((1.0, 1.0, 1.0), (0, 0, 0), False),
        ((0.0, 0.0, 0.0), (0, 0, 0), False),
        ((1e-3, 1e-3, 3e-3), (0, 0, 0), False),  # more than the sum of the others
        ((1e-3, -1e-3, 1e-3), (0, 0, 0), False),
        ((1e300, 1e300, 1e300), (0, 0, 0), False),
    ],
)  # fmt: skip
def test_no_mass_is_wider_than_what_holds_it(moments, center, expected):
    box = trimesh.creation.box(SIDES).apply_transform(TURNED.matrix())
    place = TURNED @ Pose(position_m=center)
    spread = tensor_to_pseudo_inertia(0.2, np.diag(moments), place)
    assert is_plausible_inertia(spread, np.array(box.vertices), inside(box)) is expected
