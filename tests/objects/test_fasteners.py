"""Bolts and nuts: true threads, centres of mass, solids that fit into one another."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
import trimesh
from scipy.spatial.transform import Rotation
from solids import EXAMPLES, is_inside_collider

from sim2cam.errors import SpecError
from sim2cam.geometry.poses import Pose, quaternion
from sim2cam.render.physics.simulation import simulate
from sim2cam.surfaces.threads import THREAD_DEPTH, compute_hexagon_area_m2

BOLT, NUT = EXAMPLES["bolt"], EXAMPLES["nut"]
ASSETS = [BOLT, EXAMPLES["threaded bolt"], NUT]
KIND = {"ids": lambda asset: asset.kind}


@pytest.mark.parametrize("asset", ASSETS, **KIND)
def test_mass_lies_around_the_origin(asset):
    mesh = asset.build_mesh()
    solid = trimesh.Trimesh(mesh.vertices_m, mesh.faces, process=False)
    assert solid.volume == pytest.approx(asset.volume_m3, rel=0.03)  # chamfers, ends of threads
    assert np.allclose(solid.center_mass, 0, atol=0.01 * np.ptp(mesh.vertices_m[:, 2]))
    low, high = np.array(asset.bounds_m)
    points = np.random.default_rng(1).uniform(low, high, (6000, 3))
    share = is_inside_collider(points, asset).mean() * np.prod(high - low)
    assert share == pytest.approx(solid.volume, rel=0.15)  # without chamfers and threads


def test_threads_are_helices_of_their_pitch_and_depth():
    mesh = BOLT.build_mesh()
    thread = mesh.vertices_m[mesh.parts == 2]
    radius = np.hypot(thread[:, 0], thread[:, 1])
    height = thread[:, 2] - BOLT.tip_z_m
    within = (height > 1e-6) & (height < 0.0209) & (radius > 0.001)
    crest, root = (radius > 0.0029) & within, (radius < 0.0029) & within
    assert np.allclose(radius[crest], 0.003)
    assert np.allclose(radius[root], 0.003 - THREAD_DEPTH * 0.001)
    turns = np.arctan2(thread[:, 1], thread[:, 0]) / (2 * math.pi)
    for ridge, phase in ((root, 0.0), (crest, 0.5)):  # right-handed: it rises as it turns
        off = (thread[ridge, 2] - BOLT.tip_z_m) / 0.001 - turns[ridge] - phase
        assert np.allclose(off, off.round(), atol=1e-6)


def test_a_bolt_fits_a_nut():
    nut = NUT.build_mesh()
    hole = nut.vertices_m[nut.parts == 2]
    assert np.hypot(hole[:, 0], hole[:, 1]).max() == pytest.approx(0.003)
    points = np.random.default_rng(0).uniform(-1, 1, (4000, 3)) * [0.006, 0.006, 0.0025]
    shank = np.hypot(points[:, 0], points[:, 1]) < 0.003 - 1e-6
    assert not is_inside_collider(points[shank], NUT).any()


@pytest.mark.parametrize("asset", [BOLT, NUT], **KIND)
def test_symmetries_leave_the_solids(asset):
    points = np.random.default_rng(2).uniform(-0.02, 0.02, (4000, 3))
    before = is_inside_collider(points, asset)
    assert before.any()
    turns = asset.shape_symmetries.rotations_wxyz
    assert len(turns) == {"bolt": 5, "nut": 11}[asset.kind]
    assert len({tuple(np.round(turn, 9)) for turn in turns}) == len(turns)
    for turn in turns:
        assert (is_inside_collider(Pose(turn).apply(points), asset) == before).mean() > 0.9995
    off = quaternion(Rotation.from_euler("z", 30, degrees=True))
    assert not (is_inside_collider(Pose(off).apply(points), asset) == before).all()


def test_keypoints_of_a_bolt_are_its_ends():
    points = BOLT.get_keypoints()
    assert points["head"][2] == pytest.approx(BOLT.bounds_m[1][2])
    assert points["tip"][2] == pytest.approx(BOLT.bounds_m[0][2])
    assert points["head"][2] - points["tip"][2] == pytest.approx(0.034)


def test_they_come_to_rest_without_sinking_in(make):
    lying = (math.sqrt(0.5), 0.0, math.sqrt(0.5), 0.0)
    nut = make.body("nut", NUT, (0.05, 0.0, 0.003), mass_kg=0.003)
    bolt = make.body("bolt", BOLT, (0.0, 0.0, 0.008), mass_kg=0.009, rotation=lying)
    settled, certificate = simulate(make.scene(nut, bolt))
    assert certificate.rejection is None
    assert certificate.penetration_m < 1e-4
    assert [body.get_category() for body in settled.bodies[1:]] == ["nut M6", "bolt M6"]
    assert settled.bodies[1].pose.position_m[2] == pytest.approx(0.0025, abs=1e-4)
    lowest = [
        body.pose.apply(body.asset.build_mesh().vertices_m)[:, 2].min()
        for body in settled.bodies[1:]
    ]
    assert np.allclose(lowest, 0, atol=1.5e-4)


def test_hexagons_have_their_area():
    assert compute_hexagon_area_m2(2.0) == pytest.approx(6 * 0.5 * 1.0 * 2 / math.sqrt(3))


@pytest.mark.parametrize(
    ("make_asset", "message"),
    [
        (lambda: replace(BOLT, pitch_m=0.0), "pitch_m of a bolt is 0.0. Sizes must be finite and above 0."),
        (lambda: replace(BOLT, head_m=0.006), "a bolt for a thread of 0.006 m is 0.006 m across flats. Allowed: 1.2 to 4 times"),
        (lambda: replace(NUT, across_m=0.03), "a nut for a thread of 0.006 m is 0.03 m across flats. Allowed: "),
        (lambda: replace(BOLT, threaded=1.5), "a thread with a pitch of 0.001 m covers 1.5 of 0.03 m. Allowed: up to 1, and 80 turns."),
        (lambda: replace(BOLT, pitch_m=0.0002), "a thread with a pitch of 0.0002 m covers 0.7 of 0.03 m. Allowed: up to 1, and 80 turns."),
        (lambda: replace(NUT, pitch_m=0.004), "a thread of 0.006 m has a pitch of 0.004 m. Allowed: up to half of the diameter."),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(make_asset, message):
    with pytest.raises(SpecError, match=re.escape(message)):
        make_asset()
