"""Tubes: closed skins, capsules that collide, hands that arrive when all else is at rest."""

import math
import re

import numpy as np
import pytest
import trimesh

from sim2cam.errors import SpecError
from sim2cam.objects.packages import render_sheet_texture
from sim2cam.objects.primitives import Cuboid
from sim2cam.objects.sheet import Sheet
from sim2cam.objects.tubes import Strand, Tubes
from sim2cam.render.meshes.mesh import build_mesh, compute_extent
from sim2cam.render.physics.colliders import build_collision_parts
from sim2cam.render.physics.simulation import simulate
from sim2cam.scene.package_label import PackageLabel

BAR = Strand(((0.0, 0.0, -0.05), (0.0, 0.0, 0.05)), (0.01, 0.01))
TURN = np.linspace(0, 1.5 * math.pi, 40)
ARC = 0.05 * np.stack([np.cos(TURN), np.sin(TURN), 0 * TURN], axis=1)
BENT = Strand(tuple(map(tuple, (ARC - ARC.mean(axis=0)).tolist())), (0.002,) * 40)
WHITE, INK, RED = (0.9, 0.9, 0.9), (0.02, 0.02, 0.02), (0.6, 0.02, 0.02)


@pytest.mark.parametrize("strand", [BAR, BENT], ids=["bar", "bent"])
def test_strands_are_closed_and_look_outwards(strand):
    mesh = build_mesh(Tubes((strand,)))
    places, one = np.unique(mesh.vertices_m.round(9), axis=0, return_inverse=True)
    faces = one.ravel()[mesh.faces]
    faces = faces[
        (faces != np.roll(faces, 1, axis=1)).all(axis=1)
    ]  # at the poles some have no area
    whole = trimesh.Trimesh(places, faces, process=True)
    assert whole.is_watertight
    length = sum(
        math.dist(a, b) for a, b in zip(strand.points_m, strand.points_m[1:], strict=False)
    )
    radius = strand.radii_m[0]
    ball = 4 / 3 * math.pi * radius**3
    assert whole.volume == pytest.approx(
        math.pi * radius**2 * length + ball, rel=0.04
    )  # of 16 sides
    corners = mesh.vertices_m[mesh.faces]
    across = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    along = np.einsum("ij,ij->i", across, mesh.normals[mesh.faces].mean(axis=1))
    assert (along[np.linalg.norm(across, axis=1) > 1e-12] > 0).all()
    assert np.allclose(np.linalg.norm(mesh.normals, axis=1), 1)
    assert np.allclose((mesh.normals * mesh.tangents).sum(axis=1), 0)


def test_a_bar_is_a_capsule():
    mesh = build_mesh(Tubes((BAR,)))
    axis = np.clip(mesh.vertices_m[:, 2], -0.05, 0.05)
    away = np.linalg.norm(mesh.vertices_m - np.outer(axis, [0, 0, 1]), axis=1)
    assert np.allclose(away, 0.01)
    assert np.allclose(compute_extent(Tubes((BAR,))), [(-0.01, -0.01, -0.06), (0.01, 0.01, 0.06)])
    (capsule,) = build_collision_parts(Tubes((BAR,)))
    assert (capsule.shape.radius_m, capsule.shape.height_m) == (0.01, pytest.approx(0.1))


def test_capsules_lie_along_their_strand():
    for part, start, end in zip(
        build_collision_parts(Tubes((BENT,))), BENT.points_m, BENT.points_m[1:], strict=False
    ):
        half = part.shape.height_m / 2
        ends = part.pose.apply(np.array([[0, 0, -half], [0, 0, half]]))
        assert np.allclose(ends, [start, end])


def test_a_long_cable_lies_on_the_table_with_all_of_its_length(make):
    cable = make.body("cable", Tubes((BENT,)), (0.0, 0.0, 0.01), mass_kg=0.01)
    settled, certificate = simulate(make.scene(cable))
    assert certificate.rejection is None
    heights = settled.bodies[-1].pose.apply(np.array(BENT.points_m))[:, 2]
    assert np.allclose(heights, 0.002, atol=2e-4)


def falling(make, height=0.03):
    return make.body("die", make.die(), (0.0, 0.0, height))


def held(make, place, *, last=True):
    bar = make.body(
        "hand", Tubes((BAR,)), place, rotation=(math.sqrt(0.5), 0.0, math.sqrt(0.5), 0.0)
    )
    changes = {"is_fixed": True, "is_target": False, "arrives_last": last}
    return type(bar)(**{**vars(bar), **changes})


def test_what_arrives_last_is_in_nobodys_way(make):
    above = (0.0, 0.0, 0.05)
    settled, certificate = simulate(make.scene(held(make, above), falling(make, 0.09)))
    assert certificate.rejection is None
    assert settled.bodies[-1].pose.position_m[2] == pytest.approx(0.008, abs=1e-4)
    assert settled.bodies[1].pose.position_m == above
    stopped, _ = simulate(make.scene(held(make, above, last=False), falling(make, 0.09)))
    assert stopped.bodies[-1].pose.position_m != settled.bodies[-1].pose.position_m


def test_what_has_no_room_when_it_arrives_is_refused(make):
    _, certificate = simulate(make.scene(held(make, (0.0, 0.0, 0.02)), falling(make, 0.009)))
    assert "when it is let go again" in certificate.rejection


def test_fixed_strands_collide_with_all_of_their_points(make):
    """More capsules than Bullet takes for one shape."""
    along = np.linspace(-0.1, 0.1, 40)
    rails = Tubes(
        tuple(
            Strand(tuple((float(x), y, 0.0) for x in along), (0.002,) * 40) for y in (-0.006, 0.006)
        )
    )
    ring = make.body("rails", rails, (0.0, 0.0, 0.05), is_fixed=True, is_target=False)
    boxes = [
        make.body(f"box/{x}", Cuboid((0.02, 0.02, 0.02)), (x, 0.0, 0.065))
        for x in (-0.08, 0.0, 0.08)
    ]
    settled, certificate = simulate(make.scene(ring, *boxes))
    assert certificate.rejection is None
    heights = [body.pose.position_m[2] for body in settled.bodies[2:]]
    assert np.allclose(heights, 0.05 + 0.002 + 0.01, atol=2e-4)
    assert {c.first for c in certificate.contacts} | {c.second for c in certificate.contacts} >= {
        "rails"
    }


def test_sheets_are_written_on_both_sides(make):
    sheet = Sheet((0.1, 0.14, 0.001), PackageLabel("Invoice", 5, WHITE, INK, RED))
    front, back = np.split(render_sheet_texture(sheet).astype(int), 2, axis=1)
    assert not np.array_equal(front, back)
    for page in (front, back):
        assert 0.02 < (page.min(axis=-1) < 128).mean() < 0.5
        assert (page[:, 0] > 200).all()  # a margin
    body = make.body("sheet", sheet, (0.0, 0.0, 0.002))
    settled, certificate = simulate(make.scene(body))
    assert certificate.rejection is None
    assert settled.bodies[-1].pose.position_m[2] == pytest.approx(0.0005, abs=2e-4)


@pytest.mark.parametrize(
    ("make_asset", "message"),
    [
        (lambda: Strand(((0.0, 0.0, 0.0),), (1.0,)), "a strand has 1 points and 1 radii. It needs equal numbers of both, 2 to 1024."),
        (lambda: Strand(BAR.points_m, (1.0,)), "a strand has 2 points and 1 radii."),
        (lambda: Strand(BAR.points_m, (1.0, 0.0)), "a strand has a radius of 0.0 m. Radii must be finite and above 0."),
        (lambda: Strand((BAR.points_m[0],) * 2, (1.0, 1.0)), "two successive points of a strand are equal or not finite."),
        (lambda: Tubes(()), "tubes have 0 strands. Allowed: 1 to 64."),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(make_asset, message):
    with pytest.raises(SpecError, match=re.escape(message)):
        make_asset()
