"""Form of the pages in docs/results, docs/decisions and docs/models."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
FOLDERS = ("results", "decisions", "models")
PARTS = ("Decision", "Why", "Figure", "Would change it")
MAX_DECISIONS, MAX_WORDS = 25, 250


def list_pages(folder):
    return sorted(path for path in (DOCS / folder).glob("*.md") if path.name != "index.md")


def read_text(path):
    """Return a page without its comments, which are not shown."""
    return re.sub(r"<!--.*?-->", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_index_lists_every_page(folder):
    links = re.findall(r"\]\(([\w-]+\.md)\)", read_text(DOCS / folder / "index.md"))
    assert sorted(links) == [path.name for path in list_pages(folder)]


def test_relative_links_lead_to_files():
    """Links to generated pages lead to their sources, which docs/hooks.py replaces on the site."""
    broken = [
        f"{path.relative_to(DOCS)}: {target}"
        for path in DOCS.rglob("*.md")
        for target in re.findall(r"\]\((?!https?:)([^)#\s]+)", read_text(path))
        if not (path.parent / target).exists()
    ]
    assert broken == []


def test_decisions_are_few_numbered_and_short():
    pages = list_pages("decisions")
    numbers = [int(path.name[:4]) for path in pages]
    assert numbers == list(range(1, len(pages) + 1))
    assert len(pages) <= MAX_DECISIONS
    for number, path in zip(numbers, pages, strict=True):
        text = read_text(path)
        assert text.startswith(f"# {number}. "), path.name
        assert tuple(re.findall(r"^\*\*([\w ]+)\.\*\*", text, re.MULTILINE)) == PARTS, path.name
        assert len(text.split()) <= MAX_WORDS, path.name


@pytest.mark.parametrize("path", list_pages("results"), ids=lambda path: path.stem)
def test_a_result_has_a_table_a_command_and_limits(path):
    content = path.read_text(encoding="utf-8")
    assert "-results:begin -->" in content
    assert "```sh\n" in content
    assert "**Limits.**" in content
