"""glTF as its specification has it: y up, linear colours, escaped names, pictures that repeat."""

import re
import warnings

import numpy as np
import pytest
from gltf_files import FACES, Maker, data_uri, image_file

from sim2cam import images
from sim2cam.assets.mesh import read_mesh_file
from sim2cam.errors import InputError, RepairWarning
from sim2cam.scene.shape import MeshFile
from sim2cam.surfaces.textures import encode_srgb

pytestmark = pytest.mark.filterwarnings("ignore:(?s).*has no normals")

# A tetrahedron that stands on y = 0, its top above (0.1, 0, 0.1).
CORNERS = np.array([[0, 0, 0], [0.3, 0, 0], [0, 0, 0.3], [0.1, 0.5, 0.1]], "<f4")
PLACES = np.array([[0, 0], [1, 0], [0, 1], [0.5, 0.5]], "<f4")
STRIPES = np.repeat(np.uint8([[[250, 128, 3]], [[40, 200, 90]]]), 8, axis=0).repeat(16, axis=1)


def linear(level):
    """The linear value of an sRGB byte."""
    return float(images.SRGB_TO_LINEAR[level])


def gltf(folder, *solids, pictures=(), uri=None):
    """A file with a primitive for each of ``solids``: the material, and attributes besides the corners."""
    maker, materials = Maker(), []
    for number, (material, attributes) in enumerate(solids):
        corners = maker.accessor(CORNERS + np.float32([number, 0, 0]))
        told = {name: maker.accessor(array) for name, array in attributes.items()}
        primitive = maker.primitive(FACES, corners, attributes=told)
        if material is not None:
            primitive["material"] = len(materials)
            materials.append({"pbrMetallicRoughness": material})
    maker.json |= {
        "materials": materials, "images": [{"uri": data_uri(image_file(one))} for one in pictures],
        "textures": [{"source": n} for n in range(len(pictures))],
    }  # fmt: skip
    return MeshFile(str(maker.write(folder, uri=uri)), "thing"), maker.data


def content_of(asset):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RepairWarning)
        warnings.filterwarnings("ignore", "(?s).*has no normals")
        read_mesh_file.cache_clear()
        return read_mesh_file(asset)


def colors_at(content, weights=(0.3, 0.3, 0.4)):
    """The texel (m, 3) nearest to a point of each face, those of the first mesh first."""
    uvs = np.einsum("c,fcd->fd", weights, content.mesh.uvs[content.mesh.faces])
    height, width = content.colors.shape[:2]
    column, row = np.floor(uvs * (width, height)).astype(int).T
    middles = content.mesh.vertices_m[content.mesh.faces].mean(axis=1)
    return content.colors[row, column].astype(int)[np.lexsort(middles.round(4).T[::-1])]


def test_converts_y_up_to_z_up(tmp_path):
    asset, _ = gltf(tmp_path, (None, {}))
    vertices = content_of(asset).mesh.vertices_m
    assert np.ptp(vertices, axis=0) == pytest.approx((0.3, 0.3, 0.5))
    assert vertices[vertices[:, 2].argmax()] == pytest.approx((0.1, -0.1, 0.5))


@pytest.mark.parametrize("level", [20, 60, 128, 188, 255])
def test_factors_of_materials_are_linear(tmp_path, level):
    factor = [linear(level), linear(level), 0.0, 1.0]
    asset, _ = gltf(tmp_path, ({"baseColorFactor": factor}, {}))
    assert np.abs(colors_at(content_of(asset)) - (level, level, 0)).max() == 0


@pytest.mark.parametrize(
    ("kind", "factor"), [("f4", None), ("f4", 0.5), ("u1", None), ("u1", 0.5), ("u2", 0.5)]
)
def test_colors_of_vertices_are_linear_and_multiply_factors(tmp_path, kind, factor):
    share = np.tile([[0.5, 1.0, 0.0, 1.0]], (4, 1))
    most = {"f4": 1, "u1": 255, "u2": 65535}[kind]
    paint = (share if most == 1 else np.round(share * most)).astype(f"<{kind}")
    material = None if factor is None else {"baseColorFactor": [factor, factor, 1.0, 1.0]}
    asset, _ = gltf(tmp_path, (material, {"COLOR_0": paint}))
    expected = encode_srgb(np.array([0.5, 1.0, 0.0]) * (1.0 if factor is None else factor))
    assert np.abs(colors_at(content_of(asset)) - expected).max() <= 1


@pytest.mark.parametrize("others", [0, 1])
def test_factors_multiply_images_linearly(tmp_path, others):
    material = {"baseColorFactor": [1.0, 0.5, 0.0, 1.0], "baseColorTexture": {"index": 0}}
    plain = ({"baseColorFactor": [0.0, 0.0, 1.0, 1.0]}, {})
    asset, _ = gltf(
        tmp_path, (material, {"TEXCOORD_0": PLACES}), *[plain] * others, pictures=[STRIPES]
    )
    found = colors_at(content_of(asset))
    stripes = encode_srgb(images.SRGB_TO_LINEAR[STRIPES[[0, -1], 0]] * (1.0, 0.5, 0.0)).astype(int)
    for color in found[:4]:
        assert np.abs(stripes - color).max(axis=1).min() <= 2
    assert (found[4:] == (0, 0, 255)).all()


def test_vertex_colors_over_images_are_reported(tmp_path):
    paint = np.full((4, 4), 0.5, "<f4")
    asset, _ = gltf(
        tmp_path,
        ({"baseColorTexture": {"index": 0}}, {"TEXCOORD_0": PLACES, "COLOR_0": paint}),
        pictures=[STRIPES],
    )
    with pytest.warns(RepairWarning, match="vertex colours of textured meshes are"):
        read_mesh_file(asset)


def test_repeated_images_are_tiled_in_atlas(tmp_path):
    pictured = ({"baseColorTexture": {"index": 0}}, {"TEXCOORD_0": 3 * PLACES - 1})
    white = ({"baseColorTexture": {"index": 1}}, {"TEXCOORD_0": PLACES})
    pictures = [STRIPES, np.full((8, 8, 3), 255, np.uint8)]
    alone = content_of(gltf(tmp_path, pictured, pictures=pictures[:1])[0])
    both = content_of(gltf(tmp_path, pictured, white, pictures=pictures)[0])
    same = []
    for weights in np.random.default_rng(0).dirichlet((1, 1, 1), 200):
        ours, found = colors_at(alone, weights), colors_at(both, weights)
        same += (np.abs(ours - found[:4]).max(axis=1) < 8).tolist()
        assert (found[4:] == 255).all()
    assert np.mean(same) > 0.9  # the others lie where a stripe ends


def test_vertex_colors_are_kept_in_atlas(tmp_path):
    paint = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]], "<f4")
    pictured = ({"baseColorTexture": {"index": 0}}, {"TEXCOORD_0": PLACES})
    plain = ({"baseColorFactor": [linear(90), linear(90), linear(200), 1.0]}, {})
    asset, _ = gltf(tmp_path, pictured, (None, {"COLOR_0": paint}), plain, pictures=[STRIPES])
    content = content_of(asset)
    alone = content_of(gltf(tmp_path, (None, {"COLOR_0": paint}))[0])
    expected = colors_at(alone, (0.8, 0.1, 0.1))
    found = colors_at(content, (0.8, 0.1, 0.1))
    assert np.abs(found[4:8] - expected).max() <= 1
    assert (found[8:] == (90, 90, 200)).all()
    for color in found[:4]:
        assert np.abs(STRIPES[[0, -1], 0].astype(int) - color).max(axis=1).min() <= 1


def test_shared_image_is_unchanged(tmp_path):
    material = {"baseColorTexture": {"index": 0}}
    solids = [(material, {"TEXCOORD_0": times * PLACES}) for times in (1, 3)]
    found = content_of(gltf(tmp_path, *solids, pictures=[STRIPES])[0])
    assert found.colors.shape == (48, 48, 3)
    assert np.array_equal(found.colors[:16, :16], STRIPES[::-1])


def test_names_of_files_are_escaped(tmp_path):
    asset, data = gltf(tmp_path, (None, {}), uri="my%20buf%23.bin")
    (tmp_path / "my buf#.bin").write_bytes(data)
    assert len(content_of(asset).mesh.faces) == 4
    (tmp_path / "my%20buf%23.bin").write_bytes(b"")  # if it is there, it is what was meant
    with pytest.raises(InputError, match=r"buffers\[0\] has 0 of 72 bytes"):
        content_of(asset)


@pytest.mark.parametrize(
    ("uri", "shown"),
    [("none%20.bin", "none .bin"), ("%2e%2e%2Fout.bin", "../out.bin"), ("../out.bin", "../out.bin"),
     ("..%2fout%00.bin", "../out\0.bin"), ("%2Fetc%2Fpasswd", "/etc/passwd"), ("a" * 5000, "a" * 5000)],
)  # fmt: skip
def test_missing_files_raise(tmp_path, uri, shown):
    (tmp_path / "in").mkdir()
    asset, data = gltf(tmp_path / "in", (None, {}), uri=uri)
    (tmp_path / "out.bin").write_bytes(data)
    message = f"{asset.path}: file '{shown}' is missing. Copy it to the folder of the glTF file."
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        content_of(asset)
