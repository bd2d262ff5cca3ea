"""Check that names and texts use the terms of the field: ``python docs/vocabulary.py``.

The glossary of the documentation gives one term for each concept. Words that it replaced must not
return in identifiers, docstrings, comments, messages, templates and recipes.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
OLD_NAMES = "renamed_keys.py"
STAGES = ("sim2cam", "render", "randomize", "adapt", "models")
FOLDERS = (*STAGES, "benchmarks")

REPLACED = {
    "aids": "auxiliary data",
    "apartness": "two-sample distance",
    "backdrop": "background image",
    "close-up": "RoI crop",
    "collage": "dead-leaves background",
    "contender": "candidate",
    "contestant": "candidate",
    "juror": "verifier",
    "jury": "verifiers",
    "ladder": "ablation study",
    "lesson": "training setup",
    "magnification": "input scale",
    "oddity": "sanity warning",
    "picture": "image",
    "recolour": "instance colour jitter",
    "rung": "variant",
    "self-labelled": "pseudo-labelled",
    "strangeness": "OOD score",
    "symptom": "training diagnostic",
    "tell": "report, print, estimate or predict",
    "told": "reported, estimated or given",
    "untold": "unknown",
    "whoever": "the user",
    "witness": "monitor",
}
"""Word that is not used, with the term that takes its place."""

ALLOWED = {
    "backdrop": "factor group of a domain; its name seeds a random stream",
    "picture": "factor of a domain",
    "picture_m": "factor of a domain",
    "pictures": "table of a recipe",
    "tell": "method of Optuna's studies",
}
"""Identifiers that keep a replaced word, with the reason."""

VARIANT_NAMES = ("+ self-labelled photos",)
"""Texts that enter random streams and file names of results."""


CODE = re.compile(r"``[^`]*``|--[\w-]+|\[[\w.]+\]|'[\w./\[\]]+'|(?m:^ +\w+(?:, \w+)*:)")
"""Code in texts: quoted names, flags, tables of recipes, and names of arguments in docstrings."""


def main() -> int:
    """Print each use of a replaced word; return 1 if there is one."""
    findings = [finding for path in list_files() for finding in check_file(path)]
    for path, line, word in findings:
        print(f"{path.relative_to(ROOT)}:{line}: '{word}'; use {REPLACED[word]}")
    return 1 if findings else 0


def list_files() -> Iterator[Path]:
    """Yield sources, templates and recipes, each once."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            parts = path.relative_to(ROOT).parts
            is_linked = parts[0] == "sim2cam" and parts[1] in STAGES
            if path.suffix in {".py", ".html", ".toml"} and not (
                is_linked or path.name == OLD_NAMES
            ):
                yield path


def check_file(path: Path) -> Iterator[tuple[Path, int, str]]:
    """Yield file, line (from 1) and replaced word of each use."""
    text = path.read_text(encoding="utf-8")
    for line, words in _split_tokens(text) if path.suffix == ".py" else enumerate_lines(text):
        for word in sorted(REPLACED.keys() & words):
            yield path, line, word


def enumerate_lines(text: str) -> Iterator[tuple[int, set[str]]]:
    """Yield the line (from 1) and the words of comments of TOML and of text of HTML, without code."""
    for number, line in enumerate(text.splitlines(), start=1):
        yield (
            number,
            split_words(re.sub(r"`[^`]*`|\{[{%].*?[%}]\}|<[^>]*>|^[^#]*=[^#]*", " ", line)),
        )


def split_words(text: str) -> set[str]:
    """Return the words of prose or of an identifier, lower case, in the singular."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", text)
    words = re.findall(r"[a-z]+(?:-[a-z]+)*", spaced.lower())
    return {*words, *(word.removesuffix("s") for word in words)}


def _split_tokens(text: str) -> Iterator[tuple[int, set[str]]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in {tokenize.NAME, tokenize.COMMENT, tokenize.STRING}:
            continue
        is_key = token.type == tokenize.STRING and " " not in token.string
        if is_key or token.string in ALLOWED or token.string.strip("\"'") in VARIANT_NAMES:
            continue
        for offset, line in enumerate(CODE.sub(" ", token.string).splitlines()):
            yield token.start[0] + offset, split_words(line)


if __name__ == "__main__":
    sys.exit(main())
