from dataclasses import replace

import pytest

from sim2cam.commands.data import Inspect
from sim2cam.data.checks.dataset import check_dataset
from sim2cam.data.checks.small_objects import describe_small_objects


@pytest.mark.parametrize(
    ("areas_px", "text"),
    [
        ({}, None),
        ({"000000": [16.0, 900.0], "000001": []}, None),
        (
            {"000000": [15.0, 900.0], "000001": [1.0, 3.0, 40.0]},
            "3 of 5 objects show fewer than 16 pixels (smallest: 1 in sample 000001). ",
        ),
    ],
)
def test_only_small_objects_are_described(areas_px, text):
    described = describe_small_objects(areas_px)
    assert described is None if text is None else described.startswith(text)


def shrink_disc(sample):
    square, disc = sample.objects
    return replace(sample, objects=(square, replace(disc, area_px=5)))


def ignore_disc(sample):
    square, disc = sample.objects
    return replace(sample, objects=(square, replace(disc, area_px=5, is_crowd=True)))


def test_check_and_inspect_warn_about_small_objects(tiny, tmp_path, capsys):
    root = tiny.write_native(tmp_path / "d", shrink_disc)
    message = "4 of 8 objects show fewer than 16 pixels (smallest: 5 in sample 000000)."
    (warning,) = check_dataset(root).warnings
    assert warning.startswith(message)
    for record in root.glob(
        "shards/*/scenes.jsonl"
    ):  # they lack the rejections, which inspect reads
        record.unlink()
    Inspect(root, tmp_path / "page.html").run()
    assert f"warning: {message}" in capsys.readouterr().err


def test_small_ignored_regions_are_no_objects(tiny, tmp_path):
    assert check_dataset(tiny.write_native(tmp_path / "d", ignore_disc)).warnings == ()
