import json

import numpy as np
import pytest

from sim2cam.data.formats.cvat import read_cvat
from sim2cam.data.formats.labelme import read_labelme
from sim2cam.data.real_images import read_real_images
from sim2cam.errors import InputError, RepairWarning
from sim2cam.images import read_rgb
from tests.support.errors import error_text
from tests.support.photos import save

SKIP = "Correct the file, or leave flawed annotations out with --skip-invalid."
BOX = (3, 5, 15, 12)
SQUARE = [[3, 5], [15, 5], [15, 12], [3, 12]]


def shape(points=((3, 5), (15, 12)), kind="rectangle", label="disc", group=None):
    return {"label": label, "points": points, "group_id": group, "shape_type": kind, "flags": {}}


def labelme(folder, *shapes, stem="a", **changes):
    """An image with its file, in LabelMe's order of keys."""
    if not (folder / f"{stem}.png").exists():
        save(folder / f"{stem}.png")
    facts = {
        "version": "5.2.1", "flags": {}, "shapes": shapes, "imagePath": f"{stem}.png",
        "imageData": "iVBORw0KGgo" * 20_000, "imageHeight": 30, "imageWidth": 40,
    } | changes  # fmt: skip
    (folder / f"{stem}.json").write_text(json.dumps(facts))
    return folder


def test_rectangles_of_labelme_are_boxes_and_polygons_masks(tmp_path):
    root = labelme(tmp_path, shape(((15, 12), (3, 5))), shape(SQUARE, "polygon", "square"))
    dataset = read_real_images(root)
    assert dataset.categories == ("disc", "square")
    box, polygon = dataset.samples[0].objects
    assert (box.category, box.box_xyxy, box.area_px, box.mask) == ("disc", BOX, 84, None)
    assert (polygon.category, polygon.box_xyxy, polygon.area_px) == ("square", BOX, 84)
    expected = np.zeros((30, 40), bool)
    expected[5:12, 3:15] = True
    assert (polygon.mask.decode() == expected).all()


def test_polygons_of_a_group_are_one_object(tmp_path):
    apart = [[20, 20], [30, 20], [30, 25], [20, 25]]
    root = labelme(
        tmp_path,
        shape(SQUARE, "polygon", group=1), shape(apart, "polygon", group=1),
        shape(apart, "polygon", group=2), shape(apart, "polygon", "square", group=1),
    )  # fmt: skip
    objects = read_real_images(root).samples[0].objects
    assert [(o.category, o.area_px) for o in objects] == [
        ("disc", 134),
        ("disc", 50),
        ("square", 50),
    ]
    assert objects[0].box_xyxy == (3, 5, 30, 25)


def test_shapes_and_images_that_labelme_readers_leave_out_are_named(tmp_path):
    root = labelme(
        tmp_path, shape(), shape(kind="circle"), shape(kind="line"), shape(kind="circle")
    )
    save(root / "b.png")
    with pytest.warns(RepairWarning) as caught:
        assert len(read_real_images(root).samples[0].objects) == 1
    words = str(caught[0].message)
    assert "shapes other than boxes and polygons are left out: 2 of circle, 1 of line." in words
    assert "images without a LabelMe file are left out: 1 (first: b.png)." in words


@pytest.mark.parametrize("orientation", range(2, 9))
@pytest.mark.parametrize("kind", ["rectangle", "polygon"])
def test_labelme_shapes_of_stored_pixels_turn_with_them(tmp_path, orientation, kind):
    save(tmp_path / "a.png", orientation=8)
    save(tmp_path / "b.png", box=BOX, orientation=orientation)
    labelme(tmp_path)
    labelme(tmp_path, shape(SQUARE, kind), stem="b")
    sample = read_real_images(tmp_path).samples[1]
    white = read_rgb(sample.rgb)[:, :, 0] > 200
    rows, columns = np.nonzero(white)
    (label,) = sample.objects
    edges = columns.min(), rows.min(), columns.max() + 1, rows.max() + 1
    assert label.box_xyxy == edges
    assert label.mask is None or (label.mask.decode() == white).all()
    assert (label.mask is None) == (kind == "rectangle")


BAD_LABELME = {
    "no JSON": ('{"shapes": [', "not JSON"),
    "shapes that are no list": ('{"shapes": 5}', "shapes: Input should be a valid list"),
    "no points": (shape(()), "shapes[0] (disc): "),
    "two points of a polygon": (shape(SQUARE[:2], "polygon"), "shapes[0] (disc): "),
    "a word as a point": (shape(((3, "x"), (4, 5))), "shapes[0].points[0][1]: "),
    "not a number": (shape(((3, float("nan")), (4, 5))), "shapes[0] (disc): the box from (3, nan)"),
    "a box without end": (
        shape(((3, 5), (float("inf"), 9))), "shapes[0] (disc): the box from (3, 5) to (inf, 9)",
    ),
    "an empty box": (shape(((3, 5), (3, 9))), "shapes[0] (disc): the box from (3, 5) to (3, 9) is empty"),
    "a box outside": (shape(((50, 5), (60, 9))), "shapes[0] (disc): the box from (50, 5)"),
    "a polygon far away": (
        shape([[0, 0], [1e9, 0], [0, 1e9]], "polygon"), "shapes[0] (disc): a polygon",
    ),
    "a name with a line break": (shape(label="a\nb"), 'the category "a\\nb" holds a control character'),
    "no name": (shape(label=" "), "a category has an empty name"),
}  # fmt: skip


@pytest.mark.parametrize(("flaw", "problem"), BAD_LABELME.values(), ids=BAD_LABELME)
def test_flawed_labelme_files_are_answered(tmp_path, flaw, problem):
    root = labelme(tmp_path, shape())
    if isinstance(flaw, str):
        (root / "a.json").write_text(flaw)
    else:
        labelme(root, flaw)
    labelme(root, shape(), stem="b")
    with pytest.raises(InputError) as caught:
        read_real_images(root)
    assert f"{root}/a.json: {problem}" in str(caught.value)
    assert str(caught.value).endswith(SKIP)
    with pytest.warns(RepairWarning, match="1 flawed annotation is left out"):
        found = read_labelme(root, "real", skip_invalid=True)
    assert sum(len(sample.objects) for sample in found["train"].samples) == 1


def test_a_labelme_file_of_another_size_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"image a\.png is 40x30 pixels, not 41x30 as listed"):
        read_real_images(labelme(tmp_path, shape(), imageWidth=41))


META = (
    "<meta><task><labels><label><name>square</name></label><label><name>disc</name></label></labels>"
    "</task></meta>"
)
CVAT_BOX = '<box label="disc" occluded="0" xtl="3" ytl="5" xbr="15" ybr="12" z_order="0"{}></box>'


def cvat(folder, *shapes, images="images", names=("a.png",), meta=META, attributes=""):
    """A file of CVAT with the same shapes in each image."""
    for name in dict.fromkeys(names):
        save(folder / images / name)
    entries = "".join(
        f'<image id="{n}" name="{name}" width="40" height="30"{attributes}>{"".join(shapes)}</image>'
        for n, name in enumerate(names)
    )
    text = (
        f'<?xml version="1.0" encoding="utf-8"?><annotations><version>1.1</version>{meta}{entries}'
    )
    (folder / "annotations.xml").write_text(f"{text}</annotations>")
    return folder


RLE = '<mask label="disc" rle="1, 4, 2, 3" left="5" top="6" width="5" height="2"></mask>'


@pytest.mark.parametrize("images", ["images", "."])
def test_boxes_polygons_and_masks_of_cvat_are_read(tmp_path, images):
    polygon = '<polygon label="square" points="3.0,5.0;15.0,5.0;15.0,12.0;3.0,12.0"></polygon>'
    root = cvat(tmp_path, CVAT_BOX.format(""), polygon, RLE, images=images)
    for path in (root, root / "annotations.xml"):
        dataset = read_real_images(path)
        assert dataset.categories == ("square", "disc")
        box, outline, mask = dataset.samples[0].objects
        assert (box.category, box.box_xyxy, box.mask) == ("disc", BOX, None)
        assert (outline.category, outline.box_xyxy, outline.area_px) == ("square", BOX, 84)
        expected = np.zeros((30, 40), bool)
        expected[6, 6:10] = expected[7, 7:10] = True
        assert (mask.mask.decode() == expected).all()
        assert (mask.box_xyxy, mask.area_px) == ((6, 6, 10, 8), 7)


def test_rotated_boxes_and_other_shapes_of_cvat_are_said(tmp_path):
    root = cvat(
        tmp_path,
        CVAT_BOX.format(' rotation="90.0"'),
        '<tag label="disc"></tag><ellipse label="disc" cx="3" cy="5" rx="2" ry="2"></ellipse>',
    )
    with pytest.warns(RepairWarning) as caught:
        (label,) = read_real_images(root).samples[0].objects
    assert label.box_xyxy == pytest.approx((5.5, 2.5, 12.5, 14.5))
    words = str(caught[0].message)
    assert "rotated boxes: 1. The axis-aligned boxes around them are used." in words
    assert "left out: 1 of ellipse." in words


@pytest.mark.parametrize("subset", ["Train", "Validation", "default", "test"])
def test_subsets_of_cvat_are_parts(tmp_path, subset):
    root = cvat(
        tmp_path, CVAT_BOX.format(""), images=f"images/{subset}", attributes=f' subset="{subset}"'
    )
    expected = {"Train": "train", "Validation": "val", "default": "train", "test": "test"}[subset]
    assert list(read_cvat(root, "real")) == [expected]


def test_labels_that_no_task_lists_are_those_that_occur(tmp_path):
    root = cvat(tmp_path, CVAT_BOX.format(""), meta="")
    assert read_real_images(root).categories == ("disc",)


BAD_CVAT = {
    "no label": (
        '<box xtl="3" ytl="5" xbr="9" ybr="9"/>',
        "image images/a.png: shape 0 (): label is missing.",
    ),
    "no number": (
        '<box label="disc" xtl="x" ytl="5" xbr="9" ybr="9"/>',
        "image images/a.png: shape 0 (disc): xtl is 'x', not a number.",
    ),
    "an empty box": (
        '<box label="disc" xtl="9" ytl="5" xbr="9" ybr="9"/>',
        "image images/a.png: shape 0 (disc): the box from (9, 5) to (9, 9) is empty",
    ),
    "words for corners": (
        '<polygon label="disc" points="3,5;x,7"/>', "shape 0 (disc): '3,5,x,7' is not a list of numbers.",
    ),
    "a mask that does not fit": (
        RLE.replace("1, 4", "1, 5"), "the runs of the mask do not match its box, or the box lies outside the image.",
    ),
    "a mask outside": (
        RLE.replace('left="5"', 'left="38"'), "the runs of the mask do not match its box, or the box lies outside the image.",
    ),
    "a mask without end": (RLE.replace("1, 4", "1e300, 4"), "the runs of the mask do not match its box"),
    "an empty mask": (RLE.replace("1, 4, 2, 3", "10"), "the mask is empty."),
}  # fmt: skip


@pytest.mark.parametrize(("flaw", "problem"), BAD_CVAT.values(), ids=BAD_CVAT)
def test_flawed_shapes_of_cvat_are_answered(tmp_path, flaw, problem):
    root = cvat(tmp_path, flaw, CVAT_BOX.format(""))
    with pytest.raises(InputError) as caught:
        read_real_images(root)
    assert problem in str(caught.value)
    assert str(caught.value).endswith(SKIP)
    with pytest.warns(RepairWarning, match="1 flawed annotation is left out"):
        found = read_cvat(root, "real", skip_invalid=True)
    assert [o.box_xyxy for o in found["train"].samples[0].objects] == [BOX]


BAD_FILES = {
    "a video": ({"meta": f"{META}<track id='0'/>"}, "contains video tracks. Export the task as"),
    "no image": ({"names": ()}, "contains no images. Export the task with its images."),
    "an image twice": ({"names": ("a.png", "a.png")}, "image a.png is listed twice."),
}


@pytest.mark.parametrize(("changes", "problem"), BAD_FILES.values(), ids=BAD_FILES)
def test_files_of_cvat_that_cannot_be_read_are_answered(tmp_path, changes, problem):
    assert problem in error_text(lambda: read_real_images(cvat(tmp_path, **changes)))


@pytest.mark.parametrize("name", ["../a.png", "/etc/passwd", "none.png", "a&#10;b.png", "a" * 300])
def test_images_of_cvat_that_are_not_in_the_folder_are_refused(tmp_path, name):
    root = cvat(tmp_path / "in")
    save(tmp_path / "a.png")
    text = (root / "annotations.xml").read_text()
    (root / "annotations.xml").write_text(text.replace('"a.png"', f'"{name}"'))
    with pytest.raises(InputError, match=r"in/annotations\.xml: "):
        read_real_images(root)
