import io
import warnings
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from sim2cam import images
from sim2cam.adapt.calibration.flicker import measure_row_profile
from sim2cam.adapt.calibration.jpeg import estimate_jpeg_quality
from sim2cam.adapt.calibration.photo_measurements import (
    PhotoFile,
    group_by_camera,
    group_by_encoding,
    list_photo_files,
    measure_one_camera,
    measure_photos,
    open_photo_files,
    select_common_size,
    subsample_evenly,
)
from sim2cam.adapt.calibration.shutter import estimate_shutter
from sim2cam.errors import InputError
from sim2cam.images import ImageHeader
from tests.adapt.calibration.conftest import chessboard_picture


def noise(shape=(120, 160, 3), seed=0):
    return np.random.default_rng(seed).integers(40, 200, shape).astype(np.uint8)


def jpeg(path, rgb=None, quality=80, subsampling="420"):
    path.write_bytes(images.encode_jpeg(noise() if rgb is None else rgb, quality, subsampling))
    return path


def silent(done, total):
    pass


@pytest.mark.parametrize("quality", [1, 35, 50, 77, 92, 100])
@pytest.mark.parametrize("subsampling", ["444", "422", "420"])
def test_quality_and_subsampling_stand_in_the_file(tmp_path, quality, subsampling):
    header = images.read_header(jpeg(tmp_path / "a.jpg", None, quality, subsampling))
    assert estimate_jpeg_quality(header) == quality
    assert header.subsampling == subsampling


def test_files_with_other_tables_are_near_and_others_have_none(tmp_path):
    Image.fromarray(noise()).save(
        tmp_path / "a.jpg", qtables=[[min(255, 4 + i) for i in range(64)]] * 2
    )
    assert 60 <= estimate_jpeg_quality(images.read_header(tmp_path / "a.jpg")) <= 95
    Image.fromarray(noise()).save(tmp_path / "a.png")
    assert estimate_jpeg_quality(images.read_header(tmp_path / "a.png")) is None


def with_exif(path, size=(160, 120), **entries):
    exif = Image.Exif()
    for tag, value in {"Make": 271, "Model": 272, "Orientation": 274}.items():
        if tag in entries:
            exif[value] = entries[tag]
    Image.new("RGB", size, "grey").save(path, exif=exif)
    return path


def test_words_of_exif_are_shown_as_words_and_are_no_numbers(tmp_path):
    exif = Image.Exif()
    exif[271], exif[272] = "Ko\x1bdak\nInc\0", ""
    exif.get_ifd(0x8769).update({33434: "1/60 s", 37386: "wide"})  # exposure and focal length
    Image.new("RGB", (160, 120), "grey").save(tmp_path / "a.jpg", exif=exif)
    (capture,), _ = list_photo_files(tmp_path)
    assert capture.camera == "Ko dak Inc, 160x120"
    assert (capture.header.exif["ExposureTime"], capture.header.exif["FocalLength"]) == (
        "1/60 s",
        "wide",
    )
    (photo,), _ = measure_photos([capture], None, silent)
    untold = estimate_shutter([photo], [capture], None, np.random.default_rng(0))[0]
    assert untold.note.startswith("the files contain no exposure time.")


def test_cameras_in_one_folder_are_told_apart(tmp_path):
    for number in range(3):
        with_exif(tmp_path / f"a{number}.jpg", Make="Kodak\0", Model="One")
    with_exif(tmp_path / "b.jpg", Make="Kodak", Model="Two")
    with_exif(tmp_path / "c.jpg", size=(200, 100))
    with_exif(tmp_path / "turned.jpg", Make="Kodak", Model="One", Orientation=6)
    captures, refused = list_photo_files(tmp_path)
    cameras = group_by_camera(captures)
    assert {name: len(found) for name, found in cameras.items()} == {
        "Kodak One, 160x120": 4, "Kodak Two, 160x120": 1, "200x100": 1,
    }  # fmt: skip
    assert next(iter(cameras)) == "Kodak One, 160x120"
    assert refused == {}


def test_photos_of_a_camera_held_upright_are_its_own(tmp_path):
    for number in range(5):
        rgb = Image.fromarray(noise())
        exif = Image.Exif()
        exif[271], exif[274] = "Kodak", 6 if number > 2 else 1
        rgb.save(tmp_path / f"{number}.jpg", exif=exif, quality=92)
    seen = measure_one_camera(list_photo_files(tmp_path)[0], None, silent)
    assert (seen.camera, len(seen.photos), seen.other_cameras) == ("Kodak, 160x120", 5, {})
    assert select_common_size(seen.photos, None) == (160, 120)
    assert select_common_size(seen.photos, 6) == (120, 160)
    across, upright = (seen.photos[i].row_profile for i in (0, 3))
    stored = np.asarray(Image.open(tmp_path / "3.jpg"))
    assert np.allclose(
        upright, measure_row_profile(stored[::-1])
    )  # rows of the sensor, not of the picture
    assert across.shape == upright.shape


def test_where_most_photos_are_broken_the_others_are_looked_at(tmp_path):
    whole = jpeg(tmp_path / "a.jpg").read_bytes()
    for number in range(3):
        with_exif(tmp_path / f"b{number}.jpg", Make="Kodak", Model="One")
        data = (tmp_path / f"b{number}.jpg").read_bytes()
        (tmp_path / f"b{number}.jpg").write_bytes(data[: len(data) - 40])
    seen = measure_one_camera(list_photo_files(tmp_path)[0], None, silent)
    assert (seen.camera, len(seen.photos), seen.other_cameras) == (
        "160x120",
        1,
        {"Kodak One, 160x120": 3},
    )
    assert set(seen.skipped) == {"b0.jpg", "b1.jpg", "b2.jpg"}
    (tmp_path / "a.jpg").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"b0\.jpg: damaged image"):
        measure_one_camera(list_photo_files(tmp_path)[0], None, silent)


GROUPS = [
    ([60, 61, 62], {"JPEG 4:2:0": 3}),
    ([85, 88, 92, 95, 97], {"JPEG 4:2:0": 5}),  # a phone that varies it
    ([92, 75, 92, 75, 92], {"JPEG 4:2:0 of quality 92": 3, "JPEG 4:2:0 of quality 75": 2}),
    ([50, 80, 81, 95, 95], {"JPEG 4:2:0 of quality 80": 2, "JPEG 4:2:0 of quality 95": 2,
                            "JPEG 4:2:0 of quality 50": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("qualities", "groups"), GROUPS, ids=[str(q) for q, _ in GROUPS])
def test_files_of_unlike_quality_are_of_two_cameras(tmp_path, qualities, groups):
    for number, quality in enumerate(qualities):
        jpeg(tmp_path / f"{number}.jpg", quality=quality)
    captures = list_photo_files(tmp_path)[0]
    assert {name: len(own) for name, own in group_by_encoding(captures).items()} == groups
    named = [replace(c, header=replace(c.header, exif={"Make": "Kodak"})) for c in captures]
    assert len(group_by_encoding(named)) == 1


def test_files_that_do_not_say_what_took_them_are_told_apart_by_how_they_are_written(tmp_path):
    for number in range(3):
        jpeg(tmp_path / f"a{number}.jpg", subsampling="420", quality=60 + number)
    jpeg(tmp_path / "b.jpg", subsampling="444")
    Image.fromarray(noise()).save(tmp_path / "c.png")
    with_exif(tmp_path / "named.jpg", Make="Kodak", Model="One")
    cameras = group_by_camera(list_photo_files(tmp_path)[0])
    found = {name: len(own) for name, own in group_by_encoding(cameras["160x120"]).items()}
    assert found == {"JPEG 4:2:0": 3, "JPEG 4:4:4": 1, "no JPEG": 1}
    assert next(iter(found)) == "JPEG 4:2:0"
    assert list(group_by_encoding(cameras["Kodak One, 160x120"])) == [""]


ODD = {
    "a.heic": (b"\0" * 40, "HEIC is not supported. Export it as JPEG without edits."),
    "b.jpg": (
        b"\xff\xd8\xff",
        "not an image. Supported: JPEG, PNG, BMP, TIFF, WebP, PPM, TGA, JPEG 2000.",
    ),
    "c.png": (b"", "not an image. Supported: JPEG, PNG, BMP, TIFF, WebP, PPM, TGA, JPEG 2000."),
}


def saved(image, kind):
    data = io.BytesIO()
    image.save(data, kind)
    return data.getvalue()


def test_what_is_no_photo_is_left_out_and_says_why(tmp_path):
    jpeg(tmp_path / "good.jpg")
    for name, (data, _) in ODD.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "d.png").write_bytes(saved(Image.new("RGB", (1, 1)), "png"))
    (tmp_path / "e.png").write_bytes(saved(Image.new("1", (10000, 10001)), "png"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the reason is enough
        captures, refused = list_photo_files(tmp_path)
    assert [capture.path.name for capture in captures] == ["good.jpg"]
    expected = {name: reason for name, (_, reason) in ODD.items()} | {
        "d.png": "too small: 1x1 pixels. Both sides need 64 or more.",
        "e.png": "10000x10001: more than 64000000 pixels. Scale it down.",
    }
    assert refused == expected


@pytest.mark.parametrize("name", ODD)
def test_a_folder_of_nothing_else_is_refused(tmp_path, name):
    data, reason = ODD[name]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError) as error:
        list_photo_files(tmp_path)
    assert str(error.value) == f"{tmp_path / name}: {reason}"


def test_nothing_there_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such file or folder"):
        list_photo_files(tmp_path / "none")
    with pytest.raises(InputError):
        list_photo_files(tmp_path)


KINDS = [
    ("grey.png", Image.fromarray(noise((120, 160)))),
    ("deep.png", Image.fromarray(noise((120, 160)).astype(np.uint16) * 257)),
    ("cmyk.jpg", Image.fromarray(noise((120, 160, 4)), "CMYK")),
    ("alpha.png", Image.fromarray(noise((120, 160, 4)), "RGBA")),
]


@pytest.mark.parametrize(("name", "image"), KINDS, ids=[name for name, _ in KINDS])
def test_any_kind_of_picture_is_looked_at(tmp_path, name, image):
    image.save(tmp_path / name)
    (photo,), refused = measure_photos(list_photo_files(tmp_path)[0], None, silent)
    assert refused == {}
    assert np.isfinite(photo.exposure_ev)
    assert np.isfinite(photo.metered_white).all() == (
        name == "alpha.png"
    )  # others hold no camera's colours


def test_photos_of_one_file_name_in_two_folders_are_not_taken_for_one_another(tmp_path):
    board = chessboard_picture()[0]
    for folder in "abc":
        (tmp_path / folder).mkdir()
    covered = board.copy()
    covered[:, :170] = 120  # a part of the board is found, so the whole is looked for
    Image.fromarray(board).save(tmp_path / "a" / "0.png")
    Image.fromarray(covered).save(tmp_path / "b" / "0.png")
    Image.fromarray(board[::-1]).save(tmp_path / "c" / "0.png")
    names = ["a/0.png", "b/0.png", "c/0.png"]
    captures, refused = open_photo_files([tmp_path / name for name in names], tmp_path)
    photos, broken = measure_photos(captures, None, silent)
    assert [capture.name for capture in captures] == [photo.name for photo in photos] == names
    whole, part, turned = (photo.board_detection for photo in photos)
    assert (whole.photo, whole.pattern_shape, turned.pattern_shape) == ("a/0.png", (7, 5), (7, 5))
    assert part is None or part.pattern_shape != (7, 5)
    assert (refused, broken) == ({}, {})


def test_files_that_are_left_out_are_named_by_their_folders_too(tmp_path):
    for folder in "ab":
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "0.jpg").write_bytes(b"")
    whole = jpeg(tmp_path / "a" / "1.jpg")
    files = [tmp_path / "a" / "0.jpg", tmp_path / "b" / "0.jpg", whole, whole]
    captures, refused = open_photo_files(files, tmp_path)
    assert set(refused) == {"a/0.jpg", "b/0.jpg"}
    assert [capture.name for capture in captures] == ["a/1.jpg"]


def test_no_more_large_photos_are_looked_at_than_take_minutes(tmp_path):
    small, large = (
        [
            PhotoFile(tmp_path / f"{i}.jpg", ImageHeader(width, width, "RGB", {}), f"{i}.jpg")
            for i in range(200)
        ]
        for width in (1000, 3000)
    )
    assert len(subsample_evenly(small)) == 60
    chosen = subsample_evenly(large)
    assert len(chosen) == 26
    assert (chosen[0], chosen[-1]) == (large[0], large[-1])
    assert subsample_evenly(small[:1]) == small[:1]


def test_dead_borders_and_the_brightest_level_are_seen(tmp_path):
    rgb = noise()
    rgb[:, :4] = 0
    rgb[-3:] = 0
    Image.fromarray(rgb).save(tmp_path / "a.png")
    (photo,), _ = measure_photos(list_photo_files(tmp_path)[0], None, silent)
    assert photo.border_px == (4, 0, 0, 3)
    assert photo.max_level == 199
    Image.new("RGB", (80, 80)).save(tmp_path / "a.png")
    (photo,), _ = measure_photos(list_photo_files(tmp_path)[0], None, silent)
    assert photo.border_px == (80, 80, 80, 80)
