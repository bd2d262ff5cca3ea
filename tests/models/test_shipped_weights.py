"""Weights that the wheel lacks are downloaded, verified and cached."""

import hashlib
import json

import pytest

from sim2cam.errors import BackendError
from sim2cam.learn.weight_file import get_card_path
from sim2cam.models import shipped_weights
from sim2cam.models.inference.detector import SHIPPED_WEIGHTS, load_detector
from sim2cam.models.shipped_weights import list_shipped_weights, locate_shipped_weights


@pytest.fixture
def remote(tmp_path, monkeypatch):
    """Serve weights to a package that lacks them; return the file on the server."""
    package, server = tmp_path / "package", tmp_path / "server"
    package.mkdir()
    server.mkdir()
    source = SHIPPED_WEIGHTS / "dice-verifier.safetensors"
    data = source.read_bytes()
    (server / "small.safetensors").write_bytes(data)
    (package / "small.json").write_bytes(get_card_path(source).read_bytes())
    monkeypatch.setenv("SIM2CAM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(shipped_weights, "SHIPPED_WEIGHTS", package)
    monkeypatch.setattr(
        shipped_weights, "_DOWNLOADS", {"small": (len(data), hashlib.sha256(data).hexdigest())}
    )
    monkeypatch.setattr(shipped_weights, "_make_url", lambda name: (server / name).as_uri())
    return server / "small.safetensors"


def test_missing_weights_are_downloaded_once_and_load(remote):
    assert list_shipped_weights() == ["small"]
    path = locate_shipped_weights("small")
    assert path.read_bytes() == remote.read_bytes()
    assert load_detector(path).card.categories == tuple("123456")
    remote.unlink()
    assert locate_shipped_weights("small") == path


def test_changed_weights_are_refused(remote):
    data = remote.read_bytes()
    remote.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(BackendError, match=r"'small' .* has the SHA-256"):
        locate_shipped_weights("small")


def test_offline_error_says_what_to_do(remote, tmp_path):
    remote.unlink()
    with pytest.raises(BackendError) as caught:
        locate_shipped_weights("small")
    folder = next((tmp_path / "cache/weights").iterdir())
    text = str(caught.value)
    assert text.startswith(
        "the weights 'small' (0.9 MB) are not part of the package and cannot be "
    )
    assert "cannot be reached" in text
    assert text.endswith(f"copy the file from another computer to {folder / 'small.safetensors'}.")


def test_recorded_digests_are_those_of_the_repository():
    for name, (size, sha256) in shipped_weights._DOWNLOADS.items():
        data = (SHIPPED_WEIGHTS / f"{name}.safetensors").read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (size, sha256)
        assert json.loads((SHIPPED_WEIGHTS / f"{name}.json").read_text())["categories"]
