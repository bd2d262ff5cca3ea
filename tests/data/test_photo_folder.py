import json
import os
import warnings

import numpy as np
import pytest
from PIL import Image

from sim2cam import images
from sim2cam.data.photo_folder import list_photos
from sim2cam.data.real_images import read_evaluation_images, read_real_images
from sim2cam.errors import InputError, RepairWarning
from sim2cam.files import write_bytes
from sim2cam.images import encode_png

RGB = np.full((8, 12, 3), 90, np.uint8)
DEEP = np.full((8, 12), 9000, np.uint16)


def photo(path, pixels=RGB):
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix in (".png", ".PNG"):
        write_bytes(path, encode_png(pixels))
    else:
        Image.fromarray(pixels).save(path, {".jfif": "JPEG"}.get(path.suffix))
    return path


def names(root):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepairWarning)
        return [path.relative_to(root).as_posix() for path in list_photos(root)]


def test_subfolders_are_read_and_counted(tmp_path):
    for name in ("b.png", "a/c.png", "a/b/d.png", ".hidden/e.png", "a/.f.png"):
        photo(tmp_path / name)
    with pytest.warns(RepairWarning, match="3 images, 2 of them in subfolders"):
        samples = read_real_images(tmp_path).samples
    assert [sample.name for sample in samples] == ["a/b/d.png", "a/c.png", "b.png"]
    assert [sample.scene_index for sample in samples] == [0, 1, 2]


def test_links_are_followed_and_each_image_counts_once(tmp_path):
    outside = photo(tmp_path / "outside/far.png").parent
    root = tmp_path / "root"
    photo(root / "z/a.png")
    (root / "again").symlink_to(root / "z")
    (root / "loop").symlink_to(root)
    (root / "out").symlink_to(outside)
    (root / "copy.png").symlink_to(root / "z/a.png")
    (root / "one.png").symlink_to(outside / "far.png")
    (root / "dangling.png").symlink_to(tmp_path / "nowhere.png")
    assert sorted(names(root)) == ["out/far.png", "z/a.png"]


def test_a_link_alone_is_a_photo(tmp_path):
    outside = photo(tmp_path / "outside/far.png")
    (tmp_path / "root").mkdir()
    for name in ("a.png", "b.png"):
        (tmp_path / "root" / name).symlink_to(outside)
    assert names(tmp_path / "root") == ["a.png"]


def test_pipes_are_no_photos(tmp_path):
    photo(tmp_path / "a.png")
    os.mkfifo(tmp_path / "b.png")
    assert names(tmp_path) == ["a.png"]


@pytest.mark.parametrize("suffix", images.IMAGE_SUFFIXES)
def test_every_kind_that_is_read_is_found(tmp_path, suffix):
    pixels = RGB[..., 0] if suffix == ".pgm" else RGB
    photo(tmp_path / f"a{suffix}", pixels)
    (sample,) = read_real_images(tmp_path).samples
    assert (sample.width, sample.height) == (12, 8)
    assert np.abs(images.read_rgb(sample.rgb).astype(int) - 90).max() <= 2


def test_data_sets_in_a_folder_are_left_out(tmp_path, native):
    photo(tmp_path / "a.png")
    with pytest.warns(RepairWarning, match=r"1 dataset in subfolders left out \(first: native"):
        assert [path.name for path in list_photos(tmp_path)] == ["a.png"]


BESIDE = {
    "kubric": ("rgba_0.png", "segmentation_0.png", "normal_0.png", "object_coordinates_0.png"),
    "a suffix": ("0.png", "0_depth.png", "0-mask.png"),
    "folders": ("rgb/0.png", "masks/0.png", "depth/0.png"),
}


@pytest.mark.parametrize("files", BESIDE.values(), ids=BESIDE)
def test_maps_beside_photos_are_told_by_their_names(tmp_path, files):
    for name in files:
        photo(tmp_path / name)
    with pytest.warns(RepairWarning, match=rf": {len(files) - 1} images? left out as depth"):
        found = list_photos(tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in found] == [files[0]]


@pytest.mark.parametrize("name", ["1.tif", "depth_7.png", "1_depth.png"])
def test_images_of_16_bits_are_no_photos_by_their_name_or_beside_a_photo_of_the_same_name(
    tmp_path, name
):
    photo(tmp_path / "1.png")
    photo(tmp_path / name, DEEP)
    with pytest.warns(RepairWarning, match=rf": 1 image left out as depth.*first: {name}\)"):
        assert [path.name for path in list_photos(tmp_path)] == ["1.png"]


def test_a_folder_of_what_is_not_read_says_so(tmp_path):
    (tmp_path / "a.heic").write_bytes(b"heic")
    with pytest.raises(
        InputError,
        match=r"no images in it \(.*\)\. images in unsupported formats .* left out: 1 \(first: a\.heic\)",
    ):
        list_photos(tmp_path)


def test_a_folder_that_cannot_be_listed_is_named(tmp_path):
    photo(tmp_path / "a.png")
    with pytest.raises(InputError, match="cannot be read"):
        list_photos(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["a\nb.png", "a\x1b[2J.png"])
def test_names_with_control_characters_are_refused(tmp_path, name):
    photo(tmp_path / name)
    with pytest.raises(InputError, match="holds a control character"):
        read_real_images(tmp_path)


def test_coco_files_beside_photos_are_named(tmp_path):
    photo(tmp_path / "images/a.png")
    for name in ("annotations/train.json", "test.json"):
        write_bytes(tmp_path / name, b'{"images": [], "categories": []}')
    write_bytes(tmp_path / "metadata.json", b"{}")
    words = r"labels are not read\. To read them, name the COCO file: test\.json, annotations/train\.json\."
    with pytest.warns(RepairWarning, match=words):
        read_real_images(tmp_path)


def write_coco_file(path):
    tables = {
        "images": [{"id": 1, "file_name": "images/a.png", "width": 12, "height": 8}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4]}],
        "categories": [{"id": 1, "name": "die"}],
    }
    path.write_text(json.dumps(tables))


def test_single_coco_file_of_a_folder_is_read(tmp_path, recwarn):
    photo(tmp_path / "images/a.png")
    write_coco_file(tmp_path / "train.json")
    (tmp_path / "scores.json").write_text('{"detections": {}, "images": []}')
    expected = read_real_images(tmp_path / "train.json")
    assert len(expected.samples[0].objects) == 1
    for options in ({}, {"roles": ("train",)}, {"roles": ("style", "train")}, {"split": "train"}):
        assert read_real_images(tmp_path, **options) == expected
    assert read_evaluation_images(tmp_path) == expected
    assert not recwarn.list


def test_evaluation_needs_one_of_several_coco_files(tmp_path):
    photo(tmp_path / "images/a.png")
    for name in ("dev.json", "test.json"):
        write_coco_file(tmp_path / name)
    with (
        pytest.raises(InputError, match=r"several COCO files: dev\.json, test\.json\. Give one"),
        pytest.warns(RepairWarning, match="labels are not read"),
    ):
        read_evaluation_images(tmp_path)
    assert read_evaluation_images(tmp_path, split="test").samples[0].objects


FLOAT = DEEP.astype(np.float32)
FOLDERS = {
    "16 bits among others": ({"1.png": RGB, "2.png": DEEP}, ["1.png", "2.png"]),
    "16 bits alone": ({"a.png": DEEP, "b.png": DEEP}, ["a.png", "b.png"]),
    "float": ({"a.png": RGB, "b.tiff": FLOAT}, ["a.png"]),
    "names of masks alone": ({"mask_0.png": RGB, "mask_1.png": RGB}, ["mask_0.png", "mask_1.png"]),
    "a mask of no photo": ({"mask_0.png": RGB, "1.png": RGB}, ["1.png", "mask_0.png"]),
    "broken": ({"a.png": RGB, "b.png": b"no image"}, ["a.png", "b.png"]),
}


@pytest.mark.parametrize(("files", "photos"), FOLDERS.values(), ids=FOLDERS)
def test_photos_are_selected_by_content(tmp_path, files, photos):
    for name, content in files.items():
        if isinstance(content, bytes):
            (tmp_path / name).write_bytes(content)
        else:
            photo(tmp_path / name, content)
    assert names(tmp_path) == photos


@pytest.mark.parametrize(
    ("name", "text"),
    [("settings.xml", "<x/>"), ("a.json", '{"camera": "left"}'), ("a.txt", "a red square")],
)
def test_other_files_beside_a_photo_are_no_labels(tmp_path, recwarn, name, text):
    photo(tmp_path / "a.png")
    (tmp_path / name).write_text(text)
    assert [sample.objects for sample in read_real_images(tmp_path).samples] == [None]
    assert not recwarn.list
