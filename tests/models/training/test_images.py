from dataclasses import replace

import numpy as np
import pytest

from sim2cam.data.sample import Keypoint
from sim2cam.errors import InputError
from sim2cam.geometry.run_length import RleMask
from sim2cam.models.training.images import UNKNOWN_INSTANCE, ImageCache, Tasks, read_annotated_image


def test_outlines_span_the_boxes(make_dataset):
    for with_ids in (True, False):
        data = make_dataset(f"ids {with_ids}", with_ids=with_ids)
        for sample in data.samples:
            picture = read_annotated_image(sample, data.categories)
            assert picture.is_rotatable == with_ids
            for label, outline in zip(sample.objects, picture.outlines, strict=True):
                span = (*outline.min(axis=0), *outline.max(axis=0))
                assert span == label.box_xyxy
            names = [data.categories[i] for i in picture.categories]
            assert names == [o.category for o in sample.objects]


def test_an_object_without_pixels_keeps_its_box_and_forbids_free_turns(make_dataset):
    sample = make_dataset().samples[0]
    hidden = replace(sample.objects[0], instance_id=9)
    picture = read_annotated_image(replace(sample, objects=(hidden,)), ("square", "disc"))
    assert not picture.is_rotatable
    assert len(picture.outlines[0]) == 4


def test_labels_of_another_size_are_refused(make_dataset):
    sample = make_dataset().samples[0]
    with pytest.raises(InputError, match="160x128 pixels, but its labels are for 320x128"):
        read_annotated_image(replace(sample, width=320), ("square", "disc"))


def test_store_decodes_once_within_its_budget(make_dataset):
    data = make_dataset(n=3)
    budget = 2 * 160 * 128 * 3
    store = ImageCache([data.samples], data.categories, budget)
    first = [store.get(0, i) for i in range(3)]
    again = [store.get(0, i) for i in range(3)]
    assert [a is b for a, b in zip(first, again, strict=True)] == [True, True, False]
    assert np.array_equal(first[2].rgb, again[2].rgb)


def test_a_filled_store_needs_no_files_of_what_fits(make_dataset):
    data = make_dataset(n=3)
    wanted = [read_annotated_image(sample, data.categories).rgb for sample in data.samples]
    store = ImageCache([data.samples], data.categories, 2 * 160 * 128 * 3)
    store.preload(processes=2)
    for sample in data.samples:
        sample.rgb.unlink()
    assert np.array_equal(store.get(0, 0).rgb, wanted[0])
    assert np.array_equal(store.get(0, 1).rgb, wanted[1])
    with pytest.raises(InputError):
        store.get(0, 2)


def test_filling_tells_of_what_cannot_be_read(make_dataset):
    data = make_dataset(n=2)
    data.samples[1].rgb.write_bytes(b"no picture")
    with pytest.raises(InputError, match=data.samples[1].rgb.name):
        ImageCache([data.samples], data.categories, 1 << 20).preload(processes=2)


@pytest.fixture
def bricks(write_bricks, tmp_path):
    return write_bricks(tmp_path / "bricks", n=1)


REACHES = Tasks(coordinate_scales_m=np.array([0.03, 0.06]))


def test_points_of_surfaces_are_seen_at_their_pixels(bricks):
    (sample,) = bricks.samples
    picture = read_annotated_image(sample, bricks.categories, REACHES)
    assert picture.object_coordinates.shape == (128, 160, 3)
    for number, (label, reach_m) in enumerate(zip(sample.objects, (0.03, 0.06), strict=True), 1):
        rows, columns = np.nonzero(picture.instance_map == number)
        assert len(rows) == label.area_px
        points = label.pose.apply(reach_m * picture.object_coordinates[rows, columns].astype(float))
        assert sample.lens.project(points) == pytest.approx(np.stack([columns, rows], 1), abs=0.05)
    assert np.isnan(picture.object_coordinates[picture.instance_map == 0]).all()
    assert read_annotated_image(sample, bricks.categories).object_coordinates is None


def test_points_are_not_known_without_both_channels_or_a_size(bricks):
    (sample,) = bricks.samples
    first, second = sample.objects
    unsized = replace(sample, objects=(replace(first, extent_m=None), second))
    points = read_annotated_image(unsized, bricks.categories, REACHES).object_coordinates
    known = read_annotated_image(sample, bricks.categories, REACHES).instance_map == 2
    assert np.array_equal(np.isfinite(points[..., 0]), known)
    for name in ("ids", "coordinates"):
        bare = replace(sample, channels={name: sample.channels[name]})
        assert np.isnan(
            read_annotated_image(bare, bricks.categories, REACHES).object_coordinates
        ).all()


def test_outlines_of_whole_objects_are_their_boxes_and_points_stay(bricks):
    (sample,) = bricks.samples
    whole = replace(sample, objects=tuple(
        replace(o, box_xyxy=tuple(np.add(o.box_xyxy, (0, 0, 0, 20)))) for o in sample.objects
    ))  # fmt: skip
    picture = read_annotated_image(whole, bricks.categories, replace(REACHES, amodal=True))
    assert not picture.is_rotatable
    for label, outline in zip(whole.objects, picture.outlines, strict=True):
        assert (*outline.min(axis=0), *outline.max(axis=0)) == label.box_xyxy
    seen = read_annotated_image(sample, bricks.categories, REACHES)
    assert np.array_equal(picture.object_coordinates, seen.object_coordinates, equal_nan=True)


def test_the_store_counts_points_and_owners(bricks):
    plain = 160 * 128 * 3
    for tasks, budget, is_kept in ((Tasks(), plain, True), (REACHES, plain, False),
                                   (REACHES, plain + 160 * 128 * 8, True)):  # fmt: skip
        store = ImageCache([bricks.samples], bricks.categories, budget, tasks)
        assert (store.get(0, 0) is store.get(0, 0)) == is_kept


def test_keypoints_stand_in_the_order_of_their_category(make_dataset):
    sample = make_dataset().samples[0]
    points = (Keypoint("right_tip", (10.0, 20.0), 2), Keypoint("left_tip", (30.0, 40.0), 1),
              Keypoint("foot", (0.0, 0.0), 0))  # fmt: skip
    known, unknown = (
        replace(sample.objects[0], category="disc", keypoints=p) for p in (points, None)
    )
    names = {"square": (), "disc": ("foot", "left_tip", "right_tip")}
    picture = read_annotated_image(
        replace(sample, objects=(known, unknown)), ("square", "disc"), Tasks(keypoints=names)
    )
    keypoints = picture.keypoints
    assert keypoints.points_xy.shape == (2, 3, 2)
    assert keypoints.points_xy[0, 1:].tolist() == [[30.5, 40.5], [10.5, 20.5]]
    assert np.isnan(keypoints.points_xy[0, 0]).all()
    assert np.isnan(keypoints.points_xy[1]).all()
    assert keypoints.visibility[0, 1:].tolist() == [0, 1]
    assert np.isnan(keypoints.visibility[0, 0])
    assert keypoints.flip_indices.tolist() == [[0, 2, 1]] * 2
    assert read_annotated_image(sample, ("square", "disc")).keypoints is None


def test_owners_are_the_ids_the_masks_or_unknown_boxes(make_dataset):
    sample = make_dataset().samples[0]
    tasks = Tasks(masks=True)
    first, second = sample.objects
    owners = read_annotated_image(sample, ("square", "disc"), tasks).instance_map
    assert [(owners == n).sum() for n in (1, 2)] == [first.area_px, second.area_px]
    turned = replace(sample, objects=(second, first))
    assert np.array_equal(
        read_annotated_image(turned, ("square", "disc"), tasks).instance_map,
        np.array([0, 2, 1])[owners],
    )
    bare = replace(sample, channels={})
    x0, y0, x1, y1 = map(int, first.box_xyxy)
    masked = replace(second, mask=RleMask.from_mask(owners == 2))
    mixed = read_annotated_image(
        replace(bare, objects=(first, masked)), ("square", "disc"), tasks
    ).instance_map
    assert (mixed == UNKNOWN_INSTANCE).sum() == (x1 - x0) * (y1 - y0)
    assert (mixed[y0:y1, x0:x1] == UNKNOWN_INSTANCE).all()
    assert np.array_equal(mixed == 2, owners == 2)
    assert read_annotated_image(sample, ("square", "disc")).instance_map is None
