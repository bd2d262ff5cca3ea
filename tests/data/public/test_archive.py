import stat
import zipfile

import pytest

from sim2cam.data.public import archive as module
from sim2cam.data.public.archive import unpack
from sim2cam.errors import InputError


def packed(path, *entries, mode=None):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries:
            info = zipfile.ZipInfo(name)
            if mode is not None:
                info.external_attr = mode << 16
            archive.writestr(info, data, zipfile.ZIP_DEFLATED)
    return path


def refused(archive, folder):
    with pytest.raises(InputError) as caught:
        unpack(archive, folder)
    return str(caught.value).removeprefix(f"{archive}: ")


def test_files_come_out_as_they_went_in(tmp_path):
    archive = packed(tmp_path / "a.zip", ("in/", b""), ("in/a.txt", b"a" * 5000), ("b.bin", b"\0"))
    unpack(archive, tmp_path / "out")
    assert (tmp_path / "out/in/a.txt").read_bytes() == b"a" * 5000
    assert (tmp_path / "out/b.bin").read_bytes() == b"\0"


@pytest.mark.parametrize(
    "name", ["../a", "in/../../a", "/etc/a", "in\\..\\a", "C:/a", "c:a", "\\\\host\\a"]
)
def test_names_that_lead_elsewhere_are_refused_before_anything_is_written(tmp_path, name):
    archive = packed(tmp_path / "a.zip", ("fine.txt", b""), (name, b"!"))
    assert refused(archive, tmp_path / "out") == f"holds '{name}', which is outside its folder."
    assert not (tmp_path / "out").exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.zip"]


@pytest.mark.parametrize("mode", [stat.S_IFLNK | 0o777, stat.S_IFIFO | 0o644, stat.S_IFCHR | 0o644])
def test_links_and_devices_are_refused(tmp_path, mode):
    archive = packed(tmp_path / "a.zip", ("a", b"/etc/passwd"), mode=mode)
    said = refused(archive, tmp_path / "out")
    assert said == "holds 'a', which is a link or device."


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("other", ["a", "A"])
def test_a_name_twice_is_refused(tmp_path, other):
    archive = packed(tmp_path / "a.zip", ("a", b"1"), (other, b"2"))
    assert refused(archive, tmp_path / "out") == f"holds '{other}' twice."


def test_what_grows_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_BYTES", 1000)
    monkeypatch.setattr(module, "MAX_FILES", 3)
    large = packed(tmp_path / "a.zip", ("a", b"\0" * 600), ("b", b"\0" * 600))
    assert refused(large, tmp_path / "out") == "unpacks to 1200 bytes, more than 1000."
    many = packed(tmp_path / "b.zip", *((f"{n}", b"") for n in range(4)))
    assert refused(many, tmp_path / "out") == "holds 4 files, more than 3."


def test_a_size_that_lies_does_not_get_further_than_it_says(tmp_path):
    archive = packed(tmp_path / "a.zip", ("a", b"\0" * 100_000))
    data = archive.read_bytes()
    assert data.count((100_000).to_bytes(4, "little")) == 2
    archive.write_bytes(data.replace((100_000).to_bytes(4, "little"), (10).to_bytes(4, "little")))
    assert refused(archive, tmp_path / "out").startswith("not a readable zip archive (Bad CRC-32")
    assert (tmp_path / "out/a").stat().st_size <= 10


@pytest.mark.parametrize("cut", [0, 10, -30])
def test_a_broken_archive_is_said(tmp_path, cut):
    archive = packed(tmp_path / "a.zip", ("a", b"1" * 100))
    archive.write_bytes(archive.read_bytes()[:cut])
    said = refused(archive, tmp_path / "out")
    assert said == "not a readable zip archive (File is not a zip file). Fetch it again."
