"""Twisty cubes: every facelet where it is, in its colour; layers that turn; solids that collide."""

import math

import numpy as np
import pytest
import trimesh

from sim2cam.objects.twisty import FACE_NORMALS, FACES, TwistyCube, make_scramble
from sim2cam.render.meshes.mesh import build_mesh, compute_extent
from sim2cam.render.meshes.texture_set import build_texture_set
from sim2cam.render.physics.colliders import build_collision_parts
from sim2cam.render.physics.simulation import simulate
from sim2cam.scene.symmetry import get_keypoints

LINEAR = {"U": 0.9, "R": 0.1, "F": 0.2, "D": 0.7, "L": 0.4, "B": 0.05}
COLORS = tuple((LINEAR[face], 0.3, 0.6) for face in FACES)


def cube(layers=3, turned_rad=0.0, sticker=0.9, turned="F"):
    moves = make_scramble(31415926535897932)
    return TwistyCube(0.057, layers, moves, turned, turned_rad, 0.1, sticker, 0.3, COLORS)


def body(make, asset, place=(0.0, 0.0, 0.03)):
    return make.body("twisty", asset, place, (0.01, 0.01, 0.01))


@pytest.mark.parametrize("layers", [2, 3])
@pytest.mark.parametrize("turned_rad", [0.0, 0.5])
def test_cubelets_are_closed(layers, turned_rad):
    mesh = build_mesh(cube(layers, turned_rad))
    places, one = np.unique(mesh.vertices_m.round(9), axis=0, return_inverse=True)
    whole = trimesh.Trimesh(places, one.ravel()[mesh.faces], process=False)
    cubelets = whole.split()
    assert len(cubelets) == layers**3 - (layers - 2) ** 3
    assert all(part.is_watertight for part in cubelets)
    assert sum(part.volume for part in cubelets) == pytest.approx(
        len(cubelets) * (0.057 / layers) ** 3, rel=0.05
    )


@pytest.mark.parametrize("layers", [2, 3])
@pytest.mark.parametrize("sticker", [0.9, 1.0])
def test_facelets_show_their_colors_where_they_are(make, layers, sticker):
    asset = cube(layers, sticker=sticker)
    mesh, skin = build_mesh(asset), build_texture_set(body(make, asset))
    height, width, _ = skin.colors.shape
    for number, color in enumerate(asset.compute_facelet_colors()):
        at = mesh.parts == number + 1
        face = FACES[number // layers**2]
        along = mesh.vertices_m[at] @ FACE_NORMALS[face]
        assert along.max() == pytest.approx(0.057 / 2)
        column, row = (mesh.uvs[at].mean(axis=0) * [width, height]).astype(int)
        shown = (skin.colors[row, column] / 255) ** 2.2
        assert shown == pytest.approx(COLORS[color], abs=0.02)
    assert set(mesh.parts) == set(range(1, 6 * layers**2 + 2))


def test_stickers_leave_the_rim_bare(make):
    for sticker, bare in ((0.8, True), (1.0, False)):
        tile = build_texture_set(body(make, cube(sticker=sticker))).colors[8:56, 8:56]
        assert (tile[0].max() < 40) == bare
        assert tile[24, 24].max() > 200


@pytest.mark.parametrize("turned_rad", [0.0, 0.3, -math.pi / 4])
@pytest.mark.parametrize("turned", FACES)
def test_keypoints_and_boxes_are_those_of_the_mesh(turned, turned_rad):
    asset = cube(turned_rad=turned_rad, turned=turned)
    mesh = build_mesh(asset)
    for point in get_keypoints(asset).values():
        assert np.linalg.norm(mesh.vertices_m - point, axis=1).min() < 1e-9
    low, high = compute_extent(asset)
    slack = 2 * 0.1 * asset.cubelet_m  # the mesh has round corners
    assert np.allclose(np.subtract(high, low), asset.size_m, atol=slack)
    assert (np.subtract(high, low) <= np.array(asset.size_m) + 1e-12).all()


def test_layers_collide_as_they_look():
    asset = cube(turned_rad=0.5, turned="L")
    parts = build_collision_parts(asset)
    assert sum(math.prod(part.shape.size_m) for part in parts) == pytest.approx(0.057**3)
    inside = np.zeros(len(build_mesh(asset).vertices_m), bool)
    for part in parts:
        local = part.pose.inverse().apply(build_mesh(asset).vertices_m)
        inside |= (np.abs(local) <= np.array(part.shape.size_m) / 2 + 1e-9).all(axis=1)
    assert inside.all()


@pytest.mark.parametrize("turned_rad", [0.0, 0.5])
def test_a_cube_comes_to_rest_on_a_face(make, turned_rad):
    scene = make.scene(body(make, cube(turned_rad=turned_rad, turned="U"), (0.0, 0.0, 0.03)))
    settled, certificate = simulate(scene)
    assert certificate.rejection is None
    assert settled.bodies[-1].pose.position_m[2] == pytest.approx(0.0285, abs=2e-4)


def test_the_category_tells_the_layers(make):
    assert [body(make, cube(layers)).get_category() for layers in (2, 3)] == ["2x2x2", "3x3x3"]
