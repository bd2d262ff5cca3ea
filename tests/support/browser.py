"""Pages in headless Chromium."""

import base64
import json
import re
import shutil
import subprocess
from urllib.parse import unquote

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
requires_chromium = pytest.mark.skipif(CHROMIUM is None, reason="requires Chromium")

HOSTILE_NAME = (
    '<script>window.injected = 1</script>"><img src=x onerror="window.injected=1">' + 90 * "x"
)

LAYOUT = """
const small = [...document.querySelectorAll(".chart text, .tag")].filter((text) => {
  const scale = text.closest("svg") ? text.closest("svg").getBoundingClientRect().width
    / text.closest("svg").viewBox.baseVal.width : 1;
  return text.textContent.trim() && scale * parseFloat(getComputedStyle(text).fontSize) < 11;
});
const cut = [...document.querySelectorAll("main *, header *")].filter((element) =>
  !element.closest("svg, thead") && element.getBoundingClientRect().right > innerWidth + 0.5);
return {small: small.length, cut: cut.length, injected: window.injected ?? 0,
  images: document.querySelectorAll("main img").length,
  overflow: document.documentElement.scrollWidth - innerWidth};
"""
"""Script that returns layout faults of a page."""

_PROBE = """
const errors = [];
addEventListener("error", (event) => errors.push(String(event.message)));
addEventListener("securitypolicyviolation", (event) => errors.push(event.violatedDirective));
"""
_FRAME = """<!doctype html><title>none</title>
<script>addEventListener("message", (event) => { document.title = btoa(event.data); });</script>
<iframe width="%d" height="900" src="inner.html"></iframe>"""


def check_layout(page, width):
    """Assert that nothing on a page is cut off, too small or injected at a width in pixels."""
    layout = run_script(page, LAYOUT, width)
    assert (layout["small"], layout["cut"], layout["injected"]) == (0, 0, 0)
    assert layout["overflow"] <= 0


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


def run_script(page, script, width=1280):
    """Run a script on a page in a frame, which may be narrower than a window, and return its result."""
    source = page.read_text(encoding="utf-8")
    source = re.sub(r"<meta http-equiv[^>]*>", "", source, count=1)
    source = source.replace("<style>", f"<script>{_PROBE}</script><style>", 1)
    result = f"JSON.stringify({{errors, value: (() => {{ {script} }})()}})"
    escaped = f"encodeURIComponent({result})"
    source += f'<script>setTimeout(() => parent.postMessage({escaped}, "*"), 100);</script>'
    page.with_name("inner.html").write_text(source, encoding="utf-8")
    outer = page.with_name("outer.html")
    outer.write_text(_FRAME % width)
    (title,) = re.findall("<title>(.*?)</title>", dump(outer, "--virtual-time-budget=2000"))
    outcome = json.loads(unquote(base64.b64decode(title).decode()))
    assert outcome["errors"] == []
    return outcome["value"]
