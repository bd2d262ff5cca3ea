import json
import math
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

from sim2cam.data.formats.coco.reader import read_coco
from sim2cam.data.real_images import read_real_images
from sim2cam.errors import InputError, RepairWarning
from sim2cam.files import write_bytes
from sim2cam.images import encode_png

WIDTH, HEIGHT = 40, 30


def tables(n: int = 1, **changes):
    """A sound file of n images a0.png, ... with one box each."""
    return {
        "images": [
            {"id": i, "file_name": f"a{i}.png", "width": WIDTH, "height": HEIGHT} for i in range(n)
        ],
        "annotations": [
            {"id": i, "image_id": i, "category_id": 1, "bbox": [4, 5, 10, 8]} for i in range(n)
        ],
        "categories": [{"id": 1, "name": "disc"}],
    } | changes


def save(file: Path, values, *, photos: Path | None = None) -> Path:
    """Write a COCO file, and its images under a folder by their own names."""
    for entry in values["images"]:
        picture(Path(photos or file.parent) / entry["file_name"])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(values))
    return file


def picture(path: Path, value: int = 0) -> Path:
    write_bytes(path, encode_png(np.full((HEIGHT, WIDTH, 3), value, np.uint8)))
    return path


def label(path: Path):
    return read_real_images(path).samples[0].objects[0]


def without_warnings(path: Path):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RepairWarning)
        return read_real_images(path)


def test_a_byte_order_mark_is_not_read_as_text(tmp_path):
    path = save(tmp_path / "a.json", tables())
    expected = read_real_images(path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert read_real_images(path) == expected


@pytest.mark.parametrize("rotation", [15, 60, 90, 135, 290, -30])
def test_the_box_around_a_box_that_cvat_rotated_is_read(tmp_path, rotation):
    values = tables()
    values["annotations"][0] |= {
        "bbox": [10, 10, 16, 6],
        "area": 96,
        "attributes": {"rotation": rotation},
    }
    angle = math.radians(rotation)
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    corners = np.array([[-8, -3], [8, -3], [8, 3], [-8, 3]]) @ turn.T + (18, 13)
    with pytest.warns(RepairWarning, match=r"rotated boxes .*: 1\. The axis-aligned boxes around"):
        found = label(save(tmp_path / "a.json", values))
    assert found.box_xyxy == pytest.approx([*corners.min(axis=0), *corners.max(axis=0)])
    assert found.area_px == 96


@pytest.mark.parametrize("rotation", [0, 180, 360.0, "60", None, math.nan, 10**400])
def test_a_box_that_is_not_rotated_stays(tmp_path, rotation):
    values = tables()
    values["annotations"][0]["attributes"] = {"rotation": rotation}
    (sample,) = without_warnings(save(tmp_path / "a.json", values)).samples
    assert sample.objects[0].box_xyxy == (4, 5, 14, 13)


@pytest.mark.parametrize("bbox", [[4, 5, 0, 8], [4, 5, 10, 0], [0, 0, 0, 0]])
def test_boxes_of_no_size_are_left_out_and_counted(tmp_path, bbox):
    values = tables(2)
    values["annotations"] += [
        {"id": i, "image_id": 1, "category_id": 1, "bbox": bbox} for i in (7, 8)
    ]
    with pytest.warns(RepairWarning, match="boxes without width or height are left out: 2"):
        samples = read_real_images(save(tmp_path / "a.json", values)).samples
    assert [len(sample.objects) for sample in samples] == [1, 1]


ROOT = {"id": 0, "name": "dice", "supercategory": "none"}


@pytest.mark.parametrize("name", ["dice", "die"])
def test_the_root_category_of_roboflow_is_left_out(tmp_path, name):
    categories = [ROOT, {"id": 1, "name": name, "supercategory": "dice"}]
    path = save(tmp_path / "a.json", tables(categories=categories))
    assert read_real_images(path).categories == (name,)


@pytest.mark.parametrize(
    "root",
    [ROOT | {"id": 1}, ROOT | {"supercategory": "toy"}, ROOT | {"name": "toy"}],
    ids=["annotated", "with a parent", "no parent of others"],
)
def test_other_categories_without_annotations_stay(tmp_path, root):
    other = {"id": 2, "name": "die", "supercategory": "dice"}
    path = save(
        tmp_path / "a.json",
        tables(categories=[root, other, {"id": 1, "name": "six"}][: 3 - (root["id"] == 1)]),
    )
    assert root["name"] in read_real_images(path).categories


LAYOUTS = {
    "beside": ("a.json", "."),
    "images": ("a.json", "images"),
    "split in images": ("val.json", "images/val"),
    "split": ("annotations/instances_val2017.json", "val2017"),
    "coco": ("annotations/instances_val2017.json", "images/val2017"),
    "cvat": ("annotations/instances_default.json", "images/default"),
    "keypoints": ("annotations/person_keypoints_default.json", "images/default"),
    "images beside annotations": ("annotations/a.json", "images"),
    "above annotations": ("annotations/a.json", "."),
}


@pytest.mark.parametrize(("file", "photos"), LAYOUTS.values(), ids=LAYOUTS)
def test_images_are_found_in_the_usual_layouts(tmp_path, file, photos):
    path = save(tmp_path / file, tables(2), photos=tmp_path / photos)
    samples = without_warnings(path).samples
    assert [s.name for s in samples] == ["a0.png", "a1.png"]
    assert [s.rgb.resolve() for s in samples] == [
        (tmp_path / photos / name).resolve() for name in ("a0.png", "a1.png")
    ]


def test_all_images_are_of_one_folder(tmp_path):
    """An image that is missing is not replaced by one of the same name elsewhere."""
    path = save(
        tmp_path / "annotations/instances_val.json", tables(3), photos=tmp_path / "images/val"
    )
    (tmp_path / "images/val/a1.png").unlink()
    picture(tmp_path / "images/a1.png", 9)
    with pytest.raises(InputError) as caught:
        read_real_images(path)
    assert caught.value.path.resolve() == (tmp_path / "images/val/a1.png").resolve()


def test_images_beside_a_folder_of_another_name_are_not_read(tmp_path):
    path = save(tmp_path / "mine/a.json", tables(), photos=tmp_path / "images")
    with pytest.raises(InputError, match="no such image"):
        read_real_images(path)


def test_backslashes_separate_folders(tmp_path):
    values = tables()
    path = save(tmp_path / "a.json", values, photos=tmp_path / "day 1")
    values["images"][0]["file_name"] = "day 1\\a0.png"
    path.write_text(json.dumps(values))
    (sample,) = without_warnings(path).samples
    assert (sample.name, sample.rgb) == ("day 1/a0.png", tmp_path / "day 1/a0.png")


OUTSIDE = [
    "/home/me/set/val/a0.png",
    "C:\\sets\\val\\a0.png",
    "\\\\server\\sets\\a0.png",
    "../../upload/val/a0.png",
]


@pytest.mark.parametrize("name", OUTSIDE)
def test_an_absolute_path_is_found_by_its_file_name(tmp_path, name):
    values = tables()
    path = save(tmp_path / "a.json", values, photos=tmp_path / "images/val")
    values["images"][0]["file_name"] = name
    path.write_text(json.dumps(values))
    with pytest.warns(RepairWarning, match="an image has a path outside the folder"):
        (sample,) = read_real_images(path).samples
    assert (sample.name, sample.rgb) == ("images/val/a0.png", tmp_path / "images/val/a0.png")


def test_of_several_images_of_a_file_name_the_one_in_the_folders_named_is_read(tmp_path):
    values = tables()
    path = save(tmp_path / "a.json", values, photos=tmp_path / "val")
    shutil.copytree(tmp_path / "val", tmp_path / "train")
    values["images"][0]["file_name"] = "/data/val/a0.png"
    path.write_text(json.dumps(values))
    with pytest.warns(RepairWarning):
        assert read_real_images(path).samples[0].name == "val/a0.png"
    values["images"][0]["file_name"] = "/data/a0.png"
    path.write_text(json.dumps(values))
    with pytest.raises(InputError, match="and 2 images in it have that file name"):
        read_real_images(path)


def test_two_entries_are_not_one_file(tmp_path):
    values = tables(2)
    path = save(tmp_path / "a.json", values)
    values["images"][1]["file_name"] = "/data/a0.png"
    path.write_text(json.dumps(values))
    with pytest.warns(RepairWarning), pytest.raises(InputError, match=r"a0\.png is listed twice"):
        read_real_images(path)


CONTROL = ["a\x1b[31m.png", "a\nb.png", "a\0.png"]


@pytest.mark.parametrize("name", CONTROL)
@pytest.mark.parametrize(
    ("what", "table", "key"), [("image", "images", "file_name"), ("category", "categories", "name")]
)
def test_control_characters_in_names_are_refused(tmp_path, name, what, table, key):
    path = save(tmp_path / "a.json", tables())
    values = tables()
    values[table][0][key] = name
    path.write_text(json.dumps(values))
    with pytest.raises(InputError) as caught:
        read_real_images(path)
    problem = f"{what} {json.dumps(name)} holds a control character. Rename it."
    assert str(caught.value) == f"{path}: {problem}"


def test_names_that_are_too_long_are_refused(tmp_path):
    path = save(tmp_path / "a.json", tables(categories=[{"id": 1, "name": "x" * 300}]))
    with pytest.raises(
        InputError, match=f"category '{'x' * 40}…' has 300 characters. Use at most 200"
    ):
        read_real_images(path)
    values = tables()
    values["images"][0]["file_name"] = "x" * 300 + ".png"
    path.write_text(json.dumps(values))
    with pytest.raises(InputError, match=r"cannot be read \(File name too long\)"):
        read_real_images(path)


def test_the_number_of_missing_images_is_told(tmp_path):
    path = save(tmp_path / "a.json", tables(4))
    for number in (1, 3):
        (tmp_path / f"a{number}.png").unlink()
    with pytest.raises(InputError) as caught:
        read_real_images(path)
    problem = "no such image (2 missing in all)."
    assert str(caught.value).startswith(f"{tmp_path / 'a1.png'}: {problem}")


@pytest.mark.parametrize(
    ("key", "depth"),
    [("segmentation", 900), ("keypoints", 900), ("segmentation", 5_000), ("id", 5_000)],
)
def test_deeply_nested_tables_are_refused_in_words(tmp_path, key, depth):
    path = save(tmp_path / "a.json", tables())
    deep = "[" * depth + "]" * depth
    path.write_text(path.read_text().replace('"bbox"', f'"{key}": {deep}, "bbox"', 1))
    with pytest.raises(InputError, match=r"a\.json: "):
        read_real_images(path)


def test_all_flawed_annotations_are_named_at_once(tmp_path):
    values = tables(4)
    values["annotations"][0]["bbox"] = [4, 5, -3, 8]
    values["annotations"][1]["image_id"] = 77
    values["annotations"][2]["area"] = math.nan
    del values["annotations"][3]["bbox"]
    path = save(tmp_path / "a.json", values)
    with pytest.raises(InputError) as caught:
        read_real_images(path)
    lines = str(caught.value).splitlines()
    assert lines[0] == f"{path}: 4 annotations are flawed:"
    assert sorted(line.split()[0].split(".")[0] for line in lines[1:5]) == [
        f"annotations[{i}]" for i in range(4)
    ]
    assert lines[-1] == "Correct the file, or leave flawed annotations out with --skip-invalid."


def test_flawed_annotations_can_be_left_out(tmp_path):
    values = tables(3)
    values["annotations"][0]["bbox"] = [4, 5, 3]
    values["annotations"][1] |= {"segmentation": [[2, "3", 12, 3, 12, 9]]}
    path = save(tmp_path / "a.json", values)
    with pytest.warns(RepairWarning, match="2 flawed annotations are left out"):
        samples = read_coco(path, "real", skip_invalid=True).samples
    assert [len(sample.objects) for sample in samples] == [0, 0, 1]


@pytest.mark.parametrize("box", [[1, 2, -3, 4], [1, 2, 0, 4], [1, 2, 3, 10**400], [1, 2, 3], "1"])
def test_an_amodal_box_that_is_none_is_left_out(tmp_path, box):
    values = tables()
    values["annotations"][0]["bbox_amodal"] = box
    assert label(save(tmp_path / "a.json", values)).box_amodal_xyxy is None
