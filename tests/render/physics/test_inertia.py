"""Bodies turn as mechanics says that their masses do, however their files have them turned."""

import math

import numpy as np
import pytest
import trimesh
from scipy.spatial.transform import Rotation
from scipy.special import ellipk

from sim2cam.geometry.poses import Pose, quaternion
from sim2cam.objects.bolt import Bolt
from sim2cam.objects.nut import Nut
from sim2cam.objects.primitives import Cuboid, Cylinder, Sphere
from sim2cam.objects.tubes import Strand, Tubes
from sim2cam.objects.twisty import TwistyCube
from sim2cam.render.physics.inertia import InertialFrame, compute_inertial_frame
from sim2cam.render.physics.trajectory import STEP_S
from sim2cam.scene.shape import MeshFile
from sim2cam.surfaces.threads import compute_hexagon_area_m2

SIDES = (0.1, 0.06, 0.02)
MOMENTS = np.array([0.06**2 + 0.02**2, 0.1**2 + 0.02**2, 0.1**2 + 0.06**2]) / 12
MIDDLE = 1
"""Of their axes, the one about which the moment is neither the least nor the greatest."""
STRAIGHT = Rotation.identity()
ASLANT = Rotation.from_euler("xyz", (0.3, 0.5, math.pi / 4))
"""How a file has the box turned."""
HANDLE = """<robot name="t"><link name="t">
<visual><geometry><box size="0.12 0.02 0.02"/></geometry></visual>
<visual><origin xyz="0 0.04 0"/><geometry><box size="0.02 0.06 0.02"/></geometry></visual></link></robot>"""

pytestmark = pytest.mark.filterwarnings("ignore:(?s).*has no normals")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A box as its axes are and one turned in its file, and a handle that is a T."""
    folder = tmp_path_factory.mktemp("masses")
    for name, turn in (("straight.stl", STRAIGHT), ("aslant.stl", ASLANT)):
        box = trimesh.creation.box(SIDES)
        box.apply_transform(Pose(quaternion(turn), (0.0, 0.0, 0.0)).matrix())
        box.export(folder / name)
    (folder / "handle.urdf").write_text(HANDLE)
    return folder


def mesh(path):
    return MeshFile(str(path), "thing")


def thrown(make, asset, own_spin, *, turn=STRAIGHT, place=(0.0, 0.0, 1.0)):
    """A body of 0.2 kg that spins so along its own axes."""
    return make.body("/".join(map(str, place)), asset, place, rotation=quaternion(turn), mass_kg=0.2,
                     spin_rad_s=tuple(turn.apply(own_spin)), is_target=False)  # fmt: skip


def own_spins(flight):
    """Spins (n, 3) along the axes of a body."""
    return np.array([body.pose.rotation().inv().apply(body.spin_rad_s) for body in flight])


def flip_s(moments, spin):
    """Time between two flips of a free body (Landau and Lifshitz, Mechanics, section 37).

    Args:
        moments: of inertia, least first.
        spin: along their axes, with more energy about the middle one than about the first.
    """
    one, two, three = moments
    energy = (moments * spin**2).sum()  # twice of it
    momentum = ((moments * spin) ** 2).sum()  # its square
    rate = math.sqrt((three - two) * (momentum - energy * one) / (one * two * three))
    share = (two - one) * (energy * three - momentum) / ((three - two) * (momentum - energy * one))
    if share > 1:
        rate, share = rate * math.sqrt(share), 1 / share
    return 2 * ellipk(share) / rate


def of_handle():
    """Moments of the T, which lies in its plane of x and y, by Steiner's theorem on paper."""
    bar, stem = np.array([0.12, 0.02, 0.02]), np.array([0.02, 0.06, 0.02])
    share = 2 / 3  # of the mass, as of the volume, in the bar
    center = (1 - share) * 0.04
    found = np.zeros(3)
    for sides, weight, away in ((bar, share, center), (stem, 1 - share, 0.04 - center)):
        squares = sides**2 / 12 + (0.0, away**2, 0.0)
        found += weight * (squares.sum() - squares)
    return found  # about x, y and z


SPUN = {
    "straight.stl": (MOMENTS, np.array([0.3, 12.0, 0.3]), 0.12),
    "handle.urdf": (of_handle(), np.array([10.0, 0.3, 0.3]), 0.01),
}
"""Moments and spins along the axes of files, and what share of its energy a solid may lose in 2.5 s:
Bullet's implicit step takes some from what turns over fast and far."""


@pytest.mark.parametrize("name", SPUN)
def test_what_spins_about_its_middle_axis_flips_when_mechanics_says(make, files, filmed, name):
    """Dzhanibekov's effect."""
    moments, spin, loss = SPUN[name]
    order = np.argsort(moments)
    flight = [body for (body,) in filmed(2.5, thrown(make, mesh(files / name), spin))]
    spins = own_spins(flight)
    flips = np.flatnonzero(np.diff(np.sign(spins[:, order[1]]))) * STEP_S
    assert len(flips) > 1
    assert np.diff(flips) == pytest.approx(flip_s(moments[order], spin[order]), rel=0.01)
    energies = spins**2 @ moments
    assert np.diff(energies).max() < 1e-5 * energies[0]
    assert energies[-1] > (1 - loss) * energies[0]
    momenta = np.array(
        [body.pose.rotation().apply(moments * own) for body, own in zip(flight, spins, strict=True)]
    )
    assert momenta[-1] == pytest.approx(momenta[0], abs=loss / 1.5 * np.linalg.norm(momenta[0]))


def test_a_hull_moves_alike_however_its_file_has_it_turned(make, files, filmed):
    spin, turn = np.array([4.0, -7.0, 6.0]), Rotation.from_euler("xyz", (0.5, 0.1, -1.0))
    straight = thrown(make, mesh(files / "straight.stl"), spin, turn=turn)
    aslant = thrown(make, mesh(files / "aslant.stl"), ASLANT.apply(spin), turn=turn * ASLANT.inv(),
                    place=(1.0, 0.0, 1.0))  # fmt: skip
    for one, other in filmed(1.0, straight, aslant):
        apart = one.pose.rotation().inv() * other.pose.rotation() * ASLANT
        assert apart.magnitude() < 1e-5
        assert other.pose.position_m[2] == pytest.approx(one.pose.position_m[2])


CABLE = Tubes((Strand(((-0.1, 0.0, 0.0), (0.1, 0.0, 0.0)), (0.01, 0.01)),))


def prism(across_m, height_m):
    """Moments of a hexagonal prism over its mass, in its middle."""
    square = 5 / 72 * across_m**2  # of a regular hexagon about any axis in its plane
    return np.array([square + height_m**2 / 12, square + height_m**2 / 12, 2 * square])


def cylinder(radius_m, height_m):
    across = (3 * radius_m**2 + height_m**2) / 12
    return np.array([across, across, radius_m**2 / 2])


def of_bolt(bolt):
    head = compute_hexagon_area_m2(bolt.head_m) * bolt.head_height_m
    masses = np.array([head, math.pi / 4 * bolt.diameter_m**2 * bolt.length_m])
    heights = np.array([bolt.head_height_m / 2, -bolt.length_m / 2])
    middle = masses @ heights / masses.sum()
    shapes = prism(bolt.head_m, bolt.head_height_m), cylinder(bolt.diameter_m / 2, bolt.length_m)
    parts = [
        shape + np.array([1, 1, 0]) * (z - middle) ** 2
        for shape, z in zip(shapes, heights, strict=True)
    ]
    return masses @ np.array(parts) / masses.sum()


def of_nut(nut):
    hole = math.pi / 4 * nut.diameter_m**2
    whole = compute_hexagon_area_m2(nut.across_m)
    return (
        whole * prism(nut.across_m, nut.height_m)
        - hole * cylinder(nut.diameter_m / 2, nut.height_m)
    ) / (whole - hole)


def of_cable():
    radius, height = 0.01, 0.2
    bar, ball = height * radius**2, 4 / 3 * radius**3  # over pi
    away = height / 2 + 3 / 8 * radius
    balls = 0.4 * radius**2 - (3 / 8 * radius) ** 2 + away**2
    across = (bar * cylinder(radius, height)[0] + ball * balls) / (bar + ball)
    along = (bar * radius**2 / 2 + ball * 0.4 * radius**2) / (bar + ball)
    return np.array([along, across, across])


BOLT = Bolt(0.008, 0.03, 0.001, 1e-3, 0.013, 0.0055, "bolt")
NUT = Nut(0.008, 1e-4, 0.013, 0.0065, "nut")
TWISTED = TwistyCube(0.057, 3, (), "R", 0.6, 0.03, 1.0, 0.0, ((0.5,) * 3,) * 6)
FORMULAS = {
    "bolt": (BOLT, of_bolt(BOLT)),
    "nut": (NUT, of_nut(NUT)),
    "cable": (CABLE, of_cable()),
    "turned cube": (TWISTED, np.full(3, 0.057**2 / 6)),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_moments_of_compounds_are_those_of_their_formulas(make, name):
    asset, moments = FORMULAS[name]
    balance = compute_inertial_frame(make.body("b", asset, (0.0, 0.0, 1.0)))
    assert np.sort(balance.specific_moments_m2) == pytest.approx(np.sort(moments), rel=0.04)
    assert np.abs(balance.frame.position_m).max() < 1e-4


SIMPLE = {
    "sphere": (Sphere(0.01), (4e-5, 4e-5, 4e-5)),
    "cylinder": (Cylinder(0.01, 0.06), tuple(cylinder(0.01, 0.06))),
    "box": (Cuboid(SIDES), tuple(MOMENTS)),
}


@pytest.mark.parametrize("name", SIMPLE)
def test_a_mass_off_the_middle_is_as_wide_as_it_was_and_others_are_left_to_bullet(make, name):
    asset, moments = SIMPLE[name]
    off = (0.0, 0.002, -0.003)
    body = make.body("b", asset, (0.0, 0.0, 1.0), mass_offset_m=off)
    expected = InertialFrame(Pose(position_m=pytest.approx(off)), pytest.approx(moments))
    assert compute_inertial_frame(body) == expected
    for solid in (asset, make.die()):
        centred = make.body("b", solid, (0.0, 0.0, 1.0))
        assert compute_inertial_frame(centred) == InertialFrame(Pose(), None)
