"""What the children that read files of assets open."""

import os
import sys
import tempfile
from pathlib import Path

import pytest
from render_fixtures import drawing, egl, make, pathtraced, tiny  # noqa: F401

HOOK = """
import os, sys
LOG = os.open(os.environ["OPENED_FILES"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)

def note(event, given):
    if event == "open" and isinstance(given[0], (str, bytes)):
        try:
            os.write(LOG, os.fsencode(os.path.realpath(given[0])) + b"\\n")
        except ValueError:  # no name of a file
            pass

sys.addaudithook(note)
"""
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def opened_beyond(tmp_path, monkeypatch):
    """A function from a folder to the files outside of it that children opened: neither Python's nor
    the cache's, nor of temporary folders of their own. Links are followed.
    """
    (tmp_path / "sitecustomize.py").write_text(HOOK)
    log = tmp_path / "opened.txt"
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("OPENED_FILES", str(log))
    own = (sys.prefix, sys.base_prefix, REPOSITORY, os.environ["SIM2CAM_CACHE"])
    roots = [Path(place).resolve() for place in (*own, "/proc", "/sys", "/dev/null")]

    def beyond(folder):
        found = {Path(os.fsdecode(line)) for line in log.read_bytes().splitlines()}
        assert any(path.is_relative_to(folder) for path in found)
        inner = [*roots, folder.resolve()]
        outside = {p for p in found if not any(p.is_relative_to(root) for root in inner)}
        temporary = Path(tempfile.gettempdir()).resolve()
        return {p for p in outside if temporary not in (p.parent, p.parent.parent)}

    return beyond
