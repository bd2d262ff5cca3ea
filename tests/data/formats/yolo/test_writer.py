from dataclasses import replace
from itertools import pairwise

import cv2
import numpy as np
import pytest
import yaml

from sim2cam.data.channels import read_channel
from sim2cam.data.formats.export import export_dataset
from sim2cam.data.formats.yolo.reader import read_yolo
from sim2cam.data.real_images import read_real_images
from sim2cam.data.silhouettes import read_visible_masks
from sim2cam.errors import InputError, UsageError
from sim2cam.files import write_bytes
from sim2cam.images import encode_png
from tests.support.errors import error_text

CURE = "Correct the file."
SKIP = "Correct the file, or leave flawed annotations out with --skip-invalid."
TABLE = {"train": "images/train", "val": "images/val", "names": ["square", "disc"]}


def test_what_is_exported_is_read_back(exported):
    root, parts = exported("yolo")
    back = read_yolo(root, "sim")
    assert list(back) == ["train", "test"]
    for name, part in parts.items():
        assert back[name].categories == part.categories
        for sample, original in zip(back[name].samples, part.samples, strict=True):
            assert sample.rgb.read_bytes() == original.rgb.read_bytes()
            assert [o.category for o in sample.objects] == [o.category for o in original.objects]
            boxes = [[o.box_xyxy for o in s.objects] for s in (sample, original)]
            np.testing.assert_allclose(boxes[0], boxes[1], atol=1e-3)


def test_it_is_what_ultralytics_reads(exported):
    root, parts = exported("yolo")
    assert yaml.safe_load((root / "data.yaml").read_text()) == {
        "train": "images/train", "val": "images/train", "test": "images/test",
        "names": {0: "square", 1: "disc"},
    }  # fmt: skip
    (sample, *_) = parts["train"].samples
    line = (root / f"labels/train/{sample.name}.txt").read_text().splitlines()[0]
    x0, y0, x1, y1 = sample.objects[0].box_xyxy
    expected = [0, (x0 + x1) / 96, (y0 + y1) / 64, (x1 - x0) / 48, (y1 - y0) / 32]
    assert [float(word) for word in line.split()] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("to", ["yolo", "yolo-seg"])
@pytest.mark.parametrize("names", [("a", "b"), ("val", "test"), ("train", "dev")])
def test_parts_that_ultralytics_does_not_know_are_refused(tmp_path, dataset, to, names):
    message = error_text(
        lambda: export_dataset(dict.fromkeys(names, dataset), tmp_path / "yolo", to),
        error=UsageError,
    )
    assert message == (
        f"splits {', '.join(names)} do not fit YOLO. Allowed: train, val, test, with train. Set e.g. "
        "--split train=0.8,val=0.2, or choose another format."
    )
    assert [path.name for path in tmp_path.iterdir()] == ["native"]


def filled(line, width, height):
    """The mask of an outline, filled as Ultralytics does: corners rounded down, even-odd."""
    corners = np.array(line.split()[1:], np.float64).reshape(-1, 2) * (width, height)
    return cv2.fillPoly(np.zeros((height, width), np.uint8), [corners.astype(np.int32)], 1) > 0


def test_outlines_fill_the_masks(exported):
    root, parts = exported("yolo-seg")
    back = read_yolo(root, "sim")
    for name, part in parts.items():
        for sample, original in zip(back[name].samples, part.samples, strict=True):
            ids = read_channel("ids", original.channels["ids"])
            lines = (root / f"labels/{name}/{sample.rgb.stem}.txt").read_text().splitlines()
            for line, label in zip(lines, original.objects, strict=True):
                mask = ids == label.instance_id
                assert (filled(line, *mask.shape[::-1]) == mask).all()
            boxes = [[o.box_xyxy for o in s.objects] for s in (sample, original)]
            np.testing.assert_allclose(boxes[0], boxes[1], atol=0.251)


def test_outlines_need_masks(tmp_path, dataset):
    bare = replace(dataset, samples=tuple(replace(s, channels={}) for s in dataset.samples))
    with pytest.raises(InputError, match=r"has no masks to trace outlines of\. Render with"):
        export_dataset({"train": bare}, tmp_path / "out", "yolo-seg")


def test_groups_are_left_out(tmp_path, with_crowd):
    export_dataset({"train": with_crowd}, tmp_path / "yolo", "yolo")
    lines = (tmp_path / "yolo/labels/train/000000.txt").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["1"]


def test_boxes_end_at_the_edge(tmp_path, dataset):
    sample = dataset.samples[0]
    label = replace(sample.objects[0], box_xyxy=(-3.0, 4.0, 60.0, 40.0))
    over = replace(dataset, samples=(replace(sample, objects=(label,)),))
    export_dataset({"train": over}, tmp_path / "yolo", "yolo")
    (back,) = read_real_images(tmp_path / "yolo").samples[0].objects
    assert back.box_xyxy == pytest.approx((0, 4, 48, 32), abs=1e-3)


def written(folder, labels="0 0.5 0.5 0.25 0.5\n", **changes):
    """One picture of 40x20 pixels in ``images/train``, with its labels unless they are None."""
    picture = encode_png(np.zeros((20, 40, 3), np.uint8))
    write_bytes(folder / "images/train/a.png", picture)
    if labels is not None:
        write_bytes(folder / "labels/train/a.txt", labels.encode())
    table = {key: value for key, value in (TABLE | changes).items() if value is not None}
    (folder / "data.yaml").write_text(yaml.safe_dump(table))
    return folder


def test_an_outline_becomes_its_box_and_its_mask(tmp_path):
    root = written(tmp_path, "1 0.1 0.5 0.3 0.2 0.2 0.9\n\n0 0.5 0.5 0.25 0.5\n", val=None)
    label, box = read_real_images(root).samples[0].objects
    assert label.category == "disc"
    assert label.box_xyxy == pytest.approx((4, 4, 12, 18))
    corners = np.array([[4, 10], [12, 4], [8, 18]])
    y, x = np.mgrid[:20, :40] + 0.5
    inside = np.ones((20, 40), bool)
    for one, other in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        inside &= (other - one)[0] * (y - one[1]) >= (other - one)[1] * (x - one[0])
    mask = label.mask.decode()
    assert (mask != inside).sum() <= 6  # at the edge
    assert label.area_px == mask.sum()
    assert (box.mask, box.area_px) == (None, 100)


def test_exported_outlines_are_read_as_the_masks_that_they_are_of(exported):
    root, parts = exported("yolo-seg")
    back = read_yolo(root, "sim")
    for name, part in parts.items():
        for sample, original in zip(back[name].samples, part.samples, strict=True):
            for found, mask in zip(
                read_visible_masks(sample), read_visible_masks(original), strict=True
            ):
                assert (found & mask).sum() / (found | mask).sum() > 0.8
                assert not found[~mask].any()


@pytest.mark.parametrize(
    "line",
    [
        "0 0.5 0.5 0.5001 0.5 0.5 0.5001",  # thinner than a pixel
        "0 -0.0005 0.1 0.5 -0.0005 1.0005 0.5 0.5 1.0005",  # over the edge by rounding
        "0 " + "0.1 0.1 0.9 0.9 " * 4 + "0.1 0.9",  # goes back and forth
    ],
)
def test_odd_outlines_make_no_broken_masks(tmp_path, line):
    (label,) = read_real_images(written(tmp_path, f"{line}\n", val=None)).samples[0].objects
    assert label.mask is None or label.mask.is_valid()
    assert (label.mask is None) == line.startswith("0 0.5 ")
    assert label.area_px > 0


def test_a_picture_without_a_file_shows_nothing_and_a_part_without_any_is_unlabelled(tmp_path):
    root = written(tmp_path, val=None)
    write_bytes(root / "images/train/b.png", encode_png(np.zeros((20, 40, 3), np.uint8)))
    assert [len(s.objects) for s in read_real_images(root).samples] == [1, 0]
    other = written(tmp_path / "other", labels=None, val=None)
    assert [s.objects for s in read_real_images(other).samples] == [None]


@pytest.mark.parametrize("place", ["../train/images", "train/images"])
def test_folders_beside_the_file_are_found_as_services_write_them(tmp_path, place):
    write_bytes(tmp_path / "train/images/a.png", encode_png(np.zeros((20, 40, 3), np.uint8)))
    write_bytes(tmp_path / "train/labels/a.txt", b"0 0.5 0.5 1 1\n")
    (tmp_path / "data.yaml").write_text(yaml.safe_dump({"train": place, "names": {0: "square"}}))
    (sample,) = read_real_images(tmp_path / "data.yaml").samples
    assert (sample.name, sample.objects[0].box_xyxy) == ("train/images/a.png", (0, 0, 40, 20))


@pytest.mark.parametrize("place", [".", "data", "data/images"])
def test_labels_lie_where_the_last_images_is_labels(tmp_path, place):
    folder = "data/images/images/day"
    write_bytes(tmp_path / folder / "a.png", encode_png(np.zeros((20, 40, 3), np.uint8)))
    write_bytes(tmp_path / "data/images/labels/day/a.txt", b"0 0.5 0.5 1 1\n")
    (tmp_path / "data.yaml").write_text(yaml.safe_dump({"train": place, "names": ["square"]}))
    (sample,) = read_real_images(tmp_path).samples
    assert len(sample.objects) == 1


def test_names_of_folders_do_not_mislead(tmp_path, dataset):
    named = replace(dataset.samples[0], name="images/labels/a.jpg")
    export_dataset({"train": replace(dataset, samples=(named,))}, tmp_path / "yolo", "yolo")
    assert (tmp_path / "yolo/images/train/images-labels-a.jpg").is_file()
    assert len(read_real_images(tmp_path / "yolo").samples[0].objects) == 2


LETTERS = "abcdefghijklmnopqrstuvwxyz"
BOMB = "a: &a [x, x]\n" + "".join(
    f"{name}: &{name} [*{last}, *{last}]\n" for last, name in pairwise(LETTERS)
)

BAD = {
    "no YAML": ({"text": "a: ["}, "data.yaml: not YAML. "),
    "no table": ({"text": "- a"}, "data.yaml: not a table. "),
    "an alias bomb": ({"text": BOMB + "names: *z\ntrain: images/train"},
     "data.yaml: names must be texts. "),
    "an alias bomb for a folder": ({"text":
     BOMB + "names: [square]\ntrain: images/train\nval: [*z]"},
     "data.yaml: val: [[[[[[[...], [...]], [[...], [...]]], [[[...], [...]], [[... is not in the folder of this file. Put the images into this folder and use relative paths."),
    "no names": ({"names": None}, "data.yaml: names must be a list of categories. "),
    "names with a gap": ({"names": {0: "a", 2: "b"}},
     "data.yaml: names must be numbered from 0 without gaps. "),
    "two of a name": ({"names": ["a", "a"]},
     "data.yaml: two categories are named 'a'. Merge them or rename one."),
    "no part": ({"train": None, "val": None},
     "data.yaml: has none of the entries train, val, test. "),
    "a folder that is not there": ({"val": "images/none"},
     "data.yaml: val: 'images/none' must be a folder of images or a list (.txt). "),
    "pictures elsewhere": ({"train": "/etc"},
     "data.yaml: train: '/etc' is not in the folder of this file. Put the images into this folder and use relative paths."),
    "a way out": ({"path": "a/../../b"},
     "data.yaml: path: 'a/../../b' is not in the folder of this file. Give the folder of the images relative to this file, or remove the entry if they lie next to it."),
    "a part that is a number": ({"train": 7},
     "data.yaml: train: '7' must be a folder of images or a list (.txt). "),
    "a word": ({"labels": "0 a 0.5 0.2 0.2"},
     "labels/train/a.txt: line 1: '0 a 0.5 0.2 0.2' is not a list of numbers. "),
    "an unknown class": ({"labels": "\n2 0.5 0.5 0.2 0.2"},
     "labels/train/a.txt: line 2: class 2 must be an integer from 0 to 1. "),
    "half a class": ({"labels": "0.5 0.5 0.5 0.2 0.2"},
     "labels/train/a.txt: line 1: class 0.5 must be an integer from 0 to 1. "),
    "three numbers": ({"labels": "0 0.5 0.5 0.2"},
     "labels/train/a.txt: line 1: 3 numbers after the class. A box has 4, a polygon an even number of 6 or more. Keypoints need kpt_shape in data.yaml; confidences of polygons are not supported. "),
    "pixels": ({"labels": "0 20 10 4 4"},
     "labels/train/a.txt: line 1: the box from (18, 8) to (22, 12) is empty or outside the image (0 to 1). "),
    "not a number": ({"labels": "0 nan 0.5 0.2 0.2"},
     "labels/train/a.txt: line 1: a number is not finite. "),
    "an empty box": ({"labels": "0 0.5 0.5 0 0.2"},
     "labels/train/a.txt: line 1: the box from (0.5, 0.4) to (0.5, 0.6) is empty or outside the image (0 to 1). "),
    "an outline with an odd number of numbers": ({"labels": "0 0.1 0.1 0.9 0.1 0.5 0.9 0.3"},
     "labels/train/a.txt: line 1: 7 numbers after the class. A box has 4, a polygon an even number of 6 or more. Keypoints need kpt_shape in data.yaml; confidences of polygons are not supported. "),
    "an outline in pixels": ({"labels": "0 1 1 30 1 15 18"},
     "labels/train/a.txt: line 1: the box from (1, 1) to (30, 18) is empty or outside the image (0 to 1). "),
    "an outline without end": ({"labels": "0 0.1 0.1 inf 0.1 0.5 0.9"},
     "labels/train/a.txt: line 1: a number is not finite. "),
    "a huge file": ({"labels": "0" * 4_000_001},
     "labels/train/a.txt: more than 4000000 bytes. No label file is that long. "),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "problem"), BAD.values(), ids=BAD)
def test_bad_files_are_answered_exactly(tmp_path, changes, problem):
    changes = {"val": None} | changes
    text = changes.pop("text", None)
    root = written(tmp_path, **changes)
    if text is not None:
        (root / "data.yaml").write_text(text)
    with pytest.raises(InputError) as caught:
        read_real_images(root)
    cure = SKIP if "labels" in changes else CURE
    assert str(caught.value) == f"{root}/{problem}" + (cure if problem.endswith(". ") else "")
