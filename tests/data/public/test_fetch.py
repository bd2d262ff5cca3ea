import hashlib
import io
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from sim2cam.cli import main
from sim2cam.data.data_folder import locate_data_folder
from sim2cam.data.public import catalogue
from sim2cam.data.public.catalogue import PUBLIC_DATASETS, PublicDataset
from sim2cam.data.public.checksums import CHECKSUM_FOLDER, verify_checksums
from sim2cam.data.public.download import Source
from sim2cam.data.public.fetch import fetch
from sim2cam.data.public.tf_records import compute_masked_crc, read_examples
from sim2cam.data.real_images import read_real_images, split_real_images
from sim2cam.errors import InputError, RecipeError
from sim2cam.pipeline.asset_folder import resolve_assets_folder
from tests.support.archives import pack
from tests.support.errors import error_text

DICE = Path(os.environ.get("SIM2CAM_REAL", "/nowhere")) / "dice"
OTHER = "is not in the archive, which is of another commit."
TARGETS = "lmo/test_targets_bop19.json"


@pytest.fixture
def lmo(server):
    """What stands for LM-O: two archives, the second of which unpacks into the first's folder."""
    server.files["/lmo_base.zip"] = pack({TARGETS: "[]", "lmo/camera.json": "{}"})
    server.files["/lmo_models.zip"] = pack({"models/obj_000001.ply": "ply"})
    sources = [Source(f"{server.url}/lmo_{part}.zip", 10_000) for part in ("base", "models")]
    pairs = tuple(zip(sources, ("", "lmo"), strict=True))
    return PublicDataset(
        "lmo", "objects", "CC BY-SA 4.0", "others", pairs, PUBLIC_DATASETS["lmo"].arrange
    )


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_archives_become_one_folder_and_their_digests_are_kept(lmo, tmp_path):
    found = fetch(lmo, tmp_path)
    assert found.folder == tmp_path / "lmo"
    assert names(found.folder) == ["camera.json", "models", "test_targets_bop19.json"]
    assert names(tmp_path) == ["lmo", "lmo.fetched.json"]
    assert json.loads((tmp_path / "lmo.fetched.json").read_text()) == found.digests
    assert found.new_urls == tuple(found.digests)


def test_what_is_there_is_not_fetched_again(lmo, server, tmp_path):
    fetch(lmo, tmp_path)
    asked = len(server.asked)
    assert fetch(lmo, tmp_path).digests == {}
    assert len(server.asked) == asked
    (tmp_path / "lmo/mine.txt").write_text("")
    again = fetch(lmo, tmp_path, overwrite=True)
    assert (len(again.digests), again.new_urls) == (2, ())
    assert "mine.txt" not in names(tmp_path / "lmo")
    assert names(tmp_path) == ["lmo", "lmo.fetched.json"]


def test_a_file_that_changed_since_is_refused_and_what_is_there_stays(lmo, server, tmp_path):
    known = fetch(lmo, tmp_path).digests
    server.files["/lmo_models.zip"] = pack({"models/obj_000001.ply": "other"})
    url = f"{server.url}/lmo_models.zip"
    with pytest.raises(InputError) as caught:
        fetch(lmo, tmp_path, overwrite=True)
    said = str(caught.value)
    assert said.startswith(f"{url}: has the SHA-256 ")
    assert said.endswith(
        f", but had {known[url]} at the last fetch. To accept the change, remove {tmp_path}/lmo.fetched.json."
    )
    assert (tmp_path / "lmo/models/obj_000001.ply").read_text() == "ply"
    (tmp_path / "lmo.fetched.json").unlink()
    fetch(lmo, tmp_path, overwrite=True)
    assert (tmp_path / "lmo/models/obj_000001.ply").read_text() == "other"


def test_what_broke_off_leaves_nothing_half_and_is_gone_on_with(lmo, server, tmp_path):
    server.moods = ["good", "truncated"]
    with pytest.raises(InputError, match="stopped after"):
        fetch(lmo, tmp_path)
    assert names(tmp_path) == [".lmo.part"]
    fetch(lmo, tmp_path)
    assert [path for path, _ in server.asked] == [
        "/lmo_base.zip",
        "/lmo_models.zip",
        "/lmo_models.zip",
    ]
    assert server.asked[-1][1] is not None
    assert names(tmp_path) == ["lmo", "lmo.fetched.json"]


def test_a_broken_archive_is_fetched_again_the_next_time(lmo, server, tmp_path):
    server.moods = ["corrupt"]
    with pytest.raises(InputError, match="not a readable zip archive"):
        fetch(lmo, tmp_path)
    assert fetch(lmo, tmp_path).folder.is_dir()


def test_archives_of_something_else_are_refused_and_fetched_again(lmo, server, tmp_path):
    right = server.files["/lmo_base.zip"]
    server.files["/lmo_base.zip"] = pack({"lmo/camera.json": "{}"})
    with pytest.raises(InputError) as caught:
        fetch(lmo, tmp_path)
    problem = "the archives have no test_targets_bop19.json, so they have changed."
    assert str(caught.value) == f"{tmp_path}/.lmo.part/unpacked/lmo: {problem}"
    assert names(tmp_path) == []
    server.files["/lmo_base.zip"] = right
    assert fetch(lmo, tmp_path).folder.is_dir()


def listed(path, files):
    lines = [f"{hashlib.sha256(data).hexdigest()} {len(data)} {name}" for name, data in files]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_files_that_are_known_are_held_to_and_of_others_nothing_is_kept(lmo, server, tmp_path):
    root = tmp_path / "data"
    files = [("camera.json", b"{}"), ("models/obj_000001.ply", b"ply")]
    known = replace(lmo, checksum_list=listed(tmp_path / "known.txt", files))
    found = fetch(known, root)
    assert found.verified_count == found.to_json()["verified_count"] == 2
    digest = hashlib.sha256(b"ply").hexdigest()
    other = hashlib.sha256(b"plz").hexdigest()
    end = "has changed or is damaged."
    table = {
        "another": (
            {"models/obj_000001.ply": "plz"},
            f"has 3 bytes with the SHA-256 {other}, not 3 with {digest}. The download {end}",
        ),
        "missing": ({"models/obj_000002.ply": "ply"}, f"is missing in the download, which {end}"),
    }
    for content, problem in table.values():
        (root / "lmo.fetched.json").unlink()
        server.files["/lmo_models.zip"] = pack(content)
        assert error_text(fetch, known, root, overwrite=True) == f"models/obj_000001.ply: {problem}"
        assert names(root) == ["lmo"]  # as it was
        assert (root / "lmo/models/obj_000001.ply").read_text() == "ply"
        (root / "lmo.fetched.json").write_text("{}")


@pytest.mark.parametrize(("name", "files"), [("dice", 250), ("lmo", 224)])
def test_files_of_public_sets_are_listed(name, files):
    lines = (CHECKSUM_FOLDER / f"{name}.txt").read_text().splitlines()
    assert len(lines) == files
    assert all(re.fullmatch(r"[0-9a-f]{64} \d+ [\w./]+", line) for line in lines)
    assert PUBLIC_DATASETS[name].checksum_list == CHECKSUM_FOLDER / f"{name}.txt"


@pytest.mark.real
@pytest.mark.skipif(not DICE.is_dir(), reason="needs dice in $SIM2CAM_REAL")
def test_captures_at_hand_are_those_that_are_listed():
    for name in ("dice", "lmo"):
        assert verify_checksums(DICE.parent / name, CHECKSUM_FOLDER / f"{name}.txt") > 200


def test_a_broken_list_of_digests_is_named(lmo, tmp_path):
    record = tmp_path / "lmo.fetched.json"
    record.write_text('{"a": 1}')
    message = error_text(fetch, lmo, tmp_path)
    assert message == f"{record}: a: Input should be a valid string (found 1). Remove the file."


def test_the_command_shows_the_licence_and_asks(lmo, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SIM2CAM_REAL", str(tmp_path))
    monkeypatch.setitem(catalogue.PUBLIC_DATASETS, "lmo", lmo)
    assert main(["fetch", "lmo"]) == 2
    said = capsys.readouterr().err
    assert "Licence: CC BY-SA 4.0." in said
    assert said.endswith(
        "sim2cam: add --accept-licence to download lmo (CC BY-SA 4.0) without a terminal.\n"
    )
    for answer, code in (("\n", 2), ("no\n", 2), ("y\n", 0)):
        terminal = io.StringIO(answer)
        terminal.isatty = lambda: True
        monkeypatch.setattr("sys.stdin", terminal)
        assert main(["fetch", "lmo"]) == code
    assert "not verified, stored for the next download" in capsys.readouterr().err
    assert main(["fetch", "lmo", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["folder"] == str(tmp_path / "lmo")
    assert main(["fetch", "lmo", "--overwrite", "--accept-licence"]) == 0
    assert "verified" in capsys.readouterr().err
    assert main(["fetch", "dize"]) == 2
    said = "unknown dataset 'dize'. Did you mean 'dice'? Allowed: backgrounds, coco-val2017, dice, icbin, lm"
    assert said in capsys.readouterr().err


def test_every_address_is_https_and_bounded():
    for data_set in PUBLIC_DATASETS.values():
        for source, _ in data_set.archives:
            assert source.url.startswith("https://")
            assert 0 < (source.size or source.max_bytes) == source.max_bytes < 4e9
            assert source.sha256 is None or re.fullmatch("[0-9a-f]{64}", source.sha256)


def test_sets_of_bop_unpack_into_one_folder_and_own_up_to_unknown_licences(server, tmp_path):
    for name in ("lm", "tless", "tudl", "icbin", "ycbv"):
        of = PUBLIC_DATASETS[name]
        part = "test_primesense" if name == "tless" else "test"
        files = (
            {f"{name}/test_targets_bop19.json": "[]"},
            {"models/obj_000001.ply": "ply"},
            {f"{part}/000001/scene_gt.json": "{}"},
        )
        archives = []
        for (source, into), content in zip(of.archives, files, strict=True):
            path = f"/{source.url.rsplit('/', 1)[-1]}"
            assert source.url.startswith(f"https://huggingface.co/datasets/bop-benchmark/{name}/")
            server.files[path] = pack(content)
            archives.append((Source(f"{server.url}{path}", 10_000), into))
        folder = fetch(replace(of, archives=tuple(archives)), tmp_path).folder
        assert names(folder) == ["models", part, "test_targets_bop19.json"]
    assert PUBLIC_DATASETS["tless"].licence == "CC BY 4.0"
    assert PUBLIC_DATASETS["icbin"].licence == (
        "unknown; read https://huggingface.co/datasets/bop-benchmark/icbin and "
        "bop.felk.cvut.cz/datasets first"
    )


def test_data_sets_lie_in_the_cache_unless_a_folder_is_named(tmp_path, monkeypatch):
    monkeypatch.delenv("SIM2CAM_REAL", raising=False)
    monkeypatch.setenv("SIM2CAM_CACHE", str(tmp_path))
    assert locate_data_folder() == tmp_path / "data"
    monkeypatch.setenv("SIM2CAM_REAL", "/somewhere")
    assert locate_data_folder() == Path("/somewhere")


def test_a_recipe_whose_meshes_are_missing_says_how_to_get_them(tmp_path, monkeypatch):
    monkeypatch.setenv("SIM2CAM_REAL", str(tmp_path))
    message = error_text(
        resolve_assets_folder, "bop:lmo", tmp_path / "mine.toml", "assets.folder", error=RecipeError
    )
    assert message == (
        f"{tmp_path}/mine.toml: 'assets.folder': bop:lmo is missing. Run sim2cam fetch lmo, or unpack "
        "its models to lmo/models in the folder of SIM2CAM_REAL."
    )
    (tmp_path / "lmo/models").mkdir(parents=True)
    assert resolve_assets_folder("bop:lmo", tmp_path / "mine.toml", "assets.folder") == str(
        tmp_path / "lmo/models"
    )


def field(number, value):
    """A field of a protocol buffer that is bytes."""
    return bytes([number << 3 | 2]) + varint(len(value)) + value


def varint(value):
    groups = []
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])


def example(features):
    """An Example with strings, and a number and floats beside them, which are skipped."""
    entries = [
        field(1, field(1, name.encode()) + field(2, field(1, field(1, value))))
        for name, value in features.items()
    ]
    entries.append(field(1, field(1, b"image/width") + field(2, field(3, b"\x08\x80\x05"))))
    floats = field(2, field(1, b"\x00\x00\x80\x3f"))
    entries.append(field(1, field(1, b"image/object/bbox/xmin") + field(2, floats)))
    return field(1, b"".join(entries))


def record(data):
    length = len(data).to_bytes(8, "little")
    return length + compute_masked_crc(length).to_bytes(4, "little") + data + bytes(4)


def test_checksums_are_those_of_tensorflow():
    # CRC-32C of "123456789" is e3069283 (RFC 3720, B.4 has others); masked as in crc32c.h
    crc = 0xE3069283
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    assert compute_masked_crc(b"123456789") == masked


def test_strings_of_records_are_read(tmp_path):
    path = tmp_path / "a.record"
    first = {"image/filename": b"a.jpg", "image/encoded": bytes(range(256)) * 3}
    path.write_bytes(record(example(first)) + record(example({"b": b""})))
    assert list(read_examples(path)) == [first, {"b": b""}]


BAD_RECORDS = {
    "no record": (b"\x01" * 40, "byte 0: no complete record starts here. Fetch it again."),
    "cut": (record(example({"a": b"b"}))[:-5],
     "byte 0: no complete record starts here. Fetch it again."),
    "no Example": (record(b"\x0a\x7f\x00"),
     "byte 0: the record is not an Example. Fetch it again."),
    "a kind that is none": (record(b"\x0b"),
     "byte 0: the record is not an Example. Fetch it again."),
    "a number without end": (record(b"\x08" + b"\xff" * 20),
     "byte 0: the record is not an Example. Fetch it again."),
}  # fmt: skip


@pytest.mark.parametrize(("data", "problem"), BAD_RECORDS.values(), ids=BAD_RECORDS)
def test_bad_records_are_answered_exactly(tmp_path, data, problem):
    path = tmp_path / "a.record"
    path.write_bytes(data)
    assert error_text(lambda: list(read_examples(path))) == f"{path}: {problem}"


def repository(parts):
    """An archive as GitHub makes it: photos in records, YOLO labels beside them."""
    files = {"dice_detection-aa69c12b/LICENSE": "BSD"}
    for part, photos in parts.items():
        records = [
            record(example({"image/filename": name.encode(), "image/encoded": data}))
            for name, (data, _) in photos.items()
        ]
        files[f"dice_detection-aa69c12b/tfrecords/{part}.record"] = b"".join(records)
        for name, (_, labels) in photos.items():
            place = f"dice_detection-aa69c12b/data/Annotations/{name[:-4]}.txt"
            files[place] = labels
    return pack(files)


def served(server, data):
    server.files["/aa69c12b.zip"] = data
    source = Source(f"{server.url}/aa69c12b.zip", 100_000_000)
    return replace(PUBLIC_DATASETS["dice"], archives=((source, ""),))


def test_another_number_of_photos_is_refused(server, tmp_path):
    one = {"IMG_20191208_111228.jpg": (b"x", "0 0.5 0.5 0.1 0.1\n")}
    with pytest.raises(InputError, match=r"IMG_20191208_111228\.jpg"):
        fetch(served(server, repository({"train": one, "test": one})), tmp_path)
    assert not (tmp_path / "dice").exists()


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({}, "zip: has no files. Fetch it again."),
        ({"dice/LICENSE": "", "dice/tfrecords/train.record": ""}, f"test.record: {OTHER}"),
        ({f"dice/tfrecords/{part}.record": "" for part in ("train", "test")}, f"LICENSE: {OTHER}"),
    ],
)
def test_an_archive_that_lacks_something_is_refused_and_not_kept(server, tmp_path, files, problem):
    assert error_text(lambda: fetch(served(server, pack(files)), tmp_path)).endswith(problem)
    assert not list(tmp_path.rglob("*.zip"))  # or it would be found again


@pytest.mark.parametrize("name", ["in/IMG_1.jpg", "IMG_1.png", ""])
def test_photos_of_names_that_lead_elsewhere_are_refused(server, tmp_path, name):
    data_set = served(server, repository({"train": {name: (b"", "")}, "test": {}}))
    with pytest.raises(InputError, match=f"has no photo named '{name}'. Fetch it again."):
        fetch(data_set, tmp_path)


@pytest.mark.real
@pytest.mark.skipif(not DICE.is_dir(), reason="needs dice in $SIM2CAM_REAL")
def test_the_photos_of_dice_come_out_of_their_records(server, tmp_path):
    parts = {}
    for part in ("train", "test"):
        captures = read_real_images(DICE / f"{part}.json")
        parts[part] = {}
        for sample in captures.samples:
            lines = []
            for label in sample.objects:
                x0, y0, x1, y1 = (value / 640 for value in label.box_xyxy)
                sides = f"{(x0 + x1) / 2:.6f} {(y0 + y1) / 2:.6f} {x1 - x0:.6f} {y1 - y0:.6f}"
                lines.append(f"{int(label.category) - 1} {sides}\n")
            parts[part][sample.rgb.name] = (sample.rgb.read_bytes(), "".join(lines))
    assert fetch(served(server, repository(parts)), tmp_path).verified_count == 250
    for name in ("train", "test", "dev", "style"):
        found, known = (
            json.loads((root / f"{name}.json").read_text()) for root in (tmp_path / "dice", DICE)
        )
        assert found["categories"] == known["categories"]
        assert [i["file_name"] for i in found["images"]] == [
            i["file_name"] for i in known["images"]
        ]
        for ours, theirs in zip(found["annotations"], known["annotations"], strict=True):
            assert ours["category_id"] == theirs["category_id"]
            assert ours["bbox"] == pytest.approx(theirs["bbox"], abs=0.011)
    for path in sorted(DICE.glob("t*/*.jpg")):
        assert (tmp_path / "dice" / path.relative_to(DICE)).read_bytes() == path.read_bytes()
    assert names(tmp_path / "dice") == [
        "LICENSE", "dev.json", "style.json", "test", "test.json", "train", "train.json"
    ]  # fmt: skip
    catalogue = split_real_images(tmp_path / "dice")
    assert (
        len(catalogue.style.samples),
        len(catalogue.dev.samples),
        len(catalogue.test.samples),
    ) == (160, 40, 50)
