import math

import numpy as np
import pytest

from sim2cam.objects.die import Die, Pips
from sim2cam.objects.primitives import Cuboid, Cylinder, Ground, Sphere
from sim2cam.render.meshes.mesh import build_mesh, sample_surface_points

DIE = Die(0.016, 0.1, 0.5, Pips("round", 0.09, 0.25, 0.02, (0.0, 0.0, 0.0)), mirrored=True)
SOLIDS = [Cuboid((0.03, 0.02, 0.01)), Cylinder(0.02, 0.015), Sphere(0.02), DIE]
ALL = [*SOLIDS, Ground(2.0)]
KIND = {"ids": lambda asset: asset.kind}


def corners(mesh):
    return [mesh.vertices_m[mesh.faces[:, i]] for i in range(3)]


def volume(mesh):
    a, b, c = corners(mesh)
    return float((a * np.cross(b, c)).sum() / 6)


@pytest.mark.parametrize("asset", ALL, **KIND)
def test_normals_and_tangents_are_unit_vectors_across_each_other(asset):
    mesh = build_mesh(asset)
    assert np.allclose(np.linalg.norm(mesh.normals, axis=1), 1)
    assert np.allclose(np.linalg.norm(mesh.tangents, axis=1), 1)
    across = np.abs((mesh.normals * mesh.tangents).sum(axis=1))
    assert across.max() < (1e-9 if asset is not DIE else 0.9)  # shading makes these orthogonal


@pytest.mark.parametrize("asset", ALL, **KIND)
def test_triangles_run_counter_clockwise_round_their_normals(asset):
    mesh = build_mesh(asset)
    a, b, c = corners(mesh)
    across = np.cross(b - a, c - a)
    whole = np.linalg.norm(across, axis=1) > 1e-14
    for corner in range(3):
        along = (across * mesh.normals[mesh.faces[:, corner]]).sum(axis=1)
        assert (along[whole] > 0).all()


@pytest.mark.parametrize("asset", SOLIDS, **KIND)
def test_normals_of_solids_look_away_from_the_middle(asset):
    mesh = build_mesh(asset)
    assert ((mesh.normals * mesh.vertices_m).sum(axis=1) > -1e-12).all()


@pytest.mark.parametrize(
    ("asset", "expected", "tolerance"),
    [
        (SOLIDS[0], 0.03 * 0.02 * 0.01, 1e-9),
        (SOLIDS[1], math.pi * 0.02**2 * 0.015, 0.005),
        (SOLIDS[2], 4 / 3 * math.pi * 0.02**3, 0.015),
    ],
)
def test_volumes_are_those_of_the_shapes(asset, expected, tolerance):
    assert volume(build_mesh(asset)) == pytest.approx(expected, rel=tolerance)


@pytest.mark.parametrize("asset", SOLIDS, **KIND)
def test_solids_are_closed(asset):
    mesh = build_mesh(asset)
    _, one = np.unique(np.round(mesh.vertices_m * 1e7).astype(int), axis=0, return_inverse=True)
    joined = one.ravel()[mesh.faces]
    whole = joined[(joined != np.roll(joined, 1, axis=1)).all(axis=1)]
    edges = {tuple(e) for i, j in ((0, 1), (1, 2), (2, 0)) for e in whole[:, [i, j]]}
    assert edges == {(b, a) for a, b in edges}


@pytest.mark.parametrize("asset", ALL, **KIND)
def test_every_triangle_has_its_vertices(asset):
    mesh = build_mesh(asset)
    n = len(mesh.vertices_m)
    assert mesh.faces.min() == 0
    assert mesh.faces.max() < n
    assert mesh.normals.shape == mesh.tangents.shape == (n, 3)
    assert mesh.uvs.shape == (n, 2)


@pytest.mark.parametrize("asset", [*SOLIDS[:2], Ground(2.0)], **KIND)
def test_uvs_of_flat_and_rolled_faces_are_metres(asset):
    mesh = build_mesh(asset)
    for i, j in ((0, 1), (1, 2), (2, 0)):
        ends = mesh.faces[:, [i, j]]
        in_space = np.linalg.norm(np.diff(mesh.vertices_m[ends], axis=1)[:, 0], axis=1)
        in_picture = np.linalg.norm(np.diff(mesh.uvs[ends], axis=1)[:, 0], axis=1)
        assert np.allclose(in_space, in_picture, rtol=0.005)


@pytest.mark.parametrize("asset", ALL, **KIND)
def test_u_grows_along_the_tangent(asset):
    mesh = build_mesh(asset)
    for corner in range(3):
        here, there = mesh.faces[:, corner], mesh.faces[:, (corner + 1) % 3]
        du = (mesh.uvs[there] - mesh.uvs[here])[:, 0]
        step = mesh.vertices_m[there] - mesh.vertices_m[here]
        along = (step * mesh.tangents[here]).sum(axis=1)
        clear = (np.abs(du) > 1e-6) & (np.abs(along) > 1e-5)
        assert (np.sign(du[clear]) == np.sign(along[clear])).all()


def test_a_ground_has_its_side():
    mesh = build_mesh(Ground(2.0))
    assert np.ptp(mesh.vertices_m, axis=0).tolist() == [2.0, 2.0, 0.0]


@pytest.mark.parametrize("asset", SOLIDS, **KIND)
def test_points_of_a_surface_lie_on_it_evenly(asset):
    points = sample_surface_points(asset, 4000, np.random.default_rng(0))
    assert points.shape == (4000, 3)
    a, b, c = corners(build_mesh(asset))
    normals = np.cross(b - a, c - a)
    areas = np.linalg.norm(normals, axis=1) / 2
    mean = ((a + b + c) / 3 * areas[:, None]).sum(axis=0) / areas.sum()
    extent = np.ptp(build_mesh(asset).vertices_m, axis=0)
    assert np.abs((points.mean(axis=0) - mean) / extent).max() < 0.03
    for point in points[:20]:
        whole = areas > 1e-12
        off = np.abs(((point - a) * normals).sum(axis=1)[whole] / (2 * areas[whole]))
        assert off.min() < 1e-9


def test_points_of_a_surface_are_those_of_their_stream():
    first, again, other = (
        sample_surface_points(Sphere(0.02), 5, np.random.default_rng(seed)) for seed in (3, 3, 4)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
