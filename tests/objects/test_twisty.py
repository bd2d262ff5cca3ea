"""Twisty cubes: moves as on the toy, facelets in their colours, layers that turn."""

import itertools
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from solids import COLORS, compute_volume, twisty

from sim2cam.errors import SpecError
from sim2cam.objects.twisty import (
    CORNERS,
    FACE_NORMALS,
    FACES,
    MOVES,
    N_SCRAMBLES,
    SCRAMBLE_MOVES,
    apply_moves,
    compute_facelet_positions,
    make_scramble,
)
from sim2cam.render.meshes.texture_set import build_texture_set
from sim2cam.render.physics.simulation import simulate

LAYERS = (2, 3)


def letters(moves, layers=3):
    return "".join(FACES[color] for color in apply_moves(moves.split(), layers))


def body(make, asset, place=(0.0, 0.0, 0.03)):
    return make.body("twisty", asset, place, (0.01, 0.01, 0.01))


@pytest.mark.parametrize("layers", [2, 3])
@pytest.mark.parametrize("sticker", [0.9, 1.0])
def test_facelets_show_their_colors_where_they_are(make, layers, sticker):
    asset = twisty(layers, sticker=sticker)
    mesh, skin = asset.build_mesh(), build_texture_set(body(make, asset))
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
    cubelets = layers**3 - (layers - 2) ** 3
    assert compute_volume(mesh) == pytest.approx(cubelets * asset.cubelet_m**3, rel=0.05)


def test_stickers_leave_the_rim_bare(make):
    for sticker, bare in ((0.8, True), (1.0, False)):
        tile = build_texture_set(body(make, twisty(sticker=sticker))).colors[8:56, 8:56]
        assert (tile[0].max() < 40) == bare
        assert tile[24, 24].max() > 200


@pytest.mark.parametrize("turned_rad", [0.0, 0.3, -math.pi / 4])
@pytest.mark.parametrize("turned", FACES)
def test_keypoints_and_boxes_are_those_of_the_mesh(turned, turned_rad):
    cube = twisty(turned=turned, turned_rad=turned_rad)
    vertices = cube.build_mesh().vertices_m
    for point in cube.get_keypoints().values():
        assert np.linalg.norm(vertices - point, axis=1).min() < 1e-9
    size = np.ptp(vertices, axis=0)
    assert np.allclose(size, cube.size_m, atol=0.2 * cube.cubelet_m)  # corners are round
    assert (size <= np.array(cube.size_m) + 1e-12).all()
    parts = cube.build_collider()
    assert sum(math.prod(part.size_m) for part in parts) == pytest.approx(0.057**3)


@pytest.mark.parametrize("turned_rad", [0.0, 0.5])
def test_a_cube_comes_to_rest_on_a_face(make, turned_rad):
    scene = make.scene(body(make, twisty(turned="U", turned_rad=turned_rad), (0.0, 0.0, 0.03)))
    settled, certificate = simulate(scene)
    assert certificate.rejection is None
    assert settled.bodies[-1].pose.position_m[2] == pytest.approx(0.0285, abs=2e-4)


def test_the_category_tells_the_layers(make):
    assert [body(make, twisty(layers)).get_category() for layers in (2, 3)] == ["2x2x2", "3x3x3"]


@pytest.mark.parametrize("layers", LAYERS)
def test_moves_are_a_group(layers):
    mixed = make_scramble(123456789)
    before = apply_moves(mixed, layers)
    for face in FACES:
        for back_and_forth in (
            [face, f"{face}'"],
            [face] * 4,
            [f"{face}2"] * 2,
            [f"{face}2", face, face],
        ):
            assert (apply_moves([*mixed, *back_and_forth], layers) == before).all()
    for one, other in ("UD", "RL", "FB"):
        swapped = apply_moves([*mixed, other, one], layers)
        assert (apply_moves([*mixed, one, other], layers) == swapped).all()
    assert not (apply_moves(["R", "U"], layers) == apply_moves(["U", "R"], layers)).all()


@pytest.mark.parametrize(
    ("moves", "turns"), [("R U R' U'", 6), ("R U", 105), ("R U2 D' B D'", 1260)]
)
def test_orders_are_those_known_of_the_toy(moves, turns):
    sequence, solved = moves.split(), apply_moves([], 3)
    assert (apply_moves(sequence * turns, 3) == solved).all()
    for prime in (2, 3, 5, 7):
        if turns % prime == 0 and turns * len(sequence) <= 1e4:
            assert not (apply_moves(sequence * (turns // prime), 3) == solved).all()


@pytest.mark.parametrize("layers", LAYERS)
def test_no_move_makes_or_loses_a_color(layers):
    for number in (0, 1, 12345, N_SCRAMBLES - 1):
        assert (np.bincount(apply_moves(make_scramble(number), layers)) == layers**2).all()


def test_centres_stay_and_corners_keep_their_three_colors():
    places = compute_facelet_positions(3)
    found = apply_moves(make_scramble(987654321), 3)
    centres = (np.abs(places) > 0).sum(axis=1) == 1
    assert (found[centres] == np.arange(6)).all()
    cubelets = np.where(np.abs(places) == 3, np.sign(places) * 2, places)
    for corner in np.unique(cubelets[np.abs(cubelets).min(axis=1) == 2], axis=0):
        colors = found[(cubelets == corner).all(axis=1)]
        normals = [FACE_NORMALS[FACES[color]] for color in colors]
        assert len(normals) == 3
        assert abs(np.linalg.det(normals)) == 1  # no two of them the same or opposite


def test_a_move_turns_clockwise_as_its_face_is_seen():
    # in the order U R F D L B, row by row, as solvers write the state
    assert letters("R") == "UUFUUFUUFRRRRRRRRRFFDFFDFFDDDBDDBDDBLLLLLLLLLUBBUBBUBB"
    assert letters("U") == "UUUUUUUUUBBBRRRRRRRRRFFFFFFDDDDDDDDDFFFLLLLLLLLLBBBBBB"
    assert letters("F", 2) == "UULLURURFFFFRRDDLDLDBBBB"


def test_scrambles_have_no_face_twice_running_and_differ():
    numbers = [0, 1, 17, 18, 19, 5000, N_SCRAMBLES // 2, N_SCRAMBLES - 1]
    found = [make_scramble(number) for number in numbers]
    assert len(set(found)) == len(numbers)
    for moves in found:
        assert len(moves) == SCRAMBLE_MOVES
        assert set(moves) <= set(MOVES)
        assert all(a[0] != b[0] for a, b in itertools.pairwise(moves))


def test_corners_of_a_turned_face_turn_with_it():
    home = twisty().get_keypoints()
    turned = twisty(turned="R", turned_rad=math.pi / 4).get_keypoints()
    assert tuple(home) == CORNERS
    moved = {name for name in home if not np.allclose(home[name], turned[name])}
    assert moved == {"URF", "UBR", "DFR", "DRB"}
    assert turned["URF"][1] == pytest.approx(0, abs=1e-12)  # up, from above the front
    assert turned["URF"][2] > home["URF"][2]
    inset = 0.1 * 0.019 * (1 - math.sqrt(1 / 3))
    assert home["DLF"] == pytest.approx((-0.0285 + inset,) * 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edge_m": 0.0}, "edge_m of a twistycube is 0.0. Sizes must be finite and above 0."),
        ({"layers": 4}, "a twisty cube has 4 layers. Allowed: 2, 3."),
        ({"moves": ("R", "X")}, "a twisty cube has the move 'X'. Allowed: up to 1000 of U, U2, U', R"),
        ({"moves": ("R",) * 1001}, "a twisty cube has 1001 moves. Allowed: up to 1000 of U, U2, "),
        ({"turned_rad": 0.8}, "a face is turned by 0.8 rad. Allowed: -pi / 4 to pi / 4. Use moves for larger angles."),
        ({"rounding": 0.0}, "rounding, sticker and sticker_corner are 0.0, 0.9 and 0.3. "),
        ({"sticker": 1.1}, "rounding, sticker and sticker_corner are 0.1, 1.1 and 0.3. "),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(changes, message):
    with pytest.raises(SpecError, match=re.escape(message)):
        replace(twisty(), **changes)
