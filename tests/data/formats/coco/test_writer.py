import contextlib
import errno
import io
import json
import os
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO

from sim2cam.data.formats.export import export_dataset
from sim2cam.data.reader import read_dataset
from sim2cam.data.real_images import read_real_images
from sim2cam.data.sample import Dataset, Keypoint, ObjectLabel, Occlusion, Sample
from sim2cam.errors import InputError, OutputError
from sim2cam.geometry.run_length import RleMask
from sim2cam.images import read_16bit, read_rgb


def write_coco(dataset, out):
    export_dataset({"train": dataset}, out, "coco")


def load(path):
    with contextlib.redirect_stdout(io.StringIO()):
        return COCO(str(path))


def test_what_is_exported_is_read_back(tmp_path, native):
    dataset = read_dataset(native)
    write_coco(dataset, tmp_path / "coco")
    back = read_real_images(tmp_path / "coco/train.json")
    assert back.categories == dataset.categories
    for sample, original in zip(back.samples, dataset.samples, strict=True):
        assert sample.rgb.read_bytes() == original.rgb.read_bytes()
        assert not sample.rgb.samefile(original.rgb)
        assert (sample.origin, sample.scene_index) == (original.origin, original.scene_index)
        known = [replace(o, mask=None) for o in sample.objects]
        assert known == [replace(o, pose=None) for o in original.objects]


def test_pycocotools_loads_it_and_its_masks_are_ours(tmp_path, native):
    dataset = read_dataset(native)
    write_coco(dataset, tmp_path / "coco")
    loaded = load(tmp_path / "coco/train.json")
    assert loaded.getCatIds() == [1, 2]
    for number, sample in enumerate(dataset.samples, start=1):
        ids = read_16bit(sample.channels["ids"])
        annotations = loaded.loadAnns(loaded.getAnnIds(imgIds=[number]))
        assert len(annotations) == len(sample.objects)
        for annotation, label in zip(annotations, sample.objects, strict=True):
            mask = loaded.annToMask(annotation)
            assert np.array_equal(mask == 1, ids == label.instance_id)
            assert annotation["area"] == mask.sum()


def test_what_coco_has_no_field_for_stands_beside(tmp_path, native):
    write_coco(read_dataset(native), tmp_path / "coco")
    tables = json.loads((tmp_path / "coco/train.json").read_text())
    first, second = tables["annotations"][:2]
    assert first["visible_fraction"] == pytest.approx(2 / 3)
    assert first["bbox_amodal"] == [6, 4, 12, 12]
    assert (first["instance_id"], second["instance_id"]) == (1, 2)
    assert "bbox_amodal" not in second
    image = tables["images"][3]
    assert image["camera"]["k1"] == -0.1
    assert (image["origin"], image["scene_index"]) == ("sim", 1)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_turned_photo_is_exported_upright(tmp_path, orientation):
    pixels = np.random.default_rng(0).integers(0, 256, (16, 24, 3), dtype=np.uint8)
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / "a.jpg"
    Image.fromarray(pixels).save(path, exif=exif)
    upright = read_rgb(path)
    amodal = (0.0, 2.0, 9.0, 14.0)
    label = ObjectLabel("square", (1.0, 2.0, 9.0, 12.0), 80.0, amodal, 0.5, is_crowd=True)
    size = upright.shape[1::-1]
    dataset = Dataset(tmp_path, ("square",), (Sample("a.jpg", path, *size, (label,), "real"),))
    write_coco(dataset, tmp_path / "coco")
    (sample,) = read_real_images(tmp_path / "coco/train.json").samples
    assert sample.objects == (label,)
    assert np.array_equal(np.asarray(Image.open(sample.rgb)), upright)
    assert sample.name == ("images/train/a.jpg" if orientation == 1 else "images/train/a.png")


def test_photos_that_would_be_one_file_when_turned_are_refused(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    samples = []
    for name, options in (("a.jpg", {"exif": exif}), ("a.png", {})):
        Image.new("RGB", (24, 16)).save(tmp_path / name, **options)
        size = read_rgb(tmp_path / name).shape[1::-1]
        samples.append(Sample(name, tmp_path / name, *size, (), "real"))
    message = "images a.jpg and a.png, written upright, get the same file name. Rename one."
    with pytest.raises(InputError, match=message):
        write_coco(Dataset(tmp_path, ("square",), tuple(samples)), tmp_path / "coco")


def test_names_with_folders_are_kept(tmp_path, native):
    dataset = read_dataset(native)
    named = replace(dataset, samples=(replace(dataset.samples[0], name="day 1/a.b.jpg"),))
    write_coco(named, tmp_path / "coco")
    assert (tmp_path / "coco/images/train/day 1/a.b.jpg").is_file()


def test_what_a_killed_export_left_is_replaced(tmp_path, native):
    (tmp_path / "coco.part").mkdir()
    (tmp_path / "coco.part/train.json").write_text("{")
    write_coco(read_dataset(native), tmp_path / "coco")
    assert not (tmp_path / "coco.part").exists()
    assert load(tmp_path / "coco/train.json").getImgIds() == [1, 2, 3, 4]


def test_a_failing_export_leaves_nothing(tmp_path, native, monkeypatch):
    def full(path, data):
        raise OutputError(path, os.strerror(errno.ENOSPC))

    dataset = read_dataset(native)
    with monkeypatch.context() as patch:
        patch.setattr("sim2cam.data.formats.coco.writer.write_bytes", full)
        with pytest.raises(OutputError):
            write_coco(dataset, tmp_path / "coco")
    assert [path.name for path in tmp_path.iterdir()] == ["native"]


@pytest.fixture
def labelled(native):
    """The data set with whole masks, keypoints of two kinds of objects, and who hides whom."""
    dataset = read_dataset(native)
    first, second = dataset.samples[0].objects
    mask = np.zeros((32, 48), bool)
    mask[4:16, 6:18] = True
    corners = (
        Keypoint("a", (6.5, 4.25), 2, (0.0, 0.0, 0.0)),
        Keypoint("b", (0.0, 0.0), 0, (1.0, 0.0, 0.0)),
    )
    whole = replace(first, amodal_mask=RleMask.from_mask(mask), keypoints=corners)
    other = replace(first, keypoints=(Keypoint("c", (7.0, 5.0), 1, (0.0, 1.0, 0.0)),))
    samples = (
        replace(dataset.samples[0], objects=(whole, second), occlusions=(Occlusion(2, 1, 48),)),
        replace(dataset.samples[1], objects=(other, second)),
    )
    return replace(dataset, samples=samples)


def test_keypoints_are_those_of_coco(tmp_path, labelled):
    write_coco(labelled, tmp_path / "coco")
    loaded = load(tmp_path / "coco/train.json")
    square, disc = loaded.loadCats([1, 2])
    assert (square["keypoints"], square["skeleton"]) == (["a", "b", "c"], [])
    assert "keypoints" not in disc
    first, second, third, _ = loaded.loadAnns(loaded.getAnnIds())
    assert first["keypoints"] == [6.5, 4.25, 2, 0, 0, 0, 0, 0, 0]
    assert third["keypoints"] == [0, 0, 0, 0, 0, 0, 7, 5, 1]
    assert (first["num_keypoints"], third["num_keypoints"]) == (1, 1)
    assert "keypoints" not in second


def test_keypoints_come_in_one_order_in_all_parts(tmp_path, labelled):
    first, second = labelled.samples
    parts = {
        "train": replace(labelled, samples=(first,)),
        "val": replace(labelled, samples=(second,)),
    }
    export_dataset(parts, tmp_path / "coco", "coco")
    for name in parts:
        square, _ = load(tmp_path / f"coco/{name}.json").loadCats([1, 2])
        assert square["keypoints"] == ["a", "b", "c"]


def test_whole_masks_and_occlusions_stand_beside(tmp_path, labelled):
    write_coco(labelled, tmp_path / "coco")
    tables = json.loads((tmp_path / "coco/train.json").read_text())
    first, second = tables["annotations"][:2]
    mask = coco_mask.decode(first["segmentation_amodal"])
    assert np.array_equal(mask > 0, labelled.samples[0].objects[0].amodal_mask.decode())
    assert "segmentation_amodal" not in second
    assert tables["images"][0]["occlusions"] == [
        {"occluder_id": 2, "occluded_id": 1, "area_px": 48}
    ]
    assert "occlusions" not in tables["images"][1]


@pytest.mark.parametrize("given", ["made up", 7, None, ["sim"]])
def test_what_other_files_call_origin_is_left_alone(tmp_path, native, given):
    write_coco(read_dataset(native), tmp_path / "coco")
    path = tmp_path / "coco/train.json"
    tables = json.loads(path.read_text())
    for number, image in enumerate(tables["images"]):
        image |= {"origin": given, "scene_index": None if number == 2 else 5}
    path.write_text(json.dumps(tables))
    samples = read_real_images(path).samples
    assert {sample.origin for sample in samples} == {"real"}
    assert [sample.scene_index for sample in samples] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "given",
    [
        {"visible_fraction": 87, "bbox_amodal": [1, 2], "instance_id": "a"},
        {"visible_fraction": "most", "bbox_amodal": "none", "instance_id": True},
        {"visible_fraction": None, "bbox_amodal": [1, 2, None, 4], "instance_id": None},
    ],
)
def test_what_other_files_say_beside_coco_is_left_alone(tmp_path, native, given):
    write_coco(read_dataset(native), tmp_path / "coco")
    path = tmp_path / "coco/train.json"
    tables = json.loads(path.read_text())
    tables["annotations"] = [annotation | given for annotation in tables["annotations"]]
    path.write_text(json.dumps(tables))
    for sample in read_real_images(path).samples:
        for label in sample.objects:
            beside = (label.visible_fraction, label.box_amodal_xyxy, label.instance_id)
            assert beside == (None, None, None)
