"""Tiny data sets of two squares, one partly behind the other, written without a renderer."""

import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest

from sim2cam.data.reader import read_dataset
from sim2cam.data.sample import ObjectLabel
from sim2cam.data.writer import FORMAT_VERSION, NewSample, prepare_folder, write_shard
from sim2cam.geometry.lens import BrownConrady
from sim2cam.geometry.poses import Pose
from sim2cam.images import encode_jpeg

CATEGORIES = ("square", "disc")
WIDTH, HEIGHT, VIEWS = 48, 32, 2


def header(**changes):
    """The header of a small rendered data set."""
    facts = {
        "format": FORMAT_VERSION,
        "origin": "sim",
        "recipe": {"name": "tiny", "render": {"views": VIEWS}},
        "seed": 0,
        "categories": CATEGORIES,
    }
    return facts | changes


def new_sample(index):
    """A rendered sample; the second object hides a third of the first."""
    ids = np.zeros((HEIGHT, WIDTH), np.uint16)
    ids[4:16, 6 + index : 18 + index] = 1
    ids[4:16, 14 + index : 26 + index] = 2
    x = float(index)
    objects = (
        ObjectLabel(
            "square",
            (x + 6, 4.0, x + 14, 16.0),
            96,
            box_amodal_xyxy=(x + 6, 4.0, x + 18, 16.0),
            visible_fraction=96 / 144,
            instance_id=1,
            pose=Pose(position_m=(0.0, 0.1, 0.5)),
        ),
        ObjectLabel("disc", (x + 14, 4.0, x + 26, 16.0), 144, instance_id=2, visible_fraction=1.0),
    )
    rgb = np.random.default_rng(index).integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
    return NewSample(
        index=index,
        image_bytes=encode_jpeg(rgb, 90),
        width=WIDTH,
        height=HEIGHT,
        origin="sim",
        objects=objects,
        channels={"depth": np.where(ids > 0, 0.5, 0.0).astype(np.float32), "ids": ids},
        metadata={
            "scene_index": index // VIEWS,
            "view": index % VIEWS,
            "lens": BrownConrady(50.0, 50.0, 24.0, 16.0, k1=-0.1),
        },
    )


def write_native(root, change=lambda sample: sample):
    """Two shards of two samples each, every sample changed first."""
    prepare_folder(root, header(), resume=False, overwrite=False)
    for shard in (0, 1):
        scenes = [{"scene_index": shard}]
        samples = [change(new_sample(i)) for i in range(shard * VIEWS, (shard + 1) * VIEWS)]
        write_shard(root, shard, samples, scenes)
    return root


def write_adapted(root, parent, change=lambda sample: sample):
    """A data set that was translated from another."""
    place = f"../{parent.name}"
    prepare_folder(root, header(origin="adapted", parent=place), resume=False, overwrite=False)
    for shard, group in enumerate([read_dataset(parent).samples[i : i + 2] for i in (0, 2)]):
        samples = [
            dataclasses.replace(
                new_sample(2 * shard + k),
                origin="adapted",
                objects=None,
                channels={},
                metadata={"parent": sample.digest, "scene_index": sample.scene_index},
            )
            for k, sample in enumerate(group)
        ]
        write_shard(root, shard, map(change, samples))
    return root


def edit_lines(path, edit):
    """Applies a function to every line of a samples.jsonl, and leaves the digests alone."""
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(edit(line) or line) + "\n" for line in lines))


@pytest.fixture
def native(tmp_path):
    """The folder of a sound data set."""
    return write_native(tmp_path / "native")


@pytest.fixture
def adapted(tmp_path, native):
    """The folder of a sound data set that was translated from ``native``."""
    return write_adapted(tmp_path / "adapted", native)


@pytest.fixture
def tiny():
    """The functions above, for tests that break something."""
    functions = (header, new_sample, write_native, write_adapted, edit_lines)
    return SimpleNamespace(**{function.__name__: function for function in functions})
