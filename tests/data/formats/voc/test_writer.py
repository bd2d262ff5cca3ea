import numpy as np
import pytest
from defusedxml.ElementTree import parse
from PIL import Image

from sim2cam.data.formats.export import export_dataset
from sim2cam.data.formats.voc.reader import read_voc
from sim2cam.data.real_images import read_real_images
from sim2cam.errors import InputError
from sim2cam.files import write_bytes
from sim2cam.images import encode_png
from tests.support.errors import error_text

CURE = "Correct the file, or leave flawed annotations out with --skip-invalid."


def test_what_is_exported_is_read_back(exported):
    root, parts = exported("voc")
    back = read_voc(root, "sim")
    assert back.keys() == parts.keys()
    for name, part in parts.items():
        assert back[name].categories == ("disc", "square")
        for sample, original in zip(back[name].samples, part.samples, strict=True):
            assert sample.rgb.read_bytes() == original.rgb.read_bytes()
            assert [(o.category, o.box_xyxy) for o in sample.objects] == [
                (o.category, o.box_xyxy) for o in original.objects
            ]
    assert len({s.scene_index for part in back.values() for s in part.samples}) == 4


def test_pixels_are_counted_from_1_and_a_box_names_the_last(tmp_path, with_crowd):
    export_dataset({"train": with_crowd}, tmp_path / "voc", "voc")
    tree = parse(tmp_path / "voc/Annotations/train-000000.xml")
    first = tree.find("object")
    corners = [first.findtext(f"bndbox/{key}") for key in ("xmin", "ymin", "xmax", "ymax")]
    assert with_crowd.samples[0].objects[0].box_xyxy == (6, 4, 14, 16)
    assert corners == ["7", "5", "14", "16"]
    assert [o.findtext("difficult") for o in tree.findall("object")] == ["1", "0"]
    (sample, *_) = read_real_images(tmp_path / "voc").samples
    assert [label.is_crowd for label in sample.objects] == [True, False]


BOX = "<bndbox><xmin>3</xmin><ymin>5</ymin><xmax>12.5</xmax><ymax>8</ymax></bndbox>"
OBJECT = f"<object><name>disc</name>{BOX}</object>"
SIZE = "<size><width>40</width><height>20</height><depth>3</depth></size>"


def annotation(*, name="a.png", size=SIZE, objects=OBJECT, tag="annotation"):
    return f"<{tag}><filename>{name}</filename>{size}{objects}</{tag}>"


def beside(folder, text):
    """A picture of 40x20 pixels and an XML file beside it."""
    write_bytes(folder / "a.png", encode_png(np.zeros((20, 40, 3), np.uint8)))
    (folder / "a.xml").write_text(text)
    return folder


def test_files_beside_their_pictures_are_read(tmp_path):
    (sample,) = read_real_images(beside(tmp_path, annotation())).samples
    assert (sample.name, sample.origin) == ("a.png", "real")
    assert sample.objects[0].box_xyxy == (2, 4, 12.5, 8)


BAD = {
    "no XML": ("<annotation>", "not XML (no element found: line 1, column 12). "),
    "another root": (annotation(tag="kml"), "the root is <kml>, not <annotation>. "),
    "a bomb": ('<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>' + annotation(name="&b;"),
     "declares entities, which are not allowed. "),
    "an outside file":
     ('<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>' + annotation(name="&a;"),
     "declares entities, which are not allowed. "),
    "another size": (annotation(size=SIZE.replace("40", "41")),
     "image a.png is 40x20 pixels, not 41x20 as listed. Export the annotations of this image. "),
    "half a size": (annotation(size="<size><height>20</height></size>"),
     "size/width is '', not a number. "),
    "no name": (annotation(objects=f"<object>{BOX}</object>"), "object 0: name is missing. "),
    "no number": (annotation(objects=OBJECT.replace("12.5", "inf")),
     "bndbox/xmax is 'inf', not a number. "),
    "an empty box": (annotation(objects=OBJECT.replace("12.5", "2")),
     "object 0 (disc): the box from (2, 4) to (2, 8) is empty or outside the image of 40x20 pixels. "),
    "a box outside": (annotation(objects=OBJECT.replace(">5<", ">25<").replace(">8<", ">30<")),
     "object 0 (disc): the box from (2, 24) to (12.5, 30) is empty or outside the image of 40x20 "
     "pixels. "),
    "a huge file": ("x" * 4_000_001, "more than 4000000 bytes. No annotation is that long. "),
}  # fmt: skip


@pytest.mark.parametrize(("text", "problem"), BAD.values(), ids=BAD)
def test_bad_files_are_answered_exactly(tmp_path, text, problem):
    root = beside(tmp_path, text)
    assert error_text(read_real_images, root) == f"{root}/a.xml: {problem}{CURE}"


def test_lists_are_parts_whatever_they_are_called(exported):
    """One of training and validation together counts where there is no other of these."""
    root, parts = exported("voc")
    lists = root / "ImageSets/Main"
    (lists / "train.txt").rename(lists / "trainval.txt")
    (lists / "test.txt").rename(lists / "test_b.txt")
    (lists / "disc_trainval.txt").write_text("".join(
        f"{line}  -1\n" for line in (lists / "trainval.txt").read_text().split()
    ))  # fmt: skip
    found = read_voc(root, "sim")
    assert {name: len(part.samples) for name, part in found.items()} == {
        "train": len(parts["train"].samples),
        "test_b": len(parts["test"].samples),
    }
    (lists / "train.txt").write_text((lists / "trainval.txt").read_text())
    assert set(read_voc(root, "sim")) == {"train", "test_b"}


def test_a_list_may_not_lead_outside(exported):
    root, _ = exported("voc")
    (root / "ImageSets/Main/train.txt").write_text("../../secret\n")
    with pytest.raises(InputError) as caught:
        read_real_images(root)
    told = f"{root}: '../../secret' lies outside this folder. Correct the list."
    assert str(caught.value) == told


def with_masks(folder, numbers, mode="P"):
    """A photo of two discs in VOC's layout, and a picture of which pixel is whose."""
    second = OBJECT.replace(">3<", ">21<").replace(">12.5<", ">30<")
    write_bytes(folder / "JPEGImages/a.png", encode_png(np.zeros((20, 40, 3), np.uint8)))
    (folder / "Annotations").mkdir()
    (folder / "Annotations/a.xml").write_text(annotation(objects=OBJECT + second))
    (folder / "SegmentationObject").mkdir()
    picture = Image.fromarray(numbers).convert("RGB") if mode == "RGB" else Image.fromarray(numbers)
    if mode == "P":
        picture.putpalette(
            np.random.default_rng(0).integers(0, 255, 768).astype(np.uint8).tobytes()
        )
    picture.save(folder / "SegmentationObject/a.png")
    return folder


def numbered(**blocks):
    """Pixels with a number in a block of rows and columns, as ``_1=(4, 8, 2, 12)``."""
    numbers = np.zeros((20, 40), np.uint8)
    for name, (top, bottom, left, right) in blocks.items():
        numbers[top:bottom, left:right] = int(name[1:])
    return numbers


@pytest.mark.parametrize("mode", ["P", "L"])
def test_masks_are_those_of_the_objects_in_their_order(tmp_path, mode):
    root = with_masks(tmp_path, numbered(_255=(3, 9, 1, 14), _1=(4, 8, 2, 12)), mode)
    first, second = read_real_images(root).samples[0].objects
    assert (first.mask.decode() == (numbered(_1=(4, 8, 2, 12)) == 1)).all()
    assert first.area_px == 40
    assert second.mask is None
    assert second.area_px == 10 * 4


def test_photos_without_a_picture_of_masks_have_none(tmp_path):
    root = with_masks(tmp_path, numbered(_1=(4, 8, 2, 12)))
    (root / "SegmentationObject/a.png").rename(root / "SegmentationObject/b.png")
    assert [label.mask for label in read_real_images(root).samples[0].objects] == [None, None]


BAD_MASKS = {
    "another size": (np.zeros((20, 41), np.uint8), "P", "is 41x20 pixels, not 40x20 as its image."),
    "an object too many": (numbered(_3=(4, 8, 2, 12)), "P",
     "contains object 3, but its XML file has 2 objects: the files do not match."),
    "another order": (numbered(_2=(4, 8, 2, 12)), "P",
     "object 2 (disc) lies mostly outside its box in the XML file: the files do not match."),
    "colours": (numbered(_1=(4, 8, 2, 12)), "RGB", "expected a palette image, found mode RGB."),
}  # fmt: skip


@pytest.mark.parametrize(("numbers", "mode", "problem"), BAD_MASKS.values(), ids=BAD_MASKS)
def test_bad_pictures_of_masks_are_answered_exactly(tmp_path, numbers, mode, problem):
    message = error_text(lambda: read_real_images(with_masks(tmp_path, numbers, mode)))
    assert message == f"{tmp_path}/SegmentationObject/a.png: {problem} {CURE}"


def test_a_picture_of_masks_that_is_cut_off_is_told(tmp_path):
    root = with_masks(tmp_path, np.random.default_rng(0).integers(0, 3, (20, 40), np.uint8))
    path = root / "SegmentationObject/a.png"
    path.write_bytes(path.read_bytes()[:-60])
    with pytest.raises(InputError, match=r"SegmentationObject/a\.png"):
        read_real_images(root)
