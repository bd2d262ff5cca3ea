"""Commands that print JSON, exact error messages, and copies of labelled images."""

import json
from contextlib import contextmanager

import pytest

from sim2cam.cli import main


def run_json(capsys, *arguments):
    """Run a command with --json and return what it prints."""
    capsys.readouterr()
    assert main([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@contextmanager
def refused(error, message):
    """Check that an error is raised with exactly this message."""
    with pytest.raises(error) as caught:
        yield
    assert str(caught.value) == message


def link_images(source, target):
    """Link the images beside a COCO file, or in a folder, into another folder; return it."""
    target.mkdir(exist_ok=True)
    for path in (source.parent if source.is_file() else source).iterdir():
        if path.suffix != ".json":
            (target / path.name).symlink_to(path.resolve())
    return target
