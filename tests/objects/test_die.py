from dataclasses import replace

import cv2
import numpy as np
import pytest

from sim2cam.objects.die import (
    TILE_PX,
    Die,
    Pips,
    build_die_shadow_faces,
    build_die_surface,
    render_die_maps,
)
from sim2cam.scene.material import Texture
from sim2cam.surfaces.textures import encode_srgb

WHITE, BLACK = (0.8, 0.8, 0.8), (0.01, 0.01, 0.01)
PLAIN = Texture("plain", WHITE, WHITE, 0.01, 0.0, 0.0, 0)
DIE = Die(0.016, 0.12, 0.4, Pips("round", 0.09, 0.25, 0.03, BLACK), mirrored=False)
SHAPES = [
    DIE,
    replace(DIE, mirrored=True),
    replace(DIE, rounding=0.03, corner_cut=0.0),
    replace(DIE, rounding=0.2, corner_cut=0.9, edge_m=0.025),
]


def edges_of(vertices, faces):
    """Directed edges, with vertices at one place taken as one."""
    _, one = np.unique(np.round(vertices * 1e7).astype(int), axis=0, return_inverse=True)
    joined = one.ravel()[faces]
    whole = joined[(joined != np.roll(joined, 1, axis=1)).all(axis=1)]
    return [
        tuple(e) for e in np.concatenate([whole[:, [0, 1]], whole[:, [1, 2]], whole[:, [2, 0]]])
    ]


@pytest.mark.parametrize("die", SHAPES)
def test_the_surface_is_closed(die):
    vertices, _, _, _, faces, _ = build_die_surface(die)
    edges = edges_of(vertices, faces)
    assert len(set(edges)) == len(edges)
    assert set(edges) == {(b, a) for a, b in edges}


@pytest.mark.parametrize("die", SHAPES)
def test_faces_and_normals_look_outward(die):
    vertices, normals, _, _, faces, _ = build_die_surface(die)
    assert np.allclose(np.linalg.norm(normals, axis=1), 1)
    assert ((normals * vertices).sum(axis=1) > 0).all()
    a, b, c = (vertices[faces[:, i]] for i in range(3))
    across = np.cross(b - a, c - a)
    whole = np.linalg.norm(across, axis=1) > 1e-12
    assert (((across * (a + b + c)).sum(axis=1))[whole] > 0).all()
    assert (((across * normals[faces[:, 0]]).sum(axis=1))[whole] > 0).all()


@pytest.mark.parametrize("die", SHAPES)
def test_size_is_the_edge_and_volume_a_little_less_than_the_cube(die):
    vertices, _, _, _, faces, _ = build_die_surface(die)
    assert np.allclose(vertices.max(axis=0), die.edge_m / 2)
    assert np.allclose(vertices.min(axis=0), -die.edge_m / 2)
    a, b, c = (vertices[faces[:, i]] for i in range(3))
    volume = (a * np.cross(b, c)).sum() / 6
    assert 0.75 < volume / die.edge_m**3 < 1


def test_more_rounding_and_cut_take_away_more():
    def volume(**changes):
        vertices, _, _, _, faces, _ = build_die_surface(replace(DIE, **changes))
        a, b, c = (vertices[faces[:, i]] for i in range(3))
        return (a * np.cross(b, c)).sum() / 6

    assert volume(rounding=0.05) > volume(rounding=0.1) > volume(rounding=0.2)
    cuts = [volume(rounding=0.03, corner_cut=cut) for cut in (0.0, 0.5, 1.0)]
    assert cuts == sorted(cuts, reverse=True)
    assert len(set(cuts)) == 3


def tile(picture, value):
    row, column = divmod(int(value) - 1, 3)
    return picture[row * TILE_PX : (row + 1) * TILE_PX, column * TILE_PX : (column + 1) * TILE_PX]


def marks(colors, value):
    """How many dark spots a face has."""
    dark = (tile(colors, value).mean(axis=-1) < 120).astype(np.uint8)
    return cv2.connectedComponents(dark, connectivity=4)[0] - 1


@pytest.mark.parametrize("shape", ["round", "ring", "square"])
def test_a_face_has_as_many_marks_as_its_value(shape):
    die = replace(DIE, pips=replace(DIE.pips, shape=shape))
    colors, _ = render_die_maps(die, PLAIN)
    assert [marks(colors, value) for value in "123456"] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("mirrored", [False, True])
def test_the_mesh_wears_each_value_on_its_side(mirrored):
    die = replace(DIE, mirrored=mirrored)
    vertices, normals, _, uvs, _, values = build_die_surface(die)
    colors, _ = render_die_maps(die, PLAIN)
    height, width = colors.shape[:2]
    for value, normal in die.get_face_normals().items():
        flat = (normals @ normal > 0.999) & (vertices @ normal > 0.499 * die.edge_m)
        inner = flat & (np.abs(vertices).sum(axis=1) < 1.2 * die.edge_m)
        columns, rows = (uvs[inner] * [width, height]).T
        found = {
            str(int(r // TILE_PX) * 3 + int(c // TILE_PX) + 1)
            for r, c in zip(rows, columns, strict=True)
        }
        assert found == {value}
        assert set(values[flat]) == {int(value)}


def test_opposite_faces_sum_to_seven_and_the_chiralities_differ():
    turn = {}
    for mirrored in (False, True):
        faces = replace(DIE, mirrored=mirrored).get_face_normals()
        for value, normal in faces.items():
            assert np.allclose(np.add(normal, faces[str(7 - int(value))]), 0)
        turn[mirrored] = np.linalg.det([faces["1"], faces["2"], faces["3"]])
    assert turn[False] == -turn[True]


LAYOUTS = {  # a face's pips, by what makers vary: their radius, how far across and along they lie
    "plain": ({}, "123456", 0.09, {0.0, 0.25}, {0.0, 0.25}),
    "ace": ({"ace": 1.5}, "1", 0.135, {0.0}, {0.0}),
    "two": ({"two": 0.6}, "2", 0.09, {0.15}, {0.15}),
    "three": ({"three": 0.8}, "3", 0.09, {0.0, 0.2}, {0.0, 0.2}),
    "rows": ({"rows": 0.6}, "6", 0.09, {0.15}, {0.0, 0.25}),
    "others": (
        {"ace": 1.5, "two": 0.6, "three": 0.8, "rows": 0.6}, "45", 0.09, {0.0, 0.25}, {0.0, 0.25},
    ),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_marks_have_their_size_and_place(layout):
    changes, values, radius, across, along = LAYOUTS[layout]
    colors, _ = render_die_maps(replace(DIE, pips=replace(DIE.pips, **changes)), PLAIN)
    inner, found = TILE_PX - 6, []
    for value in values:
        dark = (tile(colors, value).mean(axis=-1) < 170).astype(
            np.uint8
        )  # half covered: linear 0.4
        _, _, stats, centres = cv2.connectedComponentsWithStats(dark, connectivity=4)
        areas = np.sort(stats[1:, cv2.CC_STAT_AREA])
        assert np.allclose(areas, np.pi * (radius * inner) ** 2, rtol=0.08)
        found.append(np.abs(centres[1:] - (TILE_PX - 1) / 2) / inner)
    for away, places in zip(np.concatenate(found).T, (across, along), strict=True):
        off = np.abs(away[:, None] - sorted(places))
        assert (off.min(axis=1) < 0.01).all()
        assert (off.min(axis=0) < 0.01).all()


def test_colours_of_body_and_marks_are_those_of_the_spec():
    colors, _ = render_die_maps(DIE, PLAIN)
    middle = tile(colors, "1")[TILE_PX // 2, TILE_PX // 2]
    assert middle.tolist() == encode_srgb(np.array(BLACK)).tolist()
    assert tile(colors, "1")[5, 5].tolist() == encode_srgb(np.array(WHITE)).tolist()


def test_marks_are_hollow():
    _, relief = render_die_maps(DIE, PLAIN)
    one = tile(relief, "1").astype(float) / 127.5 - 1
    middle, reach = TILE_PX // 2, int(0.05 * TILE_PX)
    assert one[middle, middle - reach, 0] > 0.05  # its left wall looks right
    assert one[middle, middle + reach, 0] < -0.05
    assert one[middle - reach, middle, 1] > 0.05
    assert np.allclose(one[5, 5], [0, 0, 1], atol=0.01)
    flat = render_die_maps(replace(DIE, pips=replace(DIE.pips, depth=0.0)), PLAIN)[1]
    assert np.allclose(flat, [128, 128, 255], atol=1)


def test_the_pattern_runs_on_over_the_edges():
    marbled = Texture("marble", BLACK, WHITE, 0.01, 1.0, 0.0, 3)
    colors, _ = render_die_maps(replace(DIE, pips=replace(DIE.pips, color=WHITE)), marbled)
    faces = DIE.get_face_normals()
    line = (np.arange(TILE_PX) + 0.5 - 3) / (TILE_PX - 6) * 2 - 1
    levels = {}
    for value, normal in faces.items():
        tangent = np.roll(np.abs(normal), 1)
        bitangent = np.cross(normal, tangent)
        for i in range(3, TILE_PX - 3):
            for row, column in ((3, i), (TILE_PX - 4, i), (i, 3), (i, TILE_PX - 4)):
                spot = np.array(normal) + line[column] * tangent + line[row] * bitangent
                key = tuple(np.round(spot * 10).astype(int))
                levels.setdefault(key, []).append(tile(colors, value)[row, column].astype(int))
    shared = [found for found in levels.values() if len(found) > 3]
    spread = [np.ptp(found, axis=0).max() for found in shared]
    assert len(shared) > 100
    assert np.median(spread) < 40


@pytest.mark.parametrize("changes", [{}, {"rounding": 0.3}, {"corner_cut": 1.0}])
def test_what_casts_the_shadow_is_hardly_smaller(changes):
    vertices, *_, faces, _ = build_die_surface(replace(DIE, **changes))
    whole, casting = (
        np.linalg.det(vertices[f]).sum() / 6 for f in (faces, build_die_shadow_faces())
    )
    assert 0.97 * whole < casting <= whole * (1 + 1e-9)
    assert len(build_die_shadow_faces()) < len(faces) / 2
