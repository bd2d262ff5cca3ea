"""Furniture libraries of Sweet Home 3D as folders of meshes."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

from sim2cam.assets.folder import list_assets, read_asset_card
from sim2cam.assets.furniture_library import unpack_furniture
from sim2cam.assets.importer import import_assets
from sim2cam.errors import InputError, RecipeError
from sim2cam.pipeline.asset_folder import (
    AssetFolder,
    ClutterFolder,
    import_asset_folder,
    resolve_assets_folder,
)

BOX = "".join(f"v {x} {y} {z}\n" for x in (0, 4) for y in (0, 2) for z in (0, 1)) + (
    "f 1 2 4 3\nf 5 7 8 6\nf 1 5 6 2\nf 3 4 8 7\nf 1 3 7 5\nf 2 6 8 4\n"
)
CATALOGUE = """\
# a comment
id=Mine#Models
name=Caf\\u00e9
license=whatever
id#1=cup
model#1=/models/cup/cup.obj
width#1=8
depth#1=4
height#1=2
creator#1=Jane "J" Doe
id#2=bus
model#2=/models/bus/bus.obj
width#2=1200
depth#2=250
height#2=300
id#3=lamp
model#3=/models/lamp.dae
"""
LICENCE = "under http://creativecommons.org/licenses/by/3.0/us/ ."


@pytest.fixture
def make_library(tmp_path):
    """A function that writes a furniture library."""

    def make(catalogue=CATALOGUE, licence=LICENCE, name="Mine", **files):
        path = tmp_path / f"{name}.sh3f"
        with zipfile.ZipFile(path, "w") as archive:
            if catalogue is not None:
                archive.writestr("PluginFurnitureCatalog.properties", catalogue)
            archive.writestr("LICENSE.TXT", licence)
            for model in ("cup", "bus"):
                archive.writestr(f"models/{model}/{model}.obj", BOX)
            for file_name, content in files.items():
                archive.writestr(file_name, content)
        return path

    return make


def test_meshes_have_real_sizes_licences_and_authors(make_library):
    folder = unpack_furniture((make_library(),))
    names = list_assets(folder)
    assert names == ("models/bus/bus.obj", "models/cup/cup.obj")
    bus, cup = (entry.info for entry in import_assets(folder, names))
    assert sorted(cup.size_m) == pytest.approx([0.02, 0.04, 0.08])
    assert max(bus.size_m) == pytest.approx(2.99)  # 12 m are more than the import allows
    assert (cup.licence, cup.credit) == ("CC-BY-3.0-US", 'Jane "J" Doe, Café for Sweet Home 3D')
    assert bus.credit == "Café for Sweet Home 3D"


@pytest.mark.parametrize(
    ("text", "licence"),
    [
        ("http://creativecommons.org/licenses/by/3.0/", "CC-BY-3.0"),
        ("http://creativecommons.org/choose/zero/", "CC0-1.0"),
        ("all rights reserved", ""),
    ],
)
def test_licences_are_identified(make_library, text, licence):
    folder = unpack_furniture((make_library(licence=text),))
    assert read_asset_card(folder / "models/cup/cup.obj").licence == licence


def test_several_libraries_are_subfolders(make_library):
    libraries = (make_library(), make_library(name="Other", licence="x"))
    names = list_assets(unpack_furniture(libraries))
    assert names[0] == "Mine/models/bus/bus.obj"
    assert names[-1] == "Other/models/cup/cup.obj"
    assert unpack_furniture(libraries) == unpack_furniture(libraries)


def test_broken_libraries_are_refused(make_library, tmp_path):
    table = [
        (make_library(catalogue=None, name="a"), "holds no PluginFurnitureCatalog.properties"),
        (
            make_library(CATALOGUE.replace("width#1=8", "width#1=nan"), name="b"),
            "a side is not above 0",
        ),
        (
            make_library(CATALOGUE.replace("width#1=8\n", ""), name="c"),
            "no width, depth and height",
        ),
        (make_library(name="d", **{"../out.obj": BOX}), "outside its folder"),
    ]
    (tmp_path / "e.sh3f").write_bytes(b"PK no zip")
    for path, problem in (*table, (tmp_path / "e.sh3f", "not a readable zip archive")):
        with pytest.raises(InputError, match=problem):
            unpack_furniture((path,))
    assert not (tmp_path / "out.obj").exists()


def test_models_outside_the_library_get_no_card(make_library, tmp_path):
    (tmp_path / "cup.obj").write_text(BOX)
    catalogue = CATALOGUE.replace("/models/cup/cup.obj", "../../../../cup.obj")
    folder = unpack_furniture((make_library(catalogue),))
    assert read_asset_card(folder / "models/cup/cup.obj").licence == ""
    assert not (tmp_path / "cup.toml").exists()


def test_clutter_is_scaled_into_the_range(make_library):
    path = make_library()
    folder = resolve_assets_folder(
        "Mine.sh3f", path.parent / "recipe.toml", "assets.clutter.folder"
    )
    clutter = ClutterFolder(folder, size_m=(0.1, 0.3))
    plain = import_asset_folder(AssetFolder(clutter=ClutterFolder(folder)), path)
    bus, cup = import_asset_folder(AssetFolder(clutter=clutter), path)
    assert (max(bus.size_m), max(cup.size_m)) == pytest.approx((0.3, 0.1))
    factor = 0.1 / 0.08
    assert cup.mesh.unit_m == pytest.approx(factor * plain[1].mesh.unit_m)
    assert cup.center_m == pytest.approx(np.multiply(plain[1].center_m, factor))
    assert cup.mass_kg.high == pytest.approx(factor**3 * plain[1].mass_kg.high)
    assert cup.fit_size((0.05, 0.2)) is cup
    with pytest.raises(ValueError, match="size_m must be"):
        ClutterFolder(folder, size_m=(0.3, 0.1))


def test_missing_packages_and_libraries_are_named(make_library, tmp_path, monkeypatch):
    recipe = tmp_path / "recipe.toml"
    monkeypatch.setattr("sim2cam.pipeline.asset_folder.find_furniture_libraries", lambda: ())
    with pytest.raises(RecipeError, match="apt-get install sweethome3d-furniture"):
        resolve_assets_folder("sweethome3d:", recipe, "assets.folder")
    with pytest.raises(RecipeError, match=r"none\.sh3f is missing"):
        resolve_assets_folder("none.sh3f", recipe, "assets.folder")
    library = make_library()
    monkeypatch.setattr(
        "sim2cam.pipeline.asset_folder.find_furniture_libraries", lambda: (library,)
    )
    assert list_assets(Path(resolve_assets_folder("sweethome3d:Mine", recipe, "k")))
    with pytest.raises(RecipeError, match=r"no library 'Mien'.*Did you mean 'Mine'"):
        resolve_assets_folder("sweethome3d:Mien", recipe, "assets.folder")
