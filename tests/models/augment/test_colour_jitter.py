from dataclasses import replace

import numpy as np
import pytest

from sim2cam.models.augment.colour_jitter import JITTER_PROBABILITY, jitter_instance_colours
from sim2cam.models.training.images import UNKNOWN_INSTANCE, Tasks, read_annotated_image

TASKS = Tasks(cutouts=True)


def read(data, index=0, tasks=TASKS):
    return read_annotated_image(data.samples[index], data.categories, tasks)


def painted(picture, colours):
    """The picture with one colour for each of its objects."""
    rgb = np.full_like(picture.rgb, 90)
    for number, colour in enumerate(colours, 1):
        rgb[picture.instance_map == number] = colour
    return replace(picture, rgb=rgb)


def inner(picture, number):
    """Pixels of an object whose neighbours are its own."""
    mine = np.pad(picture.instance_map == number, 1)
    return np.all(
        [np.roll(mine, (down, right), (0, 1)) for down in (-1, 0, 1) for right in (-1, 0, 1)],
        axis=0,
    )[1:-1, 1:-1]


def test_each_object_gets_shades_of_its_own_and_nothing_else_changes(make_dataset):
    plain = painted(read(make_dataset()), [(60, 60, 80), (200, 190, 180)])
    before, colours = plain.rgb.copy(), {1: [], 2: []}
    for seed in range(300):
        shown = jitter_instance_colours(plain, np.random.default_rng(seed))
        apart = ~np.any([inner(plain, n) for n in (1, 2)], axis=0) & (plain.instance_map == 0)
        far = np.abs(shown.rgb.astype(int) - plain.rgb)[apart].max(axis=-1)
        assert (far > 0).mean() < 0.1  # the edges alone, as soft as a lens makes them
        for name in (
            "outlines",
            "categories",
            "ignored",
            "visible_fractions",
            "inside_fractions",
            "instance_map",
            "object_coordinates",
        ):
            assert getattr(shown, name) is getattr(plain, name)
        for number, found in colours.items():
            (colour,) = np.unique(shown.rgb[inner(plain, number)], axis=0)
            found.append(colour)
    assert np.array_equal(plain.rgb, before)
    dull, light = (np.array(found) for found in colours.values())
    for found, old in ((dull, (60, 60, 80)), (light, (200, 190, 180))):
        kept = (found == old).all(axis=1).mean()
        assert kept == pytest.approx(1 - JITTER_PROBABILITY, abs=0.08)
    assert ((dull != (60, 60, 80)).any(1) != (light != (200, 190, 180)).any(1)).any()
    spans = np.ptp(dull.astype(int), axis=1)
    assert spans.min() < 15
    assert spans.max() > 60


def test_grey_stays_grey_but_for_the_gains(make_dataset):
    plain = painted(read(make_dataset()), [(128, 128, 128)] * 2)
    for seed in range(50):
        shown = (
            jitter_instance_colours(plain, np.random.default_rng(seed)).rgb[inner(plain, 1)][0]
            / 255
        )
        assert shown.max() / shown.min() < (1.25 / 0.8) ** 1.5 + 0.05
        assert shown.min() > (0.8 * 128 / 255) ** 1.5 - 0.01
        assert shown.max() < (1.25 * 128 / 255) ** 0.7 + 0.01


def test_pictures_whose_pixels_are_not_known_stay(make_dataset):
    photo, unowned = (
        read(make_dataset("photos", with_ids=False)),
        read(make_dataset(), tasks=Tasks()),
    )
    assert (photo.instance_map == UNKNOWN_INSTANCE).any()
    for strange in (photo, unowned):
        assert jitter_instance_colours(strange, np.random.default_rng(0)) is strange
    bare = replace(
        read(make_dataset("none")), outlines=(), instance_map=np.zeros_like(photo.instance_map)
    )
    assert np.array_equal(jitter_instance_colours(bare, np.random.default_rng(0)).rgb, bare.rgb)
