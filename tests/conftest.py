"""What all tests share."""

from __future__ import annotations

import errno
import json
import os
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("sim2cam", deadline=None, derandomize=True)
settings.load_profile("sim2cam")


def pytest_addoption(parser):
    parser.addoption(
        "--renew-golden", action="store_true", help="store today's pictures as the golden ones"
    )


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory):
    """Tests neither fill nor use the cache of whoever runs them."""
    os.environ["SIM2CAM_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session", autouse=True)
def _no_wait_for_the_disk():
    """Skip flushing to disk, which is slow; ``test_files.py`` checks the calls."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(os, "fsync", lambda _handle: None)
        yield


@pytest.fixture(scope="session")
def opengl():
    """Skips tests of what pybullet's TinyRenderer does not draw, where it is all there is."""
    from sim2cam.render.renderer import get_renderer

    if get_renderer().name.startswith("tiny"):
        pytest.skip("no OpenGL here")


@pytest.fixture(scope="session")
def bare_weights(tmp_path_factory):
    """The weights that ship, without what their card knows of when to trust them, and without the RoI
    classifier, which takes most of the time: a file.
    """
    from sim2cam.models.inference.detector import SHIPPED_WEIGHTS, load_detector, save_detector

    shipped = load_detector(SHIPPED_WEIGHTS / "dice.safetensors")
    path = tmp_path_factory.mktemp("bare") / "dice.safetensors"
    card = replace(
        shipped.card,
        score_calibration=None,
        ood_threshold=None,
        box_size_range_px=None,
        training_domain=None,
        roi_classifier=False,
        config=shipped.card.config | {"roi_classifier": False},
    )
    shipped.network.roi_network = None
    save_detector(path, shipped.network.state_dict(), card)
    return path


@pytest.fixture(scope="session")
def write_parts():
    """Writes parts of a COCO file's tables into a folder: by their names, the first image and the one past the last."""

    def write(tables, folder, parts):
        for name, (first, past) in parts.items():
            shown = tables["images"][first:past]
            ids = {image["id"] for image in shown}
            labels = [one for one in tables["annotations"] if one["image_id"] in ids]
            part = tables | {"images": shown, "annotations": labels}
            (folder / f"{name}.json").write_text(json.dumps(part))

    return write


@pytest.fixture
def full_record():
    """A context in which the disk is full halfway through whatever is appended to a file."""

    class FullFile:
        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def write(self, text):
            self.file.write(text[: len(text) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    @contextmanager
    def full():
        whole = Path.open

        def opened(path, mode="r", **choice):
            file = whole(path, mode, **choice)
            return FullFile(file) if mode == "a" else file

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Path, "open", opened)
            yield

    return full
