"""The built site: nothing is loaded from the network, notebooks become pages."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("mkdocs")  # of the extra `docs`
from mkdocs.exceptions import PluginError

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def hooks():
    sys.path.insert(0, str(DOCS))
    try:
        import hooks
    finally:
        sys.path.remove(str(DOCS))
    return hooks


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("page.html", '<script src="https://unpkg.com/mermaid.js"></script>'),
        ("page.html", '<link rel="stylesheet" href="//fonts.googleapis.com/css">'),
        ("page.html", "<img alt='' src=http://example.org/a.png>"),
        ("style.css", "a { background: url(https://example.org/a.png) }"),
    ],
)
def test_pages_that_load_from_the_network_fail_the_build(hooks, tmp_path, file, text):
    (tmp_path / file).write_text(text)
    with pytest.raises(PluginError, match=file):
        hooks.on_post_build(SimpleNamespace(site_dir=str(tmp_path)))


def test_external_links_are_listed(hooks, tmp_path):
    (tmp_path / "page.html").write_text(
        '<a href="https://semver.org">Versions</a> <img src="a.png">'
    )
    hooks.on_post_build(SimpleNamespace(site_dir=str(tmp_path)))
    assert (tmp_path / "external-links.txt").read_text() == "https://semver.org\n"


def test_every_notebook_is_in_the_navigation(hooks):
    navigation = (DOCS.parent / "mkdocs.yml").read_text()
    names = [path.stem for path in hooks.NOTEBOOKS.glob("*.ipynb")]
    assert [name for name in names if f"tutorials/{name}.md" not in navigation] == []


def test_a_notebook_becomes_a_page_with_its_images(hooks):
    files = hooks._convert_notebook(hooks.NOTEBOOKS / "first_dataset.ipynb")
    page = files.pop("first_dataset.md")
    assert "```python" in page
    assert files
    assert all(name in page for name in files)


def test_intervals_stay_on_one_line(hooks):
    assert hooks.on_page_content("0.4 (0.402–0.492), x") == (
        '0.4 <span class="interval">(0.402–0.492)</span>, x'
    )


def test_every_tutorial_has_one_title(hooks):
    for path in sorted(hooks.NOTEBOOKS.glob("*.ipynb")):
        lines = hooks._convert_notebook(path)[f"{path.stem}.md"].splitlines()
        titles = [line for line in lines if line.startswith("# ")]
        assert lines[0].startswith("# "), path.name
        assert not lines[0].startswith("# #"), f"{path.name}: {titles[0]}"


def test_links_to_sources_lead_to_the_generated_pages(hooks):
    page = SimpleNamespace(file=SimpleNamespace(src_uri="guides/depth.md"))
    text = (
        "[f](../../randomize/factors.py#depth_camera), [t](../../notebooks/poses.ipynb), "
        "[g](../gallery/), [other](training.md#a), [web](https://semver.org)"
    )
    assert hooks.on_page_markdown(text, page) == (
        "[f](../reference/factors.md#depth_camera), [t](../tutorials/poses.md), "
        "[g](../gallery/index.md), [other](training.md#a), [web](https://semver.org)"
    )
    for source, target in hooks.GENERATED_PAGES.items():
        assert (hooks.ROOT / source).exists()
        assert not (hooks.DOCS / target).exists()
