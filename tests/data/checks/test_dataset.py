import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from sim2cam.data.checks.dataset import CheckReport, DatasetProblem, check_dataset
from sim2cam.data.writer import write_environment, write_shard
from sim2cam.errors import InputError


def whats(root):
    return [(problem.sample, problem.message) for problem in check_dataset(root).problems]


def test_a_sound_data_set_has_no_problem(native, adapted):
    assert check_dataset(native) == CheckReport(4, 8, (), ())
    assert check_dataset(adapted) == CheckReport(4, 8, (), ())


def test_the_report_goes_into_json(native):
    (native / "shards/000000/rgb/000001.jpg").unlink()
    report = check_dataset(native).to_json()
    assert json.loads(json.dumps(report)) == {
        "samples": 4,
        "objects": 8,
        "problems": [{"sample": "000001", "message": "rgb/000001.jpg is missing"}],
        "warnings": [],
    }


@pytest.mark.parametrize("place", ["rgb/000001.jpg", "depth/000001.png", "ids/000001.png"])
def test_a_missing_file_is_found(native, place):
    (native / "shards/000000" / place).unlink()
    assert whats(native) == [("000001", f"{place} is missing")]


@pytest.mark.parametrize("place", ["rgb/000001.jpg", "depth/000001.png", "ids/000001.png"])
def test_a_changed_byte_is_found(native, place):
    path = native / "shards/000000" / place
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    changed = ("000001", f"{place} has changed: the SHA-256 differs")
    assert changed in whats(native)


def test_a_truncated_file_is_found(native):
    path = native / "shards/000000/ids/000001.png"
    path.write_bytes(path.read_bytes()[:60])
    hashed, opened = whats(native)
    assert hashed[1] == "ids/000001.png has changed: the SHA-256 differs"
    assert "damaged image" in opened[1]


def test_a_changed_line_is_found(native, tiny):
    path = native / "shards/000001/samples.jsonl"
    tiny.edit_lines(path, lambda line: line | {"view": 7})
    what = "its record has changed: the digest differs"
    assert whats(native) == [("000002", what), ("000003", what)]


def test_a_broken_line_is_found(native, tiny):
    path = native / "shards/000001/samples.jsonl"
    tiny.edit_lines(path, lambda line: line | {"files": {"../a": ""}})
    found = [what for name, what in whats(native) if name == "000003"]
    assert found[1].startswith(f"{path}: sample 000003: '../a' lies outside the shard.")


def changed(**changes):
    return lambda sample: replace(sample, **changes)


def first_object(**changes):
    """Changes the label of the half-hidden square."""
    return lambda sample: replace(
        sample, objects=(replace(sample.objects[0], **changes), *sample.objects[1:])
    )


def with_channel(sample, name, values):
    return replace(sample, channels={**sample.channels, name: values})


def repainted(old, new):
    def paint(sample):
        ids = sample.channels["ids"]
        return with_channel(sample, "ids", np.where(ids == old, new, ids).astype(np.uint16))

    return paint


SQUARE = "object 0 (category square): "
FAULTS = {
    "box": (first_object(box_xyxy=(7.0, 4.0, 14.0, 16.0)),
     [f"{SQUARE}box (7.0, 4.0, 14.0, 16.0) is not the box of its mask, (6.0, 4.0, 14.0, 16.0)"]),
    "area": (first_object(area_px=97), [f"{SQUARE}area_px 97.0 is not the area of its mask, 96"]),
    "nothing visible": (first_object(visible_fraction=0.0),
     [f"{SQUARE}visible_fraction 0.0 is not in (0, 1]"]),
    "cut off by more than all": (first_object(truncation=1.2, box_amodal_xyxy=(6.0, 0.0, 18.0,
     16.0)), [f"{SQUARE}truncation 1.2 is not in [0, 1]"]),
    "cut off within the picture": (first_object(truncation=0.2),
     [f"{SQUARE}truncation is 0.2, but the amodal box (6.0, 4.0, 18.0, 16.0) is inside the image"]),
    "more than all visible": (first_object(visible_fraction=1.01),
     [f"{SQUARE}visible_fraction 1.01 is not in (0, 1]"]),
    "amodal box": (first_object(box_amodal_xyxy=(6.0, 5.0, 18.0, 16.0)),
     [f"{SQUARE}box (6.0, 4.0, 14.0, 16.0) is not inside the amodal box (6.0, 5.0, 18.0, 16.0)"]),
    "no instance": (first_object(instance_id=3), ["instance 1 of the ids channel has no object",
     f"{SQUARE}instance_id 3 is not in the ids channel"]),
    "no instance id": (first_object(instance_id=None),
     ["instance 1 of the ids channel has no object",
     f"{SQUARE}instance_id None is not in the ids channel"]),
    "an instance twice": (first_object(instance_id=2),
     ["instance 1 of the ids channel has no object", "2 objects have the instance_id 2",
     f"{SQUARE}box (6.0, 4.0, 14.0, 16.0) is not the box of its mask, (14.0, 4.0, 26.0, 16.0)",
     f"{SQUARE}area_px 96.0 is not the area of its mask, 144"]),
    "an instance without object": (repainted(0, 9), ["instance 9 of the ids channel has no object",
     "1296 pixels of objects have no depth"]),
    "no mask": (repainted(1, 0), [f"{SQUARE}instance_id 1 is not in the ids channel"]),
    "no depth": (lambda sample: with_channel(sample, "depth", np.where(sample.channels["ids"] == 2,
     0, sample.channels["depth"])), ["144 pixels of objects have no depth"]),
    "size": (changed(width=47), ["rgb is 48x32 pixels, not 47x32",
     "depth is 48x32 pixels, not 47x32", "ids is 48x32 pixels, not 47x32"]),
    "a smaller ids image": (lambda sample: with_channel(sample, "ids", sample.channels["ids"][:-1]),
     ["ids is 48x31 pixels, not 48x32"]),
    "a smaller depth image": (lambda sample: with_channel(sample, "depth",
     sample.channels["depth"][:, 1:]), ["depth is 47x32 pixels, not 48x32"]),
    "scene": (lambda sample: replace(sample, metadata={**sample.metadata, "scene_index": 1}),
     ["scene_index is 1, not 0"]),
}  # fmt: skip


@pytest.mark.parametrize(("fault", "found"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_found_and_nothing_else(tmp_path, tiny, fault, found):
    def plant(sample):
        return fault(sample) if sample.index == 0 else sample

    root = tiny.write_native(tmp_path / "native", plant)
    about_lists = ("shards", "000000/scenes.jsonl")
    about = [(name, what) for name, what in whats(root) if name not in about_lists]
    assert about == [("000000", what) for what in found]


def test_a_box_outside_the_image_is_found_without_masks(tmp_path, tiny):
    def plant(sample):
        moved = first_object(box_xyxy=(40.0, 4.0, 49.0, 16.0), box_amodal_xyxy=None)(sample)
        return replace(moved, channels={})

    root = tiny.write_native(tmp_path / "native", plant)
    assert whats(root)[0] == (
        "000000",
        f"{SQUARE}box (40.0, 4.0, 49.0, 16.0) is not inside the image",
    )


def test_a_scene_that_is_split_over_shards_is_found(tmp_path, tiny):
    root = tiny.write_native(
        tmp_path / "native",
        lambda sample: replace(sample, metadata={**sample.metadata, "scene_index": 0}),
    )
    assert ("shards", "scene 0 is split over shards 000000, 000001") in whats(root)


def test_scenes_that_are_not_those_of_the_samples_are_found(native):
    (native / "shards/000001/scenes.jsonl").write_text('{"scene_index": 5}\n')
    assert whats(native) == [
        ("000001/scenes.jsonl", "lists the scenes [5], but the samples are of [1]")
    ]


def test_a_name_twice_is_found(native, tiny):
    write_shard(native, 2, [tiny.new_sample(3)])
    assert ("000003", "2 samples have this name") in whats(native)


def test_left_folders_are_warned_about(native):
    (native / "shards/000002.part").mkdir()
    assert check_dataset(native) == CheckReport(
        4, 8, (), (f"{native}/shards/000002.part is left over from a killed run",)
    )


def test_no_samples_are_a_problem(native):
    shutil.rmtree(native / "shards")
    assert check_dataset(native).problems == (
        DatasetProblem(
            "dataset.json", "the dataset has no samples. Run its command again with --resume."
        ),
    )


@pytest.mark.parametrize("left", [2, 0])
def test_missing_samples_are_counted(native, left):
    write_environment(native, {"workers": 2}, expected_samples=4)
    assert check_dataset(native).problems == ()
    for shard in ("000000", "000001")[left // 2 :]:
        shutil.rmtree(native / "shards" / shard)
    assert check_dataset(native).problems == (
        DatasetProblem(
            "shards", f"incomplete: {left} of 4 samples exist. Run its command again with --resume."
        ),
    )


@pytest.mark.parametrize("text", ["{", "[]", '{"expected_samples": "many"}'])
def test_an_environment_that_is_none_is_told(native, text):
    (native / "environment.json").write_text(text)
    with pytest.raises(
        InputError, match=r"environment\.json: not a valid environment file .*--resume"
    ):
        check_dataset(native)


def test_a_parent_that_changed_is_found(native, adapted, tiny):
    path = native / "shards/000000/samples.jsonl"
    old = json.loads(path.read_text().splitlines()[0])["digest"]
    tiny.edit_lines(path, lambda line: line | ({"view": 5} if line["view"] == 0 else {}))
    assert whats(adapted) == [("000000", f"no sample of the parent has the digest {old}")]


def test_a_missing_parent_is_found(native, adapted):
    shutil.rmtree(native)
    found = check_dataset(adapted)
    assert found.objects == 0
    assert found.problems[0] == DatasetProblem(
        "dataset.json",
        f"the parent cannot be read: {native}: not a dataset: it has no dataset.json. "
        "Check the path.",
    )
    assert len(found.problems) == 5


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (changed(width=47), ["rgb is 48x32 pixels, not 47x32",
         "width is 47, but its parent has 48"]),
        (lambda sample: replace(sample, metadata={**sample.metadata, "scene_index": 7}),
         ["scene_index is 7, but its parent has 1"]),
    ],
)  # fmt: skip
def test_a_translated_sample_that_is_not_as_its_parent_is_found(
    tmp_path, native, tiny, change, what
):
    def plant(sample):
        return change(sample) if sample.index == 3 else sample

    root = tiny.write_adapted(tmp_path / "adapted", native, plant)
    found = [text for name, text in whats(root) if name == "000003"]
    assert [text for text in found if "not 1" not in text] == what


@pytest.mark.parametrize("text", ["{", "[]", "{}"])
def test_a_list_of_scenes_that_is_none_is_told(native, text):
    (native / "shards/000001/scenes.jsonl").write_text(text)
    with pytest.raises(InputError, match="not a list of scenes"):
        check_dataset(native)
