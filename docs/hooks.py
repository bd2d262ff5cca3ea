"""Hooks of the documentation site: generated pages, navigation by pattern, and a check of the built pages."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from nbconvert import MarkdownExporter

sys.path.insert(0, str(Path(__file__).parent))  # for the modules beside this file
import gallery
import reference

DOCS = Path(__file__).parent
ROOT = DOCS.parent
NOTEBOOKS = ROOT / "notebooks"
TUTORIALS = "tutorials"
TITLES = {"lmo": "LM-O", "lmo-ground-truth": "LM-O ground truth"}
"""Titles in the navigation of pages whose file name is not one."""

GENERATED_PAGES = {
    "sim2cam/cli.py": "reference/cli.md",
    "sim2cam/pipeline/recipe.py": "reference/recipe.md",
    "randomize/factors.py": "reference/factors.md",
    "sim2cam/__init__.py": "reference/python.md",
    "sim2cam/commands/__init__.py": "reference/commands.md",
    "sim2cam/data/channels.py": "reference/channels.md",
    "sim2cam/errors.py": "reference/errors.md",
    "docs/gallery": "gallery/index.md",
} | {f"notebooks/{n.name}": f"{TUTORIALS}/{n.stem}.md" for n in NOTEBOOKS.glob("*.ipynb")}
"""Generated pages by the source that the repository holds. Links lead to the source, so that they work on GitHub."""

_LINK = re.compile(r"\]\(([^():#\s]+)(#[^)\s]*)?\)")
_LOADED = re.compile(
    r"<(?:script|img|iframe|source|video)\b[^>]*?\bsrc=[\"']?(https?:)?//"
    r"|<link\b(?![^>]*\brel=[\"']?(?:canonical|alternate))[^>]*?\bhref=[\"']?(https?:)?//",
    re.IGNORECASE,
)
_LOADED_BY_CSS = re.compile(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", re.IGNORECASE)
_EXTERNAL_LINK = re.compile(r"<a\b[^>]*?\bhref=[\"']?(https?://[^\"' >]+)", re.IGNORECASE)
_INTERVAL = re.compile(r"\(-?[\d.,]+(?:–| to )-?[\d.,]+\)")
_log = logging.getLogger("mkdocs.hooks.sim2cam")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Expand the patterns of the navigation, and leave out tutorials without a notebook."""
    config.nav = _expand(config.nav)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    pages = {f"reference/{name}": text for name, text in reference.build_pages().items()}
    pages["gallery/index.md"] = gallery.build_page()
    pages["changelog.md"] = (ROOT / "CHANGELOG.md").read_text().replace("](docs/", "](")
    for notebook in sorted(NOTEBOOKS.glob("*.ipynb")):
        for name, content in _convert_notebook(notebook).items():
            files.append(File.generated(config, f"{TUTORIALS}/{name}", content=content))
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Lead links to the source of a generated page to the page."""
    folder = (DOCS / page.file.src_uri).parent

    def replace_target(link: re.Match[str]) -> str:
        source = os.path.relpath((folder / link[1]).resolve(), ROOT)
        if source not in GENERATED_PAGES:
            return link[0]
        target = os.path.relpath(DOCS / GENERATED_PAGES[source], folder)
        return f"]({target}{link[2] or ''})"

    return _LINK.sub(replace_target, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Keep intervals such as ``(0.402–0.492)`` on one line."""
    return _INTERVAL.sub(r'<span class="interval">\g<0></span>', html)


def on_post_build(config: MkDocsConfig) -> None:
    """Fail if a page loads something from the network, and list external links.

    Raises:
        PluginError: With the pages.
    """
    site = Path(config.site_dir)
    loading, links = [], set()
    for page in sorted(site.rglob("*.html")):
        text = page.read_text()
        links |= set(_EXTERNAL_LINK.findall(text))
        if _LOADED.search(text):
            loading.append(page)
    loading += [s for s in sorted(site.rglob("*.css")) if _LOADED_BY_CSS.search(s.read_text())]
    if loading:
        names = ", ".join(str(path.relative_to(site)) for path in loading)
        raise PluginError(f"pages must load nothing from the network, but do: {names}")
    (site / "external-links.txt").write_text("".join(f"{link}\n" for link in sorted(links)))
    _log.info("%d external links are listed in external-links.txt", len(links))


def _expand(entries: list[Any]) -> list[Any]:
    """Return navigation entries with files instead of patterns, without missing tutorials."""
    expanded: list[Any] = []
    for entry in entries:
        if isinstance(entry, str) and "*" in entry:
            expanded += _list_pages(entry)
        elif isinstance(entry, dict):
            expanded.append({t: _expand(e) if isinstance(e, list) else e for t, e in entry.items()})
        elif not _is_missing_tutorial(entry):
            expanded.append(entry)
    return expanded


def _list_pages(pattern: str) -> Iterator[Any]:
    paths = sorted(DOCS.glob(f"{pattern}.md"), key=lambda path: (path.stem != "index", path.stem))
    for path in paths:
        page = path.relative_to(DOCS).as_posix()
        name = re.sub(r"^\d+-", "", path.stem).replace("-", " ")
        yield page if path.stem == "index" else {TITLES.get(path.stem, name.capitalize()): page}


def _is_missing_tutorial(page: str) -> bool:
    folder, _, name = page.partition("/")
    notebook = NOTEBOOKS / name.replace(".md", ".ipynb")
    return folder == TUTORIALS and not (notebook.is_file() or (DOCS / page).is_file())


def _convert_notebook(path: Path) -> dict[str, str | bytes]:
    """Return the page of a notebook and its images, by file name."""
    notebook = nbformat.read(path, as_version=4)
    notebook.metadata["language_info"] = {"name": "python"}
    resources = {"output_files_dir": f"{path.stem}_files", "unique_key": path.stem}
    body, resources = MarkdownExporter().from_notebook_node(notebook, resources=resources)
    source = f"\n\nThis page is the notebook `notebooks/{path.name}` with its stored outputs.\n"
    return {f"{path.stem}.md": body.strip() + source, **resources["outputs"]}
