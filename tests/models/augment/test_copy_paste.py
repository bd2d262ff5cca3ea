from dataclasses import replace

import cv2
import numpy as np
import pytest

from sim2cam.data.sample import Keypoint
from sim2cam.models.augment.copy_paste import paste_objects
from sim2cam.models.training import batches
from sim2cam.models.training.config import TrainConfig
from sim2cam.models.training.images import UNKNOWN_INSTANCE, Tasks, read_annotated_image
from sim2cam.models.training.setup import AuxiliaryData, make_training_setup
from sim2cam.models.training.training import build_batch_maker

TASKS = Tasks(cutouts=True)


def read(data, index=0, tasks=TASKS):
    return read_annotated_image(data.samples[index], data.categories, tasks)


def with_points(picture):
    """Returns a picture whose points tell the pixel that they came from."""
    row, column = np.indices(picture.instance_map.shape)
    points = np.stack([column, row, picture.instance_map], -1).astype(np.float16)
    points[picture.instance_map == 0] = np.nan
    return replace(picture, object_coordinates=points)


def shift_of(other, shown):
    """Returns by how many pixels (x, y) the objects of the other picture were moved."""
    laid = shown.outlines[-len(other.outlines) :]
    moves = {tuple((a - b)[0]) for a, b in zip(laid, other.outlines, strict=True)}
    assert len(moves) == 1
    return np.array(moves.pop())


@pytest.mark.parametrize("amodal", [False, True])
def test_every_pixel_and_label_is_of_one_of_both_pictures(make_dataset, amodal):
    data = make_dataset(n=8)
    covered = cut = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        behind, before = (with_points(read(data, int(rng.integers(8)))) for _ in range(2))
        shown = paste_objects(behind, before, rng, amodal=True)
        left, top = shift_of(before, shown).astype(int)
        if not amodal:
            shown = paste_objects(behind, before, reset(seed), amodal=False)
        n, height, width = len(behind.outlines), *behind.instance_map.shape
        row, column = np.indices((height, width))
        from_row, from_column = row - top, column - left
        there = (from_row >= 0) & (from_row < height) & (from_column >= 0) & (from_column < width)
        laid = np.where(
            there,
            before.instance_map[from_row.clip(0, height - 1), from_column.clip(0, width - 1)],
            0,
        )
        assert np.array_equal(shown.instance_map, np.where(laid > 0, laid + n, behind.instance_map))
        inside, outside = (
            cv2.erode(m.astype(np.uint8), np.ones((3, 3))) > 0 for m in (laid > 0, laid == 0)
        )
        source = before.rgb[from_row[inside], from_column[inside]]
        assert np.array_equal(shown.rgb[inside], source)
        assert np.array_equal(shown.rgb[outside], behind.rgb[outside])
        points = before.object_coordinates[from_row[laid > 0], from_column[laid > 0]]
        assert np.array_equal(shown.object_coordinates[laid > 0], points, equal_nan=True)
        assert np.array_equal(
            shown.object_coordinates[laid == 0],
            behind.object_coordinates[laid == 0],
            equal_nan=True,
        )
        assert shown.categories.tolist() == [*behind.categories, *before.categories]
        for number in range(1, 2 * n + 1):
            one = behind if number <= n else before
            mine = one.instance_map == (number if number <= n else number - n)
            seen = shown.instance_map == number
            assert shown.visible_fractions[number - 1] == pytest.approx(seen.sum() / mine.sum())
            assert shown.ignored[number - 1] == (not seen.any())
            if not amodal and seen.any():
                rows, columns = np.nonzero(seen)
                outline = shown.outlines[number - 1]
                assert outline.min(axis=0).tolist() == [columns.min(), rows.min()]
                assert outline.max(axis=0).tolist() == [columns.max() + 1, rows.max() + 1]
            covered += number <= n and seen.sum() < mine.sum()
            cut += number > n and seen.sum() < mine.sum()
    assert covered > 20
    assert cut > 5


def reset(seed):
    """Returns the generator of a seed as it is after both pictures were drawn."""
    rng = np.random.default_rng(seed)
    rng.integers(8), rng.integers(8)
    return rng


def test_pictures_of_another_size_are_laid_too(make_dataset):
    behind = read(make_dataset())
    wide = read(make_dataset())
    wide = replace(
        wide,
        rgb=np.pad(wide.rgb, ((7, 90), (0, 33), (0, 0))),
        instance_map=np.pad(wide.instance_map, ((7, 90), (0, 33))),
        outlines=tuple(outline + np.array([0, 7]) for outline in wide.outlines),
    )
    for one, other in ((behind, wide), (wide, behind)):
        for seed in range(10):
            shown = paste_objects(one, other, np.random.default_rng(seed), amodal=True)
            assert shown.rgb.shape == one.rgb.shape
            assert shown.instance_map.shape == one.instance_map.shape
            assert (shown.instance_map > len(one.outlines)).any()


def test_what_lay_outside_its_picture_stays_hidden(make_dataset):
    data = make_dataset()
    half = replace(
        read(data), inside_fractions=np.array([0.5, 1.0]), visible_fractions=np.array([0.8, 1.0])
    )
    for seed in range(20):
        shown = paste_objects(read(data), half, np.random.default_rng(seed), amodal=True)
        assert (shown.inside_fractions == 1).all()
        seen = [
            (shown.instance_map == number).sum() / (half.instance_map == number - 2).sum()
            for number in (3, 4)
        ]
        assert shown.visible_fractions[2:] == pytest.approx([0.8 * 0.5 * seen[0], seen[1]])


def test_keypoints_move_and_those_behind_others_are_not_seen(make_dataset):
    data = make_dataset()
    first, second = data.samples[0].objects
    middle = [float(v) for v in read(data).outlines[0].mean(axis=0)]
    points = (Keypoint("left", (middle[0], middle[1]), 2), Keypoint("right", (-20.0, 500.0), 1))
    objects = (replace(first, keypoints=points), replace(second, keypoints=()))
    sample = replace(data.samples[0], objects=objects)
    names = dict.fromkeys(data.categories, ("left", "right"))
    picture = read_annotated_image(sample, data.categories, Tasks(cutouts=True, keypoints=names))
    hidden = 0
    for seed in range(30):
        shown = paste_objects(picture, picture, np.random.default_rng(seed), amodal=True)
        shift = shift_of(picture, shown)
        own, laid = shown.keypoints.points_xy[:2], shown.keypoints.points_xy[2:]
        assert np.array_equal(own, picture.keypoints.points_xy, equal_nan=True)
        assert np.array_equal(laid, picture.keypoints.points_xy + shift, equal_nan=True)
        column, row = np.floor(own[0, 0]).astype(int)
        is_hidden = shown.instance_map[row, column] > 2
        assert shown.keypoints.visibility[0, 0] == (0.0 if is_hidden else 1.0)
        hidden += is_hidden
    assert 0 < hidden < 30


def test_pictures_whose_pixels_are_not_known_stay(make_dataset):
    known, photo = read(make_dataset()), read(make_dataset("photos", with_ids=False))
    bare = replace(known, outlines=())
    assert (photo.instance_map == UNKNOWN_INSTANCE).any()
    unowned = read(make_dataset("other"), tasks=Tasks())
    rng = np.random.default_rng(0)
    for strange in (photo, unowned, bare):
        assert paste_objects(known, strange, rng, amodal=False) is known
        assert paste_objects(strange, known, rng, amodal=False) is strange


CONFIG = TrainConfig(steps=4, batch=2, crop_px=64, warmup_steps=1, copy_paste=True)


def test_pictures_get_the_objects_of_none_one_or_two_others(make_dataset, monkeypatch):
    data = make_dataset(n=4)
    lesson = make_training_setup(((data, 1.0),), CONFIG, AuxiliaryData())
    counts = []
    draw = batches.sample_crop

    def noted(picture, rules, rng):
        counts.append(len(picture.outlines))
        return draw(picture, rules, rng)

    monkeypatch.setattr(batches, "sample_crop", noted)
    maker = build_batch_maker(lesson.datasets, lesson.categories, lesson.tasks, CONFIG)
    for step in range(60):
        maker.make(step)
    assert {n: 0.2 < counts.count(n) / len(counts) < 0.47 for n in (2, 4, 6)} == {
        2: True, 4: True, 6: True,
    }  # fmt: skip
