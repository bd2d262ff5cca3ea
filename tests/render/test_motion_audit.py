"""The audit of films passes what was rendered and finds every fault planted in it."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from sim2cam.data import tracks
from sim2cam.data.channels import DEPTH_SCALE_M, FLOW_OCCLUDED, encode_channel, read_channel
from sim2cam.data.checks.geometry import audit_geometry
from sim2cam.data.checks.motion import audit_flow, audit_tracks
from sim2cam.data.sample import FrameInfo, ObjectLabel, Sample
from sim2cam.files import write_bytes
from sim2cam.geometry.fisheye import KannalaBrandt
from sim2cam.geometry.motion import Twist
from sim2cam.geometry.perspective import BrownConrady
from sim2cam.geometry.poses import Pose
from sim2cam.render.labels.ground_truth import compute_flow_channel, track_labelled_points
from sim2cam.render.meshes.mesh import sample_surface_points
from sim2cam.render.optics import shutter
from sim2cam.render.renderer import Stage
from sim2cam.scene.camera import Shutter

CAMERAS = {
    "pinhole, in an instant": (BrownConrady(400.0, 400.0, 159.5, 119.5), None),
    "barrel, rolling": (BrownConrady(300.0, 300.0, 159.5, 119.5, k1=-0.25, k2=0.05, p1=0.002, p2=-0.001), Shutter(0.002, 0.03)),
    "fisheye, rolling upwards": (KannalaBrandt(250.0, 250.0, 159.5, 119.5, 0.02, -0.004, 0.0, 0.0), Shutter(0.002, -0.02)),
}  # fmt: skip
CHANNELS = ("depth", "ids", "coordinates", "normals")
INTERVAL_S = 0.03


@pytest.fixture(scope="module")
def rendered(egl, make, tmp_path_factory):
    """A function that gives two samples, one after the other, with channels and tracks of the first."""
    folder = tmp_path_factory.mktemp("film")
    rng = np.random.default_rng(1)

    def stored(name, values):
        write_bytes(folder / f"{name}.png", encode_channel(name, values))
        return read_channel(name, folder / f"{name}.png")

    def taken(name, seconds):
        lens, timing = CAMERAS[name]
        scene = make.thrown()
        motion = {"velocity_m_s": (0.2, -0.2, -0.1), "spin_rad_s": (2.0, 3.0, -4.0)}
        bodies = (replace(body, **motion) if body.is_target else body for body in scene.bodies)
        scene = replace(scene, bodies=tuple(bodies)).advance(seconds)
        of = replace(make.camera((0.05, -0.2, 0.35), (0.02, 0.0, 0.08)), lens=lens, shutter=timing)
        of = replace(of, twist=Twist((-0.1, 0.1, 0.2), (0.3, 0.5, -1.0))).advance(seconds)
        stage = Stage(scene, egl)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(shutter, "MAX_TIME_SLICES", 1)  # light is not audited
            frame = stage.shoot(of, CHANNELS)
        twist = of.twist.express_in(of.pose)
        moment = FrameInfo(0, seconds, of.get_row_delay_s(), 0.002, of.pose, twist)
        sample = Sample(
            name, Path("a.jpg"), of.width, of.height, frame.objects, "sim", lens=lens,
            frame_info=moment,
        )  # fmt: skip
        return sample, frame

    def film(name):
        (sample, frame), (other, then) = taken(name, 0.0), taken(name, INTERVAL_S)
        channels = {key: stored(key, values) for key, values in frame.channels.items()}
        flow = compute_flow_channel(frame.view, then.view)
        channels["flow_forward"] = stored("flow_forward", flow)
        targets = [body for body in frame.view.scene.bodies if body.is_target]
        points = {body.name: sample_surface_points(body.asset, 50, rng) for body in targets}
        path = folder / "tracks.json"
        write_bytes(path, tracks.encode_tracks(track_labelled_points(points, frame.view)))
        return Film(sample, channels, other, then.channels["ids"], tracks.read_tracks(path))

    return {name: film(name) for name in CAMERAS}


@dataclass(frozen=True)
class Film:
    """What an audit is given, with changes."""

    sample: Sample
    channels: dict
    other: Sample
    ids: np.ndarray
    points: tracks.PointTracks

    def but(self, **changes):
        return replace(self, **changes)

    def with_flow(self, change):
        flow = change(self.channels["flow_forward"].copy())
        return self.but(channels={**self.channels, "flow_forward": flow})

    def problems(self):
        yield from audit_geometry(self.sample, self.channels)
        yield from audit_flow("flow_forward", self.sample, self.channels, self.other, self.ids)
        yield from audit_tracks(self.points, self.sample, self.channels)


@pytest.mark.parametrize("name", CAMERAS)
def test_what_was_rendered_passes(rendered, name):
    film = rendered[name]
    assert len(film.sample.objects) == 5
    on_dice = film.channels["ids"] > 0
    assert np.abs(film.channels["flow_forward"][on_dice][:, :2]).max() > 5
    assert film.points.visible.sum() > 50
    assert list(film.problems()) == []


def with_objects(sample, change):
    return replace(sample, objects=tuple(change(label) for label in sample.objects))


def moved(label):
    return replace(label, pose=Pose(position_m=(0.004, 0.0, 0.0)) @ label.pose)


def with_moment(sample, **changes):
    return replace(sample, frame_info=replace(sample.frame_info, **changes))


def reversed_flow(flow):
    flow[..., :2] *= -1
    return flow


def scaled_flow(flow):
    flow[..., :2] *= 1.1
    return flow


def exchanged(flow):
    flow[..., 2] = np.where(flow[..., 2] > 0, 3 - flow[..., 2], 0)
    return flow


def turned(points):
    return replace(points, pixel=points.pixel[:, ::-1])


def shown(points):
    return replace(points, visible=~points.visible)


FLOW = "flow_forward is up to"
FAULTS = {
    "a flow backwards": (lambda f: f.with_flow(reversed_flow), FLOW),
    "a flow of another interval": (lambda f: f.with_flow(scaled_flow), FLOW),
    "a flow of the pixel beside": (lambda f: f.with_flow(lambda v: np.roll(v, 3, 1)), FLOW),
    "y before x": (lambda f: f.with_flow(lambda v: v[..., [1, 0, 2]]), FLOW),
    "hidden for seen": (lambda f: f.with_flow(exchanged), "visible points are not in its mask"),
    "the same picture again": (lambda f: f.but(other=f.sample), FLOW),
    "a pose moved there": (lambda f: f.but(other=with_objects(f.other, moved)), FLOW),
    "depth of another scale": (lambda f: f.but(channels={**f.channels, "depth": f.channels["depth"] * 1.02}), FLOW),
    "a global shutter here": (lambda f: f.but(sample=with_moment(f.sample, row_s=0.0)), "from their pixels"),
    "a global shutter there": (lambda f: f.but(other=with_moment(f.other, row_s=0.0)), FLOW),
    "rows from below": (lambda f: f.but(sample=with_moment(f.sample, row_s=-f.sample.frame_info.row_s)), FLOW),
    "a camera said to be still": (lambda f: f.but(sample=with_moment(f.sample, twist=Twist())), "from their pixels"),
    "objects said to be still": (lambda f: f.but(sample=with_objects(f.sample, lambda o: replace(o, twist=None))), "from their pixels"),
    "a camera that stands elsewhere": (lambda f: f.but(other=with_moment(f.other, camera_pose=f.sample.frame_info.camera_pose)), "of unlabelled pixels matches depth and camera poses; at least 25% must"),
    "tracks with y before x": (lambda f: f.but(points=turned(f.points)), "tracks are up to"),
    "tracks seen when hidden": (lambda f: f.but(points=shown(f.points)), "its tracks: "),
    "tracks of a pose moved": (lambda f: f.but(sample=with_objects(f.sample, moved)), "tracks are up to"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(rendered, fault):
    plant, words = FAULTS[fault]
    found = list(plant(rendered["barrel, rolling"]).problems())
    assert any(words in what for what in found), found
    assert all(what.startswith(("object ", "flow_forward of ")) for what in found)


def test_what_left_the_image_and_captures_are_not_audited(rendered):
    film = rendered["pinhole, in an instant"].with_flow(reversed_flow)
    gone = film.but(other=replace(film.other, objects=()))
    assert not any(what.startswith("object ") for what in gone.problems())
    assert list(film.but(sample=replace(film.sample, lens=None)).problems()) == []
    unplaced = gone.but(sample=with_moment(film.sample, camera_pose=None))
    assert [*gone.problems()] != []
    assert [*unplaced.problems()] == []


def test_depth_is_rounded_and_what_is_near_moves_far():
    """A patch 8 cm away goes 6 cm aside and 4 cm nearer: half a step of its depth is 0.8 px there."""
    lens = BrownConrady(600.0, 600.0, 319.5, 239.5)
    depth = np.zeros((480, 640))
    depth[200:280, 30:110] = 0.08 + np.linspace(0, 0.0003, 80)
    rows, columns = np.nonzero(depth)
    rays = lens.unproject(np.stack([columns, rows], 1).astype(np.float64))
    seen = rays / rays[:, 2:] * depth[rows, columns][:, None]
    there = Pose(position_m=(0.06, 0.0, -0.04))

    def problems(beside_px):
        flow = np.zeros((480, 640, 3))
        flow[rows, columns, :2] = lens.project(there.apply(seen)) - np.stack([columns, rows], 1)
        flow[rows, columns, 0] += beside_px
        flow[rows, columns, 2] = FLOW_OCCLUDED
        label = ObjectLabel("patch", (30.0, 200.0, 110.0, 280.0), 1.0, instance_id=1, pose=Pose())
        sample = Sample("0", Path("a.jpg"), 640, 480, (label,), "sim", lens=lens)
        other = replace(sample, objects=(replace(label, pose=there),))
        ids = (depth > 0).astype(np.uint16)
        rounded = np.round(depth / DEPTH_SCALE_M) * DEPTH_SCALE_M
        channels = {"depth": rounded, "ids": ids, "flow_forward": flow}
        return list(audit_flow("flow_forward", sample, channels, other, ids))

    assert problems(0.0) == []
    assert problems(2.0) == [
        "object 0 (category patch): flow_forward is up to 2.8 px from the projection of its pose"
    ]
