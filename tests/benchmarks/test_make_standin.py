"""The stand-in camera that ships: whole, small, and what its recipe says."""

from __future__ import annotations

import json
from pathlib import Path

import make_standin as standin

from sim2cam import images
from sim2cam.data.real_images import split_real_images
from sim2cam.data.sample import ObjectLabel
from sim2cam.geometry.boxes import xywh_to_xyxy
from sim2cam.pipeline.recipe import RECIPES_FOLDER, load_recipe

ROOT = Path(__file__).parents[2]
FOLDER = RECIPES_FOLDER / "standin"
RECIPE = ROOT / "benchmarks/standin.toml"


def test_it_reads_as_captures_of_two_kinds():
    sets = split_real_images(FOLDER, origin="stand-in")
    assert len(sets.style.samples) == len(sets.test.samples) == 48
    assert all(sample.objects is None for sample in sets.style.samples)
    assert sets.test.categories == load_recipe("dice").categories
    assert {sample.origin for sample in sets.test.samples} == {"stand-in"}
    for sample in (*sets.style.samples, *sets.test.samples):
        assert images.read_rgb(sample.rgb).shape == (384, 384, 3)


def test_style_has_no_labels_and_test_has_fitting_ones():
    assert "annotations" not in json.loads((FOLDER / "style.json").read_text())
    sets = split_real_images(FOLDER, origin="stand-in")
    faces = [label for sample in sets.test.samples for label in sample.objects]
    assert {label.category for label in faces} == set("123456")
    assert len(faces) > 250
    for label in faces:
        x0, y0, x1, y1 = label.box_xyxy
        assert 0 <= x0 < x1 <= 384
        assert 0 <= y0 < y1 <= 384
        assert label.area_px <= (x1 - x0) * (y1 - y0)
    for sample in sets.test.samples:
        clear = [label for label in sample.objects if not label.is_crowd]
        assert len(clear) >= standin.MIN_CLEAR_DICE


def test_it_is_small_and_nothing_else_lies_there():
    files = [path for path in FOLDER.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 3_000_000
    listed = {
        entry["file_name"]
        for name in ("style", "test")
        for entry in json.loads((FOLDER / f"{name}.json").read_text())["images"]
    }
    found = {str(path.relative_to(FOLDER)) for path in files}
    assert found == listed | {"style.json", "test.json"}


def test_its_recipe_is_another_camera_than_the_default_s():
    hidden, shown = load_recipe(str(RECIPE)), load_recipe("dice")
    assert hidden.categories == shown.categories
    assert hidden.domain.get_factor("lens/k1").kind == "constant"
    assert hidden.domain.get_factor("view/tilt_rad").low > 0.3
    assert (hidden.render.width, hidden.render.height) == (384, 384)


def test_annotations_are_coco_s():
    def make_label(fraction):
        box = (3.0, 4.0, 13.0, 16.0)
        return ObjectLabel("5", box, 100.0, visible_fraction=fraction)

    recipe = load_recipe(str(RECIPE))
    clear = standin.make_annotation(make_label(0.9), 7, recipe)
    assert clear["category_id"] == 5
    assert xywh_to_xyxy(tuple(clear["bbox"])) == (3, 4, 13, 16)
    assert (clear["image_id"], clear["area"], clear["iscrowd"]) == (7, 100.0, 0)
    assert standin.make_annotation(make_label(0.1), 7, recipe)["iscrowd"] == 1
