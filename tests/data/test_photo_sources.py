"""Sources of photographs, and where they are found again."""

import pytest

from sim2cam.data.photo_sources import (
    PHOTO_SOURCES,
    PhotoSource,
    find_photo_sources,
    list_photo_folders,
    read_photo_sources,
    write_photo_sources,
)
from sim2cam.errors import InputError

CUP = PhotoSource("COCO val2017: cup.jpg", "CC-BY-2.0", categories=("cup",))


def test_sources_are_found_from_the_paths_of_images(tmp_path):
    write_photo_sources(tmp_path / "set", {"images/cup.jpg": CUP})
    assert read_photo_sources(tmp_path / "set") == {"images/cup.jpg": CUP}
    paths = [tmp_path / "set/images/cup.jpg", tmp_path / "set/images/new.jpg", tmp_path / "a.jpg"]
    assert find_photo_sources(paths) == {paths[0]: CUP}
    assert list_photo_folders(tmp_path) == [tmp_path / "set"]
    assert read_photo_sources(tmp_path) == {}


def test_credits_name_author_and_source():
    assert CUP.format_credit() == "COCO val2017: cup.jpg"
    assert PhotoSource("a.exr", "CC0-1.0", "Jane Doe").format_credit() == "Jane Doe, a.exr"


@pytest.mark.parametrize("text", ["[]", '{"a.jpg": {"source": 3}}', "{"])
def test_a_broken_list_is_refused(tmp_path, text):
    (tmp_path / PHOTO_SOURCES).write_text(text)
    with pytest.raises(InputError, match=PHOTO_SOURCES):
        read_photo_sources(tmp_path)
