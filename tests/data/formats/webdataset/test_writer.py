import json
import tarfile
from dataclasses import replace

import numpy as np
from pydantic import TypeAdapter

from sim2cam.data.channels import read_channel
from sim2cam.data.formats.export import export_dataset
from sim2cam.data.formats.webdataset import writer
from sim2cam.data.sample import ObjectLabel
from sim2cam.files import write_bytes
from sim2cam.geometry.lens import Lens


def groups(path):
    """The files of each key, by what follows the first dot, as the library groups them."""
    found = {}
    with tarfile.open(path) as tar:
        for entry in tar:
            key, _, ending = entry.name.partition(".")
            found.setdefault(key, {})[ending] = tar.extractfile(entry).read()
    return found


def test_what_is_exported_is_read_back(exported, tmp_path):
    root, parts = exported("webdataset")
    for name, part in parts.items():
        found = groups(root / f"{name}-000000.tar")
        assert list(found) == [f"{number:06d}" for number in range(len(part.samples))]
        for files, sample in zip(found.values(), part.samples, strict=True):
            facts = json.loads(files["json"])
            assert files["jpg"] == sample.rgb.read_bytes()
            labels = TypeAdapter(tuple[ObjectLabel, ...]).validate_python(facts["objects"])
            assert labels == sample.objects
            assert TypeAdapter(Lens).validate_python(facts["lens"]) == sample.lens
            assert (facts["name"], facts["scene_index"]) == (sample.name, sample.scene_index)
            assert (facts["categories"], facts["depth_along"]) == (["square", "disc"], "axis")
            for channel, path in sample.channels.items():
                write_bytes(tmp_path / "c.png", files[f"{channel}.png"])
                assert np.array_equal(
                    read_channel(channel, tmp_path / "c.png"), read_channel(channel, path)
                )


def test_a_split_without_images_gives_no_file(tmp_path, dataset):
    writer.write_webdataset({"train": replace(dataset, samples=())}, tmp_path / "empty")
    assert not (tmp_path / "empty").exists()


def test_scenes_are_not_torn_apart(tmp_path, dataset, monkeypatch):
    monkeypatch.setattr(writer, "SAMPLES_PER_TAR", 1)
    export_dataset({"train": dataset}, tmp_path / "out", "webdataset")
    found = [groups(path) for path in sorted((tmp_path / "out").glob("*.tar"))]
    assert [list(group) for group in found] == [["000000", "000001"], ["000002", "000003"]]


def test_pictures_without_labels_say_so(tmp_path, dataset):
    samples = tuple(replace(sample, objects=None) for sample in dataset.samples)
    export_dataset({"train": replace(dataset, samples=samples)}, tmp_path / "out", "webdataset")
    (files, *_) = groups(tmp_path / "out/train-000000.tar").values()
    assert "objects" not in json.loads(files["json"])
