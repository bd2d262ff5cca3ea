"""Bad input: a table of what is wrong, the exact words it is answered with, and that nothing of
what was there is lost and nothing half-written stays.
"""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

from sim2cam.data.checks.dataset import check_dataset
from sim2cam.data.formats.export import export_dataset as export_parts
from sim2cam.data.label_mapping import LabelMapping
from sim2cam.data.reader import read_dataset
from sim2cam.data.real_images import read_real_images, split_real_images
from sim2cam.data.sample import ObjectLabel
from sim2cam.data.writer import FORMAT_VERSION, NewSample, prepare_folder, write_json, write_shard
from sim2cam.errors import Sim2CamError
from sim2cam.files import write_bytes
from sim2cam.images import encode_jpeg, read_rgb
from sim2cam.models.training.config import TrainConfig
from sim2cam.models.training.datasets import check_datasets
from sim2cam.pipeline.recipe import load_recipe

HEADER = {"format": FORMAT_VERSION, "origin": "sim", "seed": 0, "categories": ["1", "2"]}
RGB = np.random.default_rng(0).integers(0, 256, (24, 32, 3), dtype=np.uint8)


def new_sample(category="1"):
    label = ObjectLabel(category, (2.0, 3.0, 12.0, 9.0), 60)
    return NewSample(0, encode_jpeg(RGB, 90), 32, 24, "sim", (label,), {}, {})


def data_set(folder, category="1"):
    prepare_folder(folder / "data", HEADER, resume=False, overwrite=False)
    write_shard(folder / "data", 0, [new_sample(category)])
    return folder / "data"


def captures(folder, *, name="1", image=None, **annotation):
    """A COCO file with one image and one annotation, which is changed as given."""
    write_bytes(folder / "a.jpg", encode_jpeg(RGB, 90) if image is None else image)
    box = {"image_id": 1, "category_id": 1, "bbox": [2, 3, 10, 6]}
    tables = {
        "images": [{"id": 1, "file_name": "a.jpg", "width": 32, "height": 24}],
        "annotations": [box | annotation],
        "categories": [{"id": 1, "name": name}],
    }
    (folder / "a.json").write_text(json.dumps(tables))
    return folder / "a.json"


def without_image(folder):
    path = captures(folder)
    (folder / "a.jpg").unlink()
    return path


def empty_folder(folder):
    (folder / "photos").mkdir()
    return folder / "photos"


def recipe(text):
    def make(folder):
        (folder / "mine.toml").write_text(f'base = "dice"\n{text}\n')
        return folder / "mine.toml"

    return make


def read_pixels(path):
    return [read_rgb(sample.rgb) for sample in read_real_images(path).samples]


def read_recipe(path):
    return load_recipe(str(path))


def bench(path):
    return LabelMapping(("1", "2")).apply(read_real_images(path))


def train_on(path):
    LabelMapping(("1", "2"), ignore_unmapped=True).check_complete(read_real_images(path))


def train_with_captures(path):
    parts = ((read_dataset(path.parents[1] / "data"), 1.0), (read_real_images(path), 1.0))
    return check_datasets(parts, TrainConfig())


def renders_and_captures(folder):
    data_set(folder)
    return captures(folder / "photos", name="six")


def plain_file(folder):
    (folder / "out").write_text("mine")
    return folder / "out"


def file_above(folder):
    return plain_file(folder) / "data"


def photos(folder):
    captures(folder)
    return folder


def start(root, **choice):
    prepare_folder(root, HEADER, **{"resume": False, "overwrite": False} | choice)


def start_over(root):
    start(root, overwrite=True)


def resume(root):
    start(root, resume=True)


def resume_other(root):
    prepare_folder(root, HEADER | {"seed": 7}, resume=True, overwrite=False)


def on_a_full_disk(action):
    """The action, with every file cut off after 40 bytes."""

    def full(path, data):
        with path.open("wb") as file:
            file.write(data[:40])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def act(given):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Path, "write_bytes", full)
            action(given)

    return act


def export(root):
    export_parts({"train": read_dataset(root)}, root.parent / "coco", "coco")


def add_shard(root):
    write_shard(root, 1, [new_sample()])


def replace_shard(root):
    write_shard(root, 0, [new_sample(), new_sample()])


def rewrite_header(root):
    write_json(root / "dataset.json", HEADER)


FULL = "cannot be written (No space left on device). Free some disk space, then run again with "
CORRECT = "Correct the file, or leave flawed annotations out with --skip-invalid."
NO_TRUTH = "its images have no labels to evaluate against. Label them."


def unlabelled(folder):
    path = captures(folder)
    tables = json.loads(path.read_text())
    del tables["annotations"]
    path.write_text(json.dumps(tables))
    return path


BAD = {
    "missing image": (without_image, read_real_images,
        "/a.jpg: no such image. Check the path or the annotation file."),
    "truncated image": (lambda folder: captures(folder, image=encode_jpeg(RGB, 90)[:-200]), read_pixels,
        "/a.jpg: damaged image (image file is truncated (N bytes not processed)). Copy the file again."),
    "image that is none": (lambda folder: captures(folder, image=b"hello"), read_real_images,
        "/a.jpg: not an image. Supported: JPEG, PNG, BMP, TIFF, WebP, PPM, TGA, JPEG 2000."),
    "unknown image id": (lambda folder: captures(folder, image_id=5), read_real_images,
        f"/a.json: annotations[0] has image_id 5, which is not in the list of images. {CORRECT}"),
    "negative size": (lambda folder: captures(folder, bbox=[2, 3, -10, 6]), read_real_images,
        f"/a.json: annotations[0] (image a.jpg): bbox [2.0, 3.0, -10.0, 6.0] must have a width and a height above 0. {CORRECT}"),
    "box outside its image": (lambda folder: captures(folder, bbox=[32, 3, 10, 6]), read_real_images,
        f"/a.json: annotations[0] (image a.jpg): bbox [32.0, 3.0, 10.0, 6.0] lies outside the image of 32x24 pixels. {CORRECT}"),
    "unknown category id": (lambda folder: captures(folder, category_id=5), read_real_images,
        f"/a.json: annotations[0] (image a.jpg): no category has the id 5. Allowed: 1 (1). {CORRECT}"),
    "no captures": (lambda folder: folder / "none.json", read_real_images,
        "/none.json: no such file. Check the path."),
    "empty capture folder": (empty_folder, read_real_images,
        "/photos: no images in it (JPEG, PNG, BMP, TIFF, WebP, PPM, TGA, JPEG 2000). Check the path."),
    "captures that cannot be scored": (unlabelled, split_real_images,
        f"/a.json: {NO_TRUTH}"),
    "category the detector does not know": (lambda folder: captures(folder, name="six"), bench,
        ": the detector has no category 'six', only 1, 2. Add --map six=NAME, or --ignore-unmatched to drop such objects."),
    "category that training data lack": (captures, train_on,
        ": has no category '2', so such objects would be trained as background. Add --map REAL=2, or label them. If no image shows one, add '2' to the list of categories."),
    "category that other training data lacks": (renders_and_captures, train_with_captures,
        "/photos: categories six differ from those of {folder}/data: 1, 2. Rename them with --map, drop others with --ignore-unmatched, or add categories without objects to the dataset's list."),
    "category that the data set does not list": (lambda folder: data_set(folder, "7"), read_dataset,
        "/data/shards/000000/samples.jsonl: sample 000000: unknown category '7'. Allowed: 1, 2."),
    "wrong key": (recipe("[render]\nwidht = 100"), read_recipe,
        "/mine.toml: unknown key 'render.widht'. Did you mean 'width'? Allowed: channels, height, rest, sequence, views, width"),
    "wrong key of a distribution": (recipe('[domain.layout]\naspect = {kind = "uniform", low = 0.5, hihg = 1.0}'), read_recipe,
        "/mine.toml: unknown key 'domain.layout.aspect.hihg'. Did you mean 'high'? Allowed: high, kind, low"),
    "unknown distribution": (recipe('[domain.layout]\naspect = {kind = "unifrom", low = 0.5, high = 1.0}'), read_recipe,
        "/mine.toml: 'domain.layout.aspect': unknown kind 'unifrom'. Did you mean 'uniform'? Allowed: choice, clip, column, constant, curve, each, given, integers, log_uniform, normal, power, product, quota, rounded, same, schedule, shared, sum, uniform"),
    "wrong type": (recipe('[render]\nwidth = "wide"'), read_recipe,
        "/mine.toml: 'render.width': Input should be a valid integer, unable to parse string as an integer (found \"wide\")."),
    "impossible range": (recipe('[domain.layout]\naspect = {kind = "uniform", low = 1.0, high = 0.5}'), read_recipe,
        "/mine.toml: 'domain.layout.aspect.uniform': uniform needs low <= high, not 1.0 > 0.5 (found {\"kind\": \"uniform\", \"low\": 1.0, \"high\": 0.5})."),
    "impossible size": (recipe("[render]\nwidth = 3"), read_recipe,
        "/mine.toml: 'render': width and height must be 16 to 4096, not 3x640 (found {\"rest\": {\"friction_scale\": 0.2, \"max_restarts\": 6}, \"width\": 3})."),
    "impossible training": (recipe("[train]\nsteps = -1"), read_recipe,
        "/mine.toml: 'train': steps must be 1 or more, not -1."),
    "impossible translation": (recipe("[adapt.translator]\nlearning_rate_generator = 0"), read_recipe,
        "/mine.toml: 'adapt.translator': learning_rate_generator must be above 0, not 0.0."),
    "categories without a face": (recipe('categories = ["1", "2", "3", "4", "5"]'), read_recipe,
        "/mine.toml: categories must contain 6, because an object of 'domain.die' can show it. Add the names, "
        "change its factors, or set 'domain.die.category'."),
    "no TOML": (recipe("x ="), read_recipe,
        "/mine.toml: not TOML: Invalid value (at line 2, column 4)."),
    "no recipe": (lambda folder: folder / "none.toml", read_recipe,
        "/none.toml: no such recipe file."),
    "output is a file": (plain_file, start,
        "/out: is a file, not a folder. Choose another --out."),
    "output below a file": (file_above, start,
        "/out/data/dataset.json: cannot be written (Not a directory). Choose another --out or change its permissions."),
    "output is not empty": (data_set, start,
        "/data: is not empty. Add --resume to continue or --overwrite to start again."),
    "output holds other things, overwrite": (photos, start_over,
        ": contains 'a.jpg', which is not part of a dataset. Choose another --out."),
    "output holds other things, resume": (photos, resume,
        ": contains 'a.jpg', which is not part of a dataset. Choose another --out."),
    "output holds another dataset": (data_set, resume_other,
        "/data: holds another dataset: seed is 0, not 7. Choose another --out or add --overwrite."),
    "disk is full at a shard": (data_set, on_a_full_disk(add_shard),
        f"/data/shards/000001.part/rgb/000000.jpg: {FULL}--resume."),
    "disk is full at a longer shard": (data_set, on_a_full_disk(replace_shard),
        f"/data/shards/000000.part/rgb/000000.jpg: {FULL}--resume."),
    "disk is full at a header": (data_set, on_a_full_disk(rewrite_header),
        f"/data/dataset.json: {FULL}--resume."),
    "disk is full at an export": (data_set, on_a_full_disk(export),
        f"/coco.part/images/train/000000.jpg: {FULL}--resume."),
    "no data set": (empty_folder, check_dataset,
        "/photos: not a dataset: it has no dataset.json. Check the path."),
}  # fmt: skip


def tree(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


@pytest.mark.parametrize(("make_input", "call", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_answered_exactly_and_loses_nothing(tmp_path, make_input, call, message):
    given = make_input(tmp_path)
    before = tree(tmp_path)
    with pytest.raises(Sim2CamError) as caught:
        call(given)
    said = re.sub(r"\d+ bytes", "N bytes", str(caught.value))
    said = re.sub(r"\.[0-9a-f]{12}\.part", ".part", said)
    assert said == str(tmp_path) + message.replace("{folder}", str(tmp_path))
    assert tree(tmp_path) == before
