"""Readers held against trimesh's, on files that both understand."""

import warnings

import numpy as np
import pytest
import trimesh
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from sim2cam.assets.mesh_files.reader import read_solids
from sim2cam.errors import RepairWarning

WRITTEN = {
    "obj": {}, "ply": {"encoding": "binary"}, "ply ascii": {"encoding": "ascii"},
    "stl": {}, "stl ascii": {"file_type": "stl_ascii"}, "glb": {}, "gltf": {},
}  # fmt: skip


@st.composite
def meshes(draw):
    """Meshes of any triangles, with or without colours of vertices or an image."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count, faces = draw(st.integers(3, 40)), draw(st.integers(1, 60))
    vertices = np.unique(rng.normal(size=(count, 3)).astype(np.float32), axis=0)
    mesh = trimesh.Trimesh(
        vertices,
        np.array([rng.permutation(len(vertices))[:3] for _ in range(faces)]),
        process=False,
    )
    match draw(st.sampled_from(["plain", "colors", "image"])):
        case "colors":
            mesh.visual.vertex_colors = rng.integers(256, size=(len(vertices), 4), dtype=np.uint8)
        case "image":
            image = Image.fromarray(rng.integers(256, size=(4, 6, 3), dtype=np.uint8))
            uvs = rng.random((len(vertices), 2)).astype(np.float32)
            material = trimesh.visual.material.PBRMaterial(baseColorTexture=image)
            mesh.visual = trimesh.visual.TextureVisuals(uvs, material)
    return mesh


def ours(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RepairWarning)
        return read_solids(path, 10_000)[0]


def corners_of(vertices, faces, values):
    """The faces (n, 3, k) by the places and values of their corners, whatever corner comes first."""
    rows = np.concatenate([vertices, *([] if values is None else [values])], axis=1)[faces]
    rows = np.round(rows, 4) + 0.0
    turned = np.stack([np.roll(rows, step, axis=1).reshape(len(rows), -1) for step in range(3)])
    return sorted(max(map(tuple, turned[:, n])) for n in range(len(rows)))


@settings(
    deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@pytest.mark.parametrize("kind", WRITTEN)
@given(mesh=meshes())
def test_round_trip_of_faces_uvs_and_colours(tmp_path, kind, mesh):
    suffix = kind.split()[0]
    path = tmp_path / f"a.{suffix}"
    upright = np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]]) if suffix in ("glb", "gltf") else np.eye(3)  # fmt: skip
    if suffix == "gltf":
        files = trimesh.exchange.gltf.export_gltf(trimesh.Scene(mesh))
        for name, data in files.items():
            (tmp_path / name).write_bytes(data)
        path = tmp_path / "model.gltf"
    else:
        mesh.export(path, **WRITTEN[kind])
    solids = ours(path)
    found = [corners_of(one.vertices, one.faces, None) for one in solids]
    theirs = trimesh.load_scene(path, process=False).to_geometry()
    faces = sorted(face for faces in found for face in faces)
    assert faces == corners_of(theirs.vertices @ upright.T, theirs.faces, None)
    assert faces == corners_of(mesh.vertices @ upright.T, mesh.faces, None)
    if suffix == "stl" or mesh.visual.kind is None:
        return
    (solid,) = solids
    if mesh.visual.kind == "texture" and suffix != "ply":  # of which trimesh writes no image
        expected = corners_of(mesh.vertices @ upright.T, mesh.faces, mesh.visual.uv)
        assert corners_of(solid.vertices, solid.faces, solid.uvs) == expected
        assert np.array_equal(
            np.asarray(solid.image.convert("RGB")), mesh.visual.material.baseColorTexture
        )
    elif mesh.visual.kind == "vertex":
        colors = mesh.visual.vertex_colors[:, :3].astype(float)
        if suffix in ("glb", "gltf"):  # which are linear there
            return
        expected = corners_of(mesh.vertices @ upright.T, mesh.faces, colors)
        assert (
            corners_of(solid.vertices, solid.faces, solid.vertex_colors.astype(float)) == expected
        )
