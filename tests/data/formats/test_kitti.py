from dataclasses import replace

import numpy as np
import pytest

from sim2cam.data.formats.export import export_dataset
from sim2cam.data.formats.kitti import read_kitti
from sim2cam.data.real_images import read_real_images, split_real_images
from sim2cam.errors import InputError, RepairWarning
from sim2cam.files import write_bytes
from sim2cam.images import encode_png, read_rgb
from tests.support.errors import error_text


def columns(path):
    return [line.split() for line in path.read_text().splitlines()]


def test_what_is_exported_holds_boxes_and_pictures(exported):
    root, parts = exported("kitti")
    for name, part in parts.items():
        for number, sample in enumerate(part.samples):
            picture = read_rgb(root / f"{name}/image_2/{number:06d}.png")
            assert np.array_equal(picture, read_rgb(sample.rgb))
            rows = columns(root / f"{name}/label_2/{number:06d}.txt")
            assert {len(row) for row in rows} == {15}
            assert [row[0] for row in rows] == [o.category for o in sample.objects]
            for row, label in zip(rows, sample.objects, strict=True):
                first, last = np.array(row[4:8], float).reshape(2, 2)
                assert (*first, *(last + 1)) == label.box_xyxy
        names = columns(root / f"{name}/samples.txt")
        assert names == [[f"{n:06d}", s.name] for n, s in enumerate(part.samples)]


def test_what_it_cannot_hold_is_marked_as_unknown(exported):
    root, _ = exported("kitti")
    (row, *_) = columns(root / "train/label_2/000000.txt")
    assert [row[3], *row[8:]] == ["-10", "-1", "-1", "-1", "-1000", "-1000", "-1000", "-10"]


@pytest.mark.parametrize(
    ("fraction", "level"), [(1.0, 0), (0.95, 0), (0.94, 1), (0.5, 1), (0.49, 2), (None, 3)]
)
def test_occlusion_follows_what_is_seen(tmp_path, dataset, fraction, level):
    sample = dataset.samples[0]
    label = replace(sample.objects[0], visible_fraction=fraction)
    one = replace(dataset, samples=(replace(sample, objects=(label,)),))
    export_dataset({"train": one}, tmp_path / "kitti", "kitti")
    assert columns(tmp_path / "kitti/train/label_2/000000.txt")[0][2] == str(level)


@pytest.mark.parametrize(
    ("whole", "known"),
    [((1, 1, 47, 31), "0"), ((0, 1, 47, 31), "-1"), ((1, 1, 48, 31), "-1"), (None, "-1")],
)
def test_truncation_is_known_of_what_lies_inside(tmp_path, dataset, whole, known):
    sample = dataset.samples[0]
    label = replace(sample.objects[0], box_amodal_xyxy=whole)
    one = replace(dataset, samples=(replace(sample, objects=(label,)),))
    export_dataset({"train": one}, tmp_path / "kitti", "kitti")
    assert columns(tmp_path / "kitti/train/label_2/000000.txt")[0][1] == known


def test_groups_are_regions_not_to_care_about(tmp_path, with_crowd):
    export_dataset({"train": with_crowd}, tmp_path / "kitti", "kitti")
    rows = columns(tmp_path / "kitti/train/label_2/000000.txt")
    assert [row[0] for row in rows] == ["disc", "DontCare"]


def named(dataset, *names):
    """The data set with other names of its two categories."""
    names = dict(zip(dataset.categories, names, strict=True))
    samples = tuple(
        replace(s, objects=tuple(replace(o, category=names[o.category]) for o in s.objects))
        for s in dataset.samples
    )
    return replace(dataset, categories=tuple(names.values()), samples=samples)


def test_names_of_several_words_become_one_and_are_read_back(tmp_path, dataset):
    two_words = named(dataset, "bolt  M10", "nut")
    told = export_dataset({"train": two_words}, tmp_path / "kitti", "kitti")
    assert told == (
        "category names without spaces: bolt_M10; categories.txt has the original names",
    )
    rows = columns(tmp_path / "kitti/train/label_2/000000.txt")
    assert [row[0] for row in rows] == ["bolt_M10", "nut"]
    back = read_real_images(tmp_path / "kitti")
    assert back.categories == ("bolt  M10", "nut")
    assert [o.category for o in back.samples[0].objects] == ["bolt  M10", "nut"]
    (tmp_path / "kitti/train/categories.txt").unlink()
    assert read_real_images(tmp_path / "kitti").categories == ("bolt_M10", "nut")
    assert export_dataset({"train": dataset}, tmp_path / "plain", "kitti") == ()
    assert not (tmp_path / "plain/train/categories.txt").exists()


@pytest.mark.parametrize(
    ("names", "category", "word"),
    [
        (("flat_disc", "flat disc"), "flat disc", "flat_disc"),
        (("square", " "), " ", ""),
        (("square", "DontCare"), "DontCare", "DontCare"),
    ],
)
def test_names_that_would_be_anothers_are_refused(tmp_path, dataset, names, category, word):
    with pytest.raises(InputError) as caught:
        export_dataset({"train": named(dataset, *names)}, tmp_path / "kitti", "kitti")
    problem = (
        f"category '{category}': its name without spaces, '{word}', is reserved or used twice. Rename "
        "it, or choose another format."
    )
    assert str(caught.value) == f"{dataset.root}: {problem}"


@pytest.mark.parametrize("line", ["bolt_M10", "", "DontCare some", "a b\na c"])
def test_a_broken_list_of_names_is_answered_exactly(tmp_path, line):
    path = kitti(tmp_path, LINE) / "training/categories.txt"
    path.write_text(line + "\n")
    with pytest.raises(InputError) as caught:
        read_kitti(tmp_path, "real")
    last = line.count("\n") + 1
    problem = f"line {last}: '{line.splitlines()[-1] if line else line}' must be a unique word and a category name. {CURE}"
    assert str(caught.value) == f"{path}: {problem}"


def test_what_is_exported_is_read_back(exported):
    root, parts = exported("kitti")
    back = read_kitti(root, "real")
    assert list(back) == ["test", "train"]
    for name, part in parts.items():
        assert back[name].categories == ("disc", "square")
        for sample, original in zip(back[name].samples, part.samples, strict=True):
            assert np.array_equal(read_rgb(sample.rgb), read_rgb(original.rgb))
            assert [(o.category, o.box_xyxy) for o in sample.objects] == [
                (o.category, o.box_xyxy) for o in original.objects
            ]
            assert [(o.occlusion, o.truncation) for o in sample.objects] == [(1, 0), (0, None)]
    again = root.with_name("again")
    export_dataset(back, again, "kitti")
    for name in parts:
        for path in (root / name / "label_2").iterdir():
            assert (again / name / "label_2" / path.name).read_text() == path.read_text()
    assert len(split_real_images(root).test.samples) == 2
    assert len({s.scene_index for s in read_real_images(root).samples}) == 4


def test_what_not_to_care_about_is_a_group_of_each_category(tmp_path, with_crowd):
    export_dataset({"train": with_crowd}, tmp_path / "kitti", "kitti")
    captures = read_real_images(tmp_path / "kitti")
    found = [(o.category, o.is_crowd) for o in captures.samples[0].objects]
    assert found == [("disc", False), ("disc", True), ("square", True)]
    assert captures.samples[0].objects[1].box_xyxy == with_crowd.samples[0].objects[0].box_xyxy
    export_dataset({"train": captures}, tmp_path / "again", "kitti")
    texts = [(tmp_path / n / "train/label_2/000000.txt").read_text() for n in ("kitti", "again")]
    assert texts[0] == texts[1]


LINE = "Car 0.25 2 -1.57 2.00 3.50 11.00 8.00 1.50 1.60 4.00 1.00 2.00 10.00 -1.50"
"""As KITTI's own: a car whose 3D box is known."""


def kitti(folder, *lines, part="training"):
    """KITTI's layout with one picture."""
    write_bytes(folder / part / "image_2/000007.png", encode_png(np.zeros((16, 24, 3), np.uint8)))
    text = "".join(f"{line}\n" for line in lines)
    write_bytes(folder / part / "label_2/000007.txt", text.encode())
    return folder


def test_kittis_own_lines_are_read(tmp_path):
    group = "DontCare -1 -1 -10 1 1 5 5 -1 -1 -1 -1000 -1000 -1000 -10"
    root = kitti(
        tmp_path, LINE, "Van -1 3 -10 -2 0 30 15 -1 -1 -1 -1000 -1000 -1000 -10", group, ""
    )
    kitti(tmp_path, part="testing")
    (tmp_path / "testing/label_2/000007.txt").unlink()
    (tmp_path / "testing/label_2").rmdir()
    parts = read_kitti(root, "real")
    (sample,) = parts["train"].samples
    assert sample.name == "training/image_2/000007.png"
    car, van, *groups = sample.objects
    assert (car.category, car.box_xyxy, car.area_px) == ("Car", (2, 3.5, 12, 9), 55)
    assert (car.occlusion, car.truncation) == (2, 0.25)
    assert (van.occlusion, van.truncation) == (None, None)
    assert [(o.category, o.is_crowd) for o in groups] == [("Car", True), ("Van", True)]
    assert parts["test"].samples[0].objects is None
    (alone,) = read_real_images(root / "training").samples
    assert (alone.name, alone.objects) == ("image_2/000007.png", sample.objects)


def test_parts_of_two_namings_are_all_read(tmp_path):
    for part in ("train", "training"):
        kitti(tmp_path, LINE, part=part)
    assert list(read_kitti(tmp_path, "real")) == ["train", "training"]


def line(**changes):
    """The line with some of its words changed, by their columns."""
    words = LINE.split()
    for name, word in changes.items():
        words[int(name[1:])] = word
    return " ".join(words)


CURE = "Correct the file."
SKIP = "Correct the file, or leave flawed annotations out with --skip-invalid."
BAD = {
    "a word too few": ("Car 0 0", f"line 1: 3 words, not 15. {SKIP}"),
    "a score": (f"{LINE} 0.9", f"line 1: 16 words, not 15. {SKIP}"),
    "a name of two words": (f"Big {LINE}",
     f"line 1: 'Big {LINE[:56]}' must be a name and numbers. {SKIP}"),
    "a box upside down": (line(_5="9.5"),
     f"line 1: the box from (2, 9.5) to (11, 8) is empty or not finite. {SKIP}"),
    "a box of no numbers": (line(_6="nan"),
     f"line 1: the box from (2, 3.5) to (nan, 8) is empty or not finite. {SKIP}"),
    "a box beside the picture": (line(_4="24", _6="30"),
     f"line 1: the box from (24, 3.5) to (30, 8) lies outside the image of 24x16 pixels. {SKIP}"),
    "too much beyond the edge": (line(_1="1.5"),
     f"line 1: truncation 1.5 must be 0 to 1, or -1. {SKIP}"),
    "an unknown level": (line(_2="4"), f"line 1: occlusion 4 must be -1, 0, 1, 2 or 3. {SKIP}"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "problem"), BAD.values(), ids=BAD)
def test_bad_lines_are_answered_exactly(tmp_path, text, problem):
    root = kitti(tmp_path, text)
    message = error_text(read_real_images, root)
    assert message == f"{root / 'training/label_2/000007.txt'}: {problem}"


def test_what_is_missing_is_named(tmp_path):
    root = kitti(tmp_path, LINE)
    labels = root / "training/label_2/000007.txt"
    labels.rename(labels.with_name("000008.txt"))
    with pytest.raises(InputError) as caught:
        read_real_images(root)
    missing = "missing label file of 000007.png. Add it, empty for an image without objects."
    assert str(caught.value) == f"{labels}: {missing}"
    (root / "training/image_2/000007.png").unlink()
    with pytest.raises(InputError) as caught:
        read_real_images(root)
    place = root / "training/image_2"
    assert str(caught.value) == f"{place}: contains no images. Copy the dataset again."


REPLICATOR = "box 0.00 0 0.00 2.00 3.50 11.00 8.00 0 0 0 0 0 0 0 0"


@pytest.mark.parametrize("within", [".", "Camera"])
def test_what_replicator_writes_is_read(tmp_path, within):
    folder = kitti(tmp_path, REPLICATOR, part="whole")
    (tmp_path / "set" / within).mkdir(parents=True)
    for name, new in (("image_2", "rgb"), ("label_2", "object_detection")):
        (folder / "whole" / name).rename(tmp_path / "set" / within / new)
    (sample,) = read_real_images(tmp_path / "set").samples
    (label,) = sample.objects
    assert (label.category, label.box_xyxy) == ("box", (2.0, 3.5, 12.0, 9.0))


def test_all_flawed_lines_are_named_or_left_out(tmp_path):
    root = kitti(tmp_path, LINE, f"{LINE} 9", "Car 0", LINE)
    with pytest.raises(InputError, match=r"2 annotations are flawed:\n.*line 2: 16 words"):
        read_real_images(root)
    with pytest.warns(RepairWarning, match="2 flawed annotations are left out"):
        assert len(read_real_images(root, skip_invalid=True).samples[0].objects) == 2
