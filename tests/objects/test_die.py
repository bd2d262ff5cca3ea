import math
from dataclasses import replace

import cv2
import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from solids import EXAMPLES, compute_volume

from sim2cam.geometry.poses import Pose, quaternion
from sim2cam.objects.die import FACE_NORMALS, TILE_PX
from sim2cam.scene.material import Texture
from sim2cam.surfaces.textures import encode_srgb

WHITE, BLACK = (0.8, 0.8, 0.8), (0.01, 0.01, 0.01)
PLAIN = Texture("plain", WHITE, WHITE, 0.01, 0.0, 0.0, 0)
DIE = EXAMPLES["die"]


def test_more_rounding_and_cut_take_away_more():
    def volume(**changes):
        return compute_volume(replace(DIE, **changes).build_mesh())

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
    colors, _ = die.render_maps(PLAIN)
    assert [marks(colors, value) for value in "123456"] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("mirrored", [False, True])
def test_the_mesh_wears_each_value_on_its_side(mirrored):
    die = replace(DIE, mirrored=mirrored)
    mesh = die.build_mesh()
    vertices, normals, uvs = mesh.vertices_m, mesh.normals, mesh.uvs
    height, width = die.render_maps(PLAIN)[0].shape[:2]
    for value, normal in die.get_face_normals().items():
        flat = (normals @ normal > 0.999) & (vertices @ normal > 0.499 * die.edge_m)
        inner = flat & (np.abs(vertices).sum(axis=1) < 1.2 * die.edge_m)
        columns, rows = (uvs[inner] * [width, height]).T
        found = {
            str(int(r // TILE_PX) * 3 + int(c // TILE_PX) + 1)
            for r, c in zip(rows, columns, strict=True)
        }
        assert found == {value}
        assert set(mesh.parts[flat]) == {int(value)}


ORIENTATIONS = list(Rotation.create_group("O"))


def posed(rotation):
    return Pose(quaternion(rotation))


@pytest.mark.parametrize("mirrored", [False, True])
def test_upward_faces_are_named_in_all_orientations_and_opposites_sum_to_seven(mirrored):
    die = replace(DIE, mirrored=mirrored)
    over = Rotation.from_euler("x", 180, degrees=True)
    up = [die.find_upward_face(posed(rotation)) for rotation in ORIENTATIONS]
    down = [die.get_category(posed(over * rotation)) for rotation in ORIENTATIONS]
    assert sorted(value for value, _ in up) == sorted("123456" * 4)
    assert max(tilt for _, tilt in up) < 1e-6
    assert all(int(a) + int(b) == 7 for (a, _), b in zip(up, down, strict=True))


def test_known_faces_and_both_chiralities():
    assert DIE.get_face_normals() == FACE_NORMALS
    for axis, degrees, value, mirrored_value in (
        ("x", 0, "1", "1"),
        ("x", 90, "2", "2"),  # turns y up
        ("x", -90, "5", "5"),
        ("y", -90, "3", "4"),  # turns x up
        ("y", 90, "4", "3"),
    ):
        pose = posed(Rotation.from_euler(axis, degrees, degrees=True))
        assert DIE.get_category(pose) == value
        assert replace(DIE, mirrored=True).get_category(pose) == mirrored_value


@pytest.mark.parametrize("degrees", [0.0, 3.0, 20.0, 44.0])
def test_the_tilt_is_the_angle_off_the_vertical(degrees):
    pose = posed(Rotation.from_euler("xz", [degrees, 70], degrees=True))
    value, tilt = DIE.find_upward_face(pose)
    assert value == "1"
    assert math.degrees(tilt) == pytest.approx(degrees, abs=1e-5)
    assert DIE.compute_tilt_rad(pose) == tilt


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
    colors, _ = replace(DIE, pips=replace(DIE.pips, **changes)).render_maps(PLAIN)
    inner, found = TILE_PX - 6, []
    for value in values:
        dark = (tile(colors, value).mean(axis=-1) < 170).astype(
            np.uint8
        )  # linear 0.4: half covered
        _, _, stats, centres = cv2.connectedComponentsWithStats(dark, connectivity=4)
        areas = np.sort(stats[1:, cv2.CC_STAT_AREA])
        assert np.allclose(areas, np.pi * (radius * inner) ** 2, rtol=0.08)
        found.append(np.abs(centres[1:] - (TILE_PX - 1) / 2) / inner)
    for away, places in zip(np.concatenate(found).T, (across, along), strict=True):
        off = np.abs(away[:, None] - sorted(places))
        assert (off.min(axis=1) < 0.01).all()
        assert (off.min(axis=0) < 0.01).all()


def test_colours_of_body_and_marks_are_those_of_the_spec():
    colors, _ = DIE.render_maps(PLAIN)
    middle = tile(colors, "1")[TILE_PX // 2, TILE_PX // 2]
    assert middle.tolist() == encode_srgb(np.array(BLACK)).tolist()
    assert tile(colors, "1")[5, 5].tolist() == encode_srgb(np.array(WHITE)).tolist()


def test_marks_are_hollow():
    _, relief = DIE.render_maps(PLAIN)
    one = tile(relief, "1").astype(float) / 127.5 - 1
    middle, reach = TILE_PX // 2, int(0.05 * TILE_PX)
    assert one[middle, middle - reach, 0] > 0.05  # its left wall looks right
    assert one[middle, middle + reach, 0] < -0.05
    assert one[middle - reach, middle, 1] > 0.05
    assert np.allclose(one[5, 5], [0, 0, 1], atol=0.01)
    _, flat = replace(DIE, pips=replace(DIE.pips, depth=0.0)).render_maps(PLAIN)
    assert np.allclose(flat, [128, 128, 255], atol=1)


def test_the_pattern_runs_on_over_the_edges():
    marbled = Texture("marble", BLACK, WHITE, 0.01, 1.0, 0.0, 3)
    colors, _ = replace(DIE, pips=replace(DIE.pips, color=WHITE)).render_maps(marbled)
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
    mesh = replace(DIE, **changes).build_mesh()
    whole, shadow = (compute_volume(mesh, faces) for faces in (mesh.faces, mesh.shadow_faces))
    assert 0.97 * whole < shadow <= whole * (1 + 1e-9)
    assert len(mesh.shadow_faces) < len(mesh.faces) / 2
