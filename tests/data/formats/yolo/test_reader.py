import numpy as np
import pytest
import yaml

from sim2cam.data.formats.yolo.reader import read_yolo
from sim2cam.data.real_images import read_real_images
from sim2cam.errors import InputError, RepairWarning
from sim2cam.files import write_bytes
from sim2cam.images import encode_png
from tests.support.errors import error_text

BOX = "0 0.5 0.5 0.25 0.5"
BOX_PX = (15, 5, 25, 15)


def picture(path, size=(20, 40)):
    write_bytes(path, encode_png(np.zeros((*size, 3), np.uint8)))


def written(folder, line=BOX, table="", names="[square, disc]"):
    """One image of 40x20 pixels in ``images/train``, its labels, and a table with some lines more."""
    picture(folder / "images/train/a.png")
    write_bytes(folder / "labels/train/a.txt", f"{line}\n".encode())
    (folder / "data.yaml").write_text(f"train: images/train\nnames: {names}\n{table}")
    return folder


def only_label(root):
    (label,) = read_real_images(root).samples[0].objects
    return label


POINTS = {
    "x and y": ("[2, 2]", "0.4 0.5 0.6 0.75", [("0", (16, 10), 2), ("1", (24, 15), 2)]),
    "x and y, one not labelled": ("[2, 2]", "0 0 0.6 0.75", [("0", (0, 0), 0), ("1", (24, 15), 2)]),
    "visibilities": ("[2, 3]", "0.4 0.5 2 0.6 0.75 1", [("0", (16, 10), 2), ("1", (24, 15), 1)]),
    "not labelled": ("[2, 3]", "0.4 0.5 0 0.6 0.75 2", [("0", (0, 0), 0), ("1", (24, 15), 2)]),
    "one": ("[1, 2]", "0.4 0.5", [("0", (16, 10), 2)]),
    "eight, as many numbers as an outline": (
        "[8, 2]", " ".join(["0.4 0.5"] * 8), [(str(n), (16, 10), 2) for n in range(8)],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("shape", "numbers", "expected"), POINTS.values(), ids=POINTS)
def test_keypoints_are_keypoints_and_no_outline(tmp_path, shape, numbers, expected):
    label = only_label(written(tmp_path, f"{BOX} {numbers}", f"kpt_shape: {shape}\n"))
    assert label.box_xyxy == pytest.approx(BOX_PX)
    assert (label.mask, label.area_px) == (None, pytest.approx(100))
    found = [(p.name, p.xy, p.visibility) for p in label.keypoints]
    assert [(name, pytest.approx(xy), seen) for name, xy, seen in expected] == found


@pytest.mark.parametrize("names", ["{0: [tip, end], 1: [tip, end]}", "[tip, end]"])
def test_keypoints_have_the_names_that_are_given(tmp_path, names):
    table = f"kpt_shape: [2, 2]\nkpt_names: {names}\n"
    label = only_label(written(tmp_path, f"{BOX} 0.4 0.5 0.6 0.7", table))
    assert [point.name for point in label.keypoints] == ["tip", "end"]


def test_a_box_alone_has_no_keypoints_where_others_have_some(tmp_path):
    assert only_label(written(tmp_path, BOX, "kpt_shape: [2, 2]\n")).keypoints is None


BAD_POINTS = {
    "another number": (
        f"{BOX} 0.4 0.5 0.6 0.7", "kpt_shape: [2, 3]",
        "line 1: 8 numbers after the class. Expected 10: 4 of the box and 6 of 2 keypoints (kpt_shape).",
    ),
    "a place outside": (
        f"{BOX} 0.4 1.5 2", "kpt_shape: [1, 3]",
        "line 1: keypoint 0 at (0.4, 1.5) is outside the image (0 to 1).",
    ),
    "a visibility of its own": (
        f"{BOX} 0.4 0.5 0.7", "kpt_shape: [1, 3]",
        "line 1: keypoint 0 has the visibility 0.7. Allowed: 0, 1, 2.",
    ),
    "a shape of its own": (
        BOX, "kpt_shape: [2, 4]",
        "kpt_shape: ['2', '4'] must be the number of keypoints and 2 or 3, e.g. [17, 3].",
    ),
    "no shape": (
        BOX, "kpt_shape: 17", "kpt_shape: '17' must be the number of keypoints and 2 or 3, e.g. [17, 3].",
    ),
    "names for some": (
        BOX, "kpt_shape: [2, 2]\nkpt_names: [tip]", "kpt_names must be 2 different names for each class.",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("line", "table", "problem"), BAD_POINTS.values(), ids=BAD_POINTS)
def test_keypoints_that_do_not_fit_are_refused(tmp_path, line, table, problem):
    assert f": {problem} " in error_text(lambda: read_real_images(written(tmp_path, line, table)))


@pytest.mark.parametrize(
    ("line", "table", "points"),
    [(f"{BOX} 0.91", "", 0), (f"{BOX} 0.4 0.5 0.91", "kpt_shape: [1, 2]\n", 1)],
)
def test_a_confidence_is_not_read_and_said(tmp_path, line, table, points):
    root = written(tmp_path, line, table)
    with pytest.warns(RepairWarning, match=r"lines with a trailing confidence: 1\."):
        label = only_label(root)
    assert label.box_xyxy == pytest.approx(BOX_PX)
    assert len(label.keypoints or ()) == points


@pytest.mark.parametrize(
    "names",
    [
        ["on", "off"], ["010", "8"], ["no", "yes", "y", "n"], ["1.0", "1"], ["null", "~"],
        ["1e3", "0x1F", "1_000"], ["2024-01-01", "12:30"],
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", ["list", "table"])
def test_names_are_the_text_as_written(tmp_path, names, form):
    text = f"[{', '.join(names)}]"
    if form == "table":
        text = "{" + ", ".join(f"{n}: {name}" for n, name in enumerate(names)) + "}"
    root = written(tmp_path, names=text, table="test: null\nval: ~\n")
    assert read_real_images(root).categories == tuple(names)


HOSTILE = {
    "a line break": ('["a\\nb"]', 'the category "a\\nb" holds a control character. Rename it.'),
    "a terminal escape": ('["\\e[31m"]',
     'the category "\\u001b[31m" holds a control character. Rename it.'),
    "300 characters": (f"[{'a' * 300}]",
     f"the category '{'a' * 40}…' has 300 characters. Use at most 200."),
    "no character": ('[""]', "a category has an empty name. Give it one."),
}  # fmt: skip


@pytest.mark.parametrize(("names", "problem"), HOSTILE.values(), ids=HOSTILE)
def test_names_that_no_line_can_hold_are_refused(tmp_path, names, problem):
    message = error_text(lambda: read_real_images(written(tmp_path, names=names)))
    assert f"{tmp_path}/data.yaml: {problem}" in message


@pytest.mark.parametrize("place", ["a" * 300, "a/" * 3000, "a\0b"])
@pytest.mark.parametrize("key", ["path", "train", "a line of train"])
def test_places_that_no_file_can_have_are_refused(tmp_path, place, key):
    root = written(tmp_path)
    table = {"train": "images/train", "names": ["square"]}
    (root / "list.txt").write_text(place)
    table |= {"train": "list.txt"} if key.startswith("a line") else {key: place}
    (root / "data.yaml").write_text(yaml.safe_dump(table))
    with pytest.raises(InputError):
        read_real_images(root)


def labelled(folder, images="", labels=""):
    """Two images with labels."""
    for name, line in {"a": BOX, "b": "0 0.5 0.5 0.5 0.5"}.items():
        picture(folder / images / f"{name}.png")
        write_bytes(folder / labels / f"{name}.txt", f"{line}\n".encode())
    return folder


def as_darknet(folder):
    labelled(folder)
    (folder / "classes.txt").write_text("square\ndisc\n\n")


def as_label_studio(folder):
    labelled(folder, "images", "labels")
    (folder / "classes.txt").write_text("square\r\ndisc")
    (folder / "notes.json").write_text('{"categories": [], "info": {}}')


def as_cvat(folder):
    labelled(folder, "obj_train_data", "obj_train_data")
    (folder / "obj.names").write_text("square\ndisc\n")
    (folder / "obj.data").write_text(
        "classes = 2\ntrain = data/train.txt\nnames = data/obj.names\nbackup = backup/\n"
    )
    lines = [f"data/obj_train_data/{name}.png\n" for name in "ab"]
    (folder / "train.txt").write_text("".join(lines))


def as_list(folder):
    labelled(folder, "images", "labels")
    (folder / "train.txt").write_text(f"./images/a.png\n\n{folder}/images/b.png\n")
    (folder / "data.yaml").write_text("train: train.txt\nval: train.txt\nnames: [square, disc]\n")


def as_list_elsewhere(folder):
    labelled(folder, "images", "labels")
    (folder / "lists").mkdir()
    (folder / "lists/train.txt").write_text("images/a.png\nimages\\b.png\n")
    (folder / "data.yaml").write_text("train: lists/train.txt\nnames: [square, disc]\n")


def as_absolute(folder):
    labelled(folder, "images", "labels")
    table = {"path": str(folder), "train": f"{folder}/images", "names": ["square", "disc"]}
    (folder / "data.yaml").write_text(yaml.safe_dump(table))


def as_current(folder):
    labelled(folder, "images", "labels")
    (folder / "data.yaml").write_text("path: ./\ntrain: ./images/\nnames: [square, disc]\n")


def as_ultralytics(folder):
    labelled(folder, "images", "labels")
    text = f"path: ../datasets/{folder.name}\ntrain: images\nnames: [square, disc]\n"
    (folder / "data.yaml").write_text(text)


def as_cvat_ultralytics(folder):
    labelled(folder, "images/train", "labels/train")
    lines = [f"data/images/train/{name}.png\n" for name in "ab"]
    (folder / "train.txt").write_text("".join(lines))
    (folder / "data.yaml").write_text("path: ./\ntrain: train.txt\nnames: {0: square, 1: disc}\n")


LAYOUTS = [
    as_ultralytics, as_cvat_ultralytics,
    as_darknet, as_label_studio, as_cvat, as_list, as_list_elsewhere, as_absolute, as_current,
]  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_tools_are_read(tmp_path, layout):
    layout(tmp_path)
    dataset = read_real_images(tmp_path)
    assert dataset.categories == ("square", "disc")
    assert [sample.rgb.name for sample in dataset.samples] == ["a.png", "b.png"]
    assert [s.objects[0].box_xyxy for s in dataset.samples] == [
        pytest.approx(BOX_PX), pytest.approx((10, 5, 30, 15)),
    ]  # fmt: skip


def test_an_absolute_path_elsewhere_is_refused_with_the_cure(tmp_path):
    root = written(tmp_path, table="path: /somewhere/else\n")
    message = error_text(read_real_images, root)
    assert message == (
        f"{root}/data.yaml: path: '/somewhere/else' is not in the folder of this file. Give the folder of the images relative to this file, or remove the entry if they lie next to it."
    )


@pytest.mark.parametrize("line", ["../secret.png", "/etc/hosts", "images/../../a.png"])
def test_a_list_may_not_lead_outside(tmp_path, line):
    root = written(tmp_path / "in")
    picture(tmp_path / "secret.png")
    (root / "train.txt").write_text(f"{line}\n")
    (root / "data.yaml").write_text("train: train.txt\nnames: [square]\n")
    with pytest.raises(InputError):
        read_real_images(root)


def test_label_files_without_names_of_classes_say_what_is_missing(tmp_path):
    labelled(tmp_path, "images", "labels")
    message = error_text(read_real_images, tmp_path)
    assert message == (
        f"{tmp_path}: has label files but no class names (data.yaml or classes.txt). Add "
        "classes.txt with one name per line."
    )


@pytest.mark.parametrize("train", [["images", "images/train"], ["list.txt"]])
def test_an_image_that_a_part_names_twice_is_read_once(tmp_path, train):
    root = written(tmp_path)
    (root / "list.txt").write_text("images/train/a.png\n./images/train/a.png\n")
    (root / "data.yaml").write_text(yaml.safe_dump({"train": train, "names": ["square"]}))
    with pytest.warns(RepairWarning, match=r"images listed more than once: 1\. Each is read"):
        assert len(read_real_images(root).samples) == 1


@pytest.mark.parametrize("val", ["images/train", "./images/train/", "images"])
def test_a_part_that_repeats_another_counts_once(tmp_path, val):
    assert list(read_yolo(written(tmp_path, table=f"val: {val}\n"), "real")) == ["train"]


def test_images_that_are_not_read_are_counted(tmp_path):
    root = written(tmp_path)
    (root / "images/train/b.heic").write_bytes(b"x")
    with pytest.warns(RepairWarning, match=r"left out: 1 \(first: images/train/b\.heic\)"):
        assert len(read_real_images(root).samples) == 1


def test_all_flawed_lines_are_reported_and_can_be_left_out(tmp_path):
    root = written(tmp_path, f"{BOX}\n7 0.5 0.5 0.2 0.2\n{BOX}\n0 0.5 0.5 0.2")
    with pytest.raises(InputError) as caught:
        read_yolo(root, "real")
    words = str(caught.value)
    assert "2 annotations are flawed" in words
    assert f"{root}/labels/train/a.txt: line 2: class 7" in words
    assert f"{root}/labels/train/a.txt: line 4: 3 numbers" in words
    with pytest.warns(RepairWarning, match="2 flawed annotations are left out"):
        found = read_yolo(root, "real", skip_invalid=True)
    assert len(found["train"].samples[0].objects) == 2
