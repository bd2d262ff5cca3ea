import errno
import os
import warnings
import zlib
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from sim2cam import images
from sim2cam.errors import InputError, OutputError, RepairWarning
from sim2cam.files import write_bytes
from sim2cam.images import (
    FullDepthImage,
    decode_image,
    encode_full_depth,
    encode_jpeg,
    encode_png,
    read_16bit,
    read_full_depth,
    read_orientation,
    read_rgb,
    read_size,
)
from tests.support.errors import error_text

ORIENTATION = 0x0112
READERS = pytest.mark.parametrize(
    "read", [read_size, read_orientation, read_rgb, read_16bit, read_full_depth]
)


def picture(width: int = 24, height: int = 16) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)


def save(path: Path, pixels: np.ndarray, orientation: int = 1, **options) -> Path:
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    Image.fromarray(pixels).save(path, exif=exif, **options)
    return path


@pytest.mark.parametrize("suffix", [".png", ".tif", ".webp"])
def test_a_lossless_file_is_read_exactly(tmp_path, suffix):
    path = save(tmp_path / f"a{suffix}", picture(), lossless=True)
    assert np.array_equal(read_rgb(path), picture())
    assert read_size(path) == (24, 16)


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".webp"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_turns_pixels_and_size_together(tmp_path, suffix, orientation):
    corners = np.zeros((32, 48, 3), np.uint8)
    corners[:16, :24] = 255
    bright = {
        1: (0, 0),
        2: (0, 1),
        3: (1, 1),
        4: (1, 0),
        5: (0, 0),
        6: (0, 1),
        7: (1, 1),
        8: (1, 0),
    }
    path = save(tmp_path / f"a{suffix}", corners, orientation)
    rgb = read_rgb(path)
    assert read_orientation(path) == orientation
    assert read_size(path) == (rgb.shape[1], rgb.shape[0])
    assert rgb.shape == ((32, 48, 3) if orientation < 5 else (48, 32, 3))
    height, width = rgb.shape[0] // 2, rgb.shape[1] // 2
    means = rgb.reshape(2, height, 2, width, 3).mean(axis=(1, 3, 4))
    assert np.unravel_index(means.argmax(), (2, 2)) == bright[orientation]


def test_an_orientation_that_is_none_is_upright(tmp_path):
    path = save(tmp_path / "a.png", picture(), orientation=77)
    assert read_orientation(path) == 1
    assert read_size(path) == (24, 16)


@pytest.mark.parametrize("top", [0, 4096, 65535])
def test_sixteen_bit_greys_are_scaled_by_their_format_not_their_content(tmp_path, top):
    grey = np.linspace(0, top, 64).reshape(8, 8).astype(np.uint16)
    (tmp_path / "a.png").write_bytes(encode_png(grey))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(read_rgb(tmp_path / "a.png")[..., 0], np.round(grey / 257))


def deep(top, planes):
    """Values 0 to top, of one channel (8, 8) or of three."""
    grey = np.linspace(0, top, 64).reshape(8, 8).round().astype(np.uint16)
    return grey if planes == 1 else np.dstack([grey] * 3)


def with_significant_bits(png, bits, planes):
    """The PNG file with a chunk sBIT after its header."""
    said = b"sBIT" + bytes([bits] * planes)
    chunk = planes.to_bytes(4) + said + zlib.crc32(said).to_bytes(4)
    return png[:33] + chunk + png[33:]


@pytest.mark.parametrize("planes", [1, 3])
@pytest.mark.parametrize("bits", [10, 12])
def test_fewer_bits_than_sixteen_are_scaled_where_the_file_says_so(tmp_path, bits, planes):
    values = deep(2**bits - 1, planes)
    path = tmp_path / "a.png"
    path.write_bytes(with_significant_bits(encode_png(values), bits, planes))
    expected = np.round(deep(65535, 1) / 257)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.abs(read_rgb(path)[..., 0] - expected).max() <= 1
        assert read_full_depth(path).rgb.max() == 65535


def test_values_that_were_scaled_as_png_asks_stay(tmp_path):
    values = deep(255, 1) * 16  # a dark image of 12 bits, stored over 16
    path = tmp_path / "a.png"
    path.write_bytes(with_significant_bits(encode_png(values), 12, 1))
    assert np.array_equal(read_rgb(path)[..., 0], np.round(values / 257))


def test_the_highest_value_of_a_tiff_is_its_white(tmp_path):
    path = tmp_path / "a.tif"
    Image.fromarray(deep(4095, 1)).save(path, tiffinfo={281: 4095})
    assert np.array_equal(read_rgb(path)[..., 0], np.round(deep(4095, 1) / 4095 * 65535 / 257))


@pytest.mark.parametrize("suffix", [".png", ".tif"])
@pytest.mark.parametrize("planes", [1, 3])
def test_images_that_may_hold_fewer_bits_are_told_of(tmp_path, suffix, planes):
    path = tmp_path / f"a{suffix}"
    values = deep(4095, planes)
    path.write_bytes(cv2.imencode(suffix, values)[1].tobytes())
    with pytest.warns(RepairWarning, match="If they store 12 bits, multiply them by 16"):
        rgb = read_rgb(path)
    assert np.abs(rgb[..., 0] - values.reshape(8, 8, -1)[..., 0] / 257).max() <= 1


@pytest.mark.parametrize("suffix", [".jfif", ".ppm", ".tga", ".jp2"])
def test_other_kinds_of_images_are_read(tmp_path, suffix):
    flat = np.full((16, 24, 3), (200, 100, 50), np.uint8)
    kind = {".jfif": "JPEG", ".ppm": "PPM", ".tga": "TGA", ".jp2": "JPEG2000"}[suffix]
    path = tmp_path / f"a{suffix}"
    Image.fromarray(flat).save(path, kind)
    assert np.abs(read_rgb(path).astype(int) - flat).max() <= 2
    assert read_size(path) == (24, 16)
    data = path.read_bytes()
    for cut in range(0, len(data) - 40, max(1, len(data) // 40)):  # a TGA file has a footer
        path.write_bytes(data[:cut])
        with pytest.raises(InputError):
            read_rgb(path)


def test_a_grey_of_fewer_values_is_spread(tmp_path):
    path = tmp_path / "a.pgm"
    path.write_bytes(b"P5\n8 8\n4095\n" + deep(4095, 1).astype(">u2").tobytes())
    assert np.abs(read_rgb(path)[..., 0] - np.round(deep(65535, 1) / 257)).max() <= 1


def test_what_is_called_tga_and_is_none_is_refused(tmp_path):
    path = tmp_path / "a.tga"
    path.write_bytes(b"hello, this is no image of any kind at all")
    with pytest.raises(InputError):
        read_rgb(path)


def test_transparency_is_laid_over_white(tmp_path):
    pixels = np.zeros((2, 2, 4), np.uint8)
    pixels[0, 0, 3] = 255
    Image.fromarray(pixels).save(tmp_path / "a.png")
    assert read_rgb(tmp_path / "a.png")[..., 0].tolist() == [[0, 255], [255, 255]]


@pytest.mark.parametrize("suffix", [".png", ".webp"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_layers_are_as_upright_as_the_picture(tmp_path, suffix, orientation):
    pixels = np.dstack([picture(), np.full((16, 24), 255, np.uint8)])
    pixels[0, 0] = 0  # a hole, which is white in the picture
    path = save(tmp_path / f"a{suffix}", pixels, orientation, lossless=True)
    layers = read_full_depth(path)
    hole = layers.alpha == 0
    assert hole.sum() == 1
    assert np.array_equal(layers.rgb[~hole], read_rgb(path)[~hole])
    assert (read_rgb(path)[hole] == 255).all()


@pytest.mark.parametrize("suffix", [".png", ".tif", ".webp"])
def test_colours_and_transparency_of_eight_bits_are_those_that_were_saved(tmp_path, suffix):
    """Of TIFF files as Pillow writes them, which say that their fourth channel is transparency."""
    pixels = np.random.default_rng(0).integers(1, 256, (16, 24, 4), dtype=np.uint8)
    layers = read_full_depth(save(tmp_path / f"a{suffix}", pixels, lossless=True))
    assert np.array_equal(layers.rgb, pixels[..., :3])
    assert np.array_equal(layers.alpha, pixels[..., 3])


@pytest.mark.parametrize("suffix", [".png", ".tif"])
def test_greys_are_transparent_too(tmp_path, suffix):
    pixels = np.random.default_rng(0).integers(0, 256, (16, 24, 2), dtype=np.uint8)
    layers = read_full_depth(save(tmp_path / f"a{suffix}", pixels))
    assert np.array_equal(layers.rgb, np.repeat(pixels[..., :1], 3, axis=2))
    assert np.array_equal(layers.alpha, pixels[..., 1])


def test_a_turned_tiff_has_no_layers(tmp_path):
    pixels = np.dstack([picture(), np.full((16, 24), 128, np.uint8)])
    assert read_full_depth(save(tmp_path / "a.tif", pixels)) is not None
    assert read_full_depth(save(tmp_path / "b.tif", pixels, orientation=2)) is None


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("has_alpha", [True, False])
def test_layers_come_back_whole(tmp_path, dtype, has_alpha):
    values = np.random.default_rng(0).integers(0, np.iinfo(dtype).max, (16, 24, 4)).astype(dtype)
    before = FullDepthImage(values[..., :3], values[..., 3] if has_alpha else None)
    data = encode_full_depth(before)
    (tmp_path / "a.png").write_bytes(data)
    after = read_full_depth(tmp_path / "a.png")
    assert np.array_equal(decode_image(data), read_rgb(tmp_path / "a.png"))
    if dtype == np.uint8 and not has_alpha:
        assert after is None  # read_rgb tells all of it
    else:
        assert np.array_equal(after.rgb, before.rgb)
        assert (after.alpha is None) != has_alpha
        assert not has_alpha or np.array_equal(after.alpha, before.alpha)


@pytest.mark.parametrize("mode", ["L", "RGB", "P"])
def test_eight_opaque_bits_have_no_layers(tmp_path, mode):
    Image.fromarray(picture()).convert(mode).save(tmp_path / "a.png")
    assert read_full_depth(tmp_path / "a.png") is None


def test_floating_point_is_refused(tmp_path):
    Image.fromarray(np.ones((4, 4), np.float32)).save(tmp_path / "a.tif")
    with pytest.raises(InputError, match="floating-point pixels of unknown range"):
        read_rgb(tmp_path / "a.tif")


NO_IMAGES = {
    "missing": (lambda path: None, "no such image. Check the path or the annotation file."),
    "pipe": (os.mkfifo, "is a pipe or a device, not a file. Give a file."),
    "folder": (Path.mkdir, "is a folder, not a file. Give a file."),
} | {
    name: (
        lambda path, content=content: path.write_bytes(content),
        "not an image. Supported: JPEG, PNG, BMP, TIFF, WebP, PPM, TGA, JPEG 2000.",
    )
    for name, content in {"empty": b"", "text": b"<html>", "GIF": b"GIF89a" + bytes(40)}.items()
}


@READERS
@pytest.mark.parametrize(("make", "problem"), NO_IMAGES.values(), ids=NO_IMAGES)
def test_what_is_no_image_is_refused(tmp_path, read, make, problem):
    path = tmp_path / "a.png"
    make(path)
    assert error_text(read, path) == f"{path}: {problem}"


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".bmp", ".tif", ".webp"])
def test_a_truncated_file_is_told(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    Image.fromarray(picture(200, 100)).save(path)
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(InputError, match=f"a{suffix}: damaged image") as caught:
        read_rgb(path)
    assert caught.value.path == path


@READERS
@pytest.mark.filterwarnings("ignore::UserWarning")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(suffix=st.sampled_from([".jpg", ".png", ".webp", ".tif"]), data=st.data())
def test_a_damaged_file_is_read_or_refused(tmp_path, read, suffix, data):
    path = tmp_path / f"a{suffix}"
    content = bytearray(save(path, picture(), orientation=6).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        read(path)
    except InputError as error:
        assert str(error).startswith(f"{path}: ")  # noqa: PT017


def test_a_bomb_is_refused_before_it_is_decoded(tmp_path, monkeypatch):
    path = save(tmp_path / "a.png", picture())
    monkeypatch.setattr(images, "MAX_PIXELS", 383)
    with pytest.raises(InputError, match="24x16: more than 383 pixels"):
        read_size(path)


def test_a_bigger_bomb_is_refused_by_its_header(tmp_path, monkeypatch):
    path = save(tmp_path / "a.png", picture())
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(InputError, match=": more than 64000000 pixels"):
        read_rgb(path)


@given(seed=st.integers(0, 100), width=st.integers(1, 40), height=st.integers(1, 40))
def test_depth_and_ids_survive_the_disk(tmp_path_factory, seed, width, height):
    path = tmp_path_factory.mktemp("png") / "a.png"
    values = np.random.default_rng(seed).integers(0, 65536, (height, width)).astype(np.uint16)
    write_bytes(path, encode_png(values))
    assert np.array_equal(read_16bit(path), values)


def test_png_keeps_the_order_of_channels(tmp_path):
    write_bytes(tmp_path / "new" / "a.png", encode_png(picture()))
    assert np.array_equal(read_rgb(tmp_path / "new" / "a.png"), picture())


def test_eight_bits_are_no_depth(tmp_path):
    path = save(tmp_path / "a.png", picture())
    with pytest.raises(InputError, match="expected a 16-bit image of one channel, found mode RGB"):
        read_16bit(path)


def test_jpeg_keeps_colours_and_order():
    red = np.full((16, 16, 3), (200, 30, 60), np.uint8)
    back = decode_image(encode_jpeg(red, 95))
    assert np.abs(back.astype(int) - red).max() <= 4
    rough, fine = (len(encode_jpeg(picture(), quality)) for quality in (10, 95))
    assert rough < fine


def test_bytes_that_are_no_jpeg():
    with pytest.raises(ValueError, match="3 bytes that are not a JPEG file"):
        decode_image(b"abc")


@pytest.mark.parametrize(
    ("code", "cure"),
    [
        (errno.ENOSPC, "Free some disk space, then run again with --resume."),
        (errno.EDQUOT, "Free some disk space, then run again with --resume."),
        (errno.EACCES, "Choose another --out or change its permissions."),
    ],
)
def test_what_cannot_be_written_has_a_cure(tmp_path, monkeypatch, code, cure):
    def refuse(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Path, "write_bytes", refuse)
    with pytest.raises(OutputError) as caught:
        write_bytes(tmp_path / "a.png", b"1")
    path = tmp_path / "a.png"
    assert str(caught.value) == f"{path}: cannot be written ({os.strerror(code)}). {cure}"


def test_a_file_in_the_way_of_a_folder(tmp_path):
    (tmp_path / "out").touch()
    with pytest.raises(OutputError, match=r"cannot be written \(.*\). Choose another --out"):
        write_bytes(tmp_path / "out" / "a.png", b"1")
