"""Whole masks, keypoints and occlusions against scenes of which they are known."""

from dataclasses import replace

import numpy as np
import pytest

from sim2cam.data.sample import Occlusion
from sim2cam.geometry.fisheye import KannalaBrandt
from sim2cam.geometry.perspective import BrownConrady
from sim2cam.render.renderer import Stage

LENSES = {
    "pinhole": BrownConrady(400.0, 400.0, 159.5, 119.5),
    "barrel": BrownConrady(400.0, 400.0, 159.5, 119.5, k1=-0.2, k2=0.03, p1=0.002),
    "fisheye": KannalaBrandt(300.0, 300.0, 159.5, 119.5, 0.02, -0.004, 0.0, 0.0),
}
EXTRAS = ("ids", "amodal_masks", "keypoints", "occlusions")


@pytest.fixture
def frame(egl):
    def shot(scene, of, wanted=EXTRAS):
        stage = Stage(scene, egl)
        return stage.shoot(of, wanted)

    return shot


@pytest.mark.parametrize("lens", LENSES)
def test_a_whole_mask_is_the_visible_one_without_what_hides_it(frame, make, lens):
    die = make.body("die", make.die(0.03), (0.0, 0.0, 0.015))
    lid = make.body("lid", make.box((0.02, 0.05, 0.002)), (0.012, 0.0, 0.05), is_target=False)
    of = replace(make.camera((0.0, -0.1, 0.35)), lens=LENSES[lens])
    (covered,) = frame(make.scene(die, lid), of).objects
    alone = frame(make.scene(die), of)
    assert covered.visible_fraction < 0.8
    assert np.array_equal(covered.amodal_mask.decode(), alone.channels["ids"] == 1)
    assert alone.objects[0].amodal_mask == covered.amodal_mask


@pytest.mark.parametrize("lens", LENSES)
@pytest.mark.parametrize("to", [(0, 120), (320, 50), (60, 4), (316, 236)])
def test_what_the_edge_cuts_off_is_what_a_moved_image_shows(frame, make, lens, to):
    scene = make.scene(make.body("die", make.die(0.06), (0.0, 0.0, 0.03)))
    of = replace(make.camera((0.0, -0.1, 0.35)), lens=LENSES[lens])
    (whole,) = frame(scene, of).objects
    x0, y0, x1, y1 = whole.box_xyxy
    right, down = to[0] - (x0 + x1) / 2, to[1] - (y0 + y1) / 2
    moved = replace(of.lens, cx_px=of.lens.cx_px + right, cy_px=of.lens.cy_px + down)
    (cut,) = frame(scene, replace(of, lens=moved)).objects
    assert (whole.truncation, cut.visible_fraction) == (0.0, 1.0)
    assert 0.2 < cut.truncation < 0.8
    assert cut.truncation == pytest.approx(
        1 - cut.area_px / whole.area_px, abs=0.015
    )  # half a pixel


def test_how_much_is_cut_off_is_not_known_of_what_the_lens_does_not_see(frame, make):
    table = make.body(
        "plank", make.box((0.05, 3.0, 0.01)), (0.0, 0.0, 0.005)
    )  # and behind the camera
    (label,) = frame(make.scene(table), make.camera((0.0, -0.3, 0.1))).objects
    assert label.truncation is None


def test_labels_have_only_what_was_asked_for(frame, make):
    of = make.camera()
    bare = frame(make.thrown(3), of, ("ids",))
    assert {(o.amodal_mask, o.keypoints) for o in bare.objects} == {(None, None)}
    assert (bare.occlusions, bare.right) == (None, None)
    whole = frame(make.thrown(3), of)
    stripped = tuple(replace(o, amodal_mask=None, keypoints=None) for o in whole.objects)
    assert stripped == bare.objects


@pytest.mark.parametrize("lens", LENSES)
def test_keypoints_are_visible_on_the_faces_turned_to_the_camera(frame, make, lens):
    die = make.body("die", make.die(0.03), (0.0, 0.0, 0.015))
    of = replace(make.camera((0.15, -0.2, 0.3)), lens=LENSES[lens])
    (label,) = frame(make.scene(die), of).objects
    seen = {point.name for point in label.keypoints if point.visibility == 2}
    assert seen == {"1", "3", "5"}  # up, towards +x and towards -y
    for point in label.keypoints:
        assert point.visibility in (1, 2)
        place = of.lens.project(label.pose.apply(np.array([point.point_m])))[0]
        assert np.allclose(point.xy, place, atol=1e-3)


def test_a_mirrored_die_s_keypoints_are_where_its_faces_are(frame, make):
    die = make.body("die", make.die(0.03, mirrored=True), (0.0, 0.0, 0.015))
    (label,) = frame(make.scene(die), make.camera((0.15, -0.2, 0.3))).objects
    seen = {point.name for point in label.keypoints if point.visibility == 2}
    assert seen == {"1", "4", "5"}


def test_what_hides_a_keypoint_is_noticed(frame, make):
    die = make.body("die", make.die(0.03), (0.0, 0.0, 0.015))
    lid = make.body("lid", make.box((0.01, 0.01, 0.002)), (0.0, 0.0, 0.05), is_target=False)
    of = make.camera((0.0, -0.01, 0.4))
    (label,) = frame(make.scene(die, lid), of).objects
    assert all(point.visibility == 1 for point in label.keypoints)


def test_a_keypoint_outside_the_image_has_no_place(frame, make):
    die = make.body("die", make.die(0.04), (0.0, 0.0, 0.02))
    of = make.camera((0.0, -0.001, 0.2), width=320, cx_px=10.0)
    (label,) = frame(make.scene(die), of).objects
    states = {point.name: (point.xy, point.visibility) for point in label.keypoints}
    assert states["4"] == ((0.0, 0.0), 0)
    assert states["1"][1] == 2


def test_labels_are_the_same_without_opengl(frame, tiny, make):
    of = make.camera((0.15, -0.2, 0.3))
    scene = make.scene(
        *(make.body(f"{i}", make.die(0.03), (0.02 * i, 0.0, 0.03 * i + 0.02)) for i in (0, 1))
    )
    stage = Stage(scene, tiny)
    ours, theirs = (f.objects for f in (frame(scene, of), stage.shoot(of, EXTRAS)))
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.keypoints == other.keypoints
        assert (mine.amodal_mask.decode() ^ other.amodal_mask.decode()).mean() < 1e-3


def test_faces_seen_edge_on_are_hidden(frame, make):
    die = make.body("die", make.die(0.03), (0.0, 0.0, 0.015))
    of = make.camera((0.017, -0.001, 0.4), (0.017, 0.0, 0.0))  # along the face towards +x
    (label,) = frame(make.scene(die), of).objects
    assert {p.name for p in label.keypoints if p.visibility == 2} == {"1"}


def test_a_ball_has_no_keypoints(frame, make):
    (label,) = frame(
        make.scene(make.body("a", make.sphere(0.02), (0, 0, 0.02))), make.camera()
    ).objects
    assert label.keypoints == ()


def test_who_hides_whom_counts_labelled_objects_that_are_seen(frame, make):
    low = make.body("low", make.die(0.03), (0.0, 0.0, 0.015))
    under = make.body("under", make.die(0.004), (0.0, 0.0, 0.002))
    lid = make.body("lid", make.box((0.02, 0.06, 0.002)), (0.012, 0.0, 0.05))
    found = frame(make.scene(low, under, lid), make.camera((0.0, -0.001, 0.4)))
    ids = found.channels["ids"]
    assert [label.instance_id for label in found.objects] == [1, 3]  # the second is wholly inside
    whole = found.objects[0].amodal_mask.decode()
    assert found.occlusions == (Occlusion(3, 1, int(((ids == 3) & whole).sum())),)
    assert found.occlusions[0].area_px > 100
