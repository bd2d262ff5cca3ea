import math

import numpy as np
import pytest
from PIL import Image

from sim2cam.data.formats.voc.reader import read_voc
from sim2cam.data.real_images import read_real_images
from sim2cam.errors import InputError, RepairWarning
from sim2cam.images import read_rgb
from tests.support.photos import planted_box, save


def bndbox(x0, y0, x1, y1):
    return f"<bndbox><xmin>{x0 + 1}</xmin><ymin>{y0 + 1}</ymin><xmax>{x1}</xmax><ymax>{y1}</ymax></bndbox>"


BOX = (3, 5, 15, 12)


def annotation(filename="a.png", size=(40, 30), shape=None, name="disc"):
    listed = ""
    if size is not None:
        listed = f"<size><width>{size[0]}</width><height>{size[1]}</height></size>"
    return (
        f"<annotation><filename>{filename}</filename>{listed}<object><name>{name}</name>"
        f"{bndbox(*BOX) if shape is None else shape}</object></annotation>"
    )


def test_a_file_is_of_the_image_of_its_own_name(tmp_path):
    for name, box in {"a": (0, 0, 5, 5), "b": (10, 10, 20, 20)}.items():
        save(tmp_path / f"{name}.png", box=box)
        (tmp_path / f"{name}.xml").write_text(annotation("a.png", shape=bndbox(*box)))
    with pytest.warns(
        RepairWarning,
        match=r"label files that name another image: 1 \(first: b\.xml names a\.png\)",
    ):
        samples = read_real_images(tmp_path).samples
    assert [sample.name for sample in samples] == ["a.png", "b.png"]
    for sample in samples:
        assert planted_box(sample.rgb) == sample.objects[0].box_xyxy


@pytest.mark.parametrize(
    "filename", ["a.png", "a", "", "../a.png", "/data/a.png", "C:\\data\\a.png", "a.PNG", "a.jpg"]
)
def test_names_of_another_computer_lead_to_the_image_beside(tmp_path, filename, recwarn):
    save(tmp_path / "a.png")
    (tmp_path / "a.xml").write_text(annotation(filename))
    assert read_real_images(tmp_path).samples[0].rgb == tmp_path / "a.png"
    assert not recwarn.list


@pytest.mark.parametrize("filename", ["photo.png", "D:\\x\\photo.png"])
def test_a_file_without_an_image_of_its_name_is_of_the_one_that_it_names(tmp_path, filename):
    save(tmp_path / "JPEGImages/photo.png")
    (tmp_path / "Annotations").mkdir()
    (tmp_path / "Annotations/0001.xml").write_text(annotation(filename))
    assert read_real_images(tmp_path).samples[0].name == "JPEGImages/photo.png"


def test_two_files_of_one_image_are_refused(tmp_path):
    save(tmp_path / "a.png")
    (tmp_path / "a.xml").write_text(annotation())
    (tmp_path / "b.xml").write_text(annotation())
    with pytest.raises(
        InputError, match=r"b\.xml: belongs to image a\.png, as does a\.xml\. Remove one"
    ):
        read_real_images(tmp_path)


def test_an_image_that_is_nowhere_is_named(tmp_path):
    save(tmp_path / "a.png")
    (tmp_path / "a.xml").write_text(annotation())
    (tmp_path / "b.xml").write_text(annotation("../c.png"))
    with pytest.raises(InputError, match=r"b\.xml: image 'b' or 'c\.png' is missing in "):
        read_real_images(tmp_path)


def in_layout(folder, lists, names="ab"):
    for name in names:
        save(folder / f"JPEGImages/{name}.png")
        (folder / "Annotations").mkdir(exist_ok=True)
        (folder / f"Annotations/{name}.xml").write_text(annotation(f"{name}.png"))
    (folder / "ImageSets/Main").mkdir(parents=True)
    for part, listed in lists.items():
        (folder / f"ImageSets/Main/{part}.txt").write_text("\n".join(listed))
    return folder


def test_an_image_that_a_list_names_twice_is_read_once(tmp_path):
    root = in_layout(tmp_path, {"test": "aba"})
    with pytest.warns(RepairWarning, match=r"images listed more than once: 1\. Each is read once"):
        samples = read_real_images(root).samples
    assert [sample.name for sample in samples] == ["JPEGImages/a.png", "JPEGImages/b.png"]


@pytest.mark.parametrize("orientation", range(2, 9))
@pytest.mark.parametrize("with_masks", [False, True])
def test_boxes_and_masks_of_stored_pixels_turn_with_them(tmp_path, orientation, with_masks):
    """The first image says by its size that labels are of stored pixels, the second follows."""
    root = in_layout(tmp_path, {})
    save(root / "JPEGImages/a.png", orientation=6)
    save(root / "JPEGImages/b.png", box=BOX, orientation=orientation)
    if with_masks:
        numbers = np.zeros((30, 40), np.uint8)
        numbers[BOX[1] : BOX[3], BOX[0] : BOX[2]] = 1
        (root / "SegmentationObject").mkdir()
        Image.fromarray(numbers).save(root / "SegmentationObject/b.png")
    sample = read_real_images(root).samples[1]
    assert (sample.height, sample.width) == read_rgb(sample.rgb).shape[:2]
    (label,) = sample.objects
    assert planted_box(sample.rgb) == label.box_xyxy
    if with_masks:
        assert (label.mask.decode() == (read_rgb(sample.rgb)[:, :, 0] > 200)).all()


def test_boxes_of_upright_pixels_stay(tmp_path):
    save(tmp_path / "a.png", box=BOX, orientation=6)
    upright = planted_box(tmp_path / "a.png")
    (tmp_path / "a.xml").write_text(annotation(size=(30, 40), shape=bndbox(*upright)))
    assert read_real_images(tmp_path).samples[0].objects[0].box_xyxy == upright


@pytest.mark.parametrize("size", [(0, 0), None])
@pytest.mark.parametrize("orientation", [1, 6])
def test_without_a_size_the_file_has_it(tmp_path, size, orientation):
    save(tmp_path / "a.png", orientation=orientation)
    (tmp_path / "a.xml").write_text(annotation(size=size))
    (sample,) = read_real_images(tmp_path).samples
    assert (sample.width, sample.height) == ((40, 30) if orientation == 1 else (30, 40))
    assert sample.objects[0].box_xyxy == BOX


def rotated_corners(x, y, width, height, degrees):
    """Corners of a rectangle about (x, y), the long way round."""
    turn = np.exp(1j * math.radians(degrees))
    half = [(sx * width / 2 + 1j * sy * height / 2) for sx in (-1, 1) for sy in (-1, 1)]
    return np.array([x + 1j * y + turn * corner for corner in half])


def as_cvat(degrees):
    return bndbox(10, 10, 30, 20) + (
        "<attributes><attribute><name>occluded</name><value>1</value></attribute><attribute>"
        f"<name>rotation</name><value>{degrees}</value></attribute></attributes>"
    )


def as_rolabelimg(degrees):
    return (
        "<type>robndbox</type><robndbox><cx>20</cx><cy>15</cy><w>20</w><h>10</h>"
        f"<angle>{math.radians(degrees)}</angle></robndbox>"
    )


@pytest.mark.parametrize("shape", [as_cvat, as_rolabelimg])
@pytest.mark.parametrize("degrees", [30, 90, 145, -20, 300])
def test_the_box_around_a_rotated_one_is_read_and_said(tmp_path, shape, degrees):
    save(tmp_path / "a.png")
    (tmp_path / "a.xml").write_text(annotation(shape=shape(degrees)))
    with pytest.warns(RepairWarning, match="rotated boxes: 1"):
        (label,) = read_real_images(tmp_path).samples[0].objects
    corners = rotated_corners(20, 15, 20, 10, degrees)
    expected = (corners.real.min(), corners.imag.min(), corners.real.max(), corners.imag.max())
    assert label.box_xyxy == pytest.approx(expected)
    assert label.area_px == pytest.approx(200)


@pytest.mark.parametrize("shape", [as_cvat, as_rolabelimg])
@pytest.mark.parametrize("degrees", [0, 180])
def test_a_box_that_stands_upright_is_not_changed(tmp_path, shape, degrees, recwarn):
    save(tmp_path / "a.png")
    (tmp_path / "a.xml").write_text(annotation(shape=shape(degrees)))
    (label,) = read_real_images(tmp_path).samples[0].objects
    assert label.box_xyxy == pytest.approx((10, 10, 30, 20))
    assert not recwarn.list


@pytest.mark.parametrize("name", ["a&#10;b", "a&#x9b;31m", "a" * 300])
def test_names_that_no_line_can_hold_are_refused(tmp_path, name):
    save(tmp_path / "a.png")
    (tmp_path / "a.xml").write_text(annotation(name=name))
    with pytest.raises(InputError, match=r"a\.xml: the category "):
        read_real_images(tmp_path)


def test_all_flaws_are_reported_and_can_be_left_out(tmp_path):
    root = in_layout(tmp_path, {}, "abcd")
    (root / "Annotations/b.xml").write_text("<annotation>")
    (root / "Annotations/c.xml").write_text(annotation("c.png", shape=bndbox(9, 9, 9, 12)))
    with pytest.raises(InputError) as caught:
        read_real_images(root)
    words = str(caught.value)
    assert "2 annotations are flawed" in words
    assert "b.xml: not XML" in words
    assert "c.xml: object 0 (disc): the box from (9, 9) to (9, 12) is empty" in words
    with pytest.warns(RepairWarning, match="2 flawed annotations are left out"):
        samples = read_voc(root, "real", skip_invalid=True)["train"].samples
    assert [(s.rgb.stem, len(s.objects)) for s in samples] == [("a", 1), ("c", 0), ("d", 1)]
