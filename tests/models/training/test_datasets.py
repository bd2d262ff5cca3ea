import json
from dataclasses import replace

import pytest

from sim2cam.data.sample import Keypoint, SourceDataset
from sim2cam.data.writer import FORMAT_VERSION
from sim2cam.errors import InputError, UsageError
from sim2cam.images import compute_digest
from sim2cam.models.training.config import TrainConfig
from sim2cam.models.training.datasets import (
    MAX_SKETCH_DIGESTS,
    check_datasets,
    collect_keypoint_names,
    make_dataset_records,
    sketch_digests,
)
from sim2cam.models.training.setup import NO_AUXILIARY_DATA, make_training_setup


def test_categories_are_those_of_the_first_part_in_any_order(make_dataset):
    data = make_dataset()
    turned = replace(make_dataset("b"), categories=("disc", "square"))
    assert check_datasets(((data, 1.0), (turned, 1.0)), TrainConfig()) == ("square", "disc")


def test_what_cannot_be_trained_on_is_refused(make_dataset):
    data = make_dataset()
    unlabelled = replace(data, samples=(replace(data.samples[0], objects=None),))
    table = [
        ((), UsageError, "no data to train on. Name at least one dataset."),
        (((data, 0.0),), UsageError, f"the weight of {data.root} must be above 0, not 0.0"),
        (
            ((replace(data, samples=()), 1.0),),
            InputError,
            f"{data.root}: no images to train on. Name a dataset with images.",
        ),
        (
            ((unlabelled, 1.0),),
            InputError,
            f"{data.root}: image 0 has no labels to train on. Label it, or leave it out.",
        ),
        (
            ((data, 1.0), (replace(data, categories=("square", "die")), 1.0)),
            InputError,
            f"{data.root}: categories square, die differ from those of {data.root}: square, disc. "
            "Rename them with --map, drop others with --ignore-unmatched, or add categories without objects to "
            "the dataset's list.",
        ),
    ]
    for parts, kind, message in table:
        with pytest.raises(kind) as caught:
            check_datasets(parts, TrainConfig())
        assert str(caught.value) == message


def test_data_without_objects_are_trained_on_beside_others_alone(make_dataset):
    data, empty = make_dataset(), make_dataset("empty")
    empty = replace(empty, samples=tuple(replace(s, objects=()) for s in empty.samples))
    assert check_datasets(((empty, 1.0), (data, 1.0)), TrainConfig()) == ("square", "disc")
    groups = tuple(
        replace(s, objects=tuple(replace(o, is_crowd=True) for o in s.objects))
        for s in data.samples
    )
    for rest in (empty, replace(data, samples=groups)):
        with pytest.raises(InputError) as caught:
            check_datasets(((empty, 1.0), (rest, 1.0)), TrainConfig())
        assert str(caught.value) == (
            f"{empty.root}: no labelled object to train on (groups do not count). Label objects, or "
            "add a dataset with labels."
        )


def test_mixes_that_leave_nothing_to_train_on_are_refused(make_dataset):
    a, b = make_dataset("a"), make_dataset("b")
    later = TrainConfig(initial_mix=(1.0, 0.0), mix_steps=5)
    assert check_datasets(((a, 0.0), (b, 1.0)), later) == ("square", "disc")
    table = [
        (((a, 1.0),), "initial_mix has 2 values for 1 datasets. Give one value each."),
        (((a, 1.0), (b, 0.0)), f"the weight of {b.root} must be above 0, not 0.0"),
        (((a, 1.0), (b, -1.0)), f"the weight of {b.root} must be above 0, not -1.0"),
    ]
    for parts, message in table:
        with pytest.raises(UsageError) as caught:
            check_datasets(parts, later)
        assert str(caught.value) == message
    both = replace(later, initial_mix=(1.0, 1.0))
    with pytest.raises(UsageError, match="at least one dataset must have a weight above 0"):
        check_datasets(((a, 0.0), (b, 0.0)), both)


def test_digest_knows_pixels_labels_and_order_but_not_the_place(make_dataset):
    data = make_dataset()
    (record,) = make_dataset_records(((data, 2.0),))
    assert (record.images, record.origins, record.weight) == (6, {"sim": 6}, 1.0)
    moved = make_dataset("set2")
    assert make_dataset_records(((moved, 1.0),))[0].digest == record.digest
    first = data.samples[0]
    relabelled = replace(first, objects=(replace(first.objects[0], category="disc"),))
    backwards = replace(data, samples=data.samples[::-1])
    for other in (replace(data, samples=(relabelled, *data.samples[1:])), backwards):
        assert make_dataset_records(((other, 1.0),))[0].digest != record.digest


def test_licences_of_what_scenes_are_made_of_are_told(make_dataset, tmp_path):
    data = make_dataset()
    assert make_dataset_records(((data, 1.0),))[0].licences == ()
    for name, licences in (
        ("a", {"cup.ply": "MIT", "mug.ply": "CC0-1.0"}),
        ("b", {"box.ply": "MIT"}),
    ):
        header = {
            "format": FORMAT_VERSION,
            "categories": list(data.categories),
            "licences": licences,
        }
        (tmp_path / name).mkdir()
        (tmp_path / name / "dataset.json").write_text(json.dumps(header))
    sources = tuple(SourceDataset(tmp_path / name, {}) for name in "ab")
    parts = ((replace(data, sources=sources), 1.0),)
    (record,) = make_dataset_records(parts)
    assert record.licences == ("CC0-1.0", "MIT")
    assert (
        make_training_setup(parts, TrainConfig(), NO_AUXILIARY_DATA).make_card().licence
        == "CC0-1.0 AND MIT"
    )
    assert (
        make_training_setup(((data, 1.0),), TrainConfig(), NO_AUXILIARY_DATA).make_card().licence
        == ""
    )


def test_missing_image_is_named(make_dataset):
    data = make_dataset()
    data.samples[1].rgb.unlink()
    with pytest.raises(InputError, match=r"1\.png: cannot be read \(No such file"):
        make_dataset_records(((data, 1.0),))


def with_keypoints(data, *names):
    points = tuple(Keypoint(name, (50.0, 50.0), 2) for name in names)
    samples = tuple(
        replace(s, objects=tuple(replace(o, keypoints=points) for o in s.objects))
        for s in data.samples
    )
    return replace(data, samples=samples)


def test_keypoints_are_those_of_all_parts_and_mirrors_need_their_sides(make_dataset):
    bare = make_dataset()
    plain, sided = with_keypoints(bare, "head", "tip"), with_keypoints(bare, "left", "right")
    fixed, flipped = TrainConfig(keypoints=True, flips=False), TrainConfig(keypoints=True)
    found = collect_keypoint_names(((bare, 1.0), (plain, 1.0)), fixed)
    assert found == {"square": ("head", "tip"), "disc": ("head", "tip")}
    assert collect_keypoint_names(((sided, 1.0),), flipped)["disc"] == ("left", "right")
    assert collect_keypoint_names(((plain, 1.0),), TrainConfig()) == {}
    with pytest.raises(InputError) as caught:
        collect_keypoint_names(((bare, 1.0),), fixed)
    assert str(caught.value) == (
        f"{bare.root}: no object has keypoints to learn. Render with keypoints in --channels, or "
        "train without keypoints."
    )
    with pytest.raises(UsageError) as caught:
        collect_keypoint_names(((with_keypoints(bare, *"abcdef"), 1.0),), flipped)
    assert str(caught.value) == (
        "keypoint names of category 'square' (a, b, c, d, ...) do not contain left and right, which "
        "mirrored crops need. Set flips = false in the recipe's [train]."
    )


def test_few_digests_tell_whether_pictures_of_large_sets_are_in_both(make_dataset, tmp_path):
    (first, *_) = make_dataset().samples
    numbered = [replace(first, rgb=tmp_path / f"{i}.png") for i in range(250)]
    for i, sample in enumerate(numbered):
        sample.rgb.write_bytes(bytes([i]))
    learned, other = numbered[:200], numbered[200:]
    lowest = set(sketch_digests(learned))
    assert len(lowest) == MAX_SKETCH_DIGESTS
    assert lowest & {compute_digest(sample.rgb) for sample in learned[::5] + other}
    assert not lowest & {compute_digest(sample.rgb) for sample in other}
    assert sketch_digests(reversed(learned)) == sketch_digests(learned)
