"""Meshes of a detector's categories must match its trained objects."""

from __future__ import annotations

import numpy as np
import pytest
import trimesh

from sim2cam.data.known_objects import ObjectGeometry
from sim2cam.errors import InputError
from sim2cam.experiments.object_meshes import read_meshes

SIDES_MM = (60.0, 40.0, 20.0)
BRICK = ObjectGeometry(((-0.03, -0.02, -0.01), (0.03, 0.02, 0.01)))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with a brick in millimetres, as a file and in a folder, and another mesh."""
    monkeypatch.setenv("SIM2CAM_CACHE", str(tmp_path / "cache"))
    root = tmp_path / "meshes"
    root.mkdir()
    box = trimesh.creation.box(SIDES_MM)
    box.export(root / "brick.ply")
    box.export(root / "other.stl")
    return root


def test_triangles_are_in_metres_in_object_frame(folder):
    shapes = read_meshes(folder, {"brick": BRICK, "slab": BRICK})
    assert list(shapes) == ["brick"]
    assert shapes["brick"].shape == (12, 3, 3)
    corners = shapes["brick"].reshape(-1, 3)
    np.testing.assert_allclose(corners.min(axis=0), BRICK.extent_m[0], atol=1e-6)
    np.testing.assert_allclose(corners.max(axis=0), BRICK.extent_m[1], atol=1e-6)


def test_meshes_of_other_categories_are_refused(folder):
    with pytest.raises(InputError) as caught:
        read_meshes(folder, {"slab": BRICK, "cup": BRICK})
    assert str(caught.value) == (
        f"{folder}: no mesh of the detector's categories (cup, slab). Name files or folders after the "
        "categories."
    )


def test_mesh_of_other_size_is_refused(folder):
    with pytest.raises(InputError) as caught:
        read_meshes(folder, {"brick": ObjectGeometry(((-0.03, -0.02, 0.0), (0.03, 0.02, 0.02)))})
    assert str(caught.value) == (
        f"{folder}/brick.ply: the bounding box is (-30, -20, -10) to (30, 20, 10) mm; the detector was "
        "trained on (-30, -20, 0) to (30, 20, 20) mm. Use the meshes of its training renders."
    )


def test_two_meshes_of_one_object_are_refused(folder):
    (folder / "brick").mkdir()
    trimesh.creation.box(SIDES_MM).export(folder / "brick" / "large.ply")
    with pytest.raises(InputError) as caught:
        read_meshes(folder, {"brick": BRICK})
    assert str(caught.value) == (
        f"{folder}: brick.ply and brick/large.ply are both 'brick'. Keep one."
    )


def test_folder_without_meshes_is_refused(tmp_path):
    with pytest.raises(InputError, match="contains no mesh in a supported format"):
        read_meshes(tmp_path, {"brick": BRICK})
