import json
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sim2cam.data.reader import read_dataset
from sim2cam.data.real_images import (
    check_images_readable,
    is_photo_folder,
    read_real_images,
    split_real_images,
)
from sim2cam.errors import InputError, RepairWarning
from sim2cam.files import write_bytes
from sim2cam.images import encode_png
from tests.support.errors import error_text
from tests.support.photos import planted_box

ORIENTATION = 0x0112


def save_image(path, *, size=(40, 30), box=None, orientation=1, seed=0):
    """A dim image of (width, height) as stored, with a bright box."""
    pixels = np.random.default_rng(seed).integers(0, 60, (size[1], size[0], 3), dtype=np.uint8)
    if box:
        x, y, width, height = box
        pixels[y : y + height, x : x + width] = 255
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, exif=exif)


def coco(n=2, **changes):
    """A sound COCO file of n images of 40x30 pixels with one box each."""
    return {
        "images": [
            {"id": i, "file_name": f"photos/{i}.png", "width": 40, "height": 30} for i in range(n)
        ],
        "annotations": [
            {"id": i, "image_id": i, "category_id": 7, "bbox": [4, 5, 10, 8]} for i in range(n)
        ],
        "categories": [{"id": 7, "name": "disc"}, {"id": 3, "name": "square"}],
    } | changes


def write_captures(folder, tables=None, *, name="test.json", seed=0):
    """Writes a COCO file and its images and returns the file's path."""
    tables = coco() if tables is None else tables
    for number, entry in enumerate(tables["images"]):
        save_image(folder / entry["file_name"], seed=seed + number)
    (folder / name).write_text(json.dumps(tables))
    return folder / name


def test_a_coco_file_is_read(tmp_path):
    tables = coco()
    tables["annotations"][1] |= {"area": 12.5, "iscrowd": 1, "category_id": 3}
    path = write_captures(tmp_path, tables)
    dataset = read_real_images(path)
    assert dataset.root == tmp_path
    assert dataset.categories == ("square", "disc")
    first, second = dataset.samples
    assert (first.name, first.rgb) == ("photos/0.png", tmp_path / "photos/0.png")
    assert (first.width, first.height, first.origin) == (40, 30, "real")
    (label,) = first.objects
    assert (label.category, label.box_xyxy, label.area_px) == ("disc", (4, 5, 14, 13), 80)
    assert not label.is_crowd
    (label,) = second.objects
    assert (label.category, label.area_px, label.is_crowd) == ("square", 12.5, True)
    assert {s.origin for s in read_real_images(path, origin="stand-in").samples} == {"stand-in"}


def test_an_image_without_annotations_is_empty_and_without_a_list_unlabelled(tmp_path):
    path = write_captures(tmp_path, coco(annotations=[]))
    assert [sample.objects for sample in read_real_images(path).samples] == [(), ()]
    tables = coco()
    del tables["annotations"]
    path.write_text(json.dumps(tables))
    assert [sample.objects for sample in read_real_images(path).samples] == [None, None]


def test_a_box_may_reach_over_the_edge(tmp_path):
    tables = coco()
    tables["annotations"][0]["bbox"] = [-3.5, 20, 10, 12]
    (label,) = read_real_images(write_captures(tmp_path, tables)).samples[0].objects
    assert label.box_xyxy == (-3.5, 20, 6.5, 32)


def test_a_folder_of_images_is_unlabelled_and_sorted(tmp_path):
    for name in ("b.jpg", "a.PNG", ".hidden.png"):
        save_image(tmp_path / name)
    save_image(tmp_path / "c.jpeg", orientation=6)
    (tmp_path / "notes.txt").write_text("no image")
    (tmp_path / "d.jpg").mkdir()
    dataset = read_real_images(tmp_path)
    assert [sample.name for sample in dataset.samples] == ["a.PNG", "b.jpg", "c.jpeg"]
    assert [sample.objects for sample in dataset.samples] == [None, None, None]
    assert (dataset.samples[2].width, dataset.samples[2].height) == (30, 40)
    assert dataset.categories == ()
    assert is_photo_folder(tmp_path)


def test_a_data_set_of_ours_is_read_as_such(native, adapted):
    assert read_real_images(native) == read_dataset(native)
    assert not is_photo_folder(native)
    assert read_real_images(adapted).samples[0].origin == "adapted"


@pytest.mark.parametrize("orientation", [5, 6, 7, 8])
def test_boxes_of_upright_pixels_stay(tmp_path, orientation):
    save_image(tmp_path / "a.png", box=(3, 5, 12, 7), orientation=orientation)
    x0, y0, x1, y1 = planted_box(tmp_path / "a.png")
    path = tmp_path / "a.json"
    path.write_text(json.dumps(one_image(30, 40, (x0, y0, x1 - x0, y1 - y0))))
    (sample,) = read_real_images(path).samples
    assert sample.objects[0].box_xyxy == (x0, y0, x1, y1)
    assert (sample.width, sample.height) == (30, 40)


@pytest.mark.parametrize("orientation", [2, 3, 4])
def test_an_orientation_that_tells_nothing_follows_the_other_images(tmp_path, orientation):
    save_image(tmp_path / "a.png", box=(3, 5, 12, 7), orientation=orientation)
    save_image(tmp_path / "b.png", orientation=6)
    x0, y0, x1, y1 = planted_box(tmp_path / "a.png")
    tables = one_image(40, 30, (x0, y0, x1 - x0, y1 - y0))
    tables["images"].append({"id": 2, "file_name": "b.png", "width": 30, "height": 40})
    path = tmp_path / "a.json"
    path.write_text(json.dumps(tables))
    assert read_real_images(path).samples[0].objects[0].box_xyxy == (x0, y0, x1, y1)
    tables["images"][1] |= {"width": 40, "height": 30}
    path.write_text(json.dumps(tables))
    assert read_real_images(path).samples[0].objects[0].box_xyxy != (x0, y0, x1, y1)


@pytest.mark.parametrize("orientation", [2, 3, 4])
def test_without_another_image_labels_are_of_upright_pixels_with_a_warning(tmp_path, orientation):
    save_image(tmp_path / "a.png", box=(3, 5, 12, 7), orientation=orientation)
    x0, y0, x1, y1 = planted_box(tmp_path / "a.png")
    path = tmp_path / "a.json"
    path.write_text(json.dumps(one_image(40, 30, (x0, y0, x1 - x0, y1 - y0))))
    with pytest.warns(
        RepairWarning, match=r"image a\.png: EXIF rotates .* as labels of the upright image"
    ):
        (sample,) = read_real_images(path).samples
    assert sample.objects[0].box_xyxy == (x0, y0, x1, y1)


def one_image(width, height, box):
    return {
        "images": [{"id": 1, "file_name": "a.png", "width": width, "height": height}],
        "annotations": [{"image_id": 1, "category_id": 1, "bbox": box}],
        "categories": [{"id": 1, "name": "bright"}],
    }


def changed(key, index, **changes):
    tables = coco()
    tables[key][index] |= changes
    return tables


def doubled(key, **changes):
    tables = coco()
    tables[key].append(tables[key][0] | changes)
    return tables


BOX = "annotations[1] (image photos/1.png): "
CORRECT = "Correct the file, or leave flawed annotations out with --skip-invalid."
OUTSIDE = (
    "lies outside the folder of this file, and is not in it. Put the images next to it and use "
    "relative paths."
)
REFUSED = {
    "no images": (coco(images=[]), "its list of images is empty. Export it with the images."),
    "an unknown image id": (changed("annotations", 1, image_id=99),
     f"annotations[1] has image_id 99, which is not in the list of images. {CORRECT}"),
    "an annotation that repeats": (doubled("annotations", id=1),
     "annotations[2] has the id 1 of annotations[1]. " + CORRECT),
    "an image id as text": (changed("annotations", 1, image_id="1"),
     'annotations[1] has image_id "1", which is not in the list of images. ' + CORRECT),
    "an unknown category id": (changed("annotations", 1, category_id=8),
     f"{BOX}no category has the id 8. Allowed: 3 (square), 7 (disc). {CORRECT}"),
    "a negative size": (changed("annotations", 1, bbox=[4, 5, -10, 8]),
     f"{BOX}bbox [4.0, 5.0, -10.0, 8.0] must have a width and a height above 0. {CORRECT}"),
    "a box that is not a number": (changed("annotations", 1, bbox=[4, 5, float("nan"), 8]),
     f"{BOX}bbox [4.0, 5.0, nan, 8.0] must be four finite numbers: x, y, width, height. "
     f"{CORRECT}"),
    "an endless box": (changed("annotations", 1, bbox=[4, 5, float("inf"), 8]),
     f"{BOX}bbox [4.0, 5.0, inf, 8.0] must be four finite numbers: x, y, width, height. "
     f"{CORRECT}"),
    "three numbers": (changed("annotations", 1, bbox=[4, 5, 10]),
     f"{BOX}bbox [4.0, 5.0, 10.0] must be four finite numbers: x, y, width, height. {CORRECT}"),
    "a box to the right of the image": (changed("annotations", 1, bbox=[40, 5, 10, 8]),
     f"{BOX}bbox [40.0, 5.0, 10.0, 8.0] lies outside the image of 40x30 pixels. {CORRECT}"),
    "a box above the image": (changed("annotations", 1, bbox=[4, -8, 10, 8]),
     f"{BOX}bbox [4.0, -8.0, 10.0, 8.0] lies outside the image of 40x30 pixels. {CORRECT}"),
    "a negative area": (changed("annotations", 1, area=-1),
     f"{BOX}area -1.0 must be a finite number, 0 or more. {CORRECT}"),
    "two images of an id": (doubled("images", file_name="photos/9.png"),
     "two images have the id 0. Give each its own."),
    "an image listed twice": (doubled("images", id=9),
     "image photos/0.png is listed twice. Keep one entry."),
    "an image listed twice in other words": (doubled("images", id=9, file_name="photos/./0.png"),
     "image photos/./0.png is listed twice. Keep one entry."),
    "two categories of an id": (doubled("categories", name="ring"),
     "two categories have the id 7. Give each its own."),
    "two categories of a name": (doubled("categories", id=9),
     "two categories are named 'disc'. Merge them or rename one."),
    "another size than the file's": (changed("images", 1, width=41),
     "image photos/1.png is 40x30 pixels, not 41x30 as listed. Export the annotations of this image."),
    "no categories": ({"images": [], "annotations": []},
     "not a COCO file: list 'categories' is missing. Export the annotations as COCO detection."),
    "a list": ([],
     "not a COCO file: list 'images' is missing. Export the annotations as COCO detection."),
    "a size as text": (changed("images", 1, width="wide"),
     "images[1].width: Input should be a valid integer, unable to parse string as an integer "
     '(found "wide"). Correct the file.'),
    "no box": ({**coco(), "annotations": [{"image_id": 0, "category_id": 7}]},
     f"annotations[0].bbox is missing. {CORRECT}"),
}  # fmt: skip


@pytest.mark.parametrize(("tables", "problem"), REFUSED.values(), ids=REFUSED)
def test_a_coco_file_that_contradicts_itself_is_refused(tmp_path, tables, problem):
    path = write_captures(tmp_path)
    path.write_text(json.dumps(tables))
    assert error_text(read_real_images, path) == f"{path}: {problem}"


@pytest.mark.parametrize("name", ["../secret.png", "/etc/secret.png", "a/../../b.png", "", "."])
def test_an_image_outside_the_folder_is_refused(tmp_path, name):
    path = write_captures(tmp_path / "inside")
    save_image(tmp_path / "secret.png")
    path.write_text(json.dumps(changed("images", 1, file_name=name)))
    assert error_text(read_real_images, path) == f"{path}: image '{name}' {OUTSIDE}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", r"not JSON \(.*\)\. Export the annotations"),
        ("[" * 100_000, r"lists or tables are nested more than 64 deep\. Correct the file\."),
        ('"\\ud800', r"not JSON \(.*\)\. Export the annotations"),
    ],
)
def test_what_is_no_json_is_refused(tmp_path, text, problem):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(InputError, match=rf"a\.json: {problem}"):
        read_real_images(path)


def test_a_file_that_is_too_large_is_not_opened(tmp_path):
    path = tmp_path / "a.json"
    with path.open("wb") as file:
        file.truncate(1_000_000_001)  # a hole, no bytes on the disk
    with pytest.raises(InputError) as caught:
        read_real_images(path)
    problem = "more than 1000000000 bytes. No COCO file is that long."
    assert str(caught.value) == f"{path}: {problem}"


def test_a_missing_file_or_image_is_named(tmp_path):
    message = error_text(read_real_images, tmp_path / "none.json")
    assert message == f"{tmp_path / 'none.json'}: no such file. Check the path."
    path = write_captures(tmp_path)
    image = tmp_path / "photos/1.png"
    image.unlink()
    message = error_text(read_real_images, path)
    assert message == (f"{image}: no such image. Check the path or the annotation file.")


def test_a_folder_without_images_says_what_is_there(tmp_path):
    with pytest.raises(InputError) as caught:
        read_real_images(tmp_path)
    none = f"{tmp_path}: no images in it (JPEG, PNG, BMP, TIFF, WebP, PPM, TGA, JPEG 2000)."
    assert str(caught.value) == f"{none} Check the path."
    for name in ("test.json", "style.json"):
        (tmp_path / name).write_text('{"images": []}')
    message = error_text(read_real_images, tmp_path)
    assert message == f"{none} Name the COCO file itself: style.json, test.json."


@pytest.mark.parametrize("names", [["style.json"], ["train.json"], ["style.json", "train.json"]])
def test_a_pair_gives_style_without_labels_and_test_with_them(tmp_path, names):
    write_captures(tmp_path)
    for name in names:
        tables = coco()
        for entry in tables["images"]:
            entry["file_name"] = f"of-{name}/{entry['id']}.png"
        write_captures(tmp_path, tables, name=name, seed=50)
    sets = split_real_images(tmp_path)
    assert [s.name for s in sets.style.samples] == [f"of-{names[0]}/{i}.png" for i in (0, 1)]
    assert all(sample.objects is None for sample in sets.style.samples)
    assert all(len(sample.objects) == 1 for sample in sets.test.samples)


def test_labelled_photos_come_where_they_are_asked_for(tmp_path):
    for name in ("test.json", "style.json", "train.json"):
        tables = coco()
        for entry in tables["images"]:
            entry["file_name"] = f"of-{name}/{entry['id']}.png"
        path = write_captures(tmp_path, tables, name=name, seed=50)
    assert split_real_images(tmp_path).train is None
    sets = split_real_images(tmp_path, with_train=True)
    assert [s.name for s in sets.train.samples] == [f"of-train.json/{i}.png" for i in (0, 1)]
    assert all(len(sample.objects) == 1 for sample in sets.train.samples)
    assert [s.name for s in sets.style.samples] == [f"of-style.json/{i}.png" for i in (0, 1)]
    del tables["annotations"]
    path.write_text(json.dumps(tables))
    assert split_real_images(tmp_path, with_train=True).train is None
    tables["images"] = coco()["images"]
    tables["images"][0]["file_name"] = "of-test.json/0.png"
    write_captures(tmp_path, tables, name="train.json")
    with pytest.raises(InputError, match=r"train\.json: image of-test\.json/0\.png is in test too"):
        split_real_images(tmp_path, with_train=True)


def test_the_half_that_is_not_tested_can_be_trained_on(tmp_path):
    sets = split_real_images(write_captures(tmp_path, coco(8)), with_train=True)
    assert {s.name for s in sets.train.samples} == {s.name for s in sets.style.samples}
    assert all(sample.objects for sample in sets.train.samples)


def test_a_development_split_keeps_its_labels(tmp_path):
    for name in ("test.json", "style.json", "dev.json"):
        tables = coco()
        for entry in tables["images"]:
            entry["file_name"] = f"of-{name}/{entry['id']}.png"
        write_captures(tmp_path, tables, name=name, seed=50)
    sets = split_real_images(tmp_path)
    assert [s.name for s in sets.dev.samples] == ["of-dev.json/0.png", "of-dev.json/1.png"]
    assert all(len(sample.objects) == 1 for sample in sets.dev.samples)


@pytest.mark.parametrize("name", ["style.json", "dev.json"])
def test_splits_that_share_an_image_with_the_test_are_refused(tmp_path, name):
    write_captures(tmp_path, coco(3))
    style = [{"id": 9, "file_name": "apart/9.png", "width": 40, "height": 30}]
    write_captures(tmp_path, coco(images=style, annotations=[]), name="style.json")
    path = tmp_path / name
    (tmp_path / "other").symlink_to(tmp_path / "photos")
    entry = {"id": 1, "file_name": "other/2.png", "width": 40, "height": 30}
    path.write_text(json.dumps(coco(images=[entry], annotations=[])))
    message = error_text(split_real_images, tmp_path)
    assert message == (
        f"{path}: image other/2.png is in test too; test images must not be used for training. Keep it in one of them."
    )


@pytest.mark.parametrize("present", [[], ["test.json"], ["style.json"], ["train.json"]])
def test_an_incomplete_pair_is_refused(tmp_path, present):
    for name in present:
        write_captures(tmp_path, name=name)
    message = error_text(split_real_images, tmp_path)
    assert message == (
        f"{tmp_path}: real images need the splits test and style or train, as COCO files (test.json) or in the layout of YOLO, VOC, BOP, KITTI or WebDataset. Add them, or give one COCO file, which is split in half."
    )


@pytest.mark.parametrize(
    ("n", "is_folder"), [(1, False), (2, False), (7, False), (8, False), (8, True)]
)
def test_half_of_a_file_is_style_and_never_scored(tmp_path, n, is_folder):
    path = write_captures(tmp_path, coco(n), name="labels.json")
    sets = split_real_images(tmp_path if is_folder else path)
    style, test = ({s.name for s in part.samples} for part in (sets.style, sets.test))
    assert not style & test
    assert (len(style), len(test)) == (n // 2, n - n // 2)
    assert all(sample.objects is None for sample in sets.style.samples)
    assert all(sample.objects for sample in sets.test.samples)


def test_the_halves_follow_the_bytes_not_names_or_order(tmp_path):
    path = write_captures(tmp_path, coco(8))
    style = {sample.rgb.read_bytes() for sample in split_real_images(path).style.samples}
    tables = coco(8)
    tables["images"].reverse()
    for entry in tables["images"]:
        old = tmp_path / entry["file_name"]
        entry["file_name"] = f"renamed/{entry['id'] * 7 % 8}.png"
        write_bytes(tmp_path / entry["file_name"], old.read_bytes())
    path.write_text(json.dumps(tables))
    assert {s.rgb.read_bytes() for s in split_real_images(path).style.samples} == style


def test_copies_of_an_image_stay_on_one_side(tmp_path):
    path = write_captures(tmp_path, coco(8))
    for i in range(4):
        copy = (tmp_path / f"photos/{i}.png").read_bytes()
        (tmp_path / f"photos/{i + 4}.png").write_bytes(copy)
    sets = split_real_images(path)
    style, test = ({s.rgb.read_bytes() for s in part.samples} for part in (sets.style, sets.test))
    assert not style & test
    assert (len(style), len(test)) == (2, 2)


@pytest.mark.parametrize("pair", [True, False])
def test_what_is_scored_needs_labels(tmp_path, pair):
    tables = coco()
    del tables["annotations"]
    path = write_captures(tmp_path, tables)
    style = coco(images=[{"id": 5, "file_name": "s.png", "width": 1, "height": 1}], annotations=[])
    write_bytes(tmp_path / "s.png", encode_png(np.zeros((1, 1, 3), np.uint8)))
    (tmp_path / "style.json").write_text(json.dumps(style))
    message = error_text(split_real_images, tmp_path if pair else path)
    assert message == (f"{path}: its images have no labels to evaluate against. Label them.")


@pytest.mark.real
def test_the_dice_photos_of_the_development_part_are_read():
    root = os.environ.get("SIM2CAM_REAL")
    if not root or not (Path(root) / "dice/dev.json").is_file():
        pytest.skip("needs the real captures: set SIM2CAM_REAL to their folder")
    dataset = read_real_images(Path(root) / "dice/dev.json")
    assert dataset.categories == ("1", "2", "3", "4", "5", "6")
    assert len(dataset.samples) == 40
    assert all(sample.objects for sample in dataset.samples)


def test_all_pictures_that_are_cut_short_are_told_of_at_once(tmp_path):
    captures = read_real_images(write_captures(tmp_path, coco(4)))
    check_images_readable(captures)
    for number in (1, 3):
        path = tmp_path / f"photos/{number}.png"
        path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(InputError) as error:
        check_images_readable(captures)
    assert error.value.path == tmp_path / "photos/1.png"
    assert str(error.value).endswith(" 1 more cannot be read either.")
    assert "more" not in error_text(lambda: check_images_readable(captures.take(2)))
