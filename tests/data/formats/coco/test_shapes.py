import contextlib
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from pycocotools.coco import COCO

from sim2cam.data.formats.export import export_dataset
from sim2cam.data.reader import read_dataset
from sim2cam.data.real_images import read_real_images
from sim2cam.data.sample import Keypoint
from sim2cam.data.silhouettes import read_visible_masks
from sim2cam.errors import InputError
from sim2cam.files import write_bytes
from sim2cam.geometry.boxes import mask_to_box
from sim2cam.geometry.run_length import RleMask
from sim2cam.images import encode_png, read_rgb
from sim2cam.learn.torch_dataset import TorchDetectionDataset
from sim2cam.report.dataset import write_inspect_page

WIDTH, HEIGHT = 24, 16
NAMES = ["a", "b"]


def one(folder, *, names=NAMES, **annotation):
    """A COCO file of one photo with one object, changed as given."""
    write_bytes(folder / "a.png", encode_png(np.zeros((HEIGHT, WIDTH, 3), np.uint8)))
    box = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [2, 3, 10, 6], "iscrowd": 0}
    tables = {
        "images": [{"id": 1, "file_name": "a.png", "width": WIDTH, "height": HEIGHT}],
        "annotations": [box | annotation],
        "categories": [{"id": 1, "name": "disc", "keypoints": names}],
    }
    path = folder / "a.json"
    path.write_text(json.dumps(tables))
    return path


def label_of(path):
    return read_real_images(path).samples[0].objects[0]


def theirs(path):
    """The mask that pycocotools reads."""
    with contextlib.redirect_stdout(io.StringIO()):
        loaded = COCO(str(path))
    return loaded.annToMask(loaded.loadAnns([1])[0]) > 0


def pointed(dataset):
    """The data set with keypoints of each first object, one of them outside the picture."""
    points = (Keypoint("a", (6.5, 4.25), 2, (0.0, 0.0, 0.0)), Keypoint("b", (0.0, 0.0), 0))
    samples = (
        replace(s, objects=(replace(s.objects[0], keypoints=points), *s.objects[1:]))
        for s in dataset.samples
    )
    return replace(dataset, samples=tuple(samples))


def test_masks_and_keypoints_are_read_back(tmp_path, native):
    dataset = pointed(read_dataset(native))
    export_dataset({"train": dataset}, tmp_path / "coco", "coco")
    back = read_real_images(tmp_path / "coco/train.json")
    for sample, original in zip(back.samples, dataset.samples, strict=True):
        assert sample.channels == {}
        masks = zip(read_visible_masks(sample), read_visible_masks(original), strict=True)
        assert all(np.array_equal(found, expected) for found, expected in masks)
        first, second = sample.objects
        assert first.keypoints == tuple(
            replace(point, point_m=None) for point in original.objects[0].keypoints
        )
        assert second.keypoints is None


def test_what_was_read_is_written_as_it_was(tmp_path, native):
    export_dataset({"train": pointed(read_dataset(native))}, tmp_path / "one", "coco")
    export_dataset(
        {"train": read_real_images(tmp_path / "one/train.json")}, tmp_path / "two", "coco"
    )
    first, second = (
        json.loads((tmp_path / name / "train.json").read_text()) for name in ("one", "two")
    )
    assert first["categories"] == second["categories"]
    for before, after in zip(first["annotations"], second["annotations"], strict=True):
        assert {name: before[name] for name in after} == after
        assert "segmentation" in after


def test_captures_with_masks_are_inspected_learned_from_and_outlined(tmp_path, native):
    dataset = pointed(read_dataset(native))
    export_dataset({"train": dataset}, tmp_path / "coco", "coco")
    captures = read_real_images(tmp_path / "coco/train.json")
    page = write_inspect_page(captures, tmp_path / "a.html", limit=None).read_text()
    assert page.count('<path class="mask"') == 8
    assert 'id="show-masks"' in page
    targets = [
        TorchDetectionDataset(each, with_masks=True)[0][1]["masks"] for each in (captures, dataset)
    ]
    assert np.array_equal(*(target.numpy() for target in targets))
    for name, each in (("a", captures), ("b", dataset)):
        export_dataset({"train": each}, tmp_path / name, "yolo-seg")
    first, second = (
        [path.read_text() for path in sorted((tmp_path / name / "labels").rglob("*.txt"))]
        for name in ("a", "b")
    )
    assert first == second


POLYGONS = {
    "one": [[2, 3, 12, 3, 12, 9, 2, 9]],
    "two that meet": [[2, 3, 12, 3, 12, 9], [2.5, 3.25, 6, 12, 1, 12]],
    "beyond the edge": [[-3, -2, 30, 1, 20, 18.5]],
    "thin": [[2, 3, 12, 3, 7, 3]],
}


@pytest.mark.parametrize("polygons", POLYGONS.values(), ids=POLYGONS)
def test_polygons_are_filled_as_pycocotools_fills_them(tmp_path, polygons):
    path = one(tmp_path, segmentation=polygons)
    assert np.array_equal(label_of(path).mask.decode(), theirs(path))


def test_runs_of_a_crowd_are_counted_as_pycocotools_counts_them(tmp_path):
    counts = [20, 5, 11, 5, WIDTH * HEIGHT - 41]
    path = one(tmp_path, segmentation={"size": [HEIGHT, WIDTH], "counts": counts}, iscrowd=1)
    label = label_of(path)
    assert label.is_crowd
    assert label.mask.decode().sum() == 10
    assert np.array_equal(label.mask.decode(), theirs(path))


@pytest.mark.parametrize("nothing", [None, [], {}, [[]], [[], []]])
def test_an_empty_segmentation_is_none(tmp_path, nothing):
    assert label_of(one(tmp_path, segmentation=nothing)).mask is None


@pytest.mark.parametrize("nothing", [None, []])
@pytest.mark.parametrize("names", [None, NAMES])
def test_no_keypoints_are_none(tmp_path, nothing, names):
    assert label_of(one(tmp_path, names=names, keypoints=nothing)).keypoints is None


def test_an_empty_polygon_beside_others_is_left_out(tmp_path):
    square = [2, 3, 12, 3, 12, 9, 2, 9]
    both, alone = (label_of(one(tmp_path, segmentation=s)) for s in ([[], square], [square]))
    assert both.mask == alone.mask


def test_a_keypoint_that_is_not_labelled_lies_nowhere(tmp_path):
    found = label_of(one(tmp_path, keypoints=[3, 4.5, 1, 7, 7, 0])).keypoints
    assert found == (Keypoint("a", (3.0, 4.5), 1), Keypoint("b", (0.0, 0.0), 0))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_masks_and_keypoints_of_stored_pixels_turn_with_them(tmp_path, orientation):
    pixels = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    pixels[3:9, 2:5] = pixels[3:5, 2:12] = 255
    pixels[7, 4] = 128
    mask = pixels[..., 0] > 0
    runs = RleMask.from_mask(mask)
    path = one(
        tmp_path,
        segmentation={"size": runs.size, "counts": runs.counts},
        keypoints=[4, 7, 2, 0, 0, 0],
        bbox_amodal=[2, 3, 10, 6],
    )
    exif = Image.Exif()
    for name, number in (
        ("a", orientation),
        ("b", 6),
    ):  # the second shows of which pixels labels are
        exif[0x0112] = number
        Image.fromarray(pixels).save(tmp_path / f"{name}.png", exif=exif)
    tables = json.loads(path.read_text())
    tables["images"].append({"id": 2, "file_name": "b.png", "width": WIDTH, "height": HEIGHT})
    path.write_text(json.dumps(tables))
    sample = read_real_images(path).samples[0]
    upright = read_rgb(sample.rgb)[..., 0]
    (label,) = sample.objects
    assert np.array_equal(label.mask.decode(), upright > 0)
    assert label.box_xyxy == label.box_amodal_xyxy == mask_to_box(upright > 0)
    column, row = (int(value) for value in label.keypoints[0].xy)
    assert upright[row, column] == 128
    assert label.keypoints[1] == Keypoint("b", (0.0, 0.0), 0)


def test_masks_of_upright_photos_are_not_unpacked(tmp_path, monkeypatch):
    runs = RleMask.from_mask(np.eye(HEIGHT, WIDTH, dtype=bool))
    path = one(tmp_path, segmentation={"size": runs.size, "counts": runs.counts})
    monkeypatch.setattr(RleMask, "decode", None)
    assert label_of(path).mask == runs


AREA = WIDTH * HEIGHT
SIZE = [HEIGHT, WIDTH]
BAD = {
    "a number": ({"segmentation": 5},
     "5 must be a list of polygons or a table of size and counts."),
    "a polygon that is not in a list": ({"segmentation": [2, 3, 12, 3, 12, 9]},
     "2 of segmentation must be a list of numbers, in a list of polygons."),
    "words": ({"segmentation": [["a"] * 6]},
     '["a", "a", "a", "a", "a", "a"] of segmentation must be a list of numbers.'),
    "a text among its numbers": ({"segmentation": [[2, "3", 12, 3, 12, 9]]},
     '[2, "3", 12, 3, 12, 9] of segmentation must be a list of numbers.'),
    "runs of a far larger image": ({"segmentation": {"size": [HEIGHT, WIDTH], "counts":
     "1" * 50_000}},
     "segmentation: counts has 50000 entries, too many for [16, 24] (height, width)."),
    "more runs than pixels": ({"segmentation": {"size": [HEIGHT, WIDTH], "counts": [0] * 5_000}},
     "segmentation: counts has 5000 entries, too many for [16, 24] (height, width)."),
    "pairs": ({"segmentation": [[[2, 3], [12, 3], [12, 9]]]},
     "[[2, 3], [12, 3], [12, 9]] of segmentation must be a list of numbers, in a list of "
     "polygons."),
    "two corners": ({"segmentation": [[2, 3, 12, 3]]},
     "[2, 3, 12, 3] of segmentation must be 6 or more finite numbers, x and y alternating."),
    "an odd number": ({"segmentation": [[2, 3, 12, 3, 12, 9, 2]]},
     "[2, 3, 12, 3, 12, 9, 2] of segmentation must be 6 or more finite numbers, x and y alternating."),
    "an endless corner": ({"segmentation": [[2, 3, 12, 3, 12, float("inf")]]},
     "[2, 3, 12, 3, 12, Infinity] of segmentation must be 6 or more finite numbers, x and y alternating."),
    "a corner far away": ({"segmentation": [[2, 3, 12, 3, 1e9, 9]]},
     "a polygon of segmentation reaches from (2, 3) to (1e+09, 9), far outside the image of 24x16 "
     "pixels."),
    "another size": ({"segmentation": {"size": [WIDTH, HEIGHT], "counts": [AREA]}},
     "segmentation: size is [24, 16], not the image's [16, 24] (height, width)."),
    "no size": ({"segmentation": {"counts": [AREA]}},
     "segmentation: size is null, not the image's [16, 24] (height, width)."),
    "too few pixels": ({"segmentation": {"size": SIZE, "counts": [5, 4]}},
     "segmentation: counts [5, 4] must be numbers of pixels with the sum 384."),
    "negative runs": ({"segmentation": {"size": SIZE, "counts": [-1, AREA + 1]}},
     "segmentation: counts [-1, 385] must be numbers of pixels with the sum 384."),
    "broken runs": ({"segmentation": {"size": SIZE, "counts": "zzzz"}},
     'segmentation: counts "zzzz" are not a valid mask of [16, 24].'),
    "cut off runs": ({"segmentation": {"size": SIZE, "counts": "5"}},
     'segmentation: counts "5" are not a valid mask of [16, 24].'),
    "no runs": ({"segmentation": {"size": SIZE}},
     "segmentation: counts null must be a list or a text."),
    "keypoints without names": ({"names": None, "keypoints": [3, 4, 2]},
     "has keypoints, but its category has no list 'keypoints' with their names."),
    "a keypoint too few": ({"keypoints": [3, 4, 2]},
     "keypoints [3, 4, 2] must be 6 finite numbers: x, y and visibility of a, b."),
    "a keypoint of words": ({"keypoints": [3, 4, "seen", 0, 0, 0]},
     'keypoints [3, 4, "seen", 0, 0, 0] must be 6 finite numbers: x, y and visibility of a, b.'),
    "a keypoint with a number as text": ({"keypoints": [3, "4", 2, 0, 0, 0]},
     'keypoints [3, "4", 2, 0, 0, 0] must be 6 finite numbers: x, y and visibility of a, b.'),
    "a keypoint nowhere": ({"keypoints": [3, float("nan"), 2, 0, 0, 0]},
     "keypoints [3, NaN, 2, 0, 0, 0] must be 6 finite numbers: x, y and visibility of a, b."),
    "an unknown visibility": ({"keypoints": [3, 4, 3, 0, 0, 0]},
     "keypoint a has the visibility 3. Allowed: 0, 1, 2."),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "problem"), BAD.values(), ids=BAD)
def test_what_is_no_shape_is_answered_exactly(tmp_path, changes, problem):
    path = one(tmp_path, **changes)
    with pytest.raises(InputError) as caught:
        read_real_images(path)
    place = f"{path}: annotations[0] (image a.png): "
    assert (
        str(caught.value)
        == f"{place}{problem} Correct the file, or leave flawed annotations out with --skip-invalid."
    )
