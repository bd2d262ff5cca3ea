from dataclasses import replace

import numpy as np
import pytest

from sim2cam import images
from sim2cam.data.channels import FLOW_OCCLUDED, FLOW_VISIBLE
from sim2cam.errors import BackendError, UsageError
from sim2cam.geometry.boxes import mask_to_box
from sim2cam.geometry.fisheye import KannalaBrandt
from sim2cam.geometry.perspective import BrownConrady
from sim2cam.render.frame import annotate
from sim2cam.render.gbuffer import assign_label_ids
from sim2cam.render.labels.ground_truth import compute_flow_channel, track_labelled_points
from sim2cam.render.physics.simulation import simulate
from sim2cam.render.renderer import Stage
from sim2cam.scene.lens_effects import Defocus, Droplets, LateralColor, LensEffects
from sim2cam.scene.sensor import Mosaic

DRAWN = ("depth", "ids", "parts", "normals", "coordinates", "coverage")
LENSES = {
    "pinhole": None,
    "barrel": BrownConrady(400.0, 400.0, 159.5, 119.5, k1=-0.2, k2=0.03, p1=0.002, p2=-0.001),
    "fisheye": KannalaBrandt(300.0, 300.0, 159.5, 119.5, 0.02, -0.004, 0.0, 0.0),
}


def test_a_frame_is_whole_and_labels_fit_its_ids(drawing, make):
    of = make.camera(k1=-0.1, p1=0.001)
    settled, _ = simulate(make.thrown(6))
    stage = Stage(settled, drawing)
    frame = stage.shoot(of, ("depth", "ids"))
    picture = images.decode_image(frame.image)
    assert picture.shape == (of.height, of.width, 3)
    assert frame.channels["ids"].shape == frame.channels["depth"].shape == (of.height, of.width)
    assert len(frame.objects) == 6
    for label in frame.objects:
        mask = frame.channels["ids"] == label.instance_id
        assert label.box_xyxy == mask_to_box(mask)
        assert label.area_px == mask.sum()
        assert 0 < label.visible_fraction <= 1
        x0, y0, x1, y1 = label.box_xyxy
        ax0, ay0, ax1, ay1 = label.box_amodal_xyxy
        assert ax0 <= x0
        assert ay0 <= y0
        assert x1 <= ax1
        assert y1 <= ay1


def test_the_pose_puts_the_object_where_its_depth_is(drawing, make):
    of = make.camera()
    scene = make.scene(make.body("die", make.die(), (0.02, -0.01, 0.008)))
    stage = Stage(scene, drawing)
    (label,) = stage.shoot(of, ("depth", "ids")).objects
    spot = np.array([label.pose.position_m])
    assert np.allclose((of.pose @ label.pose).position_m, (0.02, -0.01, 0.008), atol=1e-9)
    x0, y0, x1, y1 = label.box_xyxy
    x, y = of.lens.project(spot)[0] + 0.5
    assert x0 < x < x1
    assert y0 < y < y1


@pytest.mark.parametrize(
    ("turned", "value"), [((1.0, 0.0, 0.0, 0.0), "1"), ((0.5**0.5, 0.5**0.5, 0.0, 0.0), "2")]
)
def test_a_die_s_category_is_its_upper_face(tiny, make, turned, value):
    scene = make.scene(make.body("die", make.die(), (0.0, 0.0, 0.008), rotation=turned))
    stage = Stage(scene, tiny)
    (label,) = stage.shoot(make.camera(), ("depth", "ids")).objects
    assert label.category == value


def test_another_asset_s_category_is_its_kind(tiny, make):
    scene = make.scene(make.body("ball", make.sphere(0.01), (0.0, 0.0, 0.01)))
    stage = Stage(scene, tiny)
    assert stage.shoot(make.camera(), ("depth", "ids")).objects[0].category == "sphere"


def test_labels_of_a_rendered_buffer_are_exact(make):
    bodies = [make.body(str(i), make.sphere(0.01), (0.1 * i, 0.0, 0.01)) for i in range(40)]
    scene, of = make.scene(*bodies), make.camera(width=64, height=48)
    numbers = assign_label_ids(scene)
    ids = np.zeros((48, 64), np.uint16)
    cover = np.zeros((48, 64, 2), np.uint32)
    ids[10:20, 30:34] = numbers["34"]
    cover[10:20, 30:40, 1] |= np.uint32(1 << 2)  # body 35 is bit 34, the third of the second word
    cover[:, :, 0] |= np.uint32(1 << 4)  # body 5 lies behind everything
    labels = annotate(scene, of, ids, cover)
    assert [label.instance_id for label in labels] == [35]
    assert labels[0].box_xyxy == (30, 10, 34, 20)
    assert labels[0].box_amodal_xyxy == (30, 10, 40, 20)
    assert labels[0].area_px == 40
    assert labels[0].visible_fraction == pytest.approx(0.4)


def test_what_cannot_be_seen_has_no_label(tiny, make):
    cases = {
        "behind": make.body("a", make.die(), (0.0, -3.0, 0.008)),
        "under": make.body("b", make.die(), (0.0, 0.0, 0.008)),
    }
    lid = make.body("lid", make.box((0.08, 0.08, 0.002)), (0.0, 0.0, 0.03), is_target=False)
    scene = make.scene(lid, *cases.values())
    stage = Stage(scene, tiny)
    assert stage.shoot(make.camera((0.0, 0.001, 0.4)), ("depth", "ids")).objects == ()


@pytest.mark.parametrize("lens", ["pinhole", "barrel", "fisheye"])
def test_every_channel_agrees_with_pose_and_depth(egl, make, lens):
    scene = make.thrown()
    of = make.camera((0.05, -0.3, 0.4))
    of = replace(of, lens=LENSES[lens] or of.lens)
    stage = Stage(scene, egl)
    frame = stage.shoot(of, DRAWN)
    assert tuple(frame.channels) == DRAWN
    assert np.array_equal(frame.channels["coverage"], frame.view.gbuffer["bodies"] > 0)
    ids, depth = frame.channels["ids"], frame.channels["depth"]
    assert len(frame.objects) == 5
    for label in frame.objects:
        rows, columns = np.nonzero(ids == label.instance_id)
        low, high = np.array(label.extent_m)
        inside = frame.channels["coordinates"][rows, columns] * (high - low) + low
        places = label.pose.apply(inside.astype(np.float64))
        pixels = of.lens.project(places)
        assert np.abs(pixels - np.stack([columns, rows], 1)).max() < 1e-2
        along = np.linalg.norm(places, axis=1) if lens == "fisheye" else places[:, 2]
        assert np.abs(along / depth[rows, columns] - 1).max() < 1e-5
        assert set(frame.channels["parts"][rows, columns]) <= set(range(1, 7))
    assert np.isnan(frame.channels["coordinates"][ids == 0]).all()
    assert not frame.channels["parts"][ids == 0].any()
    ground = (ids == 0) & (depth > 0)
    up = of.pose.inverse().rotation().apply((0.0, 0.0, 1.0))
    assert np.abs(frame.channels["normals"][ground] - up).max() < 1e-5


def test_an_object_s_motion_is_reported_along_the_camera_s_axes(tiny, make):
    spin, velocity = (0.0, 0.0, 3.0), (0.1, 0.0, 0.0)
    falling = make.body(
        "die", make.die(), (0.0, 0.0, 0.008), velocity_m_s=velocity, spin_rad_s=spin
    )
    scene = make.scene(falling, make.body("other", make.die(), (0.05, 0.0, 0.008)))
    of = make.camera(
        (0.0, -0.3, 0.001), (0.0, 0.0, 0.001)
    )  # its x is the world's, its -y the world's z
    stage = Stage(scene, tiny)
    moving, still = stage.shoot(of, ()).objects
    assert moving.twist.velocity_m_s == pytest.approx((0.1, 0.0, 0.0))
    assert moving.twist.spin_rad_s == pytest.approx((0.0, -3.0, 0.0))
    assert still.twist is None


def test_a_flow_tells_what_is_seen_there_from_what_is_hidden(egl, make):
    def shot(x):
        lid = make.body("lid", make.box((0.04, 0.04, 0.002)), (x, 0.0, 0.06))
        scene = make.scene(make.body("die", make.die(0.02), (0.0, 0.0, 0.01)), lid)
        stage = Stage(scene, egl)
        return stage.shoot(make.camera((0.0, 0.001, 0.4)), ("ids",)).view

    beside, over = shot(0.06), shot(0.0)
    found = compute_flow_channel(beside, over)
    ids = beside.gbuffer["bodies"]
    assert (found[ids == 2][:, 2] == FLOW_OCCLUDED).all()
    assert (found[ids == 3][:, 2] == FLOW_VISIBLE).mean() > 0.95
    nothing = replace(beside, gbuffer={**beside.gbuffer, "bodies": np.zeros_like(ids)})
    assert not compute_flow_channel(nothing, over).any()


def test_tracks_follow_points_of_labelled_bodies(egl, make):
    scene = make.scene(
        make.body("box", make.box((0.01, 0.01, 0.01)), (0.05, 0.0, 0.005), is_target=False),
        make.body("one", make.die(0.02), (0.0, 0.0, 0.01)),
        make.body("two", make.die(0.02), (0.0, 0.05, 0.01)),
    )
    of = make.camera((0.0, 0.001, 0.4))
    stage = Stage(scene, egl)
    points = {name: np.array([[0.0, 0.002, 0.01], [0.0, 0.0, -0.01]]) for name in ("one", "two")}
    found = track_labelled_points(points, stage.shoot(of, ()).view)
    assert found.instance_id.tolist() == [1, 1, 2, 2]
    assert found.visible.tolist() == [True, False, True, False]
    place = of.pose.inverse().apply(scene.bodies[3].pose.apply(points["two"]))
    assert np.allclose(found.pixel[2:], of.lens.project(place))
    assert np.array_equal(found.point_m[2:], points["two"])


def test_a_channel_that_the_rasterizer_lacks_is_refused(tiny, make):
    scene = make.thrown()
    stage = Stage(scene, tiny)
    with pytest.raises(BackendError, match="has no channel normals"):
        stage.shoot(make.camera(), ("normals",))


def test_a_raw_image_stands_beside_that_of_a_mosaic(tiny, make):
    of = make.camera(width=96, height=80, cx_px=47.5, cy_px=39.5, focal_px=120.0)
    scene = make.scene(make.body("die", make.die(), (0.02, -0.01, 0.008)))
    stage = Stage(scene, tiny)
    with pytest.raises(UsageError, match=r"needs a sensor with a mosaic.*\[domain\.mosaic\]"):
        stage.shoot(of, ("raw",))
    mosaic = Mosaic("RGGB", 10)
    behind = replace(of, sensor=replace(of.sensor, mosaic=mosaic))
    frame = stage.shoot(behind, ("raw",))
    raw = frame.channels["raw"]
    assert (raw.shape, raw.dtype) == ((80, 96), np.uint16)
    assert mosaic.black_level() - 4 <= raw.min() < raw.max() <= 1023
    grey = images.decode_image(frame.image).mean(axis=-1)
    assert np.corrcoef(grey.ravel(), raw.ravel())[0, 1] > 0.7


def test_glass_changes_the_image_and_no_label(tiny, make):
    of = make.camera(width=96, height=80, cx_px=47.5, cy_px=39.5, focal_px=120.0)
    scene = make.scene(make.body("die", make.die(), (0.02, -0.01, 0.008)))
    stage = Stage(scene, tiny)
    glass = LensEffects(Defocus(0.02, 0.2), LateralColor(0.02), droplets=Droplets(5, 0.1))
    sharp, blurred = (stage.shoot(replace(of, glass=g), ("depth", "ids")) for g in (None, glass))
    assert sharp.image != blurred.image
    assert sharp.objects == blurred.objects
    for name in ("depth", "ids"):
        assert np.array_equal(sharp.channels[name], blurred.channels[name])
