"""Background images from environment maps, and the command that makes them."""

import hashlib
import json

import numpy as np
import pytest

from sim2cam.assets.package_files import PackagedPanorama
from sim2cam.cli import main
from sim2cam.data.data_folder import DATA_FOLDER_VARIABLE
from sim2cam.data.photo_sources import PhotoSource, read_photo_sources
from sim2cam.data.real_images import read_real_images
from sim2cam.errors import RecipeError
from sim2cam.images import encode_radiance, read_rgb
from sim2cam.pipeline.asset_folder import resolve_image_folder
from sim2cam.pipeline.background_images import (
    VIEWS_PER_MAP,
    ToneParameters,
    develop_view,
    write_background_images,
)

SOURCE = PhotoSource("blender-data: made.exr", "CC0-1.0", "Jane Doe")


@pytest.fixture
def panorama(tmp_path, monkeypatch):
    """A map with stripes, which needs no package to read."""
    radiance = np.full((64, 128, 3), 0.2, np.float32)
    radiance[:, ::8] = radiance[:, 1::8] = [2.0, 1.0, 0.5]
    (tmp_path / "made.hdr").write_bytes(encode_radiance(radiance))
    monkeypatch.setattr(PackagedPanorama, "read", lambda self: radiance)
    return PackagedPanorama("blender-made", tmp_path / "made.exr", SOURCE)


def digest(folder):
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_views_are_photographs_with_sources_and_a_card(panorama, tmp_path):
    folder = tmp_path / "data/backgrounds"
    assert write_background_images([panorama], folder) == VIEWS_PER_MAP
    images = read_real_images(folder / "images").samples
    assert len(images) == VIEWS_PER_MAP
    assert all(sample.objects is None and sample.origin == "real" for sample in images)
    sources = read_photo_sources(folder)
    assert sources["maps/blender-made.hdr"] == SOURCE
    assert sources["images/blender-made-00.jpg"].source == "view of blender-data: made.exr"
    assert len(sources) == VIEWS_PER_MAP + 1
    views = json.loads((folder / "views.json").read_text())
    assert views.keys() == sources.keys() - {"maps/blender-made.hdr"}
    assert (
        "| view of blender-data: made.exr | CC0-1.0; Jane Doe |" in (folder / "card.md").read_text()
    )
    means = [read_rgb(sample.rgb).mean() for sample in images]
    assert max(means) > 1.5 * min(means)  # exposures differ


def test_equal_seeds_give_equal_files(panorama, tmp_path):
    folders = [tmp_path / name for name in ("one", "two", "three")]
    for folder, seed in zip(folders, (0, 0, 1), strict=True):
        write_background_images([panorama], folder, seed=seed)
    one, two, three = map(digest, folders)
    assert one == two
    assert one["images/blender-made-00.jpg"] != three["images/blender-made-00.jpg"]


def test_exposure_is_relative_to_the_geometric_mean():
    radiance = np.full((4, 4, 3), 50.0, np.float32)
    levels = {
        ev: int(develop_view(radiance, ToneParameters(ev, 1.0, 0.9, 1.0))[0, 0, 0])
        for ev in (-3.0, 0.0, 4.0)
    }
    assert levels[0.0] == 118  # middle grey, 18 % in sRGB
    assert levels[-3.0] < 50
    assert levels[4.0] > 250


def test_the_command_makes_them_once(panorama, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(DATA_FOLDER_VARIABLE, str(tmp_path / "data"))
    monkeypatch.setattr("sim2cam.assets.package_files.find_panoramas", lambda: (panorama,))
    assert main(["fetch", "backgrounds"]) == 0
    assert f"{VIEWS_PER_MAP} background images: " in capsys.readouterr().err
    before = digest(tmp_path / "data")
    assert main(["fetch", "backgrounds"]) == 0
    assert "already exist in" in capsys.readouterr().err
    assert digest(tmp_path / "data") == before
    recipe = tmp_path / "recipe.toml"
    for section, name in (("pictures", "images"), ("skies", "maps")):
        folder = resolve_image_folder("fetched:backgrounds", recipe, section)
        assert folder == str(tmp_path / "data/backgrounds" / name)
    with pytest.raises(RecipeError, match="Run sim2cam fetch coco-val2017"):
        resolve_image_folder("fetched:coco-val2017", recipe, "pictures")


def test_without_packages_the_command_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(DATA_FOLDER_VARIABLE, str(tmp_path / "data"))
    monkeypatch.setattr("sim2cam.assets.package_files.find_panoramas", lambda: ())
    assert main(["fetch", "backgrounds"]) == 2
    assert "Install blender-data (Debian) or @pmndrs/assets (npm)" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()
