from dataclasses import replace

import numpy as np
import pytest

from sim2cam.adapt.concerns import concerns
from sim2cam.dataset.captures import read_captures
from sim2cam.images import encode_png, read_rgb, write_bytes


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_grey_captures_among_coloured_ones_are_told(sim, real, tmp_path, kind):
    root = tmp_path / "photos"
    for number, sample in enumerate(real.samples[:5]):
        rgb = read_rgb(sample.rgb)
        pixels = rgb[..., 1].astype(kind) if number < 2 else rgb
        write_bytes(root / f"{number}.png", encode_png(pixels))
    mixed = read_captures(root)
    (concern,) = concerns(sim, mixed)
    assert concern == (
        "2 of 5 captures are grey, the others have colour: translations will lose some of theirs. Leave "
        "out either."
    )
    assert concerns(sim, mixed.take(2)) == ()


def test_captures_that_are_renders_are_told_also_under_other_names(sim, real, tmp_path):
    copy = tmp_path / "copy.png"
    copy.write_bytes(sim.samples[2].rgb.read_bytes())
    captures = (replace(real.samples[0], rgb=copy), *real.samples[1:3], sim.samples[0])
    (concern,) = concerns(sim, replace(real, samples=captures))
    assert concern == (
        "2 of 4 captures are files of --sim, from which nothing but --sim is learned. Check --real."
    )


def test_good_captures_raise_none(sim, real):
    assert concerns(sim, real) == ()
