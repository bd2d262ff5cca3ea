import re
from dataclasses import replace

import cv2
import numpy as np
import pytest

from sim2cam.adapt.translator.pairs import PairsRecord, register_pairs, register_tiles
from sim2cam.data.sample import Dataset, Sample
from sim2cam.errors import InputError
from sim2cam.files import write_bytes
from sim2cam.images import encode_png

HEIGHT, WIDTH = 128, 96


def texture(seed=0):
    rng = np.random.default_rng(seed)
    grain = cv2.GaussianBlur(rng.normal(0, 60, (HEIGHT, WIDTH)), (0, 0), 2.0)
    return (120 + grain[..., None] * [1, 0.8, 0.6]).clip(0, 255).astype(np.uint8)


def shifted(rgb, right):
    matrix = np.array([[1, 0, right], [0, 1, 0]], np.float64)
    return cv2.warpAffine(rgb, matrix, rgb.shape[1::-1], borderMode=cv2.BORDER_REFLECT)


@pytest.fixture
def stored(tmp_path):
    """Stores pictures by their names, as a data set."""

    def store(folder, pictures):
        samples = []
        for name, rgb in pictures.items():
            path = tmp_path / folder / name
            write_bytes(path, encode_png(rgb))
            samples.append(Sample(name, path, rgb.shape[1], rgb.shape[0], None, "real"))
        return Dataset(tmp_path / folder, (), tuple(samples))

    return store


def one_pair(stored, before, after):
    sim, real = stored("sim", {"a.png": before}), stored("real", {"a.png": after})
    return sim.samples[0], real.samples[0]


def test_pairs_are_those_of_one_name_whatever_the_suffix(stored):
    sim = stored("sim", {"000002": texture(2), "000000": texture(0), "000005": texture(5)})
    pictures = {"000000.png": texture(0) // 2, "000002.JPG": texture(2), "x.png": texture()}
    real = stored("real", pictures)
    found = register_pairs(sim, real)
    assert [s.name for s in found.sim.samples] == ["000002", "000000"]
    assert [s.name for s in found.real.samples] == ["000002.JPG", "000000.png"]
    assert found.record == PairsRecord(pairs=2, rejected=0, unmatched=2, registered_fraction=1.0)
    assert found.tile_masks.keys() == {"000002", "000000"}


@pytest.mark.parametrize(
    ("right", "is_there"), [(0.0, True), (0.6, True), (1.8, False), (4, False)]
)
def test_what_lies_elsewhere_is_refused(stored, right, is_there):
    tiles = register_tiles(*one_pair(stored, texture(), shifted(texture(), right) // 2 + 60))
    assert tiles.shape == (4, 3)
    assert tiles.all() if is_there else not tiles.any()


def test_other_things_are_refused_and_so_is_what_is_inverted(stored):
    for after in (texture(1), 255 - texture()):
        assert not register_tiles(*one_pair(stored, texture(), after)).any()


def test_a_part_that_moved_is_left_out(stored):
    after = texture()
    after[64:, :] = shifted(after, 3)[64:, :]
    tiles = register_tiles(*one_pair(stored, texture(), after))
    assert tiles[:2].all()
    assert not tiles[2:].any()


def test_what_is_flat_has_no_place_to_be_wrong(stored):
    flat = np.full((HEIGHT, WIDTH, 3), 90, np.uint8)
    assert register_tiles(*one_pair(stored, flat, flat + 9)).all()


def test_refused_pairs_are_counted_and_left_out(stored):
    sim = stored("sim", {f"{n}.png": texture(n) for n in range(4)})
    moved = {f"{n}.png": shifted(texture(n), 3 if n == 2 else 0) for n in range(4)}
    found = register_pairs(sim, stored("real", moved))
    assert [s.name for s in found.sim.samples] == ["0.png", "1.png", "3.png"]
    assert found.record == PairsRecord(pairs=3, rejected=1, unmatched=0, registered_fraction=1.0)


def test_what_cannot_be_paired_is_told(stored):
    sim = stored("sim", {"a.png": texture(), "b.png": texture(1)})
    cases = [
        (
            stored("other", {"x.png": texture()}),
            "other: no real image has the name of a render (renders: 'a', …; real images: 'x', …). Give both "
            "images of a pair the same name.",
        ),
        (
            stored("small", {"a.png": texture()[:64]}),
            "small/a.png: has 96x64 pixels, but its render a.png has 96x128. Resize both images of a pair to the "
            "same size.",
        ),
        (
            stored("twice", {"a.png": texture(), "a.PNG": texture()}),
            "twice/a.PNG: another image has the name 'a' too. Give each pair a unique name.",
        ),
    ]
    for real, message in cases:
        with pytest.raises(InputError, match=f"{re.escape(message)}$"):
            register_pairs(sim, real)


def test_samples_of_a_data_set_keep_their_names(stored):
    sim = stored("sim", {"set.1-000000": texture()})
    real = replace(sim, samples=(replace(sim.samples[0], digest="0" * 64),))
    assert register_pairs(sim, real).record.pairs == 1
