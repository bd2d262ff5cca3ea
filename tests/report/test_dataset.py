"""The page of a data set shows every sample with its labels, and counts them."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from sim2cam.data.sample import Keypoint
from sim2cam.errors import InputError
from sim2cam.geometry.poses import Pose
from sim2cam.geometry.run_length import RleMask
from sim2cam.report import dataset as dataset_page
from sim2cam.report.dataset import (
    RejectionStats,
    read_rejection_stats,
    trace_mask,
    write_inspect_page,
)

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def inspect(read_page, tmp_path):
    def inspect(dataset, out=tmp_path / "p.html", limit=None):
        return read_page(write_inspect_page(dataset, out, limit=limit))

    return inspect


def of_class(page, tag, name):
    return [attrs for attrs in page.all(tag) if attrs.get("class") == name]


def rendered(make_dataset, label, **facts):
    first = label(
        "a", instance_id=1, visible_fraction=0.5, box_amodal_xyxy=(10.0, 10.0, 40.0, 25.0)
    )
    second = label("b", (40.0, 0.0, 50.0, 9.0), instance_id=2, visible_fraction=1.0)
    posed = replace(second, pose=Pose(position_m=(0.0, 0.3, 0.4)))
    return make_dataset([(first, posed), (second,), ()], channels=("depth", "ids"), **facts)


def test_a_rendered_set(make_dataset, label, inspect):
    page = inspect(rendered(make_dataset, label))
    assert "3 samples (sim), 3 objects in 2 categories, 64 × 48 pixels" in page.text
    layers = [a["data-layer"] for a in of_class(page, "img", "layer")]
    assert layers == ["depth", "ids"] * 3
    assert len(page.all("img")) == 9
    boxes = of_class(page, "rect", "box")
    amodal = of_class(page, "rect", "amodal-box")
    first = boxes[0]
    assert [first[k] for k in ("x", "y", "width", "height")] == ["10.0", "10.0", "20.0", "15.0"]
    assert (len(boxes), [a["width"] for a in amodal]) == (3, ["30.0"])
    groups = of_class(page, "g", "object")
    assert [(g["data-category"], g["data-visible"]) for g in groups] == [
        ("a", "0.5"), ("b", "1.0"), ("b", "1.0"),
    ]  # fmt: skip
    assert len(of_class(page, "path", "mask")) == 3
    figures = of_class(page, "figure", "sample")
    assert [f["data-objects"] for f in figures] == ["2", "1", "0"]
    ids = {a["id"] for _, a in page.tags if "id" in a}
    assert ids >= {"show-boxes", "show-amodal-boxes", "show-masks", "layer", "category", "origin"}
    assert not ids & {"show-amodal-masks", "show-keypoints"}
    assert "depth: near: yellow, far: violet 0.89 m 0.31 m" in page.text
    assert "0.50 m" in page.text
    assert "50 %" in page.text
    options = [a["value"] for a in page.all("option")]
    for name in ("depth", "ids"):
        assert name in options
        rule = f'body:has(#layer option[value="{name}"]:checked) .layer[data-layer="{name}"]'
        assert rule in page.source
    assert all(a.startswith("data:image/jpeg;base64,") for a in page.addresses())
    assert "default-src 'none'; img-src data:;" in page.source


def test_ignored_regions_are_drawn_apart_and_not_counted(make_dataset, label, inspect):
    region = label("b", (30.0, 0.0, 60.0, 40.0), is_crowd=True)
    dataset = make_dataset([(label("a"), region), (region,), (label("a"), label("a"))])
    page = inspect(dataset)
    text = " ".join(page.text.split())
    assert "3 objects and 2 ignored regions (dashed; not used in training or scoring) in 2" in text
    figures = of_class(page, "figure", "sample")
    assert [f["data-objects"] for f in figures] == ["1", "0", "2"]
    assert "1 objects, 1 ignored" in text
    drawn = [a.get("class") for a in page.all("g") if "data-category" in a]
    assert drawn == ["object", "object ignored", "object ignored", "object", "object"]
    assert text.count("ignored: b") == 2
    assert "b (ignored)" in text
    assert "Objects per category a: 3; b: 0 " in text


def test_a_name_of_bytes_that_are_no_text_is_shown_with_escapes(make_dataset, inspect):
    dataset = make_dataset([()], categories=("a\udcff",))
    page = inspect(dataset)
    assert "a\\udcff" in page.text


def test_whole_masks_and_keypoints(make_dataset, label, inspect):
    mask = np.zeros((48, 64), bool)
    mask[10:25, 10:40] = True
    points = (
        Keypoint("1", (12.0, 20.0), 2, (0.0, 0.0, 0.1)),
        Keypoint("2", (30.0, 20.0), 1, (0.0, 0.1, 0.0)),
        Keypoint("3", (0.0, 0.0), 0, (0.1, 0.0, 0.0)),
    )
    first = label("a", instance_id=1, amodal_mask=RleMask.from_mask(mask), keypoints=points)
    page = inspect(make_dataset([(first,)]))
    assert {"show-amodal-masks", "show-keypoints"} <= {a["id"] for _, a in page.tags if "id" in a}
    (whole,) = [a["d"] for a in of_class(page, "path", "amodal-mask")]
    assert whole == trace_mask(mask)
    circles = [(a["cx"], a["cy"], a["class"]) for a in page.all("circle")]
    assert circles == [("12.5", "20.5", "keypoint"), ("30.5", "20.5", "keypoint hidden-point")]


def test_captures(make_dataset, label, inspect):
    captures = make_dataset([(label(),), None], origin="stand-in")
    page = inspect(captures)
    assert "2 samples (stand-in)" in page.text
    assert "1 unlabelled" in page.text
    assert "002 · stand-in · unlabelled" not in page.text
    assert "001 · stand-in · unlabelled" in page.text
    assert not re.search(r"\breal\b", page.text)
    ids = {a["id"] for _, a in page.tags if "id" in a}
    assert not ids & {"show-amodal-boxes", "show-masks", "show-amodal-masks", "show-keypoints"}
    assert [a["value"] for a in page.all("option")][:1] == [""]
    assert not of_class(page, "img", "layer")
    assert "Rejected scenes" not in page.text


def test_a_limit_shows_fewer_and_counts_all(make_dataset, label, inspect):
    page = inspect(rendered(make_dataset, label), limit=1)
    assert len(of_class(page, "figure", "sample")) == 1
    assert "3 samples (sim), 3 objects" in page.text
    assert "the first 1" in page.text


def test_everything_is_escaped(make_dataset, label, inspect):
    dataset = make_dataset([(label(HOSTILE),)], categories=(HOSTILE, 'b" onclick="x'))
    named = replace(dataset.samples[0], name='" onload="x' + HOSTILE)
    hostile = replace(dataset, samples=(named,))
    page = inspect(hostile)
    assert len(page.all("script")) == 1
    assert HOSTILE not in page.source
    assert not any({"onclick", "onload"} & attrs.keys() for _, attrs in page.tags)
    options = [a["value"] for a in page.all("option")]
    assert HOSTILE in options


def test_many_pictures_lie_beside_the_page(make_dataset, label, tmp_path, inspect, monkeypatch):
    monkeypatch.setattr(dataset_page, "MAX_EMBEDDED", 2)
    out = tmp_path / "page" / "p.html"
    page = inspect(rendered(make_dataset, label), out)
    addresses = page.addresses()
    assert len(set(addresses)) == 9
    assert all((out.parent / a).read_bytes()[:2] == b"\xff\xd8" for a in addresses)
    assert {a.split("/")[0] for a in addresses} == {"p-images"}


def test_an_unreadable_picture_is_named(make_dataset, label, tmp_path):
    dataset = make_dataset([()])
    dataset.samples[0].rgb.write_bytes(b"no")
    with pytest.raises(InputError, match=r"rgb\.png: not an image"):
        write_inspect_page(dataset, tmp_path / "p.html", limit=None)
    assert not (tmp_path / "p.html").exists()


def scenes(root, *records):
    folder = root / "shards" / "000000"
    folder.mkdir(parents=True)
    (folder / "scenes.jsonl").write_text("".join(f"{json.dumps(r)}\n" for r in records))


def test_rejected_scenes(make_dataset, inspect):
    dataset = make_dataset([()])
    leaning = ["a die leans by 4.5 degrees", "a die leans by -3e-05 degrees"]
    rejected = (leaning, [], ["bodies overlap by 1.20 mm"])
    scenes(dataset.root, *({"scene_index": i, "rejections": why} for i, why in enumerate(rejected)))
    rejections = read_rejection_stats(dataset.root)
    reasons = {"a die leans by N degrees": 2, "bodies overlap by N mm": 1}
    assert rejections == RejectionStats(3, 3, reasons)
    assert rejections.rejection_rate == 0.5
    text = inspect(dataset).text
    assert "3 scenes; 3 of 6 sampled scenes rejected (50 %)" in text


@pytest.mark.parametrize("record", [{"scene_index": 0}, [], {"scene_index": 0, "rejections": 3}])
def test_a_broken_record_is_named(tmp_path, record):
    scenes(tmp_path, record)
    with pytest.raises(InputError, match=r"scenes\.jsonl: line 1: damaged scene"):
        read_rejection_stats(tmp_path)


def test_outlines_go_through_the_centres_of_the_border(label):
    mask = np.zeros((20, 30), bool)
    mask[5:15, 10:21] = True
    assert trace_mask(mask) == "M10.5 5.5L10.5 14.5L20.5 14.5L20.5 5.5Z"
    mask[8:12, 13:18] = False
    assert trace_mask(mask).count("M") == 2
    assert trace_mask(np.zeros((4, 4), bool)) == ""
