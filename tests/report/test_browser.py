"""Pages work in a browser: filters, slider, zoom and keyboard, no errors, no overflow, nothing injected."""

from dataclasses import replace

import numpy as np
import pytest

from sim2cam.metrics.detection import Detection
from sim2cam.report.benchmark import write_bench_page
from sim2cam.report.dataset import write_inspect_page
from sim2cam.report.values import Example, Examples
from tests.support.browser import LAYOUT, dump, requires_chromium, run_script

HOSTILE = (
    "<script>window.injected = 1</script>",
    '"><img src=x onerror="window.injected=1">',
    "${1}`'",
)
pytestmark = requires_chromium


@pytest.fixture
def run():
    return run_script


@pytest.fixture
def bench_page(tmp_path, label, make_bench_report):

    rgb = np.full((300, 400, 3), 128, np.uint8)
    box, far = (50.0, 50.0, 100.0, 100.0), (200.0, 50.0, 250.0, 100.0)
    examples = (
        Example(HOSTILE[0], rgb, (label(HOSTILE[1], box),), (Detection(HOSTILE[1], box, 0.9),)),
        Example(
            HOSTILE[2],
            rgb,
            (label(HOSTILE[1], box), label(HOSTILE[2], far)),
            (Detection(HOSTILE[2], box, 0.7),),
        ),
    )
    report = make_bench_report(HOSTILE[1])
    report = replace(report, examples=Examples((), examples, 0.5))
    return write_bench_page(report, tmp_path / "bench.html")


SHOWN = """
const shown = () => [...document.querySelectorAll("g.object:not(.below-confidence):not(.dimmed)")]
  .filter((box) => !box.closest(".sample").hidden).map((box) => box.dataset.kind).sort().join();
const set = (element, value) => {
  element[element.type === "checkbox" ? "checked" : "value"] = value;
  element.dispatchEvent(new Event("input", {bubbles: true}));
};
const slider = document.getElementById("confidence");
"""


def test_filters_and_slider(bench_page, run):
    script = """
    const values = [shown()];
    set(slider, "0.8"); values.push(shown());
    set(slider, "0.95"); values.push(shown());
    set(slider, "0.5");
    const category = document.getElementById("category");
    category.selectedIndex = 1; set(category, category.value);
    values.push(document.getElementById("count").textContent);
    category.selectedIndex = 0; set(category, "");
    document.querySelector("button[data-show-kind=confusion]").click();
    values.push(shown(), document.getElementById("count").textContent);
    return values;
    """
    assert run(bench_page, SHOWN + script) == [
        "confusion,missed,true positive",
        "missed,missed,true positive",
        "missed,missed,missed",
        "2 of 2 images, 2 boxes",
        "confusion",
        "1 of 2 images, 1 boxes",
    ]


def test_zoom_by_keyboard(bench_page, run):
    script = """
    const dialog = document.getElementById("large"), name = document.getElementById("large-name");
    const press = (key) => dialog.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
    const frames = [...document.querySelectorAll(".sample .frame")];
    frames[0].focus(); frames[0].click();
    const values = [dialog.open, name.textContent];
    press("ArrowRight"); values.push(name.textContent);
    press("ArrowRight"); values.push(name.textContent);
    press("ArrowLeft"); values.push(name.textContent);
    values.push(dialog.querySelectorAll(".frame .tag").length);
    dialog.close(); values.push(dialog.open);
    return values;
    """
    assert run(bench_page, script) == [
        True, HOSTILE[0], HOSTILE[2], HOSTILE[2], HOSTILE[0], 2, False,
    ]  # fmt: skip


@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_nothing_overflows_is_tiny_or_injected(bench_page, run, width):
    layout = run(bench_page, LAYOUT, width)
    assert (layout["small"], layout["injected"], layout["images"]) == (0, 0, 2)
    assert layout["overflow"] <= 0


def test_filters_of_a_dataset(make_dataset, label, tmp_path, run):
    dataset = make_dataset(
        [(label("a", visible_fraction=0.3),), (label("b", visible_fraction=1.0),), ()]
    )
    page = write_inspect_page(dataset, tmp_path / "p.html", limit=None)
    script = """
    const count = () => document.getElementById("count").textContent;
    const set = (id, value) => {
      document.getElementById(id).value = value;
      document.getElementById(id).dispatchEvent(new Event("input", {bubbles: true}));
    };
    const values = [count()];
    set("category", "b"); values.push(count()); set("category", "");
    set("visible-from", "0.5"); values.push(count()); set("visible-from", "");
    set("objects-to", "0"); values.push(count());
    return values;
    """
    assert run(page, script) == [
        "3 of 3 samples, 2 objects",
        "1 of 3 samples, 1 objects",
        "1 of 3 samples, 1 objects",
        "1 of 3 samples, 0 objects",
    ]


def test_the_policy_admits_the_script_of_the_page_only(bench_page, tmp_path):
    source = bench_page.read_text(encoding="utf-8")
    injected = "<script>document.title = 'injected'</script></main>"
    probe = tmp_path / "probe.html"
    probe.write_text(source.replace("</main>", injected, 1), encoding="utf-8")
    dom = dump(probe)
    assert "<title>injected" not in dom
    assert "2 of 2 images" in dom
