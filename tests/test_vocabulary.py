"""The vocabulary check finds replaced words, and leaves keys and code alone."""

import runpy
from pathlib import Path

import pytest

vocabulary = runpy.run_path(str(Path(__file__).parents[1] / "docs" / "vocabulary.py"))


@pytest.mark.parametrize(
    ("suffix", "text", "words"),
    [
        (".py", '"""Return what was told."""', ["told"]),
        (".py", "x = 1  # a picture of it", ["picture"]),
        (".py", "def draw_backdrops(): ...", ["backdrop"]),
        (".py", "class JuryOfDetectors: ...", ["jury"]),
        (".py", 'raise ValueError("a close-up is missing")', ["close-up"]),
        (".py", 'stream(seed, "ladder/randomized"); table["picture"]; recipe.pictures', []),
        (".py", '"""Return ``Picture``; see --pictures and [pictures]."""', []),
        (".toml", "a = 1  # tells apart\nmagnification = 2", ["tell"]),
        (".toml", "# the ladder\na = 1", ["ladder"]),
        (".html", "<p>Two pictures</p>{{ picture }}", ["picture"]),
    ],
)
def test_replaced_words_are_found(tmp_path, suffix, text, words):
    path = tmp_path / f"file{suffix}"
    path.write_text(text)
    assert [word for _, _, word in vocabulary["check_file"](path)] == words


def test_every_source_is_listed_once():
    paths = list(vocabulary["list_files"]())
    assert len(paths) == len({path.resolve() for path in paths}) > 500
