import hashlib

import pytest

from sim2cam.data.public import download as module
from sim2cam.data.public.download import Source, download
from sim2cam.errors import InputError, OutputError

DATA = bytes(range(256)) * 400
DIGEST = hashlib.sha256(DATA).hexdigest()
AGAIN = "Run the same command again to resume."


@pytest.fixture
def source(server):
    server.files["/a.zip"] = DATA
    return Source(f"{server.url}/a.zip", 10 * len(DATA))


def refused(source, path):
    with pytest.raises(InputError) as caught:
        download(source, path)
    return str(caught.value).removeprefix(f"{source.url}: ")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_that_cannot_be_made_is_named(source, tmp_path):
    (tmp_path / "in").write_text("a file")
    with pytest.raises(OutputError, match=r"in/a\.zip: cannot be written"):
        download(source, tmp_path / "in/a.zip")


def test_a_file_is_there_once_and_whole(server, source, tmp_path):
    told = []
    path = tmp_path / "in/a.zip"
    assert download(source, path, lambda done, total: told.append((done, total))) == DIGEST
    assert path.read_bytes() == DATA
    assert names(path.parent) == ["a.zip"]
    assert told[-1] == (len(DATA), len(DATA))
    assert download(source, path) == DIGEST
    assert len(server.asked) == 1


def test_without_a_size_the_end_is_the_end(server, source, tmp_path):
    server.moods = ["of unknown size"]
    assert download(source, tmp_path / "a.zip") == DIGEST


def test_what_broke_off_is_gone_on_with(server, source, tmp_path):
    path, half = tmp_path / "a.zip", len(DATA) // 2
    server.moods = ["truncated"]
    assert refused(source, path) == f"stopped after {half} of {len(DATA)} bytes. {AGAIN}"
    assert names(tmp_path) == ["a.zip.part", "a.zip.part.tag"]
    assert download(source, path) == DIGEST
    assert server.asked[-1] == ("/a.zip", f"bytes={half}-")
    assert names(tmp_path) == ["a.zip"]


def test_a_file_that_changed_meanwhile_begins_anew(server, source, tmp_path):
    server.moods = ["truncated"]
    refused(source, tmp_path / "a.zip")
    server.files["/a.zip"], server.etag = DATA[::-1], '"two"'
    assert download(source, tmp_path / "a.zip") == hashlib.sha256(DATA[::-1]).hexdigest()


def test_a_weak_tag_promises_nothing(server, source, tmp_path):
    server.etag = 'W/"one"'
    server.moods = ["truncated"]
    refused(source, tmp_path / "a.zip")
    assert download(source, tmp_path / "a.zip") == DIGEST
    assert server.asked[-1] == ("/a.zip", None)


def test_a_part_that_is_all_there_begins_anew(server, source, tmp_path):
    (tmp_path / "a.zip.part").write_bytes(DATA)
    (tmp_path / "a.zip.part.tag").write_text(server.etag)
    assert download(source, tmp_path / "a.zip") == DIGEST


def test_a_stalled_server_is_given_up(server, source, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "STALL_S", 0.2)
    server.moods = ["slow"]
    assert refused(source, tmp_path / "a.zip") == f"sent nothing for 0.2 s. {AGAIN}"
    assert download(source, tmp_path / "a.zip") == DIGEST


def test_a_server_that_sends_a_byte_now_and_then_is_given_up(server, source, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "RATE_WINDOW_S", 0.2)
    server.moods = ["dripping"]
    assert refused(source, tmp_path / "a.zip") == (
        f"sent less than 1000 bytes a second for 0.2 s. {AGAIN}"
    )
    assert download(source, tmp_path / "a.zip") == DIGEST


@pytest.mark.parametrize("size", [len(DATA) - 1, len(DATA) + 1])
def test_a_known_size_is_held_to(source, tmp_path, size):
    known = Source(source.url, source.max_bytes, size=size)
    assert refused(known, tmp_path / "a.zip") == (
        f"has {len(DATA)} bytes, not {size}. It is damaged or has changed. Fetch it again."
    )
    assert names(tmp_path) == []
    assert download(Source(source.url, 10**6, size=len(DATA)), tmp_path / "a.zip") == DIGEST


def test_a_known_digest_is_held_to(server, source, tmp_path):
    known = Source(source.url, source.max_bytes, DIGEST)
    assert download(known, tmp_path / "a.zip") == DIGEST
    server.moods = ["corrupt"]
    other = hashlib.sha256(bytes(len(DATA))).hexdigest()
    assert refused(known, tmp_path / "b.zip") == (
        f"has the SHA-256 {other}, not {DIGEST}. It is damaged or has changed. Fetch it again."
    )
    assert names(tmp_path) == ["a.zip"]


@pytest.mark.parametrize("mood", ["good", "of unknown size"])
def test_what_is_too_large_is_refused_and_removed(server, source, tmp_path, mood):
    server.moods = [mood]
    assert refused(Source(source.url, 1000), tmp_path / "a.zip") == (
        "is larger than 1000 bytes, so it has changed."
    )
    assert [n for n in names(tmp_path) if not n.endswith(".tag")] == []


def test_a_redirect_of_one_kind_is_followed(server, source, tmp_path):
    server.moods = [f"redirect {source.url}?again"]
    server.files["/a.zip?again"] = DATA
    assert download(source, tmp_path / "a.zip") == DIGEST


@pytest.mark.parametrize(
    "elsewhere", ["https://127.0.0.1:9/a.zip", "file:///etc/passwd", "ftp://127.0.0.1:9/a", "round"]
)
def test_a_redirect_of_another_kind_or_in_circles_is_not(server, source, tmp_path, elsewhere):
    elsewhere = source.url if elsewhere == "round" else elsewhere
    server.moods = [f"redirect {elsewhere}"] * 20
    assert refused(source, tmp_path / "a.zip") == (
        "redirects in a cycle or to a scheme other than http, which is not followed."
    )
    assert names(tmp_path) == []


def test_what_is_not_there_is_said(server, source, tmp_path):
    server.moods = ["missing"]
    said = refused(source, tmp_path / "a.zip")
    assert said == "the server returned 404 (Not Found). Try again later."


def test_a_server_that_is_not_there_is_said(tmp_path):
    said = refused(Source("http://127.0.0.1:9/a.zip", 10), tmp_path / "a.zip")
    assert said.startswith("cannot be reached (")
    assert said.endswith(AGAIN)
