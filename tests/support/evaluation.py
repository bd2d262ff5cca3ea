"""Commands and what they print, exact error messages, and copies of labelled images."""

import json
from contextlib import contextmanager

import pytest

from sim2cam.cli import main
from sim2cam.metrics.detection import Detection


class Cli:
    """Runs commands and returns what they print."""

    def __init__(self, capsys):
        self._capsys = capsys

    def __call__(self, *arguments, code=0):
        self._capsys.readouterr()
        assert main([*map(str, arguments)]) == code
        return self._capsys.readouterr()

    def json(self, *arguments):
        return json.loads(self(*arguments, "--json").out)


@contextmanager
def refused(error, message):
    """Check that an error is raised with exactly this message."""
    with pytest.raises(error) as caught:
        yield
    assert str(caught.value) == message


def detect_labels(dataset):
    """Return detections that equal the labels, with a score of 0.9."""
    return {
        s.name: tuple(Detection(o.category, o.box_xyxy, 0.9) for o in s.objects)
        for s in dataset.samples
    }


def link_images(source, target):
    """Link the images beside a COCO file, or in a folder, into another folder; return it."""
    target.mkdir(exist_ok=True)
    for path in (source.parent if source.is_file() else source).iterdir():
        if path.suffix != ".json":
            (target / path.name).symlink_to(path.resolve())
    return target
