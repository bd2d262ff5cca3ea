import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from sim2cam.data.reader import read_dataset, read_header
from sim2cam.data.sample import Keypoint, Occlusion
from sim2cam.errors import InputError
from sim2cam.geometry.run_length import RleMask
from tests.support.errors import error_text


def test_what_was_written_is_read(native, tiny):
    dataset = read_dataset(native)
    assert dataset.categories == ("square", "disc")
    assert [sample.name for sample in dataset.samples] == [f"{i:06d}" for i in range(4)]
    for index, sample in enumerate(dataset.samples):
        made = tiny.new_sample(index)
        assert sample.objects == made.objects
        assert sample.lens == made.metadata["lens"]
        assert (sample.width, sample.height) == (made.width, made.height)
        assert (sample.scene_index, sample.origin) == (index // 2, "sim")
        assert sample.rgb.read_bytes() == made.image_bytes
        assert sample.parent is None


def test_a_translated_sample_has_the_labels_of_its_parent(native, adapted):
    parents = read_dataset(native).samples
    for sample, parent in zip(read_dataset(adapted).samples, parents, strict=True):
        assert (sample.objects, sample.channels) == (parent.objects, parent.channels)
        assert (sample.lens, sample.scene_index) == (parent.lens, parent.scene_index)
        assert (sample.origin, sample.parent) == ("adapted", parent.digest)
        assert sample.rgb != parent.rgb


def test_a_translated_sample_of_a_translated_one_has_them_too(tmp_path, adapted, tiny):
    twice = read_dataset(tiny.write_adapted(tmp_path / "twice", adapted))
    assert twice.samples[3].objects == tiny.new_sample(3).objects


def test_pairs_move_together(tmp_path, native, adapted):
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for folder in (native, adapted):
        shutil.move(folder, moved / folder.name)
    assert len(read_dataset(moved / "adapted").samples) == 4


def test_parts_are_not_read(native):
    shutil.copytree(native / "shards/000001", native / "shards/000002.part")
    assert len(read_dataset(native).samples) == 4


def test_a_missing_parent_is_named(native, adapted):
    shutil.rmtree(native)
    message = error_text(read_dataset, adapted)
    assert message == (f"{native}: not a dataset: it has no dataset.json. Check the path.")


def test_a_changed_parent_is_told(native, adapted, tiny):
    path = native / "shards/000000/samples.jsonl"
    tiny.edit_lines(path, lambda line: line | {"digest": "0"})
    message = error_text(read_dataset, adapted)
    assert message == (
        f"{adapted}: the source of sample 000000 is not in {native}. Translate it again."
    )


def test_parents_that_lead_back_are_told(native, adapted, tiny):
    for folder, parent in ((native, "../adapted"), (adapted, "../native")):
        (folder / "dataset.json").write_text(json.dumps(tiny.header(parent=parent)))
    with pytest.raises(InputError, match="its parents lead back to itself"):
        read_dataset(native)


AGAIN = "Generate the dataset again."
RESUME = "Run its command again with --resume to replace damaged shards."


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[1", f"not JSON (Expecting ',' delimiter: line 1 column 3 (char 2)). {AGAIN}"),
        ("[]", f"format version null; this sim2cam reads 2. {AGAIN}"),
        ('{"format": 9}', f"format version 9; this sim2cam reads 2. {AGAIN}"),
        ('{"format": 2}', f"categories is missing. {AGAIN}"),
        ('{"format": 2, "categories": "ab"}',
         f'categories: Input should be a valid list (found "ab"). {AGAIN}'),
        ('{"format": 2, "categories": [], "parent": 3}',
         f"parent: Input should be a valid string (found 3). {AGAIN}"),
    ],
)  # fmt: skip
def test_a_broken_header_is_told(native, text, problem):
    (native / "dataset.json").write_text(text)
    assert error_text(read_header, native) == f"{native / 'dataset.json'}: {problem}"


def without(key):
    return lambda line: {name: value for name, value in line.items() if name != key}


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        (without("width"), f"sample 000000: width is missing. {AGAIN}"),
        (without("name"), f"sample None: name is missing. {AGAIN}"),
        (lambda line: line | {"width": "wide"},
         "sample 000000: width: Input should be a valid integer, unable to parse string as an "
         f'integer (found "wide"). {AGAIN}'),
        (lambda line: line | {"origin": "dream"},
         "sample 000000: origin: Input should be 'sim', 'adapted', 'real', 'stand-in' or 'pseudo-labelled' "
         f'(found "dream"). {AGAIN}'),
        (lambda line: line | {"files": {"../../../rgb/secret.jpg": "0"}},
         f"sample 000000: '../../../rgb/secret.jpg' lies outside the shard. {AGAIN}"),
        (lambda line: line | {"files": {"rgb/a.jpg": "0", "raw/a.png": "0"}},
         f"sample 000000: the format of its raw image is missing. {AGAIN}"),
        (lambda line: (line | {"raw_format": {"pattern": "RGGB", "black_level": 64, "white_level":
         64}}), f"sample 000000: raw_format: white must be above black, not 64 and 64. {AGAIN}"),
        (lambda line: line | {"name": "/etc/a"},
         f"sample /etc/a: '/etc/a' lies outside the shard. {AGAIN}"),
        (lambda line: line | {"files": {}}, f"sample 000000: it has no image. {AGAIN}"),
        (lambda line: line | {"objects": [line["objects"][0] | {"category": "squaer"}]},
         "sample 000000: unknown category 'squaer'. Did you mean 'square'? "
         "Allowed: disc, square."),
    ],
)  # fmt: skip
def test_a_broken_line_is_told(native, tiny, edit, problem):
    path = native / "shards/000000/samples.jsonl"
    tiny.edit_lines(path, edit)
    assert error_text(read_dataset, native) == f"{path}: {problem}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{}\n{", "line 2 is not JSON (.*). Run its"),
        ("[]", "line 1 is not a sample. Run its"),
        ("\xff\xfe", "line 1 is not JSON (.*). Run its"),
    ],
)
def test_a_line_that_is_no_table_is_told(native, text, problem):
    path = native / "shards/000000/samples.jsonl"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=problem.replace("(", r"\(").replace(")", r"\)")):
        read_dataset(native)


def test_a_data_set_without_samples_is_told(native):
    shutil.rmtree(native / "shards")
    with pytest.raises(
        InputError, match=r"the dataset has no samples\. Run its command again with --resume"
    ):
        read_dataset(native)


def with_more(sample):
    """A sample with everything beside boxes, and a right eye."""
    mask = np.zeros((32, 48), bool)
    mask[4:16, 6:18] = True
    points = (Keypoint("a", (6.5, 4.25), 2, (0.0, 0.0, 0.1)),)
    first, second = sample.objects
    return replace(
        sample,
        objects=(replace(first, amodal_mask=RleMask.from_mask(mask), keypoints=points), second),
        right_image_bytes=sample.image_bytes,
        metadata={
            **sample.metadata,
            "occlusions": (Occlusion(2, 1, 48),),
            "depth_unit_m": 0.0005,
            "baseline_m": 0.03,
        },
    )


def test_labels_beyond_boxes_and_the_right_eye_are_read(tmp_path, tiny):
    root = tiny.write_native(tmp_path / "more", with_more)
    for index, sample in enumerate(read_dataset(root).samples):
        made = with_more(tiny.new_sample(index))
        assert sample.objects == made.objects
        assert sample.occlusions == (Occlusion(2, 1, 48),)
        assert (sample.depth_unit_m, sample.baseline_m) == (0.0005, 0.03)
        assert sample.right_rgb == root / f"shards/{index // 2:06d}/right/{index:06d}.jpg"
        assert sample.right_rgb.read_bytes() == made.image_bytes


def test_a_translated_sample_has_them_but_no_right_eye(tmp_path, tiny):
    native = tiny.write_native(tmp_path / "more", with_more)
    adapted = tiny.write_adapted(tmp_path / "adapted", native)
    for sample in read_dataset(adapted).samples:
        assert sample.objects[0].keypoints
        assert (sample.occlusions, sample.right_rgb) == ((Occlusion(2, 1, 48),), None)
        assert (sample.depth_unit_m, sample.baseline_m) == (0.0005, 0.03)


@pytest.mark.parametrize(("name", "told"), [("amodal_mask", "an amodal mask"), ("mask", "a mask")])
def test_a_mask_of_another_size_is_refused(tmp_path, tiny, name, told):
    root = tiny.write_native(tmp_path / "more", with_more)
    lines = root / "shards/000000/samples.jsonl"

    def edit(line):
        line["objects"][0][name] = line["objects"][0]["amodal_mask"] | {"size": [10**9, 10**9]}

    tiny.edit_lines(lines, edit)
    message = error_text(read_dataset, root)
    assert message == (
        f"{lines}: sample 000000: {told} of 1000000000x1000000000 pixels, not 48x32. {AGAIN}"
    )


def test_no_line_names_the_file_of_a_mask(native, tiny, tmp_path):
    lines = native / "shards/000000/samples.jsonl"

    def edit(line):
        line["objects"][0]["mask"] = {"path": str(tmp_path / "any.png"), "size": [32, 48]}

    tiny.edit_lines(lines, edit)
    assert error_text(read_dataset, native).startswith(f"{lines}: sample 000000: objects[0].mask")


def test_what_is_unknown_is_not_written(native):
    line = json.loads((native / "shards/000000/samples.jsonl").read_text().splitlines()[0])
    first, second = line["objects"]
    assert "amodal_mask" not in first
    assert "keypoints" not in first
    assert "pose" not in second


def with_first(name, value):
    def edit(line):
        if not line["objects"]:
            return line
        first, *others = line["objects"]
        return line | {"objects": [first | {name: value}, *others]}

    return edit


NO_BOX = "must be finite, with x0 < x1 and y0 < y1"


@pytest.mark.parametrize("name", ["box_xyxy", "box_amodal_xyxy"])
@pytest.mark.parametrize(
    "box", [[9, 9, 3, 12], [9, 9, 12, 3], [9, 9, 9, 12], [9, 9, 12, 9], [9, 9, 1e999, 12]]
)
def test_a_box_that_is_none_is_refused(native, tiny, name, box):
    path = native / "shards/000000/samples.jsonl"
    tiny.edit_lines(path, with_first(name, box))
    text = path.read_text().replace("Infinity", "1e999")  # which JSON does not forbid
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_dataset(native)
    shown = [float(side) for side in box]
    assert str(caught.value) == f"{path}: sample 000000: {name} {shown} {NO_BOX}. {AGAIN}"


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_what_json_has_no_word_for_is_refused(native, tiny, word):
    path = native / "shards/000000/samples.jsonl"
    tiny.edit_lines(path, with_first("visible_fraction", float(word)))
    message = error_text(read_dataset, native)
    assert message == f"{path}: line 1 is not JSON ({word} is not a number). {RESUME}"


def test_a_negative_area_is_refused(native, tiny):
    tiny.edit_lines(native / "shards/000000/samples.jsonl", with_first("area_px", -1))
    with pytest.raises(InputError, match=r"area_px -1\.0 must be finite, 0 or more"):
        read_dataset(native)


def test_a_torn_image_is_refused_before_it_is_decoded(native):
    image = next((native / "shards/000001/rgb").iterdir())
    data = image.read_bytes()
    image.write_bytes(data[:-1])
    message = error_text(read_dataset, native)
    assert message == (
        f"{image}: has {len(data) - 1} bytes, not {len(data)}. Run its command again with --resume to replace damaged shards."
    )
    image.unlink()
    with pytest.raises(InputError, match=r"rgb/00000\d\.\w+: is missing\. Run its command again"):
        read_dataset(native)


def test_channels_that_were_removed_are_not_missed(native):
    shutil.rmtree(native / "shards/000000/depth")
    assert len(read_dataset(native).samples) == 4
