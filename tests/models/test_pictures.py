from dataclasses import replace

import numpy as np
import pytest

from sim2cam.dataset.known_objects import KnownObject, turned_corners
from sim2cam.dataset.sample import Keypoint
from sim2cam.errors import InputError
from sim2cam.geometry.lens import BrownConrady
from sim2cam.geometry.masks import RunLengths
from sim2cam.geometry.poses import Pose
from sim2cam.models.pictures import UNKNOWN, PictureStore, Tasks, read_picture
from sim2cam.scene.objects import Symmetries


def test_outlines_span_the_boxes(make_dataset):
    for with_ids in (True, False):
        data = make_dataset(f"ids {with_ids}", with_ids=with_ids)
        for sample in data.samples:
            picture = read_picture(sample, data.categories)
            assert picture.turns_freely == with_ids
            for label, outline in zip(sample.objects, picture.outlines, strict=True):
                span = (*outline.min(axis=0), *outline.max(axis=0))
                assert span == label.box_xyxy
            names = [data.categories[i] for i in picture.categories]
            assert names == [o.category for o in sample.objects]


def test_an_object_without_pixels_keeps_its_box_and_forbids_free_turns(make_dataset):
    sample = make_dataset().samples[0]
    hidden = replace(sample.objects[0], instance_id=9)
    picture = read_picture(replace(sample, objects=(hidden,)), ("square", "disc"))
    assert not picture.turns_freely
    assert len(picture.outlines[0]) == 4


def test_labels_of_another_size_are_refused(make_dataset):
    sample = make_dataset().samples[0]
    with pytest.raises(InputError, match="160x128 pixels, but its labels are for 320x128"):
        read_picture(replace(sample, width=320), ("square", "disc"))


def test_store_decodes_once_within_its_budget(make_dataset):
    data = make_dataset(n=3)
    budget = 2 * 160 * 128 * 3
    store = PictureStore([data.samples], data.categories, budget)
    first = [store.get(0, i) for i in range(3)]
    again = [store.get(0, i) for i in range(3)]
    assert [a is b for a, b in zip(first, again, strict=True)] == [True, True, False]
    assert np.array_equal(first[2].rgb, again[2].rgb)


def test_corners_in_space_are_seen_through_the_lens_after_every_turn(make_dataset):
    lens = BrownConrady(200.0, 200.0, 79.5, 63.5, 0.1)
    sample = replace(make_dataset().samples[0], lens=lens)
    pose = Pose((0.5, 0.5, -0.5, 0.5), (0.02, -0.01, 0.4))
    behind = Pose(position_m=(0.0, 0.0, -0.4))
    posed, unposed, unseen = (
        replace(sample.objects[0], category="disc", pose=p) for p in (pose, None, behind)
    )
    brick = KnownObject(
        ((-0.02, -0.02, 0.0), (0.02, 0.02, 0.05)), Symmetries(((0.0, 0.0, 0.0, 1.0),))
    )
    corners_m = turned_corners([KnownObject(((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))), brick])
    picture = read_picture(
        replace(sample, objects=(posed, unposed, unseen)), ("square", "disc"), Tasks(corners_m)
    )
    assert picture.corners.shape == (3, 2, 8, 2)
    expected = lens.project(pose.apply(brick.corners_m())) + 0.5
    assert picture.corners[0, 0] == pytest.approx(expected)
    half_turn = [6, 7, 4, 5, 2, 3, 0, 1]  # x and y change their signs
    assert picture.corners[0, 1] == pytest.approx(expected[half_turn])
    assert np.isnan(picture.corners[1:]).all()
    nowhere = read_picture(
        replace(sample, objects=(posed,), lens=None), ("square", "disc"), Tasks(corners_m)
    )
    assert np.isnan(nowhere.corners).all()


def test_keypoints_stand_in_the_order_of_their_category(make_dataset):
    sample = make_dataset().samples[0]
    points = (Keypoint("right_tip", (10.0, 20.0), 2), Keypoint("left_tip", (30.0, 40.0), 1),
              Keypoint("foot", (0.0, 0.0), 0))  # fmt: skip
    known, unknown = (
        replace(sample.objects[0], category="disc", keypoints=p) for p in (points, None)
    )
    names = {"square": (), "disc": ("foot", "left_tip", "right_tip")}
    picture = read_picture(
        replace(sample, objects=(known, unknown)), ("square", "disc"), Tasks(keypoints=names)
    )
    keypoints = picture.keypoints
    assert keypoints.places[0, 0, 1:].tolist() == [[30.5, 40.5], [10.5, 20.5]]
    assert np.isnan(keypoints.places[0, 0, 0]).all()
    assert np.isnan(keypoints.places[1]).all()
    assert keypoints.seen[0, 1:].tolist() == [0, 1]
    assert np.isnan(keypoints.seen[0, 0])
    assert keypoints.mirrored.tolist() == [[0, 2, 1]] * 2
    assert read_picture(sample, ("square", "disc")).keypoints is None


def test_owners_are_the_ids_the_masks_or_unknown_boxes(make_dataset):
    sample = make_dataset().samples[0]
    tasks = Tasks(masks=True)
    first, second = sample.objects
    owners = read_picture(sample, ("square", "disc"), tasks).owners
    assert [(owners == n).sum() for n in (1, 2)] == [first.area_px, second.area_px]
    turned = replace(sample, objects=(second, first))
    assert np.array_equal(
        read_picture(turned, ("square", "disc"), tasks).owners, np.array([0, 2, 1])[owners]
    )
    bare = replace(sample, channels={})
    x0, y0, x1, y1 = map(int, first.box_xyxy)
    masked = replace(second, mask=RunLengths.of(owners == 2))
    mixed = read_picture(replace(bare, objects=(first, masked)), ("square", "disc"), tasks).owners
    assert (mixed == UNKNOWN).sum() == (x1 - x0) * (y1 - y0)
    assert (mixed[y0:y1, x0:x1] == UNKNOWN).all()
    assert np.array_equal(mixed == 2, owners == 2)
    assert read_picture(sample, ("square", "disc")).owners is None
