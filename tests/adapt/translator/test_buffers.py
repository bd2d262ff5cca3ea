from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sim2cam.adapt.transfers.transfer import GBufferFrame
from sim2cam.adapt.translator.buffers import (
    build_buffer_channels,
    check_buffers,
    count_channels,
    flip_buffers,
    list_common_buffers,
)
from sim2cam.data.sample import Dataset, Sample
from sim2cam.errors import InputError, Sim2CamError

RGB = np.zeros((4, 5, 3), np.uint8)


def dataset_of(*paths: tuple[str | None, str | None]) -> Dataset:
    samples = [
        Sample(
            str(index),
            Path("a.png"),
            5,
            4,
            None,
            "sim",
            {
                name: Path(path)
                for name, path in (("depth", depth), ("ids", ids))
                if path is not None
            },
        )
        for index, (depth, ids) in enumerate(paths)
    ]
    return Dataset(Path(), (), tuple(samples))


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        ([("d", "i"), ("d", "i")], ("depth", "objects")),
        ([("d", "i"), (None, "i")], ("objects",)),
        ([("d", None), ("d", "i")], ("depth",)),
        ([(None, None)], ()),
    ],
)
def test_only_what_every_sample_has(paths, names):
    assert list_common_buffers(dataset_of(*paths)) == names


def test_depth_is_relative_to_the_median():
    depth = np.full((4, 5), 2.0, np.float32)
    depth[0, 0], depth[0, 1], depth[0, 2], depth[0, 3] = 1.0, 4.0, 0.5, 0.0
    channel = build_buffer_channels(GBufferFrame(RGB, depth_m=depth), ("depth",))
    assert channel.shape == (1, 4, 5)
    assert channel.dtype == np.float32
    assert channel[0, 0].tolist() == [1.0, -0.5, 1.0, -1.0, 0.0]
    doubled = build_buffer_channels(GBufferFrame(RGB, depth_m=depth * 2), ("depth",))
    assert np.array_equal(channel, doubled)


def test_empty_depth_is_far_away():
    channel = build_buffer_channels(
        GBufferFrame(RGB, depth_m=np.zeros((4, 5), np.float32)), ("depth",)
    )
    assert np.all(channel == -1.0)


def test_objects_and_their_outlines():
    ids = np.zeros((4, 5), np.uint16)
    ids[:, 2], ids[:, 3:] = 7, 60000
    mask, outline = build_buffer_channels(GBufferFrame(RGB, ids=ids), ("objects",))
    assert mask[0].tolist() == [0, 0, 1, 1, 1]
    assert outline[0].tolist() == [0, 1, 1, 1, 0]
    assert np.all(outline == outline[0])


def test_channels_are_counted_as_they_are_made():
    frame = GBufferFrame(RGB, np.ones((4, 5), np.float32), np.ones((4, 5), np.uint16))
    for names in [(), ("depth",), ("objects",), ("depth", "objects")]:
        assert build_buffer_channels(frame, names).shape == (count_channels(names), 4, 5)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "depth",
            "trained with depth, but the image has no such buffer. Render with depth, or train",
        ),
        ("objects", "trained with ids, but the image has no such buffer"),
        ("normals", "trained with normals, but the image has no such buffer"),
        ("coordinates", "trained with coordinates, but the image has no such buffer"),
        ("category cup", "trained with categories, but the image has no labels. Label its objects"),
    ],
)
def test_missing_buffer_is_refused(name, message):
    with pytest.raises(Sim2CamError, match=message):
        build_buffer_channels(GBufferFrame(RGB), (name,))


def test_normals_and_coordinates_are_planes():
    normals = np.zeros((4, 5, 3), np.float32)
    normals[1:] = 0.6, 0.0, -0.8
    coordinates = np.full((4, 5, 3), np.nan, np.float32)
    coordinates[2, 3] = 0.0, 0.5, 1.0
    frame = GBufferFrame(RGB, normals=normals, coordinates=coordinates)
    planes = build_buffer_channels(frame, ("normals", "coordinates"))
    assert planes[:3, 0].max() == planes[:3, 0].min() == 0
    assert planes[:3, 1, 0].tolist() == pytest.approx([0.6, 0, -0.8])
    assert planes[3:, 2, 3].tolist() == [-1, 0, 1]
    assert np.count_nonzero(planes[3:]) == 2


def test_categories_are_masks_by_name():
    ids = np.zeros((4, 5), np.uint16)
    ids[:, 1], ids[:, 2], ids[:, 4] = 1, 2, 3
    frame = GBufferFrame(RGB, ids=ids, categories={1: "cup", 2: "fork", 3: "cup"})
    masks = build_buffer_channels(frame, ("category fork", "category cup", "category spoon"))
    assert [mask[0].tolist() for mask in masks] == [[0, 0, 1, 0, 0], [0, 1, 0, 0, 1], [0] * 5]


def rich(categories, *, objects=()):
    names = ("depth", "ids", "normals", "coordinates")
    channels = {name: Path(name) for name in names}
    sample = Sample("a", Path("a.png"), 5, 4, objects, "sim", channels)
    return Dataset(Path(), categories, (sample,))


def test_categories_are_told_apart_where_there_are_some_but_not_many():
    plain = ("depth", "objects", "normals", "coordinates")
    assert list_common_buffers(rich(("cup",))) == plain
    assert list_common_buffers(rich(("cup", "fork"))) == (*plain, "category cup", "category fork")
    assert list_common_buffers(rich(tuple(map(str, range(17))))) == plain
    assert list_common_buffers(rich(("cup", "fork"), objects=None)) == plain
    assert count_channels(list_common_buffers(rich(("cup", "fork")))) == 11


def test_a_mirrored_normal_points_the_other_way():
    buffers = np.random.default_rng(0).normal(size=(5, 4, 6)).astype(np.float16)
    names = ("objects", "normals")
    turned = flip_buffers(buffers, names)
    assert np.array_equal(turned[[0, 1, 3, 4]], buffers[[0, 1, 3, 4], :, ::-1])
    assert np.array_equal(turned[2], -buffers[2, :, ::-1])
    assert np.array_equal(flip_buffers(turned, names), buffers)


@pytest.mark.parametrize(
    ("names", "lost", "message"),
    [
        (("depth", "normals"), {"channels": {"depth": Path("d.png")}},
         "a.png: has no normals buffer, but the translator was trained with it. Render with normals, remove the "
         "image, or train a translator without it."),
        (("category cup",), {"channels": {}},
         "a.png: has no ids buffer, but the translator was trained with it. Render with ids, remove the image, "
         "or train a translator without it."),
        (("category cup",), {"objects": None},
         "a.png: has no labels, but the translator was trained with categories. Label its objects, remove the "
         "image, or train a translator on renders without labels."),
    ],
)  # fmt: skip
def test_a_picture_that_lacks_a_buffer_is_named(names, lost, message):
    (whole,) = rich(("cup", "fork")).samples
    check_buffers(whole, names)
    with pytest.raises(InputError) as caught:
        check_buffers(replace(whole, **lost), names)
    assert str(caught.value) == message
