"""Cards: prints that differ, true corners, the side seen from above."""

import itertools
import math
from dataclasses import replace

import cv2
import numpy as np
import pytest
from solids import EXAMPLES, compute_volume

from sim2cam.errors import SpecError
from sim2cam.objects.card import CARD_FACES, HALF_TURN_FACES
from sim2cam.render.meshes.texture_set import build_texture_set

CARD = EXAMPLES["card"]


@pytest.fixture(scope="module")
def prints():
    return {face: replace(CARD, face=face).make_prints()[0] for face in CARD_FACES}


def test_volumes_and_uvs_are_those_of_plates_with_round_corners():
    mesh, (width, height, thickness) = CARD.build_mesh(), CARD.size_m
    area = width * height - (4 - math.pi) * CARD.corner_radius_m**2
    assert compute_volume(mesh) == pytest.approx(area * thickness, rel=2e-4)
    front, back = mesh.parts == 1, mesh.parts == 2
    x, y, _ = mesh.vertices_m.T
    assert np.allclose(mesh.uvs[front, 0], (x[front] / width + 0.5) / 2)
    assert np.allclose(mesh.uvs[back, 0], 0.5 + (0.5 - x[back] / width) / 2)  # not mirrored
    for side in (front, back):
        assert np.allclose(mesh.uvs[side, 1], 0.5 - y[side] / height)


def test_no_two_faces_look_alike(prints):
    for one, other in itertools.combinations(prints.values(), 2):
        assert one.ink != other.ink or np.abs(one.coverage - other.coverage).mean() > 0.004


@pytest.mark.parametrize("face", CARD_FACES)
def test_turnable_faces_are_those_that_half_a_turn_leaves(prints, face):
    cover = prints[face].coverage
    off = np.abs(cv2.blur(cover - cover[::-1, ::-1], (5, 5))).max()
    assert off < 0.1 or off > 0.9  # outlines end at texels, which half a turn moves
    assert (off < 0.1) == (face in HALF_TURN_FACES)


def test_a_card_shows_its_face_or_its_back(make):
    up, down = (
        make.body("card", CARD, (0.0, 0.0, 0.01), rotation=rotation)
        for rotation in ((1.0, 0.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0))
    )
    assert (up.get_category(), down.get_category()) == ("10H", "back")


def test_the_back_is_printed_in_its_own_ink(make):
    card = replace(CARD, face="2C", back_color=(0.02, 0.05, 0.3))
    body = make.body("card", card, (0.0, 0.0, 0.0), (0.8, 0.8, 0.8))
    front, back = np.split(build_texture_set(body).colors.astype(int), 2, axis=1)
    assert np.array_equal(front[2, 2], back[2, 2])
    assert np.ptp(front, axis=-1).max() <= 4  # black on grey
    assert (back[..., 2] > back[..., 0] + 50).mean() > 0.2


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("card", {"face": "1H"}, "there is no card '1H'. "),
        ("card", {"corner_radius_m": 0.0315}, "corners of 0.0315 m do not fit a card of "),
        ("block", {"rounding": 0.5}, "rounding of a block is 0.5. Allowed: 0 to below 0.5."),
        ("block", {"size_m": (0.1, 0.0, 0.1)}, "size_m of a block is (0.1, 0.0, 0.1). Sizes must be "),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(name, changes, message):
    with pytest.raises(SpecError) as error:
        replace(EXAMPLES[name], **changes)
    assert str(error.value).startswith(message)
