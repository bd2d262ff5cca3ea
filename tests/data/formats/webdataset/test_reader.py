import io
import json
import tarfile
from dataclasses import replace

import numpy as np
import pytest

from sim2cam.data.cache import get_cache_folder
from sim2cam.data.channels import read_channel
from sim2cam.data.formats.export import export_dataset
from sim2cam.data.formats.webdataset.reader import read_webdataset
from sim2cam.data.reader import read_dataset
from sim2cam.data.real_images import read_real_images, split_real_images
from sim2cam.errors import InputError
from sim2cam.files import write_bytes
from sim2cam.images import encode_jpeg, encode_png, read_rgb
from tests.support.errors import error_text

PICTURE = encode_jpeg(np.random.default_rng(0).integers(0, 256, (16, 24, 3), dtype=np.uint8), 90)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache of its own for each test."""
    monkeypatch.setenv("SIM2CAM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def link(name, to):
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, to
    return entry


def tar_of(path, *entries):
    """A tar file of names with their contents, or of entries without any."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                tar.addfile(entry)
                continue
            name, data = entry
            data = json.dumps(data).encode() if isinstance(data, dict | list) else data
            one = tarfile.TarInfo(name)
            one.size = len(data)
            tar.addfile(one, io.BytesIO(data))
    return path


def test_what_is_exported_is_read_back(exported, cache):
    root, parts = exported("webdataset")
    back = read_webdataset(root, "real")
    assert set(back) == set(parts)
    for name, part in parts.items():
        assert back[name].categories == part.categories
        for sample, original in zip(back[name].samples, part.samples, strict=True):
            place = {"rgb": sample.rgb, "channels": sample.channels}
            assert sample == replace(original, **place)
            assert sample.rgb.read_bytes() == original.rgb.read_bytes()
            for channel, path in original.channels.items():
                assert np.array_equal(
                    read_channel(channel, sample.channels[channel]), read_channel(channel, path)
                )
            assert sample.rgb.is_relative_to(cache)
    assert [len(split_real_images(root).test.samples), len(read_real_images(root).samples)] == [
        2,
        4,
    ]
    again = root.with_name("again")
    export_dataset(back, again, "webdataset")
    for path in root.glob("*.tar"):
        assert (again / path.name).read_bytes() == path.read_bytes()


def test_an_adapted_set_stands_alone(tmp_path, adapted):
    dataset = read_dataset(adapted)
    export_dataset({"train": dataset}, tmp_path / "out", "webdataset")
    for sample, original in zip(
        read_real_images(tmp_path / "out/train-000000.tar").samples, dataset.samples, strict=True
    ):
        assert (sample.origin, sample.objects) == ("adapted", original.objects)
        assert sample.parent == original.parent


def test_it_is_unpacked_once_for_each_content(tmp_path, dataset):
    export_dataset({"train": dataset}, tmp_path / "out", "webdataset")
    (tar,) = (tmp_path / "out").glob("*.tar")
    first = read_real_images(tar).samples[0].rgb
    tar.rename(tmp_path / "elsewhere.tar")
    assert read_real_images(tmp_path / "elsewhere.tar").samples[0].rgb == first
    assert len(list((get_cache_folder() / "tars-2").iterdir())) == 1


COCO = {
    "annotations": [{"category_id": 7, "bbox": [2, 3, 10, 6], "segmentation": [[2, 3, 12, 3, 12, 9,
     2, 9]], "keypoints": [3, 4, 2]}],
    "categories": [{"id": 7, "name": "disc", "keypoints": ["a"]}, {"id": 3, "name": "square"}],
    "width": 24,
    "height": 16,
}  # fmt: skip


def test_tar_files_of_others_are_read(tmp_path):
    tar = tar_of(
        tmp_path / "data-train-0001.tar",
        ("__index__/0", b"of a tool"),
        tarfile.TarInfo("README"),
        ("./day/1.JPG", PICTURE),
        ("./day/1.json", COCO),
        ("day/2.x.png", b"something else"),
        ("day/2.jpg", PICTURE),
        ("day/2.json", {"caption": "two words"}),
        ("day/3.jpg", PICTURE),
        ("day/3.cls", b"7"),
        ("day/4.jpg", PICTURE),
        ("day/4.json", []),
    )
    (name,) = read_webdataset(tar, "real")
    assert name == "data-train"
    captures = read_real_images(tar)
    assert captures.categories == ("square", "disc")
    assert [s.name for s in captures.samples] == [f"data-train-0001/day/{n}" for n in range(1, 5)]
    first, *others = captures.samples
    (label,) = first.objects
    assert (label.category, label.box_xyxy) == ("disc", (2, 3, 12, 9))
    assert (label.mask.decode().sum(), label.keypoints[0].xy) == (60, (3, 4))
    assert [s.objects for s in others] == [None] * 3
    assert [s.scene_index for s in captures.samples] == [0, 1, 2, 3]
    assert read_rgb(others[0].rgb).shape == (16, 24, 3)


def test_a_folder_with_pictures_or_lists_of_them_is_no_folder_of_tar_files(tmp_path):
    tar_of(tmp_path / "backup.tar", ("1.jpg", PICTURE))
    assert read_real_images(tmp_path).samples[0].name == "backup/1"
    write_bytes(tmp_path / "photo.jpg", PICTURE)
    assert "photo.jpg" in {sample.name for sample in read_real_images(tmp_path).samples}


def sparse(name):
    entry = tarfile.TarInfo(name)
    entry.type = tarfile.GNUTYPE_SPARSE
    return entry


OURS = {
    "name": "a",
    "origin": "sim",
    "categories": ["disc"],
    "digest": "",
    "width": 24,
    "height": 16,
}
WRITE = "Write the file again"
BAD = {
    "a way out": (
        [("../../1.jpg", PICTURE)],
        f"entry '../../1.jpg' has an unsafe path. {WRITE} without it.",
    ),
    "a way from the root": (
        [("/etc/1.jpg", PICTURE)],
        f"entry '/etc/1.jpg' has an unsafe path. {WRITE} without it.",
    ),
    "a link": (
        [link("1.jpg", "/etc/passwd")],
        f"entry '1.jpg' is not a regular file. {WRITE} without it.",
    ),
    "a file twice": (
        [("1.jpg", PICTURE), ("1.json", {}), ("1.jpg", PICTURE)],
        "two files are named 1.jpg. Remove one of them.",
    ),
    "a sample in two places": (
        [("1.jpg", PICTURE), ("2.jpg", PICTURE), ("1.json", {})],
        f"the files of sample 1 are not contiguous. {WRITE}.",
    ),
    "no picture": ([("1.json", {})], f"sample 1 has 0 images, not one. {WRITE}."),
    "two pictures": (
        [("1.jpg", PICTURE), ("1.png", PICTURE)],
        f"sample 1 has 2 images (jpg, png), not one. {WRITE}.",
    ),
    "no samples": ([("README", b"")], f"contains no samples. {WRITE}."),
    "no JSON": (
        [("1.jpg", PICTURE), ("1.json", b"{")],
        "sample 1: invalid JSON (Expecting property name enclosed in double quotes: line 1 column 2 (char "
        f"1)). {WRITE}.",
    ),
    "no text": (
        [("1.jpg", PICTURE), ("1.json", b"\xff")],
        f"sample 1: its json is not UTF-8. {WRITE}.",
    ),
    "a box outside": (
        [("1.jpg", PICTURE), ("1.json", COCO | {"annotations": [{"category_id": 7, "bbox": [30, 3, 1, 1]}]})],
        "annotations[0] (image a/1): bbox [30.0, 3.0, 1.0, 1.0] lies outside the image of 24x16 "
        "pixels. Correct the file, or leave flawed annotations out with --skip-invalid.",
    ),
    "another size": (
        [("1.jpg", PICTURE), ("1.json", COCO | {"width": 25})],
        "image a/1 is 24x16 pixels, not 25x16 as listed. Export the annotations of this image.",
    ),
    "no list of annotations": (
        [("1.jpg", PICTURE), ("1.json", COCO | {"annotations": 5})],
        "annotations: Input should be a valid list (found 5). Correct the file.",
    ),
    "another size than ours": (
        [("1.jpg", PICTURE), ("1.json", OURS | {"width": 25})],
        f"sample a is 24x16 pixels, not 25x16 as listed. {WRITE}.",
    ),
    "a name of ours that leads out": (
        [("1.jpg", PICTURE), ("1.json", OURS | {"name": "../a"})],
        "sample ../a: '../a' lies outside the shard. Generate the dataset again.",
    ),
    "a category that ours does not list": (
        [
            ("1.jpg", PICTURE),
            ("1.json", OURS | {"objects": [{"category": "disk", "box_xyxy": [1, 1, 2, 2], "area_px": 1}]}),
        ],
        "sample a: unknown category 'disk'. Did you mean 'disc'? Allowed: disc.",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("entries", "problem"), BAD.values(), ids=BAD)
def test_bad_tar_files_are_answered_exactly(tmp_path, entries, problem, cache):
    tar = tar_of(tmp_path / "in/a.tar", *entries)
    assert error_text(read_real_images, tar) == f"{tar}: {problem}"
    assert {path.name for path in tmp_path.iterdir()} <= {"in", "cache"}
    assert not [path for path in cache.rglob("*") if path.name.startswith("tmp")]


def test_deep_json_is_no_crash(tmp_path):
    tar = tar_of(tmp_path / "a.tar", ("1.jpg", PICTURE), ("1.json", b"[" * 100_000))
    with pytest.raises(InputError, match=r"a\.tar: sample 1: invalid JSON \("):
        read_real_images(tar)


def test_a_picture_that_is_none_is_named(tmp_path):
    tar = tar_of(tmp_path / "a.tar", ("1.jpg", b"no picture"))
    with pytest.raises(InputError, match=r"not an image"):
        read_real_images(tar)


def test_a_hole_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"(is not a regular file|truncated or invalid tar file)"):
        read_real_images(tar_of(tmp_path / "a.tar", sparse("1.jpg")))


def test_a_sample_in_two_tar_files_is_refused(tmp_path, dataset):
    export_dataset({"train": dataset}, tmp_path / "out", "webdataset")
    first = tmp_path / "out/train-000000.tar"
    second = first.with_name("train-000001.tar")
    second.write_bytes(first.read_bytes())
    with pytest.raises(InputError) as caught:
        read_real_images(tmp_path / "out")
    problem = "sample 000000 is also in train-000000.tar. Remove one of them."
    assert str(caught.value) == f"{second}: {problem}"


def test_a_tar_file_that_was_cut_off_anywhere_is_refused(tmp_path):
    whole = tar_of(tmp_path / "a.tar", ("1.jpg", PICTURE), ("1.json", COCO), ("2.jpg", PICTURE))
    data = whole.read_bytes()
    with tarfile.open(whole) as tar:
        ends = [entry.offset_data + -(-entry.size // 512) * 512 for entry in tar]
    assert len(read_real_images(whole).samples) == 2
    cut = tmp_path / "b.tar"
    for size in (0, 100, 512, 600, ends[0] - 1, *ends, *(end + 100 for end in ends)):
        cut.write_bytes(data[:size])
        with pytest.raises(
            InputError, match=r"b\.tar: truncated .*tar file \(.*\)\. Copy it again"
        ):
            read_real_images(cut)
    cut.write_bytes(data[: ends[0]] + b"x" * (len(data) - ends[0]))
    with pytest.raises(InputError, match=r"b\.tar: truncated .*tar file"):
        read_real_images(cut)


def test_a_tar_file_that_is_compressed_or_none_is_refused(tmp_path):
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w:gz") as tar:
        entry = tarfile.TarInfo("1.png")
        data = encode_png(np.zeros((4, 4, 3), np.uint8))
        entry.size = len(data)
        tar.addfile(entry, io.BytesIO(data))
    with pytest.raises(InputError, match=r"truncated .*tar file"):
        read_real_images(path)


POSE = {"cam_R_m2c": [1, 0, 0, 0, 1, 0, 0, 0, 1], "cam_t_m2c": [0, 0, 500], "obj_id": 5}
SEEN = {
    "bbox_obj": [1, 2, 10, 4],
    "bbox_visib": [1, 2, 5, 4],
    "px_count_visib": 30,
    "visib_fract": 0.5,
}


def bop_tar(path, *, infos):
    return tar_of(
        path,
        ("000000_000003.rgb.jpg", PICTURE),
        ("000000_000003.depth.png", b"not asked for"),
        ("000000_000003.gt.json", [POSE]),
        *([("000000_000003.gt_info.json", infos)] if infos is not None else []),
        ("000000_000004.gray.png", encode_png(np.zeros((16, 24), np.uint8))),
    )


def test_bops_tar_files_are_read(tmp_path):
    captures = read_real_images(bop_tar(tmp_path / "shard-000000.tar", infos=[SEEN]))
    assert captures.categories == ("obj_000005",)
    first, second = captures.samples
    (label,) = first.objects
    assert (label.box_xyxy, label.area_px, label.visible_fraction) == ((1, 2, 7, 7), 30, 0.5)
    assert label.pose.position_m == (0, 0, 0.5)
    assert (second.name, second.objects) == ("shard-000000/000000_000004", None)


def test_bops_tar_files_without_boxes_are_not_labelled(tmp_path):
    captures = read_real_images(bop_tar(tmp_path / "shard-000000.tar", infos=None))
    assert [sample.objects for sample in captures.samples] == [None, None]


@pytest.mark.parametrize(
    ("infos", "problem"),
    [
        ([], "0 objects, but scene_gt.json has 1"),
        ([SEEN | {"visib_fract": 2}], "object 0: invalid box or visib_fract"),
        ([{}], r"\[0\].bbox_obj is missing"),
    ],
)
def test_bops_tar_files_that_are_wrong_are_refused(tmp_path, infos, problem):
    with pytest.raises(InputError, match=f"sample shard-000000/000000_000003.*{problem}"):
        read_real_images(bop_tar(tmp_path / "shard-000000.tar", infos=infos))
