"""Pages work in a browser: filters, slider, zoom and keyboard, no errors, no overflow, nothing injected."""

import base64
import json
import re
import shutil
import subprocess
from dataclasses import replace
from urllib.parse import unquote

import numpy as np
import pytest

from sim2cam.metrics.detection import Detection
from sim2cam.report.benchmark import write_bench_page
from sim2cam.report.dataset import write_inspect_page
from sim2cam.report.values import Example, Examples

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
HOSTILE = (
    "<script>window.injected = 1</script>",
    '"><img src=x onerror="window.injected=1">',
    "${1}`'",
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="requires Chromium")

PROBE = """
const errors = [];
addEventListener("error", (event) => errors.push(String(event.message)));
addEventListener("securitypolicyviolation", (event) => errors.push(event.violatedDirective));
"""
FRAME = """<!doctype html><title>none</title>
<script>addEventListener("message", (event) => { document.title = btoa(event.data); });</script>
<iframe width="%d" height="900" src="inner.html"></iframe>"""


def dump(page, *options):
    """Return the document as HTML after its scripts ran."""
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={page.parent}/chrome",
    ]
    command += [*options, "--dump-dom", f"file://{page}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.fixture
def run(tmp_path):
    """Returns a function that runs a script on a page in a frame and returns its result."""

    def run(page, script, width=1280):
        source = page.read_text(encoding="utf-8")
        source = re.sub(r"<meta http-equiv[^>]*>", "", source, count=1)
        source = source.replace("<style>", f"<script>{PROBE}</script><style>", 1)
        result = f"JSON.stringify({{errors, value: (() => {{ {script} }})()}})"
        escaped = f"encodeURIComponent({result})"
        source += f'<script>setTimeout(() => parent.postMessage({escaped}, "*"), 100);</script>'
        page.with_name("inner.html").write_text(source, encoding="utf-8")
        outer = page.with_name("outer.html")
        outer.write_text(FRAME % width)
        (title,) = re.findall("<title>(.*?)</title>", dump(outer, "--virtual-time-budget=2000"))
        outcome = json.loads(unquote(base64.b64decode(title).decode()))
        assert outcome["errors"] == []
        return outcome["value"]

    return run


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
    script = """
    const small = [...document.querySelectorAll(".chart text, .tag")].filter((text) => {
      const scale = text.closest("svg") ? text.closest("svg").getBoundingClientRect().width
        / text.closest("svg").viewBox.baseVal.width : 1;
      return text.textContent.trim() && scale * parseFloat(getComputedStyle(text).fontSize) < 11;
    });
    return [small.length, window.injected ?? 0, document.querySelectorAll("main img").length,
      document.documentElement.scrollWidth - innerWidth];
    """
    small, injected, images, overflow = run(bench_page, script, width)
    assert (small, injected, images) == (0, 0, 2)
    assert overflow <= 0


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
