import json
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sim2cam.data.real_images import read_evaluation_images, read_real_images, split_real_images
from sim2cam.data.sessions import assign_sessions
from sim2cam.errors import UsageError
from sim2cam.files import write_bytes
from sim2cam.images import encode_png
from tests.support.errors import error_text

DICE = Path(os.environ.get("SIM2CAM_REAL", "/nowhere")) / "dice"

NAMES = (
    "a/IMG_20191208_111228.jpg",
    "a/IMG_20191208_113000.jpg",
    "b/2019-12-08 11.40.00.jpg",
    "b/PXL_20191209_095331123.jpg",
)


def photos(root, names=NAMES, exif=None):
    """A COCO file of photos of which each shows something else, with a box."""
    entries, boxes = [], []
    for number, name in enumerate(names):
        pixels = np.full((20, 30, 3), 10 * number, np.uint8)
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        taken = Image.Exif()
        if exif is not None:
            taken.get_ifd(0x8769)[0x9003] = exif[number]
        Image.fromarray(pixels).save(root / name, exif=taken)
        entries.append({"id": number, "file_name": name, "width": 30, "height": 20})
        boxes.append({"id": number, "image_id": number, "category_id": 1, "bbox": [1, 1, 9, 9]})
    path = root / "all.json"
    categories = [{"id": 1, "name": "die"}]
    path.write_text(json.dumps({"images": entries, "annotations": boxes, "categories": categories}))
    return path


def told(path, rule):
    return [sample.session for sample in read_evaluation_images(path, session_rule=rule).samples]


def test_nothing_is_told_without_a_rule(tmp_path):
    assert told(photos(tmp_path), None) == [None] * 4


def test_by_folder(tmp_path):
    assert told(photos(tmp_path), "folder") == ["a", "a", "b", "b"]


def test_by_a_pause_longer_than_so_many_minutes(tmp_path):
    path = photos(tmp_path)
    first, second, third, fourth = (
        "2019-12-08 11:12:28", "2019-12-08 11:30:00", "2019-12-08 11:40:00", "2019-12-09 09:53:31"
    )  # fmt: skip
    assert told(path, "60") == [first, first, first, fourth]
    assert told(path, "12.5") == [first, second, second, fourth]
    assert told(path, "10") == [first, second, second, fourth]  # no longer than ten
    assert told(path, "9.9") == [first, second, third, fourth]


def test_exif_is_believed_before_names_and_order_does_not_count(tmp_path):
    times = ["2020:05:05 12:00:40", "2020:05:05 12:00:00", "2020:05:05 13:00:00", "never"]
    names = (*NAMES[:2], "b/x.jpg", NAMES[3])
    found = told(photos(tmp_path, names, times), "1")
    assert found == ["2020-05-05 12:00:00"] * 2 + ["2020-05-05 13:00:00", "2019-12-09 09:53:31"]


def test_by_a_column_of_a_table(tmp_path):
    path = photos(tmp_path)
    table = tmp_path / "photos.csv"
    rows = [f"{name},{Path(name).name[:3]},night" for name in NAMES[:3]]
    table.write_text("\n".join(["image,make,light", *rows, f"{Path(NAMES[3]).name},PXL,day"]))
    assert told(path, f"{table}:make") == ["IMG", "IMG", "201", "PXL"]
    assert told(path, f"{table}:light") == ["night"] * 3 + ["day"]


def test_sets_share_their_sessions(tmp_path):
    whole = read_real_images(photos(tmp_path))
    parts = [whole.select_by_name([name]) for name in NAMES]
    found = assign_sessions(parts, "60")
    assert len({part.samples[0].session for part in found}) == 2


ROWS = "".join(f"{name},x\n" for name in NAMES)
BAD_TABLES = [
    ("", "has no column 'image'. Allowed: "),
    ("image,dya\n" + ROWS, "has no column 'day'. Did you mean 'dya'? Allowed: dya, image"),
    ("photo,day\n" + ROWS, "has no column 'image'. Allowed: day, photo"),
    ("image,day\n" + ROWS.replace(",x", ",", 1), f"day of image {NAMES[0]} is empty. Fill it in."),
    ("image,day\n" + ROWS + NAMES[0] + ",y\n",
     f"image {NAMES[0]} has two values of day: x and y. Keep one."),
    ("image,day\n" + NAMES[0] + ",x\n",
     f"3 of 4 images have no row (first: {NAMES[1]}). Add them."),
]  # fmt: skip


@pytest.mark.parametrize(("text", "problem"), BAD_TABLES)
def test_a_table_that_does_not_tell_is_refused(tmp_path, text, problem):
    table = tmp_path / "photos.csv"
    table.write_text(text)
    assert error_text(lambda: told(photos(tmp_path), f"{table}:day")) == f"{table}: {problem}"


@pytest.mark.parametrize("rule", ["folders", "0", "-3", "nan", "photos.csv", ""])
def test_a_rule_that_is_none_is_refused(tmp_path, rule):
    message = error_text(lambda: told(photos(tmp_path), rule), error=UsageError)
    assert message == (
        f"--sessions {rule} is invalid. Allowed: folder, FILE.csv:COLUMN, or the longest pause within a session in minutes, above 0."
    )


@pytest.mark.parametrize("name", ["photo.jpg", "IMG-20191208-WA0001.jpg", "99999999_999999.jpg"])
def test_a_photo_of_unknown_time_is_refused(tmp_path, name):
    message = error_text(lambda: told(photos(tmp_path, (*NAMES, name)), "30"))
    assert message == (
        f"{tmp_path / name}: neither EXIF nor file name holds the capture time. Define sessions by folder or table: --sessions folder, or FILE.csv:COLUMN."
    )


def test_half_of_the_sessions_are_style_and_never_scored(tmp_path):
    path = photos(tmp_path)
    for rule in ("folder", "60"):
        sets = split_real_images(path, session_rule=rule)
        style, test = ({s.session for s in part.samples} for part in (sets.style, sets.test))
        assert (len(style), len(test), style & test) == (1, 1, set())
        assert len(sets.style.samples) + len(sets.test.samples) == 4
    message = error_text(split_real_images, path, session_rule="2000")
    assert message == (
        f"{path}: all photos are of one session, which cannot be split in half. Add another session, or omit --sessions."
    )


def test_parts_of_a_folder_have_sessions_in_common(tmp_path):
    tables = json.loads(photos(tmp_path).read_text())
    for name, numbers in (("style", (0, 2)), ("test", (1, 3))):
        part = [image for image in tables["images"] if image["id"] in numbers]
        boxes = [one for one in tables["annotations"] if one["image_id"] in numbers]
        (tmp_path / f"{name}.json").write_text(
            json.dumps(tables | {"images": part, "annotations": boxes})
        )
    sets = split_real_images(tmp_path, session_rule="60")
    style, test = ({s.session for s in part.samples} for part in (sets.style, sets.test))
    assert style == {"2019-12-08 11:12:28"}
    assert test == style | {"2019-12-09 09:53:31"}


def test_photos_without_a_clock_in_a_png(tmp_path):
    name = "IMG_20191208_111228.png"
    write_bytes(tmp_path / name, encode_png(np.zeros((8, 8, 3), np.uint8)))
    (captures,) = assign_sessions([read_real_images(tmp_path)], "5")
    assert captures.samples[0].session == "2019-12-08 11:12:28"


@pytest.mark.real
@pytest.mark.skipif(not (DICE / "test.json").is_file(), reason="needs dice in $SIM2CAM_REAL")
def test_the_dice_photos_were_taken_on_two_days():
    sets = split_real_images(DICE, session_rule="60")
    begun = {"2019-12-08 11:12:28": 21, "2019-12-09 09:53:32": 29}
    assert Counter(s.session for s in sets.test.samples) == begun
    assert {s.session for s in sets.style.samples} == set(begun)
