import json

import numpy as np
import pytest

from sim2cam.data.formats.export import export_dataset
from sim2cam.data.reader import read_dataset
from sim2cam.data.real_images import read_evaluation_images, read_real_images, read_splits
from sim2cam.data.set_operations import split_by_scene
from sim2cam.data.splits import DEV, STYLE, TRAIN, choose_splits, find_split_role
from sim2cam.errors import InputError, RepairWarning, UsageError
from sim2cam.files import write_bytes
from sim2cam.images import encode_png
from sim2cam.seeds import derive_rng
from tests.support.errors import error_text

PARTS = ("train", "val", "test")


def as_yolo(folder, names=PARTS):
    for name in names:
        write_bytes(
            folder / f"images/{name}/{name}.png", encode_png(np.zeros((20, 40, 3), np.uint8))
        )
        write_bytes(folder / f"labels/{name}/{name}.txt", b"0 0.5 0.5 0.25 0.5\n")
    lines = "".join(f"{name}: images/{name}\n" for name in names)
    (folder / "data.yaml").write_text(f"{lines}names: [disc]\n")


def as_voc(folder, names=PARTS):
    for name in names:
        write_bytes(folder / f"JPEGImages/{name}.png", encode_png(np.zeros((20, 40, 3), np.uint8)))
        box = "<xmin>16</xmin><ymin>6</ymin><xmax>25</xmax><ymax>15</ymax>"
        write_bytes(
            folder / f"Annotations/{name}.xml",
            f"<annotation><object><name>disc</name><bndbox>{box}</bndbox></object></annotation>".encode(),
        )
        write_bytes(folder / f"ImageSets/Main/{name}.txt", f"{name}\n".encode())


def as_coco(folder, names=PARTS, where="{}.json"):
    for name in names:
        write_bytes(folder / f"{name}/{name}.png", encode_png(np.zeros((20, 40, 3), np.uint8)))
        tables = {
            "images": [{"id": 1, "file_name": f"{name}/{name}.png", "width": 40, "height": 20}],
            "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [15, 5, 10, 10]}],
            "categories": [{"id": 1, "name": "disc"}],
        }
        write_bytes(folder / where.format(name), json.dumps(tables).encode())


def as_coco_itself(folder, names=PARTS):
    as_coco(folder, names, "annotations/instances_{}2017.json")


def stems(dataset):
    return [sample.rgb.stem for sample in dataset.samples]


@pytest.mark.parametrize("layout", [as_yolo, as_voc, as_coco, as_coco_itself])
@pytest.mark.parametrize("names", ["train", "val", "test", "train,val", "val,train", "test,test"])
def test_a_split_chooses_parts(tmp_path, layout, names, recwarn):
    layout(tmp_path)
    dataset = read_real_images(tmp_path, split=names)
    assert stems(dataset) == list(dict.fromkeys(names.split(",")))
    assert all(len(sample.objects) == 1 for sample in dataset.samples)
    assert not recwarn.list
    assert stems(read_evaluation_images(tmp_path, split=names)) == stems(dataset)


@pytest.mark.parametrize("layout", [as_yolo, as_voc, as_coco, as_coco_itself])
@pytest.mark.parametrize(("uses", "part"), [(TRAIN, "train"), (STYLE, "train"), (DEV, "val")])
def test_the_use_chooses_by_default_and_what_is_left_out_is_said(tmp_path, layout, uses, part):
    layout(tmp_path)
    if part == "val" and layout in (as_coco, as_coco_itself):
        (tmp_path / "readme.json").write_text("{}")  # which is no part
    with pytest.warns(
        RepairWarning, match=r": reading \w+, leaving out \w+, \w+\. Choose"
    ) as caught:
        assert stems(read_real_images(tmp_path, roles=uses)) == [part]
    assert len(caught) == 1


@pytest.mark.parametrize("layout", [as_yolo, as_voc])
def test_all_parts_are_read_as_one_and_that_is_said(tmp_path, layout):
    layout(tmp_path)
    with pytest.warns(RepairWarning, match=r"reading the splits .* as one\. Choose splits"):
        assert sorted(stems(read_real_images(tmp_path))) == sorted(PARTS)


@pytest.mark.parametrize("layout", [as_yolo, as_voc])
@pytest.mark.parametrize("names", [("test",), ("val",), ("val", "test")])
def test_held_out_parts_are_not_trained_on_unless_named(tmp_path, layout, names):
    layout(tmp_path, names)
    with pytest.raises(InputError) as caught:
        read_real_images(tmp_path, roles=TRAIN)
    told = str(caught.value)
    assert "has no split train, only " in told
    assert "Choose one with --split" in told
    assert stems(read_real_images(tmp_path, roles=TRAIN, split=names[0])) == [names[0]]


@pytest.mark.parametrize("uses", [TRAIN, DEV, STYLE])
def test_data_without_parts_is_whole(tmp_path, native, uses):
    as_yolo(tmp_path, ["train"])
    assert stems(read_real_images(tmp_path, roles=uses)) == ["train"]
    assert len(read_real_images(native, roles=uses).samples) == 4


def test_a_split_of_data_without_parts_is_refused_unless_other_data_may_have_some(native):
    with pytest.raises(UsageError, match=r"--split val: .* has no splits. Omit --split."):
        read_real_images(native, split="val")
    with pytest.warns(RepairWarning, match="has no splits, so --split has no effect"):
        assert len(read_real_images(native, split="val", roles=TRAIN).samples) == 4


def test_an_unknown_part_is_refused(tmp_path):
    as_yolo(tmp_path)
    message = error_text(read_real_images, tmp_path, split="train,dev", error=UsageError)
    assert message == (
        f"--split train,dev: {tmp_path} has no split 'dev'. Allowed: train, val, test."
    )


def test_an_image_in_several_parts_is_refused_unless_one_is_chosen(tmp_path):
    as_voc(tmp_path)
    (tmp_path / "ImageSets/Main/test.txt").write_text("test\nval\n")
    message = error_text(read_real_images, tmp_path)
    assert message == (
        f"{tmp_path}: image JPEGImages/val.png is in the splits test and val. Keep it in one, or choose a split with --split."
    )
    assert stems(read_real_images(tmp_path, split="test")) == ["test", "val"]


def test_nested_folders_of_yolo_do_not_give_an_image_to_two_parts(tmp_path):
    as_yolo(tmp_path)
    (tmp_path / "data.yaml").write_text("train: images\nval: images/val\nnames: [disc]\n")
    with pytest.raises(
        InputError, match=r"image images/val/val\.png is in the splits train and val\."
    ):
        read_real_images(tmp_path)


def test_single_coco_file_is_read_unless_training_would_use_a_test_split(tmp_path):
    as_coco(tmp_path, ["test"])
    expected = read_real_images(tmp_path / "test.json")
    assert read_real_images(tmp_path) == read_real_images(tmp_path, roles=STYLE) == expected
    with pytest.raises(InputError, match="has no split train, only test"):
        read_real_images(tmp_path, roles=TRAIN)


@pytest.mark.parametrize("to", ["yolo", "voc", "kitti", "webdataset"])
def test_parts_of_exports_are_found(tmp_path, native, to):
    root = tmp_path / to
    parts = split_by_scene(
        read_dataset(native), {"train": 0.5, "test": 0.5}, derive_rng(0, "split")
    )
    export_dataset(parts, root, to)
    for name, part in parts.items():
        assert len(read_real_images(root, split=name).samples) == len(part.samples)
    with pytest.warns(RepairWarning, match="leaving out test"):
        assert len(read_real_images(root, roles=TRAIN).samples) == len(parts["train"].samples)


USES = {
    "train": "train", "train2017": "train", "train_pbr": "train", "training": "train", "Train": "train",
    "val": "val", "valid": "val", "validation": "val", "val-2": "val", "dev": "dev", "test_b": "test",
    "trainval": "trainval", "small": "small", "tests": "tests", "7": "7",
}  # fmt: skip


@pytest.mark.parametrize(("name", "use"), USES.items())
def test_names_tell_uses(name, use):
    assert find_split_role(name) == use


def test_a_style_part_shows_the_look_and_train_is_left_out(tmp_path):
    with pytest.warns(RepairWarning, match="reading style, leaving out train, test"):
        assert choose_splits(tmp_path, ["train", "style", "test"], None, STYLE) == ["style"]


def test_read_parts_keeps_names(tmp_path):
    as_yolo(tmp_path / "yolo")
    assert list(read_splits(tmp_path / "yolo")) == list(PARTS)
    as_coco(tmp_path / "coco")
    assert list(read_splits(tmp_path / "coco/test.json")) == ["train"]
