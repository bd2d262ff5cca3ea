from dataclasses import replace

import numpy as np
import pytest

from sim2cam.adapt.training.data_warnings import find_data_warnings
from sim2cam.data.real_images import read_real_images
from sim2cam.files import write_bytes
from sim2cam.images import encode_jpeg, encode_png, read_rgb


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_grey_captures_among_coloured_ones_are_told(sim, real, tmp_path, kind):
    root = tmp_path / "photos"
    for number, sample in enumerate(real.samples[:5]):
        rgb = read_rgb(sample.rgb)
        pixels = rgb[..., 1].astype(kind) if number < 2 else rgb
        write_bytes(root / f"{number}.png", encode_png(pixels))
    mixed = read_real_images(root)
    (concern,) = find_data_warnings(sim, mixed)
    assert concern == (
        "2 of 5 real images are grey and the others coloured, so translations lose some colour. Remove "
        "either kind."
    )
    assert find_data_warnings(sim, mixed.take(2)) == ()


def test_grey_captures_in_files_of_colour_are_told(real, tmp_path):
    root = tmp_path / "photos"
    for number, sample in enumerate(real.samples[:4]):
        rgb = read_rgb(sample.rgb)
        grey = np.repeat(rgb[..., 1:2], 3, axis=2)
        write_bytes(root / f"{number}.jpg", encode_jpeg(grey if number < 3 else rgb, 80))
    (concern,) = find_data_warnings(real, read_real_images(root), paired=True)
    assert concern.startswith("3 of 4 real images are grey and the others coloured")


def test_captures_that_are_renders_are_told_also_after_compression(sim, real, tmp_path):
    copy = tmp_path / "copy.jpg"
    write_bytes(copy, encode_jpeg(read_rgb(sim.samples[2].rgb), 60))
    captures = (replace(real.samples[0], rgb=copy), *real.samples[1:3], sim.samples[0])
    mixed = replace(real, samples=captures)
    (concern,) = find_data_warnings(sim, mixed)
    assert concern == (
        "2 of 4 real images are copies of images of --sim, so the translator learns nothing from them. Check "
        "--real."
    )
    assert find_data_warnings(sim, mixed, paired=True) == ()


def test_good_captures_raise_none(sim, real):
    assert find_data_warnings(sim, real) == ()
