"""The page of an ablation study shows all planned variants, including those that were not run."""

import json
import re

import numpy as np
import pytest

from sim2cam.errors import InputError
from sim2cam.report.ablation import read_ablation, write_ablation_page
from sim2cam.report.values import Example, ExamplePairs


def scored(value):
    return {"value": value, "ci95": [value - 0.05, value + 0.05]}


def variant(name, value):
    return {
        "name": name,
        "seeds": [{"seed": s, "ap50": value + s / 100, "ap": value / 2} for s in (-1, 0, 1)],
        "ap50": scored(value),
        "ap": scored(value / 2),
    }


def pair(first, second, value, p):
    return {
        "first": first, "second": second, "metric": "ap50", **scored(value),
        "p_value": p / 2, "p_holm": p, "min_detectable_effect": 0.06,
    }  # fmt: skip


CONTENT = {
    "protocol": {"images": 50, "scored_on": "test"},
    "variants": [variant("plain", 0.3), variant("randomized", 0.7), variant("more", 0.71)],
    "comparisons": [pair("randomized", "plain", 0.4, 0.004), pair("more", "randomized", 0.01, 0.6)],
}


EQUIVALENTS = {
    "curve": [{"labelled_images": 200, **scored(0.8)}, {"labelled_images": 25, **scored(0.7)}],
    "variants": [
        {"variant": "randomized", "summary": "worth 40 [25, > 200] real photos"},
        {"variant": "plain", "summary": "worth fewer than 25 [< 25, < 25] real photos"},
    ],
}


@pytest.fixture
def read(tmp_path):
    def read(content):
        path = tmp_path / "dice.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return read_ablation(path)

    return read


@pytest.fixture
def show(read, read_page, tmp_path):
    return lambda content, title="L": read_page(
        write_ablation_page(read(content), tmp_path / "l.html", title=title)
    )


def test_variants_and_differences(read, show):
    content = CONTENT | {"planned": ["plain", "randomized", "real only"]}
    results = read(content)
    assert [a.name for a in results.variants] == ["plain", "randomized", "real only", "more"]
    assert results.variants[0].runs["ap50"] == pytest.approx((0.29, 0.3, 0.31))
    page = show(content)
    assert re.search(r"real only\s+not run\s+not run\s+0\b", page.text)
    assert "0.700 0.650–0.750" in page.text
    assert re.search(
        r"randomized − plain\s+AP50\s+0.060\s+\+0.400 .* randomized is better", page.text
    )
    assert re.search(r"more − randomized\s+AP50\s+0.060 .* no significant difference", page.text)
    assert "scored on" in page.text
    rings = [mark for mark in page.all("use") if "fill-opacity: 0" in mark["style"]]
    assert len(rings) == 2 * 3 * 3
    assert page.addresses() == []


def test_a_worse_variant_is_not_called_better(show):
    text = show(CONTENT | {"comparisons": [pair("more", "plain", -0.2, 0.001)]}).text
    assert "plain is better" in text
    assert "more is better" not in text


def test_optional_keys_of_the_command(read, show):
    same = pair("more", "randomized", 0.0, 1.0) | {"min_detectable_effect": None}
    content = CONTENT | {
        "planned": ["plain", "real only", "randomized"],
        "not_run": [{"name": "real only", "reason": "no labelled photos"}],
        "notes": ["20 of 50 test images nearly equal an image used for training"],
        "warnings": ["two variants used different data"],
        "equivalents": EQUIVALENTS,
        "comparisons": [same],
    }  # fmt: skip
    names = [variant.name for variant in read(content).variants]
    assert names == ["plain", "real only", "randomized", "more"]
    page = show(content)
    text = page.text
    assert "25: 0.700 (0.650 to 0.750)" in text
    assert text.index("25: 0.700") < text.index("200: 0.800 (0.750 to 0.850)")
    assert re.search(r"randomized\s+0\.700", text)  # the level in the legend
    assert re.search(r"plain\s+0\.300, off scale", text)  # it would press all others together
    assert sum("stroke-dasharray" in path.get("style", "") for path in page.all("path")) == 1
    assert re.search(r"real only\s+no labelled photos\s+not run", text)
    assert "20 of 50 test images nearly equal" in text
    assert "two variants used different data" in text
    assert re.search(r"randomized\s+worth 40 \[25, > 200\] real photos", text)
    assert re.search(r"more − randomized\s+AP50\s+unknown .* identical on every resample", text)


def learning_curve(fit, summary):
    points = [
        {"size": n, "seeds": 3, **scored(1 - 4 * n**-0.6 - 0.1)} for n in (100, 200, 400, 800)
    ]
    return {
        "resource": "renders",
        "metric": "ap50",
        "points": points,
        "fit": fit,
        "summary": summary,
    }


def test_learning_curves_show_fit_limit_and_sentence(show):
    fit = {"law": {"a": 4, "b": 0.6, "c": 0.1}, "determines_floor": True}
    curves = [learning_curve(fit, "Twice the renders: AP50 +0.025.")]
    page = show(CONTENT | {"learning_curves": curves})
    assert "Twice the renders: AP50 +0.025." in page.text
    assert "AP50 over renders" in page.text
    assert re.search(r"limit, 1 − c\s+0\.900", page.text)
    assert "100: 0.648 (0.598 to 0.698)" in page.text
    open_page = show(
        CONTENT | {"learning_curves": [learning_curve(fit | {"determines_floor": False}, "x")]}
    )
    assert "limit" not in open_page.text
    unfitted = show(CONTENT | {"learning_curves": [learning_curve(None, "AP50 is not predicted.")]})
    assert "AP50 is not predicted." in unfitted.text
    assert "Learning curves" not in show(CONTENT).text


def test_a_constant_difference_is_significant(show):
    always = pair("more", "randomized", 1.0, 0.01) | {"min_detectable_effect": None}
    text = show(CONTENT | {"comparisons": [always]}).text
    assert re.search(r"more − randomized\s+AP50\s+unknown .* more is better", text)


def test_equivalents_are_shown_without_the_learning_curve(show):
    page = show(CONTENT | {"equivalents": {"variants": EQUIVALENTS["variants"]}})
    assert re.search(r"randomized\s+worth 40 \[25, > 200\] real photos", page.text)
    assert "Learning curve" not in page.text


def test_nothing_was_run(show):
    text = show({"variants": [], "planned": ["plain"]}).text
    assert re.search(r"plain\s+0\b", text)
    assert re.search(r"Differences\s+not run", text)


def test_everything_is_escaped(show):
    bad = "<script>alert(1)</script>"
    content = {
        "protocol": {bad: bad},
        "variants": [variant(bad, 0.5)],
        "comparisons": [pair(bad, bad, 1, 0)],
        "not_run": [{"name": bad, "reason": bad}],
        "planned": [bad, bad * 2],
        "notes": [bad],
        "warnings": [bad],
        "equivalents": EQUIVALENTS | {"variants": [{"variant": bad, "summary": bad}]},
    }
    assert len(show(content, bad).all("script")) == 1  # the script of the page itself


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"dice\.json: the file: Invalid JSON"),
        ('{"variants": 3}', r"dice\.json: variants: Input should be a valid array"),
        ('{"variants": [{"seeds": []}]}', r"dice\.json: variants\.0\.name: Field required"),
        (
            '{"variants": [{"name": "a", "seeds": [], "ap": 1}]}',
            r"variants\.0\.ap: Input should be",
        ),
    ],
)
def test_a_broken_file_is_named(read, text, message):
    with pytest.raises(InputError, match=message):
        read(text)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"none\.json: cannot be read \(No such file"):
        read_ablation(tmp_path / "none.json")


def test_images_of_the_best_and_worst_variant(read, read_page, tmp_path, label):
    rgb = np.zeros((30, 40, 3), np.uint8)
    pair = tuple(Example("7.jpg", rgb, (label("a"),), detections) for detections in ((), ()))
    examples = ExamplePairs(("more", "plain"), (0.5, 0.5), (pair,))
    page = read_page(
        write_ablation_page(read(CONTENT), tmp_path / "l.html", title="L", examples=examples)
    )
    assert "7.jpg, more: missed (1)" in page.text
    assert "7.jpg, plain: missed (1)" in page.text
