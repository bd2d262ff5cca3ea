from dataclasses import replace

import numpy as np
import pytest

from sim2cam.models.augment.crops import CropConfig, sample_crop
from sim2cam.models.training.images import (
    UNKNOWN_INSTANCE,
    AnnotatedImage,
    Keypoints,
    read_annotated_image,
)

PLAIN = CropConfig(crop_px=64, scale_range=(1.0, 1.0), rotate_90=False, rotate_any=False,
                  flips=False)  # fmt: skip


def picture_of(*boxes, size=(128, 160), visible=1.0, crowd=False):
    corners = [np.array([[a, b], [c, b], [c, d], [a, d]], float) for a, b, c, d in boxes]
    rgb = np.full((*size, 3), 100, np.uint8)
    for x0, y0, x1, y1 in boxes:
        rgb[y0:y1, x0:x1] = 250
    return AnnotatedImage(
        rgb=rgb,
        outlines=tuple(corners),
        categories=np.arange(len(boxes)),
        ignored=np.full(len(boxes), crowd),
        visible_fractions=np.full(len(boxes), visible),
        inside_fractions=np.ones(len(boxes)),
        is_rotatable=False,
    )


def bright_box(rgb):
    bright = rgb.mean(axis=2) > 175
    rows, columns = np.flatnonzero(bright.any(axis=1)), np.flatnonzero(bright.any(axis=0))
    return columns[0], rows[0], columns[-1] + 1, rows[-1] + 1


@pytest.mark.parametrize("scale", [0.5, 0.7, 1.0, 1.7])
@pytest.mark.parametrize("turned", [False, True])
def test_boxes_lie_on_what_the_crop_shows(scale, turned):
    picture = picture_of((60, 40, 92, 80))
    rules = CropConfig(crop_px=96, scale_range=(scale, scale), rotate_90=turned, flips=turned,
                      rotate_any=False)  # fmt: skip
    seen = 0
    for seed in range(20):
        crop = sample_crop(picture, rules, np.random.default_rng(seed))
        assert crop.rgb.shape == (96, 96, 3)
        if len(crop.boxes_xyxy):
            seen += 1
            assert crop.boxes_xyxy[0] == pytest.approx(bright_box(crop.rgb), abs=1.0)
    assert seen >= 12


@pytest.mark.parametrize("visible", [1.0, 0.7])
def test_categories_are_learned_of_what_is_seen_well_enough(visible):
    picture = picture_of((60, 40, 92, 80), visible=visible)
    rules = replace(PLAIN, min_category_visible=0.6)
    shares = {True: [], False: []}
    for seed in range(60):
        crop = sample_crop(picture, rules, np.random.default_rng(seed))
        for (x0, y0, x1, y1), is_read in zip(crop.boxes_xyxy, crop.has_category, strict=True):
            shares[bool(is_read)].append(visible * (x1 - x0) * (y1 - y0) / (32 * 40))
    assert min(shares[True]) >= 0.6 > max(shares[False])
    assert max(shares[True]) == visible
    assert sample_crop(picture, PLAIN, np.random.default_rng(0)).has_category is None


def test_without_any_change_pixels_are_copied():
    rng = np.random.default_rng(0)
    picture = picture_of((60, 40, 92, 80))
    picture.rgb[:] = rng.integers(0, 256, picture.rgb.shape)
    crop = sample_crop(picture, CropConfig(crop_px=64, scale_range=(1, 1), rotate_90=True,
                     rotate_any=False, flips=True), np.random.default_rng(1))  # fmt: skip
    assert crop.rgb.max() > 200
    small = picture_of((8, 8, 56, 56), size=(64, 64))
    small.rgb[:] = rng.integers(0, 256, small.rgb.shape)
    assert np.array_equal(sample_crop(small, PLAIN, np.random.default_rng(0)).rgb, small.rgb)
    turned = CropConfig(crop_px=64, scale_range=(1, 1), rotate_any=False)
    looks = {
        sample_crop(small, turned, np.random.default_rng(seed)).rgb.tobytes() for seed in range(60)
    }
    expected = {
        np.rot90(mirrored, k).tobytes()
        for mirrored in (small.rgb, small.rgb[:, ::-1])
        for k in range(4)
    }
    assert looks == expected


def test_free_turns_keep_boxes_tight_around_the_mask(make_dataset):
    data = make_dataset(n=4)
    rules = CropConfig(crop_px=96, scale_range=(1.0, 1.5), flips=True)
    checked = 0
    for sample in data.samples:
        picture = read_annotated_image(sample, data.categories)
        assert picture.is_rotatable
        for seed in range(12):
            crop = sample_crop(picture, rules, np.random.default_rng(seed))
            coloured = np.ptp(crop.rgb.astype(int), axis=2) > 100
            for x0, y0, x1, y1 in crop.boxes_xyxy:
                if min(x0, y0) <= 0 or max(x1, y1) >= 95:
                    continue  # cut at the edge, where boxes may be loose
                inside = coloured[int(y0) : int(y1) + 1, int(x0) : int(x1) + 1]
                rows = np.flatnonzero(inside.any(axis=1))
                columns = np.flatnonzero(inside.any(axis=0))
                assert len(rows) == pytest.approx(y1 - y0, abs=2.5)
                assert len(columns) == pytest.approx(x1 - x0, abs=2.5)
                checked += 1
    assert checked > 15


def test_objects_whose_centre_is_outside_are_ignored_not_denied():
    picture = picture_of((0, 0, 40, 40), (58, 0, 78, 40), size=(64, 160))
    rules = CropConfig(crop_px=64, scale_range=(1, 1), rotate_90=False, rotate_any=False,
                      flips=False)  # fmt: skip
    for seed in range(30):
        crop = sample_crop(picture, rules, np.random.default_rng(seed))
        total = len(crop.boxes_xyxy) + len(crop.ignored_boxes_xyxy)
        for box in np.concatenate([crop.boxes_xyxy, crop.ignored_boxes_xyxy]):
            assert (box >= 0).all()
            assert (box <= 64).all()
        shown = (crop.rgb.mean(axis=2) > 175).any()
        assert (total > 0) == shown


@pytest.mark.parametrize(
    "kind", [{"visible": 0.2}, {"crowd": True}], ids=["hardly visible", "group"]
)
def test_what_is_not_known_is_ignored(kind):
    crop = sample_crop(picture_of((20, 20, 40, 40), **kind), PLAIN, np.random.default_rng(0))
    assert len(crop.boxes_xyxy) == 0
    assert len(crop.ignored_boxes_xyxy) == 1


def test_too_small_objects_are_ignored():
    rules = CropConfig(crop_px=64, scale_range=(0.5, 0.5))
    crop = sample_crop(picture_of((60, 60, 70, 70)), rules, np.random.default_rng(0))
    assert len(crop.boxes_xyxy) == 0


def dots_on(picture, places):
    """The picture with a bright dot of 5 pixels at each keypoint (1, k, 2)."""
    for x, y in np.rint(places.reshape(-1, 2) - 0.5).astype(int):
        picture.rgb[y - 2 : y + 3, x - 2 : x + 3] = 255
    count = places.shape[:2]
    return replace(picture, keypoints=Keypoints(places, np.ones(count), np.zeros(count, int)))


@pytest.mark.parametrize("scale", [0.6, 1.0, 1.8])
@pytest.mark.parametrize("turned", ["not", "quarter", "free"])
def test_keypoints_lie_where_the_crop_shows_them(scale, turned):
    rng = np.random.default_rng(5)
    grid = np.stack(np.meshgrid(np.arange(20, 141, 40), (24, 100)), -1)
    places = grid.reshape(1, 8, 2) + rng.integers(-6, 7, (1, 8, 2)) + 0.5
    picture = dots_on(replace(picture_of((70, 50, 82, 74)), is_rotatable=True), places)
    rules = CropConfig(crop_px=96, scale_range=(scale, scale), rotate_90=turned != "not",
                      rotate_any=turned == "free", flips=False)  # fmt: skip
    checked = 0
    for seed in range(60):
        crop = sample_crop(picture, rules, np.random.default_rng(seed))
        assert crop.keypoints.points_xy.shape == (len(crop.boxes_xyxy), 8, 2)
        for place in crop.keypoints.points_xy.reshape(-1, 2):
            reach = 5 * scale  # around a dot, and away from the bright object
            x, y = place
            if not (reach < x < 96 - reach and reach < y < 96 - reach):
                continue
            low = np.floor(place - reach).astype(int)
            window = crop.rgb[low[1] : low[1] + int(2 * reach), low[0] : low[0] + int(2 * reach)]
            weight = np.clip(window[..., 0].astype(float) - 150, 0, None)
            rows, columns = np.mgrid[: window.shape[0], : window.shape[1]] + 0.5
            middle = (weight * columns).sum(), (weight * rows).sum()
            seen = low + np.array(middle) / weight.sum()
            assert seen == pytest.approx(place, abs=0.35 + 0.15 * scale)
            checked += 1
    assert checked > 5


def test_keypoints_are_those_of_the_objects_that_are_learned():
    picture = picture_of((20, 20, 40, 40), (44, 20, 47, 40))  # the second is too small
    places = np.arange(32.0).reshape(2, 8, 2)
    labels = Keypoints(places, np.ones((2, 8)), np.zeros((2, 8), int))
    crop = sample_crop(replace(picture, keypoints=labels), PLAIN, np.random.default_rng(0))
    assert len(crop.boxes_xyxy) == len(crop.keypoints.points_xy) == 1
    assert np.ptp(crop.keypoints.points_xy - places[0], axis=(0, 1)) == pytest.approx((0, 0))
    assert sample_crop(picture, PLAIN, np.random.default_rng(0)).keypoints is None


COLOURS = ((255, 0, 0), (0, 255, 0), (0, 0, 255))  # of the left point, the right one and the nose


def face_of(mirrored, seen=(1.0, 0.0, 1.0)):
    """A picture of one object with three coloured dots for keypoints."""
    picture = picture_of((60, 40, 100, 90))
    picture.rgb[:] = 100
    places = np.array([(70.5, 50.5), (90.5, 54.5), (78.5, 80.5)])
    for (x, y), colour in zip(places.astype(int), COLOURS, strict=True):
        picture.rgb[y - 3 : y + 4, x - 3 : x + 4] = colour
    points = Keypoints(places[None], np.array([seen]), np.array([mirrored]))
    return replace(picture, keypoints=points)


@pytest.mark.parametrize("scale", [0.8, 1.5])
def test_a_mirrored_crop_calls_left_what_was_right(scale):
    rules = CropConfig(crop_px=96, scale_range=(scale, scale), rotate_any=False)
    mirrored = plain = 0
    for seed in range(40):
        crop = sample_crop(face_of((1, 0, 2)), rules, np.random.default_rng(seed))
        same = sample_crop(face_of((0, 1, 2)), rules, np.random.default_rng(seed))
        assert np.array_equal(crop.rgb, same.rgb)
        if not len(crop.boxes_xyxy):
            continue
        dots = same.keypoints.points_xy[0]
        inside = ((dots > 4) & (dots < 92)).all(axis=1)
        for (x, y), colour, shown in zip(dots, COLOURS, inside, strict=True):
            if shown:
                assert np.abs(crop.rgb[int(y), int(x)].astype(int) - colour).max() < 40
        handed = np.linalg.det([dots[1] - dots[0], dots[2] - dots[0]]) > 0
        order = [0, 1, 2] if handed else [1, 0, 2]
        assert np.array_equal(crop.keypoints.points_xy[0], dots[order])
        if inside.all():
            assert crop.keypoints.visibility[0].tolist() == [[1, 0, 1][i] for i in order]
            mirrored, plain = mirrored + (not handed), plain + handed
    assert min(mirrored, plain) > 5


def test_whether_a_keypoint_beyond_the_edge_is_seen_is_not_known():
    unknown = 0
    for seed in range(30):
        crop = sample_crop(face_of((0, 1, 2)), PLAIN, np.random.default_rng(seed))
        if len(crop.boxes_xyxy):
            inside = ((crop.keypoints.points_xy >= 0) & (crop.keypoints.points_xy < 64)).all(
                axis=-1
            )[0]
            assert np.isnan(crop.keypoints.visibility[0]).tolist() == (~inside).tolist()
            unknown += (~inside).sum()
    assert unknown > 0


def test_images_smaller_than_a_crop_are_padded_with_the_mean():
    crop = sample_crop(picture_of((4, 4, 20, 20), size=(32, 32)), PLAIN, np.random.default_rng(0))
    assert crop.rgb[0, 0] == pytest.approx([124, 116, 104], abs=1)
    assert crop.boxes_xyxy[0] == pytest.approx([20, 20, 36, 36])


def test_images_without_objects_are_cropped_too():
    crop = sample_crop(picture_of(), PLAIN, np.random.default_rng(0))
    assert crop.boxes_xyxy.shape == crop.ignored_boxes_xyxy.shape == (0, 4)


def segmented(*boxes, **options):
    """A picture of bright objects, each of its pixels labelled with its number."""
    picture = picture_of(*boxes, **options)
    owners = np.zeros(picture.rgb.shape[:2], np.uint16)
    for number, (x0, y0, x1, y1) in enumerate(boxes, 1):
        owners[y0:y1, x0:x1] = number
    return replace(picture, instance_map=owners, is_rotatable=True)


@pytest.mark.parametrize("scale", [0.8, 1.5])
def test_cells_show_what_the_crop_shows_and_point_to_its_centre(scale):
    rules = CropConfig(crop_px=128, scale_range=(scale, scale))
    picture = segmented((40, 30, 92, 80), (100, 60, 140, 118))
    checked = 0
    for seed in range(30):
        crop = sample_crop(picture, rules, np.random.default_rng(seed))
        shown, votes = crop.segmentation.semantic, crop.segmentation.centre_offsets
        assert shown.shape == votes.shape[1:] == (32, 32)
        middles = crop.rgb.reshape(32, 4, 32, 4, 3)[:, 1:3, :, 1:3].mean(axis=(1, 3, 4))
        clear = (middles > 240) | (middles < 110)  # neither at an edge
        assert ((shown > 0) == (middles > 175))[clear].all()
        for box, category in zip(crop.boxes_xyxy, crop.categories, strict=True):
            if (box > 0).all() and (box < 128).all():  # not cut
                rows, columns = np.nonzero(shown == category + 1)
                centre = (box[:2] + box[2:]) / 2
                pointed = 4 * (np.array([columns, rows]) + 0.5) + 16 * votes[:, rows, columns]
                assert pytest.approx(np.tile(centre, (len(rows), 1))) == pointed.T
                checked += 1
        assert np.abs(votes[:, shown <= 0]).max(initial=0) == 0
    assert checked > 10


def test_cells_of_what_is_not_learned_are_not_known():
    box = (30, 30, 90, 90)
    for picture in (
        segmented(box, visible=0.1),
        segmented(box, crowd=True),
        replace(segmented(box), instance_map=np.full((128, 160), UNKNOWN_INSTANCE, np.uint16)),
    ):
        shown = sample_crop(picture, PLAIN, np.random.default_rng(0)).segmentation.semantic
        assert set(shown.ravel()) <= {0, -1}
        assert (shown == -1).any()
    assert sample_crop(picture_of(box), PLAIN, np.random.default_rng(0)).segmentation is None


def hiding(boxes, owners):
    """A picture of whole objects, of which pixels (h, w) show what is not hidden."""
    picture = picture_of(*boxes, size=owners.shape)
    return replace(picture, instance_map=owners.astype(np.uint16))


def test_crops_know_what_they_show_of_whole_objects():
    owners = np.zeros((128, 160))
    owners[40:80, 60:92] = 1  # half of which another one hides
    owners[40:80, 76:124] = 2
    picture = hiding([(60, 40, 108, 80), (76, 40, 124, 80), (4, 4, 30, 30)], owners)
    rules = replace(PLAIN, amodal=True, scale_range=(0.5, 2.0), flips=True, rotate_90=True)
    counts = np.zeros(3)
    for seed in range(60):
        crop = sample_crop(picture, rules, np.random.default_rng(seed))
        for whole, seen, category in zip(
            crop.boxes_xyxy, crop.visible_boxes_xyxy, crop.categories, strict=True
        ):
            counts[category] += 1
            assert (seen[:2] >= whole[:2] - 1e-9).all()
            assert (seen[2:] <= whole[2:] + 1e-9).all()
            alone = np.uint8(250) * (picture.instance_map == category + 1)[..., None].repeat(3, 2)
            shown = sample_crop(replace(picture, rgb=alone), rules, np.random.default_rng(seed)).rgb
            if (seen[2:] - seen[:2]).min() > 2:
                assert seen == pytest.approx(bright_box(shown), abs=1.5)
    assert counts[:2].min() > 20
    assert counts[2] == 0  # nothing of it is seen
    assert sample_crop(picture, PLAIN, np.random.default_rng(0)).visible_boxes_xyxy is None


def test_of_what_a_crop_does_not_show_nothing_is_learned():
    owners = np.zeros((64, 200))
    owners[10:50, 150:170] = 1
    picture = hiding([(20, 10, 170, 50)], owners)
    ignored = learned = 0
    for seed in range(60):
        crop = sample_crop(picture, replace(PLAIN, amodal=True), np.random.default_rng(seed))
        learned += len(crop.boxes_xyxy)
        ignored += len(crop.ignored_boxes_xyxy)
        assert all(x1 > x0 for x0, _, x1, _ in crop.visible_boxes_xyxy)
    assert ignored > 10
    plain = [sample_crop(picture, PLAIN, np.random.default_rng(s)).boxes_xyxy for s in range(60)]
    assert sum(map(len, plain)) > learned


@pytest.mark.parametrize("owners", [None, UNKNOWN_INSTANCE])
def test_where_pixels_are_not_known_boxes_stand_for_what_is_seen(owners):
    picture = picture_of((60, 40, 92, 80))
    if owners is not None:
        picture = replace(picture, instance_map=np.full((128, 160), owners, np.uint16))
    for seed in range(10):
        crop = sample_crop(picture, replace(PLAIN, amodal=True), np.random.default_rng(seed))
        assert np.array_equal(crop.visible_boxes_xyxy, crop.boxes_xyxy)
