"""Where assets and what they name may lie: links, circles, ROS packages, and nothing outside."""

import os
import re

import pytest
import trimesh
from PIL import Image

from sim2cam.assets.folder import list_assets
from sim2cam.assets.importer import import_assets
from sim2cam.assets.mesh import read_mesh_file
from sim2cam.assets.mesh_files.companions import FileLocation
from sim2cam.assets.walk import list_broken_links
from sim2cam.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore:(?s).*has no normals")

ROBOT = "<robot name='r'><link name='a'><visual><geometry><mesh filename='{}'/></geometry></visual></link></robot>"
OBJ = (
    "mtllib a.mtl\nusemtl m\nv 0 0 0\nv .1 0 0\nv 0 .1 0\nv 0 0 .1\nvt 0 0\nvt 1 0\nvt 0 1\n"
    "f 1/1 3/3 2/2\nf 1/1 2/2 4/3\nf 2/1 3/2 4/3\nf 1/1 4/2 3/3\n"
)


def box(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    trimesh.creation.box((0.1, 0.2, 0.3)).export(path)


def only(folder, name=None):
    (found,) = import_assets(folder, [name] if name else list_assets(folder))
    return found


def test_linked_folders_are_read_once_without_cycles(tmp_path):
    folder, store = tmp_path / "objects", tmp_path / "store"
    box(folder / "a/box.stl")
    box(store / "mugs/deep/mug.stl")
    box(store / "lone.stl")
    (folder / "mugs").symlink_to(store / "mugs")
    (folder / "twice").symlink_to(folder / "a")
    (folder / "lone.stl").symlink_to(store / "lone.stl")
    (folder / "up").symlink_to(tmp_path)
    (folder / "self.stl").symlink_to(folder / "self.stl")
    (folder / "gone.stl").symlink_to(store / "gone.stl")
    (store / "mugs/back").symlink_to(folder)
    names = ("a/box.stl", "lone.stl", "mugs/deep/mug.stl")
    assert list_assets(folder) == names
    assert list_broken_links(folder) == ("gone.stl", "mugs/back", "self.stl", "up")
    found = list(import_assets(folder, names))
    assert [one.info.mesh.category for one in found] == ["a", "lone", "deep"]


def test_companions_of_linked_mesh_are_next_to_target(tmp_path):
    folder, store = tmp_path / "objects", tmp_path / "store"
    (store / "textures").mkdir(parents=True)
    folder.mkdir()
    (store / "a.obj").write_text(OBJ)
    (store / "a.mtl").write_text("newmtl m\nmap_Kd textures/t.png\n")
    Image.new("RGB", (4, 4), "red").save(store / "textures/t.png")
    (folder / "a.obj").symlink_to(store / "a.obj")
    (folder / "all").symlink_to(store)
    for name in ("a.obj", "all/a.obj"):
        found = only(folder, name)
        assert "is ignored" not in " ".join(found.repairs)
        assert read_mesh_file(found.info.mesh).colors is not None


def test_companion_links_outside_folder_are_ignored(tmp_path):
    folder = tmp_path / "objects"
    folder.mkdir()
    Image.new("RGB", (4, 4), "red").save(tmp_path / "secret.png")
    (folder / "t.png").symlink_to(tmp_path / "secret.png")
    (folder / "a.obj").write_text(OBJ)
    (folder / "a.mtl").write_text("newmtl m\nmap_Kd t.png\n")
    said = " ".join(only(folder).repairs)
    assert "file 't.png' is missing. It is ignored." in said


def test_images_may_lie_anywhere_in_root(tmp_path):
    (tmp_path / "meshes").mkdir()
    (tmp_path / "textures").mkdir()
    (tmp_path / "meshes/a.obj").write_text(OBJ)
    (tmp_path / "meshes/a.mtl").write_text("newmtl m\nmap_Kd ..\\Textures\\t.PNG\n")
    whole = only(tmp_path)
    assert "is missing" in " ".join(whole.repairs)
    Image.new("RGB", (4, 4), "red").save(tmp_path / "textures/T.png")
    whole, part = only(tmp_path), only(tmp_path / "meshes")
    assert "is missing" not in " ".join(whole.repairs)
    assert "is missing" in " ".join(part.repairs)
    assert whole.info.mesh.digest != part.info.mesh.digest


@pytest.mark.parametrize("name", ["meshes/a.stl", "package://arm/meshes/a.stl"])
def test_model_is_read_without_cache(tmp_path, monkeypatch, name):
    box(tmp_path / "arm/meshes/a.stl")
    (tmp_path / "arm/urdf").mkdir()
    (tmp_path / "arm/urdf/r.urdf").write_text(ROBOT.format(name.replace("meshes", "../meshes") if name[0] == "m" else name))  # fmt: skip
    mesh = only(tmp_path).info.mesh
    monkeypatch.setenv("SIM2CAM_CACHE", str(tmp_path / "another"))
    read_mesh_file.cache_clear()
    assert len(read_mesh_file(mesh).mesh.faces) == 12
    box(tmp_path / "arm/meshes/a.stl")
    trimesh.creation.box((0.1, 0.2, 0.4)).export(tmp_path / "arm/meshes/a.stl")
    read_mesh_file.cache_clear()
    with pytest.raises(InputError, match="changed since its import"):
        read_mesh_file(mesh)


WAYS = {
    "package://arm/meshes/a.stl": {},
    "model://arm/meshes/a.stl": {},
    "../meshes/a.stl": {},
    "..\\meshes\\A.STL": {},
    "package://other/meshes/a.stl": {"arm/package.xml": "<package><name>other</name></package>"},
    "package://beside/a.stl": {"beside/a.stl": None},
    "package://arm/deep/../meshes/a.stl": {"arm/deep/x": ""},
}


@pytest.mark.parametrize("name", WAYS)
def test_resolves_meshes_of_ros_packages(tmp_path, name):
    box(tmp_path / "arm/meshes/a.stl")
    for place, text in WAYS[name].items():
        if text is None:
            box(tmp_path / place)
        else:
            (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / place).write_text(text)
    (tmp_path / "arm/urdf").mkdir()
    (tmp_path / "arm/urdf/r.urdf").write_text(ROBOT.format(name))
    others = ("arm/meshes/a.stl",) if "beside" in name else ()
    assert list_assets(tmp_path) == (*others, "arm/urdf/r.urdf")
    assert only(tmp_path, "arm/urdf/r.urdf").info.n_faces == 12


def test_absolute_paths_are_read_within_folder(tmp_path):
    box(tmp_path / "in/my a.stl")
    box(tmp_path / "out.stl")
    for scheme in ("file://", ""):
        place = str(tmp_path / "in/my a.stl")
        told = place.replace(" ", "%20") if scheme else place
        (tmp_path / "in/r.urdf").write_text(ROBOT.format(f"{scheme}{told}"))
        assert only(tmp_path / "in").info
        (tmp_path / "in/r.urdf").write_text(ROBOT.format(f"{scheme}{tmp_path}/out.stl"))
        assert "is missing" in only(tmp_path / "in", "r.urdf").error


def test_resolves_ros_package_path(tmp_path, monkeypatch):
    box(tmp_path / "ros/share/arm/meshes/a.stl")
    box(tmp_path / "ros/secret.stl")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/r.urdf").write_text(ROBOT.format("package://arm/meshes/a.stl"))
    absent = "mesh 'package://arm/meshes/a.stl' is missing. Copy it to the folder, or give a folder that contains both."
    assert only(tmp_path / "in").error == f"{tmp_path}/in/r.urdf: {absent}"
    monkeypatch.setenv("ROS_PACKAGE_PATH", f"/nowhere{os.pathsep}{tmp_path}/ros/share")
    assert only(tmp_path / "in").info
    monkeypatch.setenv("ROS_PACKAGE_PATH", str(tmp_path / "ros/share/arm"))
    assert only(tmp_path / "in").info
    (tmp_path / "in/r.urdf").write_text(ROBOT.format("package://arm/../../secret.stl"))
    assert "is missing" in only(tmp_path / "in").error


OUTSIDE = (
    "../out.stl", "package://in/../out.stl", "package://../out.stl", "model://x/../../out.stl", "no.stl",
    "http://127.0.0.1:9/a.stl", "package://", "file://out.stl", "..\\out.stl", "../OUT.stl", "link.stl",
)  # fmt: skip


def test_files_outside_folder_are_not_read(tmp_path):
    box(tmp_path / "out.stl")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/link.stl").symlink_to(tmp_path / "out.stl")
    for number, name in enumerate(OUTSIDE):
        (tmp_path / f"in/{number}.urdf").write_text(ROBOT.format(name))
    names = [f"{number}.urdf" for number in range(len(OUTSIDE))]
    for found in import_assets(tmp_path / "in", names):
        assert re.search("is missing|is not in a supported format", found.error), found.name


def test_case_insensitive_search_stays_in_folder(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "Out.png").touch()
    (tmp_path / "in/A.png").touch()
    (tmp_path / "in/a.obj").touch()
    place = FileLocation(tmp_path / "in/a.obj", tmp_path / "in")
    assert place.find("a.PNG") == tmp_path / "in/A.png"
    assert place.find("../in/a.png") == tmp_path / "in/A.png"
    outside = ("../out.png", "../OUT.PNG", "/out.png", "~/a.png")
    for name in (*outside, "", ".", "..", "a\0.png", "x" * 5000):
        assert place.find(name) is None
