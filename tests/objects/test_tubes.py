"""Tubes: closed skins, capsules that collide, hands that arrive when all else is at rest."""

import itertools
import math
import re

import numpy as np
import pytest
from solids import EXAMPLES, RED, WHITE, compute_volume

from sim2cam.errors import SpecError
from sim2cam.objects.primitives import Cuboid
from sim2cam.objects.sheet import Sheet
from sim2cam.objects.tubes import Strand, Tubes
from sim2cam.render.physics.simulation import simulate
from sim2cam.scene.package_label import PackageLabel

BAR, CABLE = EXAMPLES["bar"], EXAMPLES["cable"]
(STRAND,) = BAR.strands
(BENT,) = CABLE.strands


@pytest.mark.parametrize("tubes", [BAR, CABLE], ids=["bar", "cable"])
def test_strands_have_the_volume_of_capsules_and_tangents_around_them(tubes):
    mesh, (strand,) = tubes.build_mesh(), tubes.strands
    length = sum(itertools.starmap(math.dist, itertools.pairwise(strand.points_m)))
    radius = strand.radii_m[0]
    volume = math.pi * radius**2 * (length + 4 / 3 * radius)
    assert compute_volume(mesh) == pytest.approx(volume, rel=0.04)  # of 16 sides
    assert np.allclose((mesh.normals * mesh.tangents).sum(axis=1), 0)


def test_a_bar_is_a_capsule():
    vertices = BAR.build_mesh().vertices_m
    axis = np.clip(vertices[:, 2], -0.05, 0.05)
    assert np.allclose(np.linalg.norm(vertices - np.outer(axis, [0, 0, 1]), axis=1), 0.01)
    assert np.allclose(BAR.bounds_m, [(-0.01, -0.01, -0.06), (0.01, 0.01, 0.06)])
    (capsule,) = BAR.build_collider()
    assert (capsule.geometry, capsule.size_m) == ("capsule", pytest.approx((0.02, 0.02, 0.1)))


def test_capsules_lie_along_their_strand():
    ends = itertools.pairwise(BENT.points_m)
    for part, points in zip(CABLE.build_collider(), ends, strict=True):
        half = part.size_m[2] / 2
        assert np.allclose(part.pose.apply(np.array([[0, 0, -half], [0, 0, half]])), points)


def test_a_long_cable_lies_on_the_table_with_all_of_its_length(make):
    cable = make.body("cable", CABLE, (0.0, 0.0, 0.01), mass_kg=0.01)
    settled, certificate = simulate(make.scene(cable))
    assert certificate.rejection is None
    heights = settled.bodies[-1].pose.apply(np.array(BENT.points_m))[:, 2]
    assert np.allclose(heights, 0.002, atol=2e-4)


def falling(make, height=0.03):
    return make.body("die", make.die(), (0.0, 0.0, height))


def held(make, place, *, last=True):
    rotation = (math.sqrt(0.5), 0.0, math.sqrt(0.5), 0.0)
    options = {"is_fixed": True, "is_target": False, "arrives_last": last}
    return make.body("hand", BAR, place, rotation=rotation, **options)


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
    rails = Tubes(tuple(
        Strand(tuple((float(x), y, 0.0) for x in along), (0.002,) * 40) for y in (-0.006, 0.006)
    ))  # fmt: skip
    ring = make.body("rails", rails, (0.0, 0.0, 0.05), is_fixed=True, is_target=False)
    boxes = [
        make.body(f"box/{x}", Cuboid((0.02, 0.02, 0.02)), (x, 0.0, 0.065))
        for x in (-0.08, 0.0, 0.08)
    ]
    settled, certificate = simulate(make.scene(ring, *boxes))
    assert certificate.rejection is None
    heights = [body.pose.position_m[2] for body in settled.bodies[2:]]
    assert np.allclose(heights, 0.05 + 0.002 + 0.01, atol=2e-4)
    assert any("rails" in (c.first, c.second) for c in certificate.contacts)


def test_sheets_are_written_on_both_sides(make):
    sheet = Sheet((0.1, 0.14, 0.001), PackageLabel("Invoice", 5, WHITE, (0.02, 0.02, 0.02), RED))
    colors, _ = sheet.render_maps(make.plain(WHITE).texture)
    front, back = np.split(colors.astype(int), 2, axis=1)
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
        (lambda: Strand(STRAND.points_m, (1.0,)), "a strand has 2 points and 1 radii."),
        (lambda: Strand(STRAND.points_m, (1.0, 0.0)), "a strand has a radius of 0.0 m. Radii must be finite and above 0."),
        (lambda: Strand((STRAND.points_m[0],) * 2, (1.0, 1.0)), "two successive points of a strand are equal or not finite."),
        (lambda: Tubes(()), "tubes have 0 strands. Allowed: 1 to 64."),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(make_asset, message):
    with pytest.raises(SpecError, match=re.escape(message)):
        make_asset()
