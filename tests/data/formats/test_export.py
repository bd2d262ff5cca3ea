import math
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from PIL import Image

from sim2cam.data.formats.export import WRITERS, FormatName, export_dataset
from sim2cam.data.formats.writing import check_unique_stems, encode_upright
from sim2cam.data.reader import read_dataset
from sim2cam.data.sample import Sample
from sim2cam.errors import InputError, OutputError, UsageError
from sim2cam.images import read_rgb
from tests.support.errors import error_text

SIMPLE = list(WRITERS)  # BOP needs poses: it has tests of its own


def test_there_is_a_writer_for_every_name():
    assert {*WRITERS, "bop"} == set(get_args(FormatName))


@pytest.mark.parametrize("to", SIMPLE)
def test_equal_exports_are_equal_bytes(tmp_path, dataset, to):
    for name in ("a", "b"):
        export_dataset({"train": dataset}, tmp_path / name, to)
    files = sorted(p.relative_to(tmp_path / "a") for p in (tmp_path / "a").rglob("*.*"))
    assert (tmp_path / "a/card.md").is_file()
    for path in files:
        assert (tmp_path / "a" / path).read_bytes() == (tmp_path / "b" / path).read_bytes()


@pytest.mark.parametrize("to", WRITERS)
def test_a_failing_export_leaves_nothing(tmp_path, dataset, to):
    unlabelled = replace(dataset.samples[3], objects=None)
    broken = replace(dataset, samples=(*dataset.samples[:3], unlabelled))
    if to == "webdataset":  # takes pictures without labels, but none without a file
        unlabelled.rgb.unlink()
    problem = (
        "no such image|cannot be read"
        if to == "webdataset"
        else (r"native: image 000003 has no labels to export\. Label or remove it\.")
    )
    with pytest.raises(InputError, match=problem):
        export_dataset({"train": broken}, tmp_path / "out", to)
    assert [path.name for path in tmp_path.iterdir()] == ["native"]


@pytest.mark.parametrize("to", SIMPLE)
def test_a_full_folder_is_refused(tmp_path, dataset, to):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine").write_text("")
    message = error_text(
        export_dataset, {"train": dataset}, tmp_path / "out", to, error=OutputError
    )
    assert message == (f"{tmp_path / 'out'}: is not empty and not an export. Choose another --out.")
    with pytest.raises(OutputError, match="and not an export"):
        export_dataset({"train": dataset}, tmp_path / "out", to, overwrite=True)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]


@pytest.mark.parametrize("to", SIMPLE)
def test_an_earlier_export_is_replaced_on_request_alone(tmp_path, dataset, to):
    out = tmp_path / "out"
    out.mkdir()  # empty folders are filled
    export_dataset({"train": dataset}, out, to)
    (out / "of-before").write_text("")
    with pytest.raises(OutputError, match=r"is not empty\. Choose another --out, or add --overwr"):
        export_dataset({"train": dataset}, out, to)
    export_dataset({"train": dataset}, out, to, overwrite=True)
    assert not (out / "of-before").exists()
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("name", ["", "..", "a/b", "a.b"])
def test_a_part_is_named_like_a_folder(tmp_path, dataset, name):
    message = error_text(
        export_dataset, {name: dataset}, tmp_path / "out", "coco", error=UsageError
    )
    assert message == f"invalid split name '{name}'. Use letters, digits, _ and - only."


@pytest.mark.parametrize("to", SIMPLE)
def test_a_translated_set_is_made_whole(tmp_path, adapted, to):
    export_dataset({"train": read_dataset(adapted)}, tmp_path / "out", to)
    assert "4 images of 2 scenes with 8 objects" in (tmp_path / "out/card.md").read_text()


def test_names_that_differ_in_their_suffix_alone_are_refused(dataset):
    first, second, *_ = dataset.samples
    twins = (
        replace(first, name="a.jpg", rgb=first.rgb.with_suffix(".jpg")),
        replace(second, name="a.png", rgb=second.rgb.with_suffix(".png")),
    )
    with pytest.raises(InputError) as caught:
        check_unique_stems(replace(dataset, samples=twins))
    problem = "images a.jpg and a.png would share one label file. Rename one."
    assert str(caught.value) == f"{dataset.root}: {problem}"


@pytest.mark.parametrize("to", ["coco", "webdataset"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_json_has_no_word_for_is_never_written(tmp_path, dataset, to, value):
    first, *others = dataset.samples
    label = replace(first.objects[0], visible_fraction=value)
    changed = replace(dataset, samples=(replace(first, objects=(label,)), *others))
    with pytest.raises(InputError, match="contains a number that is not finite"):
        export_dataset({"train": changed}, tmp_path / "out", to)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("suffix", "kept"), [(".jfif", ".jpg"), (".ppm", ".png"), (".tga", ".png")]
)
def test_images_of_kinds_that_few_tools_read_are_written_as_others(tmp_path, suffix, kept):
    path = tmp_path / f"a{suffix}"
    pixels = np.random.default_rng(0).integers(0, 256, (16, 24, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, "JPEG" if suffix == ".jfif" else None)
    sample = Sample(path.name, path, 24, 16, (), "real")
    data, written = encode_upright(sample)
    assert written == kept
    (tmp_path / f"b{kept}").write_bytes(data)
    assert np.array_equal(read_rgb(tmp_path / f"b{kept}"), read_rgb(path))
