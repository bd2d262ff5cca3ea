"""Background images of ``train``: files, fetched photographs, or none."""

from pathlib import Path

import numpy as np
import pytest

from sim2cam.commands.backgrounds import (
    AUTO,
    NONE,
    Backgrounds,
    find_backgrounds,
    list_background_paths,
    read_backgrounds,
)
from sim2cam.commands.console import Console
from sim2cam.data.data_folder import DATA_FOLDER_VARIABLE
from sim2cam.data.photo_sources import PhotoSource, write_photo_sources
from sim2cam.data.sample import Dataset, ObjectLabel, Sample
from sim2cam.errors import UsageError
from sim2cam.files import write_bytes
from sim2cam.geometry.run_length import RleMask
from sim2cam.images import encode_png

PNG = encode_png(np.zeros((4, 6, 3), np.uint8))


def write_set(root, name, **categories):
    """Write photographs and the categories that each shows."""
    for photo in categories:
        write_bytes(root / name / "images" / f"{photo}.png", PNG)
    write_photo_sources(
        root / name,
        {
            f"images/{photo}.png": PhotoSource(name, "CC0-1.0", categories=shown)
            for photo, shown in categories.items()
        },
    )


@pytest.fixture
def data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv(DATA_FOLDER_VARIABLE, str(tmp_path / "data"))
    return tmp_path / "data"


def make_data(mask=None):
    label = ObjectLabel("Cup", (0.0, 0.0, 2.0, 2.0), 4.0, mask=mask)
    return Dataset(Path("sim"), ("Cup",), (Sample("a", Path("a.png"), 6, 4, (label,), "sim"),))


WITH_MASKS = make_data(RleMask.from_mask(np.ones((4, 6), np.bool_)))


def test_fetched_photographs_without_trained_categories_are_used(data_folder, capsys):
    write_set(data_folder, "photos", a=("cup", "dog"), b=("dog",), c=())
    write_set(data_folder, "views", d=(), e=(), f=())
    write_set(data_folder, "cups", g=("cup",))
    (data_folder / "dice").mkdir()
    backgrounds = find_backgrounds([WITH_MASKS], Console(0))
    names = sorted(sample.rgb.name for sample in backgrounds.images.samples)
    assert names == ["b.png", "c.png", "d.png", "e.png", "f.png"]
    assert backgrounds.shares == ((2, 1.0), (3, 1.0))
    assert "background photographs: 2 of photos, 3 of views." in capsys.readouterr().err


def test_nothing_changes_without_photographs_or_masks(data_folder, capsys):
    assert find_backgrounds([WITH_MASKS], Console(0)) == Backgrounds()
    assert capsys.readouterr().err == ""
    write_set(data_folder, "views", d=())
    assert find_backgrounds([make_data()], Console(0)) == Backgrounds()
    assert "the data has no instance masks" in capsys.readouterr().err


def test_named_sources_have_shares(tmp_path):
    for name, count in (("one", 1), ("two", 3)):
        for index in range(count):
            write_bytes(tmp_path / name / f"{index}.png", PNG)
    paths = [tmp_path / "one", tmp_path / "two"]
    mixed = read_backgrounds(paths, (3.0, 1.0), skip_invalid=False)
    assert mixed.shares == ((1, 3.0), (3, 1.0))
    plain = read_backgrounds(paths, (), skip_invalid=False)
    assert (len(plain.images.samples), plain.shares) == (4, ())
    assert read_backgrounds([], (), skip_invalid=False) == Backgrounds()
    with pytest.raises(UsageError, match="no negative and one positive value"):
        read_backgrounds(paths, (0.0, 0.0), skip_invalid=False)


def test_words_stand_alone():
    assert list_background_paths([AUTO]) == list_background_paths([NONE]) == []
    assert list_background_paths([Path("a"), Path("b")]) == [Path("a"), Path("b")]
    with pytest.raises(UsageError, match="--backgrounds auto excludes other values"):
        list_background_paths([Path("a"), AUTO])
