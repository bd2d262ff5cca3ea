import json
from dataclasses import replace

import cv2
import numpy as np
import pytest

from sim2cam.data.real_images import read_real_images
from sim2cam.data.sample import Dataset, Keypoint
from sim2cam.data.set_operations import merge_datasets, strip_annotations
from sim2cam.errors import CheckpointError, InputError
from sim2cam.files import write_bytes
from sim2cam.geometry.run_length import RleMask
from sim2cam.images import encode_png
from sim2cam.models.augment import backgrounds
from sim2cam.models.augment.backgrounds import BackgroundAugmentation
from sim2cam.models.augment.crops import CropConfig, sample_crop
from sim2cam.models.network.targets import make_targets
from sim2cam.models.training.config import TrainConfig
from sim2cam.models.training.images import UNKNOWN_INSTANCE, Tasks, read_annotated_image
from sim2cam.models.training.setup import AuxiliaryData
from sim2cam.models.training.training import train_detector
from tests.support.interruption import assert_resumes_exactly

GREEN = (20, 200, 60)
TASKS = Tasks(cutouts=True)


@pytest.fixture
def pictures(tmp_path):
    """A function that returns captures of one colour, of several sizes (width, height)."""

    def make(*sizes, name="anything"):
        for index, (width, height) in enumerate(sizes):
            rgb = np.full((height, width, 3), GREEN, np.uint8)
            write_bytes(tmp_path / name / f"{index}.png", encode_png(rgb))
        return read_real_images(tmp_path / name)

    return make


def around(backdrops, picture, monkeypatch, *, behind, before, seed=0):
    """Returns the picture with or without backdrop and pieces."""
    monkeypatch.setattr(backgrounds, "BACKGROUND_PROBABILITY", float(behind))
    monkeypatch.setattr(backgrounds, "OCCLUDER_PROBABILITY", float(before))
    return backdrops.apply(picture, np.random.default_rng(seed))


def read(data, index=0, tasks=TASKS):
    return read_annotated_image(data.samples[index], data.categories, tasks)


@pytest.mark.parametrize("sizes", [((160, 128),), ((12, 9),), ((60, 400),), ((700, 90),)])
def test_objects_keep_their_pixels_before_another_backdrop(
    make_dataset, pictures, monkeypatch, sizes
):
    backdrops = BackgroundAugmentation(pictures(*sizes), 1 << 24, amodal=False)
    picture = read(make_dataset())
    shown = around(backdrops, picture, monkeypatch, behind=True, before=False)
    is_object = (picture.instance_map > 0).astype(np.uint8)
    inside, outside = (cv2.erode(m, np.ones((3, 3))) > 0 for m in (is_object, 1 - is_object))
    assert np.array_equal(shown.rgb[inside], picture.rgb[inside])
    assert (shown.rgb[outside] == GREEN).all()
    edge = shown.rgb[~inside & ~outside].astype(int)
    assert (edge != GREEN).any(axis=-1).mean() > 0.9  # mixed, as behind a lens
    assert shown.instance_map is picture.instance_map
    assert shown.outlines is picture.outlines
    same = around(backdrops, picture, monkeypatch, behind=False, before=False)
    assert same is picture


@pytest.mark.parametrize("amodal", [False, True])
def test_labels_know_of_the_pieces(make_dataset, pictures, monkeypatch, amodal):
    backdrops = BackgroundAugmentation(pictures((160, 128)), 1 << 24, amodal=amodal)
    data = make_dataset(n=8)
    hidden = shrunk = 0
    for index in range(8):
        for seed in range(10):
            picture = read(data, index)
            shown = around(backdrops, picture, monkeypatch, behind=False, before=True, seed=seed)
            for number in (1, 2):
                mine, left = picture.instance_map == number, shown.instance_map == number
                assert not (left & ~mine).any()
                covered = cv2.erode((mine & ~left).astype(np.uint8), np.ones((3, 3))) > 0
                assert (shown.rgb[covered] == GREEN).all()
                kept = cv2.erode(left.astype(np.uint8), np.ones((3, 3))) > 0
                assert np.array_equal(shown.rgb[kept], picture.rgb[kept])
                assert shown.visible_fractions[number - 1] == pytest.approx(left.sum() / mine.sum())
                assert shown.ignored[number - 1] == (not left.any())
                outline = shown.outlines[number - 1]
                if amodal or not left.any():
                    assert np.array_equal(outline, picture.outlines[number - 1])
                else:
                    rows, columns = np.nonzero(left)
                    assert outline.min(axis=0).tolist() == [columns.min(), rows.min()]
                    assert outline.max(axis=0).tolist() == [columns.max() + 1, rows.max() + 1]
                    shrunk += not np.array_equal(outline, picture.outlines[number - 1])
                hidden += (left.sum() < mine.sum()) / 160
    assert 0.25 < hidden < 0.5
    assert bool(shrunk) == (not amodal)


def test_what_is_hidden_altogether_is_not_known(make_dataset, pictures, monkeypatch):
    backdrops = BackgroundAugmentation(pictures((160, 128)), 1 << 24, amodal=False)
    picture = read(make_dataset())
    monkeypatch.setattr(
        backgrounds, "_sample_occluders", lambda picture, rng: picture.instance_map == 1
    )
    shown = around(backdrops, picture, monkeypatch, behind=False, before=True)
    assert shown.ignored.tolist() == [True, False]
    assert shown.visible_fractions.tolist() == [0.0, 1.0]


def test_keypoints_under_pieces_are_not_seen(make_dataset, pictures, monkeypatch):
    data = make_dataset()
    first, second = data.samples[0].objects
    points = (
        Keypoint("left", (40.0, 42.0), 2),
        Keypoint("right", (44.0, 42.0), 1),
        Keypoint("far", (-20.0, 500.0), 1),
    )
    sample = replace(
        data.samples[0], objects=(replace(first, keypoints=points), replace(second, keypoints=()))
    )
    names = dict.fromkeys(data.categories, ("left", "right", "far"))
    picture = read_annotated_image(sample, data.categories, Tasks(cutouts=True, keypoints=names))
    backdrops = BackgroundAugmentation(pictures((160, 128)), 1 << 24, amodal=False)
    for number, seen in ((1, 0.0), (2, 1.0)):
        where = picture.instance_map == number
        monkeypatch.setattr(
            backgrounds, "_sample_occluders", lambda picture, rng, where=where: where
        )
        shown = around(backdrops, picture, monkeypatch, behind=False, before=True)
        assert shown.keypoints.visibility[0].tolist() == [seen, 0.0, 0.0]
        assert np.isnan(shown.keypoints.visibility[1]).all()
        assert shown.keypoints.points_xy is picture.keypoints.points_xy


def test_pictures_of_which_pixels_are_not_known_stay(make_dataset, pictures):
    backdrops = BackgroundAugmentation(pictures((160, 128)), 1 << 24, amodal=False)
    photo = read(make_dataset(with_ids=False))
    assert (photo.instance_map == UNKNOWN_INSTANCE).any()
    unowned = read(make_dataset("other"), tasks=Tasks())
    for seed in range(8):
        for picture in (photo, unowned):
            assert backdrops.apply(picture, np.random.default_rng(seed)) is picture


def test_equal_seeds_give_equal_pictures(make_dataset, tmp_path):
    others = strip_annotations(make_dataset("backdrops", n=4, seed=3))
    backdrops = BackgroundAugmentation(others, 1 << 24, amodal=False)
    picture = read(make_dataset())
    seen = set()
    for seed in range(12):
        one, other = (backdrops.apply(picture, np.random.default_rng(seed)) for _ in range(2))
        assert np.array_equal(one.rgb, other.rgb)
        seen.add(one.rgb.tobytes())
    assert len(seen) > 7


def test_target_images_are_backgrounds_that_may_show_objects(make_dataset, pictures, monkeypatch):
    monkeypatch.setattr(backgrounds, "BACKGROUND_PROBABILITY", 1.0)
    monkeypatch.setattr(backgrounds, "OCCLUDER_PROBABILITY", 1.0)
    picture = read(make_dataset())
    targets = pictures((160, 128))
    alone = BackgroundAugmentation(None, 1 << 24, amodal=False, target_images=targets)
    for seed in range(6):
        shown = alone.apply(picture, np.random.default_rng(seed))
        assert (shown.rgb[picture.instance_map == 0] == GREEN).all(axis=-1).mean() > 0.9
        assert not shown.is_fully_labelled  # so that the rest is no negative
        assert shown.instance_map is picture.instance_map  # no occluders from target images
    others = strip_annotations(make_dataset("others", n=2, seed=3))
    both = BackgroundAugmentation(others, 1 << 24, amodal=False, target_images=targets)
    shown = [both.apply(picture, np.random.default_rng(seed)) for seed in range(40)]
    is_target = [
        (image.rgb[picture.instance_map == 0] == GREEN).all(axis=-1).mean() > 0.8 for image in shown
    ]
    assert [not image.is_fully_labelled for image in shown] == is_target
    assert 10 < sum(is_target) < 30


def test_what_target_images_show_is_no_negative(make_dataset, pictures, monkeypatch):
    monkeypatch.setattr(backgrounds, "BACKGROUND_PROBABILITY", 1.0)
    picture = read(make_dataset())
    targets = pictures((160, 128))
    on_target = BackgroundAugmentation(None, 1 << 24, amodal=False, target_images=targets).apply(
        picture, np.random.default_rng(0)
    )
    config = CropConfig(crop_px=128, scale_range=(1.0, 1.0), rotate_any=False)
    for image, is_negative in ((picture, True), (on_target, False)):
        crop = sample_crop(image, config, np.random.default_rng(1))
        labels = make_targets(
            crop.boxes_xyxy,
            crop.categories,
            crop.ignored_boxes_xyxy,
            (128, 128),
            is_fully_labelled=crop.is_fully_labelled,
        )
        rows, columns = np.mgrid[:32, :32] * 4 + 2
        is_outside = np.ones((32, 32), np.bool_)
        for x0, y0, x1, y1 in crop.boxes_xyxy:
            inside = (x0 - 4 <= columns) & (columns <= x1 + 4) & (y0 - 4 <= rows) & (rows <= y1 + 4)
            is_outside &= ~inside
        assert len(crop.boxes_xyxy) > 0
        assert is_outside.mean() > 0.5
        assert (labels.heatmap_weight[is_outside] > 0).all() == is_negative
        assert (labels.heatmap_weight[is_outside] > 0).any() == is_negative
        assert (labels.heatmap_weight > 0).any()


def test_photographs_are_not_enlarged(make_dataset, tmp_path, monkeypatch):
    monkeypatch.setattr(backgrounds, "BACKGROUND_PROBABILITY", 1.0)
    monkeypatch.setattr(backgrounds, "OCCLUDER_PROBABILITY", 0.0)
    checks = (np.indices((20, 20)).sum(0) % 2 * 255).astype(np.uint8)
    write_bytes(tmp_path / "small/a.png", encode_png(np.dstack([checks] * 3)))
    images = read_real_images(tmp_path / "small")
    picture = read(make_dataset())
    for seed in range(6):
        shown = BackgroundAugmentation(images, 1 << 24, amodal=False).apply(
            picture, np.random.default_rng(seed)
        )
        background = cv2.erode((picture.instance_map == 0).astype(np.uint8), np.ones((5, 5))) > 0
        values = shown.rgb[background][:, 0]
        assert set(np.unique(values)) <= {0, 255}  # enlarged, they would be grey in between


def test_sources_are_as_frequent_as_their_shares(make_dataset, pictures, monkeypatch):
    monkeypatch.setattr(backgrounds, "BACKGROUND_PROBABILITY", 1.0)
    monkeypatch.setattr(backgrounds, "OCCLUDER_PROBABILITY", 0.0)
    green = pictures((160, 128), name="green")
    others = strip_annotations(make_dataset("others", n=5, seed=3))
    images = merge_datasets([green, others])
    picture = read(make_dataset())
    for shares, expected in ((((1, 3.0), (5, 1.0)), 0.75), ((), 1 / 6)):
        mixed = BackgroundAugmentation(images, 1 << 24, amodal=False, shares=shares)
        count = sum(
            (
                mixed.apply(picture, np.random.default_rng(seed)).rgb[picture.instance_map == 0]
                == GREEN
            )
            .all(axis=-1)
            .mean()
            > 0.8
            for seed in range(60)
        )
        assert abs(count / 60 - expected) < 0.15


CONFIG = TrainConfig(steps=4, batch=2, crop_px=64, warmup_steps=1)


def test_a_training_before_backdrops_resumes_exactly_and_its_card_names_them(
    make_dataset, pictures, tmp_path
):
    parts = ((make_dataset(), 1.0),)
    aids = AuxiliaryData(background_images=pictures((160, 128), (50, 40)))

    def train(run, **options):
        return train_detector(
            parts, CONFIG, run, auxiliary_data=aids, log_interval_steps=2, **options
        )

    detector = assert_resumes_exactly(train, tmp_path)
    with pytest.raises(CheckpointError, match="background_images"):
        train_detector(parts, CONFIG, tmp_path / "cut", resume=True)
    whole = tmp_path / "whole"
    assert (detector.card.background_images.name, detector.card.background_images.images) == (
        "anything",
        2,
    )
    assert (
        json.loads((whole / "weights.json").read_text())["background_images"]["name"] == "anything"
    )
    bare = train_detector(parts, CONFIG, tmp_path / "bare")
    assert bare.card.background_images is None
    weights = (tmp_path / "bare" / "weights.safetensors").read_bytes()
    assert weights != (whole / "weights.safetensors").read_bytes()


def test_masks_alone_are_cut_out(make_dataset, pictures, tmp_path):
    data = make_dataset()
    masked = []
    for index, sample in enumerate(data.samples):
        owners = read(data, index).instance_map
        objects = tuple(
            replace(o, mask=RleMask.from_mask(owners == o.instance_id)) for o in sample.objects
        )
        masked.append(replace(sample, objects=objects, channels={}))
    parts = ((replace(data, samples=tuple(masked)), 1.0),)
    train_detector(
        parts,
        CONFIG,
        tmp_path / "run",
        auxiliary_data=AuxiliaryData(background_images=pictures((20, 20))),
    )


def test_what_cannot_be_laid_before_backdrops_is_refused(make_dataset, pictures, tmp_path):
    data, photos = make_dataset(), make_dataset("photos", with_ids=False)
    none = Dataset(tmp_path / "none", (), ())
    table = [
        (data, none, f"{none.root}: contains no background images. Name a folder with images."),
        (
            photos, pictures((20, 20)),
            f"{photos.root}: has no instance masks, so objects cannot be put on background images. "
            "Render with ids in --channels, or train without --backgrounds.",
        ),
    ]  # fmt: skip
    for labelled, backdrops, message in table:
        with pytest.raises(InputError) as caught:
            train_detector(
                ((labelled, 1.0),),
                CONFIG,
                tmp_path / "run",
                auxiliary_data=AuxiliaryData(background_images=backdrops),
            )
        assert str(caught.value) == message
    assert not (tmp_path / "run").exists()


def test_negatives_show_a_background_and_no_objects(make_dataset, pictures):
    picture, count = read(make_dataset()), 200
    made = BackgroundAugmentation(pictures((160, 128)), 1 << 24, amodal=False, negative_share=0.3)
    shown = [made.sample_negative(picture, np.random.default_rng(seed)) for seed in range(count)]
    negatives = [image for image in shown if image is not picture]
    assert 0.2 * count < len(negatives) < 0.4 * count
    for image in negatives:
        assert image.rgb.shape == picture.rgb.shape
        assert (image.rgb == GREEN).all()
        crop = sample_crop(image, CropConfig(crop_px=64), np.random.default_rng(0))
        assert not len(crop.boxes_xyxy)
        assert make_targets(
            crop.boxes_xyxy, crop.categories, crop.ignored_boxes_xyxy, (64, 64)
        ).heatmap_weight.all()


def test_target_images_are_no_negatives(make_dataset, pictures):
    picture = read(make_dataset())
    made = BackgroundAugmentation(
        None, 1 << 24, amodal=False, negative_share=1.0, target_images=pictures((160, 128))
    )
    assert made.sample_negative(picture, np.random.default_rng(0)) is picture
