"""Cards and blocks: closed skins, true sides, faces that differ."""

import itertools
import math

import cv2
import numpy as np
import pytest
import trimesh

from sim2cam.errors import SpecError
from sim2cam.objects.block import Block
from sim2cam.objects.board import Board
from sim2cam.objects.card import CARD_FACES, HALF_TURN_FACES, Card, make_card_prints
from sim2cam.render.meshes.mesh import build_mesh
from sim2cam.render.meshes.texture_set import build_texture_set

SIZE, CORNER = (0.06, 0.09, 0.001), 0.004
BLUE = (0.02, 0.05, 0.3)
SOLIDS = {
    "card": Card("7H", SIZE, CORNER, BLUE),
    "board": Board("charuco", 5, 4, 0.02, 0.7, "4x4_50", 0, 0.01, 0.004, (0.02, 0.02, 0.02)),
    "block": Block((0.02, 0.03, 0.05), 0.1, "red"),
    "sharp block": Block((0.02, 0.02, 0.02), 0.0, "red"),
}


def card(face):
    return Card(face, SIZE, CORNER, BLUE)


@pytest.mark.parametrize("name", SOLIDS)
def test_skins_are_closed_and_as_large_as_they_say(name):
    asset = SOLIDS[name]
    mesh = build_mesh(asset)
    assert np.allclose(np.ptp(mesh.vertices_m, axis=0), asset.size_m)
    whole = trimesh.Trimesh(mesh.vertices_m.round(9), mesh.faces)
    assert whole.is_watertight
    corners = mesh.vertices_m[mesh.faces]
    across = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert (np.einsum("ij,ij->i", across, mesh.normals[mesh.faces].mean(axis=1)) > 0).all()
    assert np.allclose(np.linalg.norm(mesh.normals, axis=1), 1)


def test_volumes_are_those_of_rounded_solids():
    a, b, c = SIZE
    flat = trimesh.Trimesh(build_mesh(SOLIDS["card"]).vertices_m, build_mesh(SOLIDS["card"]).faces)
    assert flat.volume == pytest.approx((a * b - (4 - math.pi) * CORNER**2) * c, rel=2e-4)
    sharp = build_mesh(SOLIDS["sharp block"])
    assert trimesh.Trimesh(sharp.vertices_m, sharp.faces).volume == pytest.approx(8e-6, rel=1e-4)


def test_the_uvs_of_a_plate_show_its_front_at_the_left_upright():
    mesh = build_mesh(SOLIDS["card"])
    front, back = mesh.parts == 1, mesh.parts == 2
    x, y, _ = mesh.vertices_m.T
    assert np.allclose(mesh.uvs[front, 0], (x[front] / SIZE[0] + 0.5) / 2)
    assert np.allclose(mesh.uvs[front, 1], 0.5 - y[front] / SIZE[1])
    assert np.allclose(mesh.uvs[back, 0], 0.5 + (0.5 - x[back] / SIZE[0]) / 2)  # not mirrored
    assert np.allclose(mesh.uvs[back, 1], 0.5 - y[back] / SIZE[1])


def test_no_two_faces_look_alike():
    faces = {face: make_card_prints(card(face))[0] for face in CARD_FACES}
    for one, other in itertools.combinations(faces.values(), 2):
        assert one.ink != other.ink or np.abs(one.coverage - other.coverage).mean() > 0.004


def test_turnable_faces_are_those_that_half_a_turn_leaves():
    for face in CARD_FACES:
        cover = make_card_prints(card(face))[0].coverage
        off = np.abs(cv2.blur(cover - cover[::-1, ::-1], (5, 5))).max()
        assert off < 0.1 or off > 0.9  # outlines end at texels, which half a turn moves
        assert (off < 0.1) == (face in HALF_TURN_FACES), face


def test_a_card_shows_its_face_or_its_back(make):
    up = make.body("card", card("QS"), (0.0, 0.0, 0.01))
    down = make.body("card", card("QS"), (0.0, 0.0, 0.01), rotation=(0.0, 0.0, 1.0, 0.0))
    assert (up.get_category(), down.get_category()) == ("QS", "back")


def test_the_back_is_printed_in_its_own_ink(make):
    body = make.body("card", card("2C"), (0.0, 0.0, 0.0), (0.8, 0.8, 0.8))
    front, back = np.split(build_texture_set(body).colors.astype(int), 2, axis=1)
    assert np.array_equal(front[2, 2], back[2, 2])
    assert np.ptp(front, axis=-1).max() <= 4  # black on grey
    assert (back[..., 2] > back[..., 0] + 50).mean() > 0.2


def test_blocks_are_labelled_by_their_category(make):
    assert make.body("block", SOLIDS["block"], (0.0, 0.0, 0.1)).get_category() == "red"


@pytest.mark.parametrize(
    ("make_asset", "message"),
    [
        (lambda: card("1H"), "there is no card '1H'. "),
        (lambda: Card("AS", SIZE, 0.03, BLUE), "corners of 0.03 m do not fit a card of "),
        (lambda: Block((0.1, 0.1, 0.1), 0.5, "red"), "rounding of a block is 0.5. Allowed: 0 to below 0.5."),
        (lambda: Block((0.1, 0.0, 0.1), 0.1, "red"), "size_m of a block is (0.1, 0.0, 0.1). Sizes must be "),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(make_asset, message):
    with pytest.raises(SpecError) as error:
        make_asset()
    assert str(error.value).startswith(message)
