"""The audit of labels passes what was rendered and finds every fault planted in it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sim2cam.data.channels import encode_channel, read_channel
from sim2cam.data.checks.geometry import audit_geometry
from sim2cam.data.checks.labels import _audit_covisibility, audit_labels
from sim2cam.data.sample import ObjectLabel, Sample
from sim2cam.files import write_bytes
from sim2cam.geometry.fisheye import KannalaBrandt
from sim2cam.geometry.perspective import BrownConrady
from sim2cam.geometry.poses import Pose
from sim2cam.geometry.run_length import RleMask
from sim2cam.render.renderer import Stage
from sim2cam.scene.depth_camera import ActiveStereo

ANY_LENS = ("depth", "ids", "parts", "normals", "coordinates", "sensor_depth")
PAIR = ("disparity", "shared")
EXTRAS = ("amodal_masks", "keypoints", "occlusions")
CAMERA = ActiveStereo(min_range_m=0.1, depth_unit_m=0.0005)
LENSES = {
    "pinhole": BrownConrady(400.0, 400.0, 159.5, 119.5),
    "barrel": BrownConrady(300.0, 300.0, 159.5, 119.5, k1=-0.25, k2=0.05, p1=0.002, p2=-0.001),
    "fisheye": KannalaBrandt(250.0, 250.0, 159.5, 119.5, 0.02, -0.004, 0.0, 0.0),
}


def problems(sample, channels):
    yield from audit_geometry(sample, channels)
    yield from audit_labels(sample, channels)


@pytest.fixture(scope="module")
def rendered(egl, make, tmp_path_factory):
    """A function that gives a sample and its channels, as a data set on disk has them."""
    folder = tmp_path_factory.mktemp("channels")

    def render(lens):
        scene = make.thrown()
        of = replace(make.camera((0.05, -0.2, 0.35), (0.02, 0.0, 0.08)), lens=LENSES[lens])
        of = replace(of, depth_camera=CAMERA, baseline_m=0.03)
        stage = Stage(scene, egl)
        pair = PAIR if lens == "pinhole" else ()
        frame = stage.shoot(of, (*ANY_LENS, *pair, *EXTRAS))
        channels = {}
        for name, values in frame.channels.items():
            write_bytes(folder / f"{lens}-{name}.png", encode_channel(name, values))
            channels[name] = read_channel(name, folder / f"{lens}-{name}.png")
        sample = Sample(
            lens, Path("a.jpg"), of.width, of.height, frame.objects, "sim", lens=of.lens,
            occlusions=frame.occlusions, depth_unit_m=CAMERA.depth_unit_m, baseline_m=0.03,
        )  # fmt: skip
        return sample, channels

    return {lens: render(lens) for lens in LENSES}


@pytest.mark.parametrize("lens", LENSES)
def test_what_was_rendered_passes(rendered, lens):
    sample, channels = rendered[lens]
    assert len(sample.objects) == 5
    assert list(problems(sample, channels)) == []


@pytest.mark.parametrize(("taller_px", "is_found"), [(0, False), (4, True)])
def test_a_lens_bends_the_edges_of_a_box(taller_px, is_found):
    """Under a barrel lens a board reaches further in the middle of its edges than at its corners."""
    lens = LENSES["barrel"]
    half_m = (0.13, 0.1)
    across = np.linspace(-half_m[0], half_m[0], 1001)
    edge = np.stack(np.broadcast_arrays(across, half_m[1], 0.3), axis=1)
    low, high = lens.project(edge * (1, -1, 1)) + 0.5, lens.project(edge) + 0.5
    assert high[:, 1].max() - high[[0, -1], 1].max() > 4
    side = lens.project(np.array([[-half_m[0], 0.0, 0.3], [half_m[0], 0.0, 0.3]])) + 0.5
    box = (*side[0, :1], low[:, 1].min() - taller_px, *side[1, :1], high[:, 1].max())
    board = ObjectLabel(
        "board", box, 1.0, box_amodal_xyxy=box, pose=Pose(position_m=(0.0, 0.0, 0.3)),
        extent_m=((-half_m[0], -half_m[1], 0.0), (half_m[0], half_m[1], 0.0)),
    )  # fmt: skip
    found = list(
        audit_geometry(Sample("a", Path("a.jpg"), 320, 240, (board,), "sim", lens=lens), {})
    )
    assert [("exceeds the projection of its pose" in what) for what in found] == [True] * is_found


@pytest.mark.parametrize("left_out", [*ANY_LENS, *PAIR])
def test_less_is_audited_too(rendered, left_out):
    sample, channels = rendered["pinhole"]
    fewer = {name: values for name, values in channels.items() if name != left_out}
    assert list(problems(sample, fewer)) == []


def with_objects(change):
    return lambda sample, channels: (
        replace(sample, objects=tuple(change(label) for label in sample.objects)),
        channels,
    )


def with_channel(name, change):
    return lambda sample, channels: (sample, {**channels, name: change(channels[name])})


def moved(by):
    return with_objects(lambda label: replace(label, pose=Pose(position_m=by) @ label.pose))


def with_keypoints(change):
    return with_objects(
        lambda label: replace(label, keypoints=tuple(change(point) for point in label.keypoints))
    )


def with_amodal(change):
    return with_objects(
        lambda label: replace(
            label, amodal_mask=RleMask.from_mask(change(label.amodal_mask.decode(), label))
        )
    )


def without_last_columns(mask, label):
    mask[:, int(label.box_xyxy[2]) - 2 :] = False
    return mask


def larger(label):
    low, high = np.array(label.extent_m)
    return replace(label, extent_m=(tuple(low * 0.7), tuple(high * 0.7)))


def world_pose(label):
    away = Pose.look_at((0.3, 0.2, 1.0), (0.0, 0.0, 0.0), 0.4)
    return replace(label, pose=away @ label.pose)


def other_lens(sample, channels):
    return replace(sample, lens=replace(sample.lens, k1=0.0)), channels


def along_the_ray(sample, channels):
    rows, columns = np.indices(channels["depth"].shape).reshape(2, -1)
    rays = sample.lens.unproject(np.stack([columns, rows], 1).astype(float))
    stretch = (1 / rays[:, 2]).reshape(channels["depth"].shape)
    return sample, {**channels, "depth": channels["depth"] * stretch.astype(np.float32)}


FAULTS = {
    "a pose 5 mm beside": (moved((0.005, 0.0, 0.0)), "exceeds the projection of its pose and extent"),
    "a pose 3 mm deeper": (moved((0.0, 0.0, 0.003)), "coordinates and depth differ"),
    "a pose in another frame": (with_objects(world_pose), "exceeds the projection of its pose"),
    "an extent of another unit": (with_objects(larger), "exceeds the projection of its pose and extent"),
    "depth along the ray": (along_the_ray, "coordinates and depth differ"),
    "depth of another scale": (with_channel("depth", lambda d: d * 1.1), "outside"),
    "coordinates mirrored": (with_channel("coordinates", lambda c: np.stack([1 - c[..., 0], c[..., 1], c[..., 2]], -1)), "from their pixels"),
    "coordinates shifted": (with_channel("coordinates", lambda c: np.roll(c, 2, 1)), "coordinates"),
    "coordinates left out": (with_channel("coordinates", lambda c: np.where(c > 0.5, np.nan, c)), "pixels have no coordinates"),
    "normals of the world": (with_channel("normals", lambda n: n[..., [1, 2, 0]]), "degrees from the surface given by depth"),
    "normals of another picture": (with_channel("normals", lambda n: n[:, ::-1]), "degrees from the surface given by depth"),
    "labels of another lens": (other_lens, "from their pixels"),
    "a whole mask cut": (with_amodal(without_last_columns), "are outside the amodal mask"),
    "a whole mask moved": (with_amodal(lambda mask, _: np.roll(mask, 1, 1)), "of its mask"),
    "a whole mask that is broken": (with_objects(lambda o: replace(o, amodal_mask=RleMask(o.amodal_mask.size, "0"))), "amodal mask: invalid run lengths"),
    "a fraction of the box": (with_objects(lambda label: replace(label, visible_fraction=label.visible_fraction * 0.99)), "is not the fraction of its masks"),
    "keypoints as boxes have pixels": (with_keypoints(lambda p: replace(p, xy=(p.xy[0] + 0.5, p.xy[1] + 0.5))), "is 0.50 px from the projection of its point"),
    "keypoints of the other chirality": (with_keypoints(lambda p: replace(p, point_m=(-p.point_m[0], *p.point_m[1:]))), "px from the projection of its point"),
    "hidden keypoints labelled visible": (with_keypoints(lambda p: replace(p, visibility=max(p.visibility * 2, 2))), "is labelled visible, but its pixel shows a point"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(rendered, fault):
    plant, words = FAULTS[fault]
    found = list(problems(*plant(*rendered["barrel"])))
    assert any(words in what for what in found), found
    assert all(
        what.startswith(("object ", "occlusion of ", "sensor_depth differs ")) for what in found
    )


def test_captures_are_not_audited(rendered):
    sample, channels = rendered["pinhole"]
    assert list(problems(replace(sample, lens=None), channels)) == []


def with_occlusions(change):
    return lambda sample, channels: (
        replace(sample, occlusions=tuple(change(o) for o in sample.occlusions)),
        channels,
    )


def swapped(occlusion):
    return replace(occlusion, occluder_id=occlusion.occluded_id, occluded_id=occlusion.occluder_id)


def of_the_sample(**facts):
    return lambda sample, channels: (replace(sample, **facts), channels)


def all_shared(sample, channels):
    inside = np.arange(sample.width) - channels["disparity"] >= 0
    return sample, {**channels, "shared": inside.astype(np.uint16)}


PICTURE_FAULTS = {
    "who hides whom the wrong way round": (with_occlusions(swapped), "but their masks share"),
    "an occlusion of nobody": (with_occlusions(lambda o: replace(o, occluder_id=99)), "no object has the instance_id 99"),
    "pixels of another picture": (with_occlusions(lambda o: replace(o, area_px=o.area_px + 1)), "but their masks share"),
    "another baseline": (of_the_sample(baseline_m=0.031), "disparity and depth differ"),
    "no baseline": (of_the_sample(baseline_m=None), "disparity without a baseline"),
    "disparity to the right": (with_channel("disparity", lambda d: np.roll(d, 1, 1)), "disparity and depth differ"),
    "disparity along the ray": (along_the_ray, "disparity and depth differ"),
    "disparity left out": (with_channel("disparity", lambda d: np.where(d > np.median(d), 0, d)), "disparity and depth differ"),
    "all is shared": (all_shared, "pixels that are occluded in the right image are labelled shared"),
    "shared beyond the frame": (with_channel("shared", np.ones_like), "shared pixels are outside the right image"),
    "readings in another unit": (of_the_sample(depth_unit_m=0.001), "sensor_depth differs from depth by a median"),
    "readings without a unit": (of_the_sample(depth_unit_m=None), "without depth_unit_m"),
}  # fmt: skip


@pytest.mark.parametrize("fault", PICTURE_FAULTS)
def test_a_fault_of_the_whole_image_is_found(rendered, fault):
    plant, words = PICTURE_FAULTS[fault]
    sample, channels = rendered["pinhole"]
    assert sample.occlusions
    found = list(problems(*plant(sample, channels)))
    assert any(words in what for what in found), found


def test_disparity_nearer_than_16_bits_reach_may_be_missing(rendered):
    sample, channels = rendered["pinhole"]
    depth = channels["depth"]
    near = replace(sample, baseline_m=256 * float(np.median(depth)) / sample.lens.fx_px)
    disparity = (sample.lens.fx_px * near.baseline_m / depth).astype(np.float32)
    cut = np.where(disparity < 256, disparity, 0)
    assert 0 < (cut == 0).mean() < 1
    fewer = {"depth": depth, "disparity": cut}
    assert list(problems(near, fewer)) == []


def test_what_is_shared_may_be_too_near_to_have_a_disparity():
    disparity, depth = np.zeros((4, 50), np.float32), np.ones((4, 50), np.float32)
    channels = {"shared": np.ones((4, 50), np.uint16), "disparity": disparity, "depth": depth}
    assert list(_audit_covisibility(channels)) == []
    found = list(_audit_covisibility({**channels, "depth": 0 * depth}))
    assert found == ["200 shared pixels are outside the right image"]


def test_what_is_left_of_the_right_image_hides_nothing_in_it():
    disparity = np.full((4, 100), 60.0, np.float32)
    disparity[:, :60] = 64.0  # nearer, and outside
    shared = np.arange(100) >= 60
    channels = {"shared": np.tile(shared, (4, 1)).astype(np.uint16), "disparity": disparity}
    assert list(_audit_covisibility(channels)) == []


@pytest.mark.parametrize(("turned_rad", "is_found"), [(0.0, False), (0.3, True)])
def test_steps_of_depth_tilt_no_slope_of_what_is_near(turned_rad, is_found):
    """At 50 mm a pixel is as wide as depth is exact, so that slopes need more than a few of them."""
    lens = BrownConrady(630.0, 630.0, 319.5, 319.5)
    rows, columns = np.indices((640, 640))[:, 40:160, 600:640].reshape(2, -1)
    rays = lens.unproject(np.stack([columns, rows], axis=1).astype(np.float64))
    normal = np.array([-0.75, 0.45, -0.48]) / np.linalg.norm([-0.75, 0.45, -0.48])
    place = np.array([0.026, -0.019, 0.053])
    met = rays * (place @ normal / (rays @ normal))[:, None]
    depth, ids = np.zeros((640, 640)), np.zeros((640, 640), np.uint16)
    depth[rows, columns], ids[rows, columns] = np.round(met[:, 2], 4), 1
    across = np.cross(normal, (0.0, 0.0, 1.0)) / np.linalg.norm(np.cross(normal, (0.0, 0.0, 1.0)))
    normals = np.zeros((640, 640, 3))
    normals[rows, columns] = Rotation.from_rotvec(turned_rad * across).apply(normal)
    label = ObjectLabel(
        "1", (600.0, 40.0, 640.0, 160.0), 4800.0, instance_id=1, pose=Pose(position_m=tuple(place)),
        extent_m=((-0.02, -0.02, -0.02), (0.02, 0.02, 0.02)),
    )  # fmt: skip
    sample = Sample("near", Path("a.jpg"), 640, 640, (label,), "sim", lens=lens)
    found = list(audit_geometry(sample, {"ids": ids, "depth": depth, "normals": normals}))
    assert any("normals deviate" in what for what in found) == is_found, found
