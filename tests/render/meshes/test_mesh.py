import math

import numpy as np
import pytest
from solids import EXAMPLES, compute_volume

from sim2cam.objects.primitives import Ground, Sphere
from sim2cam.render.meshes.mesh import build_mesh, sample_surface_points

SOLIDS = [EXAMPLES[name] for name in ("box", "cylinder", "sphere", "mirrored die")]
ALL = [*SOLIDS, Ground(2.0)]
KIND = {"ids": lambda asset: asset.kind}


@pytest.mark.parametrize("asset", ALL, **KIND)
def test_tangents_are_across_normals_and_normals_of_solids_look_away_from_the_middle(asset):
    mesh = build_mesh(asset)
    across = np.abs((mesh.normals * mesh.tangents).sum(axis=1))
    assert across.max() < (0.9 if asset.kind == "die" else 1e-9)  # shading makes these orthogonal
    assert ((mesh.normals * mesh.vertices_m).sum(axis=1) > -1e-12).all()
    assert mesh.is_closed is (asset.kind != "ground")


@pytest.mark.parametrize(
    ("asset", "expected", "tolerance"),
    [
        (SOLIDS[0], 0.03 * 0.02 * 0.01, 1e-9),
        (SOLIDS[1], math.pi * 0.02**2 * 0.015, 0.005),
        (SOLIDS[2], 4 / 3 * math.pi * 0.02**3, 0.015),
    ],
)
def test_volumes_are_those_of_the_shapes(asset, expected, tolerance):
    assert compute_volume(build_mesh(asset)) == pytest.approx(expected, rel=tolerance)


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


@pytest.mark.parametrize("asset", SOLIDS, **KIND)
def test_points_of_a_surface_lie_on_it_evenly(asset):
    points = sample_surface_points(asset, 4000, np.random.default_rng(0))
    assert points.shape == (4000, 3)
    mesh = build_mesh(asset)
    a, b, c = mesh.vertices_m[mesh.faces].swapaxes(0, 1)
    normals = np.cross(b - a, c - a)
    areas = np.linalg.norm(normals, axis=1) / 2
    mean = ((a + b + c) / 3 * areas[:, None]).sum(axis=0) / areas.sum()
    extent = np.ptp(mesh.vertices_m, axis=0)
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
