"""Bringing in assets: cards, units, sizes, the cache, and children that break."""

import json
import math
import os
import re
from pathlib import Path

import numpy as np
import pytest
import trimesh

from sim2cam.assets import import_process, user_cache
from sim2cam.assets.folder import get_category, list_assets, list_unreadable, read_asset_card
from sim2cam.assets.importer import import_assets
from sim2cam.assets.mesh import read_mesh_file
from sim2cam.errors import InputError
from sim2cam.scene.asset_facts import AssetMetadata, PropertyRange
from sim2cam.scene.symmetry import Symmetries

BOX = (60.0, 40.0, 30.0)
LAMP = "<robot name='l'><link name='a'><visual><geometry><box size='1 1 1'/></geometry></visual></link></robot>"


@pytest.fixture
def folder(tmp_path):
    """A box of 60 x 40 x 30, in millimetres if anybody said."""
    trimesh.creation.box(BOX).export(tmp_path / "box.stl")
    return tmp_path


def only(folder, **options):
    (found,) = import_assets(folder, list_assets(folder), **options)
    return found


def test_measures_solid(folder):
    found = only(folder, unit="mm")
    facts = found.info
    assert (found.error, found.guessed_unit, found.repairs) == (None, None, ())
    assert facts.size_m == pytest.approx((0.06, 0.04, 0.03))
    assert facts.center_m == pytest.approx((0, 0, 0), abs=1e-9)
    assert facts.radius_m == pytest.approx(math.hypot(*BOX) / 2000)
    assert (facts.n_faces, facts.is_watertight, facts.mesh.category) == (12, True, "box")
    volume = 0.06 * 0.04 * 0.03
    assert facts.mass_kg.low == pytest.approx(300 * volume)
    assert facts.mass_kg.high == pytest.approx(1500 * volume)
    assert facts.mass_kg.source == "assumed: 300 to 1500 kg/m3"
    assert np.ptp(read_mesh_file(facts.mesh).mesh.vertices_m, axis=0) == pytest.approx(facts.size_m)


def test_guesses_millimetres_for_large_numbers_except_gltf(tmp_path):
    scales = {"a.ply": (1.0, "mm"), "b.ply": (0.001, "m"), "c.ply": (0.05, "m")}
    units = scales | {"d.ply": (0.06, "mm")}
    for name, (scale, _) in units.items():
        trimesh.creation.box(np.multiply(BOX, scale)).export(tmp_path / name)
    trimesh.creation.box((0.06, 0.03, 0.04)).export(tmp_path / "e.glb")  # whose y is up
    *others, gltf = import_assets(tmp_path, list_assets(tmp_path))
    for found in others:
        scale, unit = units[found.name]
        assert found.guessed_unit == unit
        assert max(found.info.size_m) == pytest.approx(60 * scale * {"m": 1.0, "mm": 0.001}[unit])
    assert gltf.guessed_unit is None
    (in_mm,) = import_assets(tmp_path, ["e.glb"], unit="mm")
    assert in_mm.info.size_m == gltf.info.size_m == pytest.approx((0.06, 0.04, 0.03))


def test_card_adds_properties(folder):
    (folder / "box.toml").write_text(
        'category = "parcel"\nunit = "cm"\nlicence = "CC0-1.0"\n'
        'mass_kg = { low = 0.2, high = 0.25, source = "kitchen scale" }\n'
        "friction = { low = 0.4, high = 0.5 }\nrestitution = { low = 0.0, high = 0.1 }\n"
        "center_of_mass = [3, -2, -5]\n[keypoints]\nlid = [30, 0, 15]\n[symmetries]\nrotations_wxyz = [[0, 0, 0, 1]]\n"
    )
    facts = only(folder, unit="mm").info
    assert facts.size_m == pytest.approx((0.6, 0.4, 0.3))
    assert facts.mesh.category == "parcel"
    assert facts.mesh.keypoints == (("lid", pytest.approx((0.3, 0.0, 0.15))),)
    assert facts.mass_kg == PropertyRange(0.2, 0.25, "kitchen scale")
    assert (facts.friction.high, facts.restitution.high) == (0.5, 0.1)
    assert facts.symmetries.rotations_wxyz == ((0, 0, 0, 1),)
    assert facts.licence == "CC0-1.0"
    assert facts.mass_offset_m == pytest.approx((0.03, -0.02, -0.05))


BAD_CARDS = [
    ("catgory = 'a'", "unknown key 'catgory'. Did you mean 'category'? Allowed: category, center_of_mass, "),
    ("category = 3", "'category': Input should be a valid string (found 3)."),
    ("category = ''", "category is empty. Give it a name."),
    ("unit = 'parsec'", "'unit': Input should be 'm', 'cm', 'mm' or 'in' (found \"parsec\")."),
    ("mass_kg = { low = 0, high = 1 }", "mass_kg must be above 0, not 0.0."),
    ("mass_kg = { low = 2, high = 1 }", "'mass_kg': a property range must be finite with 0 <= low <= high, not 2.0 to 1.0 (found "),
    ("friction = { low = 0, high = 3 }", "friction must be at most 2, not 3."),
    ("keypoints = { a = [nan, 0, 0] }", "keypoint a is at (nan, 0.0, 0.0). It must be finite."),
    ("[symmetries]\naxes = [[0, 0, 2]]", "the symmetry axis or rotation (0.0, 0.0, 2.0) must have length 1."),
    ("center_of_mass = [0, nan, 0]", "center_of_mass is (0.0, nan, 0.0). It must be finite."),
    ("center_of_mass = [0, 0, 16]", "center_of_mass: z is 16, outside the object (-15 to 15). Use the frame and unit of box.stl."),
    ("[symmetries]\nrotation_wxyz = [[1, 0, 0, 0]]", "unknown key 'symmetries.rotation_wxyz'. Did you mean 'rotations_wxyz'? Allowed: axes, rotations_wxyz"),
    ("mass_kg = { low = 0.1, high = 0.2, note = 'x' }", "unknown key 'mass_kg.note'. Allowed: high, low, source"),
    ("friction = { lwo = 0.1, high = 0.2 }", "unknown key 'friction.lwo'. Did you mean 'low'? "),
    ("mass_kg = 0.3", "'mass_kg' must be a table such as { low = 0.3, high = 0.3 } (found 0.3)."),
    ("symmetries = [[0, 0, 1]]", "'symmetries' must be a table such as { axes = [[0, 0, 1]] } (found [[0, 0, 1]])."),
    ("[keypoints]\nlid = [30, 0, 15]\nrim = [0, 0, 45.1]", "keypoint rim lies at (0.0, 0.0, 45.1), too far from the object's box "
     "((-30, -20, -15) to (30, 20, 15)). Use the frame and unit of box.stl."),
    ("[keypoints]\nlid = [0.03, -0.0501, -61]", "keypoint lid lies at (0.03, -0.0501, -61.0), too far "),
    ("= 3", "not TOML: "),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), BAD_CARDS, ids=[text[:20] for text, _ in BAD_CARDS])
def test_invalid_card_raises(folder, text, message):
    (folder / "box.toml").write_text(text)
    found = only(folder)
    assert found.info is None
    assert found.error.startswith(f"{folder / 'box.toml'}: {message}")


def test_size_out_of_range_raises(folder):
    assert only(folder, unit="m").error == (
        f"{folder / 'box.stl'}: the longest side is 60 m (unit: m); 0.001 to 3 m is allowed. "
        'Set unit = "mm" (or another unit) in box.toml.'
    )


def test_keypoints_may_lie_slightly_outside(folder):
    (folder / "box.toml").write_text(
        "[keypoints]\ngrip = [0, 0, 44.9]\nfoot = [-59.9, -49.9, -44.9]"
    )
    assert dict(only(folder).info.mesh.keypoints)["grip"] == pytest.approx((0, 0, 0.0449))


def test_model_size_out_of_range_raises(tmp_path):
    (tmp_path / "a.urdf").write_text(LAMP.replace("1 1 1", "60 1 1"))
    assert only(tmp_path).error == (
        f"{tmp_path / 'a.urdf'}: the longest side is 60 m (unit: m); 0.001 to 3 m is allowed. "
        "URDF files are in metres: scale the model."
    )


def test_file_names_that_are_not_utf8_are_reported(folder):
    Path(os.fsdecode(bytes(folder) + b"/m\xfcg.stl")).write_bytes((folder / "box.stl").read_bytes())
    box, mug = import_assets(folder, list_assets(folder))
    assert box.info
    assert (mug.name, mug.error) == (
        "m\ufffdg.stl",
        f"{folder}/m\ufffdg.stl: the file name is not UTF-8. Rename the file.",
    )


def test_categories_come_from_cards_folders_or_files():
    assert get_category("mug.obj", AssetMetadata()) == "mug"
    assert get_category("mugs/blue.obj", AssetMetadata()) == "mugs"
    assert get_category("kitchen/mugs/blue.obj", AssetMetadata()) == "mugs"
    assert get_category("mugs/blue.obj", AssetMetadata(category="cup")) == "cup"


def test_bop_models_are_in_millimetres_with_symmetries(tmp_path):
    turn = np.diag([-1.0, -1.0, 1.0, 1.0])
    turn[:3, 3] = (0.3, 0.0, 0.0)
    info = {
        "5": {
            "diameter": 78.0, "min_x": -30, "size_x": 60,
            "symmetries_discrete": [turn.ravel().tolist()],
            "symmetries_continuous": [{"axis": [0, 0, 1], "offset": [0, 0, 0]}],
        }
    }  # fmt: skip
    (tmp_path / "models_info.json").write_text(json.dumps(info))
    trimesh.creation.box(np.multiply(BOX, 0.02)).export(tmp_path / "obj_000005.ply")
    found = only(tmp_path)
    assert found.guessed_unit is None
    assert found.info.size_m == pytest.approx((0.0012, 0.0008, 0.0006))
    assert found.info.symmetries.axes == ((0, 0, 1),)
    (rotation,) = found.info.symmetries.rotations_wxyz
    assert np.abs(rotation) == pytest.approx((0, 0, 0, 1), abs=1e-9)
    info["5"]["symmetries_discrete"][0][3] = 30.0
    (tmp_path / "models_info.json").write_text(json.dumps(info))
    with pytest.raises(InputError, match="obj_000005: symmetries must be about the origin"):
        read_asset_card(tmp_path / "obj_000005.ply")


def test_card_overrides_bop_info(tmp_path):
    axis = {"axis": [0, 0, 1], "offset": [0, 0, 50]}
    info = {"5": {"diameter": 78.0, "symmetries_continuous": [axis]}}
    path = tmp_path / "obj_000005.ply"
    (tmp_path / "models_info.json").write_text(json.dumps(info))
    card = tmp_path / "obj_000005.toml"
    card.write_text("licence = 'CC0-1.0'")
    with pytest.raises(InputError, match="symmetries must be about the origin"):
        read_asset_card(path)
    card.write_text("licence = 'CC0-1.0'\n[symmetries]\naxes = [[0, 1, 0]]")
    assert read_asset_card(path) == AssetMetadata(
        unit="mm", licence="CC0-1.0", symmetries=Symmetries(axes=((0, 1, 0),))
    )
    axis["offset"] = [0, 0, 0]
    (tmp_path / "models_info.json").write_text(json.dumps(info))
    card.write_text("category = 'can'\nunit = 'cm'")
    assert read_asset_card(path) == AssetMetadata(
        "can", unit="cm", symmetries=Symmetries(axes=((0, 0, 1),))
    )


def test_cached_asset_is_not_read_again(folder, monkeypatch):
    first = only(folder)
    monkeypatch.setattr(
        import_process.ImportWorker, "measure", lambda *_: pytest.fail("a child was asked")
    )
    assert only(folder) == first


def test_changed_content_changes_digest(folder):
    first = only(folder)
    trimesh.creation.box((61, 40, 30)).export(folder / "box.stl")
    second = only(folder)
    assert second.info.size_m[0] == pytest.approx(0.061)
    assert second.info.mesh.digest != first.info.mesh.digest
    read_mesh_file.cache_clear()
    assert read_mesh_file(first.info.mesh).mesh.vertices_m.max() == pytest.approx(0.03)
    (user_cache.get_folder() / f"{first.info.mesh.digest}.npz").unlink()
    read_mesh_file.cache_clear()
    with pytest.raises(InputError, match="changed since its import"):
        read_mesh_file(first.info.mesh)


def test_companion_files_enter_digest(tmp_path):
    (tmp_path / "a.mtl").write_text("newmtl m\nKd 1 0 0\n")
    (tmp_path / "a.obj").write_text(
        "mtllib a.mtl\nusemtl m\nv 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 2 3 4\n"
    )
    red = only(tmp_path).info.mesh.digest
    assert only(tmp_path).info.mesh.digest == red
    (tmp_path / "a.mtl").write_text("newmtl m\nKd 0 1 0\n")
    assert only(tmp_path).info.mesh.digest != red


def test_reading_times_out(folder, monkeypatch):
    trimesh.creation.box((61, 41, 31)).export(folder / "late.stl")
    monkeypatch.setattr(import_process, "MAX_SECONDS", 0.0)
    monkeypatch.setattr(import_process, "_START_SECONDS", 0.0)
    found = list(import_assets(folder, ["late.stl"]))
    assert (
        found[0].error == f"{folder / 'late.stl'}: reading takes more than 0 s. Simplify the mesh."
    )
    monkeypatch.undo()
    assert next(import_assets(folder, ["late.stl"])).info


def test_decomposition_times_out(folder, monkeypatch):
    trimesh.creation.torus(30, 10).export(folder / "ring.stl")
    monkeypatch.setattr(import_process, "_DECOMPOSITION_SECONDS", {"vhacd": 0.0, "coacd": 0.0})
    (found,) = import_assets(folder, ["ring.stl"])
    assert found.error == (
        f"{folder / 'ring.stl'}: convex decomposition takes more than 0 s. Simplify the mesh."
    )


def test_import_continues_after_child_crash(folder, monkeypatch):
    trimesh.creation.box((62, 42, 32)).export(folder / "last.stl")
    start = import_process.ImportWorker._start
    started = []

    def start_dying(self):
        process = start(self)
        if not started:
            process.kill()
        started.append(process)
        return process

    monkeypatch.setattr(import_process.ImportWorker, "_start", start_dying)
    for entry in user_cache.get_folder().glob("*.json"):
        entry.unlink()
    first, second = import_assets(folder, ["box.stl", "last.stl"])
    path = re.escape(str(folder / "box.stl"))
    assert re.fullmatch(
        rf"{path}: cannot be read; the process ended \(exit code -9\)\.", first.error
    )
    assert second.info
    assert len(started) == 2


def test_names_are_sorted_and_links_are_followed(tmp_path):
    for name in ("b/x.obj", "a.PLY", ".hidden/y.obj", "z.txt", "b/.x.obj", "fifo.obj"):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    (tmp_path / "out.obj").write_text("")
    Path(tmp_path / "in/link.obj").symlink_to(tmp_path / "out.obj")
    assert list_assets(tmp_path / "in") == ("a.PLY", "b/x.obj", "fifo.obj", "link.obj")
    with pytest.raises(InputError, match="no such folder"):
        list_assets(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="contains no mesh in a supported format"):
        list_assets(tmp_path / "empty")
    (tmp_path / "empty/arm.fbx").write_text("<robot/>")
    assert list_unreadable(tmp_path / "empty") == ("arm.fbx",)
    with pytest.raises(InputError, match=r" Convert arm\.fbx to GLB\."):
        list_assets(tmp_path / "empty")


PART = "<robot name='l'><link name='a'><visual><geometry><mesh filename='{}'/></geometry></visual></link></robot>"
MJCF = (
    """<mujoco><compiler meshdir="parts"/><asset><mesh file="{}"/></asset><worldbody/></mujoco>"""
)


@pytest.mark.parametrize(
    ("model", "text", "part"),
    [
        ("a.urdf", PART.format("cups/a.stl"), "cups/a.stl"),
        ("in/a.urdf", PART.format("./my &amp; a.stl"), "in/my & a.stl"),
        ("a.urdf", PART.format("package://robot/cups/a.STL"), "cups/a.STL"),
        ("a.urdf", PART.format("package://cups/a.dae"), "cups/a.dae"),
        ("a.sdf", "<uri> model://robot/a.stl </uri>", "a.stl"),
        ("a.mjcf", MJCF.format("a.stl"), "parts/a.stl"),
        ("a.xml", "<!-- " + 9000 * "licence " + "-->" + MJCF.format("in/a.stl"), "parts/in/a.stl"),
    ],
)
def test_model_meshes_are_not_listed_as_assets(tmp_path, model, text, part):
    for name in (part, "other.stl", "mugs/a.stl", "in/cups/a.stl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / model).write_text(text)
    assert list_assets(tmp_path) == tuple(
        sorted([model, "in/cups/a.stl", "mugs/a.stl", "other.stl"])
    )
